package inspect

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// configEntry is one setting in a configuration file.
type configEntry struct {
	name  string // dotted, canonical: "trainer.max_epochs"
	key   string // dotted, as written
	value string
	file  string // as on the command line
	line  int
}

const (
	maxConfigBytes   = 1 << 20
	maxConfigEntries = 10_000
	maxConfigDepth   = 12
)

// readConfigs reads the configuration files named by the program's arguments, last first, then those named by its
// script, and those of hydra.main.
func (c *Command) readConfigs() []configEntry {
	if c.inner != nil {
		return nil
	}
	var out []configEntry
	for _, w := range slices.Backward(c.words) {
		if c.isConfig(w) {
			out = append(out, readConfig(at(c.Dir, w.value), w.value)...)
		}
	}
	for _, path := range c.scriptConfigs() {
		out = append(out, readConfig(at(c.Dir, path), path)...)
	}
	return append(out, c.hydraConfig()...)
}

// scriptConfigs returns the configuration files named by the script: defaults of options that the command line does
// not set, and files opened by a literal name.
func (c *Command) scriptConfigs() (paths []string) {
	if c.source == nil {
		return nil
	}
	for _, o := range c.source.options {
		given := slices.ContainsFunc(c.words, func(w word) bool {
			n, _ := c.optionOf(w)
			return slices.ContainsFunc(o.names, func(name string) bool { return strings.EqualFold(name, n) })
		})
		named := slices.ContainsFunc(o.names, func(name string) bool { return configName(canonical(name)) })
		if v, ok := c.source.literal(o.value); ok && named && !given && configSuffixes[filepath.Ext(v)] {
			paths = append(paths, v)
		}
	}
	for i := range c.source.calls {
		call := &c.source.calls[i]
		if call.full != "open" && call.full != "omegaconf.OmegaConf.load" || len(call.args) == 0 || len(call.args[0].tokens) != 1 {
			continue
		}
		if len(call.args) > 1 && call.args[1].key == "" {
			if mode, _ := onlyString(call.args[1].tokens); !strings.HasPrefix(mode, "r") {
				continue
			}
		}
		if v, ok := c.source.literal(call.args[0].tokens); ok && configSuffixes[filepath.Ext(v)] {
			paths = append(paths, v)
		}
	}
	return paths
}

// writes reports whether a script opens a file of this name for writing: its state rather than its configuration.
func (s *script) writes(file string) bool {
	return s != nil && slices.ContainsFunc(s.calls, func(c call) bool {
		if c.full != "open" || len(c.args) < 2 {
			return false
		}
		name, _ := s.literal(c.args[0].tokens)
		mode, _ := onlyString(c.args[1].tokens)
		return name == file && !strings.HasPrefix(mode, "r")
	})
}

// configSuffixes are the suffixes of files that contain settings rather than data.
var configSuffixes = set(".yaml", ".yml", ".toml")

// configName reports whether an option with this canonical name takes a configuration file.
func configName(n string) bool {
	return n == "c" || n == "f" || strings.Contains(n, "conf") || strings.Contains(n, "cfg") || n == "args_file"
}

// isConfig reports whether an argument is a configuration file: --config x.yaml, config=train.conf, a positional JSON
// or YAML file, or a Python file for a configurator.
func (c *Command) isConfig(w word) bool {
	ext := strings.ToLower(filepath.Ext(w.value))
	switch ext {
	case ".yaml", ".yml", ".json", ".conf", ".cfg", ".toml":
	case ".py":
		return w.form == positional && c.source != nil && c.source.configurator()
	default:
		return false
	}
	return w.form == positional || configName(last(w.name))
}

// readConfig parses a configuration file; nil when it is unreadable or invalid. The format follows the suffix:
// literal assignments of a .py file, key = value of .conf and .toml, otherwise YAML, which includes JSON. Files above
// maxConfigBytes are rejected.
func readConfig(path, shown string) []configEntry {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxConfigBytes {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var out []configEntry
	switch strings.ToLower(filepath.Ext(path)) {
	case ".py":
		s := parse(string(data))
		for _, a := range s.assignments {
			if v, ok := s.literal(a.value); ok && a.how == assigned && a.scope == "" {
				out = append(out, configEntry{canonical(a.target), a.target, v, shown, a.line})
			}
		}
		slices.Reverse(out) // the last one takes effect
	case ".conf", ".cfg", ".toml":
		out = readKeyValues(string(data), shown)
	default:
		var doc yaml.Node
		if yaml.Unmarshal(data, &doc) == nil {
			walkConfig(&doc, "", shown, 0, &out)
		}
	}
	return out
}

// walkConfig appends the settings of a YAML or JSON document: scalars and short lists.
func walkConfig(n *yaml.Node, prefix, file string, depth int, out *[]configEntry) {
	if depth > maxConfigDepth || len(*out) >= maxConfigEntries {
		return
	}
	switch n.Kind {
	case yaml.DocumentNode:
		for _, child := range n.Content {
			walkConfig(child, prefix, file, depth, out)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			walkConfig(n.Content[i+1], join(prefix, n.Content[i].Value), file, depth+1, out)
		}
	case yaml.ScalarNode:
		*out = append(*out, configEntry{canonical(prefix), prefix, n.Value, file, n.Line})
	case yaml.SequenceNode, yaml.AliasNode:
		if value := flat(nil, n); prefix != "" && len(value) <= maxConfigList {
			*out = append(*out, configEntry{canonical(prefix) + listSuffix, prefix + listSuffix, string(value), file, n.Line})
		}
	}
}

// listSuffix ends the name of a list, whose value is in one line. A list longer than maxConfigList bytes is data.
const (
	listSuffix    = "[]"
	maxConfigList = 4 << 10
)

// flat appends the scalars below a node in one line, which ends early above maxConfigList bytes.
func flat(line []byte, n *yaml.Node) []byte {
	if n.Kind == yaml.ScalarNode || n.Kind == yaml.AliasNode {
		return append(line, n.Value...)
	}
	line = append(line, '[')
	for _, child := range n.Content {
		if len(line) > maxConfigList {
			break
		}
		line = append(flat(line, child), ' ')
	}
	return append(line, ']')
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// readKeyValues parses lines of key = value with [sections], as in files of LightGBM, XGBoost, spaCy and TOML.
func readKeyValues(text, file string) []configEntry {
	var out []configEntry
	section := ""
	for i, l := range strings.Split(text, "\n") {
		l, _, _ = strings.Cut(l, "#")
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "[") {
			section = strings.Trim(l, "[] ")
			continue
		}
		if k, v, ok := strings.Cut(l, "="); ok && len(out) < maxConfigEntries {
			key := join(section, strings.TrimSpace(k))
			out = append(out, configEntry{canonical(key), key, strings.Trim(strings.TrimSpace(v), `"'`), file, i + 1})
		}
	}
	return out
}

// hydraConfig reads the configuration of a script with hydra.main, including the groups in its defaults list. The
// command line may override the folder, the name and the choices of groups.
func (c *Command) hydraConfig() []configEntry {
	if c.source == nil {
		return nil
	}
	for i := range c.source.calls {
		call := &c.source.calls[i]
		if call.full != "hydra.main" {
			continue
		}
		text := func(key string) string {
			t, _ := call.arg(key)
			v, _ := onlyString(t)
			return v
		}
		folder, main := text("config_path"), text("config_name")
		groups := map[string]string{}
		for _, w := range c.words {
			switch {
			case w.name == "config_name" || w.name == "cn":
				main = w.value
			case w.name == "config_path" || w.name == "cp":
				folder = w.value
			case w.form == pair:
				groups[w.name] = w.value
			}
		}
		folder = filepath.Join(filepath.Dir(c.Script), folder)
		return hydraGroups(folder, main, groups)
	}
	return nil
}

// hydraGroups reads folder/main.yaml and the folder/group/choice.yaml of its defaults; groups contains the choices of
// the command line. Names with ".." are ignored, so that only files inside the folder are read.
func hydraGroups(folder, main string, groups map[string]string) []configEntry {
	named := func(n string) string {
		if filepath.Ext(n) == "" {
			n += ".yaml"
		}
		return n
	}
	if main == "" || strings.Contains(main, "..") {
		return nil
	}
	path := filepath.Join(folder, named(main))
	out := readConfig(path, named(main))
	data, err := os.ReadFile(path)
	if err != nil || len(out) == 0 {
		return out
	}
	var list struct {
		Defaults []yaml.Node `yaml:"defaults"`
	}
	if yaml.Unmarshal(data, &list) != nil {
		return out
	}
	for _, d := range list.Defaults[:min(len(list.Defaults), 50)] {
		var one map[string]string
		if d.Decode(&one) != nil {
			continue
		}
		for group, choice := range one {
			group = strings.TrimPrefix(strings.TrimPrefix(group, "override "), "optional ")
			if chosen, ok := groups[canonical(group)]; ok {
				choice = chosen
			}
			if choice == "" || strings.Contains(choice+group, "..") {
				continue
			}
			file := filepath.Join(group, named(choice))
			for _, e := range readConfig(filepath.Join(folder, file), file) {
				prefix := strings.ReplaceAll(group, "/", ".")
				e.name, e.key = join(canonical(prefix), e.name), join(prefix, e.key)
				out = append(out, e)
			}
		}
	}
	return out
}

// accelerateRanks returns num_processes in the configuration file of accelerate launch; 0 without it.
func accelerateRanks(l launcher, argv []string, dir string) int {
	for _, w := range l.words(argv) {
		if w.name != "config_file" {
			continue
		}
		for _, e := range readConfig(at(dir, w.value), w.value) {
			if n, err := strconv.Atoi(e.value); err == nil && e.name == "num_processes" {
				return n
			}
		}
	}
	return 0
}

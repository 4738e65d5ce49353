package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"trainopt/internal/stat"
)

// Command is a parsed command line with the contents of its files: the script that it runs and its configuration
// files.
type Command struct {
	Argv []string
	Dir  string // base of relative paths; "" is the working directory
	// Script is the path of the Python script; "" for an installed command.
	Script string
	// FilesDigest is a hash of the local modules that the script imports, of the script that a shell script runs and of the
	// configuration files, without comments and settings that do not change the amount of work; "" without such files.
	FilesDigest string

	line   line
	words  []word            // the program's own arguments
	source *script           // parsed Script; nil without one
	whole  *script           // the same with the local modules that it imports; nil without them
	config []configEntry     // settings in configuration files
	env    map[string]string // variables that it sets or its shell script exports
	inner  *Command          // the command run by a shell script; its arguments cannot be changed
	many   bool              // the shell script runs several trainings, or one in a loop
}

// ReadCommand reads a command line, the script that it runs and the configuration files that it names: regular files
// of at most maxSource and 1 MiB. Unreadable parts are unknown. A shell script is followed if its command is literal.
func ReadCommand(argv []string, dir string) *Command {
	c := readCommand(argv, dir, 0, nil)
	c.FilesDigest = c.digest()
	return c
}

// readCommand is ReadCommand at a given nesting depth. It locates the script by the kind of command line: shell
// script, inline code, script file, module, or a program given by its path whose #! line names an interpreter.
func readCommand(argv []string, dir string, depth int, env map[string]string) *Command {
	c := &Command{Argv: argv, Dir: dir, line: readLine(argv), env: maps.Clone(env)}
	l := &c.line
	for _, w := range argv[:min(l.args, len(argv))] { // env EPOCHS=3 python …
		if k, v, ok := strings.Cut(w, "="); ok && isShellName(k) && w != l.code {
			if c.env == nil {
				c.env = map[string]string{}
			}
			c.env[k] = v
		}
	}
	switch {
	case l.shell:
		if depth < maxNesting {
			c.inner, c.many = shellInner(l, dir, depth, c.env)
		}
	case l.code != "":
		c.source = parse(l.code)
	case l.script != "":
		c.readScript(at(dir, l.script))
	case l.module != "":
		base := at(dir, strings.ReplaceAll(l.module, ".", "/"))
		if !c.readScript(base + ".py") {
			c.readScript(filepath.Join(base, "__main__.py"))
		}
	case l.program != "" && !programs[l.program] && l.args > 0 && strings.Contains(argv[l.args-1], "/"):
		path := at(dir, argv[l.args-1])
		if head, err := readHead(path); err == nil && fileKind(path, head) == kindPython {
			c.readScript(path)
		} else if err == nil && fileKind(path, head) == kindShell && depth < maxNesting {
			l.script, l.shell = argv[l.args-1], true
			c.inner, c.many = shellInner(l, dir, depth, c.env)
		}
	}
	var toggles map[string]bool
	if c.source != nil {
		for _, s := range []*script{c.source, c.resuming()} {
			s.args, s.env = argv[l.args:], c.env
		}
		toggles = c.resuming().toggles()
	}
	c.words = readWords(argv, l.args, len(argv), toggles)
	c.config = c.readConfigs()
	if c.source != nil {
		c.source.stated = map[string]string{}
		c.resuming().stated = c.source.stated
		for _, w := range c.words {
			if o := c.source.optionNamed(w.key); o != nil && w.form != positional {
				for _, n := range o.names {
					c.source.stated[canonical(n)] = w.value
				}
			}
		}
	}
	return c
}

func (c *Command) readScript(path string) bool {
	data, _, err := read(path)
	if err != nil {
		return false
	}
	src, _ := decode(data[:min(len(data), maxSource)])
	c.Script, c.source = path, parse(src)
	c.whole = c.source.withModules(packageRoots(path, c.Dir))
	c.source.adopt(c.whole)
	return true
}

// resuming returns the source in which the training may resume.
func (c *Command) resuming() *script { return cmp.Or(c.whole, c.source) }

// maxWhole is the limit of a script with its modules, in bytes: reading 256 KiB takes some 0.1 s.
const maxWhole = 256 << 10

// packageRoots returns the directories in which the imports of a script are searched: its own, and those of the packages around
// it, up to the working directory if it is below that.
func packageRoots(path, working string) []string {
	roots := []string{filepath.Dir(path)}
	for len(roots) <= maxNesting {
		dir := roots[len(roots)-1]
		inside := working != "" && strings.HasPrefix(dir, filepath.Clean(working)+"/")
		if _, err := os.Lstat(filepath.Join(dir, "__init__.py")); err != nil && !inside {
			break
		}
		roots = append(roots, filepath.Dir(dir))
	}
	return roots
}

// withModules returns the script followed by the modules of the directories that it imports, those that fit; nil without any.
func (s *script) withModules(roots []string) *script {
	all := strings.Join(s.lines, "\n")
	var modules []module
	var files []string
	for _, im := range s.imports {
		path := strings.TrimPrefix(strings.ReplaceAll(strings.TrimLeft(im.path, "."), ".", "/"), filepath.Base(roots[0])+"/") // from trainer.utils import save, in trainer
		for _, p := range []string{path, filepath.Dir(path)} {                                                                // import utils, from utils import name
			for _, dir := range roots {
				file := filepath.Join(dir, p+".py")
				data, sum, err := read(file)
				if err != nil {
					continue
				}
				if slices.Contains(files, file) {
					break
				}
				files = append(files, file)
				if len(all)+len(data) < maxWhole {
					src, _ := decode(data)
					modules = append(modules, module{p + ".py", 1 + strings.Count(all, "\n")})
					all += "\n" + src
				} else {
					s.omitted = append(s.omitted, sum)
				}
				break
			}
		}
	}
	if modules == nil {
		return nil
	}
	return parse(all, modules...)
}

// module is a part of a script from another file, after a line.
type module struct {
	name  string
	after int
}

// elsewhere reports whether a line is one of another file.
func (s *script) elsewhere(line int) bool { return s.modules != nil && line > s.modules[0].after }

// place names a line.
func (s *script) place(line int) string {
	for _, m := range slices.Backward(s.modules) {
		if line > m.after {
			return fmt.Sprintf("line %d of %s", line-m.after, m.name)
		}
	}
	return fmt.Sprintf("line %d", line)
}

// shellInner returns the training command in a shell script or in the text of bash -c; nil without a literal one.
// many reports that it runs several trainings, in sequence or in a loop, so that the length of the job is unknown. Of
// several commands, the one with the highest score is returned, the last among equals.
func shellInner(l *line, dir string, depth int, env map[string]string) (best *Command, many bool) {
	text, home := l.code, dir
	if l.code == "" {
		path := at(dir, l.script)
		data, _, err := read(path)
		if err != nil {
			return nil, false
		}
		text, _ = decode(data[:min(len(data), maxSource)])
		home = filepath.Dir(path)
	}
	trainings := 0
	for _, sh := range shellCommands(text, home, l.shellArguments(), env) {
		if sh.words[0] == "cd" && len(sh.words) > 1 {
			dir = at(dir, sh.words[1])
			continue
		}
		inner := readCommand(sh.words, dir, depth+1, sh.env)
		if inner.source == nil && inner.line.script != "" && dir != home {
			inner = readCommand(sh.words, home, depth+1, sh.env)
		}
		if inner.score() > 0 && (best == nil || inner.score() >= best.score()) {
			best = inner
		}
		if len(inner.Lengths()) > 0 {
			trainings++
			many = many || sh.loop || trainings > 1
		}
	}
	return best, many
}

// score ranks the commands of a shell script; the training command scores highest, and 0 means no training.
func (c *Command) score() int {
	n := 0
	switch {
	case c.inner != nil:
		return c.inner.score()
	case c.source != nil:
		n = 1
		if f := c.source.framework().Value; f != "" && f != "stdlib" {
			n += 2
		}
		if trainName.MatchString(filepath.Base(c.Script)) {
			n += 4
		}
		if len(c.Lengths()) > 0 {
			n++
		}
	case programs[c.line.program]:
		n = 4
	}
	return n
}

// distributedWords occur in scripts whose processes on several machines find each other: by a framework, by the variables
// of torchrun or Slurm, or by MPI.
var distributedWords = regexp.MustCompile(`(?i)torch\.distributed|init_process_group|num_nodes|world_size|master_addr|slurm_|tf_config|multiworkermirrored|jax\.distributed|mpi4py|accelerat|deepspeed|horovod|trainingarguments|trainer\(|fabric`)

// Distributed reports whether the training can be one of several processes on different machines, as far as that is
// known: false only for a Python script without a launcher in whose text nothing suggests it.
func (c *Command) Distributed() bool {
	if c.inner != nil && c.line.script == "" {
		return c.inner.Distributed()
	}
	if c.source == nil || len(c.line.launchers) > 0 {
		return true
	}
	data, _, err := read(c.Script)
	return err != nil || distributedWords.Match(data)
}

// localRanks is localRanks of the command line and of the command in its shell script. It also counts processes
// started by a trainer itself (Lightning's trainer.devices) or set in the configuration file of accelerate.
func (c *Command) LocalRanks(gpus, cpus int) int {
	n := localRanks(c.Argv, gpus, cpus)
	if ls := c.line.launchers; n == 1 && len(ls) == 1 && ls[0].name == "accelerate" {
		n = max(1, accelerateRanks(ls[0], c.Argv, c.Dir))
	}
	if c.inner != nil {
		return n * c.inner.LocalRanks(gpus, cpus)
	}
	if n > 1 || c.source == nil || !c.lightningCLI() {
		return n
	}
	for _, w := range c.words {
		if w.name == "trainer.devices" {
			switch v, ok := amount(w.value); {
			case ok:
				n = int(v)
			case w.value == "auto" || w.value == "-1":
				n = max(1, gpus)
			}
		}
	}
	return n
}

func (c *Command) lightningCLI() bool {
	return c.calls("lightning.pytorch.cli.LightningCLI") || c.calls("pytorch_lightning.cli.LightningCLI") || c.calls("lightning.LightningCLI") || c.calls("LightningCLI")
}

// optionOf returns the canonical name of the option that a word sets, according to the script's declarations, and its
// help text. A positional word is matched with the positional options of a parser by its position.
func (c *Command) optionOf(w word) (name, help string) {
	if c.source == nil {
		return w.name, ""
	}
	if w.form == positional {
		n := stat.Count(c.words, func(before word) bool { return before.at < w.at && before.form == positional })
		for _, o := range c.source.options {
			if len(o.flags) == 0 && o.how == byParser {
				if n == 0 {
					return strings.ToLower(o.names[0]), o.help
				}
				n--
			}
		}
		return "", ""
	}
	if o := c.source.optionNamed(w.key); o != nil {
		best := w.name
		for _, n := range o.names {
			if len(n) > len(best) || len(best) == 1 {
				best = strings.ToLower(n)
			}
		}
		return best, o.help
	}
	return w.name, ""
}

// optionNamed returns the declared option with this key: one of its spellings, or an unambiguous prefix as accepted
// by argparse; nil without one.
func (s *script) optionNamed(key string) *option {
	n := canonical(key)
	var begins *option
	several := false
	for i := range s.options {
		o := &s.options[i]
		for _, f := range o.flags {
			switch {
			case f == key || len(n) > 1 && canonical(f) == n:
				return o
			case o.how == byParser && strings.HasPrefix(key, "--") && strings.HasPrefix(f, key) && begins != o:
				several = several || begins != nil
				begins = o
			}
		}
	}
	if several {
		return nil
	}
	return begins
}

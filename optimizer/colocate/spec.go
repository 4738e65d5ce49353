package colocate

import (
	"bytes"
	_ "embed" // the commented sample
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"trainopt/internal/stat"
	"trainopt/internal/wording"
	"trainopt/resources"
)

// Sample is a commented specification.
//
//go:embed sample.yaml
var Sample string

// Spec describes the apps and a node. The zero value of a field is its default.
type Spec struct {
	CPUs   string    `yaml:"cpus"`   // CPUs of a node, such as "0-3,8"; "": all usable ones that no load generator uses
	Warmup seconds   `yaml:"warmup"` // 0: 5 s
	Window seconds   `yaml:"window"` // 0: 10 s
	Apps   []appSpec `yaml:"apps"`
}

// appSpec is a program whose containers are placed.
type appSpec struct {
	Name       string            `yaml:"name"` // letters, digits, dots and dashes
	Command    commandArgs       `yaml:"command"`
	Dir        string            `yaml:"dir"` // working directory; "": that of the specification
	Env        map[string]string `yaml:"env"` // in addition to the environment of this process
	Ready      ready             `yaml:"ready"`
	Load       load              `yaml:"load"`
	Operations operations        `yaml:"operations"`
}

// ready is a readiness probe: a command that succeeds, or a line of the program's output. Without either, a program is
// ready when it has started.
type ready struct {
	Command commandArgs `yaml:"command"`
	Output  pattern     `yaml:"output"`
	Timeout seconds     `yaml:"timeout"` // 0: 30 s
}

// load is a load generator with CPUs of its own.
type load struct {
	Command commandArgs `yaml:"command"`
	CPUs    string      `yaml:"cpus"` // "": all usable CPUs that are not of the node
}

// operations is the way to count completed operations; exactly one of Output, End, Counter and Log is set.
type operations struct {
	Output  pattern     `yaml:"output"`  // lines of the output
	Counts  string      `yaml:"counts"`  // meaning of the group of Output: "total" so far (default) or of "each" line
	End     pattern     `yaml:"end"`     // output at the end of a program that is started for each window
	Counter commandArgs `yaml:"counter"` // a command that prints the total so far
	Match   pattern     `yaml:"match"`   // its number; default: the first
	Log     string      `yaml:"log"`     // a training log
	From    string      `yaml:"from"`    // whose output: "program" (default) or "load"
}

// commandArgs is a command line: a list is executed as it is, a text by /bin/sh.
type commandArgs []string

// UnmarshalYAML accepts a text or a list of texts.
func (c *commandArgs) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		if strings.TrimSpace(n.Value) != "" {
			text := n.Value
			if !strings.ContainsAny(text, ";|&\n") {
				text = "exec " + text // a single program replaces the shell
			}
			*c = commandArgs{"/bin/sh", "-c", text}
		}
		return nil
	}
	var words []string
	if err := n.Decode(&words); err != nil {
		return fmt.Errorf("line %d: a command is a text or a list of texts", n.Line)
	}
	*c = words
	return nil
}

// pattern is a regular expression; the zero value matches nothing.
type pattern struct{ *regexp.Regexp }

// UnmarshalYAML compiles a regular expression.
func (p *pattern) UnmarshalYAML(n *yaml.Node) error {
	re, err := regexp.Compile(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %q is not a regular expression: %w", n.Line, n.Value, err)
	}
	if n.Value != "" {
		p.Regexp = re
	}
	return nil
}

// seconds is a length of time.
type seconds float64

// UnmarshalYAML accepts 500ms, 2s or a number of seconds.
func (s *seconds) UnmarshalYAML(n *yaml.Node) error {
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil {
		d, other := time.ParseDuration(n.Value)
		v, err = d.Seconds(), other
	}
	if err != nil || !(v >= 0 && v <= 24*3600) {
		return fmt.Errorf("line %d: %q: want a length of time such as 500ms or 2s, at most a day", n.Line, n.Value)
	}
	*s = seconds(v)
	return nil
}

func (s seconds) duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Names returns the names of the apps.
func (s *Spec) Names() []string {
	names := make([]string, len(s.Apps))
	for i, a := range s.Apps {
		names[i] = a.Name
	}
	return names
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type colocate\.(\w+)`)

// ParseSpec reads a specification in YAML, as in Sample. The error lists all problems.
func ParseSpec(r io.Reader) (*Spec, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var s Spec
	in := yaml.NewDecoder(bytes.NewReader(data))
	in.KnownFields(true)
	if err := in.Decode(&s); err == io.EOF {
		return nil, errors.New("the file is empty")
	} else if err != nil {
		return nil, errors.New(explainYAML(err))
	}
	return &s, s.Validate()
}

// explainYAML returns an error of the parser in one line, with the nearest known key for an unknown one.
func explainYAML(err error) string {
	text := err.Error()
	if typed := (*yaml.TypeError)(nil); errors.As(err, &typed) {
		text = strings.Join(typed.Errors, "; ")
	}
	text = unknownField.ReplaceAllStringFunc(text, func(m string) string {
		part := unknownField.FindStringSubmatch(m)
		return fmt.Sprintf("unknown key %q: nearest known is %q", part[1], wording.Nearest(part[1], keys[part[2]], 1)[0])
	})
	return strings.ReplaceAll(strings.TrimPrefix(text, "yaml: "), "\n", " ")
}

// keys lists the keys of each section.
var keys = map[string][]string{
	"Spec":       {"cpus", "warmup", "window", "apps"},
	"appSpec":    {"name", "command", "dir", "env", "ready", "load", "operations"},
	"ready":      {"command", "output", "timeout"},
	"load":       {"command", "cpus"},
	"operations": {"output", "counts", "end", "counter", "match", "log", "from"},
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)

// Validate returns all problems of the specification, joined.
func (s *Spec) Validate() error {
	var errs wording.Problems
	errs.If(len(s.Apps) == 0, "no apps")
	_, err := parseCPUs(s.CPUs)
	errs.If(err != nil, "cpus: %w", err)
	errs.If(s.Window > 0 && s.Window < 0.1, "window %v s: want at least 100ms", float64(s.Window))
	names := s.Names()
	for i := range s.Apps {
		a := &s.Apps[i]
		label := fmt.Sprintf("app %d", i+1)
		if validName.MatchString(a.Name) {
			label = "app " + a.Name
		} else {
			errs.If(true, "%s: name %q: want letters, digits, dots and dashes", label, a.Name)
		}
		errs.If(slices.Index(names, a.Name) < i, "%s: the name is used twice", label)
		a.check(func(wrong bool, format string, args ...any) { errs.If(wrong, label+": "+format, args...) })
	}
	return errors.Join(errs...)
}

// check passes each condition that an app must not meet, with what is wrong then.
func (a *appSpec) check(bad func(wrong bool, format string, args ...any)) {
	bad(len(a.Command) == 0, "no command")
	bad(len(a.Ready.Command) > 0 && a.Ready.Output.Regexp != nil, "ready: command and output exclude each other")
	_, err := parseCPUs(a.Load.CPUs)
	bad(err != nil, "load: cpus: %v", err)
	bad(a.Load.CPUs != "" && len(a.Load.Command) == 0, "load: no command")
	o := &a.Operations
	given := []bool{o.Output.Regexp != nil, o.End.Regexp != nil, len(o.Counter) > 0, o.Log != ""}
	ways := stat.Count(given, func(set bool) bool { return set })
	bad(ways != 1, "operations: %d of output, end, counter and log are set, want one", ways)
	group := func(key string, p pattern, optional bool) {
		if p.Regexp != nil {
			n := p.NumSubexp()
			bad(n != 1 && !(optional && n == 0), "operations: %s has %d groups, want one: the number of operations", key, n)
		}
	}
	group("output", o.Output, o.Counts == "each")
	group("end", o.End, false)
	group("match", o.Match, false)
	bad(!slices.Contains([]string{"", "total", "each"}, o.Counts) || o.Counts != "" && o.Output.Regexp == nil, "operations: counts %q: want total or each, beside output", o.Counts)
	bad(o.Match.Regexp != nil && len(o.Counter) == 0, "operations: match requires counter")
	switch {
	case !slices.Contains([]string{"", "program", "load"}, o.From) || o.From != "" && o.Output.Regexp == nil:
		bad(true, "operations: from %q: want program or load, beside output", o.From)
	case o.From == "load" && len(a.Load.Command) == 0:
		bad(true, "operations: from: load: there is no load generator")
	default:
		bad(o.End.Regexp != nil && len(a.Load.Command) > 0, "operations: end cannot be combined with load: the program is started for each window")
	}
}

// parseCPUs parses a list of CPUs such as "0-3, 8"; nil for "".
func parseCPUs(text string) ([]int, error) {
	ids, err := resources.ParseCPUList(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		return nil, fmt.Errorf("%q: want a list of CPUs such as 0-3,8", text)
	}
	return ids, nil
}

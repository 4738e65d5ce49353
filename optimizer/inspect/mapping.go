package inspect

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Names of the knobs, settings that can be passed to a script.
const (
	KnobBatchSize     = "batch_size"
	KnobCheckpointDir = "checkpoint_dir"
	KnobEpochs        = "epochs"
	knobProcesses     = "nproc"
	KnobResume        = "resume"
	KnobSeed          = "seed"
	KnobSteps         = "steps"
	KnobWorkers       = "workers"
)

// knobNames are the names of all knobs, sorted.
var knobNames = []string{KnobBatchSize, KnobCheckpointDir, KnobEpochs, knobProcesses, KnobResume, KnobSeed, KnobSteps, KnobWorkers}

// knob is a setting of a training with the arguments that set it.
type knob struct {
	Name string
	// Template contains the arguments, separated by spaces; {} (or {path}, {latest}) is replaced by the value:
	// "--batch_size={}", "-j {}", "resume=True model={path}", "--init_from=resume".
	Template string
	// Present is the current value: on the command line, or else the script's default; "" when unknown.
	Present string
	// Source is the origin of the knob: "--knob", "preset ultralytics", "option --batch-size in line 12".
	Source string

	restores  bool       // resume: the script reads progress from what the argument names
	snapshots []string   // resume without a value: patterns of the names of the files that the script loads
	launcher  string     // launcher that takes the argument; "" for the program itself
	spellings [][]string // canonical synonyms, by argument of the template
	toggles   map[string]bool
	hydra     bool // the arguments are overrides of hydra
}

// Mapping contains the knobs of one command line, sorted by name.
type Mapping struct {
	Knobs []knob
	// Notes explain why an expected knob is missing.
	Notes []string
}

// Knob returns a knob by name.
func (m Mapping) Knob(name string) (knob, bool) {
	for _, k := range m.Knobs {
		if k.Name == name {
			return k, true
		}
	}
	return knob{}, false
}

// TakesValue reports whether the template contains a placeholder for a value.
func (k knob) TakesValue() bool { return placeholder(k.Template) != "" }

var placeholders = []string{"{latest}", "{path}", "{}"}

func placeholder(s string) string {
	for _, p := range placeholders {
		if strings.Contains(s, p) {
			return p
		}
	}
	return ""
}

// fill replaces every placeholder by the value.
func fill(s, value string) string {
	for _, p := range placeholders {
		s = strings.ReplaceAll(s, p, value)
	}
	return s
}

// templateWords returns the arguments of a template.
func (k knob) templateWords() []word {
	argv := strings.Fields(k.Template)
	return readWords(argv, 0, len(argv), nil)
}

// Apply returns the command line with the given knobs set; argv is not modified. A value already on the command line
// is replaced in its present spelling. Otherwise the arguments are added: those of a launcher before the program,
// those of the program at its end, before a "--". Other arguments are unchanged, and Apply is idempotent. For a knob
// without a placeholder, any value sets it. Values with line breaks are rejected.
func (m Mapping) Apply(argv []string, values map[string]string) ([]string, error) {
	out := slices.Clone(argv)
	for _, n := range slices.Sorted(maps.Keys(values)) {
		k, ok := m.Knob(n)
		if !ok {
			return nil, fmt.Errorf("set %s: no argument of the command is known to carry it; name it with --knob %s=FLAG={}", n, n)
		}
		v := values[n]
		if k.TakesValue() && (v == "" || strings.ContainsAny(v, "\n\x00")) {
			return nil, fmt.Errorf("set %s: value %q cannot be an argument", n, v)
		}
		var err error
		if out, err = k.apply(out, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// plainOverride matches values that overrides of hydra may contain without quotes: not epoch=3.ckpt.
var plainOverride = regexp.MustCompile(`[\w/+.%*@?|:-]*`)

// apply sets every argument of the template, in the range of argv that belongs to the launcher or to the program.
func (k knob) apply(argv []string, value string) ([]string, error) {
	for i, t := range k.templateWords() {
		l := readLine(argv)
		from, to := l.args, len(argv)
		if k.launcher != "" {
			at := slices.IndexFunc(l.launchers, func(x launcher) bool { return x.name == k.launcher })
			if at < 0 {
				return nil, fmt.Errorf("set %s: the command has no launcher %s", k.Name, k.launcher)
			}
			from, to = l.launchers[at].from, l.launchers[at].to
		}
		if l.shell && k.launcher == "" {
			return nil, fmt.Errorf("set %s: the arguments are inside a shell script", k.Name)
		}
		names := []string{t.name}
		if i < len(k.spellings) {
			names = append(names, k.spellings[i]...)
		}
		v := fill(t.value, value)
		if k.hydra && !strings.HasPrefix(t.key, "-") && plainOverride.FindString(v) != v && !strings.HasPrefix(v, "'") {
			v = "'" + strings.ReplaceAll(v, "'", `\'`) + "'"
		}
		argv = setArgument(argv, from, to, k.toggles, names, t, v, k.launcher != "")
	}
	return argv, nil
}

// setArgument sets one argument in argv[from:to]. The last occurrence of any of names is replaced. Otherwise the
// argument is inserted: at from if front is true (launchers), or before a "--".
func setArgument(argv []string, from, to int, toggles map[string]bool, names []string, t word, value string, front bool) []string {
	if k := launcherToggles; front {
		toggles = k
	}
	words := readWords(argv, from, to, toggles)
	for _, w := range slices.Backward(words) { // the last one takes effect
		if w.form == positional || !slices.Contains(names, w.name) {
			continue
		}
		if t.form == bare || w.form != bare && w.value == value {
			return argv
		}
		return slices.Concat(argv[:w.at], w.with(value), argv[w.at+w.width:])
	}
	add := []string{t.key}
	if t.form == positional {
		add = []string{fill(t.value, value)}
		if slices.Contains(argv[from:to], add[0]) {
			return argv
		}
	} else if t.form != bare {
		add = t.with(value)
	}
	at := end(argv, from, to)
	if front {
		at = from
	}
	return slices.Concat(argv[:at], add, argv[at:])
}

// ParseKnob parses NAME=FLAG as given to --knob: batch_size=--per_device_train_batch_size={}. A flag that consists of
// an option name only is completed by its value, except for resume: "batch_size=--bs" is "batch_size=--bs={}".
func ParseKnob(text string) (name, template string, err error) {
	name, template, ok := strings.Cut(text, "=")
	name = canonical(strings.TrimSpace(name))
	template = strings.Join(strings.Fields(template), " ")
	switch {
	case !ok || template == "":
		return "", "", fmt.Errorf("knob %q: want NAME=FLAG, such as batch_size=--batch_size={}", text)
	case !slices.Contains(knobNames, name):
		return "", "", fmt.Errorf("knob %q: unknown name %q, want one of %s", text, name, strings.Join(knobNames, ", "))
	case strings.Contains(template, "{") && placeholder(template) == "":
		return "", "", fmt.Errorf("knob %q: want {}, {path} or {latest} where the value belongs", text)
	}
	if placeholder(template) == "" && name != KnobResume {
		if strings.ContainsAny(template, " =") {
			return "", "", fmt.Errorf("knob %q: no {} where the value belongs", text)
		}
		template += "={}"
	}
	return name, template, nil
}

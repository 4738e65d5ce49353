package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the knobs by which a setting reaches a script.
const (
	KnobBatchSize     = "batch_size"
	KnobCheckpointDir = "checkpoint_dir"
	KnobEpochs        = "epochs"
	KnobProcesses     = "nproc"
	KnobResume        = "resume"
	KnobSeed          = "seed"
	KnobSteps         = "steps"
	KnobWorkers       = "workers"
)

// KnobNames are the names of all knobs, sorted.
var KnobNames = []string{KnobBatchSize, KnobCheckpointDir, KnobEpochs, KnobProcesses, KnobResume, KnobSeed, KnobSteps, KnobWorkers}

// Knob is a setting of a training with the arguments that carry it.
type Knob struct {
	Name string
	// Template is the arguments, separated by spaces; {} (or {path}, {latest}) stands for the value: "--batch_size={}",
	// "-j {}", "resume=True model={path}", "--init_from=resume".
	Template string
	// Present is the value now: on the command line, else the script's default; "" unknown.
	Present string
	// Source says where the knob comes from: "--knob", "preset ultralytics", "option --batch-size in line 12".
	Source string

	launcher  string     // the launcher whose argument it is; "" for the program's own
	spellings [][]string // canonical names that set the same as the first, by argument of the template
	toggles   map[string]bool
}

// Mapping is how knobs reach one command line, by name, sorted.
type Mapping struct {
	Knobs []Knob
	// Notes say why a knob that could be expected is missing.
	Notes []string
}

// Knob returns a knob by name.
func (m Mapping) Knob(name string) (Knob, bool) {
	for _, k := range m.Knobs {
		if k.Name == name {
			return k, true
		}
	}
	return Knob{}, false
}

// TakesValue holds for a knob with a place for a value in its template.
func (k Knob) TakesValue() bool { return placeholder(k.Template) != "" }

var placeholders = []string{"{latest}", "{path}", "{}"}

func placeholder(s string) string {
	for _, p := range placeholders {
		if strings.Contains(s, p) {
			return p
		}
	}
	return ""
}

// fill puts the value in the place of every placeholder.
func fill(s, value string) string {
	for _, p := range placeholders {
		s = strings.ReplaceAll(s, p, value)
	}
	return s
}

// templateWords are the arguments of a template: those with a value and bare ones.
func (k Knob) templateWords() []word {
	argv := strings.Fields(k.Template)
	return readWords(argv, 0, len(argv), nil)
}

// Apply returns the command line with the knobs named in values set. A value that is on the command line already is replaced in
// the spelling that it has there; else the arguments are appended: those of a launcher before the program, the program's at its
// end, before a "--". Other arguments are untouched, and applying the same values again changes nothing. The value of a knob
// without a placeholder counts only as "set it"; values with line breaks are refused. argv is not changed.
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

func (k Knob) apply(argv []string, value string) ([]string, error) {
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
		argv = setArgument(argv, from, to, k.toggles, names, t, fill(t.value, value), k.launcher != "")
	}
	return argv, nil
}

// setArgument sets one argument in argv[from:to].
func setArgument(argv []string, from, to int, toggles map[string]bool, names []string, t word, value string, front bool) []string {
	if k := launcherToggles; front {
		toggles = k
	}
	words := readWords(argv, from, to, toggles)
	for _, w := range slices.Backward(words) { // the last one counts
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

// ParseKnob reads NAME=FLAG as it is given to --knob: batch_size=--per_device_train_batch_size={}. A flag without a placeholder
// that is an option's name alone sets its value, except for resume: "batch_size=--bs" is "batch_size=--bs={}".
func ParseKnob(text string) (name, template string, err error) {
	name, template, ok := strings.Cut(text, "=")
	name = canonical(strings.TrimSpace(name))
	template = strings.Join(strings.Fields(template), " ")
	switch {
	case !ok || template == "":
		return "", "", fmt.Errorf("knob %q: want NAME=FLAG, such as batch_size=--batch_size={}", text)
	case !slices.Contains(KnobNames, name):
		return "", "", fmt.Errorf("knob %q: unknown name %q, want one of %s", text, name, strings.Join(KnobNames, ", "))
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

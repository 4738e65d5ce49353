package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"trainopt/internal/regular"
	"trainopt/optimizer/plan"
)

// kind is the syntax of a setting.
type kind int

const (
	text kind = iota
	number
	whole
	length // a duration: 90m, 2h30m, 5d, or a number of seconds
	list
	table  // text → text; as a flag NAME=TEXT, repeatable
	toggle // true or false; true for a flag without a value
)

// setting is an option that can be set by flag, environment variable (OPTIMIZE_SECTION_KEY) or file (section.key), in
// this order of precedence, and has a default.
type setting struct {
	key   string   // section.key in the file
	also  []string // older keys that are still accepted
	flag  string   // empty: no flag
	kind  kind
	value string // default, as text
	help  string
}

// settings is the complete configuration, from which documentation, flags, environment variables and file keys are
// derived.
var settings = []setting{
	{key: "sla.time_max", flag: "deadline", kind: length, help: "finish within `DUR`, e.g. 90m (seconds if a plain number)"},
	{key: "sla.cost_max", flag: "budget", kind: number, help: "spend at most `USD`"},
	{key: "sla.throughput_min", flag: "min-throughput", kind: number, help: "at least `X` samples/s"},
	{key: "sla.memory_max", flag: "max-memory", kind: number, help: "peak memory of the job at most `GiB`"},
	{key: "sla.gpu_util_min", flag: "min-gpu-util", kind: number, help: "mean GPU utilisation at least `%`"},
	{key: "sla.cpu_util_min", flag: "min-cpu-util", kind: number, help: "mean utilisation of the given CPUs at least `%`"},
	{key: "multi_objective.prefer", flag: "prefer", kind: text, help: "time|cost|resource|balanced, or weights time=0.6,cost=0.3,resource=0.1"},
	{key: "resource.gpus", flag: "gpus", kind: text, help: "GPUs that may be used, `A:B` (default: what this machine offers)"},
	{key: "resource.cpus", flag: "cpus", kind: text, help: "CPUs that may be used, `A:B`"},
	{key: "resource.memory", flag: "memory", kind: text, help: "memory that may be used, `A:B` GiB; B is enforced"},
	{key: "resource.batch_size", flag: "batch-size", kind: text, help: "batch sizes that may be tried, `A:B`: by the script's own argument or OPTIMIZER_BATCH_SIZE; changes the training's result"},
	{key: "resource.num_workers", flag: "num-workers", kind: text, help: "loader workers that may be tried where the training waits for its data, `A:B`; N: that number from the start"},
	{key: "resource.epochs", flag: "epochs", kind: whole, help: "epochs of the whole training, handed to the script"},
	{key: "resource.steps", flag: "steps", kind: whole, help: "steps of the whole training, where the script does not report them"},
	{key: "resource.dataset", flag: "dataset", kind: text, help: "data set `PATH`, handed to the script"},
	{key: "resource.seed", flag: "seed", kind: whole, help: "random seed, handed to the script"},
	{key: "rl.planner", flag: "planner", kind: text, value: "model", help: "who decides: model|morl|bandit|rules|static"},
	{key: "rl.agent", flag: "agent", kind: text, help: "agent `FILE` of the morl planner, from optimize pretrain (default: the one in the binary)"},
	{key: "rl.baseline_samples", flag: "baseline-samples", kind: whole, help: "probes at most (default 4; -1: none)"},
	{key: "rl.baseline_ratio", flag: "baseline-ratio", kind: number, help: "share of the job's predicted cost that probes may take (default 0.10)"},
	{key: "rl.epoch_adjustment_frequency", flag: "epoch-adjustment-frequency", kind: whole, help: "epochs between two adaptations (default 5)"},
	{key: "cost.rates", flag: "rates", kind: text, help: "`FILE` with what the machine costs"},
	{key: "cost.instance", flag: "instance", kind: text, help: "pay for a whole instance: `CLOUD:TYPE[:spot]`"},
	{key: "cost.gpu_hour", also: []string{"resource.cost_per_gpu_hour"}, flag: "gpu-hour", kind: number, help: "`USD` per GPU and hour"},
	{key: "cost.cpu_hour", also: []string{"resource.cost_per_cpu_hour"}, flag: "cpu-hour", kind: number, help: "`USD` per CPU and hour"},
	{key: "cost.gb_hour", also: []string{"resource.cost_per_gb_hour"}, flag: "gb-hour", kind: number, help: "`USD` per GiB of memory and hour"},
	{key: "monitor.log", flag: "log", kind: text, help: "the training log (default: $OPTIMIZER_LOG, else a table that the script was seen to write)"},
	{key: "monitor.log_format", flag: "log-format", kind: text, help: "format of the log (default: by its content)"},
	{key: "monitor.columns", kind: table, help: "further names of log columns: theirs: ours"},
	{key: "monitor.progress_pattern", flag: "progress-pattern", kind: text, help: "`REGEXP` for progress on stdout, groups epoch, total_epochs, step, total_steps, loss, accuracy"},
	{key: "monitor.interval", flag: "interval", kind: length, help: "sampling interval (default 1s)"},
	{key: "monitor.observe", flag: "observe", kind: text, value: "auto", help: "observer inside Python trainings: auto|off"},
	{key: "monitor.pty", flag: "pty", kind: toggle, help: "run the job on a pseudo-terminal, for programs other than Python that buffer their output in a pipe"},
	{key: "monitor.offline_logs", flag: "offline-logs", kind: list, help: "`FILE`s of earlier runs to learn from"},
	{key: "engine.name", flag: "engine", kind: text, value: "local", help: "where jobs run: local"},
	{key: "engine.resumable", flag: "resumable", kind: text, value: "auto", help: "whether the job can be stopped and resumed: auto|yes|no"},
	{key: "engine.grace", flag: "grace", kind: length, help: "time between SIGTERM and SIGKILL (default 30s)"},
	{key: "engine.max_restarts", flag: "max-restarts", kind: whole, help: "restarts after failures of a resumable job (default 5; -1: none)"},
	{key: "engine.knobs", flag: "knob", kind: table, help: "argument that carries a knob, `NAME=FLAG`: batch_size=--bs={}, resume=--resume {path} (repeatable)"},
	{key: "engine.python", flag: "python", kind: text, help: "interpreter for .py scripts (default python3 on PATH)"},
}

// older maps former names of flags to current ones.
var older = map[string]string{
	"time-max": "deadline", "cost-max": "budget", "throughput-min": "min-throughput", "memory-max": "max-memory",
	"gpu-util-min": "min-gpu-util", "cpu-util-min": "min-cpu-util", "preference": "prefer",
	"dataset-path": "dataset", "training-file": "train", "cost-per-gpu-hour": "gpu-hour",
	"cost-per-cpu-hour": "cpu-hour", "cost-per-gb-hour": "gb-hour", "gib-hour": "gb-hour",
}

// normalize treats underscores as dashes and replaces former names.
func normalize(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	if now, ok := older[name]; ok {
		name = now
	}
	return pflag.NormalizedName(name)
}

func addSettings(fs *pflag.FlagSet) {
	for _, s := range settings {
		if s.flag == "" {
			continue
		}
		switch s.kind {
		case list:
			fs.StringSlice(s.flag, nil, s.help)
		case table:
			fs.StringArray(s.flag, nil, s.help)
		case toggle:
			fs.Bool(s.flag, false, s.help)
		default:
			fs.String(s.flag, s.value, s.help)
		}
	}
	fs.Lookup("resumable").NoOptDefVal = "yes"
}

// values holds the settings of one invocation, merged from all sources.
type values struct {
	v   *viper.Viper
	src map[string]string // key → its source, for messages
	// stateDir is the state directory as given; it contains the imported prices.
	stateDir string
}

// loadSettings merges the settings in the order of precedence flags, environment, file, defaults. An unknown key in the
// file or an unknown OPTIMIZE_… variable is an error that names the nearest known one. No file is read if file is "" or
// "none".
func loadSettings(e *env, fs *pflag.FlagSet, file string) (*values, error) {
	v := viper.New()
	vals := &values{v: v, src: map[string]string{}}
	if f := fs.Lookup("state-dir"); f != nil {
		vals.stateDir = f.Value.String()
	}
	var errs []error
	known := map[string]string{} // any accepted key → canonical key
	for _, s := range settings {
		known[s.key] = s.key
		for _, a := range s.also {
			known[a] = s.key
		}
		if s.value != "" {
			v.SetDefault(s.key, s.value)
		}
	}
	if file != "" && file != "none" {
		errs = append(errs, mergeFile(v, vals.src, file, known)...)
	}
	errs = append(errs, mergeEnvironment(v, vals.src, e, known)...)
	for _, s := range settings {
		if f := fs.Lookup(s.flag); s.flag != "" && f != nil && f.Changed {
			switch s.kind {
			case list:
				all, _ := fs.GetStringSlice(s.flag)
				v.Set(s.key, all)
			case table:
				all, _ := fs.GetStringArray(s.flag)
				v.Set(s.key, withPairs(v.GetStringMapString(s.key), all))
			default:
				v.Set(s.key, f.Value.String())
			}
			vals.src[s.key] = "--" + s.flag
		}
	}
	return vals, errors.Join(errs...)
}

// withPairs returns a copy of a table with NAME=TEXT pairs added; a pair without an equals sign has an empty text.
func withPairs(m map[string]string, pairs []string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, m)
	for _, p := range pairs {
		name, text, _ := strings.Cut(p, "=")
		out[strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), "-", "_"))] = text
	}
	return out
}

// mergeFile reads a configuration file into v and records the sources of its keys in src. It accepts older keys and
// entries of table settings, and returns an error for every unknown key.
func mergeFile(v *viper.Viper, src map[string]string, file string, known map[string]string) []error {
	in := viper.New()
	in.SetConfigFile(file)
	if filepath.Ext(file) == "" {
		in.SetConfigType("yaml")
	}
	if f, err := regular.Open(file, regular.Settings); errors.Is(err, os.ErrNotExist) {
		return []error{fmt.Errorf("read configuration %s: there is no such file", file)}
	} else if errors.Is(err, regular.ErrNotRegular) {
		return []error{fmt.Errorf("read configuration: %w", err)}
	} else if err == nil {
		f.Close()
	}
	if err := in.ReadInConfig(); err != nil {
		var missing *os.PathError
		var unknown viper.UnsupportedConfigError
		if errors.As(err, &unknown) {
			return []error{fmt.Errorf("read configuration %s: want a name that ends in .yaml, .toml or .json", file)}
		}
		if errors.As(err, &missing) {
			return []error{fmt.Errorf("read configuration %s: %w", file, missing.Err)}
		}
		return []error{fmt.Errorf("read configuration %s: %s", file, strings.ReplaceAll(err.Error(), "\n", " "))}
	}
	var errs []error
	for _, key := range slices.Sorted(slices.Values(in.AllKeys())) {
		canonical, ok := known[key]
		if in.Get(key) == nil && (ok || isSection(key)) { // "sla:" with all lines of the section commented out
			continue
		}
		if !ok {
			if section, name, found := tableKey(key); found {
				m := v.GetStringMapString(section)
				next := maps.Clone(m)
				if next == nil {
					next = map[string]string{}
				}
				next[name] = in.GetString(key)
				v.Set(section, next)
				src[section] = file
				continue
			}
			errs = append(errs, fmt.Errorf("configuration %s: unknown key %q: nearest known is %q", file, key, nearest(key, known)))
			continue
		}
		v.Set(canonical, in.Get(key))
		src[canonical] = file + ": " + key
	}
	return errs
}

// isSection reports whether a key is the name of a section or of a table.
func isSection(key string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return strings.HasPrefix(s.key, key+".") || s.kind == table && s.key == key })
}

func tableKey(key string) (section, name string, ok bool) {
	for _, s := range settings {
		if s.kind == table && strings.HasPrefix(key, s.key+".") {
			return s.key, key[len(s.key)+1:], true
		}
	}
	return "", "", false
}

func mergeEnvironment(v *viper.Viper, src map[string]string, e *env, known map[string]string) []error {
	byName, names := map[string]string{}, map[string]string{}
	for k, canonical := range known {
		n := "OPTIMIZE_" + strings.ToUpper(strings.ReplaceAll(k, ".", "_"))
		byName[n], names[n] = canonical, canonical
	}
	var errs []error
	for _, kv := range e.environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "OPTIMIZE_") || name == "OPTIMIZE_CONFIG" || name == "OPTIMIZE_STATE_DIR" {
			continue
		}
		canonical, ok := byName[name]
		if !ok {
			errs = append(errs, fmt.Errorf("environment: unknown variable %s: nearest known is %s", name, nearest(name, names)))
			continue
		}
		v.Set(canonical, value)
		src[canonical] = name
	}
	return errs
}

// nearest returns the known word with the smallest edit distance; ties are broken alphabetically.
func nearest(word string, known map[string]string) string {
	best, bestD := "", 1<<30
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if d := editDistance(strings.ToLower(word), strings.ToLower(k)); d < bestD {
			best, bestD = k, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			d := diag
			if a[i-1] != b[j-1] {
				d++
			}
			diag = row[j]
			row[j] = min(d, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

func (v *values) set(key string) bool { _, ok := v.src[key]; return ok }

func (v *values) wrong(key, value, want string) error {
	where := v.src[key]
	if where == "" {
		where = key
	}
	return fmt.Errorf("%s %q: want %s", where, value, want)
}

func (v *values) text(key string) string { return strings.TrimSpace(v.v.GetString(key)) }

// preference returns the preference given by the user, or balanced; stated is false if none was given.
func (v *values) preference() (p plan.Preference, stated bool, err error) {
	text := v.text("multi_objective.prefer")
	p, err = plan.ParsePreference(cmp.Or(text, "balanced"))
	return p, text != "", err
}

func (v *values) list(key string) []string { return v.v.GetStringSlice(key) }

func (v *values) table(key string) map[string]string { return v.v.GetStringMapString(key) }

// toggle parses true or false; it returns false if the setting is not set.
func (v *values) toggle(key string, errs *[]error) bool {
	s := v.text(key)
	if s == "" {
		return false
	}
	on, err := strconv.ParseBool(s)
	if err != nil {
		*errs = append(*errs, v.wrong(key, s, "true or false"))
	}
	return on
}

// number parses a real number; it returns 0 if the setting is not set.
func (v *values) number(key string, errs *[]error) float64 {
	s := v.text(key)
	if s == "" {
		return 0
	}
	f, err := strconv.ParseFloat(strings.TrimPrefix(s, "$"), 64)
	if err != nil {
		*errs = append(*errs, v.wrong(key, s, "a number"))
	}
	return f
}

func (v *values) whole(key string, errs *[]error) int {
	s := v.text(key)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		*errs = append(*errs, v.wrong(key, s, "a whole number"))
	}
	return n
}

// length parses a duration, with plain numbers as seconds.
func (v *values) length(key string, errs *[]error) time.Duration {
	s := v.text(key)
	if s == "" {
		return 0
	}
	d, err := parseDuration(s)
	if err != nil {
		*errs = append(*errs, v.wrong(key, s, strings.TrimPrefix(err.Error(), "want ")))
	}
	return d
}

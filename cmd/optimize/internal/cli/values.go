package cli

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
	"trainopt/internal/wording"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// Values holds the settings of one invocation, merged from all sources.
type Values struct {
	v   *viper.Viper
	src map[string]string // key → its source, for messages
}

// LoadSettings merges the settings in the order of precedence flags, environment, file, defaults. An unknown key in the
// file or an unknown OPTIMIZE_… variable is an error that names the nearest known one. No file is read if file is "" or
// "none".
func (e *Env) LoadSettings(fs *pflag.FlagSet, file string) (*Values, error) {
	v := viper.New()
	vals := &Values{v: v, src: map[string]string{}}
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
			case lines:
				all, _ := fs.GetStringArray(s.flag)
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
		return []error{fmt.Errorf("read configuration %s: no such file", file)}
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
			hint := "; `optimize config` lists all"
			if best := Nearest(key, slices.Collect(maps.Keys(known))); wording.Distance(key, best) <= 1+len(key)/4 {
				hint = fmt.Sprintf(": nearest known is %q", best)
			} else if isSection(key) {
				hint = ": it is a section, whose settings are keys below it"
			}
			errs = append(errs, fmt.Errorf("configuration %s: unknown key %q%s", file, key, hint))
			continue
		}
		if _, several := in.Get(key).([]any); several && !slices.ContainsFunc(settings, func(s setting) bool { return s.key == canonical && (s.kind == list || s.kind == lines) }) {
			errs = append(errs, fmt.Errorf("configuration %s: %s: want one value, not a list", file, key))
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

func mergeEnvironment(v *viper.Viper, src map[string]string, e *Env, known map[string]string) []error {
	byName, names := map[string]string{}, map[string]string{}
	for k, canonical := range known {
		n := "OPTIMIZE_" + strings.ToUpper(strings.ReplaceAll(k, ".", "_"))
		byName[n], names[n] = canonical, canonical
	}
	var errs []error
	for _, kv := range e.Environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "OPTIMIZE_") || name == "OPTIMIZE_CONFIG" || name == "OPTIMIZE_STATE_DIR" ||
			strings.HasPrefix(name, "OPTIMIZE_OBSERVE") { // for the observer: by the user, or by an enclosing run
			continue
		}
		canonical, ok := byName[name]
		if !ok {
			errs = append(errs, fmt.Errorf("environment: unknown variable %s: nearest known is %s", name, Nearest(name, slices.Collect(maps.Keys(names)))))
			continue
		}
		v.Set(canonical, value)
		src[canonical] = name
	}
	return errs
}

// Nearest returns the known word with the smallest edit distance; ties are broken alphabetically.
func Nearest(word string, known []string) string {
	for _, best := range wording.Nearest(word, slices.Sorted(slices.Values(known)), 1) {
		return best
	}
	return ""
}

// Set reports whether a setting has a value from any source but its default.
func (v *Values) Set(key string) bool { _, ok := v.src[key]; return ok }

// Source returns where a setting was set: "--budget", or the name of a variable or a file.
func (v *Values) Source(key string) string { return v.src[key] }

// Wrong returns the error for a setting that is not valid.
func (v *Values) Wrong(key, value, want string) error {
	where := v.src[key]
	if where == "" {
		where = key
	}
	return fmt.Errorf("%s %q: want %s", where, value, want)
}

// Text returns a setting without surrounding blanks.
func (v *Values) Text(key string) string { return strings.TrimSpace(v.v.GetString(key)) }

// Preference returns the preference given by the user, or balanced; stated is false if none was given.
func (v *Values) Preference() (p plan.Preference, stated bool, err error) {
	text := v.Text("multi_objective.prefer")
	p, err = plan.ParsePreference(cmp.Or(text, "balanced"))
	return p, text != "", err
}

// List returns the elements of a setting.
func (v *Values) List(key string) []string { return v.v.GetStringSlice(key) }

// Lines returns the texts of a setting, which may contain blanks: a single text, as of a variable, has one per line.
func (v *Values) Lines(key string) []string {
	switch x := v.v.Get(key).(type) {
	case nil:
		return nil
	case []string:
		return x
	case string:
		return strings.Split(strings.Trim(x, "\n"), "\n")
	}
	return v.List(key)
}

// Table returns the entries of a setting.
func (v *Values) Table(key string) map[string]string { return v.v.GetStringMapString(key) }

// Toggle parses true or false; it returns false if the setting is not set.
func (v *Values) Toggle(key string, errs *[]error) bool {
	s := v.Text(key)
	if s == "" {
		return false
	}
	on, err := strconv.ParseBool(s)
	if err != nil {
		*errs = append(*errs, v.Wrong(key, s, "true or false"))
	}
	return on
}

// Number parses a real number; it returns 0 if the setting is not set.
func (v *Values) Number(key string, errs *[]error) float64 {
	s := v.Text(key)
	if s == "" {
		return 0
	}
	f, err := strconv.ParseFloat(strings.TrimPrefix(s, "$"), 64)
	if err != nil || f != f {
		*errs = append(*errs, v.Wrong(key, s, "a number"))
		return 0
	}
	return f
}

// Whole parses a whole number; it returns 0 if the setting is not set.
func (v *Values) Whole(key string, errs *[]error) int {
	s := v.Text(key)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		*errs = append(*errs, v.Wrong(key, s, "a whole number"))
	}
	return n
}

// Length parses a duration, with plain numbers as seconds.
func (v *Values) Length(key string, errs *[]error) time.Duration {
	s := v.Text(key)
	if s == "" {
		return 0
	}
	d, err := ParseDuration(s)
	if err != nil {
		*errs = append(*errs, v.Wrong(key, s, strings.TrimPrefix(err.Error(), "want ")))
	}
	return d
}

// limitKeys lists the settings of limits.
var limitKeys = []struct {
	objective sla.Objective
	key       string
}{{sla.Time, "sla.time_max"}, {sla.Cost, "sla.cost_max"}, {sla.Throughput, "sla.throughput_min"}, {sla.Memory, "sla.memory_max"},
	{sla.GPUUtil, "sla.gpu_util_min"}, {sla.CPUUtil, "sla.cpu_util_min"}}

// Limits returns the limits that are set, of the given objectives or of all.
func (v *Values) Limits(errs *[]error, objectives ...sla.Objective) map[sla.Objective]float64 {
	out := map[sla.Objective]float64{}
	for _, l := range limitKeys {
		switch {
		case !v.Set(l.key) || len(objectives) > 0 && !slices.Contains(objectives, l.objective):
		case l.objective == sla.Time:
			out[l.objective] = v.Length(l.key, errs).Seconds()
		default:
			out[l.objective] = v.Number(l.key, errs)
		}
	}
	return out
}

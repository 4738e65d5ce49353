package runs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/run"
)

// FuzzConfiguration checks that reading an arbitrary configuration file returns values or an error that names the file,
// and never panics.
func FuzzConfiguration(f *testing.F) {
	sample, err := os.ReadFile("../cli/sample.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(sample), "yaml")
	f.Add("sla:\n  time_max: 2h\n  cost_maxx: 1\n", "yaml")
	f.Add("[sla]\ntime_max = \"90m\"\n[cost]\ngpu_hour = 1.5\n", "toml")
	f.Add(`{"sla": {"cost_max": 1e400}, "rl": {"planner": null}}`, "json")
	f.Add("sla: [1, 2\n", "yaml")
	f.Add("monitor:\n  columns: 3\n  interval: {}\n", "yaml")
	f.Add("\x00\xff\xfe", "yaml")
	f.Add("a: &a [*a]\n", "yaml")
	f.Fuzz(func(t *testing.T, text, kind string) {
		if kind != "yaml" && kind != "toml" && kind != "json" {
			t.Skip("not a kind of configuration file")
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "c."+kind)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		fs.SetNormalizeFunc(cli.Normalize)
		cli.AddSettings(fs, nil)
		e := &cli.Env{Dir: dir}
		vals, err := e.LoadSettings(fs, file)
		if err != nil {
			if !strings.Contains(err.Error(), file) {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		_, _ = makeConfig(&trainOptions{Options: cli.Options{Env: e}}, vals)
	})
}

// TestSampleIsAccepted checks that the documented sample has no effect as written and is accepted with all its lines
// uncommented.
func TestSampleIsAccepted(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("../cli/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sample := string(data)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	read := func(file string) run.Config {
		t.Helper()
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		cli.AddSettings(fs, nil)
		e := &cli.Env{Dir: dir}
		vals, err := e.LoadSettings(fs, file)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := makeConfig(&trainOptions{Options: cli.Options{Env: e}}, vals)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	if as, none := read(write("sample.yaml", sample)), read(""); !reflect.DeepEqual(as, none) {
		t.Errorf("the sample as it is:\n%+v\nno file:\n%+v", as, none)
	}
	header, body, _ := strings.Cut(sample, "\n\n")
	var live []string
	for _, l := range strings.Split(body, "\n") {
		if skip := regexp.MustCompile(`^ *# (rates|instance|agent|spot_offers):`); !skip.MatchString(l) {
			live = append(live, regexp.MustCompile(`^( +)# `).ReplaceAllString(l, "$1"))
		}
	}
	text := strings.Replace(strings.Join(live, "\n"), "name: local", "name: slurm", 1) // which accepts all options
	cfg := read(write("live.yaml", header+"\n"+text))
	if cfg.SLA.CostMaxUSD != 5 || cfg.SLA.TimeMax != 2*time.Hour || !cfg.PreferenceGiven || cfg.Steps != 10000 || cfg.Observe != "auto" || cfg.NumWorkers != "0:8" ||
		cfg.Knobs["batch_size"] != "--per_device_train_batch_size={}" || cfg.Knobs["resume"] != "--resume_from_checkpoint={path}" || cfg.Columns["images_per_sec"] != "throughput" {
		t.Errorf("with its lines uncommented: %+v", cfg)
	}
}

// configOf reads settings in the same way as train.
func configOf(t *testing.T, file string, environ []string, args ...string) (run.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cli.Normalize)
	cli.AddSettings(fs, nil)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	e := &cli.Env{Dir: t.TempDir(), Environ: environ}
	path := ""
	if file != "" {
		path = filepath.Join(e.Dir, "c.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vals, err := e.LoadSettings(fs, path)
	if err != nil {
		return run.Config{}, err
	}
	return makeConfig(&trainOptions{Options: cli.Options{Env: e}}, vals)
}

// TestPreferenceStated checks that a missing preference is distinguished from an explicit balanced one.
func TestPreferenceStated(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  []string
		args []string
		want bool
	}{
		"nothing":     {"", nil, nil, false},
		"flag":        {"", nil, []string{"--prefer", "balanced"}, true},
		"environment": {"", []string{"OPTIMIZE_MULTI_OBJECTIVE_PREFER=time"}, nil, true},
		"file":        {"multi_objective:\n  prefer: cost\n", nil, nil, true},
		"empty":       {"multi_objective:\n  prefer: \"\"\n", nil, nil, false},
		"blank":       {"multi_objective:\n  prefer:\n", nil, nil, false},
	} {
		cfg, err := configOf(t, c.file, c.env, c.args...)
		if err != nil || cfg.PreferenceGiven != c.want || cfg.Preference.Time+cfg.Preference.Cost == 0 {
			t.Errorf("%s: given %t (%+v, %v), want %t", name, cfg.PreferenceGiven, cfg.Preference, err, c.want)
		}
	}
}

// TestKnobs checks that the flag adds to the table in the file and overrides its entries.
func TestKnobs(t *testing.T) {
	file := "engine:\n  knobs:\n    batch_size: --bs={}\n    workers: -j {}\n"
	cfg, err := configOf(t, file, nil, "--knob", "batch-size=--batch={}", "--knob=resume=--init_from=resume", "--steps", "300", "--observe=off", "--num_workers", "0:4")
	if err != nil || len(cfg.Knobs) != 3 || cfg.Knobs["batch_size"] != "--batch={}" || cfg.Knobs["workers"] != "-j {}" || cfg.Knobs["resume"] != "--init_from=resume" {
		t.Errorf("%v (%v)", cfg.Knobs, err)
	}
	if cfg.Steps != 300 || cfg.Observe != "off" || cfg.NumWorkers != "0:4" {
		t.Errorf("%+v", cfg)
	}
	for name, args := range map[string][]string{
		"unknown knob": {"--knob", "width=--w={}"},
		"no flag":      {"--knob", "batch_size"},
		"no whole":     {"--steps", "many"},
	} {
		if _, err := configOf(t, "", nil, args...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestToggle checks that a boolean setting is read from each source and that a flag can override it.
func TestToggle(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  []string
		args []string
		want bool
	}{
		"nothing":      {"", nil, nil, false},
		"flag":         {"", nil, []string{"--pty"}, true},
		"environment":  {"", []string{"OPTIMIZE_MONITOR_PTY=1"}, nil, true},
		"file":         {"monitor:\n  pty: true\n", nil, nil, true},
		"flag is last": {"monitor:\n  pty: true\n", nil, []string{"--pty=false"}, false},
	} {
		if cfg, err := configOf(t, c.file, c.env, c.args...); err != nil || cfg.PTY != c.want {
			t.Errorf("%s: %t (%v), want %t", name, cfg.PTY, err, c.want)
		}
	}
	if _, err := configOf(t, "", []string{"OPTIMIZE_MONITOR_PTY=maybe"}); err == nil || !strings.Contains(err.Error(), "OPTIMIZE_MONITOR_PTY") {
		t.Errorf("maybe is accepted: %v", err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"trainopt/optimizer/run"
)

// TestProjectFile checks that the nearest file upwards is used, up to the root of the repository or the home directory.
func TestProjectFile(t *testing.T) {
	for name, c := range map[string]struct {
		files []string // created below the root; a trailing slash denotes a directory
		dir   string
		home  string
		want  string
	}{
		"in the directory":                {[]string{"a/optimize.yaml"}, "a", "", "a/optimize.yaml"},
		"none":                            {[]string{"a/other.yaml"}, "a", "", ""},
		"above, in a repository":          {[]string{"r/.git/", "r/optimize.yaml", "r/x/y/"}, "r/x/y", "", "r/optimize.yaml"},
		"the nearest":                     {[]string{"r/.git/", "r/optimize.yaml", "r/x/optimize.toml", "r/x/y/"}, "r/x/y", "", "r/x/optimize.toml"},
		"not above the repository":        {[]string{"optimize.yaml", "r/.git/"}, "r", "", ""},
		"above, below home":               {[]string{"h/optimize.yaml", "h/x/y/"}, "h/x/y", "h", "h/optimize.yaml"},
		"not above home":                  {[]string{"optimize.yaml", "h/x/"}, "h/x", "h", ""},
		"not above, outside of both":      {[]string{"optimize.yaml", "x/"}, "x", "h", ""},
		"YAML before the other languages": {[]string{"a/optimize.json", "a/optimize.yaml"}, "a", "", "a/optimize.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, f := range c.files {
				path := filepath.Join(root, f)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(f, "/") {
					if err := os.MkdirAll(path, 0o700); err != nil {
						t.Fatal(err)
					}
				} else if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			home := ""
			if c.home != "" {
				home = filepath.Join(root, c.home)
			}
			got, err := projectFile(filepath.Join(root, c.dir), home, os.Getuid())
			if got != "" {
				got, _ = filepath.Rel(root, got)
			}
			if err != nil || got != c.want {
				t.Errorf("have %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// TestProjectFileRefused checks that a file of another user and a path that is not a regular file are errors that name
// the alternative.
func TestProjectFileRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "optimize.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := projectFile(dir, "", os.Getuid()); err == nil || !strings.Contains(err.Error(), "--config none") {
		t.Errorf("a directory: %v", err)
	}
	if os.Getuid() != 0 {
		return // only root can change the owner of a file
	}
	other := t.TempDir()
	path := filepath.Join(other, "optimize.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Skipf("cannot give a file away here: %v", err)
	}
	if _, err := projectFile(other, "", 0); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("a file of another user: %v", err)
	}
}

// TestInit checks that the file is written once, has no effect as written, and is named when it is read.
func TestInit(t *testing.T) {
	w := newWorld(t)
	if code, out, errs := w.run("init"); code != run.CodeDone || !strings.Contains(out, "optimize.yaml") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := w.run("init"); code != run.CodeUsage || !strings.Contains(errs, "exists") {
		t.Errorf("again: exit %d: %s", code, errs)
	}
	w.write("ok.py", "print('hello')\n")
	code, _, errs := w.run("--train", "ok.py", "--dry-run")
	if code != run.CodeDone || strings.Count(errs, "configuration: optimize.yaml") != 1 {
		t.Errorf("exit %d: %s", code, errs)
	}
	w.write("optimize.yaml", "sla:\n  cost_maxx: 1\n")
	if code, _, errs := w.run("--train", "ok.py", "--dry-run"); code != run.CodeUsage || !strings.Contains(errs, "optimize.yaml") || !strings.Contains(errs, "sla.cost_max") {
		t.Errorf("a broken file: exit %d: %s", code, errs)
	}
	if code, _, errs := w.run("--train", "ok.py", "--dry-run", "--config", "none"); code != run.CodeDone || strings.Contains(errs, "configuration:") {
		t.Errorf("--config none: exit %d: %s", code, errs)
	}
}

// configOf reads settings in the same way as train.
func configOf(t *testing.T, file string, environ []string, args ...string) (run.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetNormalizeFunc(normalize)
	addSettings(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	e := &env{dir: t.TempDir(), environ: environ}
	path := ""
	if file != "" {
		path = filepath.Join(e.dir, "c.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vals, err := loadSettings(e, fs, path)
	if err != nil {
		return run.Config{}, err
	}
	return makeConfig(e, &common{}, &trainFlags{}, vals)
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

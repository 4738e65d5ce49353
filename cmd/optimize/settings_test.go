package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// FuzzConfiguration checks that reading an arbitrary configuration file returns values or an error that names the file,
// and never panics.
func FuzzConfiguration(f *testing.F) {
	f.Add(sampleConfig, "yaml")
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
		fs.SetNormalizeFunc(normalize)
		addSettings(fs)
		e := &env{dir: dir}
		vals, err := loadSettings(e, fs, file)
		if err != nil {
			if !strings.Contains(err.Error(), file) {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		_, _ = makeConfig(e, &common{}, &trainFlags{}, vals)
	})
}

func TestNearest(t *testing.T) {
	known := map[string]string{"sla.time_max": "", "sla.cost_max": "", "cost.gpu_hour": ""}
	for word, want := range map[string]string{"sla.time_mx": "sla.time_max", "sla.costmax": "sla.cost_max", "cost.gpuhour": "cost.gpu_hour"} {
		if got := nearest(word, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

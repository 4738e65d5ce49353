package hdeeprm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/simulator/workload/swf"
)

const customWorkload = `{"nb_res": 4, "jobs": [{"id": 0, "subtime": 0, "res": 1, "profile": "Test0"}, {"id": 1, "subtime": 0, "res": 1, "profile": "Test0"}],
 "profiles": {"Test0": {"type": "parallel_homogeneous", "com": 0, "cpu": 1, "req_time": 5, "req_ops": 1, "mem": 8000, "mem_bw": 24}}}`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The published learning experiment, with a built-in platform and a custom workload.
func TestPrepareCustom(t *testing.T) {
	o := &Options{Resources: 5, Platform: "/workspace/platforms/learning.json"}
	e, err := o.Prepare(LaunchOptions{Custom: write(t, "w.json", customWorkload)})
	if err != nil {
		t.Fatal(err)
	}
	want := learningJobs()
	for i, j := range e.Jobs {
		w := want[i]
		if j.ID != w.ID || j.Procs != w.Procs || j.Request != w.Request || j.Ops != w.Ops || j.RequestOps != w.RequestOps || j.Memory != w.Memory || j.Bandwidth != w.Bandwidth {
			t.Errorf("got %+v, want %+v", j, w)
		}
	}
	if e.Tree.Cores != 4 || e.Limits != (Limits{5, 1, 8000, 24}) || e.Profile(&e.Jobs[1]) != "Test0" {
		t.Errorf("%d cores, limits %+v", e.Tree.Cores, e.Limits)
	}
	warnings := strings.Join(e.Warnings, "\n")
	for _, w := range []string{"nb_resources is 5, the platform has 4", "the example learning is taken"} {
		if !strings.Contains(warnings, w) {
			t.Errorf("warnings %q, want %q", warnings, w)
		}
	}
	result, _, err := Pair{shortestJob, highMemBW}.Run(e.Tree, e.Jobs, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range scheduleSummary(result, 0) {
		if v, ok := c.Value.(float64); c.Name == "makespan" && (!ok || v < 5.2499999 || v > 5.2500001) {
			t.Errorf("makespan %v, want 5.25", c.Value)
		}
	}
}

func trace(jobs int) string {
	var b strings.Builder
	for i := range jobs {
		b.WriteString(line(i+1, 10*i, 2, 60, 1000, -1))
	}
	return b.String()
}

// A trace with fewer jobs than requested causes a warning.
func TestPrepareShortTrace(t *testing.T) {
	o := &Options{Seed: 1, Jobs: 50, Platform: "learning", Workload: write(t, "w.swf", trace(30))}
	e, err := o.Prepare(LaunchOptions{})
	if err != nil || len(e.Jobs) != 30 || !strings.Contains(strings.Join(e.Warnings, " "), "nb_jobs is 50, the trace has 30") {
		t.Errorf("%v: %+v", err, e)
	}
}

func TestPrepareWithMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		l    LaunchOptions
		want string
	}{
		"no platform":      {Options{}, LaunchOptions{}, "platform_file_path"},
		"unknown platform": {Options{Platform: "/nowhere/curie.json"}, LaunchOptions{}, "curie.json"},
		"no workload":      {Options{Platform: "mini"}, LaunchOptions{}, "workload_file_path"},
		"unknown workload": {Options{Platform: "mini", Workload: "/nowhere/w.swf"}, LaunchOptions{}, "/nowhere/w.swf"},
		"unknown custom":   {Options{Platform: "mini"}, LaunchOptions{Custom: "/nowhere/w.json"}, "/nowhere/w.json"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.o.Prepare(c.l); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	o := &Options{Platform: "mini", Workload: write(t, "w.swf", line(1, 0, -1, -1, -1, -1))}
	if _, err := o.Prepare(LaunchOptions{}); !errors.Is(err, swf.ErrNoJobs) || !strings.Contains(err.Error(), o.Workload) {
		t.Errorf("a trace without jobs: got %v", err)
	}
}

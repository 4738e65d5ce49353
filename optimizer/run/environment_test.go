package run

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// TestUntouchedEnvironment: a job for which nothing is chosen gets the devices, CPUs and thread variables that it has without the
// agent; others get what is chosen, and of a quota its CPUs as the number of threads.
func TestUntouchedEnvironment(t *testing.T) {
	t.Parallel()
	one := []resources.GPU{{Index: 0, UUID: "GPU-a", Name: "small", Memory: 8}}
	two := append(one, resources.GPU{Index: 1, UUID: "GPU-b", Name: "large", Memory: 80})
	for name, c := range map[string]struct {
		cpus    float64 // that the host allows, of eight
		gpus    []resources.GPU
		setCPUs string
		setGPUs string
		environ []string
		want    string // lines of the observer, threads, devices ("-": not set)
		pinned  int    // CPUs that are enforced
	}{
		"all CPUs":             {cpus: 8, setCPUs: "8", want: "1 - -", pinned: 8},
		"fewer CPUs":           {cpus: 8, setCPUs: "2", want: "1 2 -", pinned: 2},
		"quota":                {cpus: 4, setCPUs: "4", want: "1 4 -", pinned: 8},
		"fewer than the quota": {cpus: 4, setCPUs: "2", want: "1 2 -", pinned: 2},
		"part of a CPU":        {cpus: 0.5, setCPUs: "1", want: "1 1 -", pinned: 8},
		"user's values":        {cpus: 8, setCPUs: "8", environ: []string{"OMP_NUM_THREADS=3", "PYTHONUNBUFFERED=1", "CUDA_VISIBLE_DEVICES=0"}, want: "- 3 0", pinned: 8},
		"all GPUs":             {cpus: 8, setCPUs: "8", gpus: two, setGPUs: "2", want: "1 - -", pinned: 8},
		"all GPUs of the user": {cpus: 8, setCPUs: "8", gpus: one, setGPUs: "1", environ: []string{"CUDA_VISIBLE_DEVICES=0"}, want: "1 - 0", pinned: 8},
		"one of the GPUs":      {cpus: 8, setCPUs: "8", gpus: two, setGPUs: "1", want: "1 - GPU-a", pinned: 8},
		"no GPU":               {cpus: 8, setCPUs: "8", gpus: two, setGPUs: "0", want: "1 - ", pinned: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got string
			var command launch.Command
			s := observedStage(t, func(a *actor) launch.Exit {
				setting := func(name string) string {
					for _, kv := range command.Env {
						if v, ok := strings.CutPrefix(kv, name+"="); ok {
							return v
						}
					}
					return "-"
				}
				got = setting("OPTIMIZE_OBSERVE_LINES") + " " + setting("OMP_NUM_THREADS") + " " + setting("CUDA_VISIBLE_DEVICES")
				return finished
			})
			s.onStart = func(_ int, c launch.Command) { command = c }
			s.cfg.CPUs, s.cfg.GPUs = c.setCPUs, c.setGPUs
			agent := s.agent()
			agent.Discover = func(context.Context) (resources.Host, error) {
				return resources.Host{CPUs: c.cpus, CPUIDs: []int{0, 1, 2, 3, 4, 5, 6, 7}, Memory: 16, GPUs: c.gpus}, nil
			}
			agent.Environ = append(agent.Environ, c.environ...)
			agent.Run(t.Context(), s.cfg, nil)
			if got != c.want || command.Allocation.CPUs != c.pinned {
				t.Errorf("%q at %d CPUs, want %q at %d", got, command.Allocation.CPUs, c.want, c.pinned)
			}
			if kept := !strings.Contains(got, "GPU-") && !strings.HasSuffix(got, " "); command.KeepsDevices != kept {
				t.Errorf("devices of the user: %v, the job has %q", command.KeepsDevices, got)
			}
		})
	}
}

// TestLackingEnvironment: a run records its first environment; what another one adds does not count, and neither does a run
// without the record. A damaged record is an error.
func TestLackingEnvironment(t *testing.T) {
	t.Parallel()
	s := newStage(t, resumable(2, 1))
	agent := s.agent()
	path := agent.Environ[0]
	agent.Environ = []string{path, "A=1", "A=2", "EMPTY=", "B=x=y", "PWD=/x", "OPTIMIZER_LOG=log.csv", "broken"}
	dir := agent.Run(t.Context(), s.cfg, nil).Dir
	for environ, want := range map[string]string{
		"A=2 EMPTY= B=x=y":           "",
		"A=2 EMPTY= B=x=y C=1 PWD=z": "",
		"A=2 B=x=y":                  "EMPTY",
		"A=1 EMPTY=0 B=x":            "A B EMPTY",
		"B=2 A=x=y EMPTY=":           "A B",
	} {
		agent.Environ = append([]string{path}, strings.Fields(environ)...)
		if got, err := agent.LackingEnvironment(dir); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s lacks %q, %v; want %q", environ, got, err, want)
		}
	}
	file := filepath.Join(dir, environmentFile)
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := agent.LackingEnvironment(dir); err == nil {
		t.Errorf("a damaged record: %q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got, err := agent.LackingEnvironment(dir); err != nil || got != nil {
		t.Errorf("without a record: %q, %v", got, err)
	}
}

// TestThreadsElsewhere checks that a job with all CPUs of a node gets no thread variables, and that those of a part count its
// CPUs, or those of each rank.
func TestThreadsElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cpus, ranks, want int }{{128, 0, -1}, {128, 4, 32}, {64, 0, 64}} {
		r := &run{facts: facts{Config: Config{Engine: "slurm"}, Host: resources.Host{CPUs: 128}}}
		r.ranks = c.ranks
		if got := r.threadsOf(resources.Allocation{CPUs: c.cpus}); got != c.want {
			t.Errorf("%d of 128 CPUs, %d ranks: %d threads, want %d", c.cpus, c.ranks, got, c.want)
		}
	}
}

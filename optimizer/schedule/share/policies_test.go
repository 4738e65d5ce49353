package share_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/workload"
)

func policy(t testing.TB, name string, compat bool) schedule.Policy {
	t.Helper()
	p, err := share.New(name, share.Options{Compat: compat, Random: pythonRandom{workload.NewPython(0)}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// written returns an allocation keyed by "7" for a job and "7,9" for a pair, without entries that receive nothing.
func written(s *schedule.Snapshot, a schedule.Allocation) map[string][]float64 {
	out := map[string][]float64{}
	for _, e := range a.Entries {
		name := fmt.Sprint(s.Jobs[e.A].ID)
		if e.B >= 0 {
			name = fmt.Sprintf("%d,%d", s.Jobs[e.A].ID, s.Jobs[e.B].ID)
		}
		if slices.ContainsFunc(e.X, func(x float64) bool { return x > 0 }) {
			out[name] = e.X
		}
	}
	return out
}

// instance is a small input with the decisions of the original's policies.
type instance struct {
	ID      string
	Cluster struct{ V100, P100, K80 int }
	Jobs    []struct {
		ID             int
		Type           string
		ScaleFactor    int     `json:"scale_factor"`
		StepsRemaining float64 `json:"steps_remaining"`
		SinceStart     float64 `json:"time_since_start"`
	}
	Results map[string]struct {
		Allocation map[string][]float64 `json:"allocation_k80_p100_v100"`
	}
}

func loadInstances(t *testing.T) []instance {
	t.Helper()
	f, err := os.Open(filepath.Join(published, "expected", "policy_instances.json.gz"))
	if err != nil {
		t.Skipf("decisions of Gavel's policies are not here: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var out []instance
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("Infinity"), []byte("null")), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPoliciesDecideAsGavels(t *testing.T) {
	for _, in := range loadInstances(t) {
		var jobs []schedule.Job
		for _, j := range in.Jobs {
			jobs = append(jobs, schedule.Job{ID: j.ID, Type: j.Type, GPUs: j.ScaleFactor, Steps: j.StepsRemaining, Arrival: -j.SinceStart, Weight: 1})
		}
		s := snapshot(t, gavelDevices(in.Cluster.K80, in.Cluster.P100, in.Cluster.V100), jobs)
		s.Now = 0
		for _, name := range []string{"isolated", "fifo", "fifo_perf", "fifo_packed"} {
			t.Run(in.ID+" "+name, func(t *testing.T) {
				got := written(s, checked(t, policy(t, name, true), s))
				compare(t, got, in.Results[name].Allocation)
			})
		}
		// The original sorts by age; arrivals are not in the order of IDs here.
		t.Run(in.ID+" allox", func(t *testing.T) {
			slices.SortStableFunc(s.Jobs, func(a, b schedule.JobState) int { return int(math.Copysign(1, a.Arrival-b.Arrival)) })
			compare(t, written(s, checked(t, policy(t, "allox", true), s)), in.Results["allox"].Allocation)
		})
	}
}

func compare(t *testing.T, got, want map[string][]float64) {
	t.Helper()
	for who, x := range want {
		if !slices.ContainsFunc(x, func(x float64) bool { return x > 0 }) {
			delete(want, who)
			continue
		}
		for d := range x {
			if g := got[who]; g == nil || math.Abs(g[d]-x[d]) > 1e-7 {
				t.Errorf("%s gets %v, want %v", who, g, x)
				break
			}
		}
	}
	for who := range got {
		if want[who] == nil {
			t.Errorf("%s gets %v, want nothing", who, got[who])
		}
	}
}

func TestPolicyNames(t *testing.T) {
	for name, problem := range map[string]string{
		"fifo": "", "allox_alpha=0.5": "", "allox_alpha=2": "alpha", "allox_alpha=x": "alpha", "fifo_alpha=0.5": "only allox", "lifo": "unknown, want one of allox",
	} {
		_, err := share.New(name, share.Options{})
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", name, err, problem)
		}
	}
}

// Allocations of every policy respect the capacities, also when devices have gone, and are reproducible with the same seed.
func TestPoliciesGiveWhatThereIs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.SampledFrom([]string{"fifo", "fifo_perf", "fifo_packed", "isolated", "proportional", "gandiva", "allox", "best_match", "best_match_packed", "srtf", "srtf_packed"}).Draw(r, "policy")
		multi := name != "allox" && rapid.Bool().Draw(r, "multi")
		count := rapid.IntRange(1, 9)
		all := gavelJobs(t, 40, rapid.Int64Range(0, 1000).Draw(r, "seed"), multi)
		one, two := policy(t, name, false), policy(t, name, false)
		for range 3 {
			devices := gavelDevices(count.Draw(r, "k80"), count.Draw(r, "p100"), count.Draw(r, "v100"))
			jobs := slices.Clone(all)
			from := rapid.IntRange(0, 30).Draw(r, "from")
			jobs = jobs[from:rapid.IntRange(from+1, 40).Draw(r, "to")]
			s := snapshot(t, devices, jobs)
			a, b := written(s, checked(t, one, s)), written(s, checked(t, two, s))
			if fmt.Sprint(a) != fmt.Sprint(b) {
				r.Fatalf("%s decides %v and %v", name, a, b)
			}
		}
	})
}

// First come, first served: no job receives devices while an earlier one waits.
func TestFIFOKeepsTheOrder(t *testing.T) {
	s := snapshot(t, gavelDevices(2, 2, 2), gavelJobs(t, 20, 3, true))
	for _, name := range []string{"fifo", "fifo_perf"} {
		served := written(s, checked(t, policy(t, name, false), s))
		waits := false
		for i := range s.Jobs {
			_, ok := served[fmt.Sprint(s.Jobs[i].ID)]
			if ok && waits {
				t.Errorf("%s serves job %d though an earlier one waits", name, i)
			}
			waits = waits || !ok
		}
		if !waits || len(served) == 0 {
			t.Errorf("%s serves %d of %d jobs: the test shows nothing", name, len(served), len(s.Jobs))
		}
	}
}

// The published FIFO assigns simultaneously waiting jobs to one type, the intended one to all.
func TestFIFOAsItWasMeant(t *testing.T) {
	s := snapshot(t, gavelDevices(8, 8, 8), gavelJobs(t, 30, 0, false))
	for _, compat := range []bool{false, true} {
		load := make([]float64, 3)
		for _, x := range written(s, checked(t, policy(t, "fifo", compat), s)) {
			for d := range x {
				load[d] += x[d]
			}
		}
		if spread := load[0] == 8 && load[1] == 8 && load[2] == 8; spread == compat {
			t.Errorf("compat %v: devices given by type %v", compat, load)
		}
	}
}

// Running jobs keep their device type under FIFO and AlloX when others arrive.
func TestStartedJobsStay(t *testing.T) {
	jobs := gavelJobs(t, 40, 5, false)
	for _, name := range []string{"fifo", "allox"} {
		p := policy(t, name, false)
		s := snapshot(t, gavelDevices(3, 3, 3), jobs[:12])
		before := written(s, checked(t, p, s))
		s = snapshot(t, gavelDevices(3, 3, 3), jobs[1:])
		after := written(s, checked(t, p, s))
		if len(before) < 5 || len(after) < 5 {
			t.Errorf("%s: %d and %d jobs have devices, of 9 devices", name, len(before), len(after))
		}
		for who, x := range before {
			if who != "0" && fmt.Sprint(after[who]) != fmt.Sprint(x) {
				t.Errorf("%s: job %s had %v and has %v", name, who, x, after[who])
			}
		}
	}
}

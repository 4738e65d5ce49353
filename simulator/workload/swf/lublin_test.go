package swf_test

import (
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/workload/swf"
)

// trace is one of the published traces, which a checkout need not have.
func trace(tb testing.TB, name string, o swf.Options) *swf.Trace {
	tb.Helper()
	path := filepath.Join("../../../../shared/data/swf", name)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("the published traces are not here: %v", err)
	}
	t, err := swf.Load(path, o)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// shape of a workload: shares of serial jobs and of powers of two, mean and deviation of ln run time, mean ln time between jobs.
type shape struct {
	serial, powers, run, spread, gap, day float64
}

func shapeOf(jobs []order.Job) (s shape) {
	n := float64(len(jobs))
	squares := 0.0
	for i := range jobs {
		j := &jobs[i]
		log := math.Log(j.Run)
		s.run += log / n
		squares += log * log / n
		switch {
		case j.Procs == 1:
			s.serial += 1 / n
		case bits.OnesCount(uint(j.Procs)) == 1:
			s.powers += 1 / n
		}
		if i > 0 {
			s.gap += math.Log(math.Max(1, j.Submit-jobs[i-1].Submit)) / n
		}
		if hour := math.Mod(j.Submit/3600, 24); hour >= 8 && hour < 18 {
			s.day += 1 / n
		}
	}
	s.spread = math.Sqrt(squares - s.run*s.run)
	return s
}

func (s shape) near(t *testing.T, what string, want shape) {
	t.Helper()
	for i, c := range [][3]float64{
		{s.serial, want.serial, 0.015}, {s.powers, want.powers, 0.015}, {s.run, want.run, 0.1}, {s.spread, want.spread, 0.06},
		{s.gap, want.gap, 0.1}, {s.day, want.day, 0.05},
	} {
		if math.Abs(c[0]-c[1]) > c[2] {
			t.Errorf("%s: %s is %.3f, want %.3f", what,
				[]string{"share of serial jobs", "share of powers of two", "mean ln run time", "its deviation", "mean ln gap", "share by day"}[i], c[0], c[1])
		}
	}
}

func TestLublin(t *testing.T) {
	for seed := range uint64(3) {
		jobs, err := swf.Lublin{Jobs: 10000, Procs: 256, Seed: seed}.Generate()
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			j := &jobs[i]
			if j.Procs < 1 || j.Procs > 256 || j.Run < 1 || j.Run > math.Exp(12) || j.Request != j.Run || i > 0 && j.Submit < jobs[i-1].Submit {
				t.Fatalf("job %d: %+v", i, *j)
			}
		}
		shapeOf(jobs).near(t, "drawn", shape{0.248, 0.612, 5.67, 3.02, 4.91, 0.64})
	}
}

// The program of the model's authors drew this trace, for 256 processors.
func TestLublinIsTheTraceOfItsAuthors(t *testing.T) {
	theirs := trace(t, "lublin_256.swf.gz", swf.Options{KeepSubmit: true})
	jobs, err := swf.Lublin{Jobs: 10000, Procs: 256, Seed: 1}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	shapeOf(jobs).near(t, "drawn", shapeOf(theirs.Jobs))
}

func TestLublinSettings(t *testing.T) {
	l := swf.Lublin{Jobs: 3000, Procs: 100, Seed: 7, Load: 0.7, Overestimate: 3}
	jobs, err := l.Generate()
	if err != nil {
		t.Fatal(err)
	}
	again, _ := l.Generate()
	if !slices.EqualFunc(jobs, again, func(a, b order.Job) bool { return a.Submit == b.Submit && a.Run == b.Run && a.Request == b.Request }) {
		t.Error("the same settings drew two workloads")
	}
	work, requests := 0.0, map[float64]bool{}
	for _, j := range jobs {
		work += j.Run * float64(j.Procs)
		requests[j.Request] = true
		if j.Request < j.Run {
			t.Fatalf("job %d asks for %v s and takes %v", j.ID, j.Request, j.Run)
		}
	}
	if load := work / (jobs[len(jobs)-1].Submit - jobs[0].Submit) / 100; math.Abs(load-0.7) > 0.005 {
		t.Errorf("load %v, want 0.7", load)
	}
	if len(requests) > 20 {
		t.Errorf("%d different requests: people ask for few", len(requests))
	}
	_, err = swf.Lublin{Jobs: -1, Procs: 1, Load: -1, Overestimate: 0.5}.Generate()
	for _, want := range []string{"-1 jobs", "a machine of 1 processors", "load -1", "overestimate 0.5"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

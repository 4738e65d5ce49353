package sweep

import (
	"math"
	"os"
	"strings"
	"testing"
)

func TestTraceName(t *testing.T) {
	for file, want := range map[string]string{"a/lublin_256.swf.gz": "Lublin-1", "lublin_256_new2.swf": "Lublin-2", "KTH-SP2-1996-2.1-cln.swf": "KTH-SP2",
		"SDSC-SP2-1998-4.2-cln.swf": "SDSC-SP2", "HPC2N-2002-2.2-cln.swf": "HPC2N", "mine.swf": ""} {
		if got, ok := TraceName(file); got != want || ok != (want != "") {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if got := strings.Join(TraceNames(), " "); got != "Lublin-2 Lublin-1 SDSC-SP2 HPC2N KTH-SP2" {
		t.Error(got)
	}
}

// TestRLSchedulersTable reproduces the heuristics of the published table to every printed digit.
func TestRLSchedulersTable(t *testing.T) {
	const path = "../../../../shared/data/swf/lublin_256.swf.gz"
	if _, err := os.Stat(path); err != nil {
		t.Skip("the trace Lublin-1 is not here")
	}
	w, err := Load(path, TraceOptions{AsPublished: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, backfill := range []bool{false, true} {
		s, err := RLSchedulerFigure("Lublin-1", w, backfill, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Methods = s.Methods[:len(s.Methods)-1] // without the search, which is slow
		o, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o.AddPublished("Lublin-1", backfill)
		same := 0
		for _, line := range o.Comparison.Tables[0].Lines {
			if line[1] == "–" || line[2] == "–" {
				continue
			}
			same++
			if line[1] != line[2] || line[3] != line[4] {
				t.Errorf("backfill %v: %v", backfill, line)
			}
		}
		if same != 5 {
			t.Errorf("%d published heuristics, want 5", same)
		}
	}
	short := *w
	short.Jobs = w.Jobs[:9000]
	if _, err := RLSchedulerFigure("Lublin-1", &short, true, 0); err == nil || !strings.Contains(err.Error(), "9874") {
		t.Errorf("a trace that is too short: %v", err)
	}
}

// TestLearning checks the results of HDeepRM's experiment, computed by hand, with oversubscribed and with sufficient
// bandwidth on the fast processor.
func TestLearning(t *testing.T) {
	w, err := LearningExperiment()
	if err != nil {
		t.Fatal(err)
	}
	o, err := HDeepRMFigure(w, false, []uint64{0}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[string][2]float64{"shortest-high_gflops": {7 / 1.1, 661.82}, "shortest-high_mem_bw": {5.25, 563.18}, "first-low_power": {7, 595},
		"saf+easy+best": {5.25, 563.18}} {
		span, _ := o.Comparison.Row(policy, "span_s")
		joules, _ := o.Comparison.Row(policy, "energy_joules")
		if math.Abs(float64(span.Mean)-want[0]) > 1e-9 || math.Abs(float64(joules.Mean)-want[1]) > 0.01 {
			t.Errorf("%s: %v s and %v J, want %v", policy, span.Mean, joules.Mean, want)
		}
	}
}

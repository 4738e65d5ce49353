package sla

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-gota/gota/dataframe"
)

func frameOf(t *testing.T, csv string) dataframe.DataFrame {
	t.Helper()
	f := dataframe.ReadCSV(strings.NewReader(csv))
	if f.Err != nil {
		t.Fatal(f.Err)
	}
	return f
}

func TestViolations(t *testing.T) {
	const log = `Epoch,time_so_far,cost_so_far,throughput,memory_used_gb,gpu_utilization_0,gpu_utilization_1,note
1,50,1,80,10,90,30,x
2,100,2,120,30,80,,x
3,150,3,130,20,nan,nan,x
SUMMARY,999,999,1,999,0,0,x
`
	spec := Spec{TimeMax: 120 * time.Second, CostMaxUSD: 3, ThroughputMin: 100, MemoryMaxGiB: 25, GPUUtilMinPct: 80, CPUUtilMinPct: 50}
	got, err := Violations(frameOf(t, log), spec)
	if err != nil {
		t.Fatal(err)
	}
	want := map[Objective]Result{
		Time:       {Met: false, Rows: 3, Value: 150, Worst: 150, FirstViolation: 2, Severity: 0.25},
		Cost:       {Met: true, Rows: 3, Value: 3, Worst: 3, FirstViolation: -1, Severity: 0},
		Throughput: {Met: true, Rows: 3, Value: 110, Worst: 80, FirstViolation: 0, Severity: 0},
		Memory:     {Met: false, Rows: 3, Value: 30, Worst: 30, FirstViolation: 1, Severity: 0.2},
		GPUUtil:    {Met: false, Rows: 2, Value: 70, Worst: 60, FirstViolation: 0, Severity: 0.125},
		CPUUtil:    {Met: false, Rows: 0, Value: nan, Worst: nan, FirstViolation: -1, Severity: nan},
	}
	same := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 || (math.IsNaN(a) && math.IsNaN(b)) }
	for o, w := range want {
		g, ok := got[o]
		if !ok || g.Met != w.Met || g.Rows != w.Rows || g.FirstViolation != w.FirstViolation ||
			!same(g.Value, w.Value) || !same(g.Worst, w.Worst) || !same(g.Severity, w.Severity) {
			t.Errorf("%s: %+v, want %+v", o, g, w)
		}
		if limit, _, unit, _ := spec.Limit(o); g.Limit != limit || g.Unit != unit || g.Objective != o {
			t.Errorf("%s: limit %g %s", o, g.Limit, g.Unit)
		}
	}
	if got[CPUUtil].Rows != 0 || got[Time].Rows == 0 {
		t.Error("no data is not told apart")
	}
}

func TestViolationsBadInput(t *testing.T) {
	spec := Spec{TimeMax: time.Minute, MemoryMaxGiB: 1}
	t.Run("empty frame", func(t *testing.T) {
		got, err := Violations(dataframe.DataFrame{}, spec)
		if err != nil || len(got) != 2 || got[Time].Rows != 0 || got[Time].Met {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("unusable cells", func(t *testing.T) {
		got, err := Violations(frameOf(t, "time_so_far,memory_used_gb\n-5,inf\nabc,\n,NaN\n"), spec)
		if err != nil || got[Time].Rows != 0 || got[Memory].Rows != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("frame in error", func(t *testing.T) {
		broken := errors.New("ragged")
		if _, err := Violations(dataframe.DataFrame{Err: broken}, spec); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("bad thresholds", func(t *testing.T) {
		if _, err := Violations(frameOf(t, "time_so_far\n1\n"), Spec{CostMaxUSD: -1}); err == nil || !strings.Contains(err.Error(), "budget") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("nothing agreed", func(t *testing.T) {
		if got, err := Violations(frameOf(t, "time_so_far\n1\n"), Spec{}); err != nil || len(got) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

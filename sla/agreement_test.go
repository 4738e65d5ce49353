package sla

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestValidateListsEveryProblem(t *testing.T) {
	err := Spec{TimeMax: -time.Second, CostMaxUSD: nan, ThroughputMin: math.Inf(1), MemoryMaxGiB: -1, GPUUtilMinPct: 101, CPUUtilMinPct: -1}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, part := range []string{"deadline -1s", "budget is not a number", "min-throughput is infinite", "max-memory -1", "min-gpu-util 101 % is above", "min-cpu-util -1 % is negative"} {
		if i >= len(lines) || !strings.Contains(lines[i], part) {
			t.Errorf("problem %d of %q does not say %q", i, lines, part)
		}
	}
	if len(lines) != len(targets) {
		t.Errorf("%d problems, want %d", len(lines), len(targets))
	}
	if err := (Spec{}).Validate(); err != nil {
		t.Errorf("zero Spec: %v", err)
	}
	if err := (Spec{TimeMax: 1, CostMaxUSD: 1e-9, GPUUtilMinPct: 100}).Validate(); err != nil {
		t.Errorf("tight but possible: %v", err)
	}
}

func TestNew(t *testing.T) {
	tests := map[string]struct {
		given map[Objective]float64
		want  Spec
		says  []string
	}{
		"nothing":              {nil, Spec{}, nil},
		"all":                  {map[Objective]float64{Time: 90, Cost: 2, Throughput: 3, Memory: 4, GPUUtil: 5, CPUUtil: 6}, Spec{90 * time.Second, 2, 3, 4, 5, 6}, nil},
		"floor of 0":           {map[Objective]float64{Throughput: 0, GPUUtil: 0}, Spec{}, nil},
		"deadline now":         {map[Objective]float64{Time: 0}, Spec{}, []string{"deadline 0: it has already passed"}},
		"deadline past":        {map[Objective]float64{Time: -60}, Spec{}, []string{"deadline -1m0s: it has already passed"}},
		"no budget, no memory": {map[Objective]float64{Cost: 0, Memory: 0}, Spec{}, []string{"budget 0: nothing could be spent", "max-memory 0: nothing could run"}},
		"deadline too far":     {map[Objective]float64{Time: 1e300}, Spec{}, []string{"292 years"}},
		"deadline too near":    {map[Objective]float64{Time: 1e-12}, Spec{}, []string{"nanosecond"}},
		"unknown objective":    {map[Objective]float64{"speed": 1}, Spec{}, []string{`"speed" is not an objective`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := New(test.given)
			if (err != nil) != (test.says != nil) || got != test.want {
				t.Fatalf("%+v, %v; want %+v, error %q", got, err, test.want, test.says)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestAgreedAndLimit(t *testing.T) {
	spec := Spec{CPUUtilMinPct: 70, TimeMax: 90 * time.Second}
	if got := spec.Agreed(); !reflect.DeepEqual(got, []Objective{Time, CPUUtil}) {
		t.Errorf("agreed %v", got)
	}
	if limit, maximum, unit, agreed := spec.Limit(Time); limit != 90 || !maximum || unit != "s" || !agreed {
		t.Errorf("time: %g %t %q %t", limit, maximum, unit, agreed)
	}
	if limit, maximum, unit, agreed := spec.Limit(CPUUtil); limit != 70 || maximum || unit != "%" || !agreed {
		t.Errorf("cpu: %g %t %q %t", limit, maximum, unit, agreed)
	}
	if limit, maximum, unit, agreed := spec.Limit(Cost); limit != 0 || !maximum || unit != "USD" || agreed {
		t.Errorf("cost: %g %t %q %t", limit, maximum, unit, agreed)
	}
	if _, _, _, agreed := spec.Limit("speed"); agreed {
		t.Error("an unknown objective is agreed")
	}
	if got := spec.String(); got != "deadline 1m30s, min-cpu-util 70 %" {
		t.Errorf("in words: %q", got)
	}
}

func TestHashTellsAgreementsApart(t *testing.T) {
	seen := map[string]Spec{}
	for _, s := range []Spec{{}, {TimeMax: 1}, {TimeMax: 2}, {CostMaxUSD: 1}, {ThroughputMin: 1}, {MemoryMaxGiB: 1}, {GPUUtilMinPct: 1},
		{CPUUtilMinPct: 1}, {TimeMax: 1, CostMaxUSD: 1}, {CostMaxUSD: math.Nextafter(1, 2)}} {
		if other, ok := seen[s.Hash()]; ok {
			t.Errorf("%+v and %+v have one hash", s, other)
		}
		seen[s.Hash()] = s
	}
	// The hash is stored in records that outlive this version and must not change.
	if got, want := (Spec{TimeMax: 2 * time.Hour, CostMaxUSD: 10}).Hash(), "0bb20023db7b3cbf"; got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

func TestExhausted(t *testing.T) {
	spec := Spec{TimeMax: time.Hour, CostMaxUSD: 5}
	if err := spec.Exhausted(59*time.Minute, 4.99); err != nil {
		t.Error(err)
	}
	if err := spec.Exhausted(59*time.Minute, nan); err != nil {
		t.Error(err)
	}
	err := spec.Exhausted(61*time.Minute, 5)
	if err == nil || !strings.Contains(err.Error(), "deadline") || !strings.Contains(err.Error(), "budget") {
		t.Errorf("both used up: %v", err)
	}
}

func TestForecast(t *testing.T) {
	run := func(s, usd float64) Baseline {
		return Baseline{Time: seconds(s), CostUSD: usd, Throughput: nan, MemoryGiB: nan, GPUUtilPct: nan, CPUUtilPct: nan}
	}
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-6*math.Abs(want) }

	history := []Baseline{run(100, 1), run(110, nan), run(120, 3)}
	history[0].Throughput, history[1].Throughput = 1000, 1200
	history[2].GPUUtilPct = 90
	spec, intervals, err := Forecast(history)
	if err != nil {
		t.Fatal(err)
	}
	if !near(spec.TimeMax.Seconds(), 121) || !near(spec.CostMaxUSD, 2.2) || !near(spec.ThroughputMin, 990) || !near(spec.GPUUtilMinPct, 81) ||
		spec.MemoryMaxGiB != 0 || spec.CPUUtilMinPct != 0 {
		t.Errorf("forecast %+v", spec)
	}
	// n = 3, s = 10: t(0.95, 2) = 2.919986; 2.919986 × 10 × √(4/3) = 33.7171.
	if p := intervals[Time]; len(intervals) != 1 || !near(p.P50, 110) || math.Abs(p.P95-143.7171) > 1e-3 || math.Abs(p.P5-76.2829) > 1e-3 {
		t.Errorf("intervals %v", intervals)
	}

	for name, history := range map[string][]Baseline{"none": nil, "empty runs": {run(0, nan), run(-1, -5), run(0, math.Inf(1))}} {
		if _, _, err := Forecast(history); !errors.Is(err, errNoData) {
			t.Errorf("%s: error %v, want ErrNoData", name, err)
		}
		if _, err := (Spec{CostMaxUSD: 1}).UpdateFromBaseline(history); !errors.Is(err, errNoData) {
			t.Errorf("update from %s: error %v, want ErrNoData", name, err)
		}
	}

	agreed := Spec{TimeMax: 42 * time.Second}
	updated, err := agreed.UpdateFromBaseline(history)
	if err != nil || updated.TimeMax != 42*time.Second || !near(updated.CostMaxUSD, 2.2) {
		t.Errorf("updated %+v, %v: what is agreed stays, the rest is filled", updated, err)
	}
	if agreed != (Spec{TimeMax: 42 * time.Second}) {
		t.Error("the agreement itself was changed")
	}
}

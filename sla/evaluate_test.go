package sla

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var nan = math.NaN()

func TestEvaluate(t *testing.T) {
	spec := Spec{TimeMax: 100 * time.Second, CostMaxUSD: 100, ThroughputMin: 100, MemoryMaxGiB: 100, GPUUtilMinPct: 50, CPUUtilMinPct: 50}
	p := func(a, b, c float64) *Interval { return &Interval{a, b, c} }
	tests := map[string]struct {
		objective Objective
		measure   Measure
		status    Status
		severity  float64 // NaN: nil
	}{
		"time: well within, projected within":        {Time, Measure{Value: 10, Projected: p(50, 60, 90)}, Met, 0},
		"time: elapsed within, projection unknown":   {Time, Measure{Value: 10}, Unknown, nan},
		"time: projected P95 beyond":                 {Time, Measure{Value: 10, Projected: p(50, 90, 101)}, AtRisk, 0},
		"time: projected P50 beyond":                 {Time, Measure{Value: 10, Projected: p(99, 120, 150)}, AtRisk, 0.2},
		"time: even P5 beyond":                       {Time, Measure{Value: 10, Projected: p(101, 120, 150)}, Violated, 0.2},
		"time: P95 at the limit":                     {Time, Measure{Value: 10, Projected: p(50, 60, 100)}, Met, 0},
		"time: already late":                         {Time, Measure{Value: 130, Projected: p(50, 60, 70)}, Violated, 0.3},
		"time: late, no projection":                  {Time, Measure{Value: 110}, Violated, 0.1},
		"time: may never finish":                     {Time, Measure{Value: 10, Projected: p(50, 60, math.Inf(1))}, AtRisk, 0},
		"time: over, in time, old projection beyond": {Time, Measure{Value: 99, Projected: p(150, 160, 170), Final: true}, Met, 0},
		"time: over, exactly at the limit":           {Time, Measure{Value: 100, Final: true}, Met, 0},
		"time: over, late":                           {Time, Measure{Value: 101, Final: true}, Violated, 0.01},
		"time: over, never measured":                 {Time, Measure{Value: nan, Projected: p(1, 2, 3), Final: true}, Unknown, nan},
		"cost: severity is cut at 1":                 {Cost, Measure{Value: 500, Final: true}, Violated, 1},
		"cost: only projected":                       {Cost, Measure{Value: nan, Projected: p(10, 20, 30)}, Met, 0},
		"cost: bounds out of order are sorted":       {Cost, Measure{Value: 1, Projected: p(150, 20, 30)}, AtRisk, 0},
		"cost: a NaN bound is no projection":         {Cost, Measure{Value: 1, Projected: p(nan, 20, 30)}, Unknown, nan},
		"cost: infinite value is no value":           {Cost, Measure{Value: math.Inf(1)}, Unknown, nan},
		"cost: projection below what is spent":       {Cost, Measure{Value: 99, Projected: p(1, 2, 101)}, AtRisk, 0},
		"memory: peak so far within":                 {Memory, Measure{Value: 60}, Met, 0},
		"memory: peak beyond":                        {Memory, Measure{Value: 160}, Violated, 0.6},
		"throughput: slow start is not yet broken":   {Throughput, Measure{Value: 80}, AtRisk, 0.2},
		"throughput: slow start, will recover":       {Throughput, Measure{Value: 80, Projected: p(101, 110, 120)}, Met, 0},
		"throughput: fast so far, may fall":          {Throughput, Measure{Value: 120, Projected: p(90, 105, 110)}, AtRisk, 0},
		"throughput: cannot recover":                 {Throughput, Measure{Value: 80, Projected: p(70, 80, 99)}, Violated, 0.2},
		"throughput: over, below":                    {Throughput, Measure{Value: 80, Final: true}, Violated, 0.2},
		"throughput: over, at the floor":             {Throughput, Measure{Value: 100, Final: true}, Met, 0},
		"utilization: idle":                          {GPUUtil, Measure{Value: 0, Final: true}, Violated, 1},
		"utilization: no data":                       {GPUUtil, Measure{Value: nan}, Unknown, nan},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			verdicts := Evaluate(spec, map[Objective]Measure{test.objective: test.measure})
			if len(verdicts) != len(targets) {
				t.Fatalf("%d verdicts, want one for each agreed objective", len(verdicts))
			}
			for _, v := range verdicts {
				if v.Objective != test.objective {
					if v.Status != Unknown || v.Value != nil || v.Severity != nil {
						t.Errorf("%s was not measured: %+v", v.Objective, v)
					}
					continue
				}
				if v.Status != test.status {
					t.Errorf("status %s, want %s", v.Status, test.status)
				}
				if (v.Severity == nil) != math.IsNaN(test.severity) || (v.Severity != nil && math.Abs(*v.Severity-test.severity) > 1e-9) {
					t.Errorf("severity %v, want %g", v.Severity, test.severity)
				}
			}
			if _, err := json.Marshal(verdicts); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEvaluateNothingAgreed(t *testing.T) {
	v := Evaluate(Spec{}, map[Objective]Measure{Time: {Value: 1e9, Final: true}})
	if len(v) != 0 {
		t.Errorf("verdicts %+v on an agreement without terms", v)
	}
	if data, _ := json.Marshal(v); string(data) != "[]" {
		t.Errorf("written as %s, want []", data)
	}
}

func TestCompliance(t *testing.T) {
	of := func(list ...Status) (v []Verdict) {
		for _, s := range list {
			v = append(v, Verdict{Status: s})
		}
		return v
	}
	tests := map[string]struct {
		verdicts []Verdict
		share    float64
		ok       bool
	}{
		"nothing":        {nil, 0, false},
		"only unknown":   {of(Unknown, Unknown), 0, false},
		"unknown apart":  {of(Met, Unknown, Violated), 0.5, true},
		"at risk is ½":   {of(Met, AtRisk), 0.75, true},
		"all met":        {of(Met, Met, Met), 1, true},
		"all violated":   {of(Violated), 0, true},
		"no such status": {of("?", Met), 1, true},
	}
	for name, test := range tests {
		if share, ok := Compliance(test.verdicts); share != test.share || ok != test.ok {
			t.Errorf("%s: %g %t, want %g %t", name, share, ok, test.share, test.ok)
		}
	}
}

// Higher usage of a limit never improves a verdict, and a verdict is always consistent with its severity.
func TestEvaluateIsMonotone(t *testing.T) {
	rank := map[Status]int{Met: 0, AtRisk: 1, Violated: 2}
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{CostMaxUSD: rapid.Float64Range(0.01, 100).Draw(t, "limit"), ThroughputMin: 50}
		x := rapid.Float64Range(0, 200)
		p := Interval{x.Draw(t, "p5"), x.Draw(t, "p50"), x.Draw(t, "p95")}
		value, more := x.Draw(t, "value"), x.Draw(t, "more")
		judge := func(o Objective, d float64) Verdict {
			q := Interval{p.P5 + d, p.P50 + d, p.P95 + d}
			for _, v := range Evaluate(spec, map[Objective]Measure{o: {Value: value + d, Projected: &q}}) {
				if v.Objective == o {
					return v
				}
			}
			panic("no verdict")
		}
		for _, o := range []Objective{Cost, Throughput} {
			a, b := judge(o, 0), judge(o, more)
			if o == Throughput {
				a, b = b, a
			}
			if rank[a.Status] > rank[b.Status] || *a.Severity > *b.Severity+1e-12 {
				t.Errorf("%s: %s %g, then worse: %s %g", o, a.Status, *a.Severity, b.Status, *b.Severity)
			}
			if a.Status == Met && *a.Severity > 0 {
				t.Errorf("%s is met with severity %g", o, *a.Severity)
			}
		}
	})
}

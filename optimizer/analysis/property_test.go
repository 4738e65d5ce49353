package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/optimizer/history"
)

// anyEntry draws an entry of a model in which any field may be unknown.
func anyEntry(t *rapid.T, i int, model string) history.Entry {
	e := history.NewEntry(rapid.SampledFrom([]history.Kind{history.Run, history.Run, history.Log, history.Probe, history.Table}).Draw(t, "kind"), fmt.Sprintf("%s-%d", model, i))
	e.Job.Model = model
	number := func(name string, values ...float64) float64 {
		return rapid.SampledFrom(append(values, nan)).Draw(t, name)
	}
	positive := func(name string) float64 {
		return rapid.OneOf(rapid.Float64Range(1e-3, 1e5), rapid.Just(nan)).Draw(t, name)
	}
	e.At = time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "day"))*86400, 0)
	e.State = rapid.SampledFrom([]string{"done", "done", "failed", "stopped", "running", ""}).Draw(t, "state")
	e.Observed.GPUs, e.Observed.CPUs, e.Observed.Batch = number("gpus", 0, 1, 2, 4), number("cpus", 2, 4, 8), number("batch", 32, 64)
	e.Job.DataCount = number("samples", 1000, 50_000)
	e.Unit = rapid.SampledFrom([]string{"epoch", "epoch", "step", ""}).Draw(t, "unit")
	e.Units, e.Seconds, e.UnitTime, e.Throughput, e.CostUSD = positive("units"), positive("seconds"), positive("unit time"), positive("throughput"), positive("usd")
	e.GPUUtil, e.CPUUtil, e.GPUMemoryGiB = number("gpu", 0, 30, 90), number("cpu", 20, 99), number("gpu memory", 0, 8)
	if rapid.Bool().Draw(t, "priced") {
		e.Rates = a100
	}
	return e
}

func anyEntries(t *rapid.T, model string) []history.Entry {
	list := make([]history.Entry, rapid.IntRange(0, 12).Draw(t, model))
	for i := range list {
		list[i] = anyEntry(t, i, model)
		if i > 0 && list[i].Kind == history.Probe {
			list[i].Parent = list[i-1].ID
		}
	}
	return list
}

// For any known and unknown fields, no comparable run is better than the best, and no output format fails or contains
// an invalid number.
func TestBestIsNeverWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := anyEntries(t, "m")
		r := analyze(entries, Options{Limits: strict})
		for format := range formats {
			var b strings.Builder
			if err := r.Render(&b, format); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), "NaN") || format != "html" && strings.Contains(b.String(), "Inf") {
				t.Fatalf("%s has a number that is none:\n%s", format, b.String())
			}
			if format == "json" && !json.Valid([]byte(b.String())) {
				t.Fatal("not JSON")
			}
		}
		for _, g := range r.Models {
			for _, b := range g.Best {
				check(t, g, b)
			}
			for _, c := range g.Curves {
				if len(c.Points) < 2 || !near(float64(c.Points[0].Speedup.Mean), 1) {
					t.Fatalf("%+v", c)
				}
				for i, p := range c.Points {
					if i > 0 && p.At <= c.Points[i-1].At || !(p.Speed.Mean > 0) || p.Speed.Lo > p.Speed.Mean || p.Speed.Hi < p.Speed.Mean {
						t.Fatalf("%+v", c)
					}
				}
			}
		}
		for _, f := range r.Findings {
			if f.LostUSD < 0 {
				t.Fatalf("negative money: %+v", f)
			}
		}
	})
}

// check compares the best with every comparable configuration, by an independent mean.
func check(t *rapid.T, g group, b bestConfig) {
	if b.By == "throughput_per_dollar" && b.Unit != "samples per USD" {
		return // per unit, which check cannot compute from the report
	}
	of := criteria[slices.IndexFunc(criteria, func(c criterion) bool { return c.name == b.By })].of
	logs := map[string][]float64{}
	for _, m := range g.comparable {
		if v := of(m); m.State != "failed" && v > 0 {
			logs[configWords(m.On)] = append(logs[configWords(m.On)], math.Log(v))
		}
	}
	for config, values := range logs {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		mean := math.Exp(sum / float64(len(values)))
		if b.By == "throughput_per_dollar" && mean > float64(b.Value.Mean)*(1+1e-9) || b.By != "throughput_per_dollar" && mean < float64(b.Value.Mean)*(1-1e-9) {
			t.Fatalf("%s: %s has %v, the best (%s) %v", b.By, config, mean, b.Config, b.Value.Mean)
		}
	}
	if b.ThanSecondPct < -1e-9 || b.ThanMedianPct < -1e-9 {
		t.Fatalf("better by less than nothing: %+v", b)
	}
}

func TestOrderAndOtherModelsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mine, other := anyEntries(t, "m"), anyEntries(t, "other")
		alone := analyze(mine, Options{Limits: strict})
		shuffled := slices.Clone(mine)
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, seed)).Shuffle(len(shuffled), func(i, k int) { shuffled[i], shuffled[k] = shuffled[k], shuffled[i] })
		if a, b := text(t, alone), text(t, analyze(shuffled, Options{Limits: strict})); a != b {
			t.Fatalf("the order matters:\n%s\n%s", a, b)
		}
		both := analyze(append(slices.Clone(mine), other...), Options{Limits: strict})
		at := slices.IndexFunc(both.Models, func(g group) bool { return g.Model == "m" })
		if len(alone.Models) == 0 {
			return
		}
		a, _ := json.Marshal(alone.Models[0])
		b, _ := json.Marshal(both.Models[at])
		if string(a) != string(b) {
			t.Fatalf("another model matters:\n%s\n%s", a, b)
		}
	})
}

func text(t *rapid.T, r *Report) string {
	var all strings.Builder
	for _, format := range []string{"json", "csv", "html"} {
		if err := r.Render(&all, format); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

func TestCharacteristics(t *testing.T) {
	a := New(Options{Rates: &cost.Rates{GPUHour: 1, Source: "by hand", Dated: "2026-05-01"}})
	a.AddEntries([]history.Entry{ran("a", "m", 2, 8, 10, 359, nil), ran("b", "m", 1, 8, 10, 359, func(e *history.Entry) { e.Job.Params = nan })})
	a.AddEntries([]history.Entry{ran("b", "m", 1, 8, 10, 100, func(e *history.Entry) { e.Job.Params, e.Job.Family = 26e6, "fam" })}) // the same run with more fields
	runs := a.runs(nil)
	if len(runs) != 2 || !near(runs[0].USD, 2) || !near(runs[1].USD, 1010./3600) {
		t.Errorf("%d runs, want two, both with the new prices", len(runs))
	}
	c := characteristics(runs)
	if len(c) != 1 || c[0].Params.Runs != 2 || c[0].Params.Max != 26e6 || !slices.Equal(c[0].Datasets, []string{"cifar10"}) || !slices.Equal(c[0].Families, []string{"fam"}) {
		t.Errorf("%+v", c)
	}
}

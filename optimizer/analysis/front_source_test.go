package analysis

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadLog(t *testing.T) {
	own := resources.Allocation{CPUs: 4, Memory: 8}
	cases := map[string]struct {
		log      string
		fallback resources.Allocation
		want     Finished
		note     string
		err      error
	}{
		"all there": {"epoch,time_so_far,gpu_count,cpu_count,memory_used_gb,cost_so_far,batch_size\n1,10,2,8,3,0.5,64\n2,21,2,8,5,1.25,64\n", resources.Allocation{},
			Finished{Allocation: resources.Allocation{GPUs: 2, CPUs: 8, Memory: 5, BatchSize: 64}, Seconds: 21, CostUSD: 1.25, Units: 2}, "", nil},
		"times add up": {"epoch,epoch_time,cpu_count\n1,10,8\n2,12,8\n", resources.Allocation{},
			Finished{Allocation: resources.Allocation{CPUs: 8}, Seconds: 22, CostUSD: math.NaN(), Units: 2}, "", nil},
		"made with what the user says": {"epoch,epoch_time\n1,10\n", own, Finished{Allocation: own, Seconds: 10, CostUSD: math.NaN(), Units: 1}, "4 CPU assumed", nil},
		"steps":                        {"step,time_so_far,cpu_count\n100,5,1\n200,9,1\n", resources.Allocation{}, Finished{Allocation: resources.Allocation{CPUs: 1}, Seconds: 9, CostUSD: math.NaN(), Units: 200}, "", nil},
		"a bad row":                    {"epoch,epoch_time,cpu_count\n1,10,8\n2,1\n3,10,8\n", resources.Allocation{}, Finished{Allocation: resources.Allocation{CPUs: 8}, Seconds: 20, CostUSD: math.NaN(), Units: 3}, "1 of 3 rows skipped", nil},
		"empty":                        {"", own, Finished{}, "", trainlog.ErrNoData},
		"no row":                       {"epoch,epoch_time\n", own, Finished{}, "", trainlog.ErrNoData},
		"no times":                     {"epoch,train_loss\n1,0.5\n", own, Finished{}, "", errNoPoint},
		"no CPUs":                      {"epoch,epoch_time\n1,10\n", resources.Allocation{}, Finished{}, "", errNoPoint},
	}
	for name, c := range cases {
		got, err := ReadFinishedLog(writeFile(t, "log.csv", c.log), nil, c.fallback)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
			continue
		}
		if err != nil {
			continue
		}
		if !got.Allocation.Same(c.want.Allocation) || got.Seconds != c.want.Seconds || got.Units != c.want.Units ||
			got.CostUSD != c.want.CostUSD && !(math.IsNaN(got.CostUSD) && math.IsNaN(c.want.CostUSD)) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if notes := strings.Join(got.Notes, "; "); !strings.Contains(notes, c.note) || (c.note == "") != (notes == "") {
			t.Errorf("%s: notes %q, want %q", name, notes, c.note)
		}
	}
}

func TestOfFinished(t *testing.T) {
	list := []Finished{
		{Name: "one", Allocation: resources.Allocation{GPUs: 1, CPUs: 4, Memory: 10}, Seconds: 7200, CostUSD: 3, Units: 30},
		{Name: "two", Allocation: resources.Allocation{GPUs: 2, CPUs: 8, Memory: 20}, Seconds: 3600, CostUSD: math.NaN(), Units: 30},
	}
	own := FromFinished(list, nil)
	if v := own.Points[0].CostUSD.P50; v != 3 {
		t.Errorf("its own cost is %v, want 3", v)
	}
	if v, want := own.Points[1].CostUSD.P50, float64(cost.Default("unknown").Hourly(list[1].Allocation)); math.Abs(v-want) > 1e-12 || !strings.Contains(strings.Join(own.Notes, " "), "priced at") {
		t.Errorf("priced at the default: %v, want %v and a note: %v", v, want, own.Notes)
	}
	if own.Points[0].Resource != 0.5 || own.Points[1].Resource != 1 {
		t.Errorf("resources %v and %v, want a half and all of the most", own.Points[0].Resource, own.Points[1].Resource)
	}
	given := FromFinished(list, &cost.Rates{GPUHour: 2, Source: "a contract", Dated: "2026-01-02"})
	if a, b := given.Points[0].CostUSD.P50, given.Points[1].CostUSD.P50; a != 4 || b != 4 || !strings.Contains(given.Basis, "a contract") {
		t.Errorf("at 2 USD a GPU and hour: %v and %v, want 4 and 4; %s", a, b, given.Basis)
	}
	list[1].Units, list[1].Allocation.Memory = 15, 0
	mixed := FromFinished(list, nil)
	if notes := strings.Join(mixed.Notes, " "); !strings.Contains(notes, "not of the same work") || !strings.Contains(notes, "memory is not counted") {
		t.Errorf("notes %q", notes)
	}
	if mixed.Points[0].Resource != 0.5 {
		t.Errorf("without memory: %v, want a half of GPUs and CPUs", mixed.Points[0].Resource)
	}
}

// record is a finished run on 4 CPUs with measurements at 4 and 1 CPUs and a small gain from additional CPUs.
func record(t *testing.T, change func(*journal.Record)) string {
	t.Helper()
	iv := func(v float64) sla.Interval { return sla.Interval{P5: v * 0.9, P50: v, P95: v * 1.1} }
	units := func(u float64) []journal.Number {
		return []journal.Number{journal.Number(u), journal.Number(u * 1.01), journal.Number(u * 0.99)}
	}
	unknown := journal.Unknown()
	alloc := func(cpus int) resources.Allocation { return resources.Allocation{CPUs: cpus, Memory: 2} }
	probe := func(cpus int, u float64) journal.Probe {
		return journal.Probe{Allocation: alloc(cpus), UnitSeconds: units(u), UnitSamples: unknown, PeakMemoryGiB: 1.5, Seconds: unknown, Throughput: unknown, CostUSD: unknown, CPUUtil: unknown, GPUUtil: unknown}
	}
	rec := &journal.Record{Schema: journal.Schema, RunID: "20260102-030405-a-1", State: journal.Done, StartedAt: time.Unix(1767323045, 0).UTC(),
		Host: journal.Host{Host: resources.Host{CPUs: 4, Memory: 16}}, Preference: plan.Preference{Cost: 1},
		Prices:   journal.Prices{Rates: cost.Rates{CPUHour: 0.04, Source: "a list", Dated: "2026-01-02"}},
		Measured: []journal.Probe{probe(4, 1), probe(1, 3.1)}, Training: journal.Training{TotalUnits: 50, Unit: "epoch"},
		Outcome: journal.Outcome{Seconds: 155, CostUSD: 0.0017, Epochs: 50},
		Plan: &journal.Plan{AtS: 5, Prediction: &journal.Prediction{}, Plan: plan.Plan{Allocation: alloc(1), Planner: "model",
			Candidates: []plan.Candidate{{Allocation: alloc(1), Seconds: iv(155), CostUSD: iv(0.0017), Resource: 0.2, Feasible: true}, {Allocation: alloc(4), Seconds: iv(52), CostUSD: iv(0.0023), Resource: 0.6, Feasible: true}}}}}
	if change != nil {
		change(rec)
	}
	data, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(writeFile(t, journal.RecordFile, string(data)))
}

func TestOfRun(t *testing.T) {
	set, err := FromRun(record(t, nil))
	if err != nil || len(set.Points) != 2 || !set.Points[0].Taken || set.Points[1].Taken || set.Preference.Cost != 1 || !set.Predicted {
		t.Fatalf("%+v, %v", set, err)
	}
	for name, breaks := range map[string][]sla.Objective{"slower than the baseline": nil, "slower, and late": {sla.Time}} {
		set, err := FromRun(record(t, func(r *journal.Record) {
			c := &r.Plan.Candidates[0]
			c.Feasible, c.Slower, c.Breaks = false, true, breaks
		}))
		if err != nil || set.Points[0].Feasible != (breaks == nil) {
			t.Errorf("%s: %+v, %v", name, set.Points, err)
		}
	}
	for name, change := range map[string]func(*journal.Record){
		"no plan":       func(r *journal.Record) { r.Plan = nil },
		"no prediction": func(r *journal.Record) { r.Plan.Prediction = nil },
		"no candidates": func(r *journal.Record) { r.Plan.Candidates = nil },
	} {
		if _, err := FromRun(record(t, change)); !errors.Is(err, errNoPoint) || !strings.Contains(err.Error(), "20260102-030405-a-1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := FromRun(t.TempDir()); err == nil {
		t.Error("an empty directory is a run")
	}
}

func TestOfModel(t *testing.T) {
	set, err := FromModel(record(t, nil), ModelOverrides{})
	if err != nil || len(set.Points) != 4 {
		t.Fatalf("%d points, %v: want one a CPU count", len(set.Points), err)
	}
	one := set.Points[0]
	if !(one.Seconds.P5 < 155 && one.Seconds.P95 > 155) || !one.Taken || math.Abs(one.CostUSD.P50-one.Seconds.P50/3600*0.04) > 1e-9 {
		t.Errorf("at 1 CPU %+v: want about 50 epochs of 3.1 s at 0.04 USD an hour", one)
	}
	if len(set.Notes) != 0 && !strings.Contains(set.Notes[0], "outside") {
		t.Errorf("notes %q", set.Notes)
	}
	other, err := FromModel(record(t, nil), ModelOverrides{Ranges: resources.Ranges{CPUs: "2:8"}, Rates: &cost.Rates{CPUHour: 1, Source: "s", Dated: "2026-01-02"}, Spec: &sla.Spec{TimeMax: 80 * time.Second}})
	if err != nil || len(other.Points) != 7 {
		t.Fatalf("%d points, %v: want 2 to 8 CPUs", len(other.Points), err)
	}
	if p := other.Points[0]; p.Feasible || math.Abs(p.CostUSD.P50-p.Seconds.P50/3600*2) > 1e-9 {
		t.Errorf("2 CPUs: %+v: want it to miss 80 s, at the given price", p)
	}
	if p := other.Points[6]; !p.Feasible {
		t.Errorf("8 CPUs: %+v: want it to keep 80 s", p)
	}
	if !strings.Contains(strings.Join(other.Notes, " "), "outside of what was measured") {
		t.Errorf("notes %q do not say that 8 CPUs were never measured", other.Notes)
	}
	for name, r := range map[string]resources.Ranges{"no CPU": {CPUs: "0:0"}, "empty range": {CPUs: "5:2"}, "no range": {Memory: "much"}, "too many": {CPUs: "1:100000"}} {
		if _, err := FromModel(record(t, nil), ModelOverrides{Ranges: r}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := FromModel(record(t, func(r *journal.Record) { r.Measured = nil }), ModelOverrides{}); !errors.Is(err, errNoPoint) {
		t.Errorf("nothing measured: %v", err)
	}
}

// TestUnknownPriceIsNotZero: a price that the record of a run does not contain costs nothing only where it is not used.
func TestUnknownPriceIsNotZero(t *testing.T) {
	without := func(price ...string) string {
		dir := record(t, nil)
		path := filepath.Join(dir, journal.RecordFile)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range price {
			before := data
			if data = regexp.MustCompile(`"`+p+`":[0-9.]+`).ReplaceAll(data, []byte(`"`+p+`":null`)); bytes.Equal(before, data) {
				t.Fatalf("the record has no %s:\n%s", p, data)
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	known, err := FromModel(record(t, nil), ModelOverrides{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := FromModel(without("gpu_hour"), ModelOverrides{})
	if err != nil || len(set.Points) != len(known.Points) || set.Points[0].CostUSD != known.Points[0].CostUSD {
		t.Errorf("a job without GPUs, the price of GPUs unknown: %+v, %v; want the costs %+v", set.Points, err, known.Points)
	}
	if set, err := FromModel(without("cpu_hour"), ModelOverrides{}); !errors.Is(err, errNoPoint) || !strings.Contains(err.Error(), "prices") {
		t.Errorf("the price of CPUs unknown: %+v, %v; want ErrNoPoint", set.Points, err)
	}
	given := &cost.Rates{CPUHour: 0.04, Source: "s", Dated: "2026-01-02"}
	if set, err := FromModel(without("cpu_hour", "gib_hour"), ModelOverrides{Rates: given}); err != nil || math.Abs(set.Points[0].CostUSD.P50-set.Points[0].Seconds.P50/3600*0.04) > 1e-9 {
		t.Errorf("at a given price: %+v, %v", set.Points, err)
	}
}

func TestReadRun(t *testing.T) {
	f, err := ReadFinishedRun(record(t, nil))
	if err != nil || f.Seconds != 155 || f.CostUSD != 0.0017 || f.Units != 50 || f.Allocation.CPUs != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	early := record(t, func(r *journal.Record) {
		r.Training.Unit, r.Training.TotalUnits, r.Outcome.Epochs, r.Outcome.Steps, r.Outcome.Rows = "step", 10_000, journal.Unknown(), 400, 40
	})
	if f, err := ReadFinishedRun(early); err != nil || f.Units != 400 {
		t.Errorf("400 of 10,000 steps in 40 rows: %+v, %v", f, err)
	}
	if _, err := ReadFinishedRun(record(t, func(r *journal.Record) { r.State = journal.Stopped })); !errors.Is(err, errNoPoint) {
		t.Errorf("a stopped run: %v", err)
	}
	f, err = ReadFinishedRun(record(t, func(r *journal.Record) { r.Outcome.Epochs, r.Outcome.FromUnits = 100, 50 }))
	if err != nil || f.Units != 50 {
		t.Errorf("a run that continued at 50 of 100 epochs: %+v, %v", f, err)
	}
}

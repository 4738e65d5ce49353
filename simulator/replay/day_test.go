package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/cluster"
)

// at returns a time of the test days.
func at(s float64) float64 { return monday + s }

// single returns a life of a job with 2 steps/s that starts at 0 and makes progress from 2 s on, without its end.
func single() []cluster.Event {
	startup := 2.0
	return []cluster.Event{
		{Kind: cluster.EventServe, Time: at(0), Policy: "fifo", Round: 60, Devices: fourTypes},
		{Kind: cluster.EventSubmit, Time: at(0), Job: 1, GPUs: 1, Total: 200},
		{Kind: cluster.EventDecide, Time: at(0)},
		{Kind: cluster.EventStart, Time: at(0), Job: 1, Stretch: 1, Device: "k80", GPUs: 1, Do: "start"},
		{Kind: cluster.EventRunning, Time: at(10), Job: 1, Seconds: &startup},
		{Kind: cluster.EventRate, Time: at(10.25), Job: 1, Device: "k80", GPUs: 1, Seen: 2, Done: 16}, // and half of the next step
	}
}

// TestOutageIsNeitherStartNorLostStep: the time between the exit of a training and its notice, by the next server, or by one that was
// suspended, belongs to the faults. It makes no job slow, no start long, and no step is lost by it.
func TestOutageIsNeitherStartNorLostStep(t *testing.T) {
	serve := cluster.Event{Kind: cluster.EventServe, Time: at(260), Policy: "fifo", Round: 60, Devices: fourTypes, Restarted: true}
	left := cluster.Event{Kind: cluster.EventLeft, Time: at(262), Job: 1, Stretch: 1, Device: "k80", GPUs: 1, Done: 40, Exited: at(22), Reason: "lease"}
	end := cluster.Event{Kind: cluster.EventEnd, Time: at(352), Job: 1, State: cluster.Done, Done: 200, Total: 200, CostUSD: 1}
	again := cluster.Event{Kind: cluster.EventStart, Time: at(270), Job: 1, Stretch: 2, Device: "k80", GPUs: 1, Do: "start"}
	for name, c := range map[string]struct {
		events            []cluster.Event
		away, held, start float64
	}{
		"next server": {[]cluster.Event{serve, {Kind: cluster.EventAdopt, Time: at(262), Job: 1, Stretch: 1, GPUs: 1, Exited: at(22)},
			{Kind: cluster.EventLeft, Time: at(342), Job: 1, Stretch: 1, Device: "k80", GPUs: 1, Done: 200, Reason: "exited"}, end}, 240, 102, 2},
		"suspended server": {[]cluster.Event{left, again,
			{Kind: cluster.EventLeft, Time: at(352), Job: 1, Stretch: 2, Device: "k80", GPUs: 1, Done: 200, Reason: "exited"}, end}, 240, 104, 4},
	} {
		day, err := NewDay(append(single(), c.events...))
		if err != nil {
			t.Fatal(err)
		}
		r := newRates(day)
		w, f := day.waste(r)
		if e := r.at(day.Jobs[0], place{"k80", 1}); math.Abs(e.rate-2) > 0.01 {
			t.Errorf("%s: %g steps/s, want 2", name, e.rate)
		}
		if math.Abs(float64(w.HeldS)-c.held) > 0.1 || math.Abs(float64(w.StartingS)-c.start) > 0.1 || w.RepeatedS > 0.1 || float64(f.UnservedIdleS) < c.away || float64(f.UnservedS) < c.away {
			t.Errorf("%s: %+v %+v, want %+v and no lost step", name, w, f, c)
		}
	}
}

// TestEndlessJob: a job whose work would take years is left out of the simulations, with a note; the others have theirs.
func TestEndlessJob(t *testing.T) {
	events := append(single(), cluster.Event{Kind: cluster.EventLeft, Time: at(102), Job: 1, Stretch: 1, Device: "k80", GPUs: 1, Done: 200, Reason: "exited"},
		cluster.Event{Kind: cluster.EventEnd, Time: at(102), Job: 1, State: cluster.Done, Done: 200, Total: 200})
	for _, e := range single()[1:] {
		if e.Job = 2; e.Kind == cluster.EventSubmit {
			e.Total = 1e10
		}
		e.Time += 102
		events = append(events, e)
	}
	began := time.Now()
	a := audit(t, events, Options{Policies: []string{"srtf"}, Draws: 2})
	if !slices.Equal(a.left(2), []string{"2"}) || a.Compared != 1 || !slices.ContainsFunc(a.Notes, func(n string) bool { return strings.Contains(n, "many times longer than the day: 1 of 2") }) {
		t.Errorf("compared %d, simulated %+v, notes %q", a.Compared, a.Jobs, a.Notes)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// left returns the jobs that were not simulated.
func (a *Audit) left(n int) (out []string) {
	for _, j := range a.Jobs[:n] {
		if math.IsNaN(float64(j.SimulatedJCTS)) {
			out = append(out, fmt.Sprint(j.ID))
		}
	}
	return out
}

// TestContradictions: events that state more time than has passed, or a rate that the steps of the job contradict, are counted,
// and change no rate.
func TestContradictions(t *testing.T) {
	long, end := 1e12, cluster.Event{Kind: cluster.EventEnd, Time: at(102), Job: 1, State: cluster.Done, Done: 200, Total: 200}
	left := cluster.Event{Kind: cluster.EventLeft, Time: at(102), Job: 1, Stretch: 1, Device: "k80", GPUs: 1, Done: 200, Reason: "exited"}
	for name, e := range map[string]cluster.Event{
		"start-up":    {Kind: cluster.EventRunning, Time: at(11), Job: 1, Seconds: &long},
		"save":        {Kind: cluster.EventLeft, Time: at(11), Job: 1, Seconds: &long},
		"early exit":  {Kind: cluster.EventLeft, Time: at(11), Job: 1, Exited: at(-1000)},
		"future exit": {Kind: cluster.EventAdopt, Time: at(11), Job: 1, Exited: at(1000)},
		"rate":        {Kind: cluster.EventRate, Time: at(11), Job: 1, Device: "k80", GPUs: 1, Seen: long, Done: 18},
		"slow rate":   {Kind: cluster.EventRate, Time: at(11), Job: 1, Device: "k80", GPUs: 1, Seen: 1 / long, Done: 18},
		"rate alone":  {Kind: cluster.EventRate, Time: at(11), Job: 1, Device: "k80", GPUs: 1, Seen: long},
	} {
		day, err := NewDay(append(single(), e, left, end))
		if err != nil {
			t.Fatal(err)
		}
		if rate := newRates(day).at(day.Jobs[0], place{"k80", 1}).rate; day.Torn != 1 || math.Abs(rate-2) > 0.01 {
			t.Errorf("%s: %d damaged, %g steps/s; want 1, 2", name, day.Torn, rate)
		}
	}
}

// FuzzDay: no event log makes an audit panic, or run for minutes.
func FuzzDay(f *testing.F) {
	for _, path := range []string{"moves.jsonl", "outage.jsonl"} { // of a local cluster
		data, err := os.ReadFile(filepath.Join("testdata", path))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"kind":"serve","t":1,"policy":"srtf","round_s":5,"devices":[{"name":"a","count":1}]}` + "\n" + `{"kind":"submit","t":2,"job":1,"gpus":3,"total":5}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "cluster"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cluster", "events.jsonl"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		events, _, err := cluster.ReadEvents(dir, 0)
		if err != nil || len(events) > 200 {
			return
		}
		day, err := NewDay(events)
		if err != nil || slices.ContainsFunc(day.Jobs, func(j *job) bool { return j.MaxGPUs > 64 }) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		a, err := day.Audit(ctx, Options{Policies: []string{"srtf"}, Draws: 1})
		if ctx.Err() != nil {
			t.Error(err)
		}
		if err == nil {
			var b strings.Builder
			if err := a.Render(&b, "json"); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestEventsWithoutSubmission: the audit of a log whose beginning is lost states that events were left out.
func TestEventsWithoutSubmission(t *testing.T) {
	left := cluster.Event{Kind: cluster.EventLeft, Time: at(20), Job: 7, Stretch: 1, Device: "k80", GPUs: 1, Reason: "lease"}
	day, err := NewDay(append(single(), left, cluster.Event{Kind: cluster.EventEnd, Time: at(21), Job: 8, State: cluster.Failed})) // job 8 was never admitted
	if err != nil || day.Torn != 1 {
		t.Fatalf("%v, %+v", err, day)
	}
	a, err := day.Audit(context.Background(), Options{Policies: []string{"fifo"}, Draws: 1})
	if err != nil || !strings.Contains(strings.Join(a.Notes, " "), "1 line, damaged or of a job whose submission is missing") {
		t.Errorf("%v, %q", err, a.Notes)
	}
}

// TestProgressBeforeTotal: a decision between the start of a job and its first measurement, from which on its total is known, was
// made on the progress of then.
func TestProgressBeforeTotal(t *testing.T) {
	job := func(n int) (out []cluster.Event) {
		for _, e := range single()[1:] {
			switch e.Job = n; e.Kind {
			case cluster.EventSubmit:
				e.Total = 0
			case cluster.EventRate:
				e.Total = 200
			}
			out = append(out, e)
		}
		return append(out, cluster.Event{Kind: cluster.EventLeft, Time: at(102), Job: n, Stretch: 1, Device: "k80", GPUs: 1, Done: 200, Reason: "exited"},
			cluster.Event{Kind: cluster.EventEnd, Time: at(102), Job: n, State: cluster.Done, Done: 200, Total: 200})
	}
	events := append(append(single()[:1:1], job(1)...), job(2)...)
	decide := cluster.Event{Kind: cluster.EventDecide, Time: at(5), Jobs: 2}
	if err := json.Unmarshal([]byte(`[{"job": 1, "done": 3}, {"job": 2, "done": 0}]`), &decide.Progress); err != nil {
		t.Fatal(err)
	}
	events = append(events, decide)
	slices.SortStableFunc(events, func(a, b cluster.Event) int { return cmp.Compare(a.Time, b.Time) })
	day, err := NewDay(events)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{3, 0} {
		if got := day.Jobs[i].Lives[0].known; len(got) != 1 || got[0].Done != want {
			t.Errorf("job %d: known %+v, want %g steps", i+1, got, want)
		}
	}
	if a := audit(t, events, Options{Policies: []string{"srtf"}, Draws: 2}); a.Compared != 2 {
		t.Errorf("compared %d jobs: %+v", a.Compared, a.Jobs)
	}
}

// TestSlowEndLosesNoStep: a training that became slower in the life in which it finished has lost no step; one that was launched
// again has.
func TestSlowEndLosesNoStep(t *testing.T) {
	for launches, lost := range map[int]float64{1: 0, 2: 200} {
		day, err := NewDay(append(single(), cluster.Event{Kind: cluster.EventLeft, Time: at(302), Job: 1, Stretch: 1, Device: "k80", GPUs: 1, Done: 200, Reason: "exited"},
			cluster.Event{Kind: cluster.EventEnd, Time: at(302), Job: 1, State: cluster.Done, Done: 200, Total: 200, Launches: launches}))
		if err != nil {
			t.Fatal(err)
		}
		if w, _ := day.waste(newRates(day)); math.Abs(float64(w.RepeatedS)-lost) > 5 {
			t.Errorf("%d launches: %g s for lost steps, want %g", launches, w.RepeatedS, lost)
		}
	}
}

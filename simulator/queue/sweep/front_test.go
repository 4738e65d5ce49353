package sweep

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

func summary(slowdown, energy, utilization float64, misses int) queue.Summary {
	return queue.Summary{Jobs: 10, Completed: 10, BoundedSlowdown: queue.MeanMax{Mean: slowdown}, Energy: energy, Utilization: utilization,
		Deadlines: 10, DeadlineMisses: misses}
}

// Three schedules, one of which is dominated; each preference selects the best one for it, and an intermediate
// preference the compromise.
func TestChoose(t *testing.T) {
	f, err := frontOf(map[string]queue.Summary{
		"fast":   summary(1, 100, 0.5, 0),
		"frugal": summary(9, 20, 0.5, 5),
		"middle": summary(2, 30, 0.5, 1),
		"beaten": summary(9, 30, 0.5, 5),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Points {
		if p.OnFront == (p.Name == "beaten") {
			t.Errorf("%s: on the front %v", p.Name, p.OnFront)
		}
	}
	for preference, want := range map[string]string{
		"slowdown=1": "fast", "energy=3": "frugal", "slowdown=1,energy=1": "middle", "slowdown=100,energy=1": "fast", "deadlines=1": "fast",
		"utilization=1, energy=0.001": "frugal",
	} {
		p, err := parsePreference(preference)
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.Choose(p)
		if err != nil || c.Name != want {
			t.Errorf("%s: got %s, %v, want %s", preference, c.Name, err, want)
		}
	}
}

// Metrics unknown for all points are omitted and cannot be weighted; a point that lacks a known metric is not on the
// front.
func TestUnknown(t *testing.T) {
	a, b := summary(1, math.NaN(), 0.5, 0), summary(2, math.NaN(), 0.7, 0)
	a.Deadlines, b.Deadlines = 0, 0
	f, err := frontOf(map[string]queue.Summary{"a": a, "b": b})
	if err != nil || f.Known != [criteria]bool{bySlowdown: true, byUtilization: true} {
		t.Fatalf("got %+v, %v", f, err)
	}
	if _, err := f.Choose(Preference{byEnergy: 1}); err == nil || !strings.Contains(err.Error(), "energy is not known") {
		t.Errorf("got %v, want that energy is not known", err)
	}
	f, err = frontOf(map[string]queue.Summary{"a": a, "c": summary(5, 5, 0.1, 0)})
	if err != nil || f.Points[0].OnFront || !f.Points[1].OnFront {
		t.Errorf("got %+v, %v", f, err)
	}
	unfinished := summary(1, 1, 1, 0)
	unfinished.Unfinished = 3
	if _, err := frontOf(map[string]queue.Summary{"x": unfinished}); err == nil || !strings.Contains(err.Error(), "x left 3 of 10 jobs unfinished") {
		t.Errorf("got %v, want a word on unfinished jobs", err)
	}
	for name, of := range map[string]map[string]queue.Summary{"none": nil, "blind": {"a": a, "b": {Jobs: 1, BoundedSlowdown: queue.MeanMax{Mean: math.NaN()}, Energy: 1, Utilization: math.NaN()}}} {
		if name == "blind" {
			delete(of, "a")
			c := of["b"]
			c.Energy = math.NaN()
			of["b"] = c
		}
		if _, err := frontOf(of); !errors.Is(err, errNoFront) {
			t.Errorf("%s: got %v, want %v", name, err, errNoFront)
		}
	}
}

// No point of the front is dominated, every other point is, and choices are on the front.
func TestFrontKeepsItsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		results := map[string]queue.Summary{}
		for i := range rapid.IntRange(1, 12).Draw(t, "points") {
			draw := func(what string) float64 { return float64(rapid.IntRange(1, 5).Draw(t, what)) }
			results[string(rune('a'+i))] = summary(draw("slowdown"), draw("energy"), draw("utilization")/5, int(draw("misses")))
		}
		f, err := frontOf(results)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range f.Points {
			beaten := false
			for k, o := range f.Points {
				better, worse := false, false
				for m := range p.Vector {
					better = better || o.Vector[m] < p.Vector[m]
					worse = worse || o.Vector[m] > p.Vector[m]
				}
				beaten = beaten || !worse && (better || k < i)
			}
			if beaten == p.OnFront {
				t.Fatalf("%+v of %+v: on the front %v", p, f.Points, p.OnFront)
			}
		}
		c, err := f.Choose(Preference{1, 2, 3, 4})
		if err != nil || !c.OnFront {
			t.Fatalf("chose %+v, %v", c, err)
		}
	})
}

func TestBadPreferences(t *testing.T) {
	for s, want := range map[string]string{
		"": "want metric=weight", "speed=1": "want metric=weight", "energy=x": "want a number", "energy=-1": "want 0 or more",
		"energy=0": "all weights are 0", "energy=1,energy=2": "twice", "slowdown=NaN": "want 0 or more", "slowdown": "want metric=weight",
	} {
		if _, err := parsePreference(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", s, err, want)
		}
	}
}

// Parsing inverts String.
func FuzzParsePreference(f *testing.F) {
	f.Add("slowdown=2,energy=1e-3")
	f.Add("deadlines=0.5, utilization=1")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePreference(s)
		if err != nil {
			return
		}
		if q, err := parsePreference(p.String()); err != nil || q != p {
			t.Errorf("%q: %v becomes %v, %v", s, p, q, err)
		}
	})
}

func TestSetDeadlines(t *testing.T) {
	jobs := []order.Job{{Submit: 10, Request: 5, Deadline: math.NaN()}, {Submit: 10, Request: 5, Deadline: 12}, {Submit: 10, Request: 5}}
	set := SetDeadlines(jobs, 3)
	if set[0].Deadline != 25 || set[1].Deadline != 12 || set[2].Deadline != 25 {
		t.Errorf("got %v", set)
	}
	if !math.IsNaN(jobs[0].Deadline) || !math.IsNaN(SetDeadlines(jobs, 0)[0].Deadline) {
		t.Error("jobs were changed")
	}
}

package metis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/schedule/place"
)

// small returns a batch of Metis on a small cluster.
func small(t testing.TB, group int) *place.Problem {
	t.Helper()
	batches, err := place.MetisBatches(40)
	if err != nil {
		t.Fatal(err)
	}
	return &place.Problem{Types: []place.NodeType{{Name: "node", Count: 12, Table: place.MetisTable()}}, Batch: batches[group], Constraints: place.MetisConstraints()}
}

// TestEveryMethod checks that each method places the whole batch, that none exceeds the proven bound, and that equal
// seeds give equal placements.
func TestEveryMethod(t *testing.T) {
	p := small(t, 0)
	best, err := Place(t.Context(), "exact", p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			m, err := Find(name)
			if err != nil || m.Does == "" || m.From == "" {
				t.Fatalf("%+v, %v", m, err)
			}
			o := Options{Seed: 3, Episodes: 20}
			a, err := Place(t.Context(), name, p, o)
			if err != nil {
				t.Fatal(err)
			}
			w, err := p.Evaluate(a.Placement)
			if err != nil || w.MeanRPS > best.Bound+1e-9 {
				t.Errorf("%+v, bound %v, %v", w, best.Bound, err)
			}
			if m.Objective && math.Abs(a.Value-w.MeanRPS) > 1e-12 {
				t.Errorf("value %v of a placement of mean RPS %v", a.Value, w.MeanRPS)
			}
			if m.Learned != (len(a.Curve) > 0) {
				t.Errorf("learned %v, %d points of a curve", m.Learned, len(a.Curve))
			}
			b, err := Place(t.Context(), name, p, o)
			if err != nil || !slices.EqualFunc(a.Placement, b.Placement, bytes.Equal) {
				t.Errorf("the same seed gives another placement, %v", err)
			}
			if !m.Random {
				o.Seed = 4
				if b, err = Place(t.Context(), name, p, o); err != nil || !slices.EqualFunc(a.Placement, b.Placement, bytes.Equal) {
					t.Errorf("another seed gives another placement, %v", err)
				}
			}
		})
	}
}

func TestPlaceRefuses(t *testing.T) {
	p := small(t, 0)
	full := *p
	full.Batch = []int{100, 0, 0, 0, 0, 0, 0}
	for name, c := range map[string]struct {
		method, want string
		p            *place.Problem
		o            Options
	}{
		"unknown":   {"exactly", "want one of balanced", p, Options{}},
		"objective": {"spread", "objective of its own", p, Options{Objective: place.Objective{SLO: 1}}},
		"limits":    {"metis", "keeps no limits", p, Options{Limits: place.Limits{Nodes: 3}}},
		"full":      {"greedy", "100 containers", &full, Options{}},
		"weight":    {"exact", "NaN", p, Options{Objective: place.Objective{RPS: math.NaN()}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Place(t.Context(), c.method, c.p, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := Place(t.Context(), "exact", p, Options{Limits: place.Limits{Nodes: 4}}); !errors.Is(err, place.ErrInfeasible) {
		t.Errorf("40 containers on 4 nodes: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Place(ctx, "metis", p, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestPredicted checks that a larger sample gives a better forest, and that a forest of all patterns still differs
// from the table.
func TestPredicted(t *testing.T) {
	truth := place.MetisTable()
	last := math.Inf(1)
	for _, share := range []float64{0.02, 0.1} {
		got, err := predicted(truth, share, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		squared := 0.0
		for p := range truth.Patterns() {
			for i, v := range truth.RPS(p) {
				squared += (got.RPS(p)[i] - v) * (got.RPS(p)[i] - v)
			}
		}
		if !(squared < last && squared > 0) {
			t.Errorf("share %v: squared error %v, before %v", share, squared, last)
		}
		last = squared
	}
	// The first 6 % contain all pairs.
	got, err := predicted(truth, 0.06, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	for k := range uint8(7) {
		at := truth.Index([]uint8{1, k, 0, 0, 0, 0, 0})
		if math.Abs(got.RPS(at)[0]-truth.RPS(at)[0]) > 0.15 {
			t.Errorf("Redis beside %d MMS: %v, measured %v", k, got.RPS(at)[0], truth.RPS(at)[0])
		}
	}
	for _, share := range []float64{0, -1, 1.1, math.NaN()} {
		if _, err := predicted(truth, share, 1, false); err == nil {
			t.Errorf("a share of %v is taken", share)
		}
	}
}

func comparison(t testing.TB, workers int) *Comparison {
	c := &Comparison{Title: "test", XName: "containers", Methods: []string{"exact", "random", "greedy"}, Workers: workers}
	for i, nodes := range []int{12, 6} {
		s := Scenario{Name: []string{"wide", "narrow"}[i], X: float64(nodes), Options: Options{Limits: place.Limits{Nodes: 9}}}
		for g := range 5 {
			p := small(t, g)
			p.Types[0].Count = nodes
			s.Cases = append(s.Cases, Case{Group: uint64(g), Problem: p})
		}
		c.Scenarios = append(c.Scenarios, s)
	}
	return c
}

// TestCompareSameBytes checks that the output does not depend on the number of workers.
func TestCompareSameBytes(t *testing.T) {
	var texts []string
	for _, workers := range []int{1, 4} {
		done := 0
		c := comparison(t, workers)
		c.Progress = func(n, total int) {
			if n < done || total != 10 {
				t.Errorf("%d of %d after %d", n, total, done)
			}
			done = n
		}
		r, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := errors.Join(r.Comparison.Render(&b, "json"), r.Write(&b)); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, b.String())
		if done != 10 || len(r.Singles) != 30 || len(r.Also) != 2 {
			t.Errorf("%d done, %d placements, %d tables", done, len(r.Singles), len(r.Also))
		}
	}
	if texts[0] != texts[1] {
		t.Error("4 workers give other bytes than 1")
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(texts[0][:strings.LastIndex(texts[0], "}")+1]), &fields); err != nil {
		t.Error(err)
	}
}

// TestCompareInfeasible checks that a method without a placement has no values but a reason, and that times are those
// of the clock.
func TestCompareInfeasible(t *testing.T) {
	c := comparison(t, 1)
	c.Scenarios = c.Scenarios[:1]
	c.Scenarios[0].Options.Limits = place.Limits{Nodes: 4}
	now := time.Duration(0)
	c.Clock = func() time.Duration { now += time.Second; return now }
	r, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if row, ok := r.Row("exact", "mean_rps"); ok && row.N > 0 {
		t.Errorf("exact: %+v", row)
	}
	if row, ok := r.Row("random", "solve_s"); !ok || row.Mean != 1 || row.N != 5 {
		t.Errorf("random: %+v", row)
	}
	if text := strings.Join(r.Notes, "\n"); !strings.Contains(text, "exact found no placement for 5 of the groups") || strings.Contains(text, "random") {
		t.Errorf("notes: %s", text)
	}
}

func TestList(t *testing.T) {
	text := List().Text()
	for _, name := range Names() {
		if !strings.Contains("\n"+text, "\n"+name+"\n") {
			t.Errorf("no %s", name)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if len([]rune(line)) > 100 {
			t.Errorf("wider than 100: %s", line)
		}
	}
}

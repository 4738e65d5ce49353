package place

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawTable returns a small table of random throughputs, in coarse steps to produce ties.
func drawTable(t *rapid.T, apps []string, capacity int) *Table {
	draw := rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 20).Draw(t, "rps")) / 10 })
	if rapid.Bool().Draw(t, "fine") {
		draw = rapid.Float64Range(0, 2)
	}
	table, err := NewTable(apps, capacity, func(_ []uint8, rps []float64) {
		for a := range rps {
			rps[a] = draw.Draw(t, "rps")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// drawProblem returns a problem small enough for enumeration.
func drawProblem(t *rapid.T) *Problem {
	apps := []string{"a", "b", "c"}[:rapid.IntRange(2, 3).Draw(t, "apps")]
	p := &Problem{SLO: float64(rapid.IntRange(0, 15).Draw(t, "slo")) / 10}
	nodes, room := rapid.IntRange(1, 4).Draw(t, "nodes"), 0
	for nodes > 0 {
		n := rapid.IntRange(1, nodes).Draw(t, "count")
		k := NodeType{
			Name: fmt.Sprint("type", len(p.Types)), Count: n, Cost: float64(rapid.IntRange(0, 3).Draw(t, "cost")),
			Table: drawTable(t, apps, rapid.IntRange(2, 5-len(apps)+1).Draw(t, "capacity")),
		}
		if len(p.Types) > 0 && rapid.Bool().Draw(t, "same") {
			k.Table = p.Types[0].Table
		}
		p.Types = append(p.Types, k)
		nodes -= n
		room += n * k.Table.Capacity()
	}
	if rapid.Bool().Draw(t, "existing") {
		for _, k := range p.TypeOf() {
			table := p.Types[k].Table
			at := table.Counts(rapid.IntRange(0, min(table.Patterns()-1, 2*len(apps))).Draw(t, "existing"))
			p.Existing = append(p.Existing, slices.Clone(at))
			for _, c := range at {
				room -= int(c)
			}
		}
	}
	for range apps {
		k := rapid.IntRange(0, min(room, 5)).Draw(t, "containers")
		p.Batch = append(p.Batch, k)
		room -= k
	}
	for range rapid.IntRange(0, 3).Draw(t, "constraints") {
		p.Constraints = append(p.Constraints, Constraint{
			App: rapid.IntRange(0, len(apps)-1).Draw(t, "app"), Neighbour: rapid.IntRange(0, len(apps)-1).Draw(t, "neighbour"),
			AtLeast: rapid.Bool().Draw(t, "at least"), Threshold: rapid.IntRange(0, 2).Draw(t, "threshold"),
			Weight: float64(rapid.IntRange(0, 4).Draw(t, "weight")) / 2,
		})
	}
	return p
}

func drawObjective(t *rapid.T) Objective {
	return rapid.SampledFrom([]Objective{
		{}, {RPS: 1}, {SLO: 1}, {SLO: 2}, {Vacant: 1}, {Cost: 1}, {Missed: 1}, {RPS: 1, Vacant: 0.7}, {RPS: 1, Cost: 0.1},
		{RPS: 1, Missed: 0.3}, {RPS: 0.5, SLO: 0.5, Vacant: 0.2, Cost: 0.05, Missed: 0.1}, {RPS: -1}, {Vacant: -1},
	}).Draw(t, "objective")
}

func drawLimits(t *rapid.T) Limits {
	var l Limits
	if rapid.Bool().Draw(t, "limits") {
		if rapid.Bool().Draw(t, "limit missed") {
			missed := float64(rapid.IntRange(0, 6).Draw(t, "missed")) / 2
			l.MaxViolation = &missed
		}
		l.SLOShare = float64(rapid.IntRange(0, 10).Draw(t, "share")) / 10
		l.Nodes = rapid.IntRange(0, 4).Draw(t, "nodes in use")
		l.Cost = float64(rapid.IntRange(0, 6).Draw(t, "most cost"))
	}
	return l
}

// brute returns the best value over all placements by enumeration, −∞ if none satisfies the limits.
func brute(t *rapid.T, p *Problem, o Objective, l Limits) float64 {
	best := math.Inf(-1)
	typeOf := p.TypeOf()
	at := make(Placement, p.Nodes())
	left := slices.Clone(p.Batch)
	var try func(node int)
	try = func(node int) {
		if node == len(at) {
			if slices.Max(left) > 0 {
				return
			}
			w, err := p.Evaluate(at)
			if err != nil {
				t.Fatalf("%v: %v", at, err)
			}
			if l.Check(w) == nil {
				best = max(best, o.Value(w, p.Nodes()))
			}
			return
		}
		table := p.Types[typeOf[node]].Table
	patterns:
		for i := range table.Patterns() {
			c := table.Counts(i)
			for a, k := range c {
				if p.Existing != nil && k < p.Existing[node][a] {
					continue patterns
				}
				here := int(k)
				if p.Existing != nil {
					here -= int(p.Existing[node][a])
				}
				if here > left[a] {
					continue patterns
				}
			}
			move := func(sign int) {
				for a, k := range c {
					left[a] -= sign * int(k)
					if p.Existing != nil {
						left[a] += sign * int(p.Existing[node][a])
					}
				}
			}
			move(1)
			at[node] = c
			try(node + 1)
			move(-1)
		}
	}
	try(0)
	return best
}

// Solve finds and proves the optimum of the enumeration, and the greedy method does not exceed it.
func TestAgainstAllPlacements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, o, l := drawProblem(t), drawObjective(t), drawLimits(t)
		want := brute(t, p, o, l)
		s, err := Exact(context.Background(), p, o, l, ExactSettings{Gap: -1, Branches: 100_000})
		if math.IsInf(want, -1) {
			if !errors.Is(err, ErrInfeasible) {
				t.Fatalf("nothing keeps the limits, got %v, %v", s, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("want %v, got %v", want, err)
		}
		w, err := p.Evaluate(s.Placement)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Value(w, p.Nodes()); math.Abs(got-want) > 1e-8 || math.Abs(got-s.Value) > 1e-12 {
			t.Fatalf("value %v, said %v, want %v: %v", got, s.Value, want, s)
		}
		if s.Bound < want-1e-12 || s.Bound > want+1e-6 {
			t.Fatalf("bound %v, best value %v: %v", s.Bound, want, s)
		}
		g, err := Greedy(context.Background(), p, o, l, GreedySettings{Improve: true, InOrder: rapid.Bool().Draw(t, "in order")})
		if err != nil && !errors.Is(err, ErrInfeasible) {
			t.Fatal(err)
		}
		if err == nil && g.Value > want+1e-9 {
			t.Fatalf("greedy finds %v, all placements have at most %v", g.Value, want)
		}
	})
}

// The bound of a search that stops early, or omits patterns, is valid.
func TestBoundOfPartialSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, o, l := drawProblem(t), drawObjective(t), drawLimits(t)
		set := ExactSettings{Gap: -1, Branches: rapid.SampledFrom([]int{-1, 1, 3, 100}).Draw(t, "branches"), Columns: rapid.IntRange(1, 6).Draw(t, "columns")}
		s, err := Exact(context.Background(), p, o, l, set)
		if errors.Is(err, ErrInfeasible) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := brute(t, p, o, l); s.Bound < want-1e-9 || s.Value > want+1e-9 {
			t.Fatalf("value %v, bound %v, best %v: %v", s.Value, s.Bound, want, s.Notes)
		}
	})
}

package place

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Without improvement, the means over 30 batches equal those of an independent implementation; with it, they are
// within 0.6 % of the optimum (1.2331, 1.1884 and 1.1539).
func TestMeansOfGroups(t *testing.T) {
	for size, want := range map[int][2]float64{200: {1.2215, 1.229}, 300: {1.1700, 1.181}, 400: {1.1127, 1.147}} {
		plain, better := 0.0, 0.0
		for group := range 30 {
			p := metisProblem(t, size, 81, group)
			s, err := Greedy(context.Background(), p, Objective{}, Limits{}, GreedySettings{InOrder: true})
			if err != nil {
				t.Fatal(err)
			}
			plain += s.Value / 30
			if s, err = Improve(context.Background(), p, Objective{}, Limits{}, s.Placement); err != nil {
				t.Fatal(err)
			}
			better += s.Value / 30
		}
		if math.Abs(plain-want[0]) > 6e-5 || better < want[1] {
			t.Errorf("%d containers: %.5f, improved %.5f, want %v", size, plain, better, want)
		}
	}
}

// The result does not depend on the numbering of apps.
func TestOrderOfApps(t *testing.T) {
	m := MetisTable()
	swap := []int{4, 2, 6, 0, 5, 1, 3}
	names := make([]string, 7)
	for a, b := range swap {
		names[a] = m.Apps()[b]
	}
	back := make([]uint8, 7)
	table, err := NewTable(names, 8, func(counts []uint8, rps []float64) {
		for a, b := range swap {
			back[b] = counts[a]
		}
		for a, b := range swap {
			rps[a] = m.RPS(m.Index(back))[b]
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for group := range 5 {
		p := metisProblem(t, 300, 81, group)
		q := &Problem{Types: []NodeType{{Count: 81, Table: table}}, Batch: make([]int, 7)}
		for a, b := range swap {
			q.Batch[a] = p.Batch[b]
		}
		a, err := Greedy(context.Background(), p, Objective{}, Limits{}, GreedySettings{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Greedy(context.Background(), q, Objective{}, Limits{}, GreedySettings{})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(a.Value-b.Value) > 0.002 { // ties are resolved by app number
			t.Errorf("group %d: %v, apps the other way %v", group, a.Value, b.Value)
		}
	}
}

// Satisfiable limits are kept: hard constraints, number of nodes, cost, share served. Unsatisfiable ones are
// reported.
func TestLimits(t *testing.T) {
	none, some := 0.0, 100.0
	for name, c := range map[string]struct {
		l  Limits
		ok bool
	}{
		"nodes": {Limits{Nodes: 50}, true}, "cost": {Limits{Cost: 55}, true}, "missed": {Limits{MaxViolation: &some}, true},
		"share": {Limits{SLOShare: 0.7}, true}, "nothing missed": {Limits{MaxViolation: &none}, false}, "too few": {Limits{Nodes: 24}, false},
	} {
		p := metisProblem(t, 200, 81, 0)
		p.Types[0].Cost = 1
		s, err := Greedy(context.Background(), p, Objective{}, c.l, GreedySettings{Improve: true})
		if errors.Is(err, ErrInfeasible) == c.ok || err != nil && c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := p.Evaluate(s.Placement); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// After any sequence of arrivals and departures, the value of a stream equals that of its placement, and no node
// exceeds its capacity.
func TestStreamKeepsAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Problem{
			Types:       []NodeType{{Count: rapid.IntRange(1, 4).Draw(t, "nodes"), Table: MetisTable(), Cost: 1}, {Count: 2, Table: MetisTable(), Cost: 2}},
			Batch:       make([]int, 7),
			Constraints: MetisConstraints(),
		}
		o := Objective{RPS: 1, Missed: 0.1, Cost: 0.2, SLO: 0.3, Vacant: 0.1}
		limit := 6.0
		s, err := NewStream(p, o, Limits{MaxViolation: &limit}, true)
		if err != nil {
			t.Fatal(err)
		}
		here := map[[2]int]int{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			app := rapid.IntRange(0, 6).Draw(t, "app")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				if node, err := s.Arrive(app); err == nil {
					here[[2]int{node, app}]++
					p.Batch[app]++
				} else if !errors.Is(err, ErrFull) && !errors.Is(err, ErrInfeasible) {
					t.Fatal(err)
				}
			case 2:
				node := rapid.IntRange(0, p.Nodes()-1).Draw(t, "node")
				err := s.Depart(node, app)
				if (err == nil) != (here[[2]int{node, app}] > 0) {
					t.Fatalf("%d of app %d on node %d: %v", here[[2]int{node, app}], app, node, err)
				}
				if err == nil {
					here[[2]int{node, app}]--
					p.Batch[app]--
				}
			case 3:
				cost, before := rapid.Float64Range(0, 2).Draw(t, "cost"), s.Value()
				moves, err := s.Migrate(cost, 10, 5)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range moves {
					here[[2]int{m.From, m.App}]--
					here[[2]int{m.To, m.App}]++
					if m.Gain*10 <= cost || m.From == m.To {
						t.Fatalf("%+v does not pay %v", m, cost)
					}
					before += m.Gain
				}
				if math.Abs(before-s.Value()) > 1e-9 {
					t.Fatalf("moves said they lead to %v, the value is %v", before, s.Value())
				}
			}
		}
		w, err := p.Evaluate(s.Placement())
		if err != nil {
			t.Fatal(err)
		}
		for n, counts := range s.Placement() {
			for a, k := range counts {
				if here[[2]int{n, a}] != int(k) {
					t.Fatalf("node %d, app %d: %d, want %d", n, a, k, here[[2]int{n, a}])
				}
			}
		}
		containers := float64(p.Containers())
		want := -o.Cost*w.Cost - o.Missed*w.Magnitude + o.Vacant*float64(w.Vacant)
		if containers > 0 {
			want += containers * (o.RPS*w.MeanRPS + o.SLO*w.SLOShare)
		}
		if math.Abs(want-s.Value()) > 1e-9 {
			t.Fatalf("value %v, the placement has %v", s.Value(), want)
		}
	})
}

// Migration after departures recovers most of the loss.
func TestMigrate(t *testing.T) {
	p := metisProblem(t, 400, 81, 0)
	batch := p.Batch
	p.Batch = make([]int, 7)
	s, err := NewStream(p, Objective{}, Limits{}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for app, k := range batch {
		for range k {
			if _, err := s.Arrive(app); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n, counts := range s.Placement() {
		for a, k := range counts {
			for range k {
				if r.IntN(3) == 0 {
					if err := s.Depart(n, a); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	before := s.Value()
	dear, err := s.Migrate(1e6, 60, 1000)
	if err != nil || len(dear) > 0 {
		t.Errorf("moves that cost a million: %d, %v", len(dear), err)
	}
	moves, err := s.Migrate(1, 60, 1000)
	if err != nil || len(moves) == 0 || s.Value() < before*1.01 {
		t.Errorf("%d moves from %v to %v, %v", len(moves), before, s.Value(), err)
	}
}

// Published: Metis 8 minutes on 81 nodes, 39 to 55 on 729. An initial Python version of this method: 0.06 to 0.1 s
// and 3 to 13 s.
func BenchmarkGreedy(b *testing.B) {
	for _, c := range []struct{ size, nodes int }{{200, 81}, {400, 81}, {1000, 729}, {3000, 729}} {
		for _, improve := range []bool{false, true} {
			b.Run(fmt.Sprintf("containers=%d/nodes=%d/improve=%v", c.size, c.nodes, improve), func(b *testing.B) {
				p := metisProblem(b, c.size, c.nodes, 0)
				value := 0.0
				for b.Loop() {
					s, err := Greedy(context.Background(), p, Objective{}, Limits{}, GreedySettings{Improve: improve})
					if err != nil {
						b.Fatal(err)
					}
					value = s.Value
				}
				b.ReportMetric(value, "rps")
			})
		}
	}
}

// Arrivals and departures on 729 nodes at half load; target: 100,000 placements per second.
func BenchmarkStream(b *testing.B) {
	p := metisProblem(b, 3000, 729, 0)
	p.Batch = make([]int, 7)
	s, err := NewStream(p, Objective{}, Limits{}, false)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	type container struct{ node, app int }
	var here []container
	placed := 0
	for b.Loop() {
		app := r.IntN(7)
		node, err := s.Arrive(app)
		if err != nil {
			b.Fatal(err)
		}
		placed++
		here = append(here, container{node, app})
		if len(here) > 3000 {
			i := r.IntN(len(here))
			if err := s.Depart(here[i].node, here[i].app); err != nil {
				b.Fatal(err)
			}
			here[i] = here[len(here)-1]
			here = here[:len(here)-1]
		}
	}
	b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "placements/s")
}

// Value returns the current value of the objective.
func (s *Stream) Value() float64 { return s.c.total }

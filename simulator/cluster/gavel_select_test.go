package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule"
	"trainopt/simulator/workload"
)

// chosenAsWritten chooses like the original: it sorts lists of (type, entry) stably, by type or all together, and
// passes over them once.
func chosenAsWritten(g *gavel, entries []*entry) [][]*entry {
	type line struct {
		device                   int
		entry                    *entry
		priority, deficit, share float64
	}
	var all []line
	sort := func(list []line) {
		slices.SortStableFunc(list, func(a, b line) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.deficit, a.deficit), cmp.Compare(b.share, a.share))
		})
	}
	for _, d := range g.order {
		first := len(all)
		for _, e := range entries {
			l := line{d, e, 0, e.deficit[d], e.x[d]}
			switch part := e.got[d] / g.total[d]; {
			case e.x[d] == 0:
			case g.total[d] == 0 || part == 0:
				l.priority = e.x[d] * 1e9
			default:
				l.priority = e.x[d] / part
			}
			all = append(all, l)
		}
		if !g.GlobalQueue {
			sort(all[first:])
		}
	}
	if g.GlobalQueue {
		sort(all)
	}
	chosen, taken := make([][]*entry, len(g.Devices)), map[*job]bool{}
	left := make([]int, len(g.Devices))
	for d := range left {
		left[d] = g.Devices[d].Count
	}
	for _, l := range all {
		e := l.entry
		if e.gpus > left[l.device] || taken[e.a] || e.b != nil && taken[e.b] || !e.runs(l.device) || g.traits.OnlyShares && l.priority <= 0 {
			continue
		}
		taken[e.a] = true
		if e.b != nil {
			taken[e.b] = true
		}
		left[l.device] -= e.gpus
		chosen[l.device] = append(chosen[l.device], e)
	}
	return chosen
}

// The choices agree over several rounds, in which queues keep their order, jobs end and shares change.
func TestChoiceIsThatOfTheOriginal(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pick := func(name string, from ...float64) float64 { return rapid.SampledFrom(from).Draw(r, name) }
		c := Config{
			Devices: []schedule.DeviceType{{Name: "k80", Count: 2}, {Name: "p100", Count: 3}, {Name: "v100", Count: 4}},
			Compat:  true, GlobalQueue: rapid.Bool().Draw(r, "global"),
		}
		g := &gavel{simulation: &simulation{Config: c}, total: []float64{0, 500, 1000}, order: rapid.Permutation([]int{0, 1, 2}).Draw(r, "order")}
		g.traits.OnlyShares = rapid.Bool().Draw(r, "only shares")
		g.selection.init(c.Devices, c.GlobalQueue)
		for n := range rapid.IntRange(1, 14).Draw(r, "entries") {
			j := &job{Job: &workload.Job{GPUs: rapid.IntRange(1, 3).Draw(r, "devices")}, number: n, chosen: -1}
			var other *job
			if n > 0 && rapid.Bool().Draw(r, "pair") {
				other, j.Job = g.active[0], &workload.Job{GPUs: g.active[0].GPUs}
			}
			rate := []float64{1, 1, pick("rate", 0, 1)}
			e := newEntry(j, other, rate, rate, 0)
			g.append(e)
			g.active = append(g.active, j)
		}
		for range 6 {
			for _, e := range g.entries {
				for d := range e.got {
					e.got[d] = pick("got", 0, 180, 540, 900)
				}
			}
			if rapid.Bool().Draw(r, "decide") {
				for _, e := range g.entries {
					for d := range e.x {
						e.x[d], e.deficit[d] = pick("share", 0, 0, 0.25, 0.5), pick("deficit", -100, 0, 100)
					}
				}
				g.selection.line(g.entries)
			}
			if len(g.entries) > 2 && rapid.Bool().Draw(r, "end") {
				g.entries[1].a.gone = true
				g.removeEnded()
				g.entries = slices.DeleteFunc(g.entries, (*entry).gone)
				g.selection.forget()
			}
			g.choose()
			for d, want := range chosenAsWritten(g, g.entries) {
				if got := g.selection.chosen[d]; !slices.Equal(got, want) {
					r.Fatalf("type %d: entries %v are chosen, want %v", d, turnsOf(got), turnsOf(want))
				}
			}
		}
	})
}

func turnsOf(entries []*entry) (turns []int) {
	for _, e := range entries {
		turns = append(turns, e.turn)
	}
	return turns
}

// Of two jobs that are owed time on both types, the one that is owed more is chosen first, regardless of the type.
func TestGlobalQueueGoesByWhatIsOwed(t *testing.T) {
	for global, want := range map[bool]int{false: 1, true: 0} {
		c := Config{Devices: []schedule.DeviceType{{Name: "p100", Count: 1}, {Name: "v100", Count: 1}}, Compat: true, GlobalQueue: global}
		g := &gavel{simulation: &simulation{Config: c}, total: []float64{1000, 1000}, order: []int{1, 0}}
		g.selection.init(c.Devices, global)
		j := &job{Job: &workload.Job{GPUs: 1}, chosen: -1}
		e := newEntry(j, nil, []float64{1, 1}, nil, 100)
		copy(e.x, []float64{0.6, 0.4})
		g.append(e)
		g.active = []*job{j}
		g.selection.line(g.entries)
		g.choose()
		if len(g.selection.chosen[want]) != 1 {
			t.Errorf("global %v: the job is not on %s", global, c.Devices[want].Name)
		}
	}
}

func TestRunsWithAGlobalQueueDiffer(t *testing.T) {
	c := Config{
		Devices: []schedule.DeviceType{{Name: "k80", Count: 4}, {Name: "p100", Count: 4}, {Name: "v100", Count: 4}},
		Policy:  "max_min_fairness_perf", Compat: true, Generate: &workload.Options{Lambda: 8000}, Total: 60,
	}
	means := map[page.Exact]bool{}
	for _, c.GlobalQueue = range []bool{false, true} {
		r, err := Run(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		means[r.MeanJCTS] = true
	}
	if len(means) != 2 {
		t.Errorf("mean completion times %v, want two", means)
	}
}

func TestGlobalQueueIsOfCompatOnly(t *testing.T) {
	for name, c := range map[string]Config{"default": {}, "ideal": {Compat: true, Ideal: true}} {
		c.Devices, c.Policy, c.GlobalQueue = []schedule.DeviceType{{Name: "v100", Count: 4}}, "fifo", true
		c.Generate, c.Total = &workload.Options{}, 5
		if _, err := Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), "global queue") {
			t.Errorf("%s: %v, want an error that names the global queue", name, err)
		}
	}
}

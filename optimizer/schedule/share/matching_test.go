package share

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule"
)

// matched is a world of jobs that arrive, make progress and end, under a policy that decides by updates.
type matched struct {
	devices   []schedule.DeviceType
	policy    bestMatch
	jobs      map[int]*schedule.JobState
	now       float64
	next      int
	changes   schedule.Changes
	remaining map[int]float64
}

func newMatched(p bestMatch, devices ...int) *matched {
	w := &matched{policy: p, jobs: map[int]*schedule.JobState{}, remaining: map[int]float64{}}
	for d, n := range devices {
		w.devices = append(w.devices, schedule.DeviceType{Name: string(rune('a' + d)), Count: n})
	}
	w.changes = schedule.Changes{Devices: w.devices, Remaining: func(number int) float64 { return w.remaining[number] }}
	return w
}

func (w *matched) arrive(steps float64, rate ...float64) {
	j := &schedule.JobState{Job: &schedule.Job{ID: w.next, GPUs: 1, Steps: steps}, Rate: rate, Remaining: steps, Device: -1}
	w.jobs[w.next], w.remaining[w.next] = j, steps
	w.changes.Arrived = append(w.changes.Arrived, schedule.Arrival{Number: w.next, JobState: *j})
	w.next++
}

func (w *matched) end(number int) {
	delete(w.jobs, number)
	w.changes.Ended = append(w.changes.Ended, number)
}

// pass lets the running jobs make progress.
func (w *matched) pass(seconds float64) {
	w.now += seconds
	for number, j := range w.jobs {
		if j.Device >= 0 {
			w.remaining[number] = max(1e-3, w.remaining[number]-seconds*j.Rate[j.Device])
		}
	}
}

// decide applies an update and checks that devices suffice.
func (w *matched) decide(t failer) (moves []schedule.Place) {
	w.changes.Now = w.now
	moves, ok := w.policy.Update(&w.changes)
	if !ok {
		t.Fatalf("jobs of one size are refused")
	}
	for _, m := range moves {
		j := w.jobs[m.Number]
		if j == nil || j.Device == m.Device {
			t.Fatalf("job %d moves to type %d, where it is, or has ended", m.Number, m.Device)
		}
		j.Device = m.Device
	}
	used := make([]int, len(w.devices))
	for number, j := range w.jobs {
		if j.Device >= 0 {
			used[j.Device]++
			if j.Rate[j.Device] == 0 {
				t.Fatalf("job %d is on type %d, where it does not run", number, j.Device)
			}
		}
	}
	for d, n := range used {
		if n > w.devices[d].Count {
			t.Fatalf("%d jobs on %d devices", n, w.devices[d].Count)
		}
	}
	w.changes.Arrived, w.changes.Ended = w.changes.Arrived[:0], w.changes.Ended[:0]
	return moves
}

// optimum returns the values of the matching and of the best assignment.
func (w *matched) optimum() (value, best float64) {
	s := &schedule.Snapshot{Now: w.now, Devices: w.devices}
	for number, j := range w.jobs {
		state := *j
		state.Remaining = w.remaining[number]
		s.Jobs = append(s.Jobs, state)
	}
	p := bestMatch{shortest: w.policy.shortest, assigner: &assigner{}}
	p.assign(s)
	for i := range s.Jobs {
		if d := s.Jobs[i].Device; d >= 0 {
			value += p.assigner.of(i, d)
		}
	}
	return value, optimum(s, p.assigner)
}

// Moves are made where they gain more than the restart costs, whether a decision is made from a snapshot or by updates.
func TestMovesAreCharged(t *testing.T) {
	for name, c := range map[string]struct {
		devices            []int
		rate               []float64
		running, waiting   float64 // remaining steps of the job that runs on the first type and of one that arrives; 0: none
		wantRuns, wantWait int     // types after the decision; −1: it waits
	}{
		"faster but too late": {devices: []int{1, 1}, rate: []float64{1, 2}, running: 50, wantRuns: 0},
		"faster":              {devices: []int{1, 1}, rate: []float64{1, 2}, running: 100, wantRuns: 1},
		"hardly shorter":      {devices: []int{1}, rate: []float64{1}, running: 100, waiting: 80, wantRuns: 0, wantWait: -1},
		"shorter":             {devices: []int{1}, rate: []float64{1}, running: 100, waiting: 60, wantRuns: -1, wantWait: 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMatched(bestMatch{shortest: true, kept: &kept{}}, c.devices...)
			w.changes.Preemption.Seconds = 30
			w.arrive(c.running, c.rate...)
			if len(c.devices) > 1 { // the fast type is taken until the second decision
				w.arrive(1, 0, 2)
			}
			w.decide(t)
			if w.jobs[0].Device != 0 {
				t.Fatalf("the job is on type %d, want 0", w.jobs[0].Device)
			}
			s := schedule.Snapshot{Devices: w.devices, Preemption: w.changes.Preemption}
			s.Jobs = append(s.Jobs, schedule.JobState{Job: w.jobs[0].Job, Rate: c.rate, Remaining: c.running, Held: 1})
			if len(c.devices) > 1 {
				w.end(1)
			}
			if c.waiting > 0 {
				w.arrive(c.waiting, c.rate...)
				s.Jobs = append(s.Jobs, schedule.JobState{Job: w.jobs[1].Job, Rate: c.rate, Remaining: c.waiting})
			}
			w.decide(t)
			a, err := bestMatch{shortest: true, assigner: &assigner{}}.Decide(&s)
			if err != nil {
				t.Fatal(err)
			}
			at := []int{-1, -1}
			for _, e := range a.Entries {
				at[e.A] = slices.Index(e.X, 1)
			}
			if w.jobs[0].Device != c.wantRuns || at[0] != c.wantRuns {
				t.Errorf("the running job is on type %d by updates, %d by the snapshot, want %d", w.jobs[0].Device, at[0], c.wantRuns)
			}
			if c.waiting > 0 && (w.jobs[1].Device != c.wantWait || at[1] != c.wantWait) {
				t.Errorf("the waiting job is on type %d by updates, %d by the snapshot, want %d", w.jobs[1].Device, at[1], c.wantWait)
			}
		})
	}
}

// Policies of whole devices move a job to a faster type only if its restart takes less time than it gains there.
func TestPoliciesChargeRestarts(t *testing.T) {
	for _, name := range []string{"srtf", "fifo_perf", "tiresias", "themis", "elasticflow"} {
		for remaining, want := range map[float64]int{50: 0, 100: 1} {
			p, err := New(name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := schedule.Snapshot{Devices: []schedule.DeviceType{{Name: "a", Count: 1}, {Name: "b", Count: 1}}, Preemption: schedule.Preemption{Seconds: 30}}
			s.Jobs = []schedule.JobState{{Job: &schedule.Job{GPUs: 1, Steps: 200}, Rate: []float64{1, 2}, Remaining: remaining, Held: 1}}
			a, err := p.Decide(&s)
			if err != nil || len(a.Entries) != 1 || a.Entries[0].X[want] != 1 {
				t.Errorf("%s with %g s to go: %+v, %v, want type %d", name, remaining, a.Entries, err, want)
			}
		}
	}
}

// Updates keep an assignment near the optimum, and the loss that they claim covers the true one.
func TestUpdatesStayNearTheOptimum(t *testing.T) {
	for name, shortest := range map[string]bool{"best match": false, "shortest first": true} {
		t.Run(name, func(t *testing.T) {
			got, all := 0.0, 0.0
			rapid.Check(t, func(r *rapid.T) {
				w := newMatched(bestMatch{shortest: shortest, kept: &kept{}}, rapid.IntRange(1, 4).Draw(r, "a"), rapid.IntRange(1, 4).Draw(r, "b"), rapid.IntRange(1, 4).Draw(r, "c"))
				kinds := make([][]float64, rapid.IntRange(1, 5).Draw(r, "kinds"))
				for k := range kinds {
					kinds[k] = []float64{rapid.Float64Range(0.01, 1).Draw(r, "rate"), float64(rapid.IntRange(0, 3).Draw(r, "rate")), rapid.Float64Range(0.01, 4).Draw(r, "rate")}
				}
				for range rapid.IntRange(1, 12).Draw(r, "decisions") {
					for range rapid.IntRange(0, 4).Draw(r, "arrivals") {
						w.arrive(rapid.Float64Range(10, 1e6).Draw(r, "steps"), kinds[rapid.IntRange(0, len(kinds)-1).Draw(r, "kind")]...)
					}
					for number := range w.next {
						if _, ok := w.jobs[number]; ok && rapid.IntRange(0, 5).Draw(r, "end") == 0 && len(w.changes.Arrived) == 0 {
							w.end(number)
						}
					}
					w.decide(r)
					m := w.policy.kept.matching
					movers := slices.Clone(m.best)
					if m.findMovers(); !slices.Equal(movers, m.best) {
						r.Fatalf("best movers %v after the exchanges, want %v", movers, m.best)
					}
					value, best := w.optimum()
					if value > best*(1+1e-9) || value < 0.9*best {
						r.Fatalf("worth %v, the optimum %v", value, best)
					}
					if loss := w.policy.MaxLoss(); value < (1-loss)*best-1e-9*best {
						r.Fatalf("worth %v of %v with a claimed loss of %v", value, best, loss)
					}
					got += value
					all += best
					w.pass(rapid.Float64Range(0, 5).Draw(r, "seconds"))
				}
			})
			t.Logf("worth %.5f of the optimum", got/all)
			if got < 0.995*all {
				t.Errorf("worth %.4f of the optimum on average", got/all)
			}
		})
	}
}

// A decision moves only jobs that the change concerns.
func TestUpdateMovesWhatChanged(t *testing.T) {
	w := newMatched(bestMatch{shortest: true, kept: &kept{}}, 2000, 2000)
	for i := range 6000 {
		w.arrive(1e5+float64(i), 1, 1+float64(i%3))
	}
	if moves := w.decide(t); len(moves) != 4000 {
		t.Fatalf("%d jobs placed on 4000 devices", len(moves))
	}
	for number, j := range w.jobs {
		if j.Device >= 0 {
			w.end(number)
			break
		}
	}
	if moves := w.decide(t); len(moves) == 0 || len(moves) > longestChain {
		t.Errorf("%d jobs move after one has ended, want 1 to %d", len(moves), longestChain)
	}
	if moves := w.decide(t); len(moves) != 0 {
		t.Errorf("%d jobs move without a change", len(moves))
	}
	w.arrive(1, 1, 1) // the shortest of all displaces one
	if moves := w.decide(t); len(moves) < 2 || len(moves) > longestChain || w.jobs[6000].Device < 0 {
		t.Errorf("moves %v after the arrival of the shortest job", moves)
	}
}

// Jobs of several sizes need a decision about all of them.
func TestUpdateRefusesSeveralSizes(t *testing.T) {
	w := newMatched(bestMatch{kept: &kept{}}, 4)
	w.arrive(1, 1)
	w.arrive(1, 1)
	w.changes.Arrived[1].Job.GPUs = 2
	if _, ok := w.policy.Update(&w.changes); ok {
		t.Error("jobs on one and on two devices are matched")
	}
	if loss := w.policy.MaxLoss(); !math.IsNaN(loss) {
		t.Errorf("claims a loss of %v without a decision", loss)
	}
}

// Heaps of jobs do not grow with the jobs that have left.
func TestMatchingForgets(t *testing.T) {
	w := newMatched(bestMatch{shortest: true, kept: &kept{}}, 8)
	for i := range 5000 {
		w.arrive(1e6-float64(i), 1)
		w.decide(t)
		w.end(i)
	}
	w.decide(t)
	m := w.policy.kept.matching
	k := m.kinds[0]
	if n := len(k.long[0].list) + len(k.short[0].list) + len(k.waiting.list); n > 600 || m.active != 0 {
		t.Errorf("%d entries and %d jobs are kept of 5000 jobs that ended", n, m.active)
	}
}

package schedule

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestGather: a chosen job that requires a whole server is refused only if each server has a device that must not be taken from
// its job, or is held by a job of its size that was chosen before it.
func TestGather(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		servers := rapid.IntRange(1, 4)
		devices := []DeviceType{{Name: "a", Count: 4 * servers.Draw(t, "a"), PerServer: 4}, {Name: "b", Count: 4 * servers.Draw(t, "b"), PerServer: 4}}
		w := &anyone{t: t, devices: devices}
		o := EngineOptions{Devices: devices, Interval: 360, NoSpread: true}
		o.Traits.OnlyShares = rapid.Bool().Draw(t, "only shares")
		e := NewEngine(o, w)
		pins := rapid.Bool().Draw(t, "pins")
		runs := map[*Runnable]bool{}
		now := 0.0
		for number := range rapid.IntRange(1, 40).Draw(t, "events") {
			now += rapid.SampledFrom([]float64{0, 10, 400}).Draw(t, "seconds")
			if running := e.Running(); len(running) > 0 && rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
				r := running[rapid.IntRange(0, len(running)-1).Draw(t, "which")]
				delete(runs, r)
				e.End(now, r.A)
				w.jobs = slices.DeleteFunc(w.jobs, func(j *ActiveJob) bool { return j == r.A })
			} else {
				j := &ActiveJob{Job: &Job{ID: number, GPUs: rapid.SampledFrom([]int{1, 1, 1, 4}).Draw(t, "GPUs")}, Number: number, Rate: []float64{1, 1}}
				w.jobs = append(w.jobs, j)
				e.Arrive(now, j)
			}
			if running := e.Running(); pins && len(running) > 0 && rapid.IntRange(0, 4).Draw(t, "pin") == 0 {
				running[rapid.IntRange(0, len(running)-1).Draw(t, "which")].A.Pinned = true
			}
			due := e.Due(now)
			commands, err := e.Step(now)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range commands {
				if runs[c.Runnable] != (c.Do == Stop) || c.Do == Stop && c.Runnable.A.Pinned {
					t.Fatalf("job %d: %v, and it runs: %v, pinned: %v", c.Runnable.A.ID, c.Do, runs[c.Runnable], c.Runnable.A.Pinned)
				}
				runs[c.Runnable] = c.Do == Start
			}
			checkState(t, e, runs, false)
			for at, r := range e.chosen {
				if !due || r.Device >= 0 || r.gone() || r.GPUs < 4 {
					continue
				}
				blocked := make([]bool, devices[r.refusedOn].Count/4)
				for _, h := range e.Running() {
					if h.Device != r.refusedOn {
						continue
					}
					if h.Spread {
						t.Fatalf("job %d is spread over servers: %v", h.A.ID, h.Where)
					}
					if h.pinned() || h.GPUs == 4 && slices.Index(e.chosen, h) < at {
						blocked[h.Where[0]/4] = true
					}
				}
				if slices.Contains(blocked, false) {
					t.Fatalf("job %d is refused on type %d, servers that cannot be freed: %v", r.A.ID, r.refusedOn, blocked)
				}
			}
		}
	})
}

// everyone is a world whose policy gives all jobs full shares of the first type.
type everyone struct{ anyone }

func (w *everyone) Decide(float64) (a Allocation, err error) {
	for i := range w.jobs {
		a.Entries = append(a.Entries, Entry{A: i, B: -1, X: []float64{1}})
	}
	return a, nil
}

// TestReserve: a job of a whole server starts beside a stream of small jobs that must not be stopped, of which each server has one
// at all times. If two of them never end, no devices remain idle for it: others start on both servers.
func TestReserve(t *testing.T) {
	for _, endless := range []bool{false, true} {
		w := &everyone{}
		e := NewEngine(EngineOptions{Devices: []DeviceType{{Name: "a", Count: 8, PerServer: 4}}, Interval: 10, NoSpread: true}, w)
		arrive := func(now float64, number, gpus int) *ActiveJob {
			j := &ActiveJob{Job: &Job{ID: number, GPUs: gpus}, Number: number, Rate: []float64{1}}
			w.jobs = append(w.jobs, j)
			e.Arrive(now, j)
			return j
		}
		var large *ActiveJob
		began := map[*ActiveJob]float64{}
		late := [2]int{} // starts of small jobs in the second half, by server
		const until = 6000
		number := 0
		for now := 0.0; now < until; now += 10 {
			for _, j := range slices.Clone(w.jobs) {
				if at, ok := began[j]; ok && (now >= at+90 && !(endless && j.Number < 4) || now >= 30 && (j.Number == 1 || j.Number == 3)) {
					e.End(now, j)
					w.jobs = slices.DeleteFunc(w.jobs, func(other *ActiveJob) bool { return other == j })
				}
			}
			if int(now)%60 == 0 {
				for range 2 + max(0, 2-number) { // at first two on each server
					arrive(now, number, 2)
					number++
				}
			}
			if now == 30 {
				large = arrive(now, number, 4)
				number++
			}
			if _, err := e.Step(now); err != nil {
				t.Fatal(err)
			}
			for _, r := range e.Running() {
				if _, ok := began[r.A]; !ok && r.A != large {
					r.A.Pinned, began[r.A] = true, now
					if now > until/2 {
						late[r.Where[0]/4]++
					}
				}
			}
			if large != nil && large.runs != nil {
				if endless {
					t.Fatal("the large job starts beside jobs that never end")
				}
				if now > 350 {
					t.Errorf("the large job starts at %v s", now)
				}
				break
			}
		}
		switch {
		case !endless && large.runs == nil:
			t.Error("the large job never starts")
		case endless && slices.Min(late[:]) == 0:
			t.Errorf("small jobs that start in the second half, by server: %v, want some on both", late)
		}
	}
}

// TestAbsentDevices: no job receives absent devices, and none is reserved. A job whose devices are absent in a restored state loses
// its lease, the others keep theirs, and it continues on its devices once they are present again.
func TestAbsentDevices(t *testing.T) {
	devices := func(count int) []DeviceType { return []DeviceType{{Name: "a", Count: count, PerServer: 2}} }
	w := &everyone{}
	options := func(count int, absent ...int32) EngineOptions {
		return EngineOptions{Devices: devices(count), Absent: [][]int32{absent}, Interval: 360, NoSpread: true}
	}
	e := NewEngine(options(6), w)
	leases := func(now float64, want ...string) {
		t.Helper()
		if _, err := e.Step(now); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range e.Running() {
			got = append(got, fmt.Sprintf("%d%v", r.A.ID, r.Where))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("at %v s: %v, want %v", now, got, want)
		}
	}
	restore := func(o EngineOptions) {
		t.Helper()
		state, err := e.State()
		if err != nil {
			t.Fatal(err)
		}
		for i, j := range w.jobs {
			w.jobs[i] = &ActiveJob{Job: j.Job, Number: j.Number, Rate: j.Rate, Pinned: j.Pinned}
		}
		e = NewEngine(o, w)
		byNumber := func(number int) *ActiveJob {
			return w.jobs[slices.IndexFunc(w.jobs, func(j *ActiveJob) bool { return j.Number == number })]
		}
		if err := e.Restore(state, byNumber); err != nil {
			t.Fatal(err)
		}
		e.Replan()
	}
	number := 0
	arrive := func(now float64, gpus int) *ActiveJob {
		j := &ActiveJob{Job: &Job{ID: number, GPUs: gpus}, Number: number, Rate: []float64{1}}
		number++
		w.jobs = append(w.jobs, j)
		e.Arrive(now, j)
		return j
	}
	first := arrive(0, 2)
	arrive(0, 2)
	arrive(0, 2).Pinned = true
	leases(0, "0[0 1]", "1[2 3]", "2[4 5]")
	w.jobs = w.jobs[1:]
	e.End(1, first)
	arrive(1, 2)
	leases(1, "1[2 3]", "2[4 5]", "3[0 1]")
	restore(options(2, 0, 1, 2, 3))
	leases(2, "2[4 5]")
	restore(options(6))
	leases(3, "1[2 3]", "2[4 5]", "3[0 1]")

	restore(options(4, 0, 2)) // one device of the first two servers is left
	leases(4, "2[4 5]")
	arrive(5, 1)
	leases(5, "2[4 5]", "4[1]")
	reserved := false
	for now := 400.0; now < 20000; now += 360 { // the jobs of two devices wait for the last server
		e.Replan()
		leases(now, "2[4 5]", "4[1]")
		k := &e.types[0]
		if slices.ContainsFunc(k.withheld, func(server int) bool { return server != 2 }) || k.free != 1 {
			t.Fatalf("at %v s the servers %v are reserved, %d devices free", now, k.withheld, k.free)
		}
		reserved = reserved || len(k.withheld) > 0
	}
	if !reserved {
		t.Error("the last server is never reserved")
	}
}

package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// updated is a world whose policy places every waiting job on the first type with room, from what changed.
type updated struct {
	scripted
	left    []int
	waiting []*ActiveJob
	at      map[*ActiveJob]int
	refuse  bool
}

func (w *updated) Update(_ float64, arrived, ended []*ActiveJob) (moves []JobPlace, ok bool, err error) {
	if w.refuse {
		return nil, false, nil
	}
	for _, j := range ended {
		if d, ok := w.at[j]; ok {
			w.left[d] += j.GPUs
			delete(w.at, j)
		}
		w.waiting = slices.DeleteFunc(w.waiting, func(other *ActiveJob) bool { return other == j })
	}
	w.waiting = append(w.waiting, arrived...)
	w.waiting = slices.DeleteFunc(w.waiting, func(j *ActiveJob) bool {
		for d := range w.left {
			if w.left[d] >= j.GPUs && !j.ended {
				w.left[d] -= j.GPUs
				w.at[j] = d
				moves = append(moves, JobPlace{j, d})
				return true
			}
		}
		return false
	})
	return moves, true, nil
}

func (w *updated) Decide(float64) (Allocation, error) {
	var a Allocation
	for i := range w.jobs {
		a.Entries = append(a.Entries, Entry{A: i, B: -1, X: []float64{0.5, 0.5}})
	}
	return a, nil
}

// Under an Updater, the devices held are those of the updates: none twice, and none of jobs that ended. After a
// refusal the engine decides about all jobs.
func TestUpdatesAreApplied(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		devices := []DeviceType{{Name: "a", Count: 6, PerServer: 2}, {Name: "b", Count: 4, PerServer: 4}}
		w := &updated{left: []int{6, 4}, at: map[*ActiveJob]int{}}
		e := NewEngine(EngineOptions{Devices: devices, Interval: 360, Traits: Traits{OnlyShares: true}, Pending: 0.5, PendingDelay: 60}, w)
		now, number := 0.0, 0
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			now += 10
			switch what := rapid.IntRange(0, 3).Draw(r, "event"); {
			case what < 2 || len(w.jobs) == 0:
				j := &ActiveJob{Job: &Job{ID: number, GPUs: rapid.IntRange(1, 3).Draw(r, "devices")}, Number: number, Rate: []float64{1, 2}}
				number++
				w.jobs = append(w.jobs, j)
				e.Arrive(now, j)
			case what == 2 && len(e.Running()) > 0:
				e.Release(now, e.Running()[0])
			default:
				j := w.jobs[rapid.IntRange(0, len(w.jobs)-1).Draw(r, "end")]
				w.jobs = slices.DeleteFunc(w.jobs, func(other *ActiveJob) bool { return other == j })
				e.End(now, j)
			}
			if !e.Due(now) {
				r.Fatalf("an update waits at %v s", now)
			}
			if _, err := e.Step(now); err != nil {
				r.Fatal(err)
			}
			checkDevices(r, e, devices)
			if len(e.jobs) > 2*len(w.jobs) {
				r.Fatalf("%d jobs are kept of %d that are active", len(e.jobs), len(w.jobs))
			}
			if len(e.Running()) != len(w.at) {
				r.Fatalf("%d jobs run, %d are placed", len(e.Running()), len(w.at))
			}
			for _, run := range e.Running() {
				if d, ok := w.at[run.A]; !ok || d != run.Device {
					r.Fatalf("job %d is on type %d, placed on %d (%v)", run.A.ID, run.Device, d, ok)
				}
			}
		}
		w.refuse = true
		e.Replan()
		if _, err := e.Step(now + 1); err != nil {
			r.Fatal(err)
		}
		checkDevices(r, e, devices)
		if free := e.types[0].free + e.types[1].free; len(w.jobs) > 0 && free == 10 {
			r.Fatalf("no job runs after the decision about all %d jobs", len(w.jobs))
		}
	})
}

// checkDevices checks that no device is held twice and that the free devices are those of no runnable.
func checkDevices(t *rapid.T, e *Engine, devices []DeviceType) {
	held := map[string]bool{}
	free := make([]int, len(devices))
	for d := range devices {
		free[d] = devices[d].Count
	}
	for _, r := range e.Running() {
		if len(r.Where) != r.GPUs || r.gone() {
			t.Fatalf("job %d holds %d devices, wants %d; ended: %v", r.A.ID, len(r.Where), r.GPUs, r.gone())
		}
		free[r.Device] -= r.GPUs
		for _, g := range r.Where {
			key := fmt.Sprint(r.Device, "/", g)
			if held[key] {
				t.Fatalf("device %s is held twice", key)
			}
			held[key] = true
		}
	}
	for d, n := range free {
		if n != e.types[d].free {
			t.Fatalf("%d devices of type %d are free, %d are counted", n, d, e.types[d].free)
		}
	}
}

// moving carries out a list of updates, one a call.
type moving struct {
	updated
	script [][]JobPlace
}

func (w *moving) Update(float64, []*ActiveJob, []*ActiveJob) (moves []JobPlace, ok bool, err error) {
	moves, w.script = w.script[0], w.script[1:]
	return moves, true, nil
}

// A job that an update moves, or makes wait, is stopped first; two jobs may exchange their places.
func TestUpdateMovesRunningJobs(t *testing.T) {
	devices := []DeviceType{{Name: "a", Count: 1}, {Name: "b", Count: 1}}
	var j [2]*ActiveJob
	for n := range j {
		j[n] = &ActiveJob{Job: &Job{ID: n, GPUs: 1}, Number: n, Rate: []float64{1, 1}}
	}
	e := NewEngine(EngineOptions{Devices: devices, Interval: 360}, &moving{script: [][]JobPlace{{{j[0], 0}, {j[1], 1}}, {{j[0], 1}, {j[1], 0}}, {{j[0], -1}}}})
	for n := range j {
		e.Arrive(0, j[n])
	}
	for step, want := range []string{"start 0 on 0, start 1 on 1", "stop 0, stop 1, start 0 on 1, start 1 on 0", "stop 0"} {
		e.Replan()
		commands, err := e.Step(float64(step))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range commands {
			text := fmt.Sprint("stop ", c.Runnable.A.ID)
			if c.Do == Start {
				text = fmt.Sprint("start ", c.Runnable.A.ID, " on ", c.Runnable.Device)
			}
			got = append(got, text)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("step %d: %q, want %q", step, got, want)
		}
	}
}

// overcommitted places everything on the first type.
type overcommitted struct{ updated }

func (w *overcommitted) Update(_ float64, arrived, _ []*ActiveJob) (moves []JobPlace, ok bool, err error) {
	for _, j := range arrived {
		moves = append(moves, JobPlace{j, 0})
	}
	return moves, true, nil
}

func TestUpdateWithoutDevicesIsAnError(t *testing.T) {
	e := NewEngine(EngineOptions{Devices: []DeviceType{{Name: "a", Count: 1}}, Interval: 360}, &overcommitted{})
	for n := range 2 {
		e.Arrive(0, &ActiveJob{Job: &Job{ID: n, GPUs: 1}, Number: n, Rate: []float64{1}})
	}
	if _, err := e.Step(0); err == nil || err.Error() != "1 devices of type a for job 1: 0 are free" {
		t.Errorf("error %v", err)
	}
}

// While changes wait for a decision, released devices and new jobs do not, unless the policy reserves devices.
func TestPendingChanges(t *testing.T) {
	for name, only := range map[string]bool{"devices are assigned": false, "only shares": true} {
		t.Run(name, func(t *testing.T) {
			w := &scripted{t: t, out: &strings.Builder{}}
			w.cluster([]string{"a=60", "b=60"})
			w.shares = ""
			e := NewEngine(EngineOptions{Devices: w.devices, Interval: 360, Traits: Traits{OnlyShares: only}, Pending: 0.05, PendingDelay: 120}, w)
			job := func(at float64, n int) {
				j := &ActiveJob{Job: &Job{ID: n, Type: fmt.Sprint("j", n), GPUs: 1}, Number: n, Rate: []float64{1, 2}}
				w.byName[j.Type] = j
				w.jobs = append(w.jobs, j)
				e.Arrive(at, j)
			}
			for n := range 100 {
				job(0, n)
			}
			if _, err := e.Step(0); err != nil {
				t.Fatal(err)
			}
			before := len(e.Running())
			job(10, 100)
			if got := e.Due(10); got == only {
				t.Fatalf("due %v after one of 100 jobs arrived", got)
			}
			if next := e.Next(); next != 130 {
				t.Errorf("the decision is due at %v s, want 130", next)
			}
			if e.enoughChanged(129) || !e.enoughChanged(130) {
				t.Error("the delay of the decision is not 120 s")
			}
			state, err := e.State()
			if err != nil {
				t.Fatal(err)
			}
			again := NewEngine(e.EngineOptions, w)
			if err := again.Restore(state, func(number int) *ActiveJob {
				j := w.jobs[number]
				return &ActiveJob{Job: j.Job, Number: j.Number, Rate: j.Rate}
			}); err != nil || again.pending != 1 || again.Next() != 130 || again.Due(10) == only {
				t.Errorf("restored: %d changes pending until %v s, %v", again.pending, again.Next(), err)
			}
			commands, err := e.Step(10)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{false: before + 1, true: before}[only]; len(e.Running()) != want || len(commands) != want-before {
				t.Errorf("%d jobs run after %d commands, want %d", len(e.Running()), len(commands), want)
			}
			for n := 101; n < 106; n++ {
				job(20, n)
			}
			if !e.Due(20) || !e.enoughChanged(20) {
				t.Error("not due after a twentieth of the jobs arrived")
			}
			if _, err := e.Step(20); err != nil {
				t.Fatal(err)
			}
			if e.decided != 20 || !math.IsInf(e.pendingUntil, 1) {
				t.Errorf("decided at %v s, changes pending until %v", e.decided, e.pendingUntil)
			}
		})
	}
}

// The radix sort orders as comparisons do.
func TestSorterSorts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		weight := rapid.OneOf(rapid.Float64Range(-1e4, 1e4), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, 1 + 1e-15, -1, 360, -360}))
		claims := make([]claim, rapid.IntRange(0, 3*fewClaims).Draw(r, "claims"))
		for i := range claims {
			claims[i] = claim{&Runnable{A: &ActiveJob{Number: rapid.IntRange(0, 3).Draw(r, "job")}}, i, weight.Draw(r, "weight"), 0}
		}
		want := make([]int, len(claims))
		for i := range want {
			want[i] = i
		}
		slices.SortFunc(want, func(a, b int) int { return claims[a].compare(&claims[b]) })
		var s sorter
		for i, k := range s.sorted(claims) {
			if int(k.claim) != want[i] {
				r.Fatalf("claim %d at %d, want %d", k.claim, i, want[i])
			}
		}
	})
}

// The index of servers finds what a scan finds.
func TestTightestServer(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := DeviceType{Name: "a", Count: rapid.IntRange(1, 300).Draw(r, "devices"), PerServer: rapid.IntRange(1, 8).Draw(r, "per server")}
		var f freeDevices
		f.init([]DeviceType{d}, nil)
		k := &f.types[0]
		var held []slot
		for range rapid.IntRange(1, 80).Draw(r, "changes") {
			gpus := rapid.IntRange(1, 10).Draw(r, "devices wanted")
			if gpus > k.free {
				if len(held) == 0 {
					continue
				}
				at := rapid.IntRange(0, len(held)-1).Draw(r, "release")
				f.free(held[at])
				held = slices.Delete(held, at, at+1)
				continue
			}
			if got, want := k.tightest(gpus), scanned(k, gpus); got != want {
				r.Fatalf("server %d for %d devices, want %d of %v", got, gpus, want, k.idle)
			}
			where, _ := f.take(0, gpus, nil, &slot{Device: -1})
			held = append(held, slot{0, where})
		}
	})
}

// scanned returns the first server with the smallest sufficient number of free devices or, if none suffices, with the
// largest number.
func scanned(k *freeOfType, gpus int) int {
	best := 0
	for s, n := range k.idle {
		b := k.idle[best]
		if n >= gpus && (b < gpus || n < b) || n < gpus && b < gpus && n > b {
			best = s
		}
	}
	return best
}

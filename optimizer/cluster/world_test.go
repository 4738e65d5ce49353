package cluster

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/workload"
)

// world is a cluster of pretended trainings on a virtual clock: it carries out the actions of a Scheduler at once, and
// its jobs progress at the rates of a table. A job that continues loses the cost of the move.
type world struct {
	t       testing.TB
	s       *scheduler
	now     float64
	table   *workload.Throughputs
	devices []schedule.DeviceType
	trace   []workload.Job
	cost    float64 // seconds of a start after the first
	saves   float64 // seconds between a stop and the moment at which the devices are free
	closes  float64 // seconds between the last step of a training and its exit
	jobs    map[int]*pretended
	arrived int
	ended   map[int]float64
	events  []Event
	check   bool // invariants after each step
}

// pretended is a training of a world.
type pretended struct {
	job            *Job
	trace          *workload.Job
	done           float64
	lives          int
	device, gpus   int
	running        bool
	since, resumes float64
	pace           float64
	ends           float64 // +Inf while it does not run
	leaves         float64 // when its devices are free; 0: it was not asked to leave
}

func newWorld(t testing.TB, policy string, devices []schedule.DeviceType, trace []workload.Job, cost float64) *world {
	w := &world{t: t, table: workload.GavelTable(), devices: devices, trace: trace, cost: cost, jobs: map[int]*pretended{}, ended: map[int]float64{}}
	w.s = w.scheduler(policy)
	if cost > 0 {
		w.s.moved = []float64{cost}
		w.s.charge()
	}
	return w
}

func (w *world) scheduler(policy string) *scheduler {
	s, err := newScheduler(options{Devices: w.devices, Policy: policy, Rates: w, Log: func(e Event) { w.events = append(w.events, e) }}, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// Alone implements rates.
func (w *world) Alone(job, device, gpus int) (float64, bool) {
	return w.table.Alone(w.devices[device].Name, w.jobs[job].trace.Type, gpus), true
}

// Pair implements rates.
func (w *world) Pair(a, b, device int) (ra, rb float64) {
	x, y := w.jobs[a].trace, w.jobs[b].trace
	if x.GPUs != y.GPUs {
		return 0, 0
	}
	ra, rb, ok := w.table.Beside(w.devices[device].Name, x.Type, y.Type, x.GPUs)
	if !ok {
		return 0, 0
	}
	return ra, rb
}

// Work implements rates.
func (w *world) Work(job int) (total, done float64) {
	p := w.jobs[job]
	w.settle(p)
	return p.trace.Steps, p.done
}

// Kind implements rates.
func (w *world) Kind(job int) string { return w.jobs[job].trace.Type }

func (w *world) settle(p *pretended) {
	if from := max(p.since, p.resumes); p.running && w.now > from {
		p.done += (w.now - from) * p.pace
		if p.trace.Steps-p.done <= p.pace*1e-6 {
			p.done = p.trace.Steps
		}
	}
	p.since = max(p.since, w.now)
}

func (w *world) ids() []int {
	var ids []int
	for id := range w.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// next returns the time of the next event.
func (w *world) next() float64 {
	at := w.s.Next()
	if w.arrived < len(w.trace) {
		at = min(at, max(w.now, w.trace[w.arrived].Arrival))
	}
	for _, p := range w.jobs {
		at = min(at, p.ends)
		if p.leaves > 0 {
			at = min(at, p.leaves)
		}
	}
	return at
}

// step advances to the next event.
func (w *world) step() {
	at := w.next()
	if math.IsInf(at, 1) {
		w.t.Fatalf("at %v s: %d jobs wait for ever", w.now, len(w.jobs))
	}
	w.now = max(w.now, at)
	for _, id := range w.ids() {
		p := w.jobs[id]
		if p.leaves > 0 && p.leaves <= w.now {
			p.leaves = 0
			w.s.Left(w.now, id, "lease")
		}
		if p.ends > w.now {
			continue
		}
		w.settle(p)
		if p.ends = math.Inf(1); p.done < p.trace.Steps { // by rounding
			p.pace = 0
			continue
		}
		p.running = false
		if b := w.jobs[w.s.byID[id].partner]; b != nil {
			w.settle(b)
			b.pace = 0
		}
		w.s.Left(w.now, id, "exited")
		w.s.End(w.now, id, Done, "")
		w.ended[id] = w.now
		delete(w.jobs, id)
	}
	for w.arrived < len(w.trace) && w.trace[w.arrived].Arrival <= w.now {
		j := &w.trace[w.arrived]
		w.arrived++
		id := j.ID + 1
		spec := &Spec{Submitted: fromUnix(j.Arrival), Weight: j.Weight, Min: j.GPUs}
		w.jobs[id] = &pretended{job: &Job{ID: id, Name: fmt.Sprint("job ", id)}, trace: j, ends: math.Inf(1)}
		if !math.IsNaN(j.Deadline) {
			spec.Config.SLA.TimeMax = time.Duration((j.Deadline - j.Arrival) * 1e9)
		}
		if err := w.s.Admit(w.now, w.jobs[id].job, spec); err != nil {
			w.t.Fatal(err)
		}
	}
	w.act()
}

// act carries out what the scheduler wants.
func (w *world) act() {
	for {
		actions, err := w.s.Step(w.now)
		if err != nil {
			w.t.Fatal(err)
		}
		if w.check {
			w.verify()
		}
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			p := w.jobs[a.Job]
			w.settle(p)
			if a.Do == schedule.Stop {
				p.running, p.pace, p.ends = false, 0, math.Inf(1)
				if p.leaves = w.now + w.saves; w.saves == 0 {
					p.leaves = 0
					w.s.Left(w.now, a.Job, "lease")
				}
				continue
			}
			p.running, p.since, p.resumes = true, w.now, w.now
			if p.lives++; p.lives > 1 {
				p.resumes += w.cost
			}
			p.device, p.gpus = a.Device, len(a.Where)
			if b := w.jobs[w.s.byID[a.Job].partner]; b != nil && b.running { // in the simulator a pair begins as one
				w.settle(b)
				b.pace, b.resumes = 0, max(b.resumes, p.resumes)
				p.resumes = b.resumes
			}
		}
		w.pace()
	}
}

// pace sets the rates of all jobs, which depend on who shares their devices.
func (w *world) pace() {
	for _, id := range w.ids() {
		p := w.jobs[id]
		if !p.running {
			continue
		}
		pace, _ := w.Alone(id, p.device, p.gpus)
		if other := w.s.byID[id].partner; other != 0 && w.jobs[other] != nil && w.jobs[other].running {
			first, second := min(id, other), max(id, other)
			a, b := w.Pair(first, second, p.device)
			if pace = a; id == second {
				pace = b
			}
		}
		if pace != p.pace {
			w.settle(p)
			p.pace, p.ends = pace, max(p.since, p.resumes)+(p.trace.Steps-p.done)/pace+w.closes
		}
	}
}

// run runs until all jobs have ended and returns the mean completion time.
func (w *world) run() float64 {
	for steps := 0; len(w.ended) < len(w.trace); steps++ {
		if steps > 100_000 {
			w.t.Fatalf("%d of %d jobs have ended after %d events", len(w.ended), len(w.trace), steps)
		}
		w.step()
		w.pace()
	}
	sum := 0.0
	for _, j := range w.trace {
		sum += w.ended[j.ID+1] - j.Arrival
	}
	return sum / float64(len(w.trace))
}

// verify checks that no device has two holders but a pair, or a pair of which one leaves.
func (w *world) verify() {
	w.t.Helper()
	holders := map[string][]*member{}
	for _, m := range w.s.active {
		if m.State.holds() {
			for _, g := range m.Where {
				at := fmt.Sprint(m.Device, g)
				holders[at] = append(holders[at], m)
			}
		}
	}
	for at, list := range holders {
		if len(list) > 2 || len(list) == 2 && list[0].partner != list[1].ID && !list[0].asked && !list[1].asked {
			w.t.Fatalf("at %v s device %s is held by %d jobs: %d (beside %d) and %d", w.now, at, len(list), list[0].ID, list[0].partner, list[1].ID)
		}
	}
}

// drawTrace draws jobs of Gavel's kinds that arrive within some hours.
func drawTrace(seed uint64, n int, devices []schedule.DeviceType, deadlines, single bool) []workload.Job {
	r := rand.New(rand.NewPCG(seed, 7))
	table := workload.GavelTable()
	types := table.Types()
	var out []workload.Job
	at := 0.0
	for len(out) < n {
		j := workload.Job{ID: len(out), Type: types[r.IntN(len(types))], Arrival: at, GPUs: []int{1, 1, 1, 2}[r.IntN(4)], Weight: 1, SLO: math.NaN(), Deadline: math.NaN()}
		if single {
			j.GPUs = 1
		}
		best := 0.0
		for _, d := range devices {
			best = max(best, table.Alone(d.Name, j.Type, j.GPUs))
		}
		if best == 0 {
			continue
		}
		j.Seconds = 600 + 9000*r.Float64()
		j.Steps = j.Seconds * best
		j.Seconds = j.Steps / best
		if deadlines && len(out)%2 == 0 {
			j.SLO = math.Round(1.5 + 4*r.Float64())
			j.Deadline = j.Arrival + j.SLO*j.Seconds
		}
		at += math.Floor(r.ExpFloat64() * 900)
		out = append(out, j)
	}
	return out
}

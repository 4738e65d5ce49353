package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"trainopt/optimizer/cluster"
	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/engine"
)

// scenario is the input of a simulation: the jobs of a day with one draw of all that is uncertain.
type scenario struct {
	day     *Day
	devices []schedule.DeviceType
	jobs    []*simulated // in order of arrival
	log     func(cluster.Event)
}

// simulated is a job of a scenario.
type simulated struct {
	*Job
	steps              float64
	rate               map[place]float64 // steps/s, all that the job may have
	first, again, save float64           // seconds of its first and later starts, and of a save
	measured           float64           // seconds of progress after which its rate is known
}

// outcome is the result of a simulation, by job ID.
type outcome struct {
	end   map[int]float64 // Unix seconds
	cost  map[int]float64 // USD; NaN: a price is unknown
	moves int
	busy  float64 // device-seconds
	// starting and saving are device-seconds without progress.
	starting, saving float64
}

// world carries out the actions of a cluster.Scheduler on a virtual clock. The scheduler learns the rates of the
// scenario as a live one does.
type world struct {
	*scenario
	s      *cluster.Scheduler
	rates  cluster.Learned
	now    float64
	queue  engine.Queue[happening]
	byID   map[int]*training
	active int
	out    outcome
}

// training is a job in a world.
type training struct {
	*simulated
	job              *cluster.Job
	done, pace       float64
	device           string
	gpus             int
	began            float64 // of the life
	since            float64 // up to which progress is counted; in the future during a start
	life             int     // number of the life, which outdates what was to happen in earlier ones
	running, leaving bool
	saved            float64 // seconds of the save before this life; NaN: none
}

// happening is something that is to happen in a life.
type happening struct {
	job  *training
	life int
	what kind
}

type kind int

const (
	works    kind = iota // it makes progress
	measures             // its rate is known
	finishes             // all its work is done
	leaves               // it has saved
)

// simulate runs the scenario under policies, which replace one another as in the day. A job that the policy leaves
// without devices for ever, and a policy that fails at each decision, are errors.
func (s *scenario) simulate(ctx context.Context, policies []Span) (*outcome, error) {
	w := &world{scenario: s, byID: map[int]*training{}, out: outcome{end: map[int]float64{}, cost: map[int]float64{}}}
	w.rates = cluster.NewLearned(s.day.Devices, s.day.Round, s.day.Engine == "local")
	var err error
	w.s, err = cluster.NewScheduler(cluster.Options{Devices: s.devices, Policy: policies[0].Policy, Seed: s.day.Seed, Round: s.day.Round, Rates: w.rates, Log: w.failed(&err)}, s.day.From)
	if err != nil {
		return nil, err
	}
	arrivals, policies := s.jobs, policies[1:]
	for n := 0; len(arrivals) > 0 || w.active > 0; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		next := w.s.Next()
		if at, ok := w.queue.Peek(); ok {
			next = min(next, at)
		}
		if len(arrivals) > 0 {
			next = min(next, arrivals[0].Arrival)
		}
		if math.IsInf(next, 1) {
			return nil, fmt.Errorf("%d jobs never get devices", w.active)
		}
		if next > s.day.From+1000*(s.day.Until-s.day.From)+1e7 {
			return nil, errors.New("it does not end")
		}
		w.now = max(w.now, next)
		for at, ok := w.queue.Peek(); ok && at <= w.now; at, ok = w.queue.Peek() {
			w.happen(w.queue.Pop())
		}
		for ; len(arrivals) > 0 && arrivals[0].Arrival <= w.now; arrivals = arrivals[1:] {
			if err := w.arrive(arrivals[0]); err != nil {
				return nil, err
			}
		}
		for ; len(policies) > 0 && policies[0].From <= w.now; policies = policies[1:] {
			if err := w.s.SetPolicy(w.now, policies[0].Policy); err != nil {
				return nil, err
			}
		}
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	return &w.out, err
}

// failed returns a log that keeps the first failure of the policy.
func (w *world) failed(err *error) func(cluster.Event) {
	return func(e cluster.Event) {
		if e.Kind == cluster.EventDecide && e.Reason != "" && *err == nil {
			*err = errors.New(e.Reason)
		}
		if w.log != nil {
			w.log(e)
		}
	}
}

// arrive submits a job.
func (w *world) arrive(j *simulated) error {
	t := &training{simulated: j, job: &cluster.Job{ID: j.ID, Name: j.Name, Unit: j.Unit}, saved: math.NaN()}
	if j.Stated {
		t.job.Total = j.steps
	}
	w.byID[j.ID] = t
	spec := &cluster.Spec{Submitted: time.Unix(0, int64(math.Round(j.Arrival*1e9))), User: j.User, Weight: j.Weight, Min: j.GPUs, Max: j.MaxGPUs}
	if d := j.Deadline - j.Arrival; d > 0 {
		spec.Config = run.Config{}
		spec.Config.SLA.TimeMax = time.Duration(d * float64(time.Second))
	}
	w.rates.Add(t.job, spec)
	if err := w.s.Admit(w.now, t.job, spec); err != nil {
		return fmt.Errorf("job %d: %w", j.ID, err)
	}
	w.active++
	return nil
}

// step decides and carries out the actions.
func (w *world) step() error {
	for _, t := range w.byID {
		w.settle(t)
	}
	actions, err := w.s.Step(w.now)
	if err != nil {
		return err
	}
	for _, a := range actions {
		t := w.byID[a.Job]
		if a.Do == schedule.Stop {
			t.running, t.leaving, t.life, t.saved = false, true, t.life+1, t.save
			w.queue.Push(w.now+t.save, happening{t, t.life, leaves})
			w.out.saving += t.save * float64(t.gpus)
			continue
		}
		w.start(t, &a)
	}
	return nil
}

func (w *world) start(t *training, a *cluster.Action) {
	delay := t.again
	if t.life == 0 {
		delay = t.first
	} else {
		w.out.moves++
	}
	t.device, t.gpus, t.began = w.devices[a.Device].Name, len(a.Where), w.now
	t.pace, t.since, t.running, t.leaving, t.life = t.rate[place{t.device, t.gpus}], w.now+delay, true, false, t.life+1
	if t.job.Keeps == nil {
		w.s.Keeps(t.ID, nil)
	}
	w.out.starting += delay * float64(t.gpus)
	w.queue.Push(t.since, happening{t, t.life, works})
	if t.pace > 0 {
		w.queue.Push(t.since+(t.steps-t.done)/t.pace, happening{t, t.life, finishes})
	}
}

// happen carries out what was to happen in a life, unless the life has ended.
func (w *world) happen(_ float64, h happening) {
	t := h.job
	if h.life != t.life {
		return
	}
	switch h.what {
	case works:
		w.s.Worked(w.now, t.ID, w.now-t.began)
		if !math.IsNaN(t.saved) {
			w.s.Moved(t.saved + w.now - t.began)
			t.saved = math.NaN()
		}
		w.s.Expect(2 * (w.now - t.began))
		if keeps := !t.Pinned; t.job.Keeps == nil || *t.job.Keeps != keeps {
			w.s.Keeps(t.ID, &keeps)
		}
		w.queue.Push(w.now+t.measured, happening{t, t.life, measures})
	case measures:
		t.job.Total = t.steps
		if w.rates.Observe(t.ID, t.device, t.gpus, t.pace, 2) {
			w.s.Changed(w.now, t.ID)
		}
	case finishes:
		t.done, t.job.Done, t.running = t.steps, t.steps, false
		w.pay(t)
		w.s.Left(w.now, t.ID, "exited")
		w.s.End(w.now, t.ID, cluster.Done, "")
		delete(w.byID, t.ID)
		w.out.end[t.ID] = w.now
		w.active--
	case leaves:
		w.pay(t)
		t.leaving = false
		w.s.Left(w.now, t.ID, "lease")
	}
}

// pay charges a job for the devices of a life.
func (w *world) pay(t *training) {
	held := (w.now - t.began) * float64(t.gpus)
	w.out.busy += held
	for _, d := range w.devices {
		if d.Name == t.device {
			w.out.cost[t.ID] += held / 3600 * d.USDHour
		}
	}
}

// settle counts the progress of a job up to now.
func (w *world) settle(t *training) {
	if t.running && w.now > t.since {
		t.done = min(t.steps, t.done+(w.now-t.since)*t.pace)
		t.since, t.job.Done = w.now, t.done
	}
}

// policies returns the policies that a day can be replayed under: all that do not co-locate jobs.
func policies() []string {
	return slices.DeleteFunc(share.Names(), func(name string) bool {
		p, err := share.New(name, share.Options{Random: zero{}})
		return err != nil || p.Traits().Packs
	})
}

// zero is a source of random numbers for policies that are not run.
type zero struct{}

// IntN implements share.Random.
func (zero) IntN(int) int { return 0 }

package trial

import (
	"math"
	"time"

	"trainopt/monitor"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/run"
	"trainopt/resources"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// runner is a run in progress.
type runner struct {
	s      *training.Scenario
	x      *training.Execution
	o      Options
	prefer plan.Preference
	host   resources.Host

	guard     *sla.Guard
	stopped   bool
	unguarded bool // for a reference that is known to keep the limits
	progress  run.Progress
	model     *perf.Model
	started   bool
	working   bool                 // at the planned allocation, no longer measuring
	target    resources.Allocation // where the next unit is done
	probes    int
	probeFrom float64                // USD spent when the probe under way began
	probesUSD float64                // spent on finished probes but the first, whose work would have been done anyway
	refused   []resources.Allocation // where the job was found not to run
	lookedAt  float64                // units of work done
	pause     float64                // units of work until the next look
	restUntil float64                // s
	out       *Outcome
}

func newRunner(job Job, o Options) (*runner, error) {
	if err := check(job); err != nil {
		return nil, err
	}
	s := withMemory(job.Scenario)
	guard, err := sla.NewGuard(s.Spec, sla.GuardOptions{WarnAt: []float64{}, WarnProjectedAt: []float64{}, Latency: 100 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	return &runner{s: s, x: s.Start(job.Seed), o: o, prefer: job.Prefer, host: hostOf(s.Limits), guard: guard, target: s.Baseline, out: &Outcome{},
		pause: float64(o.Every)}, nil
}

// withMemory gives a user's configuration that says nothing of memory what a planner would take for it, so that all
// candidates are priced alike.
func withMemory(s *training.Scenario) *training.Scenario {
	if s.Baseline.Memory > 0 || s.Limits.MemoryMax <= 0 {
		return s
	}
	c := *s
	c.Baseline.Memory = c.Limits.MemoryMax
	return &c
}

// hostOf is a machine that offers what the limits allow.
func hostOf(l resources.Limits) resources.Host {
	h := resources.Host{CPUs: float64(l.CPUs.Max), Memory: l.MemoryMax}
	for i := range l.GPUs.Max {
		h.GPUs = append(h.GPUs, resources.GPU{Index: i, Memory: 1})
	}
	return h
}

func (r *runner) finished() bool { return r.x.Done >= r.s.Units-1e-9 }

func (r *runner) over() bool { return r.stopped || r.finished() }

func (r *runner) hourly(a resources.Allocation) float64 { return float64(r.s.Rates.Hourly(a)) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// mark is what a run has used at one moment.
type mark struct{ elapsed, usd, joules, done float64 }

func (r *runner) mark() mark { return mark{r.x.Elapsed, r.x.SpentUSD, r.x.Joules, r.x.Done} }

// unit does one unit of work at the target, going there first, and shows it to the progress, unless the guard stops the
// run before it is done.
func (r *runner) unit() {
	a := r.target
	if !(r.s.Workload.UnitSeconds(a) > 0) {
		r.refuse(a)
		a = r.target
	}
	from, restarts := r.mark(), r.x.Restarts
	moving := r.started && !a.SameShape(r.x.Current)
	if moving || !r.started {
		r.beginSegment(a, moving)
	}
	r.started = true
	per := r.x.Run(a, 1)
	unit := per[len(per)-1]
	work := unit * (r.x.Done - from.done)
	interrupted := r.x.Restarts - restarts
	if moving {
		interrupted--
	}
	saving := r.guarded(a, from)
	r.account(a, from, work, moving, interrupted)
	if r.stopped {
		now := r.mark()
		r.spend(a, saving)
		r.piece(Piece{Kind: Saving, Allocation: a, Seconds: saving, USD: r.x.SpentUSD - now.usd})
		return
	}
	if interrupted > 0 { // the process is another one since
		r.out.Interruptions += interrupted
		r.progress.Begin(seconds(r.x.Elapsed-work-r.s.Restart), a, r.label(), true)
	}
	var row monitor.Row
	row.Set(monitor.Epoch, r.x.Done)
	row.Set(monitor.TotalEpochs, r.s.Units)
	row.Set(monitor.EpochTime, unit)
	if r.s.UnitSamples > 0 {
		row.Set(monitor.DataCount, r.s.UnitSamples)
	}
	r.progress.Add(&row, seconds(r.x.Elapsed))
}

func (r *runner) label() string {
	if r.working {
		return "run"
	}
	return "probe"
}

func (r *runner) beginSegment(a resources.Allocation, moving bool) {
	now := seconds(r.x.Elapsed)
	if moving {
		r.progress.Current().CheckpointS = r.checkpoint()
		r.out.Restarts++
	}
	seg := r.progress.Begin(now, a, r.label(), true)
	if moving {
		seg.RestartFrom = now
	}
}

// checkpoint is how long saving takes: a restart is a checkpoint and another start-up.
func (r *runner) checkpoint() float64 { return max(0, r.s.Restart-r.s.Startup) }

// refuse pays for a start at an allocation where the job cannot run, and for the way back.
func (r *runner) refuse(a resources.Allocation) {
	r.refused = append(r.refused, a)
	r.out.Fallbacks = append(r.out.Fallbacks, "the job does not run at "+a.String())
	back := r.s.Baseline
	if r.started {
		back = r.x.Current
	}
	r.target = back
	from := r.mark()
	r.spend(a, r.s.Startup)
	if r.started {
		r.spend(back, r.s.Restart)
		r.out.Restarts++
		r.out.Pieces = append(r.out.Pieces, Piece{Kind: Refused, Allocation: back, Seconds: r.x.Elapsed - from.elapsed, USD: r.x.SpentUSD - from.usd})
		r.beginAgain(back)
	}
}

// beginAgain opens a segment after a way back.
func (r *runner) beginAgain(a resources.Allocation) {
	r.progress.Begin(seconds(r.x.Elapsed), a, r.label(), true)
}

// spend lets seconds go by at an allocation.
func (r *runner) spend(a resources.Allocation, s float64) {
	r.x.Elapsed += s
	r.x.SpentUSD += s / 3600 * r.hourly(a)
	if w := r.s.Workload.Watts(a); !math.IsNaN(w) || math.IsNaN(r.x.Joules) {
		r.x.Joules += s * w
	}
}

// account files what a unit took under its kinds.
func (r *runner) account(a resources.Allocation, from mark, work float64, moving bool, interrupted int) {
	all, usd := r.x.Elapsed-from.elapsed, r.x.SpentUSD-from.usd
	hourly := r.hourly(a) / 3600
	take := func(k Kind, s, units float64) {
		s = min(s, all)
		paid := min(s*hourly, usd)
		all, usd = all-s, usd-paid
		r.piece(Piece{Kind: k, Allocation: a, Seconds: s, USD: paid, Units: units})
	}
	switch {
	case moving:
		take(Move, r.s.Restart, 0)
	case from.elapsed == 0:
		take(Start, r.s.Startup, 0)
	}
	kind := Work
	if !r.working {
		kind = Probe
	}
	units := r.x.Done - from.done
	if interrupted == 0 { // the rest, which is what a stop left of it
		r.piece(Piece{Kind: kind, Allocation: a, Seconds: all, USD: usd, Units: units})
		return
	}
	take(kind, work, units)
	r.piece(Piece{Kind: Lost, Allocation: a, Seconds: all, USD: usd})
}

// piece adds a piece, to the last one where it goes on.
func (r *runner) piece(p Piece) {
	if n := len(r.out.Pieces); n > 0 {
		if last := &r.out.Pieces[n-1]; last.Kind == p.Kind && last.Allocation.SameShape(p.Allocation) && (p.Kind == Work || p.Kind == Probe) {
			last.Seconds, last.USD, last.Units = last.Seconds+p.Seconds, last.USD+p.USD, last.Units+p.Units
			return
		}
	}
	if p.Seconds > 0 || p.USD > 0 || p.Units > 0 {
		r.out.Pieces = append(r.out.Pieces, p)
	}
}

// reserve is the time that the agent keeps for an orderly exit.
func (r *runner) reserve() time.Duration {
	worst := 0.0
	for _, s := range r.progress.Segments {
		worst = max(worst, s.CheckpointS)
	}
	return seconds(max(1.5*worst, 1))
}

// guarded asks the guard about the time since from, which has been spent at allocation a, and takes back what came after
// the guard's word; it returns for how long a run that is stopped then saves, until it is killed. Within a unit, time
// and money are taken to pass evenly.
func (r *runner) guarded(a resources.Allocation, from mark) (saving float64) {
	end := r.mark()
	span := end.elapsed - from.elapsed
	at := func(t float64) mark {
		f := 1.0
		if span > 0 {
			f = min(1, (t-from.elapsed)/span)
		}
		return mark{t, from.usd + f*(end.usd-from.usd), from.joules + f*(end.joules-from.joules), from.done + f*(end.done-from.done)}
	}
	if r.unguarded {
		return 0
	}
	for now := from; ; {
		d := r.guard.Step(sla.Tick{Elapsed: seconds(now.elapsed), SpentUSD: now.usd, USDPerHour: r.hourly(a), Reserve: r.reserve()})
		next := math.Inf(1)
		if d.Next != sla.Never {
			next = d.Next.Seconds()
		}
		if d.Action != sla.KeepGoing {
			r.stopped, r.out.Stopped = true, d.Limit
			r.x.Elapsed, r.x.SpentUSD, r.x.Joules, r.x.Done = now.elapsed, now.usd, now.joules, now.done
			if d.Action == sla.Kill {
				return 0
			}
			return min(r.checkpoint(), next)
		}
		if now.elapsed+next >= end.elapsed {
			return 0
		}
		now = at(now.elapsed + next)
	}
}

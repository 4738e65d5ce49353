package trial

import (
	"math"
	"time"

	"trainopt/monitor/trainlog"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/run"
	"trainopt/resources"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// runner is the state of a run.
type runner struct {
	s      *training.Scenario
	x      *training.Execution
	o      Options
	prefer plan.Preference
	host   resources.Host

	guard     *sla.Guard
	stopped   bool
	unguarded bool // for a reference known to meet the limits
	progress  run.Progress
	model     *perf.Model
	started   bool
	working   bool                 // at the planned allocation, measurements completed
	target    resources.Allocation // allocation of the next unit
	probes    int
	probeFrom float64                // USD spent at the start of the current probe
	probesUSD float64                // spent on completed probes except the first, whose work is part of the job anyway
	refused   []resources.Allocation // allocations at which the job did not run
	lookedAt  float64                // units of work completed at the last re-evaluation
	pause     float64                // units of work until the next re-evaluation
	restUntil float64                // s
	out       *outcome
}

// newRunner validates a job and returns its run, not yet started, with the baseline as target.
func newRunner(job Job, o Options) (*runner, error) {
	if err := check(job); err != nil {
		return nil, err
	}
	s := withMemory(job.Scenario)
	guard, err := sla.NewGuard(s.Spec, sla.GuardOptions{WarnAt: []float64{}, WarnProjectedAt: []float64{}, Latency: 100 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	return &runner{s: s, x: s.Start(job.Seed), o: o, prefer: job.Prefer, host: hostOf(s.Limits), guard: guard, target: s.Baseline, out: &outcome{},
		pause: float64(o.Every)}, nil
}

// withMemory sets the memory of a baseline without one to the value that a planner would use, so that all candidates
// are priced alike.
func withMemory(s *training.Scenario) *training.Scenario {
	if s.Baseline.Memory > 0 || s.Limits.MemoryMax <= 0 {
		return s
	}
	c := *s
	c.Baseline.Memory = c.Limits.MemoryMax
	return &c
}

// hostOf returns a machine with the capacity that the limits allow.
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

// mark is the consumption of a run at one moment.
type mark struct{ elapsed, usd, joules, done float64 }

func (r *runner) mark() mark { return mark{r.x.Elapsed, r.x.SpentUSD, r.x.Joules, r.x.Done} }

// unit does one unit of work at the target, moving there first, and records it in the progress unless the guard stops
// the run earlier.
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
	saving := r.applyGuard(a, from)
	r.account(a, from, work, moving, interrupted)
	if r.stopped {
		now := r.mark()
		r.spend(a, saving)
		r.piece(piece{Kind: pieceSaving, Allocation: a, Seconds: saving, USD: r.x.SpentUSD - now.usd})
		return
	}
	if interrupted > 0 { // the job runs in a new process
		r.out.Interruptions += interrupted
		r.progress.Begin(seconds(r.x.Elapsed-work-r.s.Restart), a, r.label(), true)
	}
	var row trainlog.Row
	row.Set(trainlog.Epoch, r.x.Done)
	row.Set(trainlog.TotalEpochs, r.s.Units)
	row.Set(trainlog.EpochTime, unit)
	if r.s.UnitSamples > 0 {
		row.Set(trainlog.DataCount, r.s.UnitSamples)
	}
	r.progress.Add(&row, seconds(r.x.Elapsed))
	if r.s.Used != nil {
		seg := r.progress.Current()
		seg.Used.Utilization, seg.Used.Samples, seg.Used.BusySamples, seg.Used.Stepping = r.s.Used(a), math.MaxInt, math.MaxInt, math.Inf(1)
	}
}

// label returns the label of the current segment.
func (r *runner) label() string {
	if r.working {
		return "run"
	}
	return "probe"
}

// beginSegment opens a segment at an allocation; a move adds the checkpoint of the previous segment and a restart.
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

// checkpoint returns the seconds of a checkpoint: a restart is a checkpoint and another start-up.
func (r *runner) checkpoint() float64 { return max(0, r.s.Restart-r.s.Startup) }

// refuse charges a start at an allocation where the job cannot run and the return to the previous allocation.
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
		r.out.Pieces = append(r.out.Pieces, piece{Kind: refused, Allocation: back, Seconds: r.x.Elapsed - from.elapsed, USD: r.x.SpentUSD - from.usd})
		r.progress.Begin(seconds(r.x.Elapsed), back, r.label(), true)
	}
}

// spend advances time, cost and energy by the given seconds at an allocation.
func (r *runner) spend(a resources.Allocation, s float64) {
	r.x.Elapsed += s
	r.x.SpentUSD += s / 3600 * r.hourly(a)
	if w := r.s.Workload.Watts(a); !math.IsNaN(w) || math.IsNaN(r.x.Joules) {
		r.x.Joules += s * w
	}
}

// account assigns the consumption of a unit to kinds of pieces.
func (r *runner) account(a resources.Allocation, from mark, work float64, moving bool, interrupted int) {
	all, usd := r.x.Elapsed-from.elapsed, r.x.SpentUSD-from.usd
	hourly := r.hourly(a) / 3600
	take := func(k pieceKind, s, units float64) {
		s = min(s, all)
		paid := min(s*hourly, usd)
		all, usd = all-s, usd-paid
		r.piece(piece{Kind: k, Allocation: a, Seconds: s, USD: paid, Units: units})
	}
	switch {
	case moving:
		take(pieceMove, r.s.Restart, 0)
	case from.elapsed == 0:
		take(pieceStart, r.s.Startup, 0)
	}
	kind := pieceWork
	if !r.working {
		kind = pieceProbe
	}
	units := r.x.Done - from.done
	if interrupted == 0 { // the remainder, shortened by a stop
		r.piece(piece{Kind: kind, Allocation: a, Seconds: all, USD: usd, Units: units})
		return
	}
	take(kind, work, units)
	r.piece(piece{Kind: pieceLost, Allocation: a, Seconds: all, USD: usd})
}

// piece appends a piece, or extends the last one if it continues the same work.
func (r *runner) piece(p piece) {
	if n := len(r.out.Pieces); n > 0 {
		if last := &r.out.Pieces[n-1]; last.Kind == p.Kind && last.Allocation.SameShape(p.Allocation) && (p.Kind == pieceWork || p.Kind == pieceProbe) {
			last.Seconds, last.USD, last.Units = last.Seconds+p.Seconds, last.USD+p.USD, last.Units+p.Units
			return
		}
	}
	if p.Seconds > 0 || p.USD > 0 || p.Units > 0 {
		r.out.Pieces = append(r.out.Pieces, p)
	}
}

// reserve returns the time that the agent keeps for an orderly exit.
func (r *runner) reserve() time.Duration {
	worst := 0.0
	for _, s := range r.progress.Segments {
		worst = max(worst, s.CheckpointS)
	}
	return seconds(max(1.5*worst, 1))
}

// applyGuard applies the guard to the period since from, spent at allocation a, and undoes everything after the guard's
// stop. It returns the seconds for which a stopped run then writes a checkpoint before it is killed. Within a unit,
// time and cost are taken to accrue evenly.
func (r *runner) applyGuard(a resources.Allocation, from mark) (saving float64) {
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

package run

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"trainopt/monitor"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// supervision is the observed condition of a run, and the guard of its SLA.
type supervision struct {
	guard      *sla.Guard
	guardAt    time.Duration // elapsed time of the guard's next step; 0 means no timer
	verdicts   []sla.Verdict
	projected  projection
	written    map[sla.Objective]writtenVerdict // by writeVerdicts
	diagnosis  diagnosis
	footprint  footprint
	lastAction string // description of the last change of allocation
}

// supervise processes events until the run has ended, in one goroutine, one event at a time. The user's signals, and
// the end of ctx, arrive through the watchdog.
func (r *run) supervise(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	ticks := cmp.Or(r.ticks, time.Tick(r.Config.Interval))
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	var watch <-chan struct{}
	watching, stopWatch := false, func() {}
	defer func() { stopWatch() }()
	defer r.restoreFootprint()
	for r.ended == nil {
		if wanted := r.ticks == nil && r.log.Source().Evidence != observe.Observed; wanted != watching { // its reports have times of their own
			stopWatch()
			if watch, watching = nil, wanted; wanted {
				watch, stopWatch = r.log.watch(ctx, r.dir.Dir())
			}
		}
		r.publish()
		alarm.Reset(r.nextAlarm())
		var done, placed, ready, gone <-chan struct{}
		if r.job != nil {
			done = r.job.Done()
		}
		if r.queued != nil {
			placed = r.queued.Started()
		}
		if r.moving != nil && r.Pending == nil {
			ready, gone = r.moving.place.Ready(), r.moving.place.Done()
		}
		select {
		case <-ticks:
			r.tick(ctx)
		case _, open := <-watch:
			if !open {
				watch = nil
			}
			r.readLog()
		case <-alarm.C:
			r.guardStep()
			r.escalate()
			r.retry(ctx)
		case err := <-r.watchdog.failed:
			r.end(&ending{state: journal.Failed, reason: "lost", detail: err.Error(), code: CodeOurs, err: err})
		case x := <-r.watchdog.panics:
			panic(x)
		case <-placed:
			r.placed()
		case <-ready:
			select {
			case <-gone:
				r.giveUpMove("the engine has ended the job that held its place")
			default:
				r.requestStop(r.moving.to)
			}
		case <-gone:
			r.giveUpMove("the engine has ended the job that held its place")
		case <-done:
			r.interruptions() // so that an end caused by the user's signal is attributed to it
			r.handleExit(ctx, r.job.Exit())
		case s := <-r.watchdog.forward:
			r.interrupt(s)
		}
	}
}

// writePoll is the time between checks whether a job has written its checkpoint.
const writePoll = 50 * time.Millisecond

// publish passes the job, its limits and the time for a stop to the watchdog.
func (r *run) publish() {
	_, left := r.nearestLimit()
	if r.job == nil {
		left = math.MaxInt64
	}
	r.watchdog.allow(r.grace())
	r.watchdog.guard(r.job, r.gentleStop(), left, r.reserve())
}

// nextAlarm returns the time until the next step of the guard or a pending stop or restart, between 1 ms and 1 s. The guard
// has its own timer, so that neither a slow tick nor a missing log delays a stop.
func (r *run) nextAlarm() time.Duration {
	d := time.Second
	if l := r.Pending; l != nil && l.Writing && !l.Terminated {
		d = writePoll
	}
	if r.guardAt > 0 {
		d = min(d, r.guardAt-r.elapsed())
	}
	if r.retryAt > 0 {
		d = min(d, r.retryAt-r.elapsed())
	}
	return max(d, time.Millisecond)
}

// tick carries out the work of one sampling interval: read log, observer and samples, project, check the guard, then
// adapt.
func (r *run) tick(ctx context.Context) {
	if r.endedUnseen() {
		return
	}
	r.readLog()
	r.observe()
	r.scanCheckpoints(false)
	r.sample(ctx)
	r.project()
	r.guardStep()
	r.escalate()
	r.retry(ctx)
	r.watchQueue()
	r.noteMetadata()
	r.followMarket(ctx)
	r.answerRequests()
	r.followLease()
	r.followPartner()
	r.followElsewhere()
	if r.ended == nil && r.Pending == nil && r.job != nil && r.queued == nil && r.moving == nil {
		r.growMemory()
		r.noteSilence()
		r.watchEfficiency()
		r.watchGPUs()
		r.checkResumption()
		r.stopRewound()
		r.stopAfterSave()
		r.safely(r.stopHopeless)
		r.safely(r.tryThreads)
		r.safely(r.watchThreads)
		r.safely(r.predictAgain)
		r.safely(r.tryWorkers)
		r.safely(r.watchWorkers)
		r.stopMeasured()
		r.safely(r.powerStep)
		switch {
		case r.power.measuring():
		case r.Phase == probing:
			r.safely(r.probeStep)
		case r.Phase == working:
			r.safely(func() { r.adaptStep(ctx) })
			r.shrinkFootprint()
		}
	}
	r.writeSample()
	r.View.Status(r.status())
	r.save(false)
}

// newGuard creates the guard of the SLA. A place on an engine is paid for until the engine has noticed the end of the job,
// in whole seconds.
func (r *run) newGuard() error {
	latency := 100 * time.Millisecond
	if r.Config.elsewhere() {
		latency = 2 * time.Second
	}
	g, err := sla.NewGuard(r.Config.SLA, sla.GuardOptions{WarnAt: r.Config.Warn, Latency: latency})
	r.guard = g
	return err
}

// guardStep passes time and spend to the guard and carries out its decision.
func (r *run) guardStep() {
	if r.ended != nil || r.endedUnseen() {
		return
	}
	rate, _ := r.meter.Running() // nothing is charged between jobs
	beside, _ := r.besideRate(r.Clock.Now())
	t := sla.Tick{Elapsed: r.elapsed(), SpentUSD: r.spent(), USDPerHour: float64(rate) + beside, Reserve: r.reserve(), Stopping: r.Pending != nil}
	if r.projected.seconds != nil && (len(r.Progress.Observations()) > 0 || len(r.recalled()) > 0) { // similar runs are not evidence enough for a warning
		t.ProjectedTime, t.ProjectedUSD = time.Duration(r.projected.seconds.P50*float64(time.Second)), r.projected.cost.P50
	}
	d := r.guard.Step(t)
	r.guardAt = 0
	if d.Next < sla.Never {
		r.guardAt = t.Elapsed + d.Next
	}
	for _, w := range d.Warnings {
		r.event(Warning, "%s", w)
	}
	defer r.allocationStep()
	why := map[sla.Objective]string{sla.Time: "deadline", sla.Cost: "budget"}[d.Limit]
	switch d.Action {
	case sla.Checkpoint:
		r.event(Problem, "%s", d.Explanation)
		if d.AlreadyStopping && r.Pending != nil {
			r.Pending.Why, r.Pending.Next = why, nil
			r.saveState()
			return
		}
		r.requestStop(&pendingStop{Why: why})
	case sla.Kill:
		r.event(Problem, "%s", d.Explanation)
		if r.Pending == nil || r.Pending.Next != nil {
			r.Pending = &pendingStop{Why: why, AskedAt: r.elapsed()}
		}
		if r.job == nil {
			r.end(r.stopped(nil))
			return
		}
		r.watchdog.kill()
	}
}

// endedUnseen reports whether the job has ended although its exit has not arrived through Done yet, as after a suspended
// agent wakes. Nothing is asked of such a job.
func (r *run) endedUnseen() bool {
	if r.job == nil {
		return false
	}
	_, ended := r.job.Handle().ReadExit()
	return ended
}

// nearestLimit returns the limit that the run will reach first at the present rate, and the time until then;
// math.MaxInt64 if it has no limit.
func (r *run) nearestLimit() (why string, left time.Duration) {
	why, left = r.nearestOwnLimit()
	if end, ok := r.allocationLeft(); ok && end < left {
		why, left = byAllocation, end
	}
	return why, left
}

// nearestOwnLimit is nearestLimit among the user's limits.
func (r *run) nearestOwnLimit() (why string, left time.Duration) {
	left = math.MaxInt64
	if d := r.Config.SLA.TimeMax; d > 0 {
		why, left = "deadline", d-r.elapsed()
	}
	if b, rate := r.Config.SLA.CostMaxUSD, float64(r.Rates.Hourly(r.charged(r.Current))); b > 0 && rate > 0 {
		_, rest := r.besideRate(r.Clock.Now())
		if d := time.Duration(math.Min((b-r.spent()-rest)/rate*3600, 1e9) * float64(time.Second)); d < left {
			why, left = "budget", d
		}
	}
	return why, left
}

// reserve returns the expected time of an orderly exit: that of a save on request; for a job that keeps no checkpoint, the time that
// a process needs to exit on SIGTERM.
func (r *run) reserve() time.Duration {
	if !r.Resumable {
		return 300 * time.Millisecond
	}
	return r.saveTime()
}

// saveTime returns the expected time of a save on request: one and a half times the slowest measured checkpoint, at least a second.
func (r *run) saveTime() time.Duration {
	worst := 0.0
	for _, s := range r.Progress.Segments {
		worst = math.Max(worst, s.CheckpointS)
	}
	if r.savesOnRequest() { // the request is read at the end of a step, and carried out there
		after := r.observer.facts.StepTime.Seconds() + 1
		if r.observer.facts.WorldSize > 1 { // they agree on a step some seconds ahead; PyTorch 1.13's torchrun looks at them every 5 s
			after = 4*after + 5
		}
		worst = math.Max(worst, after+slices.Max(append([]float64{0}, r.checkpoints.took...)))
	}
	return time.Duration(math.Max(1.5*worst, 1) * float64(time.Second))
}

// hopelessShare is the share of a limit that must be used before a projection may stop a job.
const hopelessShare = 0.5

// stopHopeless stops a job that cannot meet a limit and would lose all its work when the guard stops it at that
// limit. It only saves the cost of the remainder, so any doubt lets the job continue: the user's consent (--yes),
// a script that continues from a checkpoint, of which its first may still come, checkpoints that the user may continue from, a log
// that was only discovered, an uncertain total or pace, less than half of the limit used.
func (r *run) stopHopeless() {
	if r.Config.Anyway || r.Config.Planner == "static" || r.Pending != nil || r.ended != nil || r.Resumable || r.canResume() || len(r.checkpoints.times) > 0 || !r.trusted() {
		return
	}
	why, ok := r.hopeless()
	if !ok {
		return
	}
	r.event(Problem, "%s; the job writes no checkpoint, so further work would be lost: stopping now (--yes lets it run to the limit)", why)
	r.requestStop(&pendingStop{Why: "infeasible", Words: why})
}

// hopeless reports whether even the fastest pace of this run would miss the deadline or the budget.
func (r *run) hopeless() (string, bool) {
	seg := r.Progress.Current()
	rest, known := r.Progress.Remaining()
	if !known || seg == nil || !seg.settled() {
		return "", false
	}
	steady := seg.Blocks[seg.warmUp():]
	since := r.elapsed() - max(seg.LastRowAt, seg.LaunchedAt)
	seconds := math.Max(0, rest*slices.Min(steady)-since.Seconds())
	finish := r.elapsed() + time.Duration(seconds*float64(time.Second))
	bill := r.spent() + seconds/3600*float64(r.Rates.Hourly(r.Current))
	spec := r.Config.SLA
	switch {
	case limitMissed(spec.TimeMax.Seconds(), r.elapsed().Seconds(), finish.Seconds(), r.projected.seconds):
		return fmt.Sprintf("at its fastest pace so far the job needs %s, the deadline is %s", length(finish), length(spec.TimeMax)), true
	case limitMissed(spec.CostMaxUSD, r.spent(), bill, r.projected.cost):
		return fmt.Sprintf("at its fastest pace so far the job costs %s, the budget is %s", page.USD(bill), page.USD(spec.CostMaxUSD)), true
	}
	return "", false
}

// limitMissed reports whether a limit is missed: enough of it is used, and both the most favourable end and the
// projected interval lie beyond it.
func limitMissed(limit, used, best float64, projected *sla.Interval) bool {
	return limit > 0 && used >= hopelessShare*limit && best > limit && (projected == nil || projected.P5 > limit)
}

// trusted reports whether the progress certainly belongs to the job: it comes from a log that the user named or the
// script was given, from the observer, or from output whose total another source confirms.
func (r *run) trusted() bool {
	e := r.log.Source().Evidence
	return !e.Discovered() || e == observe.Output && r.Progress.Hints[r.Progress.Unit].Units == r.Progress.Total
}

// lightenAfter is the time that the job must have run at one allocation before the agent reduces its footprint.
const lightenAfter = 3 * time.Second

// footprint is the agent's use of the machine, which Agent.Lighten reduces while only supervision remains.
type footprint struct {
	at      *Segment // segment in which it was reduced; nil if it is not
	restore func()   // reverts the reduction
}

// shrinkFootprint calls Lighten, once per segment, when only supervision remains.
func (r *run) shrinkFootprint() {
	seg := r.Progress.Current()
	if r.Lighten == nil || r.footprint.at == seg || r.Phase != working || r.critics.renewal != nil || r.Pending != nil || r.elapsed()-seg.LaunchedAt < lightenAfter {
		return
	}
	r.footprint = footprint{at: seg, restore: r.Lighten()}
}

// restoreFootprint reverts Lighten before work beside the loop.
func (r *run) restoreFootprint() {
	if r.footprint.restore != nil {
		r.footprint.restore()
		r.footprint = footprint{}
	}
}

// sampling samples the machine and the job.
type sampling struct {
	sampler *monitor.Sampler
	tree    launch.ProcessTree // of the running job; nil if unknown
	remote  remoteSampler      // samples the running job where it is; nil for this machine
	last    monitor.Sample
	energy  map[string]float64 // last reading per device, joules
	// machineCPUs is the number of CPUs of the whole machine, to which the host's utilization refers.
	machineCPUs float64
	haveJ       bool
	cpuJoules   float64 // last reading of the CPU energy
}

func (s *sampling) pids() ([]int, error) {
	if s.tree == nil {
		return nil, monitor.ErrNoData
	}
	return s.tree.PIDs()
}

// processes counts the processes on each GPU of this machine.
func (s *sampling) processes(ctx context.Context, now time.Time) map[string]int {
	n := map[string]int{}
	sample, _ := s.sampler.Sample(ctx, now)
	for _, g := range sample.GPUs {
		n[g.UUID] = len(g.PIDs)
	}
	return n
}

func (s *sampling) detach() {
	s.tree, s.remote = nil, nil
	s.last = monitor.NoSample(s.last.At)
}

// openInstruments opens the observer, the finder of checkpoints, the log, the sampler and the tables of the run.
func (r *run) openInstruments() {
	r.openObserver()
	r.openCheckpoints()
	r.log = r.openLog()
	r.sampler = &sampling{energy: map[string]float64{}, last: monitor.NoSample(r.Clock.Now()), machineCPUs: monitor.MachineCPUs()}
	r.sampler.sampler = &monitor.Sampler{Collectors: []monitor.Collector{&monitor.Host{}, &monitor.Tree{PIDs: r.sampler.pids}, r.powerCounters()}}
	if r.Config.elsewhere() {
		r.sampler.sampler.Collectors = nil // the load of this machine does not concern the job
	} else if r.Limits.GPUs.Max > 0 && r.Host.Described == "" {
		r.sampler.sampler.Collectors = append(r.sampler.sampler.Collectors, monitor.OpenNVML())
	}
	if dir := lookup(r.Environ, "OPTIMIZER_DEVICE_ACTIVITY"); dir != "" {
		r.sampler.sampler.Collectors = append(r.sampler.sampler.Collectors, &monitor.Activity{Dir: dir})
	}
	r.openNotices()
	var err error
	if r.tables, err = monitor.OpenTables(r.dir.Dir()); err != nil {
		r.event(Warning, "%v", err)
	}
}

// powerCounters returns the collector of CPU energy; HOST_SYS is where a container has the machine's /sys, as for gopsutil.
func (r *run) powerCounters() *monitor.RAPL {
	return &monitor.RAPL{Root: filepath.Join(cmp.Or(lookup(r.Environ, "HOST_SYS"), "/sys"), "class", "powercap")}
}

func (r *run) closeInstruments() {
	r.log.Close()
	r.sampler.sampler.Close()
	r.tables.Close()
	r.closeNotices()
}

// sample reads host, process tree and devices once, and adds the readings to the current segment.
func (r *run) sample(ctx context.Context) {
	s, errs := r.sampler.sampler.Sample(ctx, r.Clock.Now())
	for _, err := range errs {
		r.warnOnce(err.Error())
	}
	if remote := r.sampler.remote; remote != nil {
		s = remote.Sample()
	} else {
		s.GPUs = slices.DeleteFunc(s.GPUs, func(g monitor.GPUSample) bool {
			return !slices.Contains(r.Current.GPUIDs, g.UUID) && !(r.Lease != nil && slices.Contains(r.Lease.Devices, g.UUID))
		})
	}
	r.sampler.last = s
	r.Joules += r.sampler.energyUsed(s.GPUs)
	if v := s.Host.CPUEnergyJ; !math.IsNaN(v) {
		if r.CPUJoules == nil {
			r.CPUJoules = new(float64)
		}
		*r.CPUJoules += v - r.sampler.cpuJoules
		r.sampler.cpuJoules = v
	}
	seg := r.Progress.Current()
	if seg == nil || r.job == nil {
		return
	}
	if v := s.Tree.MemoryGiB; v > seg.PeakGiB {
		seg.PeakGiB = v
	}
	granted := r.granted(r.Current)
	if granted != float64(r.Current.CPUs) {
		seg.GrantedCPUs = granted
	}
	if v := s.Tree.CPUPercent; !math.IsNaN(v) && granted > 0 {
		seg.CPUSum += v / granted
		seg.CPUN++
		if host := s.Host.CPUPercent; !math.IsNaN(host) {
			seg.foreign((host*r.sampler.machineCPUs-v)/100, r.sampler.machineCPUs, v/100)
		}
	}
	if v := s.GPUMean(); !math.IsNaN(v) {
		seg.GPUSum += v
		seg.GPUN++
	}
	if seg.FirstRowAt > 0 && seg.EndedAt == 0 && r.Pending == nil && !r.Progress.Finished() { // not while it saves or evaluates at its end
		foreign := (s.Host.CPUPercent*r.sampler.machineCPUs - s.Tree.CPUPercent) / 100
		seg.Used.sample(&s, foreign > r.sampler.machineCPUs-granted+foreignSlack, r.sharedGPUs(s.GPUs))
	}
}

// sharedGPUs reports whether processes of others run on the job's devices. Those of another PID namespace cannot be distinguished.
func (r *run) sharedGPUs(gpus []monitor.GPUSample) bool {
	if r.tree == nil || len(gpus) == 0 || (resources.Roots{}).PIDNamespace() {
		return false
	}
	own, err := r.tree.PIDs()
	return err == nil && slices.ContainsFunc(gpus, func(g monitor.GPUSample) bool {
		return slices.ContainsFunc(g.PIDs, func(pid int) bool { return !slices.Contains(own, pid) })
	})
}

// energyUsed returns the increase of the devices' energy counters since the last sample, joules. Decreasing counters (a
// driver restart) add nothing.
func (s *sampling) energyUsed(gpus []monitor.GPUSample) (joules float64) {
	for _, g := range gpus {
		if math.IsNaN(g.EnergyJ) {
			continue
		}
		if before, ok := s.energy[g.UUID]; ok && g.EnergyJ > before {
			joules += g.EnergyJ - before
		}
		s.energy[g.UUID], s.haveJ = g.EnergyJ, true
	}
	return joules
}

// usage is what a job used of its allocation while it worked, as running means.
type usage struct {
	perf.Utilization
	Samples int `json:"samples"` // of the machine, while no other program took the job's CPUs
	// Busy is the mean number of busy GPUs over BusySamples samples, while no other program used them.
	Busy        float64 `json:"busy_gpus"`
	BusySamples int     `json:"busy_samples"`
	Stepping    float64 `json:"stepping_s"` // between steps of a training with loader processes
}

// Fewer samples, or less time, are no evidence.
const (
	usageSamples  = 3
	usageStepping = 1.0 // s
)

// known returns the utilization as far as there is evidence.
func (u *usage) known() (out perf.Utilization) {
	if u.Samples >= usageSamples {
		out.CPUs, out.GPUs = u.CPUs, u.GPUs
	}
	out.GradientRate = u.GradientRate
	if u.BusySamples >= usageSamples {
		out.GPUBusy = u.GPUBusy
	}
	if u.Stepping >= usageStepping {
		out.Compute = u.Compute
	}
	return out
}

// sample adds a sample of the machine; disturbed is true if other programs may have had the job's CPUs, shared if they used its
// GPUs.
func (u *usage) sample(s *monitor.Sample, disturbed, shared bool) {
	cpus := s.Tree.CPUPercent / 100
	if disturbed || !(cpus > 0) {
		return
	}
	u.Samples++
	u.CPUs += (cpus - u.CPUs) / float64(u.Samples)
	working, busy := 0.0, 0.0
	for _, g := range s.GPUs {
		if g.UtilPercent > 0 {
			working, busy = working+1, busy+g.UtilPercent/100
		}
	}
	u.GPUs = max(u.GPUs, working)
	if shared || u.GPUs == 0 {
		return
	}
	u.BusySamples++
	u.Busy += (busy - u.Busy) / float64(u.BusySamples)
	u.GPUBusy = min(1, u.Busy/u.GPUs)
}

// step adds the time between the steps since the last facts; the first ones of an agent may repeat what an earlier agent has
// added, and add nothing. A loader without processes of its own prepares the input between the steps, so that its wait is computing
// as well. The rate of the gradients is that of the recent steps.
func (u *usage) step(last, now *observe.Facts) {
	if step := now.StepTime.Seconds(); now.Unit == "step" && step > 0 {
		u.GradientRate = now.GradientBytes / step
	}
	stepping, waiting := now.Stepping, now.Waiting
	if last.PID == now.PID && last.Training == now.Training {
		stepping, waiting = stepping-last.Stepping, waiting-last.Waiting
	}
	first := last.PID == 0
	*last = *now
	if first || now.Workers < 1 || stepping <= 0 || waiting < 0 {
		return
	}
	u.Stepping += stepping.Seconds()
	compute := math.Max(0, 1-waiting.Seconds()/stepping.Seconds())
	u.Compute += (compute - u.Compute) * stepping.Seconds() / u.Stepping
}

// peakSamples is the number of samples of a job below which its peak memory may have been missed.
const peakSamples = 10

// addPeak adds the peak memory that the supervisor of the job recorded to the current segment. A resident set is no measurement:
// it includes the pages of files that are mapped. It bounds the peak of a job of few samples.
func (p *Progress) addPeak(exit launch.Exit) {
	seg, samples := p.Current(), 0
	for _, s := range slices.Backward(p.Segments) {
		if samples += s.CPUN; s.Launch {
			break
		}
	}
	switch {
	case exit.PeakMemoryGiB == nil:
	case !exit.PeakResident && !exit.PeakAtMost:
		seg.PeakGiB = math.Max(seg.PeakGiB, *exit.PeakMemoryGiB)
	case samples < peakSamples:
		seg.ResidentGiB = *exit.PeakMemoryGiB
	}
}

// peakMemory returns the measured peak memory of all segments in GiB, NaN without any, and the bound below which a higher one
// may have been missed, 0 if none may.
func (p *Progress) peakMemory() (peak, bound float64) {
	for _, s := range p.Segments {
		peak, bound = math.Max(peak, s.PeakGiB), math.Max(bound, s.ResidentGiB)
	}
	if peak == 0 {
		peak = math.NaN()
	}
	return peak, bound
}

package run

import (
	"context"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"

	"trainopt/cost"
	"trainopt/monitor"
	"trainopt/optimizer/launch"
	"trainopt/resources"
	"trainopt/sla"
)

// sampling samples the machine and the job.
type sampling struct {
	sampler *monitor.Sampler
	job     launch.Job
	alloc   resources.Allocation
	last    monitor.Sample
	energy  map[string]float64 // last reading per device, joules
	joules  float64
	// machineCPUs is the number of CPUs of the whole machine, to which the host's utilisation refers.
	machineCPUs float64
	haveJ       bool
	said        map[string]bool
}

// machineCPUs counts the CPUs of the machine, including those that this process may not use.
func machineCPUs() float64 {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return float64(runtime.NumCPU())
	}
	return math.Max(1, float64(strings.Count(string(data), "\ncpu")))
}

func (s *sampling) pids() ([]int, error) {
	if s.job == nil {
		return nil, monitor.ErrNoData
	}
	return s.job.PIDs()
}

func (s *sampling) attach(j launch.Job, a resources.Allocation) { s.job, s.alloc = j, a }

func (s *sampling) detach() {
	s.job = nil
	s.last = monitor.NoSample(s.last.At)
}

// openInstruments opens the observer, the finder of checkpoints, the log, the sampler and the tables of the run.
func (r *run) openInstruments() {
	r.openObserver()
	r.openSaves()
	r.log = r.openLog()
	r.sampler = &sampling{energy: map[string]float64{}, said: map[string]bool{}}
	r.sampler.last = monitor.NoSample(r.Clock.Now())
	r.sampler.machineCPUs = machineCPUs()
	r.sampler.sampler = &monitor.Sampler{Collectors: []monitor.Collector{&monitor.Host{}, &monitor.Tree{PIDs: r.sampler.pids}}}
	if r.limits.GPUs.Max > 0 && r.host.Described == "" {
		r.sampler.sampler.Collectors = append(r.sampler.sampler.Collectors, monitor.OpenNVML())
	}
	var err error
	if r.tables, err = monitor.OpenTables(r.dir.Dir()); err != nil {
		r.event(Warning, "%v", err)
	}
}

func (r *run) closeInstruments() {
	r.log.Close()
	r.sampler.sampler.Close()
	r.tables.Close()
}

// sample reads host, process tree and devices once, and adds the readings to the current segment.
func (r *run) sample(ctx context.Context) {
	s, errs := r.sampler.sampler.Sample(ctx, r.Clock.Now())
	for _, err := range errs {
		if !r.sampler.said[err.Error()] {
			r.sampler.said[err.Error()] = true
			r.warn(err.Error())
		}
	}
	s.GPUs = slices.DeleteFunc(s.GPUs, func(g monitor.GPUSample) bool { return !slices.Contains(r.current.GPUIDs, g.UUID) })
	r.sampler.last = s
	r.sampler.addEnergy(s.GPUs)
	seg := r.progress.Current()
	if seg == nil || r.job == nil {
		return
	}
	if v := s.Tree.MemoryGiB; v > seg.PeakGiB {
		seg.PeakGiB = v
	}
	if v := s.Tree.CPUPercent; !math.IsNaN(v) && r.current.CPUs > 0 {
		seg.CPUSum += v / float64(r.current.CPUs)
		seg.CPUN++
		if host := s.Host.CPUPercent; !math.IsNaN(host) {
			seg.Foreign += math.Max(0, (host*r.sampler.machineCPUs-v)/100)
		}
	}
	if v := s.GPUMean(); !math.IsNaN(v) {
		seg.GPUSum += v
		seg.GPUN++
	}
}

// addEnergy adds the increase of each device's energy counter since the last sample. Decreasing counters (a driver
// restart) add nothing.
func (s *sampling) addEnergy(gpus []monitor.GPUSample) {
	for _, g := range gpus {
		if math.IsNaN(g.EnergyJ) {
			continue
		}
		if before, ok := s.energy[g.UUID]; ok && g.EnergyJ > before {
			s.joules += g.EnergyJ - before
		}
		s.energy[g.UUID], s.haveJ = g.EnergyJ, true
	}
}

// projection predicts the end of the run; its fields are nil if it cannot be predicted.
type projection struct {
	seconds, cost *sla.Interval
}

// project predicts finish and cost at the current allocation, and evaluates the SLA.
func (r *run) project() {
	r.projected.seconds, r.projected.cost = nil, nil
	r.safely(r.projectToEnd)
	r.verdicts = sla.Evaluate(r.Config.SLA, r.measures(false))
}

// projectToEnd sets the projection. It refits the model first if new rows have arrived and the planning budget allows
// it.
func (r *run) projectToEnd() {
	if r.progress.Rows > r.modelRows && r.rested() {
		r.think(r.refit)
	}
	if rest, ok := r.progress.Remaining(); ok && r.model != nil {
		r.projected.seconds, r.projected.cost = r.toTheEnd(rest)
	}
}

// toTheEnd projects the elapsed seconds and the cost in USD at the end of the run, given the remaining units of work,
// from the model's draws at the current allocation.
func (r *run) toTheEnd(rest float64) (*sla.Interval, *sla.Interval) {
	now := r.elapsed()
	from := now
	if seg := r.progress.Current(); seg != nil && seg.LastRowAt > 0 && r.job != nil {
		from = seg.LastRowAt // start of the unit in progress
	}
	rate, spent := float64(r.rates.Hourly(r.current)), r.spent()
	draws := slices.Clone(r.model.Draws(r.current))
	for i, d := range draws {
		draws[i] = math.Max(now.Seconds(), from.Seconds()+rest*d)
	}
	slices.Sort(draws)
	sec := sla.Interval{P5: quantile(draws, .05), P50: quantile(draws, .5), P95: quantile(draws, .95)}
	money := func(s float64) float64 { return spent + (s-now.Seconds())/3600*rate }
	sec, usd := r.wholeRun(sec, sla.Interval{P5: money(sec.P5), P50: money(sec.P50), P95: money(sec.P95)}, now.Seconds(), rate)
	return &sec, &usd
}

// quantile returns the q-quantile of an ascending slice, interpolated linearly; NaN if v is empty.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	x := q * float64(len(v)-1)
	i := int(x)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (x-float64(i))*(v[i+1]-v[i])
}

// measures returns the values on which the SLA is evaluated.
func (r *run) measures(final bool) map[sla.Objective]sla.Measure {
	var cpuSum, gpuSum, peak float64
	var cpuN, gpuN int
	for _, s := range r.progress.Segments {
		cpuSum, cpuN = cpuSum+s.CPUSum, cpuN+s.CPUN
		gpuSum, gpuN = gpuSum+s.GPUSum, gpuN+s.GPUN
		peak = math.Max(peak, s.PeakGiB)
	}
	if peak == 0 {
		peak = math.NaN()
	}
	m := map[sla.Objective]sla.Measure{
		sla.Time:       {Value: r.elapsed().Seconds(), Projected: r.projected.seconds, Final: final},
		sla.Cost:       {Value: r.spent(), Projected: r.projected.cost, Final: final},
		sla.Throughput: {Value: r.throughput(), Final: final},
		sla.Memory:     {Value: peak, Final: final},
		sla.GPUUtil:    {Value: mean(gpuSum, gpuN), Final: final},
		sla.CPUUtil:    {Value: mean(cpuSum, cpuN), Final: final},
	}
	return m
}

// throughput returns the samples per second of the timed work of the whole run; NaN if the samples are unknown.
func (r *run) throughput() float64 {
	if r.progress.UnitSamples == 0 {
		return math.NaN()
	}
	rate, _ := r.progress.throughput()
	return rate
}

// status returns the current picture of the run for the view.
func (r *run) status() Status {
	s := Status{RunID: r.rec.RunID, Name: r.Config.Name, Phase: "training", Allocation: r.current, Done: r.progress.Done, Total: r.progress.Total,
		Unit: r.progress.Unit, Elapsed: r.elapsed(), Finish: r.projected.seconds, Spent: r.meter.Total(r.elapsed()), CostAtEnd: r.projected.cost,
		CPUUtil: r.sampler.last.Tree.CPUPercent / math.Max(1, float64(r.current.CPUs)), GPUUtil: r.sampler.last.GPUMean(),
		MemoryGiB: r.sampler.last.Tree.MemoryGiB, Throughput: math.NaN(), Loss: float64(r.rec.Training.TrainLoss),
		Accuracy: float64(r.rec.Training.TestAccuracy), Verdicts: r.verdicts, LastAction: r.lastAction,
		Script: r.rec.Script.Path, Log: r.logSource(), Now: r.Clock.Now(), Deadline: r.Config.SLA.TimeMax, Budget: cost.USD(r.Config.SLA.CostMaxUSD),
		Checkpoint: r.rec.Checkpoint, AtRisk: r.atRisk()}
	if seg := r.progress.Current(); seg != nil && len(seg.Blocks) > 0 {
		per, unit := r.progress.throughputUnit()
		s.Throughput, s.ThroughputUnit = per/seg.Blocks[len(seg.Blocks)-1], unit
	}
	if !r.log.lastRow.IsZero() {
		s.LogSilent = r.Clock.Now().Sub(r.log.lastRow)
	}
	switch {
	case r.leaving != nil && r.leaving.Next == nil:
		s.Phase = "stopping"
	case r.leaving != nil:
		s.Phase = "saving"
	case r.retryAt > 0:
		s.Phase = "waiting to start again"
	case r.phase == probing:
		s.Phase = "measuring"
	}
	return s
}

// logSource returns the source of progress and the evidence for it; empty until known.
func (r *run) logSource() string {
	if r.log.Source().Path == "" {
		return ""
	}
	return strings.TrimPrefix(r.log.Source().String(), "log: ")
}

// jobEnvironment returns the environment of the job: the inherited one with the allocation, the log file and the
// checkpoint directory of the run.
func (r *run) jobEnvironment(a resources.Allocation, resume bool) []string {
	price := func(v cost.USD) *float64 { f := float64(v); return &f }
	log := r.log.own
	if r.log.named != "" {
		log = r.log.named
	}
	if a.NumWorkers == 0 { // one loader worker per CPU, at most 8
		a.NumWorkers = min(8, a.CPUs)
	}
	e := resources.JobEnvironment{Threads: r.threadsOf(a), ThreadsChosen: a.Threads > 0, KeepVisible: a.GPUs == 0 && len(r.host.GPUs) > 0 && r.Config.GPUs == "", RunID: r.rec.RunID, Allocation: a, Epochs: r.Config.Epochs, Dataset: r.Config.Dataset, Log: log,
		Checkpoint: r.dir.Path("checkpoint"), Resume: resume,
		GPUHour: price(r.rates.GPUHour), CPUHour: price(r.rates.CPUHour), GiBHour: price(r.rates.GiBHour)}
	if r.Config.SeedGiven {
		e.Seed = &r.Config.Seed
	}
	if a.GPUs > 0 {
		pin := true
		e.PinMemory = &pin
	}
	env := e.Environ(r.Environ)
	if r.observer != nil {
		env = r.observer.installed.Environ(env)
	}
	return env
}

// threadsOf returns the size of the thread pools of each process at an allocation: the physical cores, divided by the
// ranks.
func (r *run) threadsOf(a resources.Allocation) int {
	if a.Threads > 0 {
		return a.Threads
	}
	return max(1, a.CPUs/r.threadsPerCore()/max(1, r.ranks))
}

func (r *run) threadsPerCore() int {
	if r.host.Described != "" {
		return 1
	}
	return resources.ThreadsPerCore()
}

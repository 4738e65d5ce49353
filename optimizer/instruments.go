package optimizer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/monitor"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// ownLog is the file that the script may write its CSV to ($OPTIMIZER_LOG).
const ownLog = "training.csv"

// logReader reads the training's progress from the best source there is: the log that the user named (--log, or
// $OPTIMIZER_LOG of the user's own environment), else our $OPTIMIZER_LOG, else the newest CSV that the script writes,
// else progress lines on its standard output.
type logReader struct {
	named   string // absolute; empty when the user named none
	own     string
	dirs    []string
	since   time.Time
	ignore  []string
	options monitor.TailOptions
	stdout  *monitor.Tail
	stderr  *monitor.Tail
	tail    *monitor.Tail // the structured log, nil until found
	path    string
	before  map[string]oldLog // what CSV files held before the job began
	skip    int               // lines of path that an earlier training wrote
	lookAt  time.Time         // when to look for a log again
	lastRow time.Time
	failed  string // last error, said once
}

// oldLog is a log as it was before the job began: its rows are not this run's.
type oldLog struct {
	size  int64
	lines int
	head  [sha256.Size]byte // of the first headBytes
}

const headBytes = 64 << 10

// readOldLog looks at a file that is there before the job begins.
func readOldLog(path string) (oldLog, bool) {
	f, err := os.Open(path)
	if err != nil {
		return oldLog{}, false
	}
	defer f.Close()
	var o oldLog
	buf := make([]byte, headBytes)
	for first := true; ; first = false {
		n, err := io.ReadFull(f, buf)
		if first {
			o.head = sha256.Sum256(buf[:n])
		}
		o.size += int64(n)
		o.lines += bytes.Count(buf[:n], []byte("\n"))
		if err != nil {
			return o, o.size > 0
		}
	}
}

// grown reports whether the file still begins with the old content; changed whether it is any different at all.
func (o oldLog) grown(path string) (still, changed bool) {
	f, err := os.Open(path)
	if err != nil {
		return false, true
	}
	defer f.Close()
	buf := make([]byte, min(headBytes, o.size))
	n, _ := io.ReadFull(f, buf)
	info, err := f.Stat()
	if err != nil || n < len(buf) || info.Size() < o.size || sha256.Sum256(buf[:n]) != o.head {
		return false, true
	}
	return true, info.Size() != o.size
}

func (r *run) openLog() *logReader {
	l := &logReader{own: r.dir.Path(ownLog), since: r.Clock.Now().Add(-time.Second), before: map[string]oldLog{},
		options: monitor.TailOptions{Format: r.Config.Format, Aliases: r.Config.Columns}}
	if r.Config.Log != "" {
		l.named = absolute(r.Config.Dir, r.Config.Log)
	}
	l.dirs = []string{r.Config.Dir}
	if r.Config.Train != "" {
		if d := filepath.Dir(absolute(r.Config.Dir, r.Config.Train)); d != r.Config.Dir {
			l.dirs = append(l.dirs, d)
		}
	}
	l.ignore = []string{r.Config.StateDir}
	plain := monitor.TailOptions{Format: "stdout"}
	if re, err := regexp.Compile(r.Config.Pattern); err == nil && r.Config.Pattern != "" { // Validate has refused a bad one
		plain.Patterns = []*regexp.Regexp{re}
	}
	l.stdout, _ = monitor.Open(r.dir.Path("job.stdout"), plain)
	l.stderr, _ = monitor.Open(r.dir.Path("job.stderr"), plain)
	return l
}

// rememberOld takes note of the logs that are there before the first start.
func (l *logReader) rememberOld() {
	paths := []string{l.named}
	for _, d := range l.dirs {
		for _, pattern := range []string{"*.csv", "*/*.csv", "*.jsonl", "*/trainer_state.json"} {
			found, _ := filepath.Glob(filepath.Join(d, pattern))
			paths = append(paths, found...)
		}
	}
	const most = 200
	for i, p := range paths {
		if o, ok := readOldLog(p); ok && i < most {
			l.before[p] = o
		}
	}
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// restart looks for the log anew, for a job that begins from nothing: $OPTIMIZER_LOG is then another file, so that its
// rows are not taken for those of the start before.
func (l *logReader) restart(own string, now time.Time) {
	l.own, l.since, l.before = own, now, map[string]oldLog{}
	l.drop()
	l.rememberOld()
}

func (l *logReader) drop() {
	if l.tail != nil {
		l.tail.Close()
	}
	l.tail, l.path, l.skip, l.lookAt = nil, "", 0, time.Time{}
}

func (l *logReader) use(path string) {
	t, err := monitor.Open(path, l.options)
	if err != nil {
		l.failed = err.Error()
		return
	}
	l.tail, l.path, l.skip = t, path, 0
	if o, old := l.before[path]; old {
		if still, _ := o.grown(path); still {
			l.skip = o.lines
		}
	}
}

// watch gives hints that a log may have grown; polling stays the truth.
func (l *logReader) watch(ctx context.Context) (<-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(ctx)
	dirs := append([]string{filepath.Dir(l.own)}, l.dirs...)
	if l.named != "" {
		dirs = append(dirs, filepath.Dir(l.named))
	}
	hints, err := monitor.Watch(ctx, dirs...)
	if err != nil {
		return nil, cancel
	}
	return hints, cancel
}

// find looks for a structured log: every second, less often where looking is slow, or at once when the job has ended. A file
// that has given no row so far may still be exchanged for a better one.
func (l *logReader) find(now time.Time, last bool) {
	if l.tail != nil && l.tail.Stats().Rows > 0 || now.Before(l.lookAt) && !last {
		return
	}
	began := time.Now()
	if path := l.candidate(now, last); path != "" && path != l.path {
		l.drop()
		l.use(path)
	}
	l.lookAt = now.Add(time.Second + 100*time.Since(began))
}

// candidate is the log to read by now; empty when there is none yet. A file as it was before the job began is none.
func (l *logReader) candidate(now time.Time, last bool) string {
	fresh := func(path string) bool {
		info, err := os.Stat(path)
		if err != nil || info.Size() == 0 {
			return false
		}
		o, old := l.before[path]
		if !old {
			return true
		}
		_, changed := o.grown(path)
		return changed
	}
	if l.named != "" {
		if fresh(l.named) {
			return l.named
		}
		return ""
	}
	if fresh(l.own) {
		return l.own
	}
	if now.Sub(l.since) < 3*time.Second && !last {
		return "" // a job that writes $OPTIMIZER_LOG needs a moment to make it; another CSV beside the script can wait
	}
	path, err := monitor.Discover(monitor.DiscoverOptions{Dirs: l.dirs, Since: l.since, Ignore: l.ignore, Tail: l.options})
	if err != nil || !fresh(path) {
		return ""
	}
	return path
}

// poll returns the new rows of the source in use. Progress lines on the standard streams count only while no
// structured log has given a row.
// After the end of the job, last takes a line without an end too.
func (l *logReader) poll(now time.Time, last bool) ([]monitor.Row, error) {
	l.find(now, last)
	read := (*monitor.Tail).Poll
	if last {
		read = (*monitor.Tail).Finish
	}
	var rows []monitor.Row
	var err error
	if l.tail != nil {
		resets := l.tail.Stats().Resets
		rows, err = read(l.tail, now)
		if l.tail.Stats().Resets > resets {
			l.skip = 0 // truncated or replaced: what is in it now is this run's
		}
		rows = slices.DeleteFunc(rows, func(r monitor.Row) bool { return r.Line <= l.skip })
	}
	if l.tail == nil || l.tail.Stats().Rows == 0 {
		for _, t := range []*monitor.Tail{l.stdout, l.stderr} {
			more, e := read(t, now)
			rows = append(rows, more...)
			if err == nil {
				err = e
			}
		}
	}
	if len(rows) > 0 {
		l.lastRow = now
	}
	return rows, err
}

// stats of the source that gave the rows.
func (l *logReader) stats() monitor.TailStats {
	if l.tail != nil && l.tail.Stats().Rows > 0 {
		return l.tail.Stats()
	}
	if l.stderr.Stats().Rows > l.stdout.Stats().Rows {
		return l.stderr.Stats()
	}
	return l.stdout.Stats()
}

func (l *logReader) close() {
	for _, t := range []*monitor.Tail{l.tail, l.stdout, l.stderr} {
		if t != nil {
			t.Close()
		}
	}
}

// sampling reads the machine and the job.
type sampling struct {
	sampler *monitor.Sampler
	job     launch.Job
	alloc   resources.Allocation
	last    monitor.Sample
	energy  map[string]float64 // first reading per device
	joules  float64
	// machineCPUs is the number of CPUs of the whole machine, of which the host's utilisation is a share.
	machineCPUs float64
	haveJ       bool
	said        map[string]bool
}

// machineCPUs counts the CPUs of the machine, those that we may not use included.
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

func (r *run) openInstruments() {
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
	r.log.close()
	r.sampler.sampler.Close()
	r.tables.Close()
}

// readLog takes in the new rows of the training log.
func (r *run) readLog() { r.takeRows(false) }

// readLastRows takes in all that is left of it when nobody writes it any more.
func (r *run) readLastRows() {
	for r.takeRows(true) > 0 {
	}
}

func (r *run) takeRows(last bool) int {
	now := r.Clock.Now()
	rows, err := r.log.poll(now, last)
	if err != nil && err.Error() != r.log.failed {
		r.log.failed = err.Error()
		r.event(Warning, "%v", err)
	}
	at := r.elapsed()
	for i := range rows {
		r.progress.Add(&rows[i], at)
		r.learnTraining(&rows[i])
		line := rows[i].Values()
		line["time_s"] = at.Seconds()
		r.append(r.tables.Log, line)
		r.writePerformance(&rows[i], at)
	}
	return len(rows)
}

// learnTraining keeps what the log says of the model, and its latest results.
func (r *run) learnTraining(row *monitor.Row) {
	t := &r.rec.Training
	if row.Model != "" {
		t.Model = &row.Model
	}
	if row.Dataset != "" {
		t.Dataset = &row.Dataset
	}
	for column, into := range map[monitor.Column]*journal.Number{
		monitor.ModelParams: &t.ModelParams, monitor.ModelLayers: &t.ModelLayers, monitor.DataCount: &t.DataCount,
		monitor.DataSizeMB: &t.DataSizeMB, monitor.BatchSize: &t.BatchSize, monitor.TrainLoss: &t.TrainLoss,
		monitor.TrainAccuracy: &t.TrainAccuracy, monitor.TestLoss: &t.TestLoss, monitor.TestAccuracy: &t.TestAccuracy} {
		if v, ok := row.Value(column); ok {
			*into = journal.Number(v)
		}
	}
	for _, v := range []monitor.Column{monitor.TrainLoss, monitor.TestLoss} {
		if x, ok := row.Value(v); ok && (math.IsInf(x, 0) || x > 1e300) {
			r.warn(fmt.Sprintf("the loss is infinite at line %d of the log", row.Line))
		}
	}
}

// sample reads host, process tree and devices once.
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

// projection is the run seen to its end from now; nil where it cannot be.
type projection struct {
	seconds, cost *sla.Interval
}

// project predicts the finish and the bill at the present allocation, and judges the agreement.
func (r *run) project() {
	r.projected.seconds, r.projected.cost = nil, nil
	r.safely(r.projectToEnd)
	r.verdicts = sla.Evaluate(r.Config.SLA, r.measures(false))
}

func (r *run) projectToEnd() {
	if r.progress.Rows > r.modelRows && r.rested() {
		r.think(r.refit)
	}
	if rest, ok := r.progress.Remaining(); ok && r.model != nil {
		r.projected.seconds, r.projected.cost = r.toTheEnd(rest)
	}
}

func (r *run) toTheEnd(rest float64) (*sla.Interval, *sla.Interval) {
	now := r.elapsed()
	from := now
	if seg := r.progress.Current(); seg != nil && seg.LastRowAt > 0 && r.job != nil {
		from = seg.LastRowAt // the unit in progress began there
	}
	rate, spent := float64(r.rates.Hourly(r.current)), r.spent()
	draws := slices.Clone(r.model.Draws(r.current))
	for i, d := range draws {
		draws[i] = math.Max(now.Seconds(), from.Seconds()+rest*d)
	}
	slices.Sort(draws)
	sec := sla.Interval{P5: quantile(draws, .05), P50: quantile(draws, .5), P95: quantile(draws, .95)}
	money := func(s float64) float64 { return spent + (s-now.Seconds())/3600*rate }
	return &sec, &sla.Interval{P5: money(sec.P5), P50: money(sec.P50), P95: money(sec.P95)}
}

// quantile of an ascending slice, linear between points; NaN when empty.
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

// measures is what the agreement is judged on.
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

// throughput is samples per second of the timed work of the whole run; NaN when samples are unknown.
func (r *run) throughput() float64 {
	if r.progress.UnitSamples == 0 {
		return math.NaN()
	}
	units, seconds := 0.0, 0.0
	for _, s := range r.progress.Segments {
		units += s.Units
		seconds += s.Timed
	}
	if seconds == 0 {
		return math.NaN()
	}
	return units * r.progress.UnitSamples / seconds
}

func (r *run) status() Status {
	s := Status{RunID: r.rec.RunID, Name: r.Config.Name, Phase: "training", Allocation: r.current, Done: r.progress.Done, Total: r.progress.Total,
		Unit: r.progress.Unit, Elapsed: r.elapsed(), Finish: r.projected.seconds, Spent: r.meter.Total(r.elapsed()), CostAtEnd: r.projected.cost,
		CPUUtil: r.sampler.last.Tree.CPUPercent / math.Max(1, float64(r.current.CPUs)), GPUUtil: r.sampler.last.GPUMean(),
		MemoryGiB: r.sampler.last.Tree.MemoryGiB, Throughput: math.NaN(), Loss: float64(r.rec.Training.TrainLoss),
		Accuracy: float64(r.rec.Training.TestAccuracy), Verdicts: r.verdicts, LastAction: r.lastAction}
	if seg := r.progress.Current(); seg != nil && len(seg.Blocks) > 0 && r.progress.UnitSamples > 0 {
		s.Throughput = r.progress.UnitSamples / seg.Blocks[len(seg.Blocks)-1]
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

// jobEnvironment is what the script gets (contract, section 3).
func (r *run) jobEnvironment(a resources.Allocation, resume bool) []string {
	price := func(v cost.USD) *float64 { f := float64(v); return &f }
	log := r.log.own
	if r.log.named != "" {
		log = r.log.named
	}
	if a.NumWorkers == 0 { // as many loaders as there are CPUs to run them, at most 8
		a.NumWorkers = min(8, a.CPUs)
	}
	e := resources.JobEnvironment{RunID: r.rec.RunID, Allocation: a, Epochs: r.Config.Epochs, Dataset: r.Config.Dataset, Log: log,
		Checkpoint: r.dir.Path("checkpoint"), Resume: resume,
		GPUHour: price(r.rates.GPUHour), CPUHour: price(r.rates.CPUHour), GiBHour: price(r.rates.GiBHour)}
	if r.Config.SeedGiven {
		e.Seed = &r.Config.Seed
	}
	if a.GPUs > 0 {
		pin := true
		e.PinMemory = &pin
	}
	return e.Environ(r.Environ)
}

// append adds a row to a table; a disk that fails is said once, whatever was to be written, and the run goes on.
func (r *run) append(t *monitor.Table, v monitor.Values) {
	if err := t.Append(v); err != nil {
		r.saidOnce(err)
	}
}

func setInterval(v monitor.Values, name string, i *sla.Interval) {
	if i != nil {
		v[name+"_p5"], v[name+"_p50"], v[name+"_p95"] = i.P5, i.P50, i.P95
	}
}

func allocationValues(v monitor.Values, a resources.Allocation) monitor.Values {
	v["gpus"], v["cpus"], v["memory_gib"] = a.GPUs, a.CPUs, a.Memory
	if a.BatchSize > 0 {
		v["batch_size"] = a.BatchSize
	}
	if a.NumWorkers > 0 {
		v["num_workers"] = a.NumWorkers
	}
	return v
}

func (r *run) writeSample() {
	at := r.elapsed()
	v := r.sampler.last.Values()
	v["time_s"], v["gpus"], v["cpus"], v["memory_gib"], v["cost_usd"] = at, r.current.GPUs, r.current.CPUs, r.current.Memory, r.spent()
	delete(v, "gpu_energy_j") // the driver counts from its start; ours counts from the run's
	if r.sampler.haveJ {
		v["gpu_energy_j"] = r.sampler.joules
	}
	if r.projected.seconds != nil {
		v["projected_s"], v["projected_cost_usd"] = r.projected.seconds.P50, r.projected.cost.P50
	}
	r.append(r.tables.Samples, v)
	r.writeVerdicts(at)
}

// writeVerdicts writes each objective when its status changes, and every ten seconds.
func (r *run) writeVerdicts(at time.Duration) {
	for _, v := range r.verdicts {
		last, said := r.saidVerdict[v.Objective]
		if said && last.status == v.Status && at-last.at < 10*time.Second {
			continue
		}
		r.saidVerdict[v.Objective] = saidVerdict{at, v.Status}
		line := monitor.Values{"time_s": at, "objective": v.Objective, "value": v.Value, "limit": v.Limit, "unit": v.Unit, "status": v.Status, "severity": v.Severity}
		setInterval(line, "projected", v.Projected)
		r.append(r.tables.SLA, line)
	}
}

type saidVerdict struct {
	at     time.Duration
	status sla.Status
}

func (r *run) writePerformance(row *monitor.Row, at time.Duration) {
	get := func(c monitor.Column) float64 { v, _ := row.Value(c); return v }
	seg := r.progress.Current()
	line := monitor.Values{"time_s": at, "epoch": get(monitor.Epoch), "step": get(monitor.Step), "epoch_time_s": get(monitor.EpochTime),
		"throughput": get(monitor.Throughput), "train_loss": get(monitor.TrainLoss), "train_accuracy": get(monitor.TrainAccuracy),
		"test_loss": get(monitor.TestLoss), "test_accuracy": get(monitor.TestAccuracy), "gpus": r.current.GPUs, "cpus": r.current.CPUs, "cost_usd": r.spent()}
	if seg != nil {
		line["gpu_util_percent"], line["cpu_util_percent"] = mean(seg.GPUSum, seg.GPUN), mean(seg.CPUSum, seg.CPUN)
	}
	r.append(r.tables.Performance, line)
}

func (r *run) noteAllocation(a resources.Allocation, applied, reason string) {
	r.append(r.tables.Allocation, allocationValues(monitor.Values{"time_s": r.elapsed(), "applied": applied, "reason": reason}, a))
}

func (r *run) writeFront(p plan.Plan) {
	for _, c := range p.Candidates {
		v := allocationValues(monitor.Values{"time_s": r.elapsed(), "resource": c.Resource, "feasible": c.Feasible, "on_front": c.OnFront,
			"chosen": c.Allocation.Same(p.Allocation)}, c.Allocation)
		setInterval(v, "seconds", &c.Seconds)
		setInterval(v, "cost_usd", &c.CostUSD)
		r.append(r.tables.Pareto, v)
	}
}

// state is the decision state of 21 numbers (simulator/training).
func (r *run) state() training.State {
	in := training.StateInput{Allocation: r.current, Limits: r.limits, GPUUtil: r.sampler.last.GPUMean(),
		CPUUtil: r.sampler.last.Tree.CPUPercent / math.Max(1, float64(r.current.CPUs)), MemoryGiB: r.sampler.last.Tree.MemoryGiB,
		Done: r.progress.Done, Total: r.progress.Total, Throughput: r.throughput(), Elapsed: r.elapsed().Seconds(), SpentUSD: r.spent(),
		Spec: r.Config.SLA, Verdicts: r.verdicts, Probing: r.phase == probing}
	if b := r.rec.Baseline; b != nil {
		in.ReferenceSeconds, in.ReferenceUSD, in.ReferenceSamples = b.Seconds.P50, b.CostUSD.P50, b.Throughput.P50
	}
	return training.BuildState(in)
}

// writeDecision writes one line of the decision log.
func (r *run) writeDecision(a journal.Action) {
	at := r.elapsed()
	state, reward, w := r.state(), r.reward(a.To), r.Config.Preference
	scalar := w.Time*reward.Time + w.Cost*reward.Cost + w.Resource*reward.Resource + reward.SLA
	line := monitor.Values{"time_s": at, "state": monitor.FormatState(state[:]), "action": a.Action, "action_description": a.Description,
		"gpus": a.To.GPUs, "cpus": a.To.CPUs, "memory_gib": a.To.Memory, "policy": r.Config.Planner, "critic_reset": 0,
		"reward_time": reward.Time, "reward_cost": reward.Cost, "reward_resource": reward.Resource, "reward_sla": reward.SLA, "reward_scalar": scalar}
	if a.To.BatchSize > 0 {
		line["batch_size"] = a.To.BatchSize
	}
	for _, v := range r.verdicts {
		if v.Status != sla.Unknown {
			line["sla_"+string(v.Objective)+"_met"] = v.Status == sla.Met
		}
	}
	r.append(r.tables.RL, line)
	r.append(r.tables.Reward, monitor.Values{"time_s": at, "reward_time": reward.Time, "reward_cost": reward.Cost, "reward_resource": reward.Resource,
		"reward_sla": reward.SLA, "reward_scalar": scalar, "weight_time": w.Time, "weight_cost": w.Cost, "weight_resource": w.Resource, "policy": r.Config.Planner})
}

// reward is the vector reward of being at an allocation, per unit of work.
func (r *run) reward(a resources.Allocation) training.Reward {
	unit := math.NaN()
	if r.model != nil {
		unit = r.model.UnitSeconds(a).P50
	}
	return training.RewardOf(training.RewardInput{UnitSeconds: unit, USDPerHour: float64(r.rates.Hourly(a)), Allocation: a, Limits: r.limits,
		Verdicts: r.verdicts})
}

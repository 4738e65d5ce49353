package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"trainopt/monitor/trainlog"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/observe"
)

// observerClient is the agent's side of the observer in a Python training: a source of rows and checkpoints, and a
// channel for requests.
type observerClient struct {
	*observed  // of the run's facts
	installed  observe.Installation
	reports    string // parent directory of the report directories, one per launch
	reader     *observe.Reader
	clock      Clock
	rows       int
	epochSteps float64       // steps of an epoch, 0 if unknown
	repeats    bool          // as Progress.Repeats
	sized      bool          // its rows determine a total: they contain epochs or a total number of steps, or the number of steps is hinted
	retracted  bool          // the last row has no total any more
	since      time.Duration // on the monotonic clock: earlier reports were processed by a previous agent
	facts      observe.Facts
	last       observe.Progress // latest report
	counted    countedSteps     // since the last call of observe
	stepped    observe.Facts    // those of the last call of observe
	earlier    earlierTrainings // of this launch
	printed    printedSteps

	reported int // number of saves in facts already processed
	failures int // number of hook failures already reported

	mu      sync.Mutex // guards saving and reader; the watchdog uses the reader too
	saving  request    // request to save and stop
	threads request    // request for a thread trial or a change of threads
	workers request    // request for a change of loader workers
}

// request is a request to the training that has not been answered.
type request struct {
	id int
	at time.Duration // elapsed time
}

var _ observe.LogRows = (*observerClient)(nil)

// relative contains the frameworks that count steps and epochs from the start of the process instead of the training, looped
// those of them whose totals do so too, because they follow from the loops of the script.
var (
	relative = map[string]bool{"torch": true, "keras loop": true, "scikit-learn": true, "xgboost": true, "lightgbm": true}
	looped   = map[string]bool{"torch": true, "keras loop": true, "scikit-learn": true}
)

// openObserver installs the observer. If it cannot be used, the reason is reported as an event.
func (r *run) openObserver() {
	if r.Config.Observe == "off" || r.Config.Described != nil {
		return
	}
	if off := observe.WhyUnobservable(r.Argv, r.Environ); off != "" {
		r.event(Info, "observer off: %s", off)
		return
	}
	in, err := observe.Install(filepath.Join(r.Config.StateDir, "observer"), r.dir.Path("observe"))
	if err != nil {
		r.event(Warning, "%v (the training runs without the observer)", err)
		return
	}
	r.observer = &observerClient{observed: &r.observed, installed: in, reports: in.Reports, clock: r.Clock, repeats: r.Progress.Repeats, sized: r.Progress.Hints["step"].Units > 0}
	r.observer.begin(r.Progress.launches())
}

// begin follows the reports of one launch, in a separate directory: a killed process reports no end, and its last
// reports must not be attributed to the next launch.
func (o *observerClient) begin(launch int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.installed.Reports = reportsOf(o.reports, launch)
	o.reader = observe.NewReader(o.installed.Reports, slices.Collect(maps.Keys(o.Positions))...)
	o.facts, o.reported, o.failures, o.saving, o.threads, o.workers = observe.Facts{}, 0, 0, request{}, request{}, request{}
	o.last, o.counted, o.earlier = observe.Progress{}, countedSteps{}, earlierTrainings{}
	_ = os.MkdirAll(o.installed.Reports, 0o700) // if this fails, the module reports nothing
}

func reportsOf(dir string, launch int) string {
	return filepath.Join(dir, fmt.Sprintf("reports-%d", launch))
}

// followObserver reads what the running job of another agent has reported, so that requests can be made to it.
func (r *run) followObserver() {
	reports := r.dir.Path("observe")
	r.observer = &observerClient{observed: &r.observed, reports: reports, clock: r.Clock, repeats: r.Progress.Repeats,
		reader: observe.NewReader(reportsOf(reports, r.Progress.launches()), slices.Collect(maps.Keys(r.Positions))...)}
	r.observer.pollAll()
}

// pollAll reads all reports and discards the rows.
func (o *observerClient) pollAll() {
	for rows, err := o.Poll(o.clock.Now(), false); err == nil && len(rows) > 0; rows, err = o.Poll(o.clock.Now(), false) {
	}
	o.facts = o.reader.Facts()
}

// Poll implements observe.LogRows. The At of a row is the time at which the training reported it.
func (o *observerClient) Poll(now time.Time, _ bool) ([]trainlog.Row, error) {
	o.mu.Lock()
	reports, err := o.reader.Poll(now)
	facts := o.reader.Facts()
	o.Framework = cmp.Or(facts.Framework, o.Framework)
	o.mu.Unlock()
	mono := o.clock.Monotonic()
	rows := make([]trainlog.Row, 0, len(reports))
	for _, p := range reports {
		fresh := p.At > o.since
		if looped[o.Framework] && o.Origin.Unit != "" { // the total of the first launch remains
			p.Row.Set(trainlog.TotalEpochs, math.NaN())
			p.LoopSteps = math.NaN()
		}
		if fresh {
			o.counted.add(between(&o.last, &p))
		}
		o.earlier.add(&o.last, &p, slices.ContainsFunc(facts.Processes, func(q observe.Process) bool { return q.PID == o.last.PID && q.Ended }), o.repeats)
		o.retracted = o.retracted || fresh && o.last.PID == p.PID && o.last.Training == p.Training && lengthOf(&o.last) > 0 && !(lengthOf(&p) > 0)
		o.last = p
		if !fresh {
			continue
		}
		row := p.Row
		o.earlier.extend(&row)
		if left := float64(p.TrainingsLeft); left > 1 && p.Training == 1 || left > 0 && o.earlier != (earlierTrainings{}) {
			o.earlier.extendTotals(&row, &p, left)
		}
		epoch, epochs := row.Value(trainlog.Epoch)
		_, total := row.Value(trainlog.TotalSteps)
		o.sized = o.sized || epochs || total
		if step, ok := row.Value(trainlog.Step); ok && epoch > 0 {
			o.epochSteps = step / epoch
		}
		row.At = now.Add(min(0, p.At-mono))
		if v, ok := row.Value(columnOf(o.Origin.Unit)); ok && relative[o.Framework] && o.Origin.Unit != "" {
			row.Set(columnOf(o.Origin.Unit), o.Origin.after(v))
		}
		rows = append(rows, row)
	}
	o.rows += len(reports)
	return rows, err
}

// lengthOf returns the total that a report contains, 0 or NaN if it is unknown.
func lengthOf(p *observe.Progress) float64 {
	if epochs, ok := p.Row.Value(trainlog.TotalEpochs); ok {
		return epochs
	}
	return p.LoopSteps
}

// loopSource is the source of a total by the loops of the script around the observed steps.
const loopSource = "the loops around the optimizer step"

// takeLoops takes the total number of steps by the loops of the script where the log and the user state none, and the total
// number of epochs in loops over trainings, such as folds, as that of the job. It drops a total that the observer has retracted, because
// the positions in the loops contradict it, and that of one of several trainings, an unknown number.
func (r *run) takeLoops() {
	p, o := &r.Progress, r.observer
	if o == nil || r.log.Source().Evidence != observe.Observed {
		return
	}
	if o.retracted {
		p.Total, o.retracted = 0, false
		maps.DeleteFunc(p.Hints, func(_ string, h hint) bool { return h.Source == loopSource })
	}
	switch left := o.last.TrainingsLeft; {
	case left < 0 && !p.Repeats:
		p.Repeats, p.Each = true, max(p.Total, p.Each)
		p.forgetLengths()
		p.Total = p.Hints[p.Unit].Units
	case o.last.Loops >= 2 || left > 1 || left == 1 && o.last.Training > 1:
		p.Repeats = r.command != nil && r.command.Several()
	}
	if p.Unit == "epoch" || p.Repeats || o.earlier != (earlierTrainings{}) || !(o.last.LoopSteps >= max(p.Done, 1)) {
		return
	}
	loops := hint{Units: o.last.LoopSteps, Source: loopSource}
	if h := p.Hints["step"]; h.Units > 0 && (p.Total == h.Units || p.Total == 0) && !h.Whole && h.Source != loopSource && countsOtherwise(h.Units, &o.last) {
		p.Hints["step"] = loops
		if p.Total > 0 {
			p.Total = loops.Units
		}
	}
	if p.Unit == "step" && p.Total == 0 {
		p.Suggest("step", loops)
		o.sized = true
	}
}

// countsOtherwise reports whether a total by an option or a constant counts something else than the optimizer steps of
// the loops: iterations of which several make one step, as in gradient accumulation, or that make several steps each, as with the
// critic of a GAN. Loops that end early may be left at that total.
func countsOtherwise(total float64, p *observe.Progress) bool {
	if ratio := p.LoopSteps / total; ratio > 1 {
		whole := math.Round(ratio)
		return whole > 1 && math.Abs(ratio-whole) <= agreement*ratio && !p.EndsEarly
	}
	return p.LoopSteps < (1-agreement)*total
}

// agreement is the relative difference up to which two totals are taken for one: some iterations make no step.
const agreement = 0.01

// skipped reports whether the steps that are left are those of iterations without one, at the end of a training that has
// ended normally: a gradient scaler has skipped some, or the last iteration makes none, as in 3D Gaussian Splatting.
func (r *run) skipped(left float64) bool {
	p := &r.Progress
	return p.Unit == "step" && r.log.Source().Evidence == observe.Observed && p.Total == p.Hints["step"].Units && left <= agreement*p.Total
}

// earlierTrainings is the work of complete trainings that the present one follows, such as the folds of a
// cross-validation or the trials of a search. The number of trainings is unknown, and with it the total.
type earlierTrainings struct{ epochs, steps float64 }

// add adds the work of the training of a, complete or stopped early, if b reports a following one that is not much longer,
// or repeats is true. Otherwise a much longer one has been prepared and determines progress and total alone. Of trainings
// without totals only those of processes follow each other; ended reports whether that of a has. b may count on from a, towards
// the total of all, or may have trained beside it.
func (e *earlierTrainings) add(a, b *observe.Progress, ended, repeats bool) {
	if a.PID == 0 || a.PID == b.PID && (a.Training == b.Training || b.Loops >= 2) || a.PID != b.PID && b.Began < a.At {
		return
	}
	sized, most := false, preparation
	if repeats {
		most = math.Inf(1)
	}
	for _, c := range [...]struct{ done, total trainlog.Column }{{trainlog.Epoch, trainlog.TotalEpochs}, {trainlog.Step, trainlog.TotalSteps}} {
		done, _ := a.Row.Value(c.done)
		total, _ := a.Row.Value(c.total)
		at, _ := b.Row.Value(c.done)
		next, _ := b.Row.Value(c.total)
		if (done >= total || b.Follows && done > 0) && (next <= total || at < done && next <= most*total) { // false if one is unknown
			e.extendBy(a)
			return
		}
		sized = sized || total > 0 || next > 0
	}
	if !sized && ended && a.PID != b.PID {
		e.extendBy(a)
	}
}

// extendBy adds the work of a training. A count that it does not report is unknown from then on.
func (e *earlierTrainings) extendBy(a *observe.Progress) {
	epochs, _ := a.Row.Value(trainlog.Epoch)
	steps, _ := a.Row.Value(trainlog.Step)
	e.epochs, e.steps = e.epochs+epochs, e.steps+steps
}

// extend adds the earlier work to a row and removes its totals.
func (e *earlierTrainings) extend(row *trainlog.Row) {
	if *e == (earlierTrainings{}) {
		return
	}
	epoch, _ := row.Value(trainlog.Epoch)
	step, _ := row.Value(trainlog.Step)
	row.Set(trainlog.Epoch, epoch+e.epochs)
	row.Set(trainlog.Step, step+e.steps)
	row.Set(trainlog.TotalEpochs, math.NaN())
	row.Set(trainlog.TotalSteps, math.NaN())
}

// extendTotals sets the totals of a row to the earlier work and that of left trainings as long as each, the present one.
func (e *earlierTrainings) extendTotals(row *trainlog.Row, each *observe.Progress, left float64) {
	if epochs, ok := each.Row.Value(trainlog.TotalEpochs); ok {
		row.Set(trainlog.TotalEpochs, e.epochs+left*epochs)
	}
	if steps, ok := each.Row.Value(trainlog.TotalSteps); ok {
		row.Set(trainlog.TotalSteps, e.steps+left*steps)
	}
}

// between returns the work that one training counted between two of its reports; zero if they are of different
// trainings, or if only the second one contains the number of samples.
func between(a, b *observe.Progress) countedSteps {
	if a.PID != b.PID || a.Training != b.Training || a.Reached == 0 || math.IsNaN(a.Samples) && !math.IsNaN(b.Samples) {
		return countedSteps{}
	}
	from, _ := a.Row.Value(trainlog.Step)
	to, _ := b.Row.Value(trainlog.Step)
	c := countedSteps{Steps: to - from, Seconds: (b.Reached - a.Reached).Seconds()}
	if !math.IsNaN(b.Samples) {
		c.Samples = b.Samples - a.Samples
	}
	if c.Steps < 0 || c.Samples < 0 || c.Seconds < 0 {
		return countedSteps{}
	}
	return c
}

// Stats implements observe.LogRows. The module stops reporting when its directory is removed.
func (o *observerClient) Stats() trainlog.TailStats {
	_, err := os.Lstat(o.installed.Reports)
	return trainlog.TailStats{Path: o.installed.Reports, Format: "observer", Rows: o.rows, Missing: errors.Is(err, fs.ErrNotExist)}
}

// Sized implements observe.LogRows.
func (o *observerClient) Sized() bool { return o.sized }

// Ended implements observe.LogRows.
func (o *observerClient) Ended() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at := o.reader.Ended(); at > 0 {
		return o.clock.Now().Add(at - o.clock.Monotonic())
	}
	return time.Time{}
}

// Close implements observe.LogRows.
func (o *observerClient) Close() error { return nil }

// observe processes the observer's reports other than rows: failures, checkpoints, capabilities, answers.
func (r *run) observe() {
	o := r.observer
	if o == nil {
		return
	}
	o.mu.Lock()
	o.facts = o.reader.Facts()
	lost := o.reader.Lost()
	o.mu.Unlock()
	if lost > 0 {
		r.eventOnce(Warning, "observer reports", "observer: skipped %d unreadable line%s of its reports", lost, plural(lost))
	}
	for _, f := range o.facts.Failures[min(o.failures, len(o.facts.Failures)):] {
		r.eventOnce(Warning, "observer "+f.Hook, "observer: hook %s is off: %s", f.Hook, f.Reason)
	}
	o.failures = len(o.facts.Failures)
	if n := o.facts.Concurrent; n > 1 {
		r.eventOnce(Warning, "concurrent trainings", "%d processes or threads train at the same time without being ranks of one training: progress and throughput are those of one alone, in process %d", n, o.facts.PID)
	}
	for _, c := range o.facts.Checkpoints[max(0, len(o.facts.Checkpoints)-(o.facts.Saves-o.reported)):] {
		saved := r.savedAt(c)
		c.Path = r.pathOf(c)
		r.checkpoints.finder.Report(c.Path, saved)
		r.checkpoints.lookAt = min(r.checkpoints.lookAt, r.checkpoints.soonest)
		r.checkpoints.took = append(r.checkpoints.took, c.Took.Seconds())
		latest := append(r.checkpoints.latest, c.Path)
		r.checkpoints.latest = latest[max(0, len(latest)-keptReports):]
		if c.Weights {
			if o.Weights == nil {
				o.Weights = map[string]bool{}
			}
			o.Weights[c.Path] = true
		} else {
			delete(o.Weights, c.Path)
		}
		if position := o.position(r.Progress.Unit, c); !math.IsNaN(position) {
			if o.Positions == nil {
				o.Positions = map[string]float64{}
			}
			if o.SavedAt == nil {
				o.SavedAt = map[string]time.Time{}
			}
			o.Positions[c.Path], o.SavedAt[c.Path] = position, saved
		}
	}
	o.reported = o.facts.Saves
	if r.savesOnRequest() && !r.Resumable && r.Config.Resume == resumableAuto && r.canResume() {
		r.Resumable = true
		r.rec.Script.Resumable = &r.Resumable
		r.event(Info, "the training saves on request (%s) and resumes by %s", o.facts.Framework, r.resumptionWords())
	}
	if seg := r.Progress.Current(); seg != nil {
		seg.Counted.add(o.counted)
		o.counted = countedSteps{}
		seg.Used.step(&o.stepped, &o.facts)
	}
	if n := o.samples(r.Progress.Unit); n > 0 && o.last.PID > 0 { // otherwise no observed process trains
		r.Progress.UnitSamples = n
	} else if done := o.epochsSinceLaunch(&r.Progress); done > 0 && o.earlier == (earlierTrainings{}) { // progress is counted by another source
		if o.facts.Samples > 0 {
			r.Progress.UnitSamples = o.facts.Samples / done
		}
		if o.facts.Step > 0 {
			r.Progress.UnitSteps = o.facts.Step / done
		}
	}
	r.takeAnswers()
	r.noteInput()
}

// savedAt returns the end of a save as the time of the file shows it, whatever clock its writer has.
func (r *run) savedAt(c observe.Checkpoint) time.Time {
	if o := r.observer; c.At > o.since {
		return r.Clock.Now().Add(c.At - o.clock.Monotonic() + r.checkpoints.fileClock)
	}
	return c.Wall
}

// pathOf returns the present path of a reported checkpoint.
func (r *run) pathOf(c observe.Checkpoint) string {
	return filepath.Clean(observe.FinalCheckpoint(absolute(r.Config.Dir, c.Path), r.savedAt(c), c.Took, r.savedUnderName))
}

// savedUnderName returns the end of the last observed save to a path; zero without one.
func (r *run) savedUnderName(path string) time.Time {
	for _, c := range slices.Backward(r.observer.facts.Checkpoints) {
		if filepath.Clean(absolute(r.Config.Dir, c.Path)) == path {
			return r.savedAt(c)
		}
	}
	return time.Time{}
}

// epochsSinceLaunch returns the epochs done by the running process; 0 if unknown or counted in steps.
func (o *observerClient) epochsSinceLaunch(p *Progress) float64 {
	switch {
	case p.Unit != "epoch" || p.anyPosition:
		return 0
	case o.Origin.Unit == "epoch":
		return p.Done - o.Origin.Position
	}
	return p.Done
}

// savesOnRequest reports whether the training can resume from a checkpoint that its framework writes on request: a
// script that loads its own snapshot ignores it, unless the framework stores both in one place, or the script itself writes
// the requested one.
func (r *run) savesOnRequest() bool {
	o := r.observer
	return o != nil && o.facts.CanSave && o.facts.CanStop && (r.resumption.How != inspect.ResumeItself || slices.Contains([]string{"transformers", "ultralytics", "optimize_hook"}, o.Framework))
}

// samples returns the number of samples in a unit of work over all ranks; 0 if unknown.
func (o *observerClient) samples(unit string) float64 {
	n := o.facts.SamplesPerStep
	if unit == "epoch" {
		if n *= o.epochSteps; o.facts.EpochSamples > 0 {
			n = o.facts.EpochSamples
		}
	}
	if unit == "" || math.IsNaN(n) {
		return 0
	}
	return n
}

// send makes a request to the training, which is pending in q until its answer is taken. at is the elapsed time.
func (o *observerClient) send(q *request, what observe.Request, at time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, err := o.reader.Request(what)
	if err == nil {
		*q = request{id, at}
	}
	return err
}

// takeAnswer returns the answer to a pending request, which is no longer pending then; ok is false without an answer.
func (o *observerClient) takeAnswer(q *request) (a observe.Answer, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q.id == 0 {
		return a, false
	}
	if a, ok = o.reader.Answer(q.id); ok {
		*q = request{}
	}
	return a, ok
}

// after returns the position after an amount of work in the process that continued from it. A checkpoint within an epoch is continued
// with the rest of its batches or with all of them: the first pass ends with that epoch.
func (o origin) after(done float64) float64 {
	begun := math.Floor(o.Position)
	if part := o.Position - begun; o.Unit == "epoch" && part > 0 {
		return begun + max(done, part+done*(1-part))
	}
	return o.Position + done
}

// position returns the progress in a checkpoint, in a unit of work.
func (o *observerClient) position(unit string, c observe.Checkpoint) float64 {
	position := c.Step + o.earlier.steps
	if unit == "epoch" {
		position = c.Epoch + o.earlier.epochs
	}
	if relative[o.Framework] && o.Origin.Unit == unit {
		position = o.Origin.after(position)
	}
	return position
}

// takeAnswers processes the answers to requests.
func (r *run) takeAnswers() {
	if a, ok := r.observer.takeAnswer(&r.observer.saving); ok {
		if a.OK && r.resumption.How == inspect.ResumeItself && strings.HasPrefix(absolute(r.Config.Dir, a.Path), r.dir.Path("observe")) {
			r.event(Warning, "the training saved %s on request, but loads its own snapshot when it starts: its function should save that, and return its path", a.Path)
		} else if l := r.Pending; l != nil && a.OK {
			l.Saved, r.Asked = a.Path, absolute(r.Config.Dir, a.Path)
			r.checkpoints.took = append(r.checkpoints.took, a.Took.Seconds())
			r.event(Info, "checkpoint saved: %s", a.Path)
		} else if !a.OK && r.Progress.Finished() {
			r.event(Info, "the training has done all its work: waiting for its end")
		} else if !a.OK {
			r.event(Warning, "the training could not save on request: %s", a.Reason)
			r.terminate() // it does not stop either
		}
	}
	r.takeTrial()
	r.takeWorkers()
}

// noteInput reports once that a training waits for its data and would be faster with more loader workers.
func (r *run) noteInput() {
	f, seg := &r.observer.facts, r.Progress.Current()
	if !(f.DataWait >= inputBound) || f.Workers < 0 || seg == nil || !seg.settled() {
		return
	}
	enough, need := workersNeeded(f.Workers, r.Current.CPUs, f.DataWait)
	if need <= f.Workers {
		return
	}
	few, advice := "", fmt.Sprintf(" (--num-workers 0:%d lets optimize try them)", need)
	if need < enough {
		few = fmt.Sprintf(", of which this machine can run %d", need)
	}
	if allowed := r.workerRange(); allowed.Max >= need {
		advice = ""
	}
	if f.Stream {
		advice = " if the dataset divides its data between workers"
	}
	r.eventOnce(Warning, "input-bound", "input-bound: %.0f %% of each step waits for the loader, which has %d workers; about %d would keep up%s%s",
		100*f.DataWait, f.Workers, enough, few, advice)
}

// inputBound is the share of a step spent waiting for data at and above which a training counts as input-bound.
const inputBound = 0.3

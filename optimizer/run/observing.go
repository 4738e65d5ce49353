package run

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"trainopt/monitor/trainlog"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/joblog"
	"trainopt/optimizer/observe"
)

// observing is the agent's side of the observer in a Python training: a source of rows and checkpoints, and a channel
// for requests.
type observing struct {
	installed  observe.Installation
	reports    string // parent directory of the report directories, one per launch
	reader     *observe.Reader
	clock      Clock
	framework  string // of the latest training; kept across launches
	rows       int
	epochSteps float64       // steps of an epoch, 0 if unknown
	sized      bool          // its rows determine a total: they contain epochs or a total number of steps, or the number of steps is hinted
	since      time.Duration // on the monotonic clock: earlier reports were processed by a previous agent
	facts      observe.Facts
	last       observe.Progress // latest report
	counted    Counted          // since the last call of observe

	positions map[string]float64 // progress in units of work, by path of the reported checkpoint
	reported  int                // number of checkpoints in facts already processed
	base      base               // position from which the running process continued
	failures  int                // number of hook failures already reported

	mu      sync.Mutex // guards saving and reader; the watchdog uses the reader too
	saving  request    // request to save and stop
	threads request    // request for a thread trial or a change of threads
	workers request    // request for a change of loader workers
}

// base is the progress in the checkpoint from which a process was resumed.
type base struct {
	Unit     string  `json:"unit"` // empty: not resumed, or from an unknown position
	Position float64 `json:"position"`
}

// request is a request to the training that has not been answered.
type request struct {
	id int
	at time.Duration // elapsed time
}

var _ joblog.Rows = (*observing)(nil)

// relative contains the frameworks that count steps and epochs from the start of the process instead of the training.
var relative = map[string]bool{"torch": true, "accelerate": true, "sklearn": true, "xgboost": true, "lightgbm": true}

// openObserver installs the observer. If it cannot be used, the reason is reported as an event.
func (r *run) openObserver() {
	if r.Config.Observe == "off" || r.Config.Described != nil {
		return
	}
	if off := observe.Off(r.argv, r.Environ); off != "" {
		r.event(Info, "observer off: %s", off)
		return
	}
	in, err := observe.Install(filepath.Join(r.Config.StateDir, "observer"), r.dir.Path("observe"))
	if err != nil {
		r.event(Warning, "%v (the training runs without the observer)", err)
		return
	}
	r.observer = &observing{installed: in, reports: in.Reports, clock: r.Clock, positions: map[string]float64{}, sized: r.progress.Hints["step"].Units > 0}
	r.observer.begin(r.launches())
}

// begin follows the reports of one launch, in a separate directory: a killed process reports no end, and its last
// reports must not be attributed to the next launch.
func (o *observing) begin(launch int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.installed.Reports = filepath.Join(o.reports, fmt.Sprintf("reports-%d", launch))
	o.reader = observe.NewReader(o.installed.Reports)
	o.facts, o.reported, o.failures, o.saving, o.threads, o.workers, o.base = observe.Facts{}, 0, 0, request{}, request{}, request{}, base{}
	o.last, o.counted = observe.Progress{}, Counted{}
	_ = os.MkdirAll(o.installed.Reports, 0o700) // if this fails, the module reports nothing
}

// Poll implements joblog.Rows. The At of a row is the time at which the training reported it.
func (o *observing) Poll(now time.Time, _ bool) ([]trainlog.Row, error) {
	o.mu.Lock()
	reports, err := o.reader.Poll(now)
	if f := o.reader.Facts().Framework; f != "" {
		o.framework = f
	}
	o.mu.Unlock()
	mono := o.clock.Monotonic()
	rows := make([]trainlog.Row, 0, len(reports))
	for _, p := range reports {
		fresh := p.At > o.since
		if fresh {
			o.counted.add(between(&o.last, &p))
		}
		o.last = p
		if !fresh {
			continue
		}
		row := p.Row
		_, epochs := row.Value(trainlog.Epoch)
		_, total := row.Value(trainlog.TotalSteps)
		o.sized = o.sized || epochs || total
		if e, _ := row.Value(trainlog.Epoch); e > 0 {
			if step, ok := row.Value(trainlog.Step); ok {
				o.epochSteps = step / e
			}
		}
		row.At = now.Add(min(0, p.At-mono))
		if column := o.base.column(); relative[o.framework] && o.base.Unit != "" {
			if v, ok := row.Value(column); ok {
				row.Set(column, v+o.base.Position)
			}
		}
		rows = append(rows, row)
	}
	o.rows += len(reports)
	return rows, err
}

// between returns the work that one training counted between two of its reports; zero if they are of different
// trainings, or if only the second one contains the number of samples.
func between(a, b *observe.Progress) Counted {
	if a.PID != b.PID || a.Training != b.Training || a.Reached == 0 || math.IsNaN(a.Samples) && !math.IsNaN(b.Samples) {
		return Counted{}
	}
	from, _ := a.Row.Value(trainlog.Step)
	to, _ := b.Row.Value(trainlog.Step)
	c := Counted{Steps: to - from, Seconds: (b.Reached - a.Reached).Seconds()}
	if !math.IsNaN(b.Samples) {
		c.Samples = b.Samples - a.Samples
	}
	if c.Steps < 0 || c.Samples < 0 || c.Seconds < 0 {
		return Counted{}
	}
	return c
}

// Stats implements joblog.Rows.
func (o *observing) Stats() trainlog.TailStats {
	return trainlog.TailStats{Path: o.installed.Reports, Format: "observer", Rows: o.rows}
}

// Sized implements joblog.Rows.
func (o *observing) Sized() bool { return o.sized }

// Close implements joblog.Rows.
func (o *observing) Close() error { return nil }

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
		r.once(Warning, "observer reports", "observer: skipped %d unreadable line%s of its reports", lost, plural(lost))
	}
	for _, f := range o.facts.Failures[min(o.failures, len(o.facts.Failures)):] {
		r.once(Warning, "observer "+f.Hook, "observer: hook %s is off: %s", f.Hook, f.Reason)
	}
	o.failures = len(o.facts.Failures)
	for _, c := range o.facts.Checkpoints[min(o.reported, len(o.facts.Checkpoints)):] {
		c.Path = renamed(absolute(r.Config.Dir, c.Path))
		r.saves.finder.Report(c.Path, c.Wall)
		r.saves.lookAt = 0
		r.saves.took = append(r.saves.took, c.Took.Seconds())
		if position := o.position(r.progress.Unit, c); !math.IsNaN(position) {
			o.positions[filepath.Clean(c.Path)] = position
		}
	}
	o.reported = len(o.facts.Checkpoints)
	if r.savesOnRequest() && !r.resumable && r.Config.Resume == ResumableAuto && r.canResume() {
		r.resumable = true
		r.rec.Script.Resumable = &r.resumable
		r.event(Info, "the training saves on request (%s) and resumes by %s", o.facts.Framework, r.resumptionWords())
	}
	if seg := r.progress.Current(); seg != nil {
		seg.Counted.add(o.counted)
		o.counted = Counted{}
	}
	if n := o.samples(r.progress.Unit); n > 0 {
		r.progress.UnitSamples = n
	} else if done := o.epochsSinceLaunch(&r.progress); done > 0 { // progress is counted by another source
		if o.facts.Samples > 0 {
			r.progress.UnitSamples = o.facts.Samples / done
		}
		if o.facts.Step > 0 {
			r.progress.UnitSteps = o.facts.Step / done
		}
	}
	r.takeAnswers()
	r.noteInput()
}

// epochsSinceLaunch returns the epochs done by the running process; 0 if unknown or counted in steps.
func (o *observing) epochsSinceLaunch(p *Progress) float64 {
	switch {
	case p.Unit != "epoch" || p.anyPosition:
		return 0
	case o.base.Unit == "epoch":
		return p.Done - o.base.Position
	}
	return p.Done
}

// renamed returns the final path of a checkpoint that was written under a temporary name and then renamed.
func renamed(path string) string {
	if _, err := os.Lstat(path); err == nil {
		return path
	}
	for _, suffix := range []string{".tmp", ".temp", ".part", ".partial", ".new", "~"} {
		if final, ok := strings.CutSuffix(path, suffix); ok {
			return final
		}
	}
	return path
}

// savesOnRequest reports whether the training can resume from a checkpoint that its framework writes on request: a
// script that loads its own snapshot ignores it, unless the framework stores both in one place.
func (r *run) savesOnRequest() bool {
	o := r.observer
	return o != nil && o.facts.CanSave && o.facts.CanStop && (r.resumption.How != inspect.ResumeItself || o.framework == "transformers" || o.framework == "ultralytics")
}

// samples returns the number of samples in a unit of work over all ranks; 0 if unknown.
func (o *observing) samples(unit string) float64 {
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

// askToSave asks the training to save and stop; false if it cannot.
func (o *observing) askToSave() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, err := o.reader.Request(observe.Request{Op: observe.SaveAndStop})
	if err == nil {
		o.saving = request{id: id}
	}
	return err == nil
}

func (o *observing) ask(q observe.Request) (id int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reader.Request(q)
}

func (o *observing) answer(id int) (a observe.Answer, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reader.Answer(id)
}

// position returns the progress in a checkpoint, in a unit of work.
func (o *observing) position(unit string, c observe.Checkpoint) float64 {
	position := c.Step
	if unit == "epoch" {
		position = c.Epoch
	}
	if relative[o.framework] && o.base.Unit == unit {
		position += o.base.Position
	}
	return position
}

// column returns the log column of the base's unit.
func (b base) column() trainlog.Column {
	if b.Unit == "epoch" {
		return trainlog.Epoch
	}
	return trainlog.Step
}

// observedPosition returns the progress that the observer reported with a checkpoint.
func (r *run) observedPosition(path string) (float64, bool) {
	if r.observer == nil {
		return 0, false
	}
	v, ok := r.observer.positions[filepath.Clean(path)]
	return v, ok
}

// takeAnswers processes the answers to requests.
func (r *run) takeAnswers() {
	o := r.observer
	o.mu.Lock()
	a, ok := o.reader.Answer(o.saving.id)
	if ok = ok && o.saving.id != 0; ok {
		o.saving = request{}
	}
	o.mu.Unlock()
	if ok {
		if l := r.leaving; l != nil && a.OK {
			l.Saved, r.saves.asked = a.Path, absolute(r.Config.Dir, a.Path)
			r.saves.took = append(r.saves.took, a.Took.Seconds())
			r.event(Info, "checkpoint saved: %s", a.Path)
		} else if !a.OK {
			r.event(Warning, "the training could not save on request: %s", a.Reason)
		}
	}
	r.takeTrial()
	r.takeWorkers()
}

// noteInput reports once that a training waits for its data and would be faster with more loader workers.
func (r *run) noteInput() {
	f, seg := &r.observer.facts, r.progress.Current()
	if !(f.DataWait >= inputBound) || f.Workers < 0 || seg == nil || !seg.settled() {
		return
	}
	enough, need := r.workersNeeded(f.DataWait)
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
	r.once(Warning, "input-bound", "input-bound: %.0f %% of each step waits for the loader, which has %d workers; about %d would keep up%s%s",
		100*f.DataWait, f.Workers, enough, few, advice)
}

// inputBound is the share of a step spent waiting for data at and above which a training counts as input-bound.
const inputBound = 0.3

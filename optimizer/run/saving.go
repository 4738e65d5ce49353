package run

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"trainopt/optimizer/checkpoint"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/resources"
)

// saves tracks the checkpoints that the training writes.
type saves struct {
	finder *checkpoint.Finder
	files  []checkpoint.File // at the last scan, newest complete one last
	newest string            // path and time of the newest complete one
	times  []time.Duration   // elapsed time at which each appeared, newest last; at most keptSaveTimes
	done   float64           // progress at the newest, in units of work; NaN if unknown
	took   []float64         // measured seconds per save

	fresh   bool          // the newest one appeared in this tick
	asked   string        // the checkpoint that the last job wrote on request before its exit; empty if none
	resumed bool          // the running process was started from a checkpoint of the script
	lookAt  time.Duration // elapsed time of the next scan
}

// Parameters of the scan for checkpoints.
const (
	saveLookEvery = 2 * time.Second
	keptSaveTimes = 8
	settledSave   = 10 * time.Second // longer than the time for which a complete checkpoint must be unchanged
)

// openSaves creates the finder of checkpoints below the working directory, the script's directory, and the run's own
// checkpoint directory.
func (r *run) openSaves() {
	roots := []string{r.Config.Dir, r.dir.Path("checkpoint")}
	if r.Config.Train != "" {
		if d := filepath.Dir(absolute(r.Config.Dir, r.Config.Train)); d != r.Config.Dir {
			roots = append(roots, d)
		}
	}
	if k, ok := r.mapping.Knob(inspect.KnobCheckpointDir); ok && k.Present != "" {
		roots = append(roots, absolute(r.Config.Dir, k.Present))
	}
	r.saves = saves{finder: checkpoint.NewFinder(checkpoint.Options{Roots: roots, Ignore: []string{r.Config.StateDir}}), done: math.NaN()}
}

// lookForSaves scans for new checkpoints, every few seconds or immediately if forced.
func (r *run) lookForSaves(force bool) {
	s, now := &r.saves, r.elapsed()
	if now < s.lookAt && !force {
		return
	}
	began := r.Clock.Monotonic()
	look := r.Clock.Now()
	if r.job == nil { // nothing is being written any more
		look = look.Add(settledSave)
	}
	s.files = slices.DeleteFunc(s.finder.Find(look), func(f checkpoint.File) bool { return f.Time.Before(r.rec.StartedAt) })
	s.lookAt = now + saveLookEvery + 50*(r.Clock.Monotonic()-began)
	newest, ok := checkpoint.Latest(s.files)
	if !ok {
		return
	}
	if id := newest.Path + newest.Time.String(); id != s.newest {
		s.newest, s.done, s.fresh = id, r.positionOf(newest), true
		s.times = append(s.times, now-r.Clock.Now().Sub(newest.Time))
		s.times = s.times[max(0, len(s.times)-keptSaveTimes):]
	}
	r.noteCheckpoint()
}

// positionOf returns the progress in a checkpoint, in units of work; NaN if neither its name nor the observer
// determines it.
func (r *run) positionOf(f checkpoint.File) float64 {
	if position, ok := r.observedPosition(f.Path); ok {
		return position
	}
	switch {
	case r.progress.Unit == "epoch" && !math.IsNaN(f.Epoch):
		return f.Epoch
	case r.progress.Unit == "step" && !math.IsNaN(f.Step):
		return f.Step
	}
	return math.NaN()
}

// saveInterval returns the median time between the script's checkpoints; 0 if fewer than two were seen.
func (s *saves) saveInterval() time.Duration {
	if len(s.times) < 2 {
		return 0
	}
	gaps := make([]float64, 0, len(s.times)-1)
	for i := 1; i < len(s.times); i++ {
		gaps = append(gaps, (s.times[i] - s.times[i-1]).Seconds())
	}
	return time.Duration(median(gaps) * float64(time.Second))
}

// nextSave returns the elapsed time at which the next checkpoint is expected; ok is false without an estimate.
func (s *saves) nextSave() (at time.Duration, ok bool) {
	every := s.saveInterval()
	if every <= 0 {
		return 0, false
	}
	return s.times[len(s.times)-1] + every, true
}

// atRisk returns the run time whose work is lost if the job is stopped now: since the newest checkpoint or the
// launch. Without a known checkpoint it is negative while no job runs, and for a job that saves on request.
func (r *run) atRisk() time.Duration {
	switch n := len(r.saves.times); {
	case n > 0:
		return r.elapsed() - max(r.saves.times[n-1], r.launchedAt())
	case r.resumable || r.job == nil:
		return -1
	}
	return r.elapsed() - r.launchedAt()
}

// noteCheckpoint records the newest checkpoint and the work at risk.
func (r *run) noteCheckpoint() {
	n := len(r.saves.times)
	if n == 0 {
		return
	}
	newest, _ := checkpoint.Latest(r.saves.files)
	resumable := r.resumable || r.canResume()
	r.rec.Script.Resumable = &resumable
	r.rec.Checkpoint = &journal.Checkpoint{Path: newest.Path, AtS: journal.Number(r.saves.times[n-1].Seconds()), Units: journal.Number(r.saves.done),
		RiskSeconds: journal.Number(r.atRisk().Seconds()), RiskUnits: journal.Number(math.Max(0, r.progress.Done-r.saves.done))}
}

// launchedAt returns the elapsed time at which the current process was started.
func (r *run) launchedAt() time.Duration {
	for i := len(r.progress.Segments) - 1; i >= 0; i-- {
		if s := r.progress.Segments[i]; s.Launch {
			return s.LaunchedAt
		}
	}
	return 0
}

// resumeFrom returns the checkpoint from which the job can continue now. For a job that locates its own checkpoint, ok
// may be true with a zero f.
func (r *run) resumeFrom() (f checkpoint.File, ok bool) {
	switch r.resumption.How {
	case inspect.ResumeProtocol:
		return checkpoint.File{}, r.resumable
	case inspect.ResumeNone:
		return checkpoint.File{}, r.resumable
	}
	r.lookForSaves(true)
	reports := slices.ContainsFunc(r.saves.files, func(f checkpoint.File) bool { return f.Reported })
	usable := slices.DeleteFunc(slices.Clone(r.saves.files), func(f checkpoint.File) bool {
		torn := reports && !f.Reported // the observer reports a save when it is complete
		directory := f.Kind == checkpoint.HuggingFace
		return torn || r.resumption.How == inspect.ResumeArgument && r.resumption.Wants != inspect.WantsNothing && directory != (r.resumption.Wants == inspect.WantsDirectory)
	})
	for _, f := range usable {
		if f.Path == r.saves.asked && f.Complete { // written on request by the previous launch before its exit
			return f, true
		}
	}
	if f, ok := checkpoint.Latest(usable, r.resumption.Names...); ok {
		return f, true
	}
	return checkpoint.File{}, r.resumption.How == inspect.ResumeItself && r.resumable
}

// keepsWork reports whether the work of the job survives a stop at a limit: it saves on request, or writes
// checkpoints from which it can continue.
func (r *run) keepsWork() bool {
	return r.resumable || r.canResume() && len(r.saves.times) > 0
}

// canResume reports whether the job can continue from a checkpoint of its own, if it has one.
func (r *run) canResume() bool {
	return r.Config.Resume != ResumableNo && (r.resumption.How == inspect.ResumeArgument || r.resumption.How == inspect.ResumeItself)
}

// arguments returns the command line of a launch: the user's, with the values of decided knobs in the script's own
// arguments.
func (r *run) arguments(a resources.Allocation, from *checkpoint.File) ([]string, error) {
	values := map[string]string{}
	set := func(name, value string, wanted bool) {
		if k, ok := r.mapping.Knob(name); wanted && ok && k.TakesValue() && k.Present != value {
			values[name] = value
		}
	}
	set(inspect.KnobBatchSize, strconv.Itoa(a.BatchSize), a.BatchSize > 0)
	set(inspect.KnobWorkers, strconv.Itoa(a.NumWorkers), r.Config.NumWorkers != "" && a.NumWorkers > 0)
	set(inspect.KnobEpochs, strconv.Itoa(r.Config.Epochs), r.Config.Epochs > 0)
	set(inspect.KnobSteps, strconv.Itoa(r.Config.Steps), r.Config.Steps > 0)
	set(inspect.KnobSeed, strconv.FormatInt(r.Config.Seed, 10), r.Config.SeedGiven)
	if from != nil && r.resumption.How == inspect.ResumeArgument {
		if k, _ := r.mapping.Knob(inspect.KnobResume); k.TakesValue() && from.Path == "" {
			return nil, fmt.Errorf("resume with %s: no checkpoint was found below %s", k.Template, r.Config.Dir)
		}
		values[inspect.KnobResume] = from.Path
	}
	return r.mapping.Apply(r.argv, values)
}

// commandLine returns the command line of a launch and the checkpoint from which it continues: nil for a first launch,
// or if the job follows the checkpoint protocol and keeps the checkpoint itself.
func (r *run) commandLine(a resources.Allocation, resume bool) ([]string, *checkpoint.File, error) {
	if !resume || r.resumption.How == inspect.ResumeProtocol || r.resumption.How == inspect.ResumeNone {
		argv, err := r.arguments(a, nil)
		return argv, nil, err
	}
	f, ok := r.resumeFrom()
	if !ok {
		return nil, nil, fmt.Errorf("resume the training: no complete checkpoint of this run was found below %s", r.Config.Dir)
	}
	argv, err := r.arguments(a, &f)
	return argv, &f, err
}

// continueFrom sets the progress to that of a checkpoint.
func (r *run) continueFrom(f *checkpoint.File) {
	if f == nil {
		return
	}
	position := r.positionOf(*f)
	if r.resumption.How == inspect.ResumeItself && (r.observer == nil || !relative[r.observer.framework]) {
		position = math.NaN() // the script decides which snapshot it loads
	}
	r.saves.resumed = true
	r.progress.ResumeFrom(position)
	if r.observer != nil && !math.IsNaN(position) {
		r.observer.base = base{r.progress.Unit, position}
	}
	if f.Path != "" {
		r.event(Info, "resuming from %s", f.Path)
	}
}

// stopAfterSave stops a job immediately after one of its own checkpoints if it cannot finish before the limit and its
// next checkpoint would come too late, so that no further work is lost. It does not apply to a job that saves on
// request.
func (r *run) stopAfterSave() {
	fresh := r.saves.fresh
	r.saves.fresh = false
	why, left := r.nearestLimit()
	next, known := r.saves.nextSave()
	if !fresh || !known || r.resumable || !r.canResume() || !r.trusted() || r.leaving != nil || r.projected.seconds == nil || left == math.MaxInt64 {
		return
	}
	limit := r.elapsed() + left - r.reserve()
	if next < limit || time.Duration(r.projected.seconds.P5*float64(time.Second)) < limit {
		return
	}
	words := fmt.Sprintf("the job cannot finish before the %s, and its next checkpoint is due after it: stopping at the present one", why)
	r.event(Problem, "%s", words)
	r.leave(&leaving{Why: why, Words: words})
}

// stopRewound stops a job that started from scratch although it was resumed from a checkpoint of its own, before it
// overwrites that checkpoint.
func (r *run) stopRewound() {
	if !r.progress.Rewound || !r.saves.resumed || r.leaving != nil {
		return
	}
	words := fmt.Sprintf("the job began again at %s %.4g instead of continuing from its checkpoint", r.progress.Unit, r.progress.Done)
	r.event(Problem, "%s: stopping it before it overwrites what it has", words)
	r.resumable = false
	r.leaving = &leaving{Why: "rewound", Words: words, AskedAt: r.elapsed(), Terminated: true}
	r.publish()
	r.watchdog.stop(r.Config.Grace)
}

// resumptionWords describes how the job resumes.
func (r *run) resumptionWords() string {
	switch r.resumption.How {
	case inspect.ResumeArgument:
		k, _ := r.mapping.Knob(inspect.KnobResume)
		return k.Template
	case inspect.ResumeItself:
		return "loading its own snapshot"
	}
	return "the checkpoint protocol"
}

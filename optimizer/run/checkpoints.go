package run

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/observe"
)

// checkpointTracker tracks the checkpoints that the training writes.
type checkpointTracker struct {
	finder *observe.CheckpointFinder
	files  []observe.CheckpointFile // at the last scan, newest complete one last
	newest string                   // path and time of the newest complete one
	times  []time.Duration          // elapsed time at which each appeared, newest last; at most keptSaveTimes
	done   float64                  // progress at the newest, in units of work; NaN if unknown
	took   []float64                // measured seconds per save
	latest []string                 // paths of the latest reported saves, over all launches; at most keptReports

	// fileClock is by how much the clock of the file system is ahead of that of this machine.
	fileClock time.Duration

	foreign string // path of the newest one if it was written while the run had ended
	others  map[string]claim
	fresh   bool          // the newest one appeared in this tick
	resumed bool          // the running process was started from a checkpoint of the script
	newer   bool          // that one may contain more than the reported progress
	lookAt  time.Duration // elapsed time of the next scan
	soonest time.Duration // elapsed time before which not even a report leads to a scan, so that scans take at most 2 % of the time
}

// fileClock returns by how much the clock of the file system of a directory is ahead of ours; 0 if that is unknown or not more
// than the delay of a network.
func fileClock(dir string, c Clock) time.Duration {
	f, err := os.CreateTemp(dir, "clock-")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	if d := info.ModTime().Sub(c.Now()); d.Abs() > 2*time.Second {
		return d
	}
	return 0
}

// Parameters of the scan for checkpoints.
const (
	saveLookEvery = 2 * time.Second
	keptSaveTimes = 8
	keptReports   = 1000
	settledSave   = 10 * time.Second // longer than the time for which a complete checkpoint must be unchanged
)

// openCheckpoints creates the finder of checkpoints below the working directory, the script's directory, and the run's
// own checkpoint directory.
func (r *run) openCheckpoints() {
	roots := []string{r.Config.Dir, r.dir.Path("checkpoint")}
	if r.Config.Train != "" {
		if d := filepath.Dir(absolute(r.Config.Dir, r.Config.Train)); d != r.Config.Dir {
			roots = append(roots, d)
		}
	}
	if k, ok := r.mapping.Knob(inspect.KnobCheckpointDir); ok && k.Present != "" {
		roots = append(roots, absolute(r.Config.Dir, k.Present))
	}
	r.checkpoints = checkpointTracker{finder: observe.NewCheckpointFinder(observe.CheckpointOptions{Roots: roots, Ignore: []string{r.Config.StateDir}, Names: r.resumption.Snapshots}), done: math.NaN()}
	if r.Config.elsewhere() { // on a file system that machines share
		r.checkpoints.fileClock = fileClock(r.dir.Dir(), r.Clock)
	}
	// What an earlier agent took for a checkpoint is one: a file such as model.pt is recognised by a report or by its
	// changes, of which this agent has seen neither.
	for path := range r.Positions {
		r.checkpoints.finder.Known(path)
	}
	if c := r.rec.Checkpoint; c != nil && c.Path != "" {
		r.checkpoints.finder.Known(absolute(r.Config.Dir, c.Path))
	}
}

// scanCheckpoints scans for new checkpoints, every few seconds or immediately if forced.
func (r *run) scanCheckpoints(force bool) {
	s, now := &r.checkpoints, r.elapsed()
	if now < s.lookAt && !force {
		return
	}
	began := r.Clock.Monotonic()
	look := r.Clock.Now()
	if r.job == nil { // nothing is being written any more
		look = look.Add(settledSave)
		s.finder.Confirm(r.rec.StartedAt.Add(s.fileClock))
	}
	s.files = s.finder.Find(look.Add(s.fileClock))
	r.forgetRemoved(s.files)
	for i := range s.files {
		s.files[i].Time = s.files[i].Time.Add(-s.fileClock)
	}
	s.files = slices.DeleteFunc(s.files, func(f observe.CheckpointFile) bool { return f.Time.Before(r.rec.StartedAt) })
	s.files = r.saved(r.own(r.unclaimed(s.files)))
	s.soonest = now + 50*(r.Clock.Monotonic()-began)
	s.lookAt = s.soonest + saveLookEvery
	newest, ok := observe.LatestCheckpoint(s.files)
	if !ok {
		return
	}
	if id := newest.Path + newest.Time.String(); id != s.newest {
		s.newest, s.fresh = id, true
		s.times = append(s.times, r.elapsedAt(newest.Time))
		s.times = s.times[max(0, len(s.times)-keptSaveTimes):]
	}
	s.done = r.positionOf(newest) // its report may follow, and the unit of work may change
	r.noteCheckpoint()
}

// forgetRemoved drops what was reported about removed checkpoints before the latest keptReports saves: a training may save under a
// new name each time, and every stored state contains the reports. found are the checkpoints that the finder found; those of any other
// existing path are kept, too. Without a job nothing is dropped: a file system may not be mounted.
func (r *run) forgetRemoved(found []observe.CheckpointFile) {
	latest, most := r.checkpoints.latest, len(found)+keptReports
	if r.job == nil || len(latest) < keptReports || len(r.Positions) <= most && len(r.Weights) <= most {
		return
	}
	kept := map[string]bool{}
	for _, f := range found {
		kept[f.Path] = true
	}
	for _, path := range latest {
		kept[path] = true
	}
	removed := func(path string) bool {
		if kept[path] {
			return false
		}
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	maps.DeleteFunc(r.Positions, func(path string, _ float64) bool { return removed(path) })
	maps.DeleteFunc(r.Weights, func(path string, _ bool) bool { return removed(path) })
	maps.DeleteFunc(r.SavedAt, func(path string, _ time.Time) bool { _, ok := r.Positions[path]; return !ok })
}

// absence is a time in which no job of a run existed, and others may have written checkpoints where the run writes its own.
type absence struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// endSlack is the time after the recorded end of a run in which its last files may be dated, clockSlack that for those which the
// observer reported: the clock of their file system may be ahead.
const (
	endSlack   = 3 * time.Second
	clockSlack = time.Minute
)

// foreign reports whether a checkpoint was written while no job of the run existed.
func (f *facts) foreign(c observe.CheckpointFile) bool {
	slack := endSlack
	if f.reported(c) {
		slack = clockSlack
	}
	return slices.ContainsFunc(f.Absences, func(a absence) bool { return c.Time.After(a.From.Add(slack)) && c.Time.Before(a.To) })
}

// own removes checkpoints that were written while the run had ended, if it has others.
func (r *run) own(files []observe.CheckpointFile) []observe.CheckpointFile {
	own := slices.DeleteFunc(slices.Clone(files), r.foreign)
	if r.checkpoints.foreign = ""; len(own) < len(files) {
		newest, _ := observe.LatestCheckpoint(files)
		if r.foreign(newest) {
			r.checkpoints.foreign = newest.Path
		}
	}
	if len(own) == 0 {
		return files
	}
	return own
}

// claim contains what another run last stored about its checkpoints.
type claim struct {
	stored  time.Time // modification time of its state
	paths   []string
	folders map[string]string // that its command names where the one of this run names another one, given as the value
}

// unclaimed removes checkpoints that the observer of another training with the same state directory reported, and that of this
// one did not, or that lie in a folder that only its command names: trainings with different arguments may run in one directory.
// Runs of the same command share theirs.
func (r *run) unclaimed(files []observe.CheckpointFile) []observe.CheckpointFile {
	if !slices.ContainsFunc(files, func(f observe.CheckpointFile) bool { return !r.reported(f) }) {
		return files
	}
	claims := r.claims()
	return slices.DeleteFunc(files, func(f observe.CheckpointFile) bool {
		claimed := !r.reported(f) && slices.ContainsFunc(claims, func(c claim) bool { return c.contains(f.Path) })
		if c := r.rec.Checkpoint; claimed && c != nil && absolute(r.Config.Dir, c.Path) == f.Path {
			r.rec.Checkpoint, r.checkpoints.newest, r.checkpoints.times, r.checkpoints.done = nil, "", nil, math.NaN()
		}
		return claimed
	})
}

// contains reports whether a path is a checkpoint of the other run.
func (c claim) contains(path string) bool {
	below := func(path, folder string) bool { return strings.HasPrefix(path, folder+string(filepath.Separator)) }
	if slices.ContainsFunc(c.paths, func(p string) bool { return p == path || below(p, path) }) {
		return true
	}
	for folder, own := range c.folders {
		if below(path, folder) && !below(path, own) {
			return true
		}
	}
	return false
}

// namedApart returns the folders that the command of a run names where that of this one names another path, by that path. Those
// that contain the working directory are left out.
func (r *run) namedApart(other *journal.Record) map[string]string {
	folders := map[string]string{}
	differ, _ := inspect.Compare(other.Command, r.rec.Command)
	for _, d := range differ {
		folder := filepath.Clean(absolute(other.Dir, d.Was))
		if d.Was != "" && d.Is != "" && !strings.HasPrefix(r.Config.Dir+"/", folder+"/") {
			folders[folder] = filepath.Clean(absolute(r.Config.Dir, d.Is))
		}
	}
	return folders
}

// claims returns what the runs of other commands that have stored their state since the start of this run claim. A state is read
// again when it has changed.
func (r *run) claims() (list []claim) {
	runs := filepath.Dir(r.dir.Dir())
	others, _ := os.ReadDir(runs)
	known := r.checkpoints.others
	r.checkpoints.others = map[string]claim{}
	for _, o := range others {
		dir := filepath.Join(runs, o.Name())
		st, err := os.Stat(filepath.Join(dir, "state"))
		if err != nil || dir == r.dir.Dir() || st.ModTime().Before(r.rec.StartedAt.Add(r.checkpoints.fileClock)) {
			continue
		}
		c, ok := known[dir]
		if !ok || !c.stored.Equal(st.ModTime()) {
			c = r.claimOf(dir)
			c.stored = st.ModTime()
		}
		r.checkpoints.others[dir] = c
		list = append(list, c)
	}
	return list
}

// claimOf returns the paths of the checkpoints that the observer of another run reported, and the folders that its command names.
func (r *run) claimOf(dir string) (c claim) {
	other, err := journal.Open(dir)
	if err != nil {
		return c
	}
	rec, err := journal.ReadRecord(dir)
	if err != nil || slices.Equal(rec.Command, r.rec.Command) {
		return c
	}
	c.folders = r.namedApart(rec)
	var seen observed
	if _, err := other.LoadState(&seen); err == nil {
		c.paths = slices.AppendSeq(slices.Collect(maps.Keys(seen.Positions)), maps.Keys(seen.Weights))
	}
	return c
}

// saved removes files that the observer did not report if it reported others with progress: they may be exports of the model
// that the script writes after each checkpoint.
func (r *run) saved(files []observe.CheckpointFile) []observe.CheckpointFile {
	if !slices.ContainsFunc(files, func(f observe.CheckpointFile) bool { return r.reported(f) && !r.Weights[filepath.Clean(f.Path)] }) {
		return files
	}
	return slices.DeleteFunc(files, func(f observe.CheckpointFile) bool { return !r.reported(f) })
}

// reported reports whether the observer reported a checkpoint, to this agent or an earlier one, or in the answer to a request.
func (f *facts) reported(c observe.CheckpointFile) bool {
	_, before := f.Positions[filepath.Clean(c.Path)]
	return c.Reported || before || c.Path == f.Asked
}

// positionOf returns the progress in a checkpoint, in units of work; NaN if neither its name nor the observer
// determines it.
func (f *facts) positionOf(c observe.CheckpointFile) float64 {
	if position, ok := f.Positions[filepath.Clean(c.Path)]; ok {
		return position
	}
	switch f.Progress.Unit {
	case "epoch":
		return c.Epoch
	case "step":
		return c.Step
	}
	return math.NaN()
}

// saveInterval returns the median time between the script's checkpoints; 0 if fewer than two were seen.
func (s *checkpointTracker) saveInterval() time.Duration {
	if len(s.times) < 2 {
		return 0
	}
	gaps := make([]float64, 0, len(s.times)-1)
	for i := 1; i < len(s.times); i++ {
		gaps = append(gaps, (s.times[i] - s.times[i-1]).Seconds())
	}
	return time.Duration(stat.Median(gaps) * float64(time.Second))
}

// nextSave returns the elapsed time at which the next checkpoint is expected; ok is false without an estimate.
func (s *checkpointTracker) nextSave() (at time.Duration, ok bool) {
	every := s.saveInterval()
	if every <= 0 {
		return 0, false
	}
	return s.times[len(s.times)-1] + every, true
}

// atRisk returns the run time whose work is lost if the job is stopped now: since the newest checkpoint or the
// launch. Without a known checkpoint it is negative while no job runs, and for a job that saves on request.
func (r *run) atRisk() time.Duration {
	now := r.elapsed()
	if r.ended != nil {
		now = r.endedAt
	}
	switch n := len(r.checkpoints.times); {
	case n > 0:
		return max(0, now-max(r.checkpoints.times[n-1], r.Progress.launchedAt()))
	case r.Resumable || r.job == nil:
		return -1
	}
	return now - r.Progress.launchedAt()
}

// noteCheckpoint records the newest checkpoint and the work at risk.
func (r *run) noteCheckpoint() {
	if l := r.Pending; l != nil && l.Saved != "" { // on request, immediately before its exit: no work is lost
		r.rec.Checkpoint = &journal.Checkpoint{Path: absolute(r.Config.Dir, l.Saved), AtS: journal.Number(r.elapsed().Seconds()), Units: journal.Number(r.Progress.Done)}
		return
	}
	n := len(r.checkpoints.times)
	if n == 0 {
		return
	}
	newest, _ := observe.LatestCheckpoint(r.checkpoints.files)
	resumable := r.Resumable || r.canResume()
	r.rec.Script.Resumable = &resumable
	r.rec.Checkpoint = &journal.Checkpoint{Path: newest.Path, AtS: journal.Number(r.checkpoints.times[n-1].Seconds()), Units: journal.Number(r.checkpoints.done),
		RiskSeconds: journal.Number(r.atRisk().Seconds()), RiskUnits: journal.Number(math.Max(0, r.Progress.Done-r.checkpoints.done))}
	if r.savedAtEnd() {
		r.rec.Checkpoint.AtS, r.rec.Checkpoint.RiskSeconds, r.rec.Checkpoint.RiskUnits = journal.Number(r.endedAt.Seconds()), 0, 0
	}
}

// savedAtEnd reports whether the job has saved on the request that ended the run.
func (r *run) savedAtEnd() bool {
	return r.ended != nil && r.ended.exit != nil && r.Pending != nil && (r.Pending.savedBy(*r.ended.exit) || r.savedOnSignal(r.ended.exit))
}

// resumeFrom returns the checkpoint from which the job can continue now. For a job that locates its own checkpoint, ok
// may be true with a zero f.
func (r *run) resumeFrom() (f observe.CheckpointFile, ok bool) {
	if r.keepsCheckpoint() {
		return observe.CheckpointFile{}, r.Resumable
	}
	r.scanCheckpoints(true)
	reports := slices.ContainsFunc(r.checkpoints.files, r.reported)
	usable := slices.DeleteFunc(slices.Clone(r.checkpoints.files), func(f observe.CheckpointFile) bool {
		torn := reports && !r.reported(f) // the observer reports a save when it is complete
		return torn || !r.resumption.Takes(f.Kind == observe.HuggingFace)
	})
	usable = r.withProgress(usable)
	for _, f := range usable {
		if f.Path == r.Asked && f.Complete { // written on request by the previous launch before its exit
			return f, true
		}
	}
	if names := r.resumption.Snapshots; len(names) > 0 {
		if f, ok := observe.LatestCheckpoint(usable, names...); ok {
			return f, true
		}
	}
	if f, ok := observe.LatestCheckpoint(usable, r.resumption.Names...); ok {
		return f, true
	}
	stated := r.Config.Resume == resumableYes && r.resumption.Wants == inspect.ResumeTakesNothing
	return observe.CheckpointFile{}, r.Resumable && (r.resumption.How == inspect.ResumeItself || stated)
}

// keptCheckpoint returns the newest checkpoint of a job that keeps it itself, of those in the directory of the protocol if that
// contains anything. It has neither a path nor a position if none is recognised, and is nil if the job has saved nothing.
func (r *run) keptCheckpoint() *observe.CheckpointFile {
	r.scanCheckpoints(true)
	files, folder := r.withProgress(r.checkpoints.files), r.dir.Path("checkpoint")
	if saved, _ := os.ReadDir(folder); len(saved) > 0 {
		files = slices.DeleteFunc(slices.Clone(files), func(f observe.CheckpointFile) bool {
			return !strings.HasPrefix(f.Path, folder+string(filepath.Separator))
		})
	}
	if f, ok := observe.LatestCheckpoint(files); ok {
		return &f
	}
	if !r.hasSaved() {
		return nil
	}
	return &observe.CheckpointFile{Step: math.NaN(), Epoch: math.NaN()}
}

// vanishedCheckpoint reports whether the last known checkpoint was removed and no other one is left. The directory of one on a
// file system that is not mounted does not exist either: it may come back.
func (r *run) vanishedCheckpoint() bool {
	c := r.rec.Checkpoint
	if c == nil || c.Path == "" {
		return false
	}
	path := absolute(r.Config.Dir, c.Path)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return false
	}
	f, _ := r.resumeFrom()
	if r.keepsCheckpoint() { // it may have replaced it since the last scan
		r.scanCheckpoints(true)
		f, _ = observe.LatestCheckpoint(r.checkpoints.files)
	}
	return f.Path == ""
}

// keepsCheckpoint reports whether the job itself locates the checkpoint from which it continues, by the protocol or as its user
// states.
func (s *script) keepsCheckpoint() bool {
	return s.resumption.How == inspect.ResumeProtocol || s.resumption.How == inspect.ResumeNone
}

// hasSaved reports whether the job has saved anything, so that one that begins again does not load it. A job that was killed
// before it was ever asked to save has nothing to load.
func (r *run) hasSaved() bool {
	files, _ := os.ReadDir(r.dir.Path("checkpoint"))
	return len(files)+len(r.checkpoints.times) > 0 || slices.ContainsFunc(r.Progress.Segments, func(s *Segment) bool { return s.CheckpointS > 0 })
}

// mayBeginAgain reports whether a run continues from its beginning without its user: a scheduler stopped it because it had a
// checkpoint, which was removed since.
func (r *run) mayBeginAgain() bool { return r.Lease != nil && r.vanishedCheckpoint() }

// withProgress removes files of weights alone if others exist, or if the script reads progress from what its resume
// argument names. A script that loads weights by a name of its own reads progress from another file.
func (r *run) withProgress(files []observe.CheckpointFile) []observe.CheckpointFile {
	whole := slices.DeleteFunc(slices.Clone(files), func(f observe.CheckpointFile) bool { return r.Weights[filepath.Clean(f.Path)] })
	if len(whole) > 0 {
		return whole
	}
	return slices.DeleteFunc(slices.Clone(files), func(f observe.CheckpointFile) bool {
		return r.resumption.Restores && !slices.ContainsFunc(r.resumption.Snapshots, func(pattern string) bool {
			ok, _ := filepath.Match(pattern, filepath.Base(f.Path))
			return ok
		})
	})
}

// resumes reports whether the ended job can continue now.
func (r *run) resumes() bool {
	_, ok := r.resumeFrom()
	return ok || r.Resumable && !r.canResume() || r.mayBeginAgain()
}

// keepsWork reports whether the work of the job survives a stop at a limit: it saves on request, or writes
// checkpoints from which it can continue.
func (r *run) keepsWork() bool {
	return r.Resumable || r.canResume() && len(r.checkpoints.times) > 0
}

// canResume reports whether the job can continue from a checkpoint of its own, if it has one.
func (r *run) canResume() bool {
	return r.Config.Resume != resumableNo && (r.resumption.How == inspect.ResumeArgument || r.resumption.How == inspect.ResumeItself)
}

// stopAfterSave stops a job immediately after one of its own checkpoints if it cannot finish before the limit and its
// next checkpoint would come too late, so that no further work is lost. It does not apply to a job that saves on
// request.
func (r *run) stopAfterSave() {
	fresh := r.checkpoints.fresh
	r.checkpoints.fresh = false
	why, left := r.nearestLimit()
	next, known := r.checkpoints.nextSave()
	if !fresh || !known || r.Resumable || !r.canResume() || !r.trusted() || r.Pending != nil || r.projected.seconds == nil || left == math.MaxInt64 {
		return
	}
	limit := r.elapsed() + left - r.reserve()
	if next < limit || time.Duration(r.projected.seconds.P5*float64(time.Second)) < limit {
		return
	}
	if _, ok := r.resumeFrom(); !ok {
		return // the present one is not one to continue from
	}
	words := fmt.Sprintf("the job cannot finish before the %s, and its next checkpoint is due after it: stopping at the present one", why)
	r.event(Problem, "%s", words)
	r.requestStop(&pendingStop{Why: why, Words: words})
}

// checkResumption compares the epoch that a resumed training prints first with that of its beginning. The observer counts
// from the launch and cannot tell whether the script restored its own counter. A training that began again is counted
// from 0; it is Rewound as long as it has not replaced the checkpoint, or if it is not stopped for that.
func (r *run) checkResumption() {
	printed, ok := r.log.FirstPrinted()
	switch {
	case !ok:
		return
	case !r.checkpoints.resumed:
		if r.First == nil {
			r.First = &printed
		}
		r.Each = r.Each || r.log.PrintsEachEpoch()
		return
	case r.First == nil || r.observer == nil || r.Origin.Unit != "epoch" || r.Origin.Position < 1:
		return
	case printed > *r.First:
		r.raiseOrigin(printed - *r.First)
		return
	case *r.First > 1 && printed >= r.Origin.Position: // it prints every few epochs
		return
	}
	from := r.Origin.Position
	r.moveOrigin(origin{}, max(0, r.Progress.Done-from))
	switch {
	case !r.stopsIfRewound():
		r.Progress.lose(spentAbove(0))
		r.Progress.Rewound = true
		return
	case len(r.observer.facts.Checkpoints) == 0:
		r.Progress.Rewound = true
		return
	}
	r.Progress.lose(spentAbove(0))
	r.checkpoints.done -= from
	r.event(Warning, "the training began again: resumed from its checkpoint at epoch %g it prints epoch %g first, as at its beginning, and it has replaced the checkpoint; progress is counted from the beginning", from, printed)
}

// raiseOrigin raises the position from which the running process is counted to that at which it has begun, by the epochs that it prints.
// Its checkpoint may be a later save than the reported one: the observer reports at most two per second.
func (r *run) raiseOrigin(to float64) {
	from := r.Origin.Position
	if !r.checkpoints.newer || !r.Each || to <= from {
		return
	}
	r.moveOrigin(origin{r.Origin.Unit, to}, r.Progress.Done+to-from)
	r.event(Info, "the training continues after epoch %g: its checkpoint was saved after the last report, of epoch %g", to, from)
}

// moveOrigin sets the position from which the running process is counted, and with it the progress and the positions of its checkpoints.
func (r *run) moveOrigin(to origin, done float64) {
	r.Origin, r.Progress.Done, r.Progress.haveMark, r.Course = to, done, false, nil
	for _, c := range r.observer.facts.Checkpoints {
		if path := r.pathOf(c); !math.IsNaN(r.observer.position(r.Progress.Unit, c)) {
			r.Positions[path] = r.observer.position(r.Progress.Unit, c)
		}
	}
}

// stopsIfRewound reports whether the running job is stopped if it begins again: it was started from a checkpoint. One that keeps its
// checkpoint itself continues, without further restarts; see adaptStep.
func (r *run) stopsIfRewound() bool { return r.checkpoints.resumed && !r.keepsCheckpoint() }

// stopRewound stops a job that started from scratch although it was resumed from a checkpoint of its own, before it
// overwrites that checkpoint.
func (r *run) stopRewound() {
	if !r.Progress.Rewound || !r.stopsIfRewound() || r.Pending != nil {
		return
	}
	words := fmt.Sprintf("the job began again at %s %.4g instead of continuing from its checkpoint", r.Progress.Unit, r.Progress.Done)
	r.event(Problem, "%s: stopping it before it overwrites what it has", words)
	r.Resumable = false
	r.Pending = &pendingStop{Why: "rewound", Words: words, AskedAt: r.elapsed(), Terminated: true}
	r.publish()
	r.watchdog.stop(r.Config.Grace)
}

package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"trainopt/monitor"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/observe"
)

// ownLog is the file offered to the script for its CSV log ($OPTIMIZER_LOG).
const ownLog = "training.csv"

// logReader reads the progress of the training and reports its source.
type logReader struct {
	*observe.LogReader
	named        string // absolute path; empty if the user named none
	dirs         []string
	elsewhere    bool   // another machine writes the log, of which the kernel here sees nothing
	failed       string // last error, reported once
	silenceNoted bool
}

// openLog opens the reader of progress with every candidate source: the named log, $OPTIMIZER_LOG, the job's output,
// and the observer.
func (r *run) openLog() *logReader {
	r.OwnLog = r.here(cmp.Or(r.OwnLog, ownLog))
	for i := range r.OutputState {
		r.OutputState[i].Path = r.here(r.OutputState[i].Path)
	}
	l := &logReader{dirs: []string{r.dir.Dir(), r.Config.Dir}, elsewhere: r.Config.elsewhere()}
	o := observe.LogOptions{Dir: r.Config.Dir, Args: r.Argv, Stdout: r.jobFile("job.stdout"), Stderr: r.jobFile("job.stderr"), Own: r.OwnLog,
		Format: r.Config.Format, Columns: r.Config.Columns, Output: r.OutputState, Epochs: r.Progress.Hints["epoch"].Units > 0,
		WithoutReports: l.elsewhere}
	if r.Config.Log != "" {
		l.named = absolute(r.Config.Dir, r.Config.Log)
		o.Named = l.named
		l.dirs = append(l.dirs, filepath.Dir(l.named))
	}
	if r.Config.Train != "" {
		o.Script = filepath.Dir(absolute(r.Config.Dir, r.Config.Train))
	}
	if r.observer != nil {
		o.Observer = r.observer
	}
	if re, err := regexp.Compile(r.Config.Pattern); err == nil && r.Config.Pattern != "" { // Validate rejects an invalid pattern
		o.Pattern = re
	}
	var err error
	if l.LogReader, err = observe.OpenLog(o, r.Clock.Now()); err != nil { // Validate rejects invalid options
		r.event(Warning, "%v", err)
		o.Format, o.Columns, o.Output = "", nil, nil
		l.LogReader, _ = observe.OpenLog(o, r.Clock.Now())
	}
	return l
}

// here returns the path of a file in the run directory, which may have been moved since the path was saved. A path outside
// it is unchanged.
func (r *run) here(path string) string {
	const separator = string(filepath.Separator)
	if !strings.Contains(path, separator) {
		return r.dir.Path(path)
	}
	within := separator + r.dir.ID() + separator
	if i := strings.LastIndex(path, within); i >= 0 {
		return r.dir.Path(path[i+len(within):])
	}
	return path
}

// jobFile returns the path of a file of the present job, or of the last one.
func (r *run) jobFile(name string) string {
	if r.Config.elsewhere() && r.Stretch > 0 {
		dir := launch.StretchDir(r.dir.Dir(), r.Stretch)
		if _, err := os.Stat(dir); err == nil { // absent for stretches of earlier versions
			return filepath.Join(dir, name)
		}
	}
	return r.dir.Path(name)
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// resumeLog continues reading at the positions that an earlier agent has saved.
func (r *run) resumeLog() error {
	r.log.Continue(r.OwnLog, r.rec.StartedAt)
	if r.LogPath == "" || r.LogState == nil {
		return nil
	}
	r.LogPath, r.LogState.Path = r.here(r.LogPath), r.here(r.LogState.Path)
	return r.log.Resume(r.LogPath, *r.LogState)
}

// describe returns the source of progress and the evidence for it; empty until known.
func (l *logReader) describe() string {
	if l.Source().Path == "" {
		return ""
	}
	return strings.TrimPrefix(l.Source().String(), "log: ")
}

// watch returns a channel of hints that a log may have grown; polling remains authoritative. The agent's own writes to
// the run directory cause none, and would only wake it if nothing else can be seen.
func (l *logReader) watch(ctx context.Context, runDir string) (<-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(ctx)
	if l.elsewhere {
		return nil, cancel
	}
	hints, err := trainlog.Watch(ctx, func(path string) bool { return writtenByUs(runDir, path) }, l.dirs...)
	if err != nil {
		return nil, cancel
	}
	return hints, cancel
}

// writtenByUs reports whether the agent itself writes the file, several times a second: every file of the run
// directory except those of the job.
func writtenByUs(runDir, path string) bool {
	dir, name := filepath.Split(path)
	return filepath.Clean(dir) == runDir && !strings.HasPrefix(name, "training") && !strings.HasPrefix(name, "job.")
}

// readLog reads new rows of the training log, at most a bounded number.
func (r *run) readLog() { r.takeRows(r.log.Poll) }

// lastRowsTime is the time for which the remaining rows of a log are read after the end of the job; then only its end is.
const lastRowsTime = 500 * time.Millisecond

// readLastRows reads the remaining rows of a log after its last write: all of them if that is quick, and always the last
// ones.
func (r *run) readLastRows() {
	for began := time.Now(); ; {
		n, err := r.takeRows(r.log.Finish)
		if n == 0 && (err != nil || r.log.Behind() == 0) || r.watchdog.interrupted() {
			return
		}
		if time.Since(began) > lastRowsTime {
			r.log.SkipToTail()
		}
	}
}

// silence is the time without output after which noteSilence advises a pseudo-terminal.
const silence = 20 * time.Second

// noteSilence reports once that a program other than Python has written no output: most buffer it in a pipe.
func (r *run) noteSilence() {
	if r.log.silenceNoted || r.Config.PTY || r.Progress.Rows > 0 || r.elapsed()-r.Progress.launchedAt() < silence {
		return
	}
	r.log.silenceNoted = true
	if r.observer != nil {
		if reports, err := os.ReadDir(reportsOf(r.observer.reports, r.Progress.launches())); err != nil || len(reports) > 0 {
			return // Python, whose buffering is off
		}
	}
	for _, name := range []string{"job.stdout", "job.stderr"} {
		if f, err := os.Stat(r.jobFile(name)); err != nil || f.Size() > 0 {
			return
		}
	}
	r.event(Info, "no output so far: if the program buffers it, --pty shows each line at once")
}

// takeRows reads rows and dates each by elapsed time: no later than now or the job's end, no earlier than its launch.
// It returns the number of rows.
func (r *run) takeRows(read func(time.Time) ([]trainlog.Row, error)) (int, error) {
	now, elapsed := r.Clock.Now(), r.elapsed()
	was, before := r.log.Source().Evidence, r.Progress.Unit
	rows, err := read(now)
	if is := r.log.Source().Evidence; len(rows) > 0 && (is == observe.Observed && was == observe.Output || is == observe.Output && was == observe.Observed) {
		if p := &r.Progress; r.nested && is == observe.Observed && p.Hints[p.Unit].Units == 0 {
			p.Total = 0 // the printed one, of one update
		}
		r.Progress.changeSource()
	}
	if err != nil && err.Error() != r.log.failed {
		r.log.failed = err.Error()
		r.event(Warning, "%v", err)
	}
	for _, note := range r.log.Notes() {
		r.event(Warning, "%s", note)
	}
	r.suggestPrintedTotal()
	r.takeLoops()
	if o := r.observer; o != nil {
		if is := r.log.Source().Evidence; was == observe.Observed && is.Discovered() && is != observe.Output { // a further training, not observed
			o.earlier.extendBy(&o.last)
			o.last, r.Progress.UnitSamples = observe.Progress{}, 0
		}
		for i := 0; i < len(rows) && r.log.Source().Evidence != observe.Observed; i++ {
			o.earlier.extend(&rows[i])
		}
		if o.earlier != (earlierTrainings{}) {
			r.Progress.forgetLengths()
		}
	}
	if len(rows) > 1 {
		for _, t := range []*monitor.Table{r.tables.Log, r.tables.Performance} {
			write := t.Together()
			defer func() {
				if err := write(); err != nil {
					r.warnDiskOnce(err)
				}
			}()
		}
	}
	present := r.elapsed()
	for i := range rows {
		at := min(elapsed-now.Sub(rows[i].At), present)
		if r.exitAt > 0 { // late reading does not date rows after the job's end
			at = min(at, r.exitAt)
		}
		at = max(at, r.Progress.launchedAt())
		done, total, unit, beside := r.Progress.Done, r.Progress.Total, r.Progress.Unit, r.Progress.beside.found
		r.Progress.Add(&rows[i], at)
		r.noteProgress(rows[i].At)
		if p := &r.Progress; p.Done < done && p.Unit == unit && p.Rewound && !r.stopsIfRewound() { // see stopRewound
			p.lose(spentAbove(math.Ceil(p.Done) - 1))
		}
		switch {
		case r.Progress.beside.found && !beside:
			r.eventOnce(Warning, "concurrent trainings", "several trainings print their epochs side by side: progress and throughput are those of the furthest one, the total is unknown")
		case total > 0 && r.Progress.Total == 0 && r.Progress.Unit == unit:
			r.event(Warning, "the training continues after %g %ss: the total is unknown", total, unit)
		}
		r.learnTraining(&rows[i])
		r.tabulate(&rows[i], at, i == len(rows)-1)
	}
	r.dropPrintedTotal()
	if r.Progress.Unit != before {
		r.changeUnit(before)
	}
	return len(rows), err
}

// changeUnit drops what is known in the former unit of work: its pace predicts nothing in another one. The positions of the
// checkpoints are taken again from the reports of the running process.
func (r *run) changeUnit(before string) {
	if before != "" {
		r.model = nil
	}
	clear(r.Positions)
	clear(r.SavedAt)
	r.Course = nil
	if r.observer != nil {
		r.observer.reported = 0
	}
}

// suggestPrintedTotal takes the total number of epochs from the job's output if another source counts the epochs and the
// output agrees with it.
func (r *run) suggestPrintedTotal() {
	p := &r.Progress
	if r.log.Source().Evidence != observe.Observed || p.Unit != "epoch" || p.Total > 0 || p.Repeats || r.nested {
		return
	}
	if epoch, total := r.log.PrintedEpochs(); total >= p.Done && epoch >= 1 && math.Abs(epoch-p.Done) <= 1 {
		p.Suggest("epoch", hint{Units: total, Source: "the job's output"})
	}
}

// printedSteps compares the steps in the job's output with those that the observer counts, from the first ones to the last.
type printedSteps struct {
	first, last, longest struct{ printed, counted float64 } // longest: between two readings
}

// otherwise reports whether the printed steps advance at another rate than the counted ones, by a factor of 2 or more. What one
// of the readings lacks is less than the longest distance.
func (c *printedSteps) otherwise(printed, counted float64) bool {
	if c.last.printed == 0 || printed < c.last.printed || counted < c.last.counted {
		*c = printedSteps{}
		c.first.printed, c.first.counted = printed, counted
	} else {
		c.longest.printed = max(c.longest.printed, printed-c.last.printed)
		c.longest.counted = max(c.longest.counted, counted-c.last.counted)
	}
	c.last.printed, c.last.counted = printed, counted
	p, n := printed-c.first.printed, counted-c.first.counted
	return p > 0 && n > 0 && p >= 4*c.longest.printed && n >= 4*c.longest.counted && (p >= 2*n || n >= 2*p)
}

// dropPrintedTotal drops a total that the output states as well, in iterations that are not the counted steps: those of a
// while loop that accumulates gradients.
func (r *run) dropPrintedTotal() {
	p, o := &r.Progress, r.observer
	if o == nil || r.log.Source().Evidence != observe.Observed || p.Unit != "step" || p.Done == 0 {
		return
	}
	h := p.Hints["step"]
	step, total := r.log.PrintedSteps()
	if h.Whole || h.Source == loopSource || total == 0 || total != h.Units || total != p.Total || !o.printed.otherwise(step, p.Done) {
		return
	}
	delete(p.Hints, "step")
	p.Total = 0
	r.event(Info, "%g of %g in the output are not optimizer steps, of which there were %g: the total is unknown", step, total, p.Done)
}

// learnTraining records what the row contains about the model, and its latest results.
func (r *run) learnTraining(row *trainlog.Row) {
	t := &r.rec.Training
	if row.Model != "" {
		t.Model = &row.Model
	}
	if row.Dataset != "" {
		t.Dataset = &row.Dataset
	}
	for _, c := range [...]struct {
		column trainlog.Column
		into   *journal.Number
	}{
		{trainlog.ModelParams, &t.ModelParams}, {trainlog.ModelLayers, &t.ModelLayers}, {trainlog.DataCount, &t.DataCount},
		{trainlog.DataSizeMB, &t.DataSizeMB}, {trainlog.BatchSize, &t.BatchSize}, {trainlog.TrainLoss, &t.TrainLoss},
		{trainlog.TrainAccuracy, &t.TrainAccuracy}, {trainlog.TestLoss, &t.TestLoss}, {trainlog.TestAccuracy, &t.TestAccuracy}} {
		if v, ok := row.Value(c.column); ok {
			*c.into = journal.Number(v)
		}
	}
	for _, v := range []trainlog.Column{trainlog.TrainLoss, trainlog.TestLoss} {
		if x, ok := row.Value(v); ok && (math.IsInf(x, 0) || x > 1e300) {
			r.warn(fmt.Sprintf("the loss is infinite at line %d of the log", row.Line))
		}
	}
}

// learnUnit determines the unit of work: epochs if the log contains them, otherwise steps; a log with a total only
// for its steps counts steps. It also updates Total and UnitSamples.
func (p *Progress) learnUnit(row *trainlog.Row) {
	_, hasEpoch := row.Value(trainlog.Epoch)
	_, hasTotalEpochs := row.Value(trainlog.TotalEpochs)
	_, hasStep := row.Value(trainlog.Step)
	_, hasTotalSteps := row.Value(trainlog.TotalSteps)
	toEpochs := p.Unit == "step" && hasEpoch && (!p.Hinted || hasTotalEpochs)                            // the log contains them only from the end of the first one on
	toSteps := p.Unit == "epoch" && p.Hints["epoch"].Units == 0 && !hasEpoch && hasStep && hasTotalSteps // preferred to epochs without a total
	if p.Total == 0 && (toEpochs || toSteps) {
		p.restartCounting()
	} else if !hasTotalSteps && p.epochsEndFirst(row) {
		p.Total = 0
		p.restartCounting()
	}
	if p.Unit == "" {
		p.Hinted = hasStep && !hasTotalEpochs && p.Hints["epoch"].Units == 0 && p.Hints["step"].Units > 0
		switch {
		case hasEpoch && !p.Hinted && (hasTotalEpochs || !hasTotalSteps):
			p.Unit = "epoch"
		case hasStep:
			p.Unit = "step"
		}
	}
	total, ok := p.statedTotal(row)
	if ok && (p.Repeats || p.Earlier > 0) {
		p.Each, ok = total, false
	}
	switch {
	case ok && (p.Unit == "step" || total >= p.Done): // otherwise of a second, shorter training
		p.Total = total
	case !ok && p.Total == 0:
		p.Total = p.Hints[p.Unit].Units
	}
	if p.Unit == "epoch" {
		if n, ok := row.Value(trainlog.DataCount); ok && n > 0 {
			p.UnitSamples = n
		} else if rate, ok := row.Value(trainlog.Throughput); ok && p.UnitSamples == 0 {
			if sec, ok := row.Value(trainlog.EpochTime); ok && sec > 0 && rate > 0 {
				p.UnitSamples = rate * sec
			}
		}
	} else if n, ok := row.Value(trainlog.BatchSize); ok && n > 0 && p.Unit == "step" {
		p.UnitSamples = n
	}
}

// epochsEndFirst reports whether a training that counts steps of a total that was given to it has completed more of its
// epochs, which limit it too: --training.max_epochs of spaCy beside the max_steps of its configuration.
func (p *Progress) epochsEndFirst(row *trainlog.Row) bool {
	epoch, _ := row.Completed()
	step, ok := row.Value(trainlog.Step)
	epochs, steps := p.Hints["epoch"].Units, p.Hints["step"].Units
	return ok && !row.Undecided() && p.Unit == "step" && p.Total == steps && epochs > 0 && epoch/epochs > step/steps
}

// statedTotal returns the total that the row states in the unit of work.
func (p *Progress) statedTotal(row *trainlog.Row) (float64, bool) {
	total, ok := row.Value(map[string]trainlog.Column{"epoch": trainlog.TotalEpochs, "step": trainlog.TotalSteps}[p.Unit])
	return total, ok && total > 0 && p.Unit != ""
}

// changeSource restarts counting from a better source of progress than the job's output, at the position from which the
// launch resumed: whether it did, this source decides. A total from the output remains as a hint.
func (p *Progress) changeSource() {
	p.Suggest(p.Unit, hint{Units: p.Total, Source: "the job's output"})
	p.Total, p.Backwards, p.sawResume, p.Rewound = 0, 0, false, false
	p.restartCounting()
	p.Unit, p.Done = p.resumed.Unit, p.resumed.Position
}

// forgetLengths drops the hints that may be the length of one training, of which the job makes several.
func (p *Progress) forgetLengths() {
	if h := p.Hints[p.Unit]; !h.Whole && p.Total == h.Units {
		p.Total = 0
	}
	maps.DeleteFunc(p.Hints, func(_ string, h hint) bool { return !h.Whole })
}

// exceeding is the share of a unit by which a position may exceed the total: the length of an epoch is rounded.
const exceeding = 0.05

// dropExceededTotal drops a total that the training has exceeded, such as the epochs of one fold of a
// cross-validation, unless the row states a total. One unit beyond a hint is a loop that includes its last index: "while
// iter <= max_iters".
func (p *Progress) dropExceededTotal(row *trainlog.Row) {
	hint := p.Hints[p.Unit].Units
	_, stated := p.statedTotal(row)
	switch {
	case p.Total == 0 || p.Done <= p.Total+exceeding || stated:
	case hint > p.Done:
		p.Total = hint
	case p.Total == hint && p.Done == hint+1:
		p.Total = p.Done
	default:
		delete(p.Hints, p.Unit)
		p.Total = 0
	}
}

// restartCounting restarts counting in another unit: times in the old unit do not apply to it.
func (p *Progress) restartCounting() {
	p.Unit, p.Done, p.UnitSamples, p.UnitSteps, p.haveMark = "", 0, 0, 0, false
	p.Earlier, p.Each, p.againAt, p.From, p.begun, p.Named = 0, 0, 0, 0, 0, namedEpoch{}
	for _, s := range p.Segments {
		s.Blocks, s.BlockUnits, s.Units, s.Timed, s.StartDone, s.Reached = nil, 0, 0, 0, 0, 0
	}
}

// position returns the row's value in the unit of work; false if the row has none or the unit is unknown.
func (p *Progress) position(row *trainlog.Row) (float64, bool) {
	switch p.Unit {
	case "":
		return 0, false
	case "epoch":
		return row.Completed()
	}
	return row.Value(columnOf(p.Unit))
}

// namedEpoch is the epoch that the last row with a position names, completed or not.
type namedEpoch struct {
	At        float64 `json:"at"`
	Undecided bool    `json:"undecided,omitempty"` // it counts as completed until the log shows that it has several rows per epoch
}

// completed returns the position of a row and records the epoch that it names. Once the log shows that it has several rows per
// epoch, the epoch that counted as completed before is taken back.
func (p *Progress) completed(row *trainlog.Row) (float64, bool) {
	done, ok := p.position(row)
	if !ok || p.Unit != "epoch" {
		return done, ok
	}
	if p.claimed() && !row.Undecided() && p.Earlier+done < p.Done {
		p.Done, p.begun, p.markDone = max(0, p.Done-1), max(0, p.begun-1), max(0, p.markDone-1)
		seg := p.Current()
		seg.FirstDone = max(0, seg.FirstDone-1)
	}
	epoch, _ := row.Value(trainlog.Epoch)
	p.Named = namedEpoch{p.Earlier + epoch, row.Undecided()}
	return done, ok
}

// claimed reports whether the last completed epoch may be in progress.
func (p *Progress) claimed() bool { return p.Named.Undecided && p.Named.At == p.Done }

// Finished reports whether the total is reached.
func (p *Progress) Finished() bool { return p.Total > 0 && p.Done >= p.Total && !p.claimed() }

// endOfLog completes the epoch that the last row of a job names that ended normally, and returns the rest as Remaining does.
func (p *Progress) endOfLog() (float64, bool) {
	p.Done, p.Named.Undecided = max(p.Done, p.Named.At), false
	return p.Remaining()
}

// columnOf returns the log column of a unit of work.
func columnOf(unit string) trainlog.Column {
	if unit == "epoch" {
		return trainlog.Epoch
	}
	return trainlog.Step
}

// besideTurns is the number of turns from which epochs are taken for those of several trainings side by side.
const besideTurns = 3

// beside finds trainings that print their epochs side by side at different paces: rows more than an epoch behind, themselves
// without a gap, take turns with rows that continue ahead of them. The rows of trainings one after another pass the furthest one
// without a jump; those of ranks are not behind; a best epoch, printed later, makes gaps.
type beside struct {
	found          bool
	behind, stride float64 // furthest row behind; the last step ahead
	jump, grown    bool    // the last row was behind; behind has increased since the last turn
	turns          int
}

// add reports whether a row at a position shows for the first time that several trainings print side by side.
func (b *beside) add(done, reached float64) bool {
	switch {
	case done > reached:
		if b.stride = done - reached; b.jump && b.grown {
			b.turns, b.grown = b.turns+1, false
		}
		b.jump = false
	case done < reached-1:
		if gap := done - b.behind; gap > 0 {
			if gap > 1 && gap != b.stride {
				b.turns = 0
			}
			b.behind, b.grown = done, true
		}
		b.jump = true
	default:
		b.jump = false
	}
	first := !b.found && b.turns == besideTurns
	b.found = b.found || first
	return first
}

// preparation is the ratio of lengths above which a training that follows another one is the one that this has prepared, by
// a search of the learning rate or a check. The folds of a cross-validation differ by less.
const preparation = 1.5

// follows reports whether a row at a position may be the first one after the end of a training of a known length.
func (p *Progress) follows(position, each float64) bool {
	within := p.Done - p.Earlier
	ended := within >= each || p.Unit == "epoch" && within >= each-1 && position < within
	return ended && p.sawResume && position <= max(1, 0.25*within)
}

// leavePreparation counts the training that begins from 0. What was timed before it does not apply to it; the start-up of the
// present segment extends to its first row.
func (p *Progress) leavePreparation() {
	p.Done, p.haveMark, p.every, p.regular, p.From, p.begun, p.Named = 0, false, 0, false, 0, 0, namedEpoch{}
	p.leave()
	for _, s := range p.Segments {
		s.BlockUnits, s.Units, s.Timed, s.StartDone, s.Reached = 0, 0, 0, 0, 0
	}
	s := p.Current()
	s.FirstRowAt, s.FirstDone = 0, 0
}

// beginsAgain reports whether a row at a position is of a further training that follows one of a known length: the
// positions begin again, and advance at half of the pace so far or more slowly. Rows that come faster list past results.
// "Epoch 4/4" announces the last epoch without a later row for its end.
func (p *Progress) beginsAgain(position float64, at time.Duration, each float64) bool {
	seg, within := p.Current(), p.Done-p.Earlier
	switch {
	case position > within:
		p.againAt = 0
	case p.againAt == 0 && each > 1 && p.follows(position, each):
		p.againAt, p.againFrom = at, p.Earlier+max(within, each)
	case p.againAt > 0 && seg.Units > 0 && at-p.againAt >= time.Duration(0.5*seg.Timed/seg.Units*float64(time.Second)):
		p.againAt = 0
		return true
	}
	return false
}

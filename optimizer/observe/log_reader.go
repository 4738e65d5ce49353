package observe

import (
	"errors"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"trainopt/monitor/trainlog"
)

// LogRows is a further source of progress provided by the job itself, such as an observer inside the training.
type LogRows interface {
	// Poll returns the new rows, oldest first; last is true after the end of the job.
	Poll(now time.Time, last bool) ([]trainlog.Row, error)
	// Stats returns the statistics of the rows read so far; Rows above 0 means that the source is in use, until it is
	// Missing and the output contains progress.
	Stats() trainlog.TailStats
	// Sized reports whether the rows determine a total. Output that counts epochs has precedence over a source
	// without one.
	Sized() bool
	// Ended returns when the last process that trained has ended; zero while one may train. A program without rows of its own
	// may train next: a log that is created afterwards is read instead.
	Ended() time.Time
	Close() error
}

// LogOptions locates the possible logs of a job. The zero value reads only Stdout and Stderr, which are required.
type LogOptions struct {
	// Dir is the job's working directory, absolute. Script is the directory of its script; empty means Dir.
	Dir, Script string
	// Args is the command of the job; files that it names are candidates.
	Args []string
	// Stdout and Stderr are the files with the job's output.
	Stdout, Stderr string
	// Named is the absolute path of the log that the user named, Own that of the file of $OPTIMIZER_LOG; empty means
	// none.
	Named, Own string
	// Format and Columns apply to log files, as in trainlog.TailOptions.
	Format  string
	Columns map[string]string
	// Pattern matches progress lines in the output; nil means the built-in patterns.
	Pattern *regexp.Regexp
	// Observer is optional. The Reader closes it.
	Observer LogRows
	// Epochs states that the total number of epochs is known, so that output that counts epochs determines a total.
	Epochs bool
	// Output contains the positions up to which an earlier agent read Stdout and Stderr; nil means the beginning.
	Output []trainlog.TailState
	// WithoutReports disables the kernel's reports of writers (fanotify).
	WithoutReports bool
}

// pollTime limits the parsing time of one Poll of one file; a Reader polls up to four files.
const pollTime = 25 * time.Millisecond

func (o *LogOptions) tail() trainlog.TailOptions {
	return trainlog.TailOptions{Format: o.Format, Aliases: o.Columns, MaxTime: pollTime}
}

// dirs returns the directories below which logs are searched.
func (o *LogOptions) dirs() []string {
	if o.Script == "" || o.Script == o.Dir {
		return []string{o.Dir}
	}
	return []string{o.Dir, o.Script}
}

// settle is the time that the job has to write its named log or $OPTIMIZER_LOG before a discovered file is used.
const settle = 3 * time.Second

// emptyDirectory is the time that the job has to write event files to a directory that the user named.
const emptyDirectory = time.Minute

var errNoEvents = errors.New("it is a directory, and this run has written no event files of TensorBoard to it")

// LogReader reads the progress of one job from its best source.
type LogReader struct {
	options LogOptions
	find    finder
	out     *output
	began   time.Time // start of the job, on the caller's clock
	lookAt  time.Time

	named, own *file
	found      *trial // the discovered log; nil if none
	hold       []trainlog.Row
	source     logSource
	results    trainlog.Row    // printed results that no row of the observer contains yet
	given      extent          // totals of all returned rows
	thinned    map[string]bool // logs of which parts were skipped
	first      *float64        // first epoch that the present launch has printed
	second     *float64        // the first one above that
	mentioned  float64         // the last one without a result, which may be a setting: "decay at epoch 60"
	continued  bool            // the run began under an earlier agent, and no job was launched since
	lastStep   float64         // last step read from the previous location of a document that moves
}

// file is a log at a path given in advance: by the user or as $OPTIMIZER_LOG.
type file struct {
	path   string
	tail   *trainlog.Tail
	failed string // the last error that was noted
}

// OpenLog starts collecting evidence and records the logs that exist before the job starts; it reads at most 64 KiB of
// each. The error reports an invalid option.
func OpenLog(o LogOptions, now time.Time) (*LogReader, error) {
	out, err := openOutput(o.Stdout, o.Stderr, o.Pattern, o.Output)
	if err != nil {
		return nil, err
	}
	if _, err := trainlog.Open("", o.tail()); err != nil {
		out.close()
		return nil, err
	}
	r := &LogReader{options: o, out: out, mentioned: math.Inf(1), thinned: map[string]bool{}}
	r.find = finder{options: &r.options, writers: newWriters(append(o.dirs(), filepath.Dir(o.Stdout)), !o.WithoutReports)}
	r.begin(now)
	return r, nil
}

// begin records the logs that exist before a job starts, and resets the evidence.
func (r *LogReader) begin(now time.Time) {
	r.began = now
	f := &r.find
	f.start = time.Now() // compared with file times
	f.past = recordEarlierLogs([]string{r.options.Named}, r.options.dirs())
	f.account, f.trials, f.refused, f.noted = newAccounting(), map[string]*trial{}, map[fileID]string{}, map[string]bool{}
	r.named, r.own = agreed(r.options.Named), agreed(r.options.Own)
}

func agreed(path string) *file {
	if path == "" {
		return nil
	}
	return &file{path: path}
}

// Continue takes over a run that began earlier: everything written to its logs since then belongs to it.
func (r *LogReader) Continue(own string, began time.Time) {
	r.options.Own = own
	r.own = agreed(own)
	r.find.start, r.find.past, r.continued = began, earlierLogs{files: map[string]old{}}, true
}

// Attach sets the job whose processes write the log. main is its first process, which may have ended; 0 if unknown. Call
// it at each launch, and when a running job is adopted.
func (r *LogReader) Attach(job interface{ PIDs() ([]int, error) }, main int) {
	r.find.writers.attach(job.PIDs, main)
}

// FirstPrinted returns the first epoch that the job has printed since Relaunched; ok is false before it.
func (r *LogReader) FirstPrinted() (epoch float64, ok bool) {
	if r.first == nil {
		return 0, false
	}
	return *r.first, true
}

// PrintsEachEpoch reports whether the second epoch that the job has printed since Relaunched is the one after the first.
func (r *LogReader) PrintsEachEpoch() bool { return r.second != nil && *r.second == *r.first+1 }

// Relaunched forgets the first epoch that was printed, because the job starts again, and what it writes again counts. In a log
// that was not found in an earlier agent, what the earlier launches wrote does not: it would look like a training that began again.
func (r *LogReader) Relaunched() {
	if r.continued {
		r.find.start, r.find.past, r.continued = time.Now(), recordEarlierLogs([]string{r.options.Named}, r.options.dirs()), false
	}
	r.first, r.second, r.mentioned = nil, nil, math.Inf(1)
	for _, f := range []*file{r.named, r.own} {
		if f != nil && f.tail != nil {
			f.tail.Again()
		}
	}
	if r.found != nil {
		r.found.tail.Again()
	}
}

// Restart discards the log of a job that restarts from scratch, and sets a new file for $OPTIMIZER_LOG.
func (r *LogReader) Restart(own string, now time.Time) {
	r.closeLogs()
	for path := range r.find.trials {
		r.find.drop(path)
	}
	r.options.Own, r.source, r.lastStep = own, logSource{}, 0
	r.out.seen, r.out.epochs, r.out.steps = [2]extent{}, -1, -1
	r.begin(now)
}

// MoveOutput continues with the output of the next job in other files. It has no effect for the present files.
func (r *LogReader) MoveOutput(stdout, stderr string) error {
	if stdout == r.options.Stdout {
		return nil
	}
	out, err := openOutput(stdout, stderr, r.options.Pattern, nil)
	if err != nil {
		return err
	}
	r.out.close()
	out.seen, out.epochs, out.steps = r.out.seen, r.out.epochs, r.out.steps
	r.out, r.options.Stdout, r.options.Stderr = out, stdout, stderr
	return nil
}

// Poll returns the new rows of the source in use, oldest first. It reads a bounded amount, see Behind. An error is
// returned with the rows that could be read; the next Poll tries again.
func (r *LogReader) Poll(now time.Time) ([]trainlog.Row, error) { return r.counted(r.poll(now, false)) }

// Finish is a Poll after the end of the job; it includes an unterminated last line. Call it until it returns no rows
// and Behind is 0, or it returns an error and no rows.
func (r *LogReader) Finish(now time.Time) ([]trainlog.Row, error) {
	return r.counted(r.poll(now, true))
}

func (r *LogReader) counted(rows []trainlog.Row, err error) ([]trainlog.Row, error) {
	r.given.add(rows)
	return rows, err
}

// poll polls the sources in order of precedence and returns the rows of the first one in use. The output is always
// read, because it is evidence for and against the other sources.
func (r *LogReader) poll(now time.Time, last bool) ([]trainlog.Row, error) {
	for _, t := range r.out.tails {
		r.thin(t, maxBehind)
	}
	printed, err := r.out.poll(now, last)
	for i := range printed {
		r.results.At = printed[i].At
		addResults(&r.results, &printed[i])
		e, ok := printed[i].Value(trainlog.Epoch)
		switch {
		case !ok:
		case r.first == nil:
			if hasAny(&printed[i], resultColumns) || e >= r.mentioned && e <= r.mentioned+1 {
				r.first = &e
			}
			r.mentioned = e
		case r.second == nil && e > *r.first:
			r.second = &e
		}
	}
	for _, f := range []*file{r.named, r.own} {
		if f == nil {
			continue
		}
		rows, e := r.pollFile(f, now, last)
		if f.tail != nil && f.tail.Stats().Rows > 0 {
			r.use(f.path, f.tail, map[bool]evidenceLine{true: named, false: ownLog}[f == r.named], nil)
			return rows, e // errors of the other sources are irrelevant
		}
		err = errors.Join(err, e)
	}
	if o := r.options.Observer; o != nil {
		rows, e := o.Poll(now, last)
		if s := o.Stats(); s.Rows > 0 && (o.Sized() || !r.outputSized()) && !(s.Missing && r.out.reached().advances()) {
			if r.find.notBefore = o.Ended(); r.named == nil && len(rows) == 0 && !r.find.notBefore.IsZero() {
				if next, e := r.pollFound(now, last); r.found != nil {
					return next, e
				}
			}
			r.source = logSource{Path: s.Path, Format: s.Format, Evidence: Observed}
			return r.withResults(rows, last), e
		}
		err = errors.Join(err, e)
	}
	if r.named == nil {
		rows, e := r.pollFound(now, last)
		if r.found != nil {
			return rows, e
		}
		err = errors.Join(err, e)
	}
	if r.out.reached().rows > 0 {
		r.use(r.out.main().Stats().Path, r.out.main(), Output, nil)
	}
	return printed, err
}

// withResults adds the printed results to the newest of the observer's rows: a training with its own loop reports none.
// After the end of the job they may be a row of their own.
func (r *LogReader) withResults(rows []trainlog.Row, last bool) []trainlog.Row {
	printed := r.results
	if !hasAny(&printed, lossColumns) || len(rows) == 0 && !last {
		return rows
	}
	r.results = trainlog.Row{}
	if len(rows) == 0 {
		return []trainlog.Row{printed}
	}
	newest := &rows[len(rows)-1]
	own := newest.Clone()
	addResults(newest, &printed)
	addResults(newest, &own) // the observer's have precedence
	return rows
}

// addResults sets the results of a row to those of another one, as far as that has any.
func addResults(to, from *trainlog.Row) {
	for _, c := range lossColumns {
		if v, ok := from.Value(c); ok {
			to.Set(c, v)
		}
	}
}

// A log file that is written faster than it can be read is thinned, so that the progress remains that of the job: when
// more than maxBehind bytes are unread, all but the last keptTail of them are skipped.
const (
	maxBehind = 4 << 20
	keptTail  = 256 << 10
)

// thin skips the middle of a log with more than most unread bytes, which is noted once.
func (r *LogReader) thin(t *trainlog.Tail, most int64) {
	if t == nil || t.Stats().Behind <= most {
		return
	}
	if path := t.Stats().Path; t.Skip(keptTail) > 0 && !r.thinned[path] {
		r.thinned[path] = true
		r.find.notes = append(r.find.notes, path+" is written faster than it can be read: parts of it are skipped, and its rows are not all counted")
	}
}

// SkipToTail skips all but the end of every source, so that few calls of Finish suffice.
func (r *LogReader) SkipToTail() {
	for _, t := range append(r.out.tails[:], r.Tail()) {
		r.thin(t, keptTail)
	}
}

// PrintedEpochs returns the last epoch in the job's output, and their total; 0 if it contains none.
func (r *LogReader) PrintedEpochs() (epoch, total float64) {
	seen := r.out.reached()
	return seen.epoch, seen.epochs
}

// PrintedSteps returns the last step in the job's output, and their total; 0 if it contains none.
func (r *LogReader) PrintedSteps() (step, total float64) {
	seen := r.out.reached()
	return seen.step, seen.steps
}

// outputSized reports whether the job's output determines a total, in epochs.
func (r *LogReader) outputSized() bool {
	seen := r.out.reached()
	return seen.epochs > 0 || r.options.Epochs && seen.epoch > 0
}

func (r *LogReader) use(path string, t *trainlog.Tail, e evidenceLine, others []string) {
	r.source = logSource{Path: path, Format: t.Stats().Format, Evidence: e, Others: others}
}

// Notes returns the findings since the last call about files that are not used or cannot be read, one sentence each.
func (r *LogReader) Notes() []string {
	notes := r.find.notes
	r.find.notes = nil
	return notes
}

// Source returns the current source of progress.
func (r *LogReader) Source() logSource { return r.source }

// Tail returns the log file in use; nil if progress is read from another source.
func (r *LogReader) Tail() *trainlog.Tail {
	switch {
	case r.source.Evidence == named:
		return r.named.tail
	case r.source.Evidence == ownLog:
		return r.own.tail
	case r.found != nil:
		return r.found.tail
	}
	return nil
}

// Stats returns the statistics of the source in use.
func (r *LogReader) Stats() trainlog.TailStats {
	if t := r.Tail(); t != nil {
		return t.Stats()
	}
	if r.source.Evidence == Observed {
		return r.options.Observer.Stats()
	}
	return r.out.main().Stats()
}

// Behind returns the number of bytes not yet read, over all sources.
func (r *LogReader) Behind() int64 {
	n := r.out.behind()
	for _, f := range []*file{r.named, r.own} {
		if f != nil && f.tail != nil {
			n += f.tail.Stats().Behind
		}
	}
	if r.found != nil {
		n += r.found.tail.Stats().Behind
	}
	if o := r.options.Observer; o != nil {
		n += o.Stats().Behind
	}
	return n
}

// OutputStates returns the positions up to which the job's output was read, for Options.Output.
func (r *LogReader) OutputStates() []trainlog.TailState { return r.out.states() }

// Resume continues reading the log at path from a saved position, after a restart of the agent.
func (r *LogReader) Resume(path string, s trainlog.TailState) error {
	o := r.options.tail()
	o.Resume = &s
	t, err := trainlog.Open(path, o)
	if err != nil {
		return err
	}
	switch {
	case r.named != nil && (r.named.path == path || strings.HasPrefix(path, r.named.path+string(filepath.Separator))):
		r.named.path, r.named.tail = path, t
		r.use(path, t, named, nil)
	case r.own != nil && r.own.path == path:
		r.own.tail = t
		r.use(path, t, ownLog, nil)
	default: // its writers are detected again later
		r.found = &trial{candidate: candidate{path: path, evidence: soleWriter}, tail: t}
		r.found.look, _ = lookAt(path)
		r.use(path, t, soleWriter, nil)
	}
	return nil
}

// closeLogs closes and drops all log files.
func (r *LogReader) closeLogs() {
	for _, f := range []*file{r.named, r.own} {
		if f != nil && f.tail != nil {
			f.tail.Close()
		}
	}
	if r.found != nil {
		r.found.tail.Close()
	}
	r.named, r.own, r.found, r.hold = nil, nil, nil, nil
}

// Close closes all sources.
func (r *LogReader) Close() error {
	r.closeLogs()
	r.find.close()
	r.out.close()
	if o := r.options.Observer; o != nil {
		return o.Close()
	}
	return nil
}

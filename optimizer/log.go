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
	"slices"
	"strings"
	"time"

	"trainopt/monitor"
	"trainopt/optimizer/journal"
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
	runDir := filepath.Dir(l.own)
	dirs := append([]string{runDir}, l.dirs...)
	if l.named != "" {
		dirs = append(dirs, filepath.Dir(l.named))
	}
	hints, err := monitor.Watch(ctx, func(path string) bool { return writtenByUs(runDir, path) }, dirs...)
	if err != nil {
		return nil, cancel
	}
	return hints, cancel
}

// writtenByUs is true of the files that the agent itself keeps in the run directory, several a second: all but the job's.
func writtenByUs(runDir, path string) bool {
	dir, name := filepath.Split(path)
	return filepath.Clean(dir) == runDir && !strings.HasPrefix(name, "training") && !strings.HasPrefix(name, "job.")
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

// readLog takes in the new rows of the training log.
func (r *run) readLog() { r.takeRows(false) }

// readLastRows takes in all that is left of it when nobody writes it any more.
func (r *run) readLastRows() {
	for r.takeRows(true) > 0 && !r.watchdog.interrupted() {
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
	if r.exitAt > 0 { // rows that are read late are not later than the job
		at = r.exitAt
	}
	for i := range rows {
		r.progress.Add(&rows[i], at)
		r.learnTraining(&rows[i])
		r.tabulate(&rows[i], at, i == len(rows)-1)
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
	for _, c := range [...]struct {
		column monitor.Column
		into   *journal.Number
	}{{monitor.ModelParams, &t.ModelParams}, {monitor.ModelLayers, &t.ModelLayers}, {monitor.DataCount, &t.DataCount},
		{monitor.DataSizeMB, &t.DataSizeMB}, {monitor.BatchSize, &t.BatchSize}, {monitor.TrainLoss, &t.TrainLoss},
		{monitor.TrainAccuracy, &t.TrainAccuracy}, {monitor.TestLoss, &t.TestLoss}, {monitor.TestAccuracy, &t.TestAccuracy}} {
		if v, ok := row.Value(c.column); ok {
			*c.into = journal.Number(v)
		}
	}
	for _, v := range []monitor.Column{monitor.TrainLoss, monitor.TestLoss} {
		if x, ok := row.Value(v); ok && (math.IsInf(x, 0) || x > 1e300) {
			r.warn(fmt.Sprintf("the loss is infinite at line %d of the log", row.Line))
		}
	}
}

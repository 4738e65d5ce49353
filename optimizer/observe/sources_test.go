package observe

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
)

func epochsOf(rows []trainlog.Row) []float64 {
	out := []float64{}
	for i := range rows {
		if e, ok := rows[i].Value(trainlog.Epoch); ok {
			out = append(out, e)
		}
	}
	return out
}

// A data file with a column epoch is not a log, although the job itself writes it: the printed progress contradicts
// it.
func TestDataFileIsNoLog(t *testing.T) {
	j := startJob(t, LogOptions{Dir: t.TempDir()}, "data dataset_out.csv 8 20")
	j.waitFor("end", j.done)
	j.poll()
	j.finish()
	epochs := epochsOf(j.rows)
	if j.source.Evidence != Output || len(epochs) == 0 || epochs[len(epochs)-1] != 7 {
		t.Errorf("%s, epochs %v", j.source, epochs)
	}
	if notes := fmt.Sprint(j.reader.Notes()); !strings.Contains(notes, "dataset_out.csv is not used as the log") {
		t.Errorf("notes %s", notes)
	}
}

// A training that logs to a file of text alone is read from it; if it prints its progress as well, it is read from the output.
func TestTextIsALogWithoutOutput(t *testing.T) {
	for kind, want := range map[string]bool{"text train.log": true, "text log.txt": true, "copy train.log": false, "text notes.txt": false} {
		j := startJob(t, LogOptions{Dir: t.TempDir()}, kind+" 8 20")
		j.waitFor("end", j.done)
		for range 4 {
			j.poll()
		}
		j.finish()
		epochs := epochsOf(j.rows)
		found := len(epochs) == 8 && j.source.Evidence.Discovered() && j.source.Evidence != Output
		if found != want || !want && kind == "copy train.log" && len(epochs) != 8 {
			t.Errorf("%s: %s, epochs %v", kind, j.source, epochs)
		}
		if notes := j.reader.Notes(); len(notes) > 0 {
			t.Errorf("%s: notes %q", kind, notes)
		}
	}
}

// TestFirstPrinted: the first epoch of a launch is that of its first result, or of a line that the next epoch follows; a setting
// is neither. The second one, which other results of the first may precede, shows whether each epoch is printed.
func TestFirstPrinted(t *testing.T) {
	for text, want := range map[string]struct {
		first float64
		each  bool
	}{
		"decay at epoch 61\nEpoch 21 loss 0.5\n": {21, false}, "decay at epoch 61\nEpoch 21\nEpoch 22\nEpoch 23\n": {21, true}, "warmup until epoch 5\n": {0, false},
		"Epoch 3/9\n": {2, false}, "Epoch 1 loss 3\nEpoch 6 loss 2\nEpoch 7 loss 1\n": {1, false}, "Epoch 1 loss 3\nEpoch 1 loss 2\nEpoch 2 loss 1\n": {1, true},
	} {
		j := startJob(t, LogOptions{Dir: t.TempDir()}, "")
		if err := os.WriteFile(j.reader.options.Stdout, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		j.poll()
		if e, ok := j.reader.FirstPrinted(); e != want.first || ok != (want.first > 0) || j.reader.PrintsEachEpoch() != want.each {
			t.Errorf("%q: first printed epoch %g, %t, each %t, want %+v", text, e, ok, j.reader.PrintsEachEpoch(), want)
		}
	}
}

// TestRefusedFilesAreNotedOnce checks that of many files of a folder that are refused for the same reason one is named, and none
// that a library has written as a temporary file.
func TestRefusedFilesAreNotedOnce(t *testing.T) {
	job := filepath.Join(os.TempDir(), "job")
	f := finder{options: &LogOptions{Dir: job}, refused: map[fileID]string{}, noted: map[string]bool{}}
	for i, c := range []struct{ path, why string }{{"a/1.csv", "no result"}, {"a/2.csv", "no result"}, {"a/3.csv", "no table"}, {"b/1.csv", "no result"},
		{filepath.Join(os.TempDir(), "of-a-library", "1.csv"), "no table"}, {filepath.Join(job, "1.csv"), "no table"}} {
		f.refuse(candidate{path: c.path, look: fileMeta{id: fileID{inode: uint64(i)}}}, c.why)
	}
	want := []string{"a/1.csv is not used as the log: no result", "a/3.csv is not used as the log: no table", "b/1.csv is not used as the log: no result", filepath.Join(job, "1.csv") + " is not used as the log: no table"}
	if len(f.refused) != 6 || !slices.Equal(f.notes, want) {
		t.Errorf("%d refused, notes %q, want %q", len(f.refused), f.notes, want)
	}
}

// A log that the user named and that cannot be read is noted once, even if another source is in use; one that does not
// exist yet is not.
func TestUnreadableNamedLogIsNoted(t *testing.T) {
	dir := t.TempDir()
	loop, file := filepath.Join(dir, "loop.csv"), filepath.Join(dir, "file")
	if err := errors.Join(os.Symlink(loop, loop), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"a loop of links":  {loop, "too many levels of symbolic links"},
		"below a file":     {filepath.Join(file, "log.csv"), "not a directory"},
		"a directory":      {dir, "no event files"},
		"not created yet":  {filepath.Join(dir, "log.csv"), ""},
		"no directory yet": {filepath.Join(dir, "out", "log.csv"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := OpenLog(LogOptions{Dir: dir, Named: c.path, Stdout: filepath.Join(dir, "stdout"), Stderr: filepath.Join(dir, "stderr")}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var notes []string
			for i := range 3 {
				if _, err := r.Poll(time.Now().Add(time.Duration(i) * time.Minute)); err != nil {
					t.Error(err)
				}
				notes = append(notes, r.Notes()...)
			}
			if c.want == "" && len(notes) > 0 || c.want != "" && (len(notes) != 1 || !strings.Contains(notes[0], c.path+": ") || !strings.Contains(notes[0], c.want)) {
				t.Errorf("notes %q, want one with %q", notes, c.want)
			}
		})
	}
}

// Of the locations of a log that moves, the newest comes first, even if the evidence for an older one is better.
func TestNewestDocumentFirst(t *testing.T) {
	dir := t.TempDir()
	j := startJob(t, LogOptions{Dir: dir}, "")
	start := time.Now()
	for i, e := range []evidenceLine{openForWriting, wrote, wrote} {
		path := filepath.Join(dir, fmt.Sprintf("checkpoint-%d", i), "trainer_state.json")
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		appendFile(t, path, fmt.Sprintf(`{"log_history": [{"epoch": %d, "step": %d, "loss": 1}]}`, i+1, i+1))
		at := start.Add(time.Duration(i) * time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		l, err := lookAt(path)
		if err != nil {
			t.Fatal(err)
		}
		j.reader.find.writers.note(l.id, path, e)
	}
	ready := j.reader.find.look(j.now, j.reader.out, time.Minute, false)
	if len(ready) != 3 || filepath.Base(filepath.Dir(ready[0].path)) != "checkpoint-2" {
		t.Errorf("%d candidates, first %v", len(ready), ready)
	}
}

// A log that is written under another name and then renamed is recognised as the job's.
func TestRenamedLogIsFollowed(t *testing.T) {
	if !reportsPermitted() {
		t.Skip("fanotify is not permitted here")
	}
	j := startJob(t, LogOptions{Dir: t.TempDir()}, "rename log.csv 10 30")
	j.waitFor("end", j.done)
	j.finish()
	if got, want := fmt.Sprint(epochsOf(j.rows)), "[1 2 3 4 5 6 7 8 9 10]"; got != want || j.source.Evidence != wrote && j.source.Evidence != openForWriting {
		t.Errorf("%s, epochs %s, want %s", j.source, got, want)
	}
}

// The state of a Hugging Face Trainer moves with each checkpoint: the reader follows it to the newest location,
// returns each entry once, and drops it when the output contains more.
func TestTrainerStateMoves(t *testing.T) {
	if !reportsPermitted() {
		t.Skip("fanotify is not permitted here")
	}
	j := startJob(t, LogOptions{Dir: t.TempDir()}, "checkpoints out 6 60")
	j.waitFor("end", j.done)
	j.waitFor("last entry", func() bool { e := epochsOf(j.rows); return len(e) > 0 && e[len(e)-1] == 3 })
	if got, want := fmt.Sprint(epochsOf(j.rows)), "[0.5 0.5 1 1 1.5 1.5 2 2 2.5 2.5 3 3]"; got != want {
		t.Errorf("epochs %s, want %s", got, want)
	}
	if want := filepath.Join(j.reader.options.Dir, "out", "checkpoint-60", "trainer_state.json"); j.source.Path != want {
		t.Errorf("read %s, want %s", j.source.Path, want)
	}
	appendFile(t, j.reader.options.Stdout, "Epoch 4/4 loss 0.1\n")
	j.poll()
	j.poll()
	if j.source.Evidence != Output {
		t.Errorf("the output tells more, and %s is read", j.source)
	}
	j.finish()
}

func appendFile(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// All rows are read at the end, including those after a line longer than one poll reads.
func TestLastRowsBehindALongLine(t *testing.T) {
	dir := t.TempDir()
	for _, named := range []string{"", filepath.Join(dir, "log.csv")} {
		j := startJob(t, LogOptions{Dir: dir, Named: named}, "long log.csv 10 1")
		for !j.done() { // nothing is read before the end
			time.Sleep(10 * time.Millisecond)
		}
		j.finish()
		if got, want := fmt.Sprint(epochsOf(j.rows)), "[1 2 3 4 5 6 7 8 9 10]"; got != want || j.reader.Stats().Bad != 1 {
			t.Errorf("named %q: epochs %s, want %s; %d bad lines", named, got, want, j.reader.Stats().Bad)
		}
		os.Remove(filepath.Join(dir, "log.csv"))
	}
}

// Without the kernel's reports, the only file that grows when the job writes is its log; a file on the command line
// requires fewer growths.
func TestSoleWriter(t *testing.T) {
	for evidence, args := range map[evidenceLine][]string{soleWriter: nil, onCommandLine: {"--out=log.csv"}} {
		j := startJob(t, LogOptions{Dir: t.TempDir(), WithoutReports: true, Args: args}, "append log.csv 40 60")
		for deadline := time.Now().Add(2 * time.Minute); j.source.Evidence <= Output && !j.done(); time.Sleep(7 * time.Millisecond) {
			if j.poll(); time.Now().After(deadline) {
				t.Fatal("no end")
			}
		}
		j.finish()
		if e := j.source.Evidence; e != evidence && e != openForWriting {
			t.Errorf("%s, want %s", j.source, evidence)
		}
		if got := len(epochsOf(j.rows)); got != 40 {
			t.Errorf("%s: %d rows", evidence, got)
		}
	}
}

// A job that prints in step with the log of another, and writes no file, does not read that log.
func TestPrintingInStepIsNoWriting(t *testing.T) {
	a := newAccounting()
	id := fileID{inode: 1}
	f := &growth{}
	a.files[id] = f
	for i := range 40 {
		wrote := uint64(1000 + 20*(i/2))
		last := uint64(1000 + 20*(max(i-1, 0)/2))
		f.add(int64(30*(i/2)), last, wrote, wrote, int64(20*(i/2)), i > 0)
	}
	if e, _ := a.verdict(id, true); e != noEvidence {
		t.Errorf("evidence %s for a job that only prints", e)
	}
	g := &growth{}
	a.files[id] = g
	for i := range 40 {
		wrote := uint64(1000 + 50*(i/2))
		last := uint64(1000 + 50*(max(i-1, 0)/2))
		g.add(int64(30*(i/2)), last, wrote, wrote, int64(20*(i/2)), i > 0)
	}
	if e, _ := a.verdict(id, false); e != soleWriter {
		t.Errorf("evidence %s for the only writer", e)
	}
}

// A better source takes over: the log that the user named before $OPTIMIZER_LOG, this before an observer, that before
// output.
func TestPriorityOfSources(t *testing.T) {
	dir := t.TempDir()
	seen := &rowsOf{}
	o := LogOptions{Dir: dir, Named: filepath.Join(dir, "named.csv"), Own: filepath.Join(dir, "own.csv"), Observer: seen}
	j := startJob(t, o, "")
	sources := []string{}
	step := func() {
		j.poll()
		if s := j.reader.Source(); s.Evidence != noEvidence {
			sources = slices.Compact(append(sources, s.Evidence.String()))
		}
	}
	step()
	appendFile(t, j.reader.options.Stdout, "Epoch 1/4 loss 0.1\n")
	step()
	seen.rows = make([]trainlog.Row, 1)
	seen.rows[0].Set(trainlog.Step, 5)
	step()
	appendFile(t, o.Own, "epoch,loss\n1,0.5\n")
	step()
	step()
	appendFile(t, o.Named, "epoch,train_loss\n1,0.5\n")
	step()
	if got, want := fmt.Sprint(sources), "[output of the job observer $OPTIMIZER_LOG named by the user]"; got != want {
		t.Errorf("sources %s, want %s", got, want)
	}
	if s := j.reader.Source(); s.Evidence.Discovered() || !strings.HasPrefix(s.String(), "log: "+o.Named+" (csv, named by the user)") {
		t.Errorf("%s", s)
	}
}

// TestPrintedLosses: the losses that a training prints complete the observer's rows, which have precedence.
func TestPrintedLosses(t *testing.T) {
	dir := t.TempDir()
	seen := &rowsOf{}
	j := startJob(t, LogOptions{Dir: dir, Observer: seen}, "")
	var rows []trainlog.Row
	take := func(more []trainlog.Row, err error) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, more...)
	}
	poll := func(step, own float64) {
		seen.rows = make([]trainlog.Row, 1)
		seen.rows[0].Set(trainlog.Step, step)
		seen.rows[0].Set(trainlog.TestLoss, own)
		take(j.reader.Poll(time.Now()))
	}
	appendFile(t, j.reader.options.Stdout, "iter 1: loss 5.5, val loss 6\n")
	poll(1, 7)
	poll(2, math.NaN())
	appendFile(t, j.reader.options.Stdout, "iter 3: loss 4.5\n")
	poll(3, math.NaN())
	appendFile(t, j.reader.options.Stdout, "iter 4: loss 3.5\n")
	take(j.reader.Finish(time.Now()))
	got := ""
	for _, r := range rows {
		step, _ := r.Value(trainlog.Step)
		train, _ := r.Value(trainlog.TrainLoss)
		test, _ := r.Value(trainlog.TestLoss)
		got += fmt.Sprintf("%g:%g/%g ", step, train, test)
	}
	if want := "1:5.5/7 2:NaN/NaN 3:4.5/NaN NaN:3.5/NaN "; got != want {
		t.Errorf("steps with losses %s, want %s", got, want)
	}
}

// TestLogAfterTheObservedTraining: when the observed processes have ended, a log that the job creates afterwards is read; one
// that existed before is not.
func TestLogAfterTheObservedTraining(t *testing.T) {
	if !reportsPermitted() {
		t.Skip("fanotify is not permitted here")
	}
	for want, ended := range map[string]time.Time{
		"[5 1 2 3 4 5 6] written by the job": time.Now(),
		"[5] observer":                       time.Now().Add(time.Hour), // the log is older
		"[5] observer, trains":               {},
	} {
		seen := &rowsOf{rows: make([]trainlog.Row, 1), ended: ended}
		seen.rows[0].Set(trainlog.Epoch, 5)
		j := startJob(t, LogOptions{Dir: t.TempDir(), Observer: seen}, "append log.csv 6 30")
		got := func() string {
			evidence := j.source.Evidence
			if evidence == openForWriting { // a poll met the job while it had the file open, for an instant
				evidence = wrote
			}
			return fmt.Sprint(epochsOf(j.rows), " ", evidence)
		}
		j.waitFor("end", j.done)
		j.waitFor(want, func() bool { return strings.HasPrefix(want, got()) }) // the kernel reports writes late on a busy machine
		j.finish()
		if !strings.HasPrefix(want, got()) {
			t.Errorf("epochs and source %s, want %s", got(), want)
		}
	}
}

// rowsOf is an observer that returns its rows once.
type rowsOf struct {
	rows  []trainlog.Row
	given int
	ended time.Time
}

func (r *rowsOf) Poll(time.Time, bool) ([]trainlog.Row, error) {
	out := r.rows
	r.given, r.rows = r.given+len(out), nil
	return out, nil
}
func (r *rowsOf) Sized() bool      { return true }
func (r *rowsOf) Ended() time.Time { return r.ended }

func (r *rowsOf) Stats() trainlog.TailStats {
	return trainlog.TailStats{Path: "observer", Rows: r.given}
}
func (r *rowsOf) Close() error { return nil }

// A log that grows by far more than one poll can read does not block its caller: one poll reads a bounded part.
func TestFastLogDoesNotHoldThePoll(t *testing.T) {
	dir := t.TempDir()
	j := startJob(t, LogOptions{Dir: dir, Named: filepath.Join(dir, "fast.csv")}, "")
	var text strings.Builder
	text.WriteString("epoch,train_loss\n")
	for i := range 400_000 {
		fmt.Fprintf(&text, "%d,1\n", i+1)
	}
	appendFile(t, filepath.Join(dir, "fast.csv"), text.String())
	j.poll()
	if len(j.rows) == 0 || len(j.rows) > 20_000 || j.reader.Behind() == 0 {
		t.Errorf("%d rows in one poll, %d bytes left", len(j.rows), j.reader.Behind())
	}
}

// Steps of a bar on standard error and epochs on standard output form one progress; two counts of steps are not
// mixed.
func TestOutputStreamsAreNotMixed(t *testing.T) {
	for name, c := range map[string]struct{ stdout, stderr, want string }{
		"epochs and steps":     {"{'loss': '0.5', 'epoch': '0.5'}\n", "10%|# | 3/30 [00:09<01:00]\r", "epoch=0.5 step=3/30"},
		"two counts of steps":  {"step 7: loss 0.5\n", "10%|# | 3/30 [00:09<01:00]\r", "step=3/30"},
		"results of the other": {"Epoch 2/4 loss 1\n", "epoch: 9 val_loss: 0.7\n", "epoch=2"},
	} {
		j := startJob(t, LogOptions{Dir: t.TempDir()}, "")
		appendFile(t, j.reader.options.Stdout, c.stdout)
		appendFile(t, j.reader.options.Stderr, c.stderr)
		j.now = j.now.Add(time.Second)
		rows, err := j.reader.Poll(j.now)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rows {
			if e, ok := r.Value(trainlog.Epoch); ok {
				got = append(got, fmt.Sprintf("epoch=%g", e))
			}
			if s, ok := r.Value(trainlog.Step); ok {
				total, _ := r.Value(trainlog.TotalSteps)
				got = append(got, fmt.Sprintf("step=%g/%g", s, total))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// An agent that takes over a run continues in the log where its predecessor stopped. Everything written since the run
// began belongs to the run, even in a log that had not been discovered.
func TestContinue(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	path := filepath.Join(dir, "log.csv")
	first := startJob(t, LogOptions{Dir: dir, Own: path}, "")
	appendFile(t, path, "epoch,train_loss\n1,0.5\n2,0.4\n")
	first.poll()
	state := first.reader.Tail().State()
	appendFile(t, path, "3,0.3\n")
	second := startJob(t, LogOptions{Dir: dir, Own: path}, "")
	second.reader.Continue(path, began)
	if err := second.reader.Resume(path, state); err != nil {
		t.Fatal(err)
	}
	if at := second.reader.Tail(); at == nil || at.State().Offset != state.Offset { // an agent may die before it polls
		t.Errorf("the position %d is lost", state.Offset)
	}
	second.poll()
	if got := fmt.Sprint(epochsOf(second.rows)); got != "[3]" || second.source.Evidence != ownLog {
		t.Errorf("epochs %s of %s, want [3]", got, second.source)
	}
	third := startJob(t, LogOptions{Dir: dir, Own: path}, "")
	third.reader.Continue(path, began)
	third.poll()
	if got := fmt.Sprint(epochsOf(third.rows)); got != "[1 2 3]" {
		t.Errorf("epochs %s of a log that was not found before, want [1 2 3]", got)
	}
}

// TestContinueByANewLaunch: of a log that is found after the job of an earlier agent was started again, only what the new one
// appends is read; of that of an adopted job, all.
func TestContinueByANewLaunch(t *testing.T) {
	for launched, want := range map[bool]string{false: "[1 2 3]", true: "[3]"} {
		dir, began := t.TempDir(), time.Now()
		path := filepath.Join(dir, "log.csv")
		appendFile(t, path, "epoch,train_loss\n1,0.5\n2,0.4\n")
		j := startJob(t, LogOptions{Dir: dir}, "")
		j.reader.Continue("", began)
		if launched {
			j.reader.Relaunched()
		}
		appendFile(t, path, "3,0.3\n")
		found, err := lookAt(path)
		if err != nil {
			t.Fatal(err)
		}
		tail, err := j.reader.find.open(path, found)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := read(tail, j.now, true)
		tail.Close()
		if got := fmt.Sprint(epochsOf(rows)); err != nil || got != want {
			t.Errorf("launched %t: epochs %s (%v), want %s", launched, got, err, want)
		}
	}
}

// TestOutputOfAnEarlierEngine: a run that returns to an engine appends to the output that it wrote there before, of which only what
// the new job appends is read.
func TestOutputOfAnEarlierEngine(t *testing.T) {
	dir := t.TempDir()
	here, there := filepath.Join(dir, "job.stdout"), filepath.Join(dir, "stretch.stdout")
	appendFile(t, here, "Epoch 1/9 loss 0.5\nEpoch 2/9 loss 0.4\nEpoch 3/9")
	appendFile(t, there, "Epoch 3/9 loss 0.3\n")
	away, err := openOutput(there, filepath.Join(dir, "stretch.stderr"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := away.poll(time.Now(), true); err != nil {
		t.Fatal(err)
	}
	back, err := openOutput(here, filepath.Join(dir, "job.stderr"), nil, away.states())
	away.close()
	if err != nil {
		t.Fatal(err)
	}
	defer back.close()
	appendFile(t, here, "\nEpoch 4/9 loss 0.2\n")
	if rows, err := back.poll(time.Now(), true); err != nil || fmt.Sprint(epochsOf(rows)) != "[4]" {
		t.Errorf("epochs %v (%v), want [4]", epochsOf(rows), err)
	}
}

// TestRowsAreDatedByTheirFile: a row that is read late has the time of its file; file times of another clock are
// ignored.
func TestRowsAreDatedByTheirFile(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for name, c := range map[string]struct{ changed, want time.Duration }{
		"read late":         {-10 * time.Second, -10 * time.Second},
		"after the poll":    {time.Second, time.Second},
		"clock moved ahead": {-time.Hour, 0},
		"clock moved back":  {time.Hour, 0},
	} {
		stdout, stderr := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "err")
		appendFile(t, stderr, "")
		appendFile(t, stdout, "Epoch 1/9 loss 0.5\n")
		o, err := openOutput(stdout, stderr, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(stdout, now.Add(c.changed), now.Add(c.changed)); err != nil {
			t.Fatal(err)
		}
		rows, err := o.poll(now, true)
		o.close()
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %d rows, %v", name, len(rows), err)
		}
		if got := rows[0].At.Sub(now); got != c.want {
			t.Errorf("%s: dated %s from the poll, want %s", name, got, c.want)
		}
	}
}

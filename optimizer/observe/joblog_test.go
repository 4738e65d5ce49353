package observe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trainopt/monitor/trainlog"
)

// The test binary is also the training: re-executed with this variable, it writes a log as specified by the
// variable's value.
const roleVariable = "JOBLOG_TEST_TRAINING"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := train(strings.Fields(role)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// train is a small training, "KIND PATH ROWS MILLISECONDS", that ends with its standard input:
//
//	append       writes ROWS rows, opening the log for each
//	open         the same, opening it once
//	rename       rewrites it whole for each row under another name
//	data         prints ROWS epochs, and writes a data file with a column epoch
//	checkpoints  writes checkpoint-N/trainer_state.json below PATH at each of ROWS steps
//	text         logs ROWS epochs to PATH as lines of text
//	copy         the same, and prints them too
//	long         is open with a line of 3 MiB after half of the rows
func train(words []string) error {
	kind, path := words[0], words[1]
	rows, _ := strconv.Atoi(words[2])
	pause, _ := strconv.Atoi(words[3])
	switch kind {
	case "data":
		return writeData(path, rows, pause)
	case "text", "copy":
		return writeText(path, rows, pause, kind == "copy")
	case "checkpoints":
		return writeCheckpoints(path, rows, pause)
	case "rename":
		return writeRenamed(path, rows, pause)
	}
	var f *os.File
	open := func() (err error) {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		return err
	}
	line := func(text string) error {
		if f == nil {
			if err := open(); err != nil {
				return err
			}
		}
		if _, err := f.WriteString(text); err != nil {
			return err
		}
		if kind == "append" {
			err := f.Close()
			f = nil
			return err
		}
		return nil
	}
	if err := line("epoch,train_loss,model_name\n"); err != nil {
		return err
	}
	for i := 1; i <= rows; i++ {
		if kind == "long" && i == rows/2+1 {
			if err := line(strings.Repeat("x", 3<<20) + "\n"); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
		if err := line(fmt.Sprintf("%d,%g,%s\n", i, 1/float64(i), filepath.Base(path))); err != nil {
			return err
		}
	}
	return wait()
}

// wait reports that everything is written and waits for the end of the standard input.
func wait() error {
	fmt.Println("done")
	os.Stdin.Read(make([]byte, 1))
	return nil
}

func writeData(path string, epochs, pause int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	fmt.Fprintln(f, "epoch,x,y")
	for e := range epochs {
		fmt.Printf("Epoch %d/%d\n", e+1, epochs)
		for i := range 6000 {
			fmt.Fprintf(f, "%d,%d,%d\n", e*6000+i+1, i, i)
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
	return wait()
}

func writeText(path string, epochs, pause int, printed bool) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for e := range epochs {
		line := fmt.Sprintf("2026-11-27 10:00:00,000 INFO epoch %d/%d: train loss 0.5\n", e+1, epochs)
		if fmt.Fprint(f, line); printed {
			fmt.Print(line)
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
	return wait()
}

func writeCheckpoints(dir string, steps, pause int) error {
	var entries []string
	for i := 1; i <= steps; i++ {
		entries = append(entries, fmt.Sprintf(`{"epoch": %g, "step": %d, "loss": 0.5}, {"epoch": %g, "step": %d, "eval_loss": 0.4}`, float64(i)/2, i*10, float64(i)/2, i*10))
		at := filepath.Join(dir, fmt.Sprintf("checkpoint-%d", i*10))
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		text := `{"log_history": [` + strings.Join(entries, ",") + fmt.Sprintf(`], "max_steps": %d}`, steps*10)
		if err := os.WriteFile(filepath.Join(at, "trainer_state.json"), []byte(text), 0o644); err != nil {
			return err
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
	return wait()
}

func writeRenamed(path string, rows, pause int) error {
	text := "epoch,train_loss,model_name\n"
	for i := 1; i <= rows; i++ {
		text += fmt.Sprintf("%d,%g,%s\n", i, 1/float64(i), filepath.Base(path))
		if err := errors.Join(os.WriteFile(path+".partial", []byte(text), 0o644), os.Rename(path+".partial", path)); err != nil {
			return err
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
	return wait()
}

// job is one training and its reader.
type job struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  interface{ Close() error }
	reader *LogReader
	rows   []trainlog.Row
	now    time.Time
	source logSource
}

// PIDs returns the process tree of the training: one process.
func (j *job) PIDs() ([]int, error) {
	if j.cmd == nil || j.cmd.Process == nil {
		return nil, errors.New("not started")
	}
	return []int{j.cmd.Process.Pid}, nil
}

// startJob opens the reader, then starts a training in the working directory of the reader.
func startJob(t *testing.T, o LogOptions, role string) *job {
	t.Helper()
	run := t.TempDir()
	o.Stdout, o.Stderr = filepath.Join(run, "job.stdout"), filepath.Join(run, "job.stderr")
	j := &job{t: t, now: time.Now()}
	var err error
	if j.reader, err = OpenLog(o, j.now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.reader.Close() })
	if role == "" {
		return j
	}
	out, err := os.Create(o.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	j.cmd = exec.Command(os.Args[0])
	j.cmd.Env, j.cmd.Dir, j.cmd.Stdout = append(os.Environ(), roleVariable+"="+role), o.Dir, out
	stdin, err := j.cmd.StdinPipe()
	if err == nil {
		err = j.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	j.stdin = stdin
	t.Cleanup(func() { j.cmd.Process.Kill(); j.cmd.Wait() })
	j.reader.Attach(j, 0)
	return j
}

// poll advances the reader's clock by a second, so that it scans again, and reads.
func (j *job) poll() {
	j.now = j.now.Add(2 * time.Second)
	rows, err := j.reader.Poll(j.now)
	if err != nil {
		j.t.Error(err)
	}
	j.take(rows)
}

func (j *job) take(rows []trainlog.Row) {
	for _, r := range rows {
		if _, ok := r.Value(trainlog.Epoch); ok {
			j.rows = append(j.rows, r)
		}
	}
	j.source = j.reader.Source()
}

// finish ends the training and reads to the end.
func (j *job) finish() {
	j.stdin.Close()
	j.cmd.Wait()
	for range 10000 {
		j.now = j.now.Add(time.Second)
		rows, err := j.reader.Finish(j.now)
		if err != nil {
			j.t.Fatal(err)
		}
		if j.take(rows); len(rows) == 0 && j.reader.Behind() == 0 {
			return
		}
	}
	j.t.Fatal("the log has no end")
}

// waitFor polls until a condition holds.
func (j *job) waitFor(what string, ok func() bool) {
	j.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			j.t.Fatalf("no %s: source %v, %d rows, notes %q", what, j.source, len(j.rows), j.reader.Notes())
		}
		j.poll()
	}
}

func (j *job) done() bool {
	data, _ := os.ReadFile(j.reader.options.Stdout)
	return strings.Contains(string(data), "done")
}

func reportsPermitted() bool {
	f, err := openFanotify(func(closed) {})
	if err == nil {
		f.Close()
	}
	return err == nil
}

// Twenty concurrent trainings in one directory, each with its own log; half of the logs are opened for each row, half
// are held open. Each reader follows its own training's log and returns all its rows. A wrong log is never read;
// without the kernel's reports, a log that is opened for each row may remain undetected.
func TestTwentyTrainingsInOneDirectory(t *testing.T) {
	for name, without := range map[string]bool{"with reports": false, "without reports": true} {
		t.Run(name, func(t *testing.T) {
			if !without && !reportsPermitted() {
				t.Skip("fanotify is not permitted here")
			}
			dir := t.TempDir()
			const rows = 15
			jobs := make([]*job, 20)
			for i := range jobs {
				kind := map[bool]string{true: "append", false: "open"}[i%2 == 0]
				jobs[i] = startJob(t, LogOptions{Dir: dir, WithoutReports: without}, fmt.Sprintf("%s log-%d.csv %d %d", kind, i, rows, 100+7*i))
			}
			var wait sync.WaitGroup
			for _, j := range jobs {
				wait.Go(func() { j.waitFor("end", j.done); j.finish() })
			}
			wait.Wait()
			for i, j := range jobs {
				own := filepath.Join(dir, fmt.Sprintf("log-%d.csv", i))
				if log := j.source.Evidence; log > Output && j.source.Path != own {
					t.Errorf("training %d: read %s", i, j.source)
				}
				for _, r := range j.rows {
					if r.Model != filepath.Base(own) {
						t.Fatalf("training %d: a row of %s", i, r.Model)
					}
				}
				if known := !without || i%2 == 1; known && (j.source.Path != own || len(j.rows) != rows) {
					t.Errorf("training %d: %s, %d rows, want %d; notes %q", i, j.source, len(j.rows), rows, j.reader.Notes())
				}
			}
		})
	}
}

// A log that another program appends to is not read for a job that writes no file, with or without the kernel's
// reports.
func TestUnrelatedWriterIsNotRead(t *testing.T) {
	for _, without := range []bool{false, true} {
		for _, kind := range []string{"append", "open"} {
			dir := t.TempDir()
			silent := startJob(t, LogOptions{Dir: dir, WithoutReports: without}, "append "+filepath.Join(t.TempDir(), "elsewhere.txt")+" 1 1")
			other := startJob(t, LogOptions{Dir: dir, WithoutReports: without}, kind+" unrelated.csv 12 30")
			silent.waitFor("end of the other", other.done)
			other.finish()
			silent.finish()
			if silent.source.Evidence > Output || len(silent.rows) > 0 {
				t.Errorf("without reports %v, %s: %s with %d rows", without, kind, silent.source, len(silent.rows))
			}
		}
	}
}

// Two jobs that append to one file: neither reader reads it, also if one of them was alone at first, and both report why.
func TestSharedLogIsRefused(t *testing.T) {
	if !reportsPermitted() {
		t.Skip("fanotify is not permitted here")
	}
	for name, alone := range map[string]bool{"from the beginning": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			const endless = "append log.csv 1000000 30"
			a := startJob(t, LogOptions{Dir: dir}, endless)
			if alone {
				a.waitFor("rows of the only writer", func() bool { return len(a.rows) > 0 && a.source.Path == filepath.Join(dir, "log.csv") })
			}
			b := startJob(t, LogOptions{Dir: dir}, endless)
			for _, j := range []*job{a, b} {
				notes := ""
				j.waitFor("refusal", func() bool {
					notes += fmt.Sprint(j.reader.Notes())
					return strings.Contains(notes, "log.csv is not used as the log: other processes write it too")
				})
			}
			for _, j := range []*job{a, b} {
				j.poll()
				j.cmd.Process.Kill()
				j.finish()
				if j.source.Evidence > Output {
					t.Errorf("read %s", j.source)
				}
			}
		})
	}
}

// A file below a state directory is never used as a log, even if the job itself writes there.
func TestStateDirectoryIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "states", "runs", "r1")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "run.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	j := startJob(t, LogOptions{Dir: dir}, "open states/runs/r1/extended.csv 5 10")
	j.waitFor("end", j.done)
	j.poll()
	j.finish()
	if j.source.Evidence > Output || len(j.rows) > 0 {
		t.Errorf("read %s, %d rows", j.source, len(j.rows))
	}
}

// Content of a log from before the start does not belong to this run, whatever its size.
func TestEarlierRowsAreLeftOut(t *testing.T) {
	for name, before := range map[string]string{
		"short": "epoch,train_loss,model_name\n1,0.5,old\n2,0.4,old\n",
		"long":  "epoch,train_loss,model_name\n" + strings.Repeat("1,0.5,old\n", 1<<20),
		"half":  "epoch,train_loss,model_name\n1,0.5,old\n2,0.4,old",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "log.csv")
		if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		j := startJob(t, LogOptions{Dir: dir}, "open log.csv 5 1")
		if read := j.reader.find.past.read; read > headBytes {
			t.Errorf("%s: %d bytes were read before the start", name, read)
		}
		j.waitFor("end", j.done)
		j.poll()
		j.finish()
		got := ""
		for _, r := range j.rows {
			e, _ := r.Value(trainlog.Epoch)
			got += fmt.Sprintf("%g %s ", e, r.Model)
		}
		if want := strings.Replace("1 log.csv 2 log.csv 3 log.csv 4 log.csv 5 log.csv ", "", "", 1); got != want {
			t.Errorf("%s: rows %q, want %q (%s)", name, got, want, j.source)
		}
	}
}

// Before the start, a bounded part of a few files is read, and no special files, whatever the directory contains.
func TestStartReadsLittle(t *testing.T) {
	dir := t.TempDir()
	sparse, err := os.Create(filepath.Join(dir, "train.csv"))
	if err == nil {
		_, err = sparse.WriteString("epoch,loss\n1,2\n")
	}
	if err == nil {
		err = sparse.Truncate(8 << 30)
	}
	if err != nil {
		t.Skipf("this file system has no sparse files of 8 GiB: %v", err)
	}
	sparse.Close()
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "pipe.csv"), 0o644), os.Symlink("/dev/zero", filepath.Join(dir, "zero.csv"))); err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		sub := filepath.Join(dir, strconv.Itoa(i%50))
		if i < 50 {
			os.Mkdir(sub, 0o755)
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("%d.csv", i)), []byte("a,b\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, named := range []string{"", "train.csv", "pipe.csv", "zero.csv"} {
		o := LogOptions{Dir: dir, Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err")}
		if named != "" {
			o.Named = filepath.Join(dir, named)
		}
		r, err := OpenLog(o, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		p := r.find.past
		if p.read > 2*headBytes+4*maxOld || len(p.files) > maxOld || p.seen > maxEntries {
			t.Errorf("%s: %d bytes of %d files read, %d entries seen", named, p.read, len(p.files), p.seen)
		}
		for range 3 {
			if _, err := r.Poll(time.Now().Add(10 * time.Second)); err != nil && !errors.Is(err, errNotRegular) {
				t.Errorf("%s: %v", named, err)
			}
		}
		r.Close()
	}
}

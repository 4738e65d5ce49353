package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// keeperPeakMiB returns the peak memory of a keeper so far.
func keeperPeakMiB(t testing.TB, h Handle) float64 { return statusMiB(t, h.KeeperPID, "VmHWM:") }

func statusMiB(t testing.TB, pid int, key string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return 0 // it has just ended
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), key)
	if !ok {
		return 0 // a zombie has no memory
	}
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

// 10,000 lines per second on stderr: all of them arrive, and the keeper's memory is bounded.
func TestTenThousandLinesASecond(t *testing.T) {
	t.Parallel()
	const lines = 20000
	c := testCommand(t, "flood", strconv.Itoa(lines), "10000")
	j := start(t, testLocal(), c)
	var peak float64
	for done := false; !done; {
		select {
		case <-j.Done():
			done = true
		case <-time.After(100 * time.Millisecond):
			if (process{j.Handle().KeeperPID, j.Handle().KeeperStart}).alive() {
				peak = max(peak, keeperPeakMiB(t, j.Handle()))
			}
		}
	}
	out := output(t, c.RunDir, stderrFile)
	if n := strings.Count(out, "\n"); n != lines || !strings.HasPrefix(out, "line 0 ") {
		t.Errorf("%d lines arrived, want %d", n, lines)
	}
	t.Logf("keeper: at most %.1f MiB", peak)
	if peak > 64 {
		t.Errorf("the keeper took %.1f MiB, want below 64", peak)
	}
}

// A line of 100 MB needs no additional memory, and its file is rotated at the limit.
func TestHundredMegabyteLine(t *testing.T) {
	l := testLocal()
	l.LogLimit = 8 << 20
	c := testCommand(t, "line", "100", "stay")
	j := start(t, l, c)
	says(t, j, "ready")
	peak := keeperPeakMiB(t, j.Handle())
	if _, err := j.Stop(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	t.Logf("keeper: at most %.1f MiB", peak)
	if peak > 64 || peak == 0 {
		t.Errorf("the keeper took %.1f MiB, want a measurement below 64", peak)
	}
	var total int64
	for _, name := range []string{stderrFile, stderrFile + ".1"} {
		info, err := os.Stat(filepath.Join(c.RunDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if total += info.Size(); info.Size() > l.LogLimit+overrun+64<<10 {
			t.Errorf("%s has %d bytes, the limit is %d", name, info.Size(), l.LogLimit)
		}
	}
	if total < l.LogLimit {
		t.Errorf("%d bytes are kept, want at least %d", total, l.LogLimit)
	}
}

// The disk of the job's output is full: the job continues, the loss is counted, and the exit is recorded.
func TestDiskFull(t *testing.T) {
	c := testCommand(t, "flood", "20000", "0")
	if err := os.MkdirAll(c.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(c.RunDir, stderrFile)); err != nil {
		t.Fatal(err)
	}
	e := waitEnd(t, start(t, testLocal(), c))
	if e.Reason != Exited || e.Code != 0 || !strings.Contains(e.Detail, "could not be written") {
		t.Errorf("exit = %+v, want code 0 and the loss in words", e)
	}
}

// A full file system: the exit is recorded in the reserved space.
func TestFileSystemFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	c := testCommand(t, "flood", "20000", "0")
	c.RunDir = filepath.Join(dir, "run")
	j := start(t, testLocal(), c)
	e := waitEnd(t, j)
	if e.Reason != Exited || e.Code != 0 || !strings.Contains(e.Detail, "could not be written") {
		t.Errorf("exit = %+v, want code 0 and the loss in words", e)
	}
	if again := adopt(t, j.Handle()).Exit(); again.Reason != Exited {
		t.Errorf("the next agent reads %+v", again)
	}
	if again := waitEnd(t, start(t, testLocal(), c)); again.Reason != Exited || again.Code != 0 {
		t.Errorf("started again in the same run directory: %+v", again)
	}
	c.RunDir = filepath.Join(dir, "new")
	if e := startFails(t, c); !strings.Contains(e.Advice, "free disk space") {
		t.Errorf("a start in a new run directory: %v, want advice", e)
	}
}

// Stop works on a full disk, although no request to the keeper can be written.
func TestStopOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	c := testCommand(t, "term", "3")
	c.RunDir = filepath.Join(dir, "run")
	j := start(t, testLocal(), c)
	says(t, j, "ready")
	os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 1<<20), 0o600)
	e, err := j.Stop(context.Background(), patience)
	if err != nil || e.Code != 3 || e.Reason != Stopped {
		t.Errorf("Stop = %+v, %v; want the job's own code 3", e, err)
	}
}

func TestOutputIsAppendedAcrossStarts(t *testing.T) {
	c := testCommand(t, "env")
	c.Env = []string{"N=1"}
	waitEnd(t, start(t, testLocal(), c))
	c.Env = []string{"N=2"}
	waitEnd(t, start(t, testLocal(), c))
	if got := output(t, c.RunDir, stdoutFile); got != "\"N=1\"\n\"N=2\"\n" {
		t.Errorf("stdout = %q", got)
	}
}

// For arbitrary writes: the two files together contain the end of the output, the bound holds, and a file ends inside
// a line only if the line exceeds the overrun.
func TestRotation(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(base, strconv.Itoa(n))
		r := &rotated{path: path, limit: rapid.Int64Range(1, 300).Draw(t, "limit")}
		var all []byte
		for _, piece := range rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]byte("aaaaaaa\n")), 0, 200), 0, 20).Draw(t, "pieces") {
			r.write(piece)
			all = append(all, piece...)
		}
		r.close()
		last, _ := os.ReadFile(path)
		first, _ := os.ReadFile(path + ".1")
		kept := append(bytes.Clone(first), last...)
		if !bytes.HasSuffix(all, kept) {
			t.Fatalf("kept %q of %q", kept, all)
		}
		if len(first) == 0 && len(kept) != len(all) {
			t.Fatalf("lost %d bytes though nothing was turned", len(all)-len(kept))
		}
		if len(first) > 0 && (int64(len(first)) < r.limit || first[len(first)-1] != '\n') {
			t.Fatalf("the first file is %q, limit %d: want at least the limit and whole lines", first, r.limit)
		}
		if i := bytes.IndexByte(last, '\n'); i >= 0 && int64(len(last)) >= r.limit+200 && int64(i+1) >= r.limit {
			t.Fatalf("the second file is %q, limit %d: a line has ended after the limit", last, r.limit)
		}
		if r.lost != 0 {
			t.Fatalf("%d bytes counted as lost", r.lost)
		}
	})
}

// After a period without disk space the gap is marked in the file.
func TestGapIsMarked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	r := &rotated{path: path, limit: 1 << 20}
	r.write([]byte("lost\n"))
	r.close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.opened = 0
	r.write([]byte("back\n"))
	r.close()
	text, err := os.ReadFile(path)
	if err != nil || r.lost != 5 || !strings.Contains(string(text), "5 bytes") || !strings.HasSuffix(string(text), "\nback\n") {
		t.Errorf("file %q, %v, lost %d; want the gap of 5 bytes marked", text, err, r.lost)
	}
}

// A reader finds the old or the new file, never a part of one, even if the writer is killed at any moment.
func TestFilesAreOldOrNew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	seen := map[int]int{}
	for round := range 8 {
		c := testCommand(t, "rewrite", path)
		j := start(t, testLocal(), c)
		says(t, j, "ready")
		for end := time.Now().Add(time.Duration(20+7*round) * time.Millisecond); time.Now().Before(end) || round == 0 && len(seen) < 2; {
			readWhole(t, path, seen)
		}
		unix.Kill(j.Handle().PID, unix.SIGKILL)
		waitEnd(t, j)
		readWhole(t, path, seen)
	}
	if len(seen) < 2 {
		t.Errorf("only the versions %v were ever seen", seen)
	}
}

func readWhole(t *testing.T, path string, seen map[int]int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Schema, N, Same int }
	if err := json.Unmarshal(data, &v); err != nil || v.N != v.Same {
		t.Fatalf("%d bytes, %v: half a file", len(data), err)
	}
	seen[v.N]++
}

// TestOutputOfAllJobs checks that the output of a run is that of its jobs in the order of their last start, complete or
// from its last lines, also when the next job starts while it is copied.
func TestOutputOfAllJobs(t *testing.T) {
	run := t.TempDir()
	began := time.Now().Add(-time.Hour)
	job := func(dir, name, text string, after time.Duration) {
		t.Helper()
		path := filepath.Join(dir, startedFile)
		at := began.Add(after)
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, []byte("{}"), 0o600), os.Chtimes(path, at, at),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	job(StretchDir(run, 2), "job.stdout.1", "b1\n", 2*time.Minute)
	job(StretchDir(run, 2), "job.stdout", "b2\n", 2*time.Minute)
	job(StretchDir(run, 10), "job.stdout", "c1\nc2\n", 3*time.Minute)
	job(run, "job.stdout", "a1\n", time.Minute)
	if err := os.MkdirAll(StretchDir(run, 11), 0o700); err != nil { // prepared, never started
		t.Fatal(err)
	}
	for n, want := range map[int]string{-1: "a1\nb1\nb2\nc1\nc2\n", 0: "", 1: "c2\n", 3: "b2\nc1\nc2\n", 5: "a1\nb1\nb2\nc1\nc2\n", 9: "a1\nb1\nb2\nc1\nc2\n"} {
		out, _ := Outputs(run)
		var text strings.Builder
		if found, err := out.Open(n); err != nil || !found {
			t.Fatalf("%d lines: found %v, %v", n, found, err)
		}
		if err := out.Copy(&text); err != nil || text.String() != want {
			t.Errorf("%d lines: %q, %v, want %q", n, text.String(), err, want)
		}
		out.file.Close()
	}
	out, _ := Outputs(run)
	var text strings.Builder
	if _, err := out.Open(0); err != nil {
		t.Fatal(err)
	}
	job(StretchDir(run, 11), "job.stdout", "d1\n", 4*time.Minute)
	if err := out.Copy(&text); err != nil || text.String() != "d1\n" {
		t.Errorf("after the next start: %q, %v", text.String(), err)
	}
	job(run, "job.stdout", "a1\n", 5*time.Minute) // the run continues on this machine
	if dirs := JobDirs(run); len(dirs) != 4 || dirs[3] != run {
		t.Errorf("directories %v, want the run directory last", dirs)
	}
}

// TestOutputPipe checks that output is read in batches, that the end of the output is not waited for, and the deadline.
func TestOutputPipe(t *testing.T) {
	t.Parallel()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	write := os.NewFile(uintptr(fds[1]), "pipe")
	defer unix.Close(fds[0])
	from, batched := openStream(fds[0]).(*outputPipe)
	if !batched {
		t.Fatal("the pipe is not read in batches")
	}
	defer from.epoll.Close()
	buf := make([]byte, 8<<10)
	read := func(want string, wantErr error) {
		t.Helper()
		if n, err := from.Read(buf); string(buf[:n]) != want || !errors.Is(err, wantErr) {
			t.Fatalf("read %d bytes %.40q (%v), want %d bytes (%v)", n, buf[:n], err, len(want), wantErr)
		}
	}
	fmt.Fprintln(write, "step 1")
	read("step 1\n", nil)
	began := time.Now()
	fmt.Fprintln(write, "step 2")
	read("step 2\n", nil)
	if waited := time.Since(began); waited < batchFor {
		t.Errorf("waited %s for the second batch, want %s", waited, batchFor)
	}
	much := strings.Repeat("x", 3*len(buf))
	fmt.Fprint(write, much)
	for range 3 {
		read(much[:len(buf)], nil)
	}
	from.SetReadDeadline(time.Now())
	read("", os.ErrDeadlineExceeded)
	from.SetReadDeadline(time.Time{})
	fmt.Fprintln(write, "last step")
	write.Close()
	read("last step\n", nil)
	read("", io.EOF)

	master, slave, err := openPTY(defaultTerminal)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(slave)
	terminal, file := openStream(master).(*os.File)
	if !file {
		t.Fatal("a pseudo-terminal is read in batches")
	}
	terminal.Close()
}

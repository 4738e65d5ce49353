package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trainopt/optimizer/engine"
)

// asking is the environment variable by which a test starts this binary as a process that asks for an answer; it
// contains the folder of the answer.
const asking = "SLURM_TEST_ASKING"

func TestMain(m *testing.M) {
	if folder := os.Getenv(asking); folder != "" {
		os.Exit(askRepeatedly(folder))
	}
	os.Exit(m.Run())
}

// askRepeatedly asks 50 times; every question that reaches the engine appends a byte to the file count.
func askRepeatedly(folder string) int {
	s := sharedAnswer{path: filepath.Join(folder, "answer"), age: 24 * time.Hour, patience: time.Hour, now: time.Now}
	for range 50 {
		text, err := s.get(context.Background(), func(context.Context) (string, error) {
			f, err := os.OpenFile(filepath.Join(folder, "count"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			if err != nil {
				return "", err
			}
			_, err = f.WriteString("x")
			return strings.Repeat("answer\n", 20_000), errors.Join(err, f.Close())
		})
		if err != nil || len(text) != 7*20_000 {
			fmt.Fprintln(os.Stderr, len(text), err)
			return 1
		}
	}
	return 0
}

// TestProcessesAskOnce starts eight processes that ask 50 times each: the engine receives one question.
func TestProcessesAskOnce(t *testing.T) {
	folder := t.TempDir()
	var processes []*exec.Cmd
	for range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env, cmd.Stderr = append(os.Environ(), asking+"="+folder), os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		processes = append(processes, cmd)
	}
	for _, cmd := range processes {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if count, err := os.ReadFile(filepath.Join(folder, "count")); err != nil || len(count) != 1 {
		t.Errorf("%d questions reached the engine, %v", len(count), err)
	}
}

// clock is a time that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.t }

func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.t = c.t.Add(d) }

// counted is a question whose executions are counted.
type counted struct {
	mu  sync.Mutex
	n   int
	err error
}

func (q *counted) ask(context.Context) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n++
	return fmt.Sprint("answer ", q.n), q.err
}

// TestRunsAskOncePerPeriod lets 500 goroutines ask in each of three periods.
func TestRunsAskOncePerPeriod(t *testing.T) {
	c := &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := sharedAnswer{path: filepath.Join(t.TempDir(), "answer"), age: 5 * time.Second, patience: time.Hour, now: c.now}
	q := &counted{}
	for period := 1; period <= 3; period++ {
		var wait sync.WaitGroup
		for range 500 {
			wait.Go(func() {
				if text, err := s.get(context.Background(), q.ask); err != nil || text != fmt.Sprint("answer ", period) {
					t.Errorf("period %d: %q, %v", period, text, err)
				}
			})
		}
		wait.Wait()
		if c.add(5 * time.Second); period < 3 {
			if text, err := s.get(context.Background(), q.ask); err != nil || text != fmt.Sprint("answer ", period) {
				t.Errorf("at the age of exactly 5 s: %q, %v", text, err)
			}
		}
		c.add(time.Millisecond)
	}
	if q.n != 3 {
		t.Errorf("%d questions reached the engine in three periods", q.n)
	}
}

func TestSharedFailures(t *testing.T) {
	c := &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := sharedAnswer{path: filepath.Join(t.TempDir(), "answer"), age: 5 * time.Second, patience: time.Hour, now: c.now}
	ask := func(q *counted) error { _, err := s.get(context.Background(), q.ask); return err }

	down := &counted{err: fmt.Errorf("squeue: %w: connect failure", engine.ErrUnreachable)}
	for range 3 {
		if err := ask(down); !errors.Is(err, engine.ErrUnreachable) || !strings.Contains(err.Error(), "connect failure") {
			t.Errorf("unreachable: %v", err)
		}
	}
	if down.n != 1 {
		t.Errorf("an engine that does not answer received %d questions in one period", down.n)
	}
	c.add(time.Minute)
	refused := &counted{err: fmt.Errorf("squeue: %w", engine.ErrRefused)}
	for range 3 {
		if err := ask(refused); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("refused: %v", err)
		}
	}
	if refused.n != 3 {
		t.Errorf("a refusal was shared: %d questions for 3 calls", refused.n)
	}
	c.add(-time.Hour) // an answer from the future is not used
	if err := ask(&counted{}); err != nil {
		t.Error(err)
	}
}

// TestDamagedAnswer checks that an unreadable file, or an answer from the future, is replaced.
func TestDamagedAnswer(t *testing.T) {
	for _, content := range []string{"", "{", "null", `{"time":"2999-01-01T00:00:00Z","text":"future"}`, `[1]`} {
		s := sharedAnswer{path: filepath.Join(t.TempDir(), "answer"), age: time.Hour, patience: time.Hour, now: time.Now}
		if err := os.WriteFile(s.path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		q := &counted{}
		for range 2 {
			if text, err := s.get(context.Background(), q.ask); err != nil || text != "answer 1" {
				t.Errorf("%q: %q, %v", content, text, err)
			}
		}
	}
}

// TestLockHeld checks that a stopped process which holds the lock does not block others beyond their patience, and that
// a call ends with its context.
func TestLockHeld(t *testing.T) {
	s := sharedAnswer{path: filepath.Join(t.TempDir(), "answer"), age: time.Hour, patience: time.Hour, now: time.Now}
	lock, err := s.lock()
	if err != nil || lock == nil {
		t.Fatal(lock, err)
	}
	defer lock.Close()
	if again, err := s.lock(); again != nil || err != nil {
		t.Fatalf("the lock was given twice: %v, %v", again, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := &counted{}
	if _, err := s.get(ctx, q.ask); !errors.Is(err, context.Canceled) || q.n != 0 {
		t.Errorf("cancelled: %v after %d questions", err, q.n)
	}
	s.patience = time.Millisecond
	if text, err := s.get(t.Context(), q.ask); err != nil || text != "answer 1" {
		t.Errorf("impatient: %q, %v", text, err)
	}
}

// TestAnswerBeforeLock lets another process renew the answer after the first look at it and before the lock is taken.
func TestAnswerBeforeLock(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := sharedAnswer{path: filepath.Join(t.TempDir(), "answer"), age: 5 * time.Second, patience: time.Hour, now: func() time.Time { return at }}
	s.write("old", nil)
	at = at.Add(time.Minute)
	looks, other := 0, s
	s.now = func() time.Time {
		if looks++; looks == 1 {
			other.write("new", nil)
		}
		return at
	}
	q := &counted{}
	if text, err := s.get(t.Context(), q.ask); err != nil || text != "new" || q.n != 0 {
		t.Errorf("%q, %v after %d questions", text, err, q.n)
	}
}

// TestNoFolder checks that a missing folder costs the sharing, not the answer.
func TestNoFolder(t *testing.T) {
	s := sharedAnswer{path: filepath.Join(t.TempDir(), "missing", "answer"), age: time.Hour, patience: time.Hour, now: time.Now}
	if text, err := s.get(t.Context(), (&counted{}).ask); err != nil || text != "answer 1" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestRuntimeFolder(t *testing.T) {
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", private)
	if got, want := runtimeFolder(), filepath.Join(private, "optimize"); got != want || !isPrivate(got) {
		t.Errorf("%q, want %q", got, want)
	}
	// A folder that others may write to, and a link, are not used.
	t.Setenv("TMPDIR", t.TempDir())
	if err := os.Chmod(private, 0o777); err != nil {
		t.Fatal(err)
	}
	own := runtimeFolder()
	if !strings.HasPrefix(own, os.TempDir()) || !isPrivate(own) {
		t.Errorf("folder %q", own)
	}
	if err := errors.Join(os.Remove(own), os.Symlink(private, own)); err != nil {
		t.Fatal(err)
	}
	if got := runtimeFolder(); got != "" {
		t.Errorf("a link is used: %q", got)
	}
}

// TestListIsShared checks that two engines, as in two runs, cause one squeue, and that another configuration causes its
// own.
func TestListIsShared(t *testing.T) {
	folder, c := t.TempDir(), &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	f, _ := newFake(map[string]string{"squeue": readFile(t, "22.05", "squeue.txt")})
	list := func(key string) {
		t.Helper()
		e := &Engine{Run: f.run, Folder: folder, now: c.now}
		if jobs, err := e.List(t.Context(), key); err != nil || len(jobs) != 1 || jobs[0].Key != key {
			t.Errorf("%+v, %v", jobs, err)
		}
	}
	list("optimize.r1.1")
	c.add(queueAge)
	list("optimize.r2.1")
	if len(f.called) != 1 {
		t.Errorf("two runs called %q", f.lines())
	}
	c.add(time.Millisecond)
	list("optimize.r2.1")
	t.Setenv("SLURM_CONF", "/another/slurm.conf")
	list("optimize.r1.1")
	if len(f.called) != 3 {
		t.Errorf("after 5 s and with another configuration: called %q", f.lines())
	}
}

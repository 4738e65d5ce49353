package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/resources"
)

// TestKeeperOnAnotherMachine: a keeper on another machine, whose lock is not visible here, lives while it dates its lock file. Its
// job is neither adopted nor removed meanwhile, and is lost without a further date. A date that is old is not waited for.
func TestKeeperOnAnotherMachine(t *testing.T) {
	usual := signOfLife
	t.Cleanup(func() { signOfLife = usual })
	for name, c := range map[string]struct {
		boot  string
		age   time.Duration // of the date
		dated bool          // again and again
		busy  bool
	}{
		"dated":                    {"another", 0, true, true},
		"dated, its clock behind":  {"another", time.Minute, true, true},
		"dated, its clock ahead":   {"another", -time.Hour, true, true},
		"dead":                     {"another", 0, false, false},
		"dead, its clock ahead":    {"another", -time.Hour, false, false},
		"dated long ago":           {"another", time.Hour, true, false},
		"of this boot, not locked": {resources.BootID(), 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := onAnotherMachine(t, c.boot)
			date := func(i int) {
				at := time.Now().Add(-c.age).Add(time.Duration(i) * time.Millisecond)
				if err := os.Chtimes(filepath.Join(h.RunDir, lockFile), at, at); err != nil {
					t.Error(err)
				}
			}
			date(0)
			stop := func() {}
			if signOfLife = 200 * time.Millisecond; c.dated {
				signOfLife, stop = patience, again(date)
			}
			j, err := testLocal().Adopt(context.Background(), h)
			removed := Clear(h.RunDir)
			stop()
			if errors.Is(err, ErrBusy) != c.busy || errors.Is(removed, ErrBusy) != c.busy || !c.busy && (err != nil || removed != nil) {
				t.Fatalf("adopted: %v; removed: %v; want ErrBusy %t", err, removed, c.busy)
			}
			if c.busy {
				return
			}
			cleanUp(t, j)
			if e := waitEnd(t, j.(*job)); e.Reason != Lost || (c.boot == "another") != strings.Contains(e.Detail, "restarted") {
				t.Errorf("exit %+v, want lost", e)
			}
		})
	}
}

// TestExitOnAnotherMachine: the exit that a keeper on another machine records while it is looked for is that of the job.
func TestExitOnAnotherMachine(t *testing.T) {
	usual := signOfLife
	signOfLife = patience
	t.Cleanup(func() { signOfLife = usual })
	h := onAnotherMachine(t, "another")
	stop := again(func(i int) {
		if i == 5 {
			if err := writeJSON(filepath.Join(h.RunDir, exitFile), ended{Schema: fileSchema, Handle: h, Exit: Exit{Reason: Exited, Code: 3}}); err != nil {
				t.Error(err)
			}
		}
	})
	defer stop()
	j := adopt(t, h)
	if e := waitEnd(t, j); e.Reason != Exited || e.Code != 3 {
		t.Errorf("exit %+v, want code 3", e)
	}
	if err := Clear(h.RunDir); err != nil {
		t.Errorf("removed: %v", err)
	}
}

// TestAdoptIsCancelled: the wait for a sign of life of another machine ends with the context, and its job is not lost then.
func TestAdoptIsCancelled(t *testing.T) {
	usual := signOfLife
	signOfLife = patience
	t.Cleanup(func() { signOfLife = usual })
	h := onAnotherMachine(t, "another")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := testLocal().Adopt(ctx, h); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("adopted: %v, want the end of the context", err)
	}
}

// onAnotherMachine writes the record of a job whose processes cannot be seen, and the lock file, just dated, without a holder.
func onAnotherMachine(t *testing.T, boot string) Handle {
	t.Helper()
	const none = 1 << 30
	h := Handle{RunDir: t.TempDir(), KeeperPID: none, KeeperStart: 1, PID: none + 1, Start: 1, BootID: boot}
	if err := writeJSON(filepath.Join(h.RunDir, startedFile), started{Schema: fileSchema, Handle: h, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.RunDir, lockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// again calls do with increasing numbers until stop.
func again(do func(i int)) (stop func()) {
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 1; ; i++ {
			select {
			case <-quit:
				return
			case <-time.After(10 * time.Millisecond):
				do(i)
			}
		}
	}()
	return func() {
		close(quit)
		<-stopped
	}
}

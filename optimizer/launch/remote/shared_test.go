package remote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// sharing returns a launcher whose stretches share an allocation, and its directory.
func sharing(t *testing.T, c *cluster) (*Launcher, string) {
	l, hold := site(t, c), filepath.Join(t.TempDir(), "allocations", "a100 0")
	l.Place = func(a resources.Allocation) engine.Place { return engine.Place{CPUs: a.CPUs, Hold: hold} }
	return l, hold
}

// jobs returns the number of jobs that were submitted to a cluster.
func (c *cluster) submitted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.jobs)
}

// until is a training that ends when a file appears, and ignores the other one.
func until(t *testing.T, code string) (launch.Command, func()) {
	c := shell(t, `trap 'echo x > saved; exit 75' USR1; echo x > started; until [ -e go ]; do sleep 0.05; done; exit `+code)
	c.RunDir += "-" + filepath.Base(c.Dir) // the name of the run
	return c, func() {
		if err := os.WriteFile(filepath.Join(c.Dir, "go"), []byte("x"), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// TestTimeLimitOfASharedAllocation: others may stay longer than the job that asks for it.
func TestTimeLimitOfASharedAllocation(t *testing.T) {
	l := &Launcher{Limits: func(engine.Place) (longest, usual time.Duration) { return 24 * time.Hour, time.Hour }}
	c := launch.Command{StopAfter: 2 * time.Hour}
	if limit, asked := l.timeLimit(c, engine.Place{Hold: "held"}); limit != 24*time.Hour || !asked {
		t.Errorf("asks for %v (%v), want the longest", limit, asked)
	}
	if limit, asked := l.timeLimit(c, engine.Place{}); limit != 2*time.Hour+2*time.Minute || !asked {
		t.Errorf("alone: asks for %v (%v)", limit, asked)
	}
}

// TestSharedAllocation: two stretches run in one job of the engine at the same time. The first one ends while the second
// continues, a third one joins, and the shares of all are the account of the job.
func TestSharedAllocation(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l, hold := sharing(t, c)
	one, endOne := until(t, "0")
	a := start(t, l, one)
	awaitFile(t, filepath.Join(one.Dir, "started"))
	two, endTwo := until(t, "3")
	b := start(t, l, two)
	awaitFile(t, filepath.Join(two.Dir, "started"))
	if a.Handle().EngineID != b.Handle().EngineID || c.submitted() != 1 {
		t.Fatalf("jobs %s and %s of %d, want one", a.Handle().EngineID, b.Handle().EngineID, c.submitted())
	}
	time.Sleep(time.Second) // shared
	endOne()
	await(t, "the first end", a.Done())
	if e := a.Exit(); e.Reason != launch.Exited || e.Code != 0 || e.Share <= 0 || e.Share >= e.Held {
		t.Errorf("first %+v, want exit code 0 and a share of its time", e)
	}
	if b.hasEnded() {
		t.Fatalf("the second ended with the first: %+v", b.Exit())
	}
	three, endThree := until(t, "0")
	d := start(t, l, three)
	awaitFile(t, filepath.Join(three.Dir, "started"))
	if c.submitted() != 1 {
		t.Errorf("%d jobs, want the third in that of the second", c.submitted())
	}
	endThree()
	await(t, "the third end", d.Done())
	endTwo()
	await(t, "the second end", b.Done())
	if e := b.Exit(); e.Reason != launch.Exited || e.Code != 3 {
		t.Errorf("second %+v, want exit code 3", e)
	}
	batch := c.job(b.Handle().EngineID)
	await(t, "the end of the job", batch.over)
	sum := a.Exit().Share + b.Exit().Share + d.Exit().Share
	if total := batch.end.Sub(batch.start); (sum - total).Abs() > time.Microsecond {
		t.Errorf("shares %v + %v + %v = %v, want %v", a.Exit().Share, b.Exit().Share, d.Exit().Share, sum, total)
	}
	for _, j := range []*job{a, b, d} {
		if s, _ := Stretches(j.dir); len(s) != 1 || !s[0].Confirmed || s[0].Share != j.Exit().Share || s[0].Corrected != 0 {
			t.Errorf("stretches %+v, want one with the share %v", s, j.Exit().Share)
		}
	}
	// The allocation has closed: the next stretch is a job of its own.
	four, endFour := until(t, "0")
	e := start(t, l, four)
	endFour()
	await(t, "the fourth end", e.Done())
	if c.submitted() != 2 || len(names(hold)) != 2 {
		t.Errorf("%d jobs, %d allocations, want 2", c.submitted(), len(names(hold)))
	}
}

// TestSharedAllocationRemoved: the job of the engine ends with its last stretch also if the directory of the allocation was
// removed meanwhile.
func TestSharedAllocationRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l, hold := sharing(t, c)
	one, end := until(t, "0")
	a := start(t, l, one)
	awaitFile(t, filepath.Join(one.Dir, "started"))
	if err := os.RemoveAll(filepath.Dir(hold)); err != nil {
		t.Fatal(err)
	}
	end()
	await(t, "the end of the job", c.job(a.Handle().EngineID).over)
}

// TestOldAllocations: the directory of an allocation is removed long after its end, and not while its account may be late.
func TestOldAllocations(t *testing.T) {
	l := tenant{hold: t.TempDir()}
	for n, age := range []time.Duration{40 * 24 * time.Hour, 20 * 24 * time.Hour, -1, 40 * 24 * time.Hour} {
		dir := l.numbered(n + 1)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if age >= 0 {
			if err := writeJSON(dir, ledgerFile, ledger{Schema: fileSchema, Wall: time.Now().Add(-age)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.tidy(l.latest())
	if got := strings.Join(names(l.hold), " "); got != "2 3 4" {
		t.Errorf("allocations %s remain, want 2 3 4: one of 20 days, one that has not begun, and the last", got)
	}
}

// TestSharedAllocationEnds: what ends the job of the engine ends both stretches, each of which saves.
func TestSharedAllocationEnds(t *testing.T) {
	for name, c := range map[string]struct {
		raw, who string
		reason   launch.ExitReason
	}{
		"preempted": {"PREEMPTED", "", launch.Preempted},
		"cancelled": {"CANCELLED", "1000", launch.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := newCluster(t)
			l, _ := sharing(t, eng)
			one, _ := until(t, "0")
			two, _ := until(t, "0")
			a, b := start(t, l, one), start(t, l, two)
			awaitFile(t, filepath.Join(one.Dir, "started"))
			awaitFile(t, filepath.Join(two.Dir, "started"))
			if err := eng.finish(a.Handle().EngineID, c.raw, c.who); err != nil {
				t.Fatal(err)
			}
			sum := time.Duration(0)
			for _, j := range []*job{a, b} {
				await(t, "the end", j.Done())
				if e := j.Exit(); e.Reason != c.reason {
					t.Errorf("%+v, want %s", e, c.reason)
				}
				awaitFile(t, filepath.Join(filepath.Dir(j.dir), "saved"))
				sum += j.Exit().Share
			}
			batch := eng.job(a.Handle().EngineID)
			if total := batch.end.Sub(batch.start); (sum - total).Abs() > time.Microsecond {
				t.Errorf("shares of %v, want %v", sum, total)
			}
		})
	}
}

// TestSharedStop: stopping one stretch, also one whose supervisor does not answer, leaves the other one undisturbed.
func TestSharedStop(t *testing.T) {
	t.Parallel()
	eng := newCluster(t)
	l, _ := sharing(t, eng)
	one, endOne := until(t, "0")
	two, _ := until(t, "0")
	a, b := start(t, l, one), start(t, l, two)
	awaitFile(t, filepath.Join(one.Dir, "started"))
	awaitFile(t, filepath.Join(two.Dir, "started"))
	if err := b.cancelJob(context.Background()); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the cancelled one", b.Done())
	if st := eng.job(a.Handle().EngineID).raw; st != "RUNNING" || a.hasEnded() {
		t.Errorf("the job is %s, the other stretch has ended: %v", st, a.hasEnded())
	}
	endOne()
	await(t, "the end of the other", a.Done())
	if e := a.Exit(); e.Reason != launch.Exited || e.Code != 0 {
		t.Errorf("%+v", e)
	}
}

// TestSharedHolderKilled: with the process of the allocation both trainings end, no supervisor remains, and both agents
// notice it.
func TestSharedHolderKilled(t *testing.T) {
	t.Parallel()
	eng := newCluster(t)
	l, _ := sharing(t, eng)
	one, _ := until(t, "0")
	two, _ := until(t, "0")
	a, b := start(t, l, one), start(t, l, two)
	awaitFile(t, filepath.Join(one.Dir, "started"))
	awaitFile(t, filepath.Join(two.Dir, "started"))
	eng.job(a.Handle().EngineID).cmd.Process.Signal(syscall.SIGKILL)
	for _, j := range []*job{a, b} {
		await(t, "the end", j.Done())
		if e := j.Exit(); e.Reason == launch.Exited && e.Code == 0 || e.Share <= 0 {
			t.Errorf("%+v, want no orderly end", e)
		}
		awaitFile(t, filepath.Join(filepath.Dir(j.dir), "saved"))
	}
}

// TestSharedWhileWaiting: a stretch that enters an allocation whose job still waits is started with it. One that is
// withdrawn before takes nothing from the other, and the last one takes the job with it.
func TestSharedWhileWaiting(t *testing.T) {
	t.Parallel()
	eng := newCluster(t)
	eng.hold = true
	l, _ := sharing(t, eng)
	one, _ := until(t, "0")
	two, endTwo := until(t, "0")
	a, b := start(t, l, one), start(t, l, two)
	if eng.submitted() != 1 || !strings.Contains(b.Waiting(), a.Handle().EngineID) {
		t.Fatalf("%d jobs, %s", eng.submitted(), b.Waiting())
	}
	if _, err := a.Stop(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if e := a.Exit(); e.Held != 0 || e.Share != 0 {
		t.Errorf("%+v, want nothing to pay", e)
	}
	eng.run()
	awaitFile(t, filepath.Join(two.Dir, "started"))
	endTwo()
	await(t, "the end", b.Done())
	if e := b.Exit(); e.Reason != launch.Exited || e.Share <= 0 {
		t.Errorf("%+v", e)
	}
}

// TestSharedAdopt: an agent that has died is replaced by another one, which finds the allocation of its stretch, also if
// the id of the job was not recorded.
func TestSharedAdopt(t *testing.T) {
	t.Parallel()
	eng := newCluster(t)
	l, _ := sharing(t, eng)
	one, endOne := until(t, "0")
	two, endTwo := until(t, "0")
	a, b := start(t, l, one), start(t, l, two)
	awaitFile(t, filepath.Join(two.Dir, "started"))
	b.Close()
	b.stretch.ID = ""
	b.saveStretch()
	again, err := l.Adopt(context.Background(), launch.Handle{RunDir: two.RunDir, Stretch: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Handle().EngineID != a.Handle().EngineID {
		t.Errorf("adopted in job %q, want %q", again.Handle().EngineID, a.Handle().EngineID)
	}
	endTwo()
	await(t, "the end of the adopted one", again.Done())
	endOne()
	await(t, "the end", a.Done())
	if e := again.Exit(); e.Reason != launch.Exited || e.Share <= 0 {
		t.Errorf("%+v", e)
	}
}

// TestSharedRequeue: a job that the engine starts again does not start the trainings again, and admits further ones.
func TestSharedRequeue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{waitingDir, tenantsDir, cancelledDir} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	joined := time.Now().Add(-time.Minute)
	l := ledger{Schema: fileSchema, Began: joined, Tenants: map[string]*tenancy{"old": {Joined: joined, Held: 3, Share: 2}, "gone": {Joined: joined, Left: joined, Share: 1}}}
	for key, text := range map[string]string{"old": "again", "gone": "never"} {
		r := engine.Request{Argv: []string{"/bin/sh", "-c", "echo " + text}, Dir: dir, Output: filepath.Join(dir, key)}
		if err := writeJSON(filepath.Join(dir, tenantsDir), key, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeJSON(dir, ledgerFile, l); err != nil {
		t.Fatal(err)
	}
	if code := holdAllocation(dir); code != 0 {
		t.Errorf("exit code %d", code)
	}
	l = readLedger(dir)
	if out := awaitFile(t, filepath.Join(dir, "old")); out != "again\n" || !l.Closed || l.Tenants["old"].Left.IsZero() || l.Tenants["old"].Share <= 2 {
		t.Errorf("%q, ledger %+v", out, l)
	}
	if _, err := os.Stat(filepath.Join(dir, "gone")); err == nil || l.Tenants["gone"].Share != 1 {
		t.Errorf("a tenant that had left was started again: %+v", l.Tenants["gone"])
	}
}

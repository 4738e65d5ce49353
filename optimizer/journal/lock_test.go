package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain makes this binary an agent that holds the lock of a run until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("JOURNAL_TEST_HOLD"); dir != "" {
		os.Exit(hold(dir))
	}
	os.Exit(m.Run())
}

func hold(dir string) int {
	r, err := Open(dir)
	if err == nil {
		_, err = r.Lock()
	}
	if err != nil {
		fmt.Println("refused:", err)
		return 3
	}
	if os.Getenv("JOURNAL_TEST_LEAVE") != "" {
		if err := leaveCopies(dir); err != nil {
			fmt.Println(err)
			return 3
		}
	}
	fmt.Println("held")
	time.Sleep(time.Minute)
	return 0
}

// leaveCopies starts a process that has the descriptors of the lock file until its standard input ends, as a child that has not
// yet executed its program.
func leaveCopies(dir string) error {
	path, err := filepath.EvalSymlinks(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	child := exec.Command("cat")
	child.Stdin = os.Stdin
	for _, e := range open {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err != nil || to != path {
			continue
		}
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		child.ExtraFiles = append(child.ExtraFiles, os.NewFile(uintptr(fd), path))
	}
	return child.Start()
}

func holder(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	return holderWith(t, dir, nil)
}

func holderWith(t *testing.T, dir string, stdin *os.File, environ ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "JOURNAL_TEST_HOLD="+dir), environ...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other agent says %q", line)
	}
	return cmd
}

// Two agents on one run directory: the second one is refused.
func TestSecondAgentIsRefusedAndNamesTheFirst(t *testing.T) {
	before := time.Now().Add(-2 * time.Second)
	r := onDisk(t)
	first := holder(t, r.Dir())

	_, err := r.Lock()
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder == nil {
		t.Fatalf("second agent got %v, want *LockedError", err)
	}
	h := locked.Holder
	if h.PID != first.Process.Pid || !h.Alive() {
		t.Errorf("holder %+v, want pid %d, alive", h, first.Process.Pid)
	}
	for what, at := range map[string]time.Time{"start": h.Started, "since": h.Since} {
		if at.Before(before) || at.After(time.Now().Add(2*time.Second)) {
			t.Errorf("%s of the first is given as %v, it is about %v", what, at, time.Now())
		}
	}
	for _, want := range []string{fmt.Sprint("process ", h.PID), h.Started.Format("15:04:05"), "since " + h.Since.Format("2006-01-02 15:04:05")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if got := HolderOf(r.Dir()); got == nil || got.PID != h.PID {
		t.Errorf("HolderOf says %v, want pid %d", got, h.PID)
	}
	if err := Remove(r.Dir()); !errors.As(err, &locked) {
		t.Errorf("removing a run at work: %v, want a refusal", err)
	}

	must(t, first.Process.Kill())
	_ = first.Wait()
	if got := HolderOf(r.Dir()); got != nil {
		t.Errorf("a dead agent is still named: %v", got)
	}
	unlock, err := r.Lock()
	must(t, err)
	unlock()
	unlock()
	unlock, err = r.Lock()
	must(t, err)
	defer unlock()
}

func TestLockWithinOneProcess(t *testing.T) {
	r := onDisk(t)
	unlock, err := r.Lock()
	must(t, err)
	other, err := Open(r.Dir())
	must(t, err)
	var locked *LockedError
	if _, err := other.Lock(); !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() {
		t.Errorf("second lock of one process: %v", err)
	}
	unlock()
	unlock, err = other.Lock()
	must(t, err)
	unlock()
}

// A job of a cluster resumes in the process that has just ended its last life, while other jobs are being started.
func TestUnlockWhileAChildIsBeingStarted(t *testing.T) {
	r := onDisk(t)
	unlock, err := r.Lock()
	must(t, err)
	path, err := filepath.EvalSymlinks(r.Path(lockFile))
	must(t, err)
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	copies := 0
	for _, e := range open { // what a child has between fork and exec
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err != nil || to != path {
			continue
		}
		fd, err := strconv.Atoi(e.Name())
		must(t, err)
		inherited, err := unix.Dup(fd)
		must(t, err)
		defer unix.Close(inherited)
		copies++
	}
	if copies == 0 {
		t.Fatal("no descriptor of the lock file")
	}
	unlock()
	again, err := r.Lock()
	must(t, err)
	again()
}

func TestHolderIsNotAnotherProcessWithItsPID(t *testing.T) {
	me := self(time.Now(), "")
	cases := map[string]struct {
		change func(*Holder)
		alive  bool
	}{
		"this process":             {func(*Holder) {}, true},
		"same pid, other start":    {func(h *Holder) { h.Start++ }, false},
		"before the last reboot":   {func(h *Holder) { h.BootID = "x" }, false},
		"pid that cannot exist":    {func(h *Holder) { h.PID = 1 << 30 }, false},
		"pid 0":                    {func(h *Holder) { h.PID = 0 }, false},
		"negative pid, all of us!": {func(h *Holder) { h.PID = -1 }, false},
	}
	for name, c := range cases {
		h := me
		c.change(&h)
		if h.Alive() != c.alive {
			t.Errorf("%s: alive %v, want %v", name, h.Alive(), c.alive)
		}
	}
	if (*Holder)(nil).Alive() {
		t.Error("nobody is alive")
	}
}

func TestJunkInTheLockFile(t *testing.T) {
	r := onDisk(t)
	for _, junk := range []string{"", "junk", `{"pid":"x"}`, strings.Repeat("a", 10000)} {
		must(t, os.WriteFile(r.Path(lockFile), []byte(junk), 0o644))
		unlock, err := r.Lock()
		if err != nil {
			t.Errorf("lock over %.20q: %v", junk, err)
			continue
		}
		unlock()
	}
	must(t, os.Remove(r.Path(lockFile)))
	must(t, os.Symlink(r.Path("elsewhere"), r.Path(lockFile)))
	if _, err := r.Lock(); err == nil {
		t.Error("a link in place of the lock file was followed")
	}
}

func TestRemoveRefusesWhileTheJobLives(t *testing.T) {
	r := onDisk(t)
	me := self(time.Now(), "")
	handle, err := json.Marshal(map[string]any{"schema": 1, "handle": map[string]any{"keeper_pid": me.PID, "keeper_start": me.Start, "pid": 1 << 30,
		"start": 1, "boot_id": me.BootID}})
	must(t, err)
	must(t, os.WriteFile(r.Path("started.json"), handle, 0o644))
	if err := Remove(r.Dir()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(me.PID)) {
		t.Errorf("removed under a living job: %v", err)
	}
	must(t, os.Remove(r.Path("started.json")))
	must(t, Remove(r.Dir()))
	if _, err := os.Stat(r.Dir()); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

// TestAgentOnAnotherMachine checks that a run whose last holder was on another machine is refused while its state is being
// written, and taken over when it is not.
func TestAgentOnAnotherMachine(t *testing.T) {
	usual := signOfLife
	signOfLife = time.Second
	t.Cleanup(func() { signOfLife = usual })
	r := onDisk(t)
	other := self(time.Now(), "")
	other.Host, other.BootID = "login2.example", "another"
	data, err := json.Marshal(other)
	must(t, err)
	must(t, os.WriteFile(r.Path(lockFile), data, 0o600))
	stop := keepWriting(t, r)
	var locked *LockedError
	if _, err := r.Lock(); !errors.As(err, &locked) || !strings.Contains(err.Error(), "login2.example") {
		t.Errorf("locked beside an agent of another machine: %v", err)
	}
	stop()
	unlock, err := r.Lock()
	must(t, err)
	unlock()
	if unlock, err = r.Lock(); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// keepWriting replaces the state of a run again and again, as an agent at work does, until stop.
func keepWriting(t *testing.T, r *Run) (stop func()) {
	t.Helper()
	must(t, os.WriteFile(r.Path(stateFile), []byte("1"), 0o600))
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			case <-time.After(10 * time.Millisecond):
				os.WriteFile(r.Path(stateFile), []byte(fmt.Sprint(i)), 0o600)
			}
		}
	}()
	return func() {
		close(quit)
		<-stopped
	}
}

// TestAgentThatCannotBeSeen: an agent of another machine or container is at work while it replaces the state of its run. It is
// never Alive, its run is not locked while the state is being written, and taken over afterwards.
func TestAgentThatCannotBeSeen(t *testing.T) {
	usual, usually := signOfLife, freshFor
	freshFor = time.Hour
	t.Cleanup(func() { signOfLife, freshFor = usual, usually })
	machine := func(h *Holder) { h.Host, h.BootID = "n0", "another" }
	container := func(h *Holder) { h.PIDNamespace = "pid:[1]" }
	for name, c := range map[string]struct {
		change func(*Holder)
		age    time.Duration // of the state
		place  string        // empty: no agent is at work
	}{
		"another machine":                  {machine, 0, "on n0"},
		"another machine of this name":     {func(h *Holder) { h.BootID = "another" }, 0, "elsewhere"},
		"a container":                      {container, 0, "elsewhere"},
		"another machine, clock ahead":     {machine, -time.Minute, "on n0"},
		"another machine, long ago":        {machine, 2 * time.Hour, ""},
		"another machine, clock far ahead": {machine, -2 * time.Hour, ""},
		"a container, long ago":            {container, 2 * time.Hour, ""},
		"a command on another machine":     {func(h *Holder) { machine(h); h.Command = "runs rm" }, 0, ""},
		"dead, of this machine":            {func(h *Holder) { h.Start++ }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := onDisk(t)
			holder := self(time.Now(), "")
			c.change(&holder)
			data, err := json.Marshal(holder)
			must(t, err)
			must(t, os.WriteFile(r.Path(lockFile), data, 0o600))
			if h := HolderOf(r.Dir()); h != nil {
				t.Errorf("without a state: %v", h)
			}
			must(t, os.WriteFile(r.Path(stateFile), []byte("1"), 0o600))
			at := time.Now().Add(-c.age)
			must(t, os.Chtimes(r.Path(stateFile), at, at))
			h := HolderOf(r.Dir())
			if (h != nil) != (c.place != "") || h.Alive() || h.Place() != c.place || h != nil && !strings.Contains(h.String(), ", "+c.place) {
				t.Errorf("%v at work, alive %t, %q; want %q", h, h.Alive(), h.Place(), c.place)
			}
			must(t, os.Rename(r.Path(stateFile), r.Path(stateFile+previousSuffix)))
			if again := HolderOf(r.Dir()); (again != nil) != (h != nil) {
				t.Errorf("while the state is replaced: %v, before %v", again, h)
			}
			must(t, os.Truncate(r.Path(lockFile), 0))
			if h := HolderOf(r.Dir()); h != nil {
				t.Errorf("after it has released the run: %v", h)
			}
		})
	}
	signOfLife = time.Minute
	r := onDisk(t) // another machine of this name
	other := self(time.Now(), "")
	other.BootID = "another"
	data, err := json.Marshal(other)
	must(t, err)
	must(t, os.WriteFile(r.Path(lockFile), data, 0o600))
	stop := keepWriting(t, r)
	var locked *LockedError
	if _, err := r.Lock(); !errors.As(err, &locked) {
		t.Errorf("locked beside an agent of another machine: %v", err)
	}
	if err := Remove(r.Dir()); !errors.As(err, &locked) {
		t.Errorf("removed beside an agent of another machine: %v", err)
	}
	stop()
	signOfLife = time.Second
	unlock, err := r.Lock()
	must(t, err)
	unlock()
}

// TestHolderWithoutState: a holder that keeps no state shows that it is at work to those who cannot see its process, until it stops.
func TestHolderWithoutState(t *testing.T) {
	usual, usually := signOfLife, freshFor
	signOfLife, freshFor = time.Minute, time.Hour
	t.Cleanup(func() { signOfLife, freshFor = usual, usually })
	r := onDisk(t)
	other := self(time.Now(), "")
	other.Host, other.BootID = "n0", "another"
	data, err := json.Marshal(other)
	must(t, err)
	must(t, os.WriteFile(r.Path(lockFile), data, 0o600))
	if h := HolderOf(r.Dir()); h != nil {
		t.Errorf("before it shows itself: %v", h)
	}
	signOfLife = 20 * time.Millisecond
	stop := r.ShowLife()
	signOfLife = time.Minute
	if h := HolderOf(r.Dir()); h.Place() != "on n0" {
		t.Errorf("%v at work, want the one on n0", h)
	}
	var locked *LockedError
	if _, err := r.Lock(); !errors.As(err, &locked) {
		t.Errorf("locked beside it: %v", err)
	}
	old := time.Now().Add(-2 * time.Hour)
	must(t, os.Chtimes(r.Path(stateFile), old, old))
	for end := time.Now().Add(time.Minute); HolderOf(r.Dir()) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its state is not renewed")
		}
	}
	stop()
	stop()
	must(t, os.Chtimes(r.Path(stateFile), old, old))
	if h := HolderOf(r.Dir()); h != nil {
		t.Errorf("long after it has stopped: %v", h)
	}
	signOfLife = time.Second
	unlock, err := r.Lock()
	must(t, err)
	unlock()
}

// TestHolderKilledWhileAChildIsBeingStarted: the lock of an agent that was killed while it started a process is taken over as
// soon as that process has executed its program.
func TestHolderKilledWhileAChildIsBeingStarted(t *testing.T) {
	usual := signOfLife
	signOfLife = 2 * time.Minute
	t.Cleanup(func() { signOfLife = usual })
	r := onDisk(t)
	in, end, err := os.Pipe()
	must(t, err)
	defer end.Close()
	first := holderWith(t, r.Dir(), in, "JOURNAL_TEST_LEAVE=1")
	must(t, in.Close())
	must(t, first.Process.Kill())
	_, _ = first.Process.Wait()
	f, err := os.OpenFile(r.Path(lockFile), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("the lock is free: %v", err)
	}
	time.AfterFunc(100*time.Millisecond, func() { end.Close() })
	unlock, err := r.Lock()
	must(t, err)
	unlock()
}

// TestCommandIsNoAgent checks that a command that holds a run for a moment is not taken for its agent, and that another
// command waits for it.
func TestCommandIsNoAgent(t *testing.T) {
	r := onDisk(t)
	unlock, err := r.LockFor("runs stop", 0)
	must(t, err)
	if h := HolderOf(r.Dir()); h != nil {
		t.Errorf("the agent is %v, want none", h)
	}
	var locked *LockedError
	if _, err := r.Lock(); !errors.As(err, &locked) || !strings.Contains(err.Error(), "runs stop") {
		t.Errorf("an agent locked it beside the command: %v", err)
	}
	if _, err := r.LockFor("runs rm", 0); !errors.As(err, &locked) {
		t.Errorf("a command locked it beside the first: %v", err)
	}
	second := make(chan error, 1)
	go func() {
		again, err := r.LockFor("runs rm", time.Minute)
		if err == nil {
			again()
		}
		second <- err
	}()
	unlock()
	must(t, <-second)

	unlock, err = r.LockFor("runs stop", 0) // of a run whose killed agent is still named in the lock
	must(t, err)
	dead := self(time.Now(), "")
	dead.Start++
	data, err := json.Marshal(dead)
	must(t, err)
	must(t, os.WriteFile(r.Path(lockFile), data, 0o600))
	time.AfterFunc(50*time.Millisecond, unlock)
	if unlock, err = r.LockFor("runs rm", time.Minute); err != nil {
		t.Fatalf("beside a command that has not written its identity yet: %v", err)
	}
	unlock()

	unlock, err = r.Lock()
	must(t, err)
	defer unlock()
	if _, err := r.LockFor("runs rm", time.Minute); !errors.As(err, &locked) || HolderOf(r.Dir()) == nil {
		t.Errorf("a command locked it beside an agent: %v", err)
	}
}

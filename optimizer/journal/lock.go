package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/internal/regular"
	"trainopt/resources"
)

// Holder is the agent, or a command, that holds a run directory, or held it last.
type Holder struct {
	PID     int       `json:"pid"`
	Start   uint64    `json:"start"` // clock ticks since boot, /proc/PID/stat field 22: distinguishes processes with the same pid
	BootID  string    `json:"boot_id"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"` // start of that process
	Since   time.Time `json:"since"`   // when it locked the run
	// PIDNamespace is the namespace of PID; empty in the locks of earlier versions.
	PIDNamespace string `json:"pid_namespace,omitempty"`
	// Command is the name of a command that holds the run for a moment, such as "runs rm"; empty for an agent.
	Command string `json:"command,omitempty"`
}

// Alive reports whether that very process is alive on this machine, under that pid.
func (h *Holder) Alive() bool {
	if h == nil || h.PID <= 0 || h.elsewhere() {
		return false
	}
	start, err := startTicks(h.PID)
	return err == nil && start == h.Start
}

// elsewhere reports whether the pid is of another machine or container, so that it cannot be seen here whether it lives.
func (h *Holder) elsewhere() bool {
	return h.BootID != resources.BootID() || h.PIDNamespace != "" && h.PIDNamespace != pidNamespace()
}

// pidNamespace identifies the namespace of the pids of this process; empty if it is unknown.
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// passing reports whether a lock that cannot be taken is about to have another holder, or none: the one that has just taken it
// has not yet written its identity, or the last one was killed while it started a process, which has a copy of the descriptor
// until it executes its program.
func (h *Holder) passing() bool { return h == nil || !h.elsewhere() && !h.Alive() }

// Place tells where a holder works whose process is on another machine or in another container, such as "on n0"; empty for one
// that can be seen from here.
func (h *Holder) Place() string {
	host, _ := os.Hostname()
	switch {
	case h == nil || !h.elsewhere():
		return ""
	case h.Host != host && h.Host != "":
		return "on " + h.Host
	}
	return "elsewhere"
}

// String describes the holder for an error message.
func (h *Holder) String() string {
	const form = "2006-01-02 15:04:05 MST"
	s := fmt.Sprintf("process %d", h.PID)
	if h.Command != "" {
		s += " (" + h.Command + ")"
	}
	if !h.Started.IsZero() {
		s += ", started " + h.Started.Format(form)
	}
	if place := h.Place(); place != "" {
		s += ", " + place
	}
	return s + ", at work on it since " + h.Since.Format(form)
}

// LockedError reports that another agent holds a run. Holder is nil if that agent has taken the lock but not yet
// written its identity.
type LockedError struct {
	Dir    string
	Holder *Holder
}

func (e *LockedError) Error() string {
	if e.Holder == nil {
		return fmt.Sprintf("run %s: another agent is just starting on it", e.Dir)
	}
	return fmt.Sprintf("run %s is in use: %s; stop that one first", e.Dir, e.Holder)
}

// Lock locks the run directory for this process. If another agent holds it, the error is a *LockedError that
// identifies that agent. The lock of a dead agent is taken over. unlock may be called more than once.
//
// The lock is an flock(2), which the kernel releases when its holder dies; on a file system without flock, the
// holder's pid and start time decide. Lock waits up to signOfLife for a lock that is held for a dead agent. Some network
// file systems lock for each machine alone: if the last holder was on another one, or in a container where its pid cannot be
// seen, and has not released the run, Lock waits as long whether the state of the run is still being written.
func (r *Run) Lock() (unlock func(), err error) { return r.lock("") }

// LockFor is Lock for a command that is no agent. It waits for up to wait while another such command holds the run.
func (r *Run) LockFor(command string, wait time.Duration) (unlock func(), err error) {
	for end := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		unlock, err = r.lock(command)
		held := (*LockedError)(nil)
		if !errors.As(err, &held) || !held.Holder.passing() && held.Holder.Command == "" || !time.Now().Before(end) {
			return unlock, err
		}
	}
}

func (r *Run) lock(command string) (unlock func(), err error) {
	path := r.Path(lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock run: %w", err)
	}
	err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
	last := readHolder(f)
	for end := time.Now().Add(signOfLife); errors.Is(err, unix.EWOULDBLOCK) && last.passing() && time.Now().Before(end); last = readHolder(f) {
		time.Sleep(5 * time.Millisecond)
		err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, &LockedError{Dir: r.dir, Holder: last}
	}
	kernel := err == nil // the kernel holds the lock; the identity in the file is informative only
	switch {
	case kernel:
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOLCK):
		if last.Alive() {
			f.Close()
			return nil, &LockedError{Dir: r.dir, Holder: last}
		}
	default:
		f.Close()
		return nil, fmt.Errorf("lock run %s: %w", r.dir, err)
	}
	host, _ := os.Hostname()
	decided := kernel && last != nil && last.BootID == resources.BootID() // the kernel that granted the lock is that of the last holder
	if last != nil && (last.Host != host || !decided && last.elsewhere() && r.isFresh()) && r.isBeingWritten() {
		release(f)
		return nil, &LockedError{Dir: r.dir, Holder: last}
	}
	if err := writeHolder(f, self(time.Now(), command)); err != nil && !kernel {
		f.Close()
		return nil, fmt.Errorf("lock run %s: %w", r.dir, err)
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			_ = f.Truncate(0) // no holder
			release(f)
		})
	}, nil
}

// LockInfo describes the lock file of the run directory. It is another file, by os.SameFile, once the directory was
// replaced.
func (r *Run) LockInfo() (os.FileInfo, error) { return os.Stat(r.Path(lockFile)) }

// ShowLife renews the state of a locked directory that is no run and has none, until stop: to others, who cannot see its process, the
// holder is at work. A full disk does not hinder it.
func (r *Run) ShowLife() (stop func()) {
	quit := make(chan struct{})
	tick := time.NewTicker(signOfLife / 2)
	_ = r.touchState()
	var at sync.WaitGroup
	at.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				_ = r.touchState() // an error does not hinder the holder
			}
		}
	})
	return sync.OnceFunc(func() {
		close(quit)
		at.Wait()
	})
}

// touchState sets the time of the state to the present one of its file system.
func (r *Run) touchState() error {
	path := r.Path(stateFile)
	err := unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, unix.AT_SYMLINK_NOFOLLOW)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// signOfLife is the time within which an agent at work replaces the state of its run, on a slow network file system too.
var signOfLife = 10 * time.Second

// stateInfo describes the state of the run, or the previous one while that is replaced; nil if it cannot be read. The file is opened
// each time, because a network file system revalidates it only then.
func (r *Run) stateInfo() os.FileInfo {
	f, err := regular.Open(r.Path(stateFile), maxFile)
	if absent(err) {
		f, err = regular.Open(r.Path(stateFile+previousSuffix), maxFile)
	}
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	return info
}

// freshFor is the age up to which a state shows that an agent is at work: signOfLife, and the difference of two clocks.
var freshFor = 30 * time.Second

// isFresh reports whether the state of the run was replaced recently.
func (r *Run) isFresh() bool {
	info := r.stateInfo()
	return info != nil && time.Since(info.ModTime()).Abs() < freshFor
}

// isBeingWritten reports whether the state of the run is replaced within signOfLife.
func (r *Run) isBeingWritten() bool {
	before := r.stateInfo()
	for end := time.Now().Add(signOfLife); time.Now().Before(end); time.Sleep(signOfLife / 40) {
		now := r.stateInfo()
		if now != nil && (before == nil || !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime())) {
			return true
		}
	}
	return false
}

// HolderOf returns the agent that works on a run; nil if none does. One whose process cannot be seen from here, on another
// machine or in another container, counts while it replaces the state of the run: signal or succeed only one that is Alive.
func HolderOf(dir string) *Holder {
	r := &Run{dir: dir}
	f, err := regular.Open(r.Path(lockFile), regular.Settings)
	if err != nil {
		return nil
	}
	defer f.Close()
	if h := readHolder(f); h != nil && h.Command == "" && (h.Alive() || h.elsewhere() && r.isFresh()) {
		return h
	}
	return nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// release unlocks a file and closes it. Closing alone would leave the lock to processes that are being started: until it
// executes its program, a child has a copy of every descriptor, for long on a busy machine.
func release(f *os.File) {
	_ = flock(f, unix.LOCK_UN)
	_ = f.Close()
}

// readHolder returns the identity in a lock file, nil if it contains none.
func readHolder(f *os.File) *Holder {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	if err != nil {
		return nil
	}
	var h Holder
	if json.Unmarshal(data, &h) != nil || h.PID <= 0 {
		return nil
	}
	return &h
}

// writeHolder replaces the identity in a lock file and syncs it.
func writeHolder(f *os.File, h Holder) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(append(data, '\n'), 0); err != nil {
		return err
	}
	return f.Sync()
}

// self returns the identity of this process as a holder.
func self(now time.Time, command string) Holder {
	h := Holder{PID: os.Getpid(), BootID: resources.BootID(), PIDNamespace: pidNamespace(), Since: now.Round(0), Command: command}
	h.Host, _ = os.Hostname()
	h.Start, _ = startTicks(h.PID)
	if up, err := os.ReadFile("/proc/uptime"); err == nil {
		if f := strings.Fields(string(up)); len(f) > 0 {
			if s, err := strconv.ParseFloat(f[0], 64); err == nil {
				const ticksPerSecond = 100 // USER_HZ, fixed on Linux
				age := time.Duration((s - float64(h.Start)/ticksPerSecond) * float64(time.Second))
				h.Started = now.Add(-age).Round(time.Second)
			}
		}
	}
	return h
}

// startTicks returns field 22 of /proc/PID/stat. The second field is a name in parentheses that may contain any
// character, so the fields are counted from the last ")". A zombie counts as ended.
func startTicks(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields after the name, want 20", pid, len(f))
	}
	if f[0] == "Z" || f[0] == "X" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(f[19], 10, 64)
}

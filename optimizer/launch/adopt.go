package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"trainopt/resources"
)

// Adopt implements Launcher. The returned Job is attached if the keeper lives; has ended if the exit is recorded; and
// is Lost otherwise, its Done closed as soon as no process of it lives. A process that merely reuses
// the pid of the keeper or of the job is never touched. The error reports a record that cannot be read, or ErrBusy
// for a keeper that lives in another container or on another machine, from where the job can be adopted. Whether one lives on
// another machine may take up to signOfLife to see.
func (l Local) Adopt(ctx context.Context, h Handle) (Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("adopt job %d of %s: %w", h.PID, h.RunDir, err)
	}
	if h.Engine != "" {
		return nil, fmt.Errorf("adopt %s job %s of %s: it does not run on this machine", h.Engine, h.EngineID, h.RunDir)
	}
	m, err := recall(h)
	if err != nil {
		return nil, fmt.Errorf("adopt job %d of %s: %w", h.PID, h.RunDir, err)
	}
	j := newJob(h, m)
	if e, ok := h.ReadExit(); ok {
		j.end(e)
		return j, nil
	}
	if _, ok := j.supervisor(); ok && h.here() {
		j.watch()
		return j, nil
	}
	if m.known && keeperElsewhere(ctx, h) {
		return nil, fmt.Errorf("adopt job %d of %s: its supervisor is not visible from here (another container or machine): %w", h.PID, h.RunDir, ErrBusy)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("adopt job %d of %s: %w", h.PID, h.RunDir, err)
	}
	if e, ok := h.ReadExit(); ok { // it has ended elsewhere in the meantime
		j.end(e)
		return j, nil
	}
	if len(leftovers(h, m.runID, m.enforce)) == 0 {
		j.endLost(false)
		return j, nil
	}
	j.watch() // detects the dead keeper and follows the remaining processes
	return j, nil
}

// Find implements Launcher.
func (Local) Find(runDir string) (Handle, error) { return Find(runDir) }

// Find returns the handle of the job that was last started on this machine in a run directory, as recorded by its
// keeper. If the agent died while it started a job, Find waits for that record. The error is fs.ErrNotExist if no job was
// started there.
func Find(runDir string) (Handle, error) {
	for end := time.Now().Add(answerWithin); ; time.Sleep(lockMoment / 20) {
		supervised := Supervised(runDir) // before the records, which are written earlier than the supervisor exits
		var s started
		var e ended
		err := readJSON(filepath.Join(runDir, startedFile), &s)
		h := s.Handle
		if err != nil && readJSON(filepath.Join(runDir, exitFile), &e) == nil {
			h, err = e.Handle, nil
		}
		h.RunDir = runDir // JSON holds no name that is not UTF-8
		if err == nil {
			return h, nil
		} else if !supervised || time.Now().After(end) {
			return Handle{}, fmt.Errorf("find the job of %s: %w", runDir, err)
		}
	}
}

// LastExit returns when a job of a run exited last, on this machine or in a stretch; zero if none has.
func LastExit(runDir string) (at time.Time) {
	paths, _ := fs.Glob(os.DirFS(runDir), stretchesDir+"/*/"+exitFile)
	for _, path := range append(paths, exitFile) {
		var e ended
		if readJSON(filepath.Join(runDir, path), &e) == nil && e.Exit.At.After(at) {
			at = e.Exit.At
		}
	}
	return at
}

// leftoverPIDs lists the living processes of a job whose keeper is dead: those of its cgroup, of its session, and those
// with its run id in their environment. It is empty while the keeper lives (see ProcessTree.PIDs), and for a handle
// from before a restart of the machine.
func leftoverPIDs(h Handle) []int {
	if _, alive := newJob(h, jobFacts{}).supervisor(); alive {
		return nil
	}
	m, err := recall(h)
	if err != nil {
		return nil
	}
	var pids []int
	for _, s := range leftovers(h, m.runID, m.enforce) {
		pids = append(pids, s.PID)
	}
	return pids
}

// keeperElsewhere reports whether the keeper of a job may live out of sight: the lock of its run directory is held, or still
// dated. The date decides where the lock does not: some network file systems lock for each machine alone, or not at all. An
// exiting keeper, or a process that is being started and has not yet closed inherited descriptors, holds the lock briefly only.
func keeperElsewhere(ctx context.Context, h Handle) bool {
	before := lockInfo(h.RunDir)
	for end := time.Now().Add(lockMoment); ; time.Sleep(lockMoment / 20) {
		lock, err := lockRunDir(h.RunDir)
		if err == nil {
			decided := h.here() && Supervised(h.RunDir) // by this very lock, so the file system has locks
			lock.Close()
			if decided {
				return false
			}
		}
		if busy := errors.Is(err, ErrBusy); !busy || time.Now().After(end) {
			return busy || isDated(ctx, h, before)
		}
	}
}

const lockMoment = 400 * time.Millisecond

// lockInfo describes the lock file of a run directory; nil if it cannot be read. The file is opened each time, because a
// network file system revalidates it only then.
func lockInfo(runDir string) os.FileInfo {
	f, err := os.Open(filepath.Join(runDir, lockFile))
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

// signOfLife is the time within which a living keeper dates its lock file, on a slow network file system too. Tests change it.
var signOfLife = 10 * time.Second

// lookMoment is the time between two looks at the date.
const lookMoment = 250 * time.Millisecond

// silentLong is the age of the date from which a keeper is dead, the difference of the clocks of two machines included.
const silentLong = 3 * time.Minute

// isDated reports whether a keeper dates the lock file of a job, described by before, within signOfLife. One whose last
// date is old is not waited for, nor one that has recorded the exit.
func isDated(ctx context.Context, h Handle, before os.FileInfo) bool {
	if before == nil || time.Since(before.ModTime()) > silentLong {
		return false
	}
	for end := time.Now().Add(signOfLife); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(lookMoment) {
		if _, ended := h.ReadExit(); ended {
			return false
		}
		if now := lockInfo(h.RunDir); now != nil && !now.ModTime().Equal(before.ModTime()) {
			return true
		}
	}
	return false
}

// here reports whether the handle is from this boot of the machine.
func (h Handle) here() bool {
	now := resources.BootID()
	return h.BootID == "" || now == "" || h.BootID == now
}

// recall reads the facts about the job of h from the run directory. Missing files leave the defaults, and so do the
// files of a later start in the same directory.
func recall(h Handle) (jobFacts, error) {
	m := jobFacts{grace: defaultGrace, want: control{Schema: fileSchema}}
	var s started
	err := readJSON(filepath.Join(h.RunDir, startedFile), &s)
	if errors.Is(err, ErrNewer) {
		return m, err
	}
	if err != nil || !sameJob(s.Handle, h) {
		return m, nil
	}
	m.known, m.missing, m.at, m.began = true, s.Missing, s.At, s.Began
	var sp spec
	if err := readJSON(filepath.Join(h.RunDir, specFile), &sp); err == nil {
		m.grace, m.runID = sp.Grace, string(sp.RunID)
	}
	switch err := readJSON(filepath.Join(h.RunDir, controlFile), &m.want); {
	case errors.Is(err, ErrNewer):
		return m, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		// A damaged file is replaced by the next request. The keeper acts on checkpoint numbers above those that it has
		// served, which are unknown: seconds since 1970 exceed any count of requests.
		m.want = control{Schema: fileSchema, Checkpoints: int(time.Now().Unix())}
	}
	m.enforce, _ = openEnforcer(h.RunDir) // a damaged file: none
	return m, nil
}

func sameJob(a, b Handle) bool {
	return a.KeeperPID == b.KeeperPID && a.KeeperStart == b.KeeperStart && a.BootID == b.BootID
}

// ReadExit reads the exit record of the job of h; false if its run directory has none.
func (h Handle) ReadExit() (Exit, bool) {
	var e ended
	if readJSON(filepath.Join(h.RunDir, exitFile), &e) != nil || !sameJob(e.Handle, h) {
		return Exit{}, false
	}
	return e.Exit, true
}

// readEnding returns the keeper's record that the job of h was asked to end; nil if it was not.
func readEnding(h Handle) *Exit {
	var e ended
	if readJSON(filepath.Join(h.RunDir, endingFile), &e) != nil || !sameJob(e.Handle, h) {
		return nil
	}
	return &e.Exit
}

// lost is the exit of a job without a record. began is zero if unknown; sign describes the evidence for the end time
// at, and is empty if the agent observed the end.
func lost(h Handle, began, at time.Time, sign string) Exit {
	e := Exit{Reason: Lost, Code: -1, At: at}
	if !began.IsZero() && at.After(began) {
		e.Ran = at.Sub(began)
	}
	e.Detail = fmt.Sprintf("its supervisor (pid %d) was killed, so how it ended is not known", h.KeeperPID)
	if asked := readEnding(h); asked != nil {
		e.Reason, e.Detail = Stopped, fmt.Sprintf("%s, and its supervisor (pid %d) was killed before the exit was recorded", asked.Detail, h.KeeperPID)
	} else if !h.here() {
		e.Detail = "the machine was restarted while it ran"
	} else if words := keeperLogLine(h.RunDir); words != "" {
		e.Detail += "; the last lines of its log: " + words
	}
	if sign != "" {
		e.Detail += "; counted up to its last sign of life, " + sign
	} else {
		e.Detail += "; found dead at " + at.Format(time.DateTime)
	}
	return e
}

// lastActivity returns the time at which a job whose end was not observed, or its supervisor, last wrote to its run
// directory; sign formats that time with the name of the file.
func lastActivity(dir string) (at time.Time, sign string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return time.Now(), ""
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasPrefix(name, "training") && name != stdoutFile && name != stderrFile && name != startedFile && name != lockFile {
			continue
		}
		if info, err := entry.Info(); err == nil && info.ModTime().After(at) {
			at, sign = info.ModTime(), name
		}
	}
	if sign == "" {
		return time.Now(), ""
	}
	return at, fmt.Sprintf("%s (%s)", at.Format(time.DateTime), sign)
}

// leftovers finds the processes of a job without its keeper. Parents identify nothing then: orphans belong to init.
// Processes that started before the job are excluded.
func leftovers(h Handle, runID string, e enforcer) []stat {
	if !h.here() {
		return nil
	}
	all, err := processes()
	if err != nil {
		return nil
	}
	own := process{h.PID, h.Start}
	leader := own.alive()
	var list []stat
	for _, s := range all {
		if s.gone() || s.Start < h.Start || s.PID == os.Getpid() {
			continue
		}
		// While its leader lives, the session id is certainly the job's; afterwards it may be reused.
		if s.process == own || (leader && s.Session == h.PID) || (runID != "" && carries(s.PID, runIDVariable+runID)) {
			list = append(list, s)
		}
	}
	return withCgroup(list, e)
}

// carries reports whether the process was started with this variable in its environment.
func carries(pid int, variable string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false // a process of another user
	}
	return bytes.Contains(append([]byte{0}, env...), append(append([]byte{0}, variable...), 0))
}

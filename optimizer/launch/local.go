package launch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/resources"
)

// Local starts jobs on this machine, each under its own keeper.
type Local struct {
	// Self is the command that runs this program as keeper, such as {os.Executable(), "__supervisor"}: main must call
	// KeeperMain with the arguments that follow it.
	Self []string
	// Host describes the machine and the CPUs that the job may be given; zero means every CPU available to this
	// process.
	Host resources.Host
	// Roots locates the kernel's file systems; zero is right except in tests.
	Roots resources.Roots
	// LogLimit is the size in bytes at which job.stdout and job.stderr are each renamed to *.1 and started empty; 0
	// means 32 MiB, which keeps at most 128 MiB of output.
	LogLimit int64

	pace endTimeouts // zero: usualPace
}

var _ Launcher = Local{}

const (
	defaultGrace    = 30 * time.Second
	defaultLogLimit = 32 << 20
	answerWithin    = startWithin + 5*time.Second
)

// ErrBusy reports that a job is still running in the run directory.
var ErrBusy = errors.New("a job is still running there")

// Start starts c and returns when the program itself runs (exec has succeeded). An earlier job of the same RunDir
// must have ended; its output is appended to, its exit record is removed. The error is a *StartError. If ctx ends
// before the job runs, all processes started so far are killed.
func (l Local) Start(ctx context.Context, c Command) (Job, error) {
	j, fail := l.start(ctx, c)
	if fail != nil {
		e := fail.failure.err(c.Args, time.Now())
		if fail.err != nil {
			e.Err = fail.err
		}
		return nil, e
	}
	return j, nil
}

// failed is the failure of start; err, when not nil, is the error to unwrap to instead of the system's.
type failed struct {
	failure startFailure
	err     error
}

func because(f *startFailure) *failed { return &failed{failure: *f} }

// start validates the command, locks and clears the run directory, sets up the enforcer, and launches. A keeper that
// is about to exit after its job, or a process that is being started and has not yet closed inherited descriptors, may hold
// the lock for a while, on a busy machine for seconds.
func (l Local) start(ctx context.Context, c Command) (*job, *failed) {
	if err := ctx.Err(); err != nil {
		return nil, &failed{startFailure{Reason: "stopped before it began"}, err}
	}
	s, f := l.spec(c)
	if f != nil {
		return nil, because(f)
	}
	dir := string(s.RunDir)
	lock, err := lockRunDir(dir)
	for end := time.Now().Add(answerWithin); errors.Is(err, ErrBusy) && !hasJob(dir) && ctx.Err() == nil && time.Now().Before(end); lock, err = lockRunDir(dir) {
		time.Sleep(leavesWithin / 200)
	}
	if errors.Is(err, ErrBusy) {
		return nil, &failed{startFailure{Reason: err.Error(), Advice: "stop it first, or use another run directory"}, ErrBusy}
	}
	if err != nil {
		return nil, because(shortage("lock the run directory", err))
	}
	defer lock.Close()
	removeGroups(dir) // of a start that its agent did not survive
	if err := removeAll(dir, exitFile, startedFile, controlFile, enforceFile, keeperLog); err != nil {
		return nil, because(shortage("clear the run directory", err))
	}
	enforce, err := resources.NewEnforcer(resources.EnforceOptions{RunID: uniqueName(cmp.Or(runIDOf(c.Env), filepath.Base(dir))), Allocation: c.Allocation,
		Limits: c.Limits, KeepsDevices: c.KeepsDevices, Host: l.Host, Roots: l.Roots})
	if err != nil {
		return nil, &failed{startFailure{Reason: strings.ReplaceAll(err.Error(), "\n", "; "), Advice: "choose another allocation"}, err}
	}
	defer enforce.Release()
	enforce.RemoveStale()
	j, fail := launch(ctx, c, s, enforce, lock)
	if fail != nil {
		enforce.Kill() // a keeper that failed halfway may have left something in it
		enforce.Remove()
		return nil, fail
	}
	return j, nil
}

// spec validates the command and fills in defaults.
func (l Local) spec(c Command) (spec, *startFailure) {
	var none spec
	if len(l.Self) == 0 {
		return none, &startFailure{Reason: "Local.Self is empty: nothing is known to run the supervisor with"}
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		return none, &startFailure{Reason: "the command is empty", Advice: "name the program to run"}
	}
	for _, list := range [][]string{c.Args, c.Env, {c.Dir, c.RunDir}} {
		for _, v := range list {
			if strings.ContainsRune(v, 0) {
				return none, &startFailure{Reason: fmt.Sprintf("%q holds a NUL byte, which no program can be given", v)}
			}
		}
	}
	if c.RunDir == "" {
		return none, &startFailure{Reason: "the command has no run directory"}
	}
	runDir, err := filepath.Abs(c.RunDir)
	if err != nil {
		return none, shortage("find the run directory", err)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return none, shortage("find the working directory", err)
	}
	self := slices.Clone(l.Self)
	if self[0], err = filepath.Abs(self[0]); err != nil {
		return none, shortage("find this program", err)
	}
	if err := os.MkdirAll(runDir, 0o700); err != nil {
		return none, shortage("make the run directory", err)
	}
	s := spec{Schema: fileSchema, Self: texts(self), Args: texts(c.Args), Dir: text(dir), RunDir: text(runDir),
		Allocation: c.Allocation, Limits: c.Limits, Grace: c.Grace, LogLimit: l.LogLimit, Pace: l.pace,
		RunID: text(runIDOf(c.Env))}
	if c.Tied {
		own, err := readStat(os.Getpid())
		if err != nil {
			return none, shortage("read the start time of this process", err)
		}
		s.Owner = own.process
	}
	if c.PTY {
		s.Terminal = terminalSize()
	}
	if s.Grace <= 0 {
		s.Grace = defaultGrace
	}
	if s.LogLimit <= 0 {
		s.LogLimit = defaultLogLimit
	}
	if s.Pace == (endTimeouts{}) {
		s.Pace = usualPace
	}
	return s, nil
}

// launch writes the files that a later agent requires, starts the keeper and waits for its first message.
func launch(ctx context.Context, c Command, s spec, enforce enforcer, lock *os.File) (*job, *failed) {
	dir := string(s.RunDir)
	want := control{Schema: fileSchema}
	if c.StopAfter > 0 {
		want.StopAt = Monotonic() + c.StopAfter
	}
	err := writeFile(filepath.Join(dir, enforceFile), enforce.State(), false)
	if err == nil {
		err = writeJSON(filepath.Join(dir, controlFile), want)
	}
	if err == nil {
		shown := s
		shown.Args = texts(Redact(c.Args))
		err = writeJSON(filepath.Join(dir, specFile), shown)
	}
	if err != nil {
		return nil, because(shortage("prepare the run directory", err))
	}
	recipe := enforce.Recipe()
	s.Env, s.Recipe = texts(c.Env), &recipe
	k, f := spawn(s, lock, c.Stdin)
	if f != nil {
		return nil, because(f)
	}
	reply, err := k.answer.next(ctx, answerWithin)
	if err != nil {
		defer k.answer.from.Close()
		k.abort()
		reason := startFailure{Reason: fmt.Sprintf("the supervisor of the job did not answer: %v", err), Internal: true}
		if words := keeperLogLine(dir); words != "" {
			reason.Reason += ": " + words
		}
		if strings.Contains(reason.Reason, "failed to create new OS thread") || strings.Contains(reason.Reason, "pthread_create failed") {
			reason.Errno = unix.EAGAIN
			explainShortage(&reason)
		}
		if ctx.Err() != nil {
			reason = startFailure{Reason: "stopped while it was being started"}
			return nil, &failed{reason, ctx.Err()}
		}
		return nil, because(&reason)
	}
	if reply.Failure != nil {
		k.answer.from.Close()
		k.reap()
		return nil, because(reply.Failure)
	}
	reply.Started.Handle.RunDir = dir
	j := newJob(reply.Started.Handle, jobFacts{grace: s.Grace, runID: string(s.RunID),
		missing: reply.Started.Missing, at: reply.Started.At, began: reply.Started.Began, want: want, enforce: enforce})
	j.answer = k.answer
	j.watch()
	return j, nil
}

// child is the standby, a child of this process, with the keeper below it.
type child struct {
	process
	answer *keeperReplies
}

// keeperReplies is the pipe on which keeper and standby send messages to the agent that started them.
type keeperReplies struct {
	from *os.File
	json *json.Decoder
}

// next returns the next message, waiting no longer than within.
func (a *keeperReplies) next(ctx context.Context, within time.Duration) (keeperMessage, error) {
	var h keeperMessage
	a.from.SetReadDeadline(time.Now().Add(within))
	stop := context.AfterFunc(ctx, func() { a.from.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err := a.json.Decode(&h)
	if err != nil { // a decoder repeats its first error, and the next message may still come
		a.json = json.NewDecoder(io.MultiReader(a.json.Buffered(), a.from))
	}
	if err == nil && h == (keeperMessage{}) {
		err = errors.New("the answer is empty")
	}
	return h, err
}

// close closes the pipe and reaps the standby, a child of this process, once it has ended.
func (a *keeperReplies) close(ctx context.Context, standby process) {
	a.from.Close()
	ctx, cancel := context.WithTimeout(ctx, leavesWithin)
	defer cancel()
	standby.wait(ctx)
	unix.Wait4(standby.PID, nil, unix.WNOHANG, nil)
}

// spawn starts the standby, which starts the keeper, in its own session, so that no signal of the agent's terminal
// reaches it. stdin is that of the job; nil means empty.
func spawn(s spec, lock, stdin *os.File) (*child, *startFailure) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, shortage("open "+os.DevNull, err)
	}
	defer null.Close()
	if stdin == nil {
		stdin = null
	}
	log, err := os.OpenFile(filepath.Join(string(s.RunDir), keeperLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, shortage("open the supervisor's log", err)
	}
	defer log.Close()
	from, answerWrite, err := pipe(true)
	if err != nil {
		return nil, shortage("make a pipe to the supervisor", err)
	}
	orders, ordersRead, err := pipe(false)
	if err != nil {
		from.Close()
		unix.Close(answerWrite)
		return nil, shortage("make a pipe to the supervisor", err)
	}
	argv := plain(s.Self)
	if s.Terminal != "" {
		argv = append(argv, terminalRole, s.Terminal)
	}
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []uintptr{stdin.Fd(), null.Fd(), log.Fd(), uintptr(answerWrite), lock.Fd(), uintptr(ordersRead)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	unix.Close(answerWrite)
	unix.Close(ordersRead)
	defer orders.Close()
	if err != nil {
		from.Close()
		return nil, shortage("start the supervisor of the job", err)
	}
	k := &child{process: process{PID: pid}, answer: &keeperReplies{from, json.NewDecoder(from)}}
	if st, err := readStat(pid); err == nil {
		k.Start = st.Start
	}
	orders.SetWriteDeadline(time.Now().Add(answerWithin))
	if err := json.NewEncoder(orders).Encode(s); err != nil && !errors.Is(err, unix.EPIPE) {
		k.abort()
		from.Close()
		return nil, shortage("send the command to the supervisor", err)
	}
	return k, nil // the death of a keeper is detected when its answer is read
}

// abort kills a keeper that has not answered and every process it may have started. It is stopped first, so that it
// starts no further process meanwhile.
func (k *child) abort() {
	unix.Kill(k.PID, unix.SIGSTOP) // a child that is not yet reaped keeps its pid
	for range 100 {
		list, err := tree(k.PID)
		if err != nil || len(list) == 0 {
			break
		}
		for _, s := range list {
			s.signal(unix.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
	unix.Kill(k.PID, unix.SIGKILL)
	k.reap()
}

// reap waits up to 5 s for an ending keeper and reaps it.
func (k *child) reap() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if k.wait(ctx) == nil {
		unix.Wait4(k.PID, nil, unix.WNOHANG, nil)
	}
}

// leavesWithin limits the wait for the keeper of an ended job to exit.
const leavesWithin = 2 * time.Second

// Supervised reports whether a keeper of a directory lives, on any machine. On a file system without locks it is always
// false.
func Supervised(runDir string) bool {
	f, err := os.OpenFile(filepath.Join(runDir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close() // with the lock
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// hasJob reports whether the directory's last job has started and its exit is not recorded.
func hasJob(dir string) bool {
	_, started := os.Stat(filepath.Join(dir, startedFile))
	_, ended := os.Stat(filepath.Join(dir, exitFile))
	return started == nil && ended != nil
}

// lockRunDir takes the lock that a living keeper holds, or returns ErrBusy. On a file system without locks it always
// succeeds.
func lockRunDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return f, nil
	}
	f.Close()
	var s started
	if readJSON(filepath.Join(dir, startedFile), &s) == nil {
		return nil, fmt.Errorf("%w: pid %d under supervisor %d in %s", ErrBusy, s.Handle.PID, s.Handle.KeeperPID, dir)
	}
	return nil, fmt.Errorf("%w: %s", ErrBusy, dir)
}

func removeAll(dir string, names ...string) error {
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// uniqueName returns a cgroup name that is unique to this start of the run.
func uniqueName(run string) string {
	b := make([]byte, 4)
	rand.Read(b) // never fails
	return run + "-" + hex.EncodeToString(b)
}

const runIDVariable = "OPTIMIZER_RUN_ID="

func runIDOf(env []string) string {
	for _, v := range env {
		if id, ok := strings.CutPrefix(v, runIDVariable); ok {
			return id
		}
	}
	return ""
}

// keeperLogLine returns the first line of the keeper's log.
func keeperLogLine(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, keeperLog))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// pipe makes a pipe with one end for this process, which supports deadlines, and one for a child, a plain blocking
// descriptor as programs expect of their streams.
func pipe(ourEndReads bool) (ours *os.File, theirs int, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	mine, theirs := fd[0], fd[1]
	if !ourEndReads {
		mine, theirs = fd[1], fd[0]
	}
	if err := unix.SetNonblock(mine, true); err != nil {
		unix.Close(mine)
		unix.Close(theirs)
		return nil, -1, err
	}
	return os.NewFile(uintptr(mine), "pipe"), theirs, nil
}

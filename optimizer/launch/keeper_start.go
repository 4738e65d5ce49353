package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/resources"
)

// File descriptors of the standby, inherited from the agent, and of the keeper, inherited from the standby. Stdin is that
// of the job until the next process has inherited it, then, as stdout is from the start, /dev/null; stderr is keeper.log.
const (
	helloFD  = 3 // messages to the agent
	lockFD   = 4 // the locked lock file: the lock lasts while one of the two lives
	ordersFD = 5 // the spec, read until EOF

	// The following descriptors are the keeper's only.
	outReadFD  = 6 // the two ends of the pipe that is the job's stdout
	outWriteFD = 7
	errReadFD  = 8 // and of its stderr
	errWriteFD = 9
	briefFD    = 10 // one briefing to the standby
	lastFD     = briefFD
)

// keeperMessage is a message to the agent that started the job: first Started or Failure, finally Ended.
type keeperMessage struct {
	Started *started      `json:"started,omitempty"`
	Failure *startFailure `json:"failure,omitempty"`
	Ended   *ended        `json:"ended,omitempty"`
}

// execTrampoline is the argument that selects the role of the trampoline.
const execTrampoline = "exec"

// startWithin limits the time for exec, for instance from a slow network file system.
const startWithin = 30 * time.Second

// setUp reads the spec and prepares this process to supervise a job: descriptors, signals, subreaper, disk space for
// the exit record.
func (k *keeper) setUp() error {
	closeInherited(lastFD)
	data, err := io.ReadAll(os.NewFile(ordersFD, "orders"))
	if err != nil {
		return fmt.Errorf("read the orders of the agent: %w", err)
	}
	if err := json.Unmarshal(data, &k.spec); err != nil {
		return fmt.Errorf("read the orders of the agent: %w", err)
	}
	k.hello = os.NewFile(helloFD, "hello")
	k.readers = []stream{openStream(outReadFD), openStream(errReadFD)}
	k.writers = []int{outWriteFD, errWriteFD}
	self, err := readStat(os.Getpid())
	if err != nil {
		return fmt.Errorf("read own start time: %w", err)
	}
	k.handle = Handle{RunDir: string(k.spec.RunDir), KeeperPID: self.PID, KeeperStart: self.Start, BootID: resources.BootID()}
	if parent, err := readStat(self.Parent); err == nil {
		k.handle.StandbyPID, k.handle.StandbyStart = parent.PID, parent.Start
	}
	k.attach(self.process)
	k.poke = catchSignals()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		k.missing = append(k.missing, fmt.Sprintf("processes that leave the job's tree cannot be followed: %v", err))
	}
	if k.enforce != nil {
		k.oomStart, _ = k.enforce.OOMKills()
	}
	if n, ok := k.oomNear.read(); ok {
		k.oomBefore = &n
	}
	if err := reserve(filepath.Join(k.dir, exitFile)); err != nil {
		fmt.Fprintln(os.Stderr, "set disk space aside for the exit record:", err)
	}
	return nil
}

// attach sets up the state that a keeper and a standby that replaces it have in common.
func (k *keeper) attach(self process) {
	k.self, k.dir = self, string(k.spec.RunDir)
	k.oomNear = nearestOOMCounter()
	k.out = &rotated{path: filepath.Join(k.dir, stdoutFile), limit: k.spec.LogLimit}
	k.err = &rotated{path: filepath.Join(k.dir, stderrFile), limit: k.spec.LogLimit}
	k.watch = watch{grace: k.spec.Grace, pace: k.spec.Pace}
	if os.Getenv("SLURM_JOB_ID") != "" {
		k.term = make(chan os.Signal, 1)
		signal.Notify(k.term, unix.SIGTERM)
	}
	var err error
	if k.wakeAt, err = newWaker(); err != nil {
		k.missing = append(k.missing, fmt.Sprintf("a supervisor stopped by a signal does not hold the time limit: %v", err))
	}
	if k.enforce, err = openEnforcer(k.dir); err != nil {
		k.missing = append(k.missing, fmt.Sprintf("the supervisor cannot see the job's limits: %v", err))
	}
}

// closeInherited closes the descriptors that the agent inherited from its own parent, which would otherwise stay open
// as long as the job. They differ from the package's own in that they are not close-on-exec.
func closeInherited(last int) {
	for fd := helloFD; fd <= last; fd++ {
		syscall.CloseOnExec(fd)
	}
	names, _ := os.ReadDir("/proc/self/fd")
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

// catchSignals makes this process survive every signal but SIGKILL; SIGUSR2 arrives on poke. Signals are caught and
// not ignored, because the job would inherit that; a signal that was already ignored (nohup) stays ignored, also in
// the job.
func catchSignals() (poke chan os.Signal) {
	deaf := make(chan os.Signal, 1) // never read: signals that do not fit are dropped
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGTERM, unix.SIGQUIT, unix.SIGUSR1, unix.SIGPIPE, unix.SIGALRM,
		unix.SIGXFSZ, unix.SIGXCPU} {
		if !signal.Ignored(sig) {
			signal.Notify(deaf, sig)
		}
	}
	poke = make(chan os.Signal, 1)
	signal.Notify(poke, unix.SIGUSR2)
	return poke
}

// start starts the trampoline and waits until it has become the job.
func (k *keeper) start() *startFailure {
	reportRead, reportWrite, err := pipe(true)
	if err != nil {
		return shortage("make a pipe to the job", err)
	}
	specWrite, specRead, err := pipe(false)
	if err != nil {
		return shortage("make a pipe to the job", err)
	}
	defer reportRead.Close()
	pid, err := syscall.ForkExec(string(k.spec.Self[0]), append(plain(k.spec.Self), execTrampoline), &syscall.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []uintptr{0, uintptr(k.writers[0]), uintptr(k.writers[1]), uintptr(specRead), uintptr(reportWrite)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	releaseInput()
	for _, fd := range append(k.writers, specRead, reportWrite) {
		unix.Close(fd)
	}
	if err != nil {
		specWrite.Close()
		return shortage("start a process for the job", err)
	}
	k.main.PID = pid
	if s, err := readStat(pid); err == nil {
		k.main.Start = s.Start // exec does not change it
	}
	k.handle.PID, k.handle.Start = k.main.PID, k.main.Start
	k.copyOutput()

	specWrite.SetWriteDeadline(time.Now().Add(startWithin))
	err = json.NewEncoder(specWrite).Encode(k.spec)
	specWrite.Close()
	k.spec.Env, k.spec.Recipe = nil, nil
	if err != nil {
		return shortage("tell the job's process what to run", err)
	}
	reportRead.SetReadDeadline(time.Now().Add(startWithin))
	return k.awaitExec(json.NewDecoder(reportRead))
}

// releaseInput closes the standard input of the job in this process, so that its writer learns when the job closes it.
func releaseInput() { unix.Dup3(unix.Stdout, unix.Stdin, 0) }

// copyOutput starts copying the job's output into its files.
func (k *keeper) copyOutput() {
	k.pumps.Go(func() { pump(k.readers[0], k.out) })
	k.pumps.Go(func() { pump(k.readers[1], k.err) })
}

// awaitExec reads the trampoline's reports until exec closes the pipe.
func (k *keeper) awaitExec(reports *json.Decoder) *startFailure {
	var first, second execReport
	if err := reports.Decode(&first); err != nil {
		return &startFailure{Reason: fmt.Sprintf("the process that was to become the job ended before that: %v", err),
			Advice: "its last words, if any, are in " + stderrFile}
	}
	if first.Failure != nil {
		return first.Failure
	}
	k.began, k.beforeKiB, k.missing = first.Began, first.PeakKiB, append(k.missing, first.Missing...)
	switch err := reports.Decode(&second); {
	case err == nil && second.Failure != nil:
		return second.Failure
	case err == io.EOF:
		return nil
	default:
		return &startFailure{Reason: fmt.Sprintf("the program did not start within %s", startWithin),
			Advice: "check the file system that it is on"}
	}
}

// startFailed records and reports that the job did not start.
func (k *keeper) startFailed(f *startFailure) int {
	if k.main.PID > 0 {
		k.main.signal(unix.SIGKILL)
		for range 50 { // it is a child; a hanging file system may delay its death
			if pid, err := unix.Wait4(k.main.PID, nil, unix.WNOHANG, nil); pid != 0 && err != unix.EINTR {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		k.drain() // for its last output
	}
	code := k.record(ended{Exit: Exit{Reason: StartFailed, Code: -1, Detail: f.String(), At: time.Now()}, Start: f})
	json.NewEncoder(k.hello).Encode(keeperMessage{Failure: f})
	return code
}

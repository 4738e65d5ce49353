package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// keepRole is the argument that selects the role of the keeper.
const keepRole = "keep"

// briefing holds the keeper's state that the standby requires to replace it.
type briefing struct {
	Spec     spec    `json:"spec"` // without environment and recipe
	Started  started `json:"started"`
	OOMStart uint64  `json:"oom_start"`
}

// standby is the parent of the keeper. It sleeps until the keeper ends. If the keeper is killed, the job's processes
// become children of the standby (a subreaper), which has held their pipes open, and it supervises the job in the
// keeper's place: output, time limit and exit record do not depend on a single process.
type standby struct {
	self     []string // the command that runs this program, without the role
	terminal string   // size of the job's pseudo-terminals; empty means pipes
	keeper   int      // pid
	read     [2]int
	brief    briefing
	known    bool // the briefing has arrived: the job runs
	poke     chan os.Signal
}

// standbyMain runs the standby. args are empty, or terminalRole and a size.
func standbyMain(args []string) int {
	closeInherited(ordersFD)
	s := &standby{poke: catchSignals(), self: os.Args[: len(os.Args)-len(args) : len(os.Args)-len(args)]}
	if len(args) == 2 && args[0] == terminalRole {
		s.terminal = args[1]
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "the job ends with its supervisor:", err)
	}
	wakeAt, _ := newWaker()
	wakeAt(Monotonic() + answerWithin) // an agent that dies while it aborts a start leaves this process stopped, with the lock
	if f := s.start(); f != nil {
		json.NewEncoder(os.NewFile(helloFD, "hello")).Encode(keeperMessage{Failure: f})
		return 1
	}
	ReleaseMemory()
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(s.keeper, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	const panicked = 2
	if status.Exited() && status.ExitStatus() < panicked || !s.known {
		return status.ExitStatus()
	}
	fmt.Fprintf(os.Stderr, "the supervisor (pid %d) has died: its standby continues\n", s.keeper)
	return s.replace()
}

// start starts the keeper and waits until the job runs or has failed to start.
func (s *standby) start() *startFailure {
	var out, errs, news [2]int
	for _, p := range []*[2]int{&out, &errs} {
		if err := s.makeStream(p); err != nil {
			return shortage("open an output of the job", err)
		}
	}
	if err := unix.Pipe2(news[:], unix.O_CLOEXEC); err != nil {
		return shortage("make a pipe to the supervisor", err)
	}
	s.read = [2]int{out[0], errs[0]}
	for _, fd := range s.read {
		if err := unix.SetNonblock(fd, true); err != nil {
			return shortage("make a pipe for the job", err)
		}
	}
	input := 0
	if s.terminal != "" && emptyInput() {
		input = out[1]
	}
	self := append(s.self, keepRole)
	pid, err := syscall.ForkExec(self[0], self, &syscall.ProcAttr{
		Dir: "/",
		Env: os.Environ(),
		Files: []uintptr{uintptr(input), 1, 2, helloFD, lockFD, ordersFD, uintptr(out[0]), uintptr(out[1]), uintptr(errs[0]), uintptr(errs[1]),
			uintptr(news[1])},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	releaseInput()
	for _, fd := range []int{ordersFD, out[1], errs[1], news[1]} {
		unix.Close(fd)
	}
	if err != nil {
		return shortage("start the supervisor of the job", err)
	}
	s.keeper = pid
	from := os.NewFile(uintptr(news[0]), "briefing")
	s.known = json.NewDecoder(from).Decode(&s.brief) == nil
	from.Close()
	return nil
}

// makeStream opens one output of the job as a pipe or pseudo-terminal: the end to read and the job's end.
func (s *standby) makeStream(p *[2]int) (err error) {
	if s.terminal == "" {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		_, _ = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, pipeSize) // without it bursts wait for the keeper
		return nil
	}
	p[0], p[1], err = openPTY(s.terminal)
	return err
}

// replace continues the keeper's work from its briefing.
func (s *standby) replace() int {
	b := s.brief
	k := &keeper{spec: b.Spec, handle: b.Started.Handle, missing: b.Started.Missing, began: b.Started.Began, oomStart: b.OOMStart,
		hello: os.NewFile(helloFD, "hello"), poke: s.poke, main: process{b.Started.Handle.PID, b.Started.Handle.Start}}
	for _, fd := range s.read {
		k.readers = append(k.readers, openStream(fd))
	}
	self, err := readStat(os.Getpid())
	if err != nil {
		fmt.Fprintln(os.Stderr, "read own start time:", err)
		return 1
	}
	k.attach(self.process)
	var c control
	if readJSON(filepath.Join(k.dir, controlFile), &c) == nil && c.Checkpoints > 0 {
		// The keeper has delivered the requests: a second signal might interrupt the job's writing.
		k.watch.checkpoints, k.watch.askedAt = c.Checkpoints, Monotonic()
	}
	k.copyOutput()
	k.keep()
	return k.finish()
}

// brief sends the standby the state that it requires to replace this keeper.
func (k *keeper) brief(s started) {
	to := os.NewFile(briefFD, "briefing")
	defer to.Close()
	if err := json.NewEncoder(to).Encode(briefing{Spec: k.spec, Started: s, OOMStart: k.oomStart}); err != nil {
		fmt.Fprintln(os.Stderr, "brief the standby:", err)
	}
}

package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// process identifies a process beyond pid reuse: the kernel never gives two processes with one pid the same start
// time.
type process struct {
	PID   int
	Start uint64 // clock ticks since boot
}

// stat holds the fields of /proc/PID/stat that the package uses.
type stat struct {
	process
	Name    string
	State   byte // R, S, D, Z, …
	Parent  int
	Group   int
	Session int
}

// gone reports whether the process has ended and only waits to be reaped.
func (s stat) gone() bool { return s.State == 'Z' || s.State == 'X' || s.State == 'x' }

// parseStat parses the text of /proc/PID/stat. The name is in parentheses and may itself contain spaces, parentheses
// and newlines, so the fields count from the last closing parenthesis.
func parseStat(text []byte) (stat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return stat{}, fmt.Errorf("process status %.40q: no name in parentheses", text)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:open])))
	if err != nil {
		return stat{}, fmt.Errorf("process status %.40q: pid: %w", text, err)
	}
	fields := bytes.Fields(text[end+1:]) // fields[0] is field 3, the state
	if len(fields) < 20 || len(fields[0]) != 1 {
		return stat{}, fmt.Errorf("process status %.40q: %d fields after the name, want 20", text, len(fields))
	}
	s := stat{process: process{PID: pid}, Name: string(text[open+1 : end]), State: fields[0][0]}
	for i, into := range []*int{&s.Parent, &s.Group, &s.Session} {
		if *into, err = strconv.Atoi(string(fields[1+i])); err != nil {
			return stat{}, fmt.Errorf("process status %.40q: field %d: %w", text, 4+i, err)
		}
	}
	if s.Start, err = strconv.ParseUint(string(fields[19]), 10, 64); err != nil {
		return stat{}, fmt.Errorf("process status %.40q: start time: %w", text, err)
	}
	return s, nil
}

// readStat reads one process. The error is os.ErrNotExist if no process has that pid.
func readStat(pid int) (stat, error) {
	var buf [1024]byte
	n, err := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if errors.Is(err, unix.ESRCH) {
		err = os.ErrNotExist
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(buf[:n])
}

// readSmall reads the beginning of a file into buf with the fewest system calls: the walk over all processes happens
// while a training runs.
func readSmall(path string, buf []byte) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// alive reports whether p itself, and not a later process with its pid, is running.
func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	s, err := readStat(p.PID)
	return err == nil && s.Start == p.Start && !s.gone()
}

// signal sends sig to p only: a pidfd pins the pid before the start time is compared.
func (p process) signal(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	switch {
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		if !p.alive() {
			return os.ErrProcessDone
		}
		return unix.Kill(p.PID, sig)
	case err != nil:
		return os.ErrProcessDone
	}
	defer unix.Close(fd)
	if !p.alive() {
		return os.ErrProcessDone
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// catches reports whether p has installed a handler for sig.
func (p process) catches(sig syscall.Signal) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/status")
	if err != nil || !p.alive() {
		return false
	}
	_, rest, ok := strings.Cut(string(text), "\nSigCgt:")
	if !ok {
		return false
	}
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && mask&(1<<(uint(sig)-1)) != 0
}

// wait returns nil once p has ended, or ctx's error. It uses no thread and no timer where the kernel has pidfd (5.3),
// otherwise it polls ten times a second.
func (p process) wait(ctx context.Context) error {
	if done, err := p.waitPidfd(ctx); done {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for p.alive() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// waitPidfd is wait by pidfd; it returns false if the kernel or sandbox has no pollable pidfd.
func (p process) waitPidfd(ctx context.Context) (bool, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return false, nil
	}
	if !p.alive() {
		unix.Close(fd)
		return true, nil
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return false, nil
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil || f.SetReadDeadline(time.Time{}) != nil {
		return false, nil
	}
	defer context.AfterFunc(ctx, func() { f.SetReadDeadline(time.Unix(1, 0)) })()
	err = conn.Read(func(fd uintptr) bool {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(set, 0)
		return err == nil && n > 0
	})
	if err == nil {
		return true, nil
	}
	if ctx.Err() != nil {
		return true, ctx.Err()
	}
	return false, nil
}

// processes lists all visible processes, in the order of /proc, which is that of their pids.
func processes() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make([]stat, 0, len(names))
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil { // it may have ended meanwhile
			all = append(all, s)
		}
	}
	return all, nil
}

// descendants returns the living processes of all below root, without root itself.
func descendants(root int, all []stat) []stat {
	children := make(map[int][]int, len(all))
	for i, s := range all {
		children[s.Parent] = append(children[s.Parent], i)
	}
	var found []stat
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, i := range children[queue[0]] {
			if s := all[i]; !seen[s.PID] {
				seen[s.PID] = true
				queue = append(queue, s.PID)
				if !s.gone() {
					found = append(found, s)
				}
			}
		}
	}
	return found
}

// tree lists the living processes below root.
func tree(root int) ([]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	return descendants(root, all), nil
}

// Monotonic reads the kernel's monotonic clock (CLOCK_MONOTONIC). It is common to all processes until the machine restarts, unaffected
// by steps of the wall clock, and stops while the machine is suspended.
func Monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// newWaker makes a timer of the kernel that continues this process if a signal has stopped it: the timers of the program do
// not run then. set sets it to a reading of the monotonic clock, 0 means never; it has no effect if err is not nil.
func newWaker() (set func(at time.Duration), err error) {
	var id int32
	event := struct { // struct sigevent; notification 0 is a signal to the process
		_                    uintptr
		signal, notification int32
		_                    [52]byte
	}{signal: int32(unix.SIGCONT)}
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id))); errno != 0 {
		return func(time.Duration) {}, errno
	}
	return func(at time.Duration) {
		when := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
		unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(id), unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&when)), 0, 0, 0)
	}, nil
}

// pidOf returns si_pid of a siginfo filled by waitid: the first member of its union, which has the alignment of a
// pointer.
func pidOf(info *unix.Siginfo) int {
	const head, word = 12, unsafe.Sizeof(uintptr(0))
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), (head+word-1)/word*word)))
}

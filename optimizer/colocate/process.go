package colocate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Times of processes.
const (
	stopGrace    = 30 * time.Second // between SIGINT and SIGKILL of a program that reports at its end
	queryTimeout = 2 * time.Minute  // of a command that prints a counter
	lastLines    = 5                // lines of output in an error message
	longestLine  = 64 << 10
)

// process is a program or a load generator in a process group of its own.
type process struct {
	name    string
	cmd     *exec.Cmd
	spawner *spawner
	read    chan struct{} // closed at the end of the output
	done    chan struct{} // closed when the process has ended and its output is read
	line    func(string)

	mu     sync.Mutex
	reaped bool
	spent  float64 // CPU-seconds, once it is reaped
	last   []string
}

// command describes a process to start.
type command struct {
	name string // in error messages
	argv []string
	dir  string
	env  []string
	cpus []int
	line func(string) // called with each line of output; nil: ignored
}

// start starts a process in a group of its own, pinned to its CPUs.
func (s *spawner) start(c command) (*process, error) {
	p := &process{name: c.name, spawner: s, read: make(chan struct{}), done: make(chan struct{}), line: c.line}
	p.cmd = exec.Command(c.argv[0], c.argv[1:]...)
	p.cmd.Dir, p.cmd.Env = c.dir, c.env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	err = s.do(c.cpus, func() error {
		if err := p.cmd.Start(); err != nil {
			return err
		}
		return s.guard.send("add", p.cmd.Process.Pid)
	})
	w.Close()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go p.scan(r)
	go func() {
		p.cmd.Wait() // the exit status is in ProcessState
		p.mu.Lock()
		p.reaped, p.spent = true, (p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()).Seconds()
		p.mu.Unlock()
		select {
		case <-p.read:
		case <-time.After(time.Second): // a process of the group that left it holds the output open
		}
		close(p.done)
	}()
	return p, nil
}

// scan reads the output line by line; a carriage return ends a line, too.
func (p *process) scan(r *os.File) {
	defer close(p.read)
	defer r.Close()
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 4096), longestLine)
	in.Split(func(data []byte, end bool) (int, []byte, error) {
		if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
			return i + 1, data[:i], nil
		}
		if len(data) == longestLine || end && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	for in.Scan() {
		text := in.Text()
		if strings.TrimSpace(text) == "" {
			continue
		}
		p.mu.Lock()
		p.last = append(p.last, text)
		p.last = p.last[max(0, len(p.last)-lastLines):]
		p.mu.Unlock()
		if p.line != nil {
			p.line(text)
		}
	}
	io.Copy(io.Discard, r)
}

// cpu returns the CPU-seconds of the process and its descendants.
func (p *process) cpu() float64 {
	p.mu.Lock()
	reaped, spent := p.reaped, p.spent
	p.mu.Unlock()
	if reaped {
		return spent
	}
	sum := 0.0
	for _, pid := range descendants(p.cmd.Process.Pid) {
		sum += cpuSeconds(pid)
	}
	return sum
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// exited returns the error for a process that ended too early.
func (p *process) exited() error {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.Join(p.last, " | ")
	if text == "" {
		text = "no output"
	}
	return fmt.Errorf("%s ended early, %s: %s", p.name, p.cmd.ProcessState, text)
}

// signal sends a signal to the group.
func (p *process) signal(sig syscall.Signal) { syscall.Kill(-p.cmd.Process.Pid, sig) }

// signalAll sends a signal to the process, its group and its descendants: servers such as PostgreSQL give each of their
// processes a session of its own.
func (p *process) signalAll(sig syscall.Signal) {
	if !p.ended() { // otherwise its number may belong to another process
		for _, pid := range descendants(p.cmd.Process.Pid)[1:] {
			syscall.Kill(pid, sig)
		}
	}
	p.signal(sig) // the group exists as long as one of its processes does
}

// kill ends the process, its group and its descendants, and waits for them.
func (p *process) kill() {
	p.signalAll(syscall.SIGKILL)
	<-p.done
	p.spawner.guard.send("del", p.cmd.Process.Pid)
}

// finish waits for a program that ends by itself until late, and then sends SIGINT.
func (p *process) finish(ctx context.Context, late <-chan time.Time) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late:
	}
	p.signal(syscall.SIGINT)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(stopGrace):
		return fmt.Errorf("%s did not end within %v of SIGINT", p.name, stopGrace)
	}
}

// output runs a short command and returns its standard output.
func (s *spawner) output(ctx context.Context, c command) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := s.do(c.cpus, cmd.Start); err != nil {
		return "", fmt.Errorf("run %s: %w", c.name, err)
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("run %s: %w: %.200s", c.name, err, strings.TrimSpace(errs.String()+" "+out.String()))
	}
	return out.String(), nil
}

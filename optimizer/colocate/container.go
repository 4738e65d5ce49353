package colocate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"trainopt/monitor/trainlog"
)

// container is a program with its load generator.
type container struct {
	app     *appSpec
	session *session
	values  *strings.Replacer // of the placeholders
	dir     string            // its temporary directory
	program *process
	load    *process
	ready   chan struct{} // closed by the first line that matches Ready.Output
	stopLog func()

	mu      sync.Mutex
	total   float64 // operations so far, of Output, End and Log
	matched bool
	records []record // of Output and Log
	spent   float64  // CPU-seconds of programs of earlier windows
}

// record is the number of operations at one time.
type record struct {
	total float64
	at    time.Time
	cpu   float64 // of the program
}

// Intervals of the readers of operations.
const (
	recordEvery = 20 * time.Millisecond // records of output are at least this far apart
	pollEvery   = 20 * time.Millisecond // of a log, of readiness and of the state of threads
)

// newContainer prepares a container without starting anything.
func (s *session) newContainer(app *appSpec, instance int) (*container, error) {
	dir, err := os.MkdirTemp("", "colocate-")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return &container{app: app, session: s, dir: dir, values: strings.NewReplacer("{port}", strconv.Itoa(port), "{dir}", dir,
		"{instance}", strconv.Itoa(instance), "{seconds}", strconv.Itoa(int(math.Ceil(float64(s.window)))))}, nil
}

// freePort returns a TCP port that nothing listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// command fills in the placeholders of a command line.
func (c *container) command(what string, words commandArgs, cpus []int, line func(string)) command {
	argv := make([]string, len(words))
	for i, w := range words {
		argv[i] = c.values.Replace(w)
	}
	env := os.Environ()
	for _, name := range slices.Sorted(maps.Keys(c.app.Env)) {
		env = append(env, name+"="+c.values.Replace(c.app.Env[name]))
	}
	dir := c.app.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.session.dir, dir)
	}
	return command{name: what + " of " + c.app.Name, argv: argv, dir: dir, env: env, cpus: cpus, line: line}
}

// perWindow reports whether the program is started for each window.
func (c *container) perWindow() bool { return c.app.Operations.End.Regexp != nil }

// start starts the program and waits until it is ready.
func (c *container) start(ctx context.Context) (err error) {
	c.ready = make(chan struct{})
	c.matched, c.total = false, 0
	program, err := c.session.spawner.start(c.command("the command", c.app.Command, c.session.cpus, c.lineOf("program")))
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.program = program
	c.mu.Unlock()
	if c.perWindow() {
		return nil
	}
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	if c.app.Operations.Log != "" {
		return c.followLog()
	}
	return nil
}

// awaitReady waits for the readiness probe.
func (c *container) awaitReady(ctx context.Context) error {
	probe := &c.app.Ready
	if len(probe.Command) == 0 && probe.Output.Regexp == nil {
		return nil
	}
	limit := cmp.Or(probe.Timeout, 30).duration()
	late := time.After(limit)
	var failure error
	for {
		if len(probe.Command) > 0 {
			if _, failure = c.session.spawner.output(ctx, c.command("the readiness probe", probe.Command, c.session.aside, nil)); failure == nil {
				return nil
			}
		}
		select {
		case <-c.ready:
			return nil
		case <-c.program.done:
			return c.program.exited()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			if failure != nil {
				return fmt.Errorf("%s is not ready after %v: %w", c.app.Name, limit, failure)
			}
			return fmt.Errorf("%s is not ready after %v: no line of its output matches %s", c.app.Name, limit, probe.Output)
		case <-time.After(pollEvery):
		}
	}
}

// lineOf returns the handler of the output of the program or the load generator.
func (c *container) lineOf(of string) func(string) {
	o := &c.app.Operations
	from := "program"
	if o.From == "load" {
		from = "load"
	}
	readied := false
	return func(text string) {
		if of == "program" && !readied && c.app.Ready.Output.Regexp != nil && c.app.Ready.Output.MatchString(text) {
			readied = true
			close(c.ready)
		}
		switch {
		case of != from:
		case o.End.Regexp != nil:
			if n, ok := number(o.End.Regexp, text); ok {
				c.add(func() { c.total = n })
			}
		case o.Output.Regexp != nil:
			if n, ok := number(o.Output.Regexp, text); ok {
				c.add(func() {
					if o.Counts == "each" {
						c.total += n
					} else {
						c.total = n
					}
				})
				c.record()
			}
		}
	}
}

// number returns the number in the group of a match, 1 for an expression without a group.
func number(re *regexp.Regexp, text string) (float64, bool) {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	if len(m) == 1 {
		return 1, true
	}
	v, err := strconv.ParseFloat(m[1], 64)
	return v, err == nil && v >= 0 && !math.IsInf(v, 1)
}

func (c *container) add(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.matched = true
}

// record appends the present number of operations unless the last record is recent.
func (c *container) record() {
	c.mu.Lock()
	recent := len(c.records) > 0 && time.Since(c.records[len(c.records)-1].at) < recordEvery
	c.mu.Unlock()
	if recent {
		return
	}
	at, cpu := time.Now(), c.cpu()
	c.mu.Lock()
	c.records = append(c.records, record{c.total, at, cpu})
	c.mu.Unlock()
}

// followLog counts the steps, else the epochs, of a training log until the container is stopped.
func (c *container) followLog() error {
	path := c.values.Replace(c.app.Operations.Log)
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.command("", nil, nil, nil).dir, path)
	}
	log, err := trainlog.Open(path, trainlog.TailOptions{})
	if err != nil {
		return fmt.Errorf("follow the log of %s: %w", c.app.Name, err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	c.stopLog = func() { close(stop); <-stopped }
	go func() {
		defer close(stopped)
		defer log.Close()
		for {
			select {
			case <-stop:
				return
			case <-time.After(pollEvery):
			}
			rows, _ := log.Poll(time.Now()) // a log that does not exist yet has no rows; the window reports that
			for i := range rows {
				n, ok := rows[i].Value(trainlog.Step)
				if !ok {
					n, ok = rows[i].Value(trainlog.Epoch)
				}
				if ok {
					c.add(func() { c.total = n })
				}
			}
			if len(rows) > 0 {
				c.record()
			}
		}
	}()
	return nil
}

// cpu returns the CPU-seconds of the program, earlier windows included.
func (c *container) cpu() float64 {
	c.mu.Lock()
	spent, p := c.spent, c.program
	c.mu.Unlock()
	if p == nil {
		return spent
	}
	return spent + p.cpu()
}

// look observes the threads of the program.
func (c *container) look(w *watch) {
	c.mu.Lock()
	p := c.program
	c.mu.Unlock()
	if p != nil && !p.ended() {
		w.look(descendants(p.cmd.Process.Pid))
	}
}

// resume continues a program that was paused and starts its load generator. A generator that keeps a rate would catch up if
// it had been stopped, too.
func (c *container) resume() (err error) {
	c.program.signalAll(syscall.SIGCONT)
	if load := &c.app.Load; len(load.Command) > 0 {
		cpus, _ := parseCPUs(load.CPUs)
		if cpus == nil {
			cpus = c.session.aside
		}
		c.load, err = c.session.spawner.start(c.command("the load generator", load.Command, cpus, c.lineOf("load")))
	}
	return err
}

// pause ends the load generator and stops the program.
func (c *container) pause() {
	if c.load != nil {
		c.load.kill()
		c.load = nil
	}
	c.program.signalAll(syscall.SIGSTOP)
}

// check returns an error if a process that should run has ended.
func (c *container) check() error {
	for _, p := range []*process{c.program, c.load} {
		if p != nil && p.ended() {
			return p.exited()
		}
	}
	return nil
}

// stop ends all processes of a container.
func (c *container) stop() {
	if c.stopLog != nil {
		c.stopLog()
		c.stopLog = nil
	}
	for _, p := range []*process{c.load, c.program} {
		if p != nil {
			p.kill()
		}
	}
	cpu := c.cpu()
	c.mu.Lock()
	c.spent, c.program, c.load = cpu, nil, nil
	c.mu.Unlock()
}

// count returns the number of operations so far by the counter command.
func (c *container) count(ctx context.Context) (record, error) {
	o := &c.app.Operations
	before, cpu := time.Now(), c.cpu()
	text, err := c.session.spawner.output(ctx, c.command("the counter", o.Counter, c.session.aside, nil))
	if err != nil {
		return record{}, err
	}
	re := cmp.Or(o.Match.Regexp, firstNumber)
	n, ok := number(re, text)
	if !ok {
		return record{}, fmt.Errorf("the counter of %s printed %.100q: no number matches %s", c.app.Name, text, re)
	}
	// The command read the counter at an unknown time between both.
	return record{n, before.Add(time.Since(before) / 2), (cpu + c.cpu()) / 2}, nil
}

var firstNumber = regexp.MustCompile(`(\d+(?:\.\d+)?)`)

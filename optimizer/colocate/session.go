package colocate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// local measures on CPUs of this machine. It is a Measurer, and must be closed.
type local struct {
	spec    *Spec
	dir     string
	all     []int // usable CPUs: those of the node, and others for load generators, probes and this process
	cpus    []int
	aside   []int
	rng     *rand.Rand
	spawner *spawner
}

// NewLocal checks the CPUs of a specification against those of this machine. dir is the directory of the specification,
// seed orders the windows of containers alone.
func NewLocal(spec *Spec, dir string, seed uint64) (*local, error) {
	all, err := usable()
	if err != nil {
		return nil, err
	}
	l := &local{spec: spec, dir: dir, all: all, rng: rand.New(rand.NewPCG(seed, 2))}
	var loads []int
	for _, a := range spec.Apps {
		ids, _ := parseCPUs(a.Load.CPUs)
		loads = append(loads, ids...)
	}
	l.cpus, _ = parseCPUs(spec.CPUs)
	if l.cpus == nil {
		l.cpus = without(all, loads)
	}
	if l.aside = without(all, l.cpus); len(l.aside) == 0 {
		l.aside = all
	}
	var errs []error
	if missing := without(slices.Concat(l.cpus, loads), all); len(missing) > 0 {
		errs = append(errs, fmt.Errorf("CPUs %v: not usable here, of %v", missing, all))
	}
	if len(l.cpus) == 0 {
		errs = append(errs, fmt.Errorf("the load generators use all of the CPUs %v: none is left for the node", all))
	}
	for _, a := range spec.Apps {
		ids, _ := parseCPUs(a.Load.CPUs)
		if shared := without(ids, without(ids, l.cpus)); len(shared) > 0 {
			errs = append(errs, fmt.Errorf("app %s: load: CPUs %v are of the node", a.Name, shared))
		}
		if len(a.Load.Command) > 0 && ids == nil && len(without(all, l.cpus)) == 0 {
			errs = append(errs, fmt.Errorf("app %s: load: the node uses all CPUs %v, set cpus so that some are left", a.Name, all))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if l.spawner, err = newSpawner(); err == nil {
		pinSelf(l.aside)
	}
	return l, err
}

// Close ends what Measure has left, which is nothing unless it panicked.
func (l *local) Close() {
	l.spawner.close()
	pinSelf(l.all)
}

// session is a set of containers that are measured together.
type session struct {
	*local
	window     seconds
	containers []*container   // in the order of apps
	of         [][]*container // by app
}

// Measure starts the containers of a pattern and repeats cycles: the pattern, then one container of each app alone.
// Programs that are counted while they run are started once and stopped outside their windows.
func (l *local) Measure(ctx context.Context, counts []uint8, enough func(cycle) bool) (err error) {
	s := &session{local: l, window: cmp.Or(l.spec.Window, 10), of: make([][]*container, len(counts))}
	defer s.close()
	for a, k := range counts {
		for i := range int(k) {
			c, err := s.newContainer(&l.spec.Apps[a], i)
			if err != nil {
				return err
			}
			s.containers, s.of[a] = append(s.containers, c), append(s.of[a], c)
		}
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	before, foreign, steal, err := s.alone(ctx)
	for err == nil {
		var pattern, after []*reading
		var f, st [2]float64
		if pattern, f[0], st[0], err = s.phase(ctx, s.containers); err != nil {
			break
		}
		if after, f[1], st[1], err = s.alone(ctx); err != nil {
			break
		}
		if enough(newCycle(pattern, before, after, max(foreign, f[0], f[1]), max(steal, st[0], st[1]))) {
			return nil
		}
		before, foreign, steal = after, f[1], st[1]
	}
	return err
}

// begin starts the programs that run throughout, lets them warm up together and stops them.
func (s *session) begin(ctx context.Context) error {
	steady := slices.DeleteFunc(slices.Clone(s.containers), (*container).perWindow)
	for _, c := range steady {
		if err := c.start(ctx); err != nil {
			return err
		}
		if err := c.resume(); err != nil {
			return err
		}
	}
	if len(steady) > 0 {
		if err := sleep(ctx, cmp.Or(s.spec.Warmup, 5).duration()); err != nil {
			return err
		}
	}
	for _, c := range steady {
		if err := c.check(); err != nil {
			return err
		}
		c.pause()
	}
	return nil
}

// close ends all programs and removes their directories.
func (s *session) close() {
	var wg sync.WaitGroup
	for _, c := range s.containers {
		wg.Go(func() {
			c.stop()
			os.RemoveAll(c.dir)
		})
	}
	wg.Wait()
}

// usage reads the state of the node.
func (s *session) usage() (usage, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return usage{}, err
	}
	u := usage{at: time.Now()}
	for _, c := range s.containers {
		u.own += c.cpu()
	}
	u.idle, u.steal, err = readCPUTimes(string(stat), s.cpus)
	return u, err
}

// alone measures one container of each app without the others, in random order.
func (s *session) alone(ctx context.Context) (readings []*reading, foreign, steal float64, err error) {
	readings = make([]*reading, len(s.of))
	for _, a := range s.rng.Perm(len(s.of)) {
		if len(s.of[a]) == 0 {
			continue
		}
		one, f, st, err := s.phase(ctx, s.of[a][:1])
		if err != nil {
			return nil, 0, 0, err
		}
		if one[a].Ops == 0 {
			return nil, 0, 0, fmt.Errorf("%s completed no operation in a window of %v s alone", s.spec.Apps[a].Name, float64(s.window))
		}
		readings[a], foreign, steal = one[a], max(foreign, f), max(steal, st)
	}
	return readings, foreign, steal, nil
}

// phase runs some containers for a window and returns their readings by app.
func (s *session) phase(ctx context.Context, active []*container) (readings []*reading, foreign, steal float64, err error) {
	settle := time.Duration(0)
	for _, c := range active {
		if !c.perWindow() {
			if err := c.resume(); err != nil {
				return nil, 0, 0, err
			}
			settle = min(s.window.duration()/5, 500*time.Millisecond)
		}
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, 0, 0, err
	}
	from, err := s.usage()
	if err != nil {
		return nil, 0, 0, err
	}
	results := make([]reading, len(active))
	failures := make([]error, len(active))
	window, end := context.WithTimeout(ctx, s.window.duration())
	defer end()
	watched := watchAll(active)
	var wg sync.WaitGroup
	for i, c := range active {
		wg.Go(func() {
			switch {
			case c.perWindow():
				results[i], failures[i] = s.runOnce(ctx, c)
				end() // the window of the others ends with the first
			case len(c.app.Operations.Counter) > 0:
				results[i], failures[i] = s.queryTwice(ctx, window, c)
			default:
				results[i], failures[i] = s.observe(window, c, from.at)
			}
		})
	}
	wg.Wait()
	watches := watched()
	to, err := s.usage()
	for i, c := range active {
		if !c.perWindow() {
			failures[i] = cmp.Or(c.check(), failures[i]) // the reason why it reported nothing
			c.pause()
		}
	}
	if ctx.Err() != nil {
		return nil, 0, 0, context.Cause(ctx)
	}
	if err := errors.Join(append(failures, err)...); err != nil {
		return nil, 0, 0, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	for i := range results {
		results[i].Demand = watches[i].demand()
	}
	foreign, steal = from.disturbance(to, len(s.cpus))
	return s.average(active, results, foreign+steal), foreign, steal, nil
}

// watchAll observes the threads of containers until the returned function is called.
func watchAll(active []*container) func() []*watch {
	watches := make([]*watch, len(active))
	look := func() {
		for i, c := range active {
			c.look(watches[i])
		}
	}
	for i := range watches {
		watches[i] = &watch{threads: map[int]*thread{}}
	}
	look()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for running := true; running; look() {
			select {
			case <-stop:
				running = false
			case <-time.After(pollEvery):
			}
		}
	}()
	return func() []*watch {
		close(stop)
		<-stopped
		return watches
	}
}

// disturbance returns the shares of the CPU time of a node that other programs and the hypervisor took between two times.
func (u usage) disturbance(to usage, cpus int) (foreign, steal float64) {
	all := to.at.Sub(u.at).Seconds() * float64(cpus)
	if all <= 0 {
		return 0, 0
	}
	steal = (to.steal - u.steal) / all
	return min(1, max(0, 1-(to.own-u.own+to.idle-u.idle)/all-steal)), steal
}

// average returns the mean readings of the containers of each app. taken is the share of the node taken by others.
func (s *session) average(active []*container, results []reading, taken float64) []*reading {
	cpus := float64(len(s.cpus))
	used, demands := make([]float64, len(results)), make([]float64, len(results))
	for i, r := range results {
		used[i], demands[i] = r.CPU/r.Wall, r.Demand
	}
	// Interrupts and threads of the kernel work for the programs, and idle time is counted in ticks: 5 % are not of others.
	free := undisturbed(used, demands, max(0, taken-0.05)*cpus, cpus)
	out := make([]*reading, len(s.of))
	for a, of := range s.of {
		for i, c := range active {
			if slices.Contains(of, c) {
				if out[a] == nil {
					out[a] = &reading{}
				}
				r, n := results[i], float64(min(len(of), len(active)))
				out[a].Ops, out[a].CPU, out[a].Wall = out[a].Ops+r.Ops/n, out[a].CPU+r.CPU/n, out[a].Wall+r.Wall/n
				out[a].Demand, out[a].Free = out[a].Demand+r.Demand/n, out[a].Free+free[i]/n
			}
		}
	}
	return out
}

// between returns the reading between two records of a container.
func between(a, b record) reading {
	return reading{Ops: b.total - a.total, CPU: b.cpu - a.cpu, Wall: b.at.Sub(a.at).Seconds()}
}

// runOnce runs a program that reports at its end.
func (s *session) runOnce(ctx context.Context, c *container) (reading, error) {
	from, cpu := time.Now(), c.cpu()
	if err := c.start(ctx); err != nil {
		return reading{}, err
	}
	defer c.stop()
	limit := s.window.duration()
	if strings.Contains(strings.Join(c.app.Command, " "), "{seconds}") {
		limit = 2*limit + stopGrace // it ends by itself
	}
	if err := c.program.finish(ctx, time.After(limit)); err != nil {
		return reading{}, err
	}
	to := time.Now()
	c.mu.Lock()
	total, matched := c.total, c.matched
	c.mu.Unlock()
	if !matched {
		return reading{}, fmt.Errorf("no line matches %s: %w", c.app.Operations.End, c.program.exited())
	}
	return reading{Ops: total, CPU: c.cpu() - cpu, Wall: to.Sub(from).Seconds()}, nil
}

// queryTwice reads a counter at both ends of a window.
func (s *session) queryTwice(ctx, window context.Context, c *container) (reading, error) {
	from, err := c.count(ctx)
	if err != nil {
		return reading{}, err
	}
	<-window.Done()
	to, err := c.count(ctx)
	if err != nil {
		return reading{}, err
	}
	if to.total < from.total {
		return reading{}, fmt.Errorf("the counter of %s fell from %v to %v", c.app.Name, from.total, to.total)
	}
	return between(from, to), nil
}

// observe returns the reading between the first and the last record of a window.
func (s *session) observe(window context.Context, c *container, since time.Time) (reading, error) {
	<-window.Done()
	c.mu.Lock()
	records := slices.DeleteFunc(c.records, func(r record) bool { return r.at.Before(since) })
	c.records = nil
	c.mu.Unlock()
	if len(records) < 2 {
		return reading{}, fmt.Errorf("%s reported operations %d times in a window of %v s, want at least 2: make it print more often, without buffering, or lengthen the window",
			c.app.Name, len(records), float64(s.window))
	}
	first, last := records[0], records[len(records)-1]
	if last.total < first.total {
		return reading{}, fmt.Errorf("the operations of %s fell from %v to %v: counts: each?", c.app.Name, first.total, last.total)
	}
	return between(first, last), nil
}

// sleep waits for a time or the end of the context.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

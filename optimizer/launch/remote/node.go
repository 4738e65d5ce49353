package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/monitor"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

const (
	// nodeTick is the interval at which a node reads the files of the agent. A signal of the agent (SIGUSR2) only
	// shortens the wait.
	nodeTick = 250 * time.Millisecond
	// patience is the time that a node is held without anything to start, as after the death of the agent.
	patience = 10 * time.Minute
	// fenceTime is the time in which an earlier stretch notices that it no longer owns the run. One that has not
	// renewed its state for so long is dead or has been killed by its own fence.
	fenceTime = 3 * time.Second
	// busyTime limits the wait, in addition to the time for a save and an exit, for the keeper of an earlier stretch.
	busyTime = 30 * time.Second
)

// Exit codes of a node beyond those of the training.
const (
	codeNode   = 1  // the stretch could not be carried out
	codeSaved  = 75 // EX_TEMPFAIL: ended by the engine, to be continued
	codeFenced = 76
)

// Node runs one stretch on its node, from the engine's start of the batch job to the end of the training, and returns
// the exit code of the process. args are the run directory and the number of the stretch, or name an allocation that several
// share, see holder; self is the command that runs this program as a keeper.
func Node(args, self []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: RUN_DIRECTORY STRETCH")
		return codeNode
	}
	if args[0] == holderArg {
		return holdAllocation(args[1])
	}
	number, err := strconv.Atoi(args[1])
	if err != nil || number < 1 {
		fmt.Fprintf(os.Stderr, "stretch %q: want a number from 1\n", args[1])
		return codeNode
	}
	n := &node{run: args[0], shared: launch.StretchDir(args[0], number), n: number, self: self, signals: make(chan os.Signal, 16)}
	n.rank, _ = strconv.Atoi(os.Getenv("SLURM_PROCID")) // 0 on the first or only node
	n.dir = rankDir(n.shared, n.rank)
	signal.Notify(n.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	defer signal.Stop(n.signals)
	code, err := n.carryOut()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// node is one stretch on its node.
type node struct {
	run     string // directory of the run
	shared  string // directory of the stretch
	dir     string // the only directory below which this process writes: that of the stretch or, with a rank, its own
	n       int
	rank    int // of several nodes, from 0: the first one speaks for all
	self    []string
	signals chan os.Signal
	state   nodeState
	spec    spec
	seen    request // the latest request carried out

	job     launch.Job
	sampler *monitor.Sampler
	devices []string  // that the engine has granted, if it names any
	leaving time.Time // when the engine first announced the end; zero: it did not
	termAt  time.Time // of the SIGTERM to the job, if it has not exited before
	killAt  time.Time // of the SIGKILL
	asked   bool      // the job has been asked to save
	stopped bool      // SIGTERM has been sent to the job
	sampled time.Time

	terminated bool // the engine has sent SIGTERM

	peers   []peer    // latest states of the other nodes: of the first one, or those of all others
	failed  *peer     // the first of the others whose job failed, or the first node when it ended
	stopAt  time.Time // of the job, since another node failed or the first one ended; zero: neither
	ordered bool      // the stop at stopAt has been carried out
}

// wallClock is the clock of the node in records; tests shift it.
var wallClock = time.Now

// errFenced reports that another stretch owns the run.
var errFenced = errors.New("another stretch owns the run")

// carryOut runs the stretch.
func (n *node) carryOut() (int, error) {
	host, _ := os.Hostname()
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return codeNode, fmt.Errorf("the run directory cannot be written from %s; it must be on a file system shared by all nodes: %w", host, err)
	}
	var earlier nodeState
	if readJSON(n.dir, nodeFile, &earlier) == nil && earlier.Phase != ready {
		return codeSaved, n.refuseSecond(earlier)
	}
	n.state = nodeState{Beat: earlier.Beat, Schema: fileSchema, Phase: ready, Host: host, Node: cmp.Or(os.Getenv("SLURMD_NODENAME"), host),
		EngineID: os.Getenv("SLURM_JOB_ID"), Life: os.Getenv("SLURM_RESTART_COUNT"), Held: wallClock(), CPUs: monitor.MachineCPUs()}
	if err := n.beat(); err != nil {
		return codeNode, fmt.Errorf("the run directory cannot be written from %s; it must be on a file system shared by all nodes: %w", host, err)
	}
	if err := n.awaitTurn(); err != nil {
		if errors.Is(err, errFenced) {
			return codeFenced, errors.Join(err, n.fail(fenced, launch.Lost, err.Error()))
		}
		return codeNode, errors.Join(err, n.fail(ended, launch.StartFailed, err.Error()))
	}
	if err := n.start(); errors.Is(err, launch.ErrBusy) { // the keeper of an earlier stretch lives: another attempt may succeed
		return codeSaved, errors.Join(err, n.fail(ended, launch.Preempted, err.Error()))
	} else if err != nil {
		return codeNode, errors.Join(err, n.fail(ended, launch.StartFailed, err.Error()))
	}
	return n.supervise()
}

// refuseSecond ends a job that the engine has started again after the training had begun, as after a requeue: the spec is
// that of the first start, and the agent continues from the checkpoint in another stretch. If the earlier process still
// runs, on a node that the engine has lost, the fence of that stretch ends it.
func (n *node) refuseSecond(earlier nodeState) error {
	if earlier.Phase != running {
		return nil // its end is recorded
	}
	if e, ok := earlier.Handle.ReadExit(); ok {
		earlier.Exit = &e
	} else {
		earlier.Exit = &launch.Exit{Reason: launch.Preempted, Code: -1, Detail: "the engine has started the job of the stretch again", At: earlier.Wall,
			Ran: earlier.Wall.Sub(earlier.Started)}
	}
	n.state, n.state.Phase = earlier, ended
	return n.beat()
}

// fail records that the job was not started.
func (n *node) fail(p phase, reason launch.ExitReason, why string) error {
	n.state.Phase, n.state.Failure = p, why
	n.state.Exit = &launch.Exit{Reason: reason, Code: -1, Detail: why, At: wallClock()}
	return n.beat()
}

// beat writes the state of the stretch.
func (n *node) beat() error {
	s := &n.state
	s.Wall, s.Monotonic, s.Beat = wallClock(), launch.Monotonic(), s.Beat+1
	return replace(n.dir, nodeFile, func(w io.Writer) error { return json.NewEncoder(w).Encode(s) })
}

// awaitTurn waits until the agent has written what to start and every earlier stretch has ended. It fails if the
// engine, or the agent, ends the stretch before that.
func (n *node) awaitTurn() error {
	idle, quiet := time.Now(), time.Now()
	before := nodeState{}
	for {
		select {
		case s := <-n.signals:
			if s == unix.SIGTERM {
				n.state.Signal = "SIGTERM"
				return errors.New("ended by the engine before the job was started")
			}
		case <-time.After(nodeTick):
		}
		var q request
		if readJSON(n.shared, requestFile, &q) == nil && q.Stop != nil {
			return errors.New("withdrawn before the job was started")
		}
		if n.isFenced() {
			return errFenced
		}
		if time.Since(n.sampled) > time.Second {
			n.sampled = time.Now()
			n.beat() // it still holds its place; the next beat may succeed
		}
		if n.rank > 0 {
			alive, begun, err := n.firstHasBegun()
			switch {
			case err != nil:
				return err
			case alive:
				idle = time.Now()
			}
			if !begun {
				if time.Since(idle) > patience {
					return fmt.Errorf("the first node shows no sign of life within %v", patience)
				}
				continue
			}
		} else if earlier, alive := n.predecessor(); alive {
			idle = time.Now()
			if earlier.Beat != before.Beat || earlier.Host != before.Host {
				before, quiet = earlier, time.Now()
			}
			if time.Since(quiet) < fenceTime {
				continue
			}
		}
		switch err := readJSON(n.shared, specFile, &n.spec); {
		case err == nil:
			return nil
		case errors.Is(err, launch.ErrNewer):
			return err
		case time.Since(idle) > patience:
			return fmt.Errorf("nothing to start within %v: %w", patience, err)
		}
	}
}

// predecessor returns the state of the latest earlier stretch that has reached a node and has not ended there. One whose
// state cannot be read counts as alive.
func (n *node) predecessor() (nodeState, bool) {
	for k := n.n - 1; k >= 1; k-- {
		var s nodeState
		err := readJSON(launch.StretchDir(n.run, k), nodeFile, &s)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || s.Phase == ready || s.Phase == running {
			return s, true
		}
	}
	return nodeState{}, false
}

// isFenced reports whether a later stretch owns the run. A file that cannot be read changes nothing.
func (n *node) isFenced() bool {
	var o owner
	return readJSON(n.run, ownerFile, &o) == nil && o.Stretch > n.n
}

// start starts the job under a keeper. The processors are those that the engine has granted; a request for more is
// reduced to them.
func (n *node) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	host, err := resources.Discover(ctx, resources.Roots{})
	if err != nil {
		return fmt.Errorf("read what this node offers: %w", err)
	}
	s := &n.spec
	a := s.Allocation
	a.GPUs, a.GPUIDs = 0, nil // the engine has chosen the devices
	if whole := max(1, int(host.CPUs)); a.CPUs > whole {
		a.CPUs = whole
	}
	l := s.Limits
	l.CPUs.Min, l.GPUs.Min = 0, 0
	c := launch.Command{Args: s.Args, Dir: s.Dir, PTY: s.PTY, RunDir: n.dir, Allocation: a, Limits: l, Grace: s.Grace,
		StopAfter: n.stopAfter(), Tied: true}
	if err := n.awaitKeepers(); err != nil {
		return err
	}
	if err := n.meet(); err != nil {
		return err
	}
	c.Env = n.environment()
	local := launch.Local{Self: n.self, Host: host}
	if n.job, err = local.Start(context.Background(), c); err != nil {
		return err
	}
	tree := n.job.(launch.ProcessTree)
	n.sampler = &monitor.Sampler{Collectors: []monitor.Collector{&monitor.Host{}, &monitor.Tree{PIDs: tree.PIDs}}}
	if s.Allocation.GPUs > 0 {
		for _, g := range host.GPUs {
			n.devices = append(n.devices, g.UUID)
		}
		n.sampler.Collectors = append(n.sampler.Collectors, monitor.OpenNVML())
	}
	n.state.Phase, n.state.Started = running, wallClock()
	n.state.Enforced, n.state.Handle = n.job.Enforced(), n.job.Handle()
	n.beat() // the job runs; the next beat may succeed
	return nil
}

// granted returns the samples of the devices that the engine has granted; all if none of them is known.
func (n *node) granted(all []monitor.GPUSample) []monitor.GPUSample {
	own := slices.DeleteFunc(slices.Clone(all), func(g monitor.GPUSample) bool { return !slices.Contains(n.devices, g.UUID) })
	if len(own) == 0 {
		return all
	}
	return own
}

// awaitKeepers waits until the keepers of all earlier stretches have ended: one whose supervisor was killed still lets its
// training save. On a file system without locks it does not wait.
func (n *node) awaitKeepers() error {
	until := time.Now().Add(busyTime + 2*n.spec.Grace)
	for k := n.n - 1; k >= 1; k-- {
		dir := launch.StretchDir(n.run, k)
		for slices.ContainsFunc(append(rankDirs(dir), dir), launch.Supervised) {
			if n.isFenced() || time.Now().After(until) {
				return fmt.Errorf("%w: stretch %d", launch.ErrBusy, k)
			}
			time.Sleep(nodeTick)
			n.beat() // the next beat may succeed
		}
	}
	return nil
}

// taskVariables are the variables of a batch job that Slurm sets only because a number of tasks was requested, one on each node.
// PyTorch Lightning takes them as the sign that srun starts a process for each GPU. SLURM_TASKS_PER_NODE is set in every
// batch job, and Open MPI requires it.
var taskVariables = []string{"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"}

// environment is that of the batch job with the variables of the spec, on one node without taskVariables: the job is not a task
// of srun, and starts a process for each GPU itself.
func (n *node) environment() []string {
	own := map[string]bool{}
	set := append(slices.Clone(n.spec.Env), n.rankVariables()...)
	drop := slices.Clone(n.spec.Unset)
	if n.spec.Nodes < 2 {
		drop = append(drop, taskVariables...)
	}
	for _, v := range slices.Concat(set, drop) {
		name, _, _ := strings.Cut(v, "=")
		own[name] = true
	}
	var env []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !own[name] {
			env = append(env, v)
		}
	}
	return append(env, set...)
}

// stopAfter returns the time limit of the job if no agent changes it: the earlier of StopAfter and the rest of StopIn.
func (n *node) stopAfter() time.Duration {
	d := n.spec.StopAfter
	if in := n.spec.StopIn; in > 0 {
		if left := max(in-n.sinceSpec(), time.Millisecond); d == 0 || left < d {
			d = left
		}
	}
	return d
}

// sinceSpec returns the time since the spec was written. Both moments are file times, which are those of one clock, that of
// the file system, whatever the clocks of the agent's machine and of this one show.
func (n *node) sinceSpec() time.Duration {
	n.beat() // the next beat may succeed
	spec, err1 := os.Stat(filepath.Join(n.shared, specFile))
	own, err2 := os.Stat(filepath.Join(n.dir, nodeFile))
	if err1 != nil || err2 != nil {
		return 0
	}
	return max(own.ModTime().Sub(spec.ModTime()), 0)
}

// supervise carries out requests, answers the engine's signals and renews the state until the job has ended.
func (n *node) supervise() (int, error) {
	defer n.sampler.Close()
	defer n.job.Close()
	interval := max(n.spec.Interval, 200*time.Millisecond)
	tick := time.NewTicker(nodeTick)
	defer tick.Stop()
	for {
		select {
		case <-n.job.Done():
			return n.finish()
		case s := <-n.signals:
			n.receive(s)
		case <-tick.C:
		}
		if n.isFenced() {
			n.kill()
			exit := n.job.Exit()
			n.state.Phase, n.state.Exit = fenced, &exit
			return codeFenced, errors.Join(errFenced, n.beat())
		}
		n.serve()
		n.escalate()
		n.followPeers()
		if time.Since(n.sampled) >= interval {
			n.sampled = time.Now()
			if s, _ := n.sampler.Sample(context.Background(), wallClock()); n.sampler != nil {
				s.GPUs = n.granted(s.GPUs)
				writeSample(n.dir, s) // a missing sample is no data for the agent
			}
			n.beat() // a full disk does not end the training
		}
	}
}

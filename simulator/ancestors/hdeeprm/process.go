package hdeeprm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
	"trainopt/simulator/workload"
)

// Machinery obeys a Process: cores.Simulation does, and so may a Batsim at the other end of a socket.
type Machinery interface {
	Start(job int32, cores []int32) error
	SetState(cores []int32, state uint8) error
	Reject(job int32) error
}

// Process is HDeepRM's decision process, without the agent: it is told what happened (Take), says whether a decision is due (Due),
// what the agent sees (Observe), does what the agent chose (Act), and ends its answer (Close). A decision is due when a job was
// submitted or ended since the last one, and jobs wait. To act is to take the first job of the queue under a job policy, to start
// it on the cores that a core policy chooses, and to go on until the first one does not fit: none is passed over.
//
//	for simulation.Next() {
//		process.Take(simulation.Now(), simulation.Events(), simulation.Arrivals())
//		for again := true; again; again = process.Close() {
//			if process.Due() {
//				process.Act(choose(process.Observe()))
//			}
//		}
//	}
//	err := process.Err()
//
// The first command that fails ends it: see Err. It is not safe for use by several goroutines.
type Process struct {
	settings Settings
	actions  []Pair
	void     int // its number, −1 none
	limits   Limits
	tree     *platform.Tree
	jobs     []queue.Job
	machine  *cores.Machine
	commands Machinery
	choosers [corePolicies]cores.Chooser
	draws    *workload.Python
	ready    float64 // power of an idle core beside a busy one

	now      float64
	more     int // jobs to be submitted
	waiting  waiting
	running  []int32   // in any order
	at       []int32   // of each job: its place in running, −1 not there
	cores    [][]int32 // of each job that was started
	seen     view
	blind    bool            // nobody observes
	capacity map[float64]int // by memory of a core: how many cores of it an idle machine takes

	fresh   bool // submitted or ended since the last decision
	voided  bool // the last action was void
	owed    bool // the last action was not rewarded yet
	reward  float64
	rewards int
	idle    int // decisions in a row after which nothing had happened
	err     error
	counts  Counts
}

// Counts are of one run.
type Counts struct {
	Decisions, Voids int
	Rejected         int // jobs that can never run
	// CoreBubbles and MemoryBubbles are decisions that ended because the next job lacked cores, or memory.
	CoreBubbles, MemoryBubbles int
}

// patience is after how many decisions in a row that change nothing, at one instant, an agent is given up.
const patience = 10_000

// NewProcess is a process for machines like tree. Limits are what observations are relative to. It is of use after Reset.
func NewProcess(tree *platform.Tree, limits Limits, settings Settings) (*Process, error) {
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	for _, l := range []float64{limits.Time, limits.Cores, limits.Memory, limits.Bandwidth} {
		if !(l > 0) {
			return nil, fmt.Errorf("decide for jobs: their limits are %+v, want all above 0", limits)
		}
	}
	p := &Process{settings: settings, actions: settings.Actions, void: -1, limits: limits, tree: tree,
		machine: cores.NewMachine(tree), ready: ready, capacity: map[float64]int{}}
	if len(p.actions) == 0 {
		p.actions = Table()
	}
	if p.settings.QueueSensitivity == 0 {
		p.settings.QueueSensitivity = defaultSensitivity
	}
	switch {
	case settings.Void:
		p.void = len(p.actions)
	case settings.Compat:
		p.void = len(p.actions) - 1
	}
	if settings.Compat {
		p.ready = readyCompat
	}
	for i, chooser := range choosers {
		p.choosers[i] = chooser(func(n int) int { return p.draws.Below(n) })
	}
	p.seen.process = p
	if settings.View == Normal {
		p.machine.Watch = p.seen.watch
	}
	return p, nil
}

// Reset goes back to an idle machine and an empty queue. Events name jobs by their place in jobs; commands get the answers. It
// keeps what memory it has.
func (p *Process) Reset(jobs []queue.Job, commands Machinery) {
	p.jobs, p.commands = jobs, commands
	p.draws = nil
	if p.random() {
		p.draws = workload.NewPython(p.settings.Seed)
	}
	p.machine.Reset()
	p.waiting.reset(jobs)
	p.running = p.running[:0]
	p.at, p.cores = p.at[:0], p.cores[:0]
	p.seen.reset()
	p.Extend(jobs)
	p.now, p.more, p.fresh, p.voided, p.owed, p.reward, p.rewards, p.idle, p.err, p.counts = 0, len(jobs), false, false, false, 0, 0, 0, nil, Counts{}
}

// Extend is for workloads that become known while they run: jobs are those of Reset, and more behind them. It is called before an
// event names one of the new ones.
func (p *Process) Extend(jobs []queue.Job) {
	p.jobs, p.waiting.jobs = jobs, jobs
	for len(p.at) < len(jobs) {
		p.at = append(p.at, -1)
	}
	p.cores = slices.Grow(p.cores, len(jobs)-len(p.cores))[:len(jobs)] // what allocations were kept in is used again
	p.seen.extend(len(jobs))
}

// random says whether any action draws numbers.
func (p *Process) random() bool {
	return slices.ContainsFunc(p.actions, func(a Pair) bool { return a.Job == RandomJob || a.Core == RandomCore })
}

// Actions is the number of actions, void included.
func (p *Process) Actions() int {
	if p.settings.Void {
		return len(p.actions) + 1
	}
	return len(p.actions)
}

// Machine is what the process knows of the machine; it is to be read only.
func (p *Process) Machine() *cores.Machine { return p.machine }

// Waiting is the number of jobs in the queue.
func (p *Process) Waiting() int { return p.waiting.len() }

// Running is the number of jobs that run.
func (p *Process) Running() int { return len(p.running) }

// Counts are what the process counted since Reset.
func (p *Process) Counts() Counts { return p.counts }

// Err is the first thing that went wrong; nil when nothing did.
func (p *Process) Err() error { return p.err }

func (p *Process) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// Take hears what happened at an instant, and how many jobs are still to be submitted; it rewards the last action if that was not
// rewarded yet.
func (p *Process) Take(now float64, events []cores.Event, more int) {
	p.now, p.more, p.idle = now, more, 0
	for _, e := range events {
		switch e.Kind {
		case cores.Ended, cores.Stopped:
			p.ended(e.Job)
		case cores.Submitted:
			p.submitted(e.Job)
		}
	}
	p.pay()
}

func (p *Process) ended(job int32) {
	at := p.at[job]
	if at < 0 {
		p.fail(fmt.Errorf("at %v s: %s ended, but was never started", p.now, p.name(job)))
		return
	}
	p.machine.Release(&p.jobs[job], p.cores[job])
	last := p.running[len(p.running)-1]
	p.running[at], p.at[last] = last, at
	p.running, p.at[job] = p.running[:len(p.running)-1], -1
	p.fresh = true
}

func (p *Process) submitted(job int32) {
	j := &p.jobs[job]
	if !p.settings.Compat && p.takes(j) < j.Procs {
		if err := p.commands.Reject(job); err != nil {
			p.fail(err)
		}
		p.counts.Rejected++
		return
	}
	p.waiting.add(job)
	p.seen.add(j)
	p.fresh = true
}

// takes is how many cores of a job the idle machine takes.
func (p *Process) takes(j *queue.Job) int {
	n, known := p.capacity[j.Memory]
	if !known {
		n = cores.Most(p.tree, j)
		p.capacity[j.Memory] = n
	}
	return n
}

func (p *Process) name(job int32) string {
	if j := &p.jobs[job]; j.Name != "" {
		return "job " + j.Name
	}
	return fmt.Sprintf("job %d", p.jobs[job].ID)
}

// pay rewards the last action, once.
func (p *Process) pay() {
	if p.owed {
		p.owed = false
		p.reward = p.Reward()
		p.rewards++
	}
}

// Rewarded is the reward of the last action that was rewarded, and how many were since Reset.
func (p *Process) Rewarded() (reward float64, count int) { return p.reward, p.rewards }

// Due says whether the agent has to decide now.
func (p *Process) Due() bool {
	return p.err == nil && p.waiting.len() > 0 && (p.fresh || p.more == 0 && p.voided)
}

// Act does what the agent chose: the number of an action.
func (p *Process) Act(action int) {
	if action < 0 || action >= p.Actions() {
		p.fail(fmt.Errorf("at %v s: the agent chose action %d, they are 0…%d", p.now, action, p.Actions()-1))
		return
	}
	p.counts.Decisions++
	p.voided = action == p.void
	p.idle++
	if action < len(p.actions) {
		if started := p.schedule(p.actions[action]); started > 0 {
			p.idle = 0
		}
	} else {
		p.counts.Voids++
	}
	p.owed, p.fresh = true, false
}

// schedule starts jobs until one does not fit.
func (p *Process) schedule(pair Pair) (started int) {
	chooser := p.choosers[pair.Core]
	for ; p.waiting.len() > 0 && p.err == nil; started++ {
		at := 0
		if pair.Job == RandomJob {
			at = p.draws.Below(p.waiting.len())
		} else {
			p.waiting.sort(pair.Job)
		}
		job := p.waiting.all()[at]
		j := &p.jobs[job]
		where, fit := p.machine.TryPlace(job, j, chooser, p.cores[job][:0])
		p.cores[job] = where
		switch fit {
		case cores.LacksCores:
			p.counts.CoreBubbles++
			return started
		case cores.LacksMemory:
			p.counts.MemoryBubbles++
			return started
		}
		p.waiting.remove(at)
		p.at[job] = int32(len(p.running))
		p.running = append(p.running, job)
		p.seen.start(job)
		if err := p.commands.Start(job, where); err != nil {
			p.fail(err)
		}
	}
	return started
}

// Close ends the answer: it sends the states that changed. True says that the agent is to be asked again at once, since it chose
// void and nothing else will wake it.
func (p *Process) Close() (again bool) {
	p.machine.Changes(func(state uint8, cores []int32) {
		if err := p.commands.SetState(cores, state); err != nil {
			p.fail(err)
		}
	})
	p.seen.settle()
	again = p.err == nil && p.more == 0 && p.voided && p.waiting.len() > 0 && (p.settings.Compat || len(p.running) == 0)
	if again && p.idle >= patience {
		p.fail(fmt.Errorf("at %v s: nothing arrives any more, %d jobs wait, and the agent chose action %d, which does nothing, %d times in a row", p.now, p.waiting.len(), p.void, p.idle))
		return false
	}
	if again {
		p.pay()
	}
	return again
}

// ErrBlocked says that jobs wait for ever: the first of the queue cannot run even on an idle machine.
var ErrBlocked = errors.New("jobs wait for ever")

// Finish is an error when jobs still wait although nothing will happen any more. It is for after the last step.
func (p *Process) Finish() error {
	if p.err != nil {
		return p.err
	}
	n := p.waiting.len()
	if n == 0 || len(p.running) > 0 {
		return nil
	}
	worst := slices.MinFunc(p.waiting.all(), func(a, b int32) int {
		return cmp.Compare(p.takes(&p.jobs[a])-p.jobs[a].Procs, p.takes(&p.jobs[b])-p.jobs[b].Procs)
	})
	j := &p.jobs[worst]
	return fmt.Errorf("decide for jobs: %d wait at %v s and nothing runs: %s asks for %d cores with %v MB each, the idle machine has %d such: %w",
		n, p.now, p.name(worst), j.Procs, j.Memory, p.takes(j), ErrBlocked)
}

package hdeeprm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload"
)

// executor executes the commands of a Process. It is implemented by cores.Simulation, and by sessions of an external
// Batsim.
type executor interface {
	Start(job int32, cores []int32) error
	SetState(cores []int32, state uint8) error
	Reject(job int32) error
}

// Process is HDeepRM's decision process, without the agent. Take processes events, Due reports whether a decision is
// due, Observe returns the observation, Act executes an action, and Close completes the reply. A decision is due if
// jobs wait and a job was submitted or ended since the last decision. An action repeatedly selects the first job of
// the queue by a job policy and starts it on cores selected by a core policy, until the first job does not fit: no
// job is skipped.
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
// The first failing command ends the process: see Err. A Process is not safe for concurrent use.
type Process struct {
	settings Settings
	actions  []Pair
	void     int // number of the void action, −1 means none
	limits   Limits
	tree     *platform.Tree
	jobs     []order.Job
	machine  *queue.Machine
	commands executor
	choosers [corePolicies]queue.Chooser
	draws    *workload.Python
	ready    float64 // relative power of an idle core beside a busy one

	now      float64
	more     int // number of jobs not yet submitted
	waiting  waiting
	running  []int32   // unordered
	at       []int32   // index in running, by job, −1 if not running
	cores    [][]int32 // by started job
	seen     view
	capacity map[float64]int // cores that the idle machine can give to a job, by memory per core

	fresh   bool // a job was submitted or ended since the last decision
	voided  bool // the last action was void
	owed    bool // the last action was not rewarded yet
	reward  float64
	rewards int
	idle    int // consecutive decisions without effect
	err     error
	counts  Counts
}

// Counts are the counts of one run.
type Counts struct {
	Decisions int
	Rejected  int // jobs that can never run
	// CoreBubbles and MemoryBubbles count decisions that ended because the next job lacked cores or memory.
	CoreBubbles, MemoryBubbles int
}

// patience is the maximum number of consecutive decisions without effect at one instant; beyond it, the run ends with
// an error.
const patience = 10_000

// NewProcess returns a process for machines like tree. Limits normalise observations. Reset must be called before
// use.
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
		machine: queue.NewMachine(tree), ready: ready, capacity: map[float64]int{}}
	if len(p.actions) == 0 {
		p.actions = Table()
	}
	p.settings.QueueSensitivity = cmp.Or(p.settings.QueueSensitivity, defaultSensitivity)
	switch {
	case settings.Void:
		p.void = len(p.actions)
	case settings.Compat:
		p.void = len(p.actions) - 1
	}
	if settings.Compat {
		p.ready = readyCompat
	}
	for i, name := range coreNames {
		p.choosers[i] = queue.NewChooser(name, func(n int) int { return p.draws.Below(n) })
	}
	p.seen.process = p
	if settings.View == Normal {
		p.machine.Watch = p.seen.watch
	}
	return p, nil
}

// Reset returns to an idle machine and an empty queue. Events refer to jobs by their index in jobs; the process sends
// its decisions to commands. Memory is reused.
func (p *Process) Reset(jobs []order.Job, commands executor) {
	p.jobs, p.commands = jobs, commands
	p.draws = nil
	if slices.ContainsFunc(p.actions, Pair.Random) {
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

// Extend adds jobs to a workload that becomes known during the run: jobs are those of Reset followed by new ones. It
// must be called before an event refers to a new job.
func (p *Process) Extend(jobs []order.Job) {
	p.jobs, p.waiting.jobs = jobs, jobs
	for len(p.at) < len(jobs) {
		p.at = append(p.at, -1)
	}
	p.cores = slices.Grow(p.cores, len(jobs)-len(p.cores))[:len(jobs)] // reuses the arrays of former allocations
	p.seen.extend(len(jobs))
}

// Actions returns the number of actions, void included.
func (p *Process) Actions() int {
	if p.settings.Void {
		return len(p.actions) + 1
	}
	return len(p.actions)
}

// Waiting returns the number of waiting jobs.
func (p *Process) Waiting() int { return p.waiting.len() }

// Running returns the number of running jobs.
func (p *Process) Running() int { return len(p.running) }

// Counts returns the counts since Reset.
func (p *Process) Counts() Counts { return p.counts }

// Err returns the first error, or nil.
func (p *Process) Err() error { return p.err }

func (p *Process) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// HandleEvents processes the events of an instant; more is the number of jobs still to be submitted. It rewards the last
// action if that is outstanding.
func (p *Process) HandleEvents(now float64, events []queue.Event, more int) {
	p.now, p.more, p.idle = now, more, 0
	for _, e := range events {
		switch e.Kind {
		case queue.Ended, queue.Stopped:
			p.ended(e.Job)
		case queue.Submitted:
			p.submitted(e.Job)
		}
	}
	p.rewardLast()
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

// takes returns how many cores of a job the idle machine can provide.
func (p *Process) takes(j *order.Job) int {
	n, known := p.capacity[j.Memory]
	if !known {
		n = queue.MaxCores(p.tree, j)
		p.capacity[j.Memory] = n
	}
	return n
}

func (p *Process) name(job int32) string { return "job " + p.jobs[job].Label() }

// pay rewards the last action, once.
func (p *Process) rewardLast() {
	if p.owed {
		p.owed = false
		p.reward = p.Reward()
		p.rewards++
	}
}

// Rewarded returns the last reward and the number of rewards since Reset.
func (p *Process) Rewarded() (reward float64, count int) { return p.reward, p.rewards }

// Due reports whether a decision is due.
func (p *Process) Due() bool {
	return p.err == nil && p.waiting.len() > 0 && (p.fresh || p.more == 0 && p.voided)
}

// Act executes the action with the given number.
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
	}
	p.owed, p.fresh = true, false
}

// schedule starts jobs by a pair of policies until one does not fit, and returns their number. The reason for
// stopping, lack of cores or of memory, is counted.
func (p *Process) schedule(pair Pair) (started int) {
	chooser := p.choosers[pair.core]
	for ; p.waiting.len() > 0 && p.err == nil; started++ {
		at := 0
		if pair.job == randomJob {
			at = p.draws.Below(p.waiting.len())
		} else {
			p.waiting.sort(pair.job)
		}
		job := p.waiting.all()[at]
		j := &p.jobs[job]
		where, fit := p.machine.TryPlace(job, j, chooser, p.cores[job][:0])
		p.cores[job] = where
		switch fit {
		case queue.LacksCores:
			p.counts.CoreBubbles++
			return started
		case queue.LacksMemory:
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

// Close completes the reply by sending the changed core states. It returns true if a further decision is due at this
// instant, because the agent chose void and no later event would trigger one.
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
		p.rewardLast()
	}
	return again
}

// ErrBlocked means that jobs wait forever: the first of the queue cannot run even on the idle machine.
var ErrBlocked = errors.New("jobs wait for ever")

// Finish returns an error if jobs still wait after the last event.
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

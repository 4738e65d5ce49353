package hdeeprm

import (
	"fmt"
	"slices"
	"strings"

	"trainopt/simulator/queue"
)

// Objective is what an agent is rewarded for. Rewards are of the state after an action, at the time when the next message comes.
type Objective uint8

const (
	Slowdown    Objective = iota // −Σ 1/requested time of the jobs that wait or run
	Completion                   // −the number of jobs that wait or run
	Utilization                  // the number of busy cores; HDeepRM means this too, but ends in an error
	Makespan                     // Σ of the speeds of the cores now, GFLOPS
	Energy                       // −Σ of the power of the cores now, W
	// EnergyDelay is −power·(jobs that wait or run)/1,000: what energy and delay grow by in a second, multiplied. HDeepRM lists
	// the objective, but has no reward for it.
	EnergyDelay
	objectives
)

var objectiveNames = [objectives]string{"avg_job_slowdown", "avg_job_completion", "avg_utilization", "makespan", "energy_consumption", "edp"}

// String is the name in options files.
func (o Objective) String() string { return objectiveNames[o] }

// ParseObjective is the objective of a name. The error names those that there are.
func ParseObjective(name string) (Objective, error) {
	if i := slices.Index(objectiveNames[:], name); i >= 0 {
		return Objective(i), nil
	}
	return 0, fmt.Errorf("no objective is called %q: there are %s", name, strings.Join(objectiveNames[:], ", "))
}

// Reward is that of the state now. O(processors), or O(jobs that wait or run) for Slowdown.
func (p *Process) Reward() float64 {
	inside := float64(p.waiting.len() + len(p.running))
	switch p.settings.Objective {
	case Slowdown:
		sum := 0.0
		for _, j := range p.waiting.all() {
			sum += 1 / requested(&p.jobs[j])
		}
		for _, j := range p.running {
			sum += 1 / requested(&p.jobs[j])
		}
		return 0 - sum
	case Completion:
		return 0 - inside
	case Utilization:
		return float64(p.tree.Cores - p.machine.Free())
	case Makespan:
		speed, _ := p.gauge()
		return speed
	case Energy:
		_, power := p.gauge()
		return -power
	}
	_, power := p.gauge()
	return -power * inside / 1000
}

// requested is the requested time, or 1 s where a job asks for none.
func requested(j *queue.Job) float64 {
	if j.Request > 0 {
		return j.Request
	}
	return 1
}

// gauge is the speed and the power of all cores now, GFLOPS and W.
func (p *Process) gauge() (speed, power float64) {
	for i := range p.tree.Processors {
		t := &p.tree.Processors[i]
		free := p.machine.FreeOf(int32(i))
		if free == t.Cores {
			power += asleep * t.Watts * float64(free)
			continue
		}
		busy := float64(t.Cores - free)
		power += t.Watts * (busy + p.ready*float64(free))
		if p.machine.Bandwidth(int32(i)) < 0 {
			busy *= slowed
		}
		speed += t.GFLOPS * busy
	}
	return speed, power
}

// Of a core's speed and power in the states of the resource model, as decisions see them; that of P2 is Process.ready.
const (
	slowed      = 0.75
	asleep      = 0.05
	readyCompat = 0.15
	ready       = 0.25
)

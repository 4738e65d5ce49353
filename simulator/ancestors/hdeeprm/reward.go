package hdeeprm

import "trainopt/optimizer/schedule/order"

// Objective determines the reward. A reward describes the state after an action, at the time of the next message.
type Objective uint8

const (
	Slowdown    Objective = iota // −Σ 1/requested time of the waiting and running jobs
	Completion                   // −number of waiting and running jobs
	Utilization                  // number of busy cores; intended by HDeepRM, whose code fails
	Makespan                     // Σ of the present speeds of the cores, GFLOPS
	Energy                       // −Σ of the present power of the cores, W
	// EnergyDelay is −power·(waiting and running jobs)/1,000: the product of the growth of energy and of total delay
	// per second. HDeepRM lists this objective without a reward.
	EnergyDelay
	objectives
)

var objectiveNames = [objectives]string{"avg_job_slowdown", "avg_job_completion", "avg_utilization", "makespan", "energy_consumption", "edp"}

// String returns the name in options files.
func (o Objective) String() string { return objectiveNames[o] }

// parseObjective returns the objective with the given name. The error lists the valid names.
func parseObjective(name string) (Objective, error) {
	i, err := parse("objective", name, objectiveNames[:])
	return Objective(i), err
}

// Reward returns the reward of the present state. O(processors), or O(waiting and running jobs) for Slowdown.
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
		speed, _ := p.speedAndPower()
		return speed
	case Energy:
		_, power := p.speedAndPower()
		return -power
	}
	_, power := p.speedAndPower()
	return -power * inside / 1000
}

// requested returns the requested time, or 1 s for a job without one.
func requested(j *order.Job) float64 {
	if j.Request > 0 {
		return j.Request
	}
	return 1
}

// speedAndPower returns the present total speed and power of all cores, GFLOPS and W.
func (p *Process) speedAndPower() (speed, power float64) {
	for i := range p.tree.Processors {
		t := &p.tree.Processors[i]
		power += p.machine.Power(int32(i), p.ready)
		busy := float64(t.Cores - p.machine.FreeOf(int32(i)))
		if p.machine.Bandwidth(int32(i)) < 0 {
			busy *= slowed
		}
		speed += t.GFLOPS * busy
	}
	return speed, power
}

// Relative speed and power of a core in the states of the resource model, as decisions use them; the power in P2 is
// Process.ready.
const (
	slowed      = 0.75
	asleep      = 0.05
	readyCompat = 0.15
	ready       = 0.25
)

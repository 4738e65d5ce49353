package cluster

// Learned are the Rates that a server learns from its jobs, for simulations that decide with the same knowledge.
type Learned struct{ *learner }

// NewLearned returns rates of which nothing is known yet but the stated speeds. round is in seconds; oneServer is true
// if all devices of a job must be of one server.
func NewLearned(devices []Device, round float64, oneServer bool) Learned {
	return Learned{newLearner(devices, round, oneServer)}
}

// Add adds a job. Its Done, Total and Attained are read when rates are asked for.
func (l Learned) Add(job *Job, spec *Spec) { l.add(job, spec) }

// Observe takes the measured rate of a job in steps/s and the number of measurements behind it. changed is true if
// decisions may depend on it: Scheduler.Changed is then to be called.
func (l Learned) Observe(job int, device string, gpus int, perSec float64, blocks int) (changed bool) {
	_, changed = l.observe(job, device, gpus, perSec, blocks)
	return changed
}

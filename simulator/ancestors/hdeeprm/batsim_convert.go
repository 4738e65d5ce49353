package hdeeprm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"trainopt/optimizer/schedule/order"
)

// SpeedOptions configure the conversion of a workload to jobs of a simulator.
type SpeedOptions struct {
	// Reference is the speed of a core in GFLOPS, used to convert between operations and seconds where only one is
	// known: platform.Tree.Reference. 0 means 1.
	Reference float64
}

// conversion is a workload ready for simulation.
type conversion struct {
	// Jobs are ordered by submission, then as in the workload. ID is the workload's number of a job; if any job of the
	// workload has a name that is not a number, ID is its index and Name its name. Ops, Memory and Bandwidth are per
	// core; Run is the time of the operations at the reference speed. A waiting job (delay) has no Ops, and Run is its
	// duration at any speed.
	Jobs []order.Job
	// Dropped and Adjusted count the jobs that cannot be simulated and those that were changed, by reason.
	Dropped, Adjusted map[string]int

	profiles map[int]string
}

// Profile returns the name of a job's profile, for the table of jobs.
func (c *conversion) Profile(j *order.Job) string { return c.profiles[j.ID] }

// Convert returns the jobs for a simulator. Jobs whose profiles require a model of networks, storage or messages are
// dropped and counted by reason. Communication is omitted and counted, as are differences between the cores of a
// parallel job: each core has the operations of the one with most. O(n log n).
func (w *BatsimWorkload) Convert(o SpeedOptions) (*conversion, error) {
	o.Reference = cmp.Or(o.Reference, 1)
	if !(o.Reference > 0) || math.IsInf(o.Reference, 1) {
		return nil, fmt.Errorf("convert workload: a reference speed of %v GFLOPS, want more than 0", o.Reference)
	}
	c := &conversion{Dropped: map[string]int{}, Adjusted: map[string]int{}, profiles: map[int]string{}}
	named := slices.ContainsFunc(w.Jobs, func(j BatsimJob) bool {
		n, err := strconv.Atoi(j.ID)
		return err != nil || strconv.Itoa(n) != j.ID
	})
	for i := range w.Jobs {
		j := &w.Jobs[i]
		load, err := w.load(j, j.Profile, 0)
		if err != nil {
			var refused refusal
			if !errors.As(err, &refused) {
				return nil, fmt.Errorf("convert workload: job %q: %w", j.ID, err)
			}
			c.Dropped[string(refused)]++
			continue
		}
		for note := range load.notes {
			c.Adjusted[note]++
		}
		q := load.job(j, w.Profiles[j.Profile], o.Reference*1e9)
		if q.ID = i; named {
			q.Name = j.ID
		} else {
			q.ID, _ = strconv.Atoi(j.ID)
		}
		if math.IsInf(q.Run, 0) || math.IsInf(q.Ops, 0) {
			return nil, fmt.Errorf("convert workload: job %q: its profile %q is too large", j.ID, j.Profile)
		}
		c.profiles[q.ID] = j.Profile
		c.Jobs = append(c.Jobs, q)
	}
	slices.SortStableFunc(c.Jobs, func(a, b order.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return c, nil
}

// refusal is the reason that a job cannot be simulated.
type refusal string

func (r refusal) Error() string { return string(r) }

// load is the work of a core of a job.
type load struct {
	ops, seconds      float64
	memory, bandwidth float64
	notes             map[string]bool
}

// deepest is the maximum nesting depth of composed profiles; deeper ones are considered recursive.
const deepest = 32

// load returns the work of each core of a job with the named profile.
func (w *BatsimWorkload) load(j *BatsimJob, name string, depth int) (load, error) {
	p, ok := w.Profiles[name]
	if !ok {
		return load{}, fmt.Errorf("profile: there is no profile %q", name)
	}
	if depth > deepest {
		return load{}, fmt.Errorf("profile: %q is composed of itself, or more than %d deep", name, deepest)
	}
	l := load{memory: p.Memory, bandwidth: p.Bandwidth, notes: map[string]bool{}}
	if p.Return != 0 {
		l.notes["it ends with an error: counted as a success"] = true
	}
	if slices.ContainsFunc(p.Com, func(bytes float64) bool { return bytes > 0 }) {
		l.notes["communication left out"] = true
	}
	switch p.Type {
	case delay:
		l.seconds = p.Seconds
	case homogeneous, homogeneousTotal, parallel:
		if p.Type == parallel && len(p.CPU) > 0 && len(p.CPU) != j.Resources {
			return load{}, fmt.Errorf("res: %d cores, but cpu of profile %q has %d numbers", j.Resources, name, len(p.CPU))
		}
		if len(p.CPU) > 0 {
			l.ops = slices.Max(p.CPU)
			if slices.Min(p.CPU) != l.ops {
				l.notes["cores of unequal work: all get that of the one with most"] = true
			}
		}
		if p.Type == homogeneousTotal {
			l.ops /= float64(j.Resources)
		}
		if l.ops == 0 && l.notes["communication left out"] {
			return load{}, refusal("profile of communication alone")
		}
	case composed:
		return w.composed(j, p, l, depth)
	default:
		return load{}, refusal(fmt.Sprintf("profile of type %q", p.Type))
	}
	return l, nil
}

// composed returns the work of a sequence of profiles.
func (w *BatsimWorkload) composed(j *BatsimJob, p batsimProfile, l load, depth int) (load, error) {
	for _, name := range p.Sequence {
		part, err := w.load(j, name, depth+1)
		if err != nil {
			return load{}, err
		}
		l.ops += part.ops
		l.seconds += part.seconds
		l.memory, l.bandwidth = max(l.memory, part.memory), max(l.bandwidth, part.bandwidth)
		maps.Copy(l.notes, part.notes)
	}
	if p.Repeat > 1 {
		l.ops *= float64(p.Repeat)
		l.seconds *= float64(p.Repeat)
	}
	if l.ops > 0 && l.seconds > 0 {
		return load{}, refusal("profile composed of work and delays")
	}
	return l, nil
}

// job returns a job with this load; speed is in operations per second.
func (l load) job(j *BatsimJob, p batsimProfile, speed float64) order.Job {
	q := order.Job{Submit: j.Submit, Procs: j.Resources, Limit: j.Walltime, Ops: l.ops, Memory: l.memory, Bandwidth: l.bandwidth,
		Run: l.seconds, Request: p.RequestTime, RequestOps: p.RequestOps, User: -1, Group: -1, Executable: -1, Deadline: math.NaN()}
	if l.ops > 0 {
		q.Run = l.ops / speed
	}
	switch {
	case q.Request > 0:
	case j.Walltime > 0:
		q.Request = j.Walltime
	case p.RequestOps > 0:
		q.Request = p.RequestOps / speed
	default:
		q.Request = max(q.Run, 1)
	}
	if q.RequestOps == 0 && l.ops > 0 {
		q.RequestOps = q.Request * speed
	}
	return q
}

// FromJobs returns a Batsim workload of a simulator's jobs, with one profile for all jobs of the same work. resources
// is the size of the machine. The Run of jobs without Ops becomes a delay.
func FromJobs(jobs []order.Job, resources int) *BatsimWorkload {
	w := &BatsimWorkload{Resources: resources, Profiles: map[string]batsimProfile{}}
	names := map[string]string{}
	for i := range jobs {
		j := &jobs[i]
		p := batsimProfile{Type: delay, Seconds: j.Run, RequestTime: j.Request, RequestOps: j.RequestOps, Memory: j.Memory, Bandwidth: j.Bandwidth}
		if j.Ops > 0 {
			p.Type, p.Seconds, p.CPU, p.Com = homogeneous, 0, []float64{j.Ops}, []float64{0}
		}
		key := fmt.Sprint(p)
		if names[key] == "" {
			names[key] = strconv.Itoa(len(names))
			w.Profiles[names[key]] = p
		}
		id := cmp.Or(j.Name, strconv.Itoa(j.ID))
		w.Jobs = append(w.Jobs, BatsimJob{ID: id, Submit: j.Submit, Resources: j.Procs, Profile: names[key], Walltime: j.Limit})
	}
	return w
}

package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"trainopt/resources"
)

// Queue is the state of a batch system at one time.
type Queue struct {
	Now        time.Time
	Nodes      []Node // that accept jobs
	Partitions []Partition
	Running    []Job
	Waiting    []Job // in any order
	Scheduler  Scheduler
}

// Node is one machine.
type Node struct {
	Name       string
	Partitions []string
	Features   []string
	CPUs       int
	Memory     resources.GiB
	GPUs       map[string]int // by type; the type may be ""
	Weight     int            // nodes of less weight are chosen first
}

// Partition is a set of nodes with a common rank and limit; the nodes name it.
type Partition struct {
	Name    string
	Default bool
	Tier    int           // jobs of a higher tier are considered first
	Limit   time.Duration // of jobs without one; 0: none
}

// Scheduler describes the scheduling method. The zero value is conservative backfilling after every event.
type Scheduler struct {
	// Interval is the time between two passes of backfilling. Between them, jobs start only in order of priority.
	// 0: backfilling after every event.
	Interval time.Duration
	// Reservations is the number of waiting jobs for which resources are reserved: 1 is EASY backfilling; 0: all.
	Reservations int
	// Depth is the number of waiting jobs that backfilling considers; 0: all.
	Depth int
	// Window is how far ahead resources are reserved; 0: without end.
	Window time.Duration
	// Resolution is the unit of time of reservations, whose bounds are widened to multiples of it; 0: none.
	Resolution time.Duration
	// WholeNodes makes a reservation take its nodes as a whole, as in Slurm.
	WholeNodes bool
	// DefaultMemory is the memory of a job that requests none, per node; 0: it is not counted; +Inf: all of a node.
	DefaultMemory resources.GiB
	// EndWindow is the width of the first window of time in which running jobs are planned to end together, at the end of
	// the last of them; each next window is twice as wide. 0: at their own ends.
	EndWindow time.Duration
	// Latency is the longest time by which the system reacts to a submission or an end; it is uniform from 0.
	Latency time.Duration
}

// Job is a job of a queue: one that waits or runs, has ended, or may be submitted.
type Job struct {
	ID, User, Name string
	// Place is what the job requests. Several partitions are separated by commas; "" is the default one. CPUs of 0
	// mean 1, memory of 0 the default of the scheduler; +Inf takes all memory of a node.
	Place     Place
	Features  []string // that its nodes must have
	Exclusive bool     // takes nodes as a whole
	Limit     time.Duration
	// Priority orders the waiting jobs of one tier, the highest first, and among equals the one submitted first. In
	// Predict, 0 means an estimate from the waiting jobs.
	Priority  float64
	Submitted time.Time
	NotBefore time.Time // the earliest start that the user allows; zero: any
	// Held marks a waiting job that waits for something else than resources and whose start is unknown. It is ignored.
	Held    bool
	Started time.Time
	Ended   time.Time
	Nodes   []string // that a running job uses
}

// History is what is known of jobs that have ended. Jobs that never started, or have no limit, are ignored.
type History struct {
	Since time.Time // start of the recorded time; zero: the first submission
	Jobs  []Job
}

// partition returns the partition of a name; the zero value if the queue does not list it.
func (q *Queue) partition(name string) Partition {
	for _, p := range q.Partitions {
		if p.Name == name {
			return p
		}
	}
	return Partition{}
}

// partitionsOf returns the names of the partitions that a job may use: those requested or the default one; nil without
// partitions in the queue, which means all nodes.
func (q *Queue) partitionsOf(j *Job) []string {
	if j.Place.Partition != "" {
		return strings.Split(j.Place.Partition, ",")
	}
	for _, p := range q.Partitions {
		if p.Default {
			return []string{p.Name}
		}
	}
	return nil
}

// tier returns the highest tier of the partitions of a job.
func (q *Queue) tier(j *Job) int {
	tier := 0
	for i, name := range q.partitionsOf(j) {
		if p := q.partition(name); i == 0 || p.Tier > tier {
			tier = p.Tier
		}
	}
	return tier
}

// unlimited is the limit by which a scheduler plans jobs without one.
const unlimited = 365 * 24 * time.Hour

// limit returns the run time at which a job is ended.
func (q *Queue) limit(j *Job) time.Duration {
	if j.Limit > 0 {
		return j.Limit
	}
	for _, name := range q.partitionsOf(j) {
		if p := q.partition(name); p.Limit > 0 {
			return p.Limit
		}
	}
	return unlimited
}

// arrivalPriority returns the priority of a job of a user that is submitted now. If the waiting jobs are ordered by
// submission, it is the lowest. Otherwise the site ranks users, and the lowest priority of the same user's waiting jobs
// is the estimate, since age raises that of the others; without such a job, it is the lowest of all.
func (q *Queue) arrivalPriority(user string) float64 {
	var all, own []*Job
	for i := range q.Waiting {
		if j := &q.Waiting[i]; !j.Held {
			all = append(all, j)
			if j.User == user {
				own = append(own, j)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Job) int { return a.Submitted.Compare(b.Submitted) })
	byAge := slices.IsSortedFunc(all, func(a, b *Job) int { return cmp.Compare(b.Priority, a.Priority) })
	if len(own) == 0 || byAge {
		own = all
	}
	if len(own) == 0 {
		return 0
	}
	return slices.MinFunc(own, func(a, b *Job) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
}

// Validate reports all problems of the queue that prevent a prediction.
func (q *Queue) Validate() error {
	var errs []error
	if q.Now.IsZero() {
		errs = append(errs, errors.New("no time"))
	}
	if len(q.Nodes) == 0 {
		errs = append(errs, errors.New("no node that accepts jobs"))
	}
	names := map[string]bool{}
	for _, n := range q.Nodes {
		if n.Name == "" || names[n.Name] {
			errs = append(errs, fmt.Errorf("node %q: want a name that no other node has", n.Name))
		}
		names[n.Name] = true
		if n.CPUs < 0 || !(n.Memory >= 0) {
			errs = append(errs, fmt.Errorf("node %s: %d CPUs and %g GiB, want 0 or more", n.Name, n.CPUs, float64(n.Memory)))
		}
	}
	return errors.Join(errs...)
}

// rank is the place of a waiting job in the order of the queue.
type rank struct {
	tier      int
	priority  float64
	submitted float64 // s from now
	index     int32
}

func (a rank) compare(b rank) int {
	return cmp.Or(cmp.Compare(b.tier, a.tier), cmp.Compare(b.priority, a.priority), cmp.Compare(a.submitted, b.submitted),
		cmp.Compare(a.index, b.index))
}

// hasAll reports whether have contains all of want.
func hasAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
}

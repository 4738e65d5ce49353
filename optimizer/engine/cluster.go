package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"trainopt/resources"
)

// cluster is the part of a simulation that all draws share and none changes. Times are seconds from Queue.Now.
type cluster struct {
	q         *Queue
	nodes     map[string]int32
	kinds     map[string]int32 // GPU types
	stride    int32            // numbers per node in free: CPUs, MiB, GPUs of each type
	free      []int32          // after the running jobs
	active    [][]held         // by node, in ascending order of until
	shapes    []shape
	takes     int       // number of possible takes of all shapes
	sets      [][]int32 // different sets of nodes of shapes
	byKey     map[string]int32
	runs      *runs
	tasks     []task // the running jobs, the waiting ones and, last, the job in question
	waiting   []int32
	delayed   []int32 // waiting jobs that may not start yet
	target    int32
	simulated []int32 // the tasks of Queue.Waiting; −1: not simulated
	arrivals  arrivals
}

// take is what a job uses on one node.
type take struct {
	node, cpus, mib, gpus int32
	kind                  int32 // of the GPUs; 0 without GPUs
}

// held is a take of a running job until the end of its limit.
type held struct {
	take
	until float64
	task  int32
}

// shape is a request for resources, common to many jobs.
type shape struct {
	nodes   int
	takes   []take  // the nodes on which it may run, in order of choice
	blocked []int32 // the nodes of its partitions
	first   int     // number of its first take among those of all shapes
	set     int32   // the set of the nodes of its takes
}

// task is a job of the simulation.
type task struct {
	rank
	shape, group int32
	limit        float64
	started      float64 // of a running job: before 0
	earliest     float64 // the earliest start that the user allows
	takes        []take  // of a running job
}

// overdue is the expected rest of a job that has run for longer than its limit, s.
const overdue = 30

func newCluster(q *Queue, target *Job, h *History) (*cluster, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	c := &cluster{q: q, nodes: map[string]int32{}, kinds: map[string]int32{}, byKey: map[string]int32{}}
	c.addNodes()
	c.runs = newRuns(q, h)
	for i := range q.Running {
		c.addRunning(&q.Running[i])
	}
	for i := range q.Waiting {
		c.addWaiting(&q.Waiting[i])
	}
	t := *target
	if t.Priority == 0 {
		t.Priority = q.arrivalPriority(t.User)
	}
	t.Submitted = q.Now
	c.target = int32(len(c.tasks))
	k, err := c.newTask(&t)
	if err != nil {
		return nil, err
	}
	c.tasks = append(c.tasks, k)
	c.addArrivals(h)
	slices.SortFunc(c.waiting, func(a, b int32) int { return c.tasks[a].compare(c.tasks[b].rank) })
	return c, nil
}

// addNodes numbers the nodes in the order in which they are chosen: by weight, then as listed.
func (c *cluster) addNodes() {
	sorted := slices.Clone(c.q.Nodes)
	slices.SortStableFunc(sorted, func(a, b Node) int { return a.Weight - b.Weight })
	var types []string
	for _, n := range sorted {
		for t := range n.GPUs {
			types = append(types, t)
		}
	}
	sort.Strings(types)
	for _, t := range slices.Compact(types) {
		c.kinds[t] = int32(len(c.kinds))
	}
	c.stride = int32(2 + len(c.kinds))
	c.free = make([]int32, len(sorted)*int(c.stride))
	c.active = make([][]held, len(sorted))
	for i, n := range sorted {
		c.nodes[n.Name] = int32(i)
		f := c.free[i*int(c.stride):]
		f[0], f[1] = int32(n.CPUs), mib(n.Memory)
		for t, count := range n.GPUs {
			f[2+c.kinds[t]] = int32(count)
		}
	}
	q := *c.q
	q.Nodes = sorted
	c.q = &q
}

// mib returns an amount of memory in whole MiB.
func mib(g resources.GiB) int32 {
	return int32(min(math.Round(float64(max(g, 0))*1024), math.MaxInt32))
}

// seconds returns a time in seconds from now.
func (c *cluster) seconds(t time.Time) float64 { return t.Sub(c.q.Now).Seconds() }

// addRunning adds a running job, which takes its resources on the nodes that the queue lists.
func (c *cluster) addRunning(j *Job) {
	t := task{limit: c.q.limit(j).Seconds(), group: c.runs.group(j), started: min(c.seconds(j.Started), 0)}
	until := t.started + t.limit
	if until <= 0 {
		until = overdue
	}
	id := int32(len(c.tasks))
	for _, name := range j.Nodes {
		i, ok := c.nodes[name]
		if !ok {
			continue // on a node that accepts no further jobs
		}
		k := c.takeOn(j, i)
		if k.gpus == nowhere {
			k.gpus = 0
		}
		t.takes = append(t.takes, k)
		addTake(c.free[k.node*c.stride:], k, -1)
		c.active[i] = insertHeld(c.active[i], held{k, until, id})
	}
	c.tasks = append(c.tasks, t)
}

func addTake(f []int32, k take, sign int32) {
	f[0] += sign * k.cpus
	f[1] += sign * k.mib
	if k.gpus > 0 {
		f[2+k.kind] += sign * k.gpus
	}
}

func insertHeld(l []held, h held) []held {
	at := sort.Search(len(l), func(i int) bool { return l[i].until > h.until })
	return slices.Insert(l, at, h)
}

// addWaiting adds a waiting job unless its start does not depend on resources or no node can run it.
func (c *cluster) addWaiting(j *Job) {
	t, err := c.newTask(j)
	if j.Held || err != nil {
		c.simulated = append(c.simulated, -1)
		return
	}
	c.simulated = append(c.simulated, t.index)
	c.tasks = append(c.tasks, t)
	if t.earliest > 0 {
		c.delayed = append(c.delayed, t.index)
	} else {
		c.waiting = append(c.waiting, t.index)
	}
}

// newTask returns the next task, a job that has not started.
func (c *cluster) newTask(j *Job) (task, error) {
	s, err := c.shapeOf(j)
	if err != nil {
		return task{}, err
	}
	t := task{shape: s, group: c.runs.group(j), limit: c.q.limit(j).Seconds()}
	t.rank = rank{c.q.tier(j), j.Priority, c.seconds(j.Submitted), int32(len(c.tasks))}
	if !j.NotBefore.IsZero() {
		t.earliest = max(c.seconds(j.NotBefore), 0)
	}
	return t, nil
}

// shapeOf returns the number of the shape of a request. The error describes why no set of nodes can run it.
func (c *cluster) shapeOf(j *Job) (int32, error) {
	p := &j.Place
	key := fmt.Sprint(c.q.partitionsOf(j), p.GPUType, p.Nodes, p.GPUs, p.CPUs, p.Memory, p.Avoid, j.Features, j.Exclusive)
	if s, ok := c.byKey[key]; ok {
		return s, nil
	}
	s := shape{nodes: max(p.Nodes, 1)}
	for i := range c.q.Nodes {
		if !c.listed(j, &c.q.Nodes[i]) {
			continue
		}
		s.blocked = append(s.blocked, int32(i))
		if slices.Contains(p.Avoid, c.q.Nodes[i].Name) || !hasAll(c.q.Nodes[i].Features, j.Features) {
			continue
		}
		if k := c.takeOn(j, int32(i)); c.fits(k) {
			s.takes = append(s.takes, k)
		}
	}
	if len(s.takes) < s.nodes {
		return 0, fmt.Errorf("%s: %d nodes of %s can run it, want %d", describe(j), len(s.takes), c.describePartitions(j), s.nodes)
	}
	c.byKey[key] = int32(len(c.shapes))
	s.set = c.setOf(s.takes)
	s.first = c.takes
	c.takes += len(s.takes)
	c.shapes = append(c.shapes, s)
	return c.byKey[key], nil
}

// listed reports whether a node belongs to a partition of the job.
func (c *cluster) listed(j *Job, n *Node) bool {
	names := c.q.partitionsOf(j)
	return names == nil || slices.ContainsFunc(names, func(p string) bool { return slices.Contains(n.Partitions, p) })
}

// nowhere is a number of GPUs that no node has.
const nowhere = math.MaxInt32

// takeOn returns what a job takes on a node. GPUs of any type are those of the type of which the node has most.
func (c *cluster) takeOn(j *Job, i int32) take {
	n := &c.q.Nodes[i]
	memory := cmp.Or(j.Place.Memory, c.q.Scheduler.DefaultMemory)
	k := take{node: i, cpus: int32(max(j.Place.CPUs, 1)), mib: mib(memory), gpus: int32(j.Place.GPUs)}
	if j.Exclusive {
		k.cpus, k.mib = max(k.cpus, int32(n.CPUs)), max(k.mib, mib(n.Memory))
	}
	if math.IsInf(float64(memory), 1) {
		k.mib = mib(n.Memory)
	}
	if k.gpus == 0 {
		return k
	}
	if j.Place.GPUType != "" {
		kind, ok := c.kinds[j.Place.GPUType]
		if !ok {
			k.gpus = nowhere
		}
		k.kind = kind
		return k
	}
	most := -1
	for t, count := range n.GPUs {
		if kind := c.kinds[t]; count > most || count == most && kind < k.kind {
			most, k.kind = count, kind
		}
	}
	return k
}

// fits reports whether a take fits its node when nothing else runs there.
func (c *cluster) fits(k take) bool {
	n := &c.q.Nodes[k.node]
	if k.cpus > int32(n.CPUs) || k.mib > mib(n.Memory) {
		return false
	}
	for t, count := range n.GPUs {
		if c.kinds[t] == k.kind && int(k.gpus) <= count {
			return true
		}
	}
	return k.gpus == 0
}

// describe returns the request of a job for an error.
func describe(j *Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d CPUs", max(j.Place.CPUs, 1))
	if m := float64(j.Place.Memory); m > 0 && !math.IsInf(m, 1) {
		fmt.Fprintf(&b, ", %g GiB", m)
	}
	if j.Place.GPUs > 0 {
		fmt.Fprintf(&b, ", %d GPUs", j.Place.GPUs)
		if j.Place.GPUType != "" {
			b.WriteString(" of type " + j.Place.GPUType)
		}
	}
	if len(j.Features) > 0 {
		b.WriteString(", features " + strings.Join(j.Features, ","))
	}
	return b.String() + " per node"
}

func (c *cluster) describePartitions(j *Job) string {
	names := c.q.partitionsOf(j)
	if names == nil {
		return "the cluster"
	}
	return "partition " + strings.Join(names, ",")
}

// setOf returns the number of the set of nodes of the takes of a shape.
func (c *cluster) setOf(takes []take) int32 {
	nodes := make([]int32, len(takes))
	for i := range takes {
		nodes[i] = takes[i].node
	}
	for i, s := range c.sets {
		if slices.Equal(s, nodes) {
			return int32(i)
		}
	}
	c.sets = append(c.sets, nodes)
	return int32(len(c.sets) - 1)
}

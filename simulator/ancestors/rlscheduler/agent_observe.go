package rlscheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"trainopt/morl/network"
	"trainopt/optimizer/schedule/order"
)

// observationKind is an observation of the waiting jobs, one row per job.
type observationKind string

const (
	// publishedSight is RLScheduler's: 8 features per job, relative to the maxima of the trace, with waits relative
	// to half a day.
	publishedSight observationKind = "published"
	// wideSight has 10 features per job: logarithms of times, which resolve both seconds and days, the time until the
	// job fits by the requests of running jobs, and the occupancy of machine and queue. It does not depend on the
	// trace.
	wideSight observationKind = "wide"
)

// agentRows is the maximum number of jobs in an observation. If more wait, it contains the first ones by requested
// time and by processors, taken alternately.
const agentRows = 128

// nearlyOne is the largest value of a published feature.
const nearlyOne = 1 - 1e-5

// Shape returns the shape of the observations. For an unknown sight, the error lists the valid ones.
func (s observationKind) Shape() (network.Shape, error) {
	switch s {
	case publishedSight:
		return network.Shape{Rows: agentRows, Features: 8, Padding: []float32{0, 1, 1, 1, 1, 1, 1, 0}}, nil
	case wideSight:
		return network.Shape{Rows: agentRows, Features: 10, Padding: make([]float32, 10)}, nil
	}
	return network.Shape{}, fmt.Errorf("no observation is called %q: there are %s and %s", s, publishedSight, wideSight)
}

// scales holds the maxima of a trace.
type scales struct{ run, procs, memory, user, group, executable float64 }

func scalesOf(t *Trace) scales {
	s := scales{procs: float64(t.Procs)}
	for i := range t.Jobs {
		j := &t.Jobs[i]
		s.run = max(s.run, j.Run)
		s.memory = max(s.memory, j.Memory)
		s.user = max(s.user, float64(j.User))
		s.group = max(s.group, float64(j.Group))
		s.executable = max(s.executable, float64(j.Executable))
	}
	return s
}

// observer computes observations of an episode. In steady state it does not allocate.
type observer struct {
	sight    observationKind
	features int
	scale    scales
	jobs     []order.Job
	known    int       // number of jobs in the orders and fixed rows
	fixed    []float32 // rows of the constant features of jobs
	short    []int     // jobs by requested time; may contain started ones
	small    []int     // the same, by processors
	shown    []int     // job by row
	is       []bool    // scratch: membership in shown, by job
	x        []float32
	ends     order.Releases // of the running jobs, by request
}

func newObserver(t *Trace, s observationKind) (*observer, error) {
	shape, err := s.Shape()
	return &observer{sight: s, features: shape.Features, scale: scalesOf(t)}, err
}

// begin prepares for the episode of these jobs.
func (o *observer) begin(jobs []order.Job) {
	o.jobs, o.known = jobs, 0
	o.fixed, o.short, o.small = o.fixed[:0], o.short[:0], o.small[:0]
	o.is = append(o.is[:0], make([]bool, len(jobs))...)
}

// observe returns the present observation; row i belongs to job shown[i]. O(waiting × features).
func (o *observer) observe(e *Episode) network.Observation {
	for ; o.known < e.Arrived(); o.known++ {
		o.addArrived(o.known)
	}
	o.show(e)
	o.x = o.x[:0]
	if o.sight == wideSight {
		o.wide(e)
	} else {
		o.published(e)
	}
	return network.Observation{X: o.x}
}

// addArrived adds an arrived job to the orders and its constant features to fixed.
func (o *observer) addArrived(job int) {
	j := &o.jobs[job]
	// Insert after equal elements, so that these stay in order of arrival.
	at, _ := slices.BinarySearchFunc(o.short, j.Request, func(k int, r float64) int {
		return cmp.Or(cmp.Compare(o.jobs[k].Request, r), -1)
	})
	o.short = slices.Insert(o.short, at, job)
	at, _ = slices.BinarySearchFunc(o.small, j.Procs, func(k, n int) int {
		return cmp.Or(o.jobs[k].Procs-n, -1)
	})
	o.small = slices.Insert(o.small, at, job)
	if o.sight == wideSight {
		o.fixed = append(o.fixed, logTime(j.Request), o.size(j.Procs))
		return
	}
	part := func(v, most float64, known bool) float32 {
		if !known || most <= 0 {
			return nearlyOne
		}
		return float32(min(v/most, nearlyOne))
	}
	o.fixed = append(o.fixed, part(j.Request, o.scale.run, true), part(float64(j.Procs), o.scale.procs, true),
		part(j.Memory, o.scale.memory, j.Memory > 0), part(float64(j.User), o.scale.user, j.User >= 0),
		part(float64(j.Group), o.scale.group, j.Group >= 0), part(float64(j.Executable), o.scale.executable, j.Executable >= 0))
}

// show selects the jobs of the observation: all waiting jobs if they fit, otherwise alternately the next ones by
// requested time and by processors. Jobs that have started are removed from both orders then.
func (o *observer) show(e *Episode) {
	w := e.Waiting()
	o.shown = o.shown[:0]
	if len(w) <= agentRows {
		o.shown = append(o.shown, w...)
		return
	}
	started := func(k int) bool { return !math.IsNaN(e.starts[k]) }
	o.short = slices.DeleteFunc(o.short, started)
	o.small = slices.DeleteFunc(o.small, started)
	for i := range o.short {
		for _, k := range [2]int{o.short[i], o.small[i]} {
			if !o.is[k] && len(o.shown) < agentRows && e.jobs[k].nodes <= e.nodes {
				o.is[k] = true
				o.shown = append(o.shown, k)
			}
		}
		if len(o.shown) == agentRows {
			break
		}
	}
	for _, k := range o.shown {
		o.is[k] = false
	}
}

// published appends the rows of publishedSight.
func (o *observer) published(e *Episode) {
	for _, k := range o.shown {
		fits := float32(1e-5)
		if e.fits(k) {
			fits = nearlyOne
		}
		o.x = append(o.x, float32(min((e.clock-o.jobs[k].Submit)/43200, nearlyOne)))
		o.x = append(o.x, o.fixed[6*k:6*k+6]...)
		o.x = append(o.x, fits)
	}
}

// logTime maps seconds to approximately 0 … 1; 14 days map to 1.17.
func logTime(s float64) float32 { return float32(math.Log(1+max(s, 0)) / 12) }

// wide appends the rows of wideSight.
func (o *observer) wide(e *Episode) {
	c := o.circumstances(e)
	for _, k := range o.shown {
		j := &o.jobs[k]
		o.row(c, j.Request, max(e.clock-j.Submit, 0), e.jobs[k].nodes, o.fixed[2*k], o.fixed[2*k+1])
	}
}

// circumstances are the features that the rows of wideSight share.
type circumstances struct {
	e           *Episode
	free, crowd float32
}

func (o *observer) circumstances(e *Episode) circumstances {
	o.ends = o.ends[:0]
	for _, f := range e.finishing {
		f.At = max(e.requested(f), e.clock)
		o.ends.Insert(f)
	}
	return circumstances{e, float32(e.free) / float32(max(e.nodes, 1)), float32(math.Log(1+float64(len(e.waiting))) / 8)}
}

// row appends the row of a job; long and large are the features of its request and its processors.
func (o *observer) row(c circumstances, request, wait float64, nodes int32, long, large float32) {
	delay, fits := o.delay(c.e, nodes), float32(0)
	if nodes <= c.e.free {
		fits = 1
	}
	var until, relative float32
	if delay > 0 {
		until, relative = logTime(delay), float32(math.Log(1+delay/max(request, 10))/8)
	}
	o.x = append(o.x, long, large, logTime(wait), float32(math.Log(1+wait/max(request, 10))/8), fits,
		float32(min(float64(nodes)/max(1, float64(c.e.free)), 4)/4), until, relative, c.free, c.crowd)
}

// all is observe for all waiting jobs, and for the jobs of later as if they had arrived now; wideSight only.
func (o *observer) all(e *Episode, later []order.Job) network.Observation {
	for ; o.known < e.Arrived(); o.known++ {
		o.addArrived(o.known)
	}
	o.shown = append(o.shown[:0], e.Waiting()...)
	o.x = o.x[:0]
	o.wide(e)
	c := o.circumstances(e)
	for i := range later {
		j := &later[i]
		o.row(c, j.Request, 0, sizedJob(j, e.perNode).nodes, logTime(j.Request), o.size(j.Procs))
	}
	return network.Observation{X: o.x}
}

func (o *observer) size(procs int) float32 {
	return float32(math.Log(float64(procs)) / math.Log(max(2, o.scale.procs)))
}

// delay returns the time until the given number of nodes is free if no further job starts, s; 0 if they are free now.
func (o *observer) delay(e *Episode, nodes int32) float64 {
	free := e.free
	for i := len(o.ends) - 1; i >= 0 && free < nodes; i-- {
		free += o.ends[i].Procs
		if free >= nodes {
			return o.ends[i].At - e.clock
		}
	}
	return 0
}

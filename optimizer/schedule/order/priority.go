package order

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Order ranks waiting jobs: the lowest score is next. Ties are broken by submission time, then by ID.
type Order struct {
	// Score returns the rank of a job after a wait in seconds. NaN counts as +∞.
	Score func(j *Job, wait float64) float64
	// Aging is set where the score changes with the wait: the queue is then sorted again before every decision. Otherwise the score
	// is computed once, at submission, with a wait of 0.
	Aging bool
	// AsPublished is the score as coded in RLScheduler (SC 2020), nil where it equals Score. It never ages.
	AsPublished func(j *Job) float64
	// What describes the preference in one line, with its paper.
	What string
}

// Rank returns the score of a job after a wait in seconds, +∞ where it is NaN.
func (o *Order) Rank(j *Job, wait float64) float64 {
	if v := o.Score(j, wait); !math.IsNaN(v) {
		return v
	}
	return math.Inf(1)
}

// Published returns the order as coded in RLScheduler.
func (o Order) Published() Order {
	if coded := o.AsPublished; coded != nil {
		o.Score, o.Aging = func(j *Job, _ float64) float64 { return coded(j) }, false
	}
	return o
}

// Orders by name. Request below is the requested time, at least 0.1 s in F1 to F4, as published. Submission times are those of the
// workload, so F1 to F4 rank differently on a trace that begins at time 0.
var Orders = map[string]Order{
	"fcfs":     {Score: func(j *Job, _ float64) float64 { return j.Submit }, What: "first come, first served"},
	"lcfs":     {Score: func(j *Job, _ float64) float64 { return -j.Submit }, What: "last come, first served"},
	"sjf":      {Score: func(j *Job, _ float64) float64 { return j.Request }, What: "shortest request"},
	"saf":      {Score: func(j *Job, _ float64) float64 { return j.Request * float64(j.Procs) }, What: "smallest area: request times processors"},
	"smallest": {Score: func(j *Job, _ float64) float64 { return float64(j.Procs) }, What: "fewest processors"},
	"wfp3": {Score: wfp3, Aging: true, AsPublished: func(j *Job) float64 { return wfp3(j, -1-j.Submit) },
		What: "(wait/request)³ × processors, largest first (Tang et al., Cluster 2009)"},
	"unicep": {Score: unicep, Aging: true, AsPublished: unicepPublished,
		What: "wait/(request × log2 processors), largest first (Tang et al., Cluster 2009)"},
	"f1": {Score: f1, What: "log10(request) × processors + 870 log10(submission) (Carastan-Santos and de Camargo, SC 2017)"},
	"f2": {Score: f2, What: "√request × processors + 25600 log10(submission) (same)"},
	"f3": {Score: f3, What: "request × processors + 6860000 log10(submission) (same)"},
	"f4": {Score: f4, What: "request × √processors + 530000 log10(submission) (same)"},
}

// OrderNames returns the names of Orders, sorted.
func OrderNames() []string { return slices.Sorted(maps.Keys(Orders)) }

// Parse returns the order with the given name. The error lists the valid names.
func Parse(name string) (Order, error) {
	o, ok := Orders[name]
	if !ok {
		return o, fmt.Errorf("order %q: want one of %s", name, strings.Join(OrderNames(), ", "))
	}
	return o, nil
}

func wfp3(j *Job, wait float64) float64 {
	share := wait / j.Request
	return -share * share * share * float64(j.Procs)
}

// unicep counts a serial job as one of two processors, whose logarithm is 1; by the published formula it would always be first.
func unicep(j *Job, wait float64) float64 {
	return -wait / (math.Log2(math.Max(float64(j.Procs), 2)) * j.Request)
}

// unicepPublished computes the wait from a start time that is not set yet (−1) and ranks serial jobs last.
func unicepPublished(j *Job) float64 {
	return -((-1 - j.Submit) + 1e-15) / (math.Log2(float64(j.Procs)+1e-15) * j.Request)
}

func f1(j *Job, _ float64) float64 {
	return math.Log10(positive(j.Request))*float64(j.Procs) + 870*math.Log10(positive(j.Submit))
}

func f2(j *Job, _ float64) float64 {
	return math.Sqrt(positive(j.Request))*float64(j.Procs) + 25600*math.Log10(positive(j.Submit))
}

func f3(j *Job, _ float64) float64 {
	return positive(j.Request)*float64(j.Procs) + 6.86e6*math.Log10(positive(j.Submit))
}

func f4(j *Job, _ float64) float64 {
	return positive(j.Request)*math.Sqrt(float64(j.Procs)) + 5.3e5*math.Log10(positive(j.Submit))
}

func positive(v float64) float64 {
	if v <= 0 {
		return 0.1
	}
	return v
}

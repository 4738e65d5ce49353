package queue_test

import (
	"math"
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

// Two jobs on two of four processors, computed by hand; the second waits for the first.
func TestSummary(t *testing.T) {
	a, b := job(1, 10, 4, 20, 20), job(2, 20, 2, 5, 5)
	a.Deadline, b.Deadline = 30, 34
	r := run(t, queue.Config{Procs: 4, Jobs: []order.Job{a, b, job(3, 20, 9, 1, 1)}})
	s := r.Summary()
	for what, c := range map[string][2]float64{
		"mean bounded slowdown": {s.BoundedSlowdown.Mean, (1 + 1.5) / 2}, // (10 + 5) / 10 s
		"max bounded slowdown":  {s.BoundedSlowdown.Max, 1.5},
		"mean slowdown":         {s.Slowdown.Mean, (1 + 3.0) / 2},
		"max slowdown":          {s.Slowdown.Max, 3},
		"mean wait":             {s.Wait.Mean, 5},
		"max wait":              {s.Wait.Max, 10},
		"mean turnaround":       {s.Turnaround.Mean, 17.5},
		"makespan":              {s.Makespan, 35},
		"span":                  {s.Span, 25},
		"utilization":           {s.Utilization, 90.0 / 100},
		"published utilization": {s.PublishedUtilization, 90.0 / 80},
		"deadlines":             {float64(s.Deadlines), 2},
		"deadline misses":       {float64(s.DeadlineMisses), 1},
		"rejected":              {float64(s.Rejected), 1},
	} {
		if math.Abs(c[0]-c[1]) > 1e-12 {
			t.Errorf("%s %v, want %v", what, c[0], c[1])
		}
	}
	if len(s.Metrics()) != 13 || s.Metrics()[0].Name != "mean_bounded_slowdown" || s.Metrics()[0].Value != 1.25 {
		t.Errorf("metrics %v", s.Metrics())
	}
}

// A job that requested 100 s on 4 processors, was submitted at 1,000 s and waited 50 s.
func TestOrders(t *testing.T) {
	j := job(1, 1000, 4, 80, 100)
	for name, want := range map[string][2]float64{ // score, as published
		"fcfs": {1000, 1000}, "lcfs": {-1000, -1000}, "sjf": {100, 100}, "saf": {400, 400}, "smallest": {4, 4},
		"wfp3": {-0.5, 4 * math.Pow(10.01, 3)}, "unicep": {-0.25, 5.005},
		"f1": {2*4 + 870*3, 2618}, "f2": {10*4 + 25600*3, 76840}, "f3": {100*4 + 6.86e6*3, 20580400}, "f4": {100*2 + 5.3e5*3, 1590200},
	} {
		o := order.Orders[name]
		score, published := o.Score(&j, 50), 0.0
		if published = score; o.AsPublished != nil {
			published = o.AsPublished(&j)
		}
		if math.Abs(score-want[0]) > 1e-9*math.Abs(want[0]) || math.Abs(published-want[1]) > 1e-9*math.Abs(want[1]) {
			t.Errorf("%s: %v and as published %v, want %v", name, score, published, want)
		}
		if o.What == "" {
			t.Errorf("%s says nothing of itself", name)
		}
	}
	if len(order.Orders) != 11 {
		t.Errorf("%d orders, the table above has 11", len(order.Orders))
	}
	serial := job(1, 1000, 1, 80, 100)
	if a, b := order.Orders["unicep"].Score(&serial, 50), order.Orders["unicep"].AsPublished(&serial); a != -0.5 || b < 1e9 {
		t.Errorf("a serial job by unicep: %v, want −0.5; as published %v, want it last", a, b)
	}
}

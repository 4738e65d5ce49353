package remote

import (
	"context"
	"math"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/engine"
	"trainopt/resources"
)

// observed is an engine with a queue and no history.
type observed struct{ queue engine.Queue }

func (o observed) Queue(_ context.Context, now time.Time) (engine.Queue, error) {
	q := o.queue
	q.Now = now
	return q, nil
}

func (o observed) History(context.Context, time.Time) (engine.History, error) {
	return engine.History{}, nil
}

// busy returns a node of a partition, on which a job with three of four GPUs may run for one and a half hours more, and the next one takes
// all. The partition ends jobs without a limit after an hour.
func busy() engine.Queue {
	now := time.Now()
	node := func(name string) engine.Node {
		return engine.Node{Name: name, Partitions: []string{name}, CPUs: 64, Memory: 512, GPUs: map[string]int{"a100": 4}}
	}
	place := func(gpus int) engine.Place {
		return engine.Place{Partition: "shared", GPUs: gpus, CPUs: gpus, Memory: 1}
	}
	return engine.Queue{Nodes: []engine.Node{node("shared"), node("whole")}, Partitions: []engine.Partition{{Name: "shared", Limit: time.Hour}, {Name: "whole"}},
		Running: []engine.Job{{User: "v", Place: place(3), Limit: 2 * time.Hour, Submitted: now.Add(-time.Hour), Started: now.Add(-30 * time.Minute), Nodes: []string{"shared"}}},
		Waiting: []engine.Job{{User: "v", Place: place(4), Limit: time.Hour, Submitted: now.Add(-5 * time.Minute)}}}
}

// TestForecastOfTheLimit: a job is predicted to start with the limit for which it asks, which is not that of a job that asks for none.
func TestForecastOfTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		longest, usual time.Duration
		whole          bool
		waits          bool // behind the job that takes all
	}{
		"fits before the other":  {longest: time.Hour},
		"too long":               {longest: 2 * time.Hour, usual: time.Hour, waits: true},
		"without a limit":        {usual: time.Hour, waits: true},
		"needs the whole node":   {longest: time.Hour, whole: true, waits: true},
		"what the partition has": {},
	} {
		o := engine.Offer{Partition: "shared", GPUType: "a100", GPUs: 4, CPUs: 64, Memory: 512, Nodes: 1, Longest: c.longest, Usual: c.usual, Whole: c.whole}
		list, err := Forecasts(t.Context(), observed{busy()}, []engine.Offer{o}, o, resources.Allocation{GPUs: 1, CPUs: 16, Memory: 8}, "u", "train", 0, 0, 0)
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		if wait := list[0].ByLimits; (wait > time.Hour.Seconds()) != c.waits {
			t.Errorf("%s: starts after %.0f s by the limits", name, wait)
		}
	}
}

// TestForecastOfAWholeNode: the price of another place where a job holds the whole node is that of the node.
func TestForecastOfAWholeNode(t *testing.T) {
	shared := engine.Offer{Partition: "shared", GPUType: "a100", GPUs: 4, CPUs: 64, Memory: 512, Nodes: 1}
	whole := shared
	whole.Partition, whole.Whole = "whole", true
	for _, gpus := range []int{0, 1} {
		a := resources.Allocation{GPUs: gpus, CPUs: 16, Memory: 8}
		list, err := Forecasts(t.Context(), observed{busy()}, []engine.Offer{shared, whole}, shared, a, "u", "train", time.Minute, 0, 3)
		if err != nil || len(list) != 2 || list[1].Place.Partition != "whole" {
			t.Fatalf("%+v, %v", list, err)
		}
		want := cost.Default("a100").Hourly(resources.Allocation{GPUs: 4, CPUs: 64, Memory: 512})
		if got := list[1].Rates.Hourly(a); math.Abs(float64(got-want)) > 1e-9 {
			t.Errorf("%d GPUs: %v USD per hour, want %v", gpus, got, want)
		}
	}
}

package rlscheduler

import (
	"cmp"

	"trainopt/optimizer/schedule/order"
)

// Heuristic is a named order. Scores without Aging are computed once, with a wait of 0.
type Heuristic struct {
	Name string
	order.Order
}

// Published are the heuristics of the published table as implemented by its authors: WFP3 and UNI compute the wait
// from a start time that is not set yet, −1, and therefore differ from the heuristics of these names.
var Published = []Heuristic{
	{"FCFS", order.Orders["fcfs"]}, {"WFP3", order.Orders["wfp3"].Published()}, {"UNI", order.Orders["unicep"].Published()},
	{"SJF", order.Orders["sjf"]}, {"F1", order.Orders["f1"]},
}

// Further are heuristics that the published table lacks, among them WFP3 and UNICEP with the true wait.
var Further = []Heuristic{
	{"WFP3 true", order.Orders["wfp3"]}, {"UNICEP true", order.Orders["unicep"]}, {"SAF", order.Orders["saf"]},
	{"smallest", order.Orders["smallest"]}, {"F2", order.Orders["f2"]}, {"F3", order.Orders["f3"]}, {"F4", order.Orders["f4"]},
}

// sjf is the baseline of relative rewards.
var sjf = Published[3]

// Player chooses the next job of an episode, an element of its Waiting, which is not empty.
type Player func(e *Episode) int

// Player returns a player for an episode of the given jobs: it chooses the job with the lowest score, the earliest of
// equal ones. Cost: O(waiting) per choice.
func (h Heuristic) Player(jobs []order.Job) Player {
	scores := make([]float64, len(jobs))
	byScore := func(a, b int) int { return cmp.Compare(scores[a], scores[b]) }
	scored := 0
	return func(e *Episode) int {
		w := e.Waiting()
		if h.Aging {
			for _, i := range w {
				scores[i] = h.Rank(&jobs[i], e.Now()-jobs[i].Submit)
			}
		}
		for ; scored < e.Arrived() && !h.Aging; scored++ {
			scores[scored] = h.Rank(&jobs[scored], 0)
		}
		best := lowest(scores, w)
		if e.backfill {
			e.sortTies(byScore)
		}
		return best
	}
}

// lowest returns the first job of the list with the lowest score.
func lowest(scores []float64, jobs []int) int {
	best := jobs[0]
	for _, i := range jobs[1:] {
		if scores[i] < scores[best] {
			best = i
		}
	}
	return best
}

// Drive lets a player start all remaining jobs of an episode. Before each choice it calls step, whose error ends the
// episode early and is returned.
func (e *Episode) Drive(next Player, step func() error) error {
	for len(e.Waiting()) > 0 {
		if err := step(); err != nil {
			return err
		}
		e.Start(next(e))
	}
	return nil
}

// play is Drive without interruption; it returns the measures.
func play(e *Episode, next Player) episodeMeasures {
	for len(e.Waiting()) > 0 {
		e.Start(next(e))
	}
	return measure(e)
}

package rlscheduler

import (
	"cmp"

	"trainopt/optimizer/schedule/order"
)

// Score returns the score of a queued job that has waited for the given time, s. The lowest score is next; equal
// scores in order of arrival.
type Score func(j *order.Job, wait float64) float64

// Heuristic is a named Score.
type Heuristic struct {
	Name  string
	Score Score
	// Aging is set if the score depends on the wait; otherwise a job's score is constant.
	Aging bool
}

// Published are the heuristics of the published table as implemented by its authors: WFP3 and UNI compute the wait
// from a start time that is not set yet, −1, and therefore differ from the heuristics of these names.
var Published = []Heuristic{
	heuristic("FCFS", "fcfs", true), heuristic("WFP3", "wfp3", true), heuristic("UNI", "unicep", true), heuristic("SJF", "sjf", true),
	heuristic("F1", "f1", true),
}

// Further are heuristics that the published table lacks, among them WFP3 and UNICEP with the true wait.
var Further = []Heuristic{
	heuristic("WFP3 true", "wfp3", false), heuristic("UNICEP true", "unicep", false), heuristic("SAF", "saf", false),
	heuristic("smallest", "smallest", false), heuristic("F2", "f2", false), heuristic("F3", "f3", false), heuristic("F4", "f4", false),
}

// heuristic returns a heuristic from order.Orders, in its published form if requested and different.
func heuristic(name, ranking string, published bool) Heuristic {
	o := order.Orders[ranking]
	if coded := o.AsPublished; published && coded != nil {
		return Heuristic{Name: name, Score: func(j *order.Job, _ float64) float64 { return coded(j) }}
	}
	return Heuristic{name, o.Score, o.Aging}
}

// Play starts all remaining jobs of an episode by a heuristic; jobs are those of the episode. Cost: O(waiting) per
// start.
func Play(e *Episode, jobs []order.Job, h Heuristic) {
	Drive(e, jobs, h, func() error { return nil })
}

// Drive is Play with a call of step before each choice. An error of step ends it and is returned.
func Drive(e *Episode, jobs []order.Job, h Heuristic, step func() error) error {
	scores := make([]float64, len(jobs))
	byScore := func(a, b int) int { return cmp.Compare(scores[a], scores[b]) }
	scored := 0
	for w := e.Waiting(); len(w) > 0; w = e.Waiting() {
		if err := step(); err != nil {
			return err
		}
		if h.Aging {
			for _, i := range w {
				scores[i] = h.Score(&jobs[i], e.Now()-jobs[i].Submit)
			}
		}
		for ; scored < e.Arrived() && !h.Aging; scored++ {
			scores[scored] = h.Score(&jobs[scored], 0)
		}
		best := w[0]
		for _, i := range w[1:] {
			if scores[i] < scores[best] {
				best = i
			}
		}
		if e.backfill {
			e.Prefer(byScore)
		}
		e.Start(best)
	}
	return nil
}

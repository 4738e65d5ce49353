package rlscheduler

import (
	"cmp"
	"math"

	"trainopt/simulator/queue"
)

// Score is what a heuristic gives a job of the queue that has waited so long; the lowest is next, of equals the first that came.
type Score func(j *queue.Job, wait float64) float64

// Heuristic is a named Score.
type Heuristic struct {
	Name  string
	Score Score
	// Aging is set where the wait matters; else a job's score never changes.
	Aging bool
}

// Published are the heuristics of the published table, as they were coded: WFP3 and UNI compute the wait from a start time that
// is not set yet, −1, so that they are not what their names say.
var Published = []Heuristic{
	{"FCFS", func(j *queue.Job, _ float64) float64 { return j.Submit }, false},
	{"WFP3", func(j *queue.Job, _ float64) float64 {
		return -math.Pow((-1-j.Submit)/j.Request, 3) * float64(j.Procs)
	}, false},
	{"UNI", func(j *queue.Job, _ float64) float64 {
		return -((-1 - j.Submit) + 1e-15) / (math.Log2(float64(j.Procs)+1e-15) * j.Request)
	}, false},
	{"SJF", func(j *queue.Job, _ float64) float64 { return j.Request }, false},
	{"F1", func(j *queue.Job, _ float64) float64 {
		return math.Log10(positive(j.Request))*float64(j.Procs) + 870*math.Log10(positive(j.Submit))
	}, false},
}

// Further are heuristics that the published table lacks: WFP3 and UNICEP with the true wait (Tang et al. 2009), the smallest
// area, the fewest processors, and the rest of the functions of Carastan-Santos and de Camargo (SC 2017).
var Further = []Heuristic{
	{"WFP3 true", func(j *queue.Job, wait float64) float64 {
		return -math.Pow(wait/j.Request, 3) * float64(j.Procs)
	}, true},
	{"UNICEP true", func(j *queue.Job, wait float64) float64 {
		return -wait / (math.Log2(max(2, float64(j.Procs))) * j.Request)
	}, true},
	{"SAF", func(j *queue.Job, _ float64) float64 { return j.Request * float64(j.Procs) }, false},
	{"smallest", func(j *queue.Job, _ float64) float64 { return float64(j.Procs) }, false},
	{"F2", func(j *queue.Job, _ float64) float64 {
		return math.Sqrt(positive(j.Request))*float64(j.Procs) + 25600*math.Log10(positive(j.Submit))
	}, false},
	{"F3", func(j *queue.Job, _ float64) float64 {
		return positive(j.Request)*float64(j.Procs) + 6.86e6*math.Log10(positive(j.Submit))
	}, false},
	{"F4", func(j *queue.Job, _ float64) float64 {
		return positive(j.Request)*math.Sqrt(float64(j.Procs)) + 5.3e5*math.Log10(positive(j.Submit))
	}, false},
}

func positive(v float64) float64 {
	if v <= 0 {
		return 0.1
	}
	return v
}

// Play runs a whole episode by a heuristic.
func Play(e *Episode, jobs []queue.Job, h Heuristic) {
	scores := make([]float64, len(jobs))
	scored := 0
	byScore := func(a, b int) int { return cmp.Compare(scores[a], scores[b]) }
	for w := e.Waiting(); len(w) > 0; w = e.Waiting() {
		if h.Aging {
			for _, i := range w {
				scores[i] = h.Score(&jobs[i], e.Now()-jobs[i].Submit)
			}
		} else {
			for ; scored < e.Arrived(); scored++ {
				scores[scored] = h.Score(&jobs[scored], 0)
			}
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
}

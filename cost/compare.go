package cost

import (
	"fmt"
	"math"

	"trainopt/resources"
)

// Quality is the rating of a change of configuration.
type Quality string

const (
	excellent    Quality = "excellent"    // cheaper and faster, or one of them without loss in the other
	good         Quality = "good"         // a gain in one that is worth the loss in the other
	questionable Quality = "questionable" // a gain in one with too great a loss in the other
	bad          Quality = "bad"          // more expensive and slower, or one of them without any gain
	unchanged    Quality = "unchanged"    // neither changes by more than 1 %
	Undecided    Quality = "undecided"    // a time or a price is unknown
)

const (
	sameWithin = 0.01 // smaller relative changes of total cost or time count as none
	// patience is the exponent of the acceptable slowdown: a saving by the factor s (0.8 = −20 %) is good up to a
	// slowdown by (1/s)^patience, that is −20 % up to +95 % time and −10 % up to +37 %.
	patience = 3
)

// changePct returns the change in percent of before; NaN if before is not positive or after is NaN.
func changePct(before, after float64) float64 {
	if !(before > 0) || math.IsNaN(after) {
		return math.NaN()
	}
	return 100 * (after - before) / before
}

// Judge rates the factors c and t by which the total cost and the time of the same work change, never the hourly price:
// half the GPUs at 1.6 times the time is 20 % cheaper and thus "good". 1 ± 1 % counts as unchanged:
//
//	excellent     c or t falls, neither rises
//	bad           c or t rises, neither falls
//	good          c falls and t ≤ (1/c)³; or t falls and c ≤ 1/t, so that the speed-up pays for itself
//	questionable  one falls, the other rises beyond that
//	unchanged     neither changes
//	undecided     a factor is not positive or is infinite
//
// Limits are ignored; package sla determines whether the slower configuration still meets a deadline.
func Judge(cost, time float64) Quality {
	if !(cost > 0) || !(time > 0) || math.IsInf(cost, 0) || math.IsInf(time, 0) {
		return Undecided
	}
	cheaper, dearer := cost < 1-sameWithin, cost > 1+sameWithin
	faster, slower := time < 1-sameWithin, time > 1+sameWithin
	switch {
	case cheaper && !slower, faster && !dearer:
		return excellent
	case !cheaper && !faster && (dearer || slower):
		return bad
	case cheaper && math.Log(time) <= -patience*math.Log(cost), faster && cost*time <= 1:
		return good
	case cheaper, faster:
		return questionable
	}
	return unchanged
}

// batchProblem is one problem of a simultaneous change of GPUs and batch size.
type batchProblem struct {
	Kind  string // "opposite", "batch-moves", "per-gpu"
	Words string
}

// CheckGPUBatch examines a change of GPUs and total batch size. It returns nil if a batch size is 0, the script's
// own, and otherwise reports
//
//	opposite     GPUs and batch change in opposite directions
//	batch-moves  the batch changes by more than 50 % at the same number of GPUs
//	per-gpu      the batch per GPU changes by more than 30 %
//
// A change of the batch also changes the optimisation: a comparison of time or cost then requires the same target
// metric.
func CheckGPUBatch(before, after resources.Allocation) []batchProblem {
	if before.BatchSize <= 0 || after.BatchSize <= 0 {
		return nil
	}
	var list []batchProblem
	gpus, batch := after.GPUs-before.GPUs, after.BatchSize-before.BatchSize
	if (gpus > 0 && batch < 0) || (gpus < 0 && batch > 0) {
		amount := "less"
		if gpus < 0 {
			amount = "more"
		}
		list = append(list, batchProblem{"opposite", fmt.Sprintf(
			"GPUs go from %d to %d but the batch from %d to %d: each GPU gets %s work per step; scale the batch with the GPUs",
			before.GPUs, after.GPUs, before.BatchSize, after.BatchSize, amount)})
	}
	if moved := changePct(float64(before.BatchSize), float64(after.BatchSize)); gpus == 0 && math.Abs(moved) > 50 {
		list = append(list, batchProblem{"batch-moves", fmt.Sprintf(
			"the batch moves by %+.0f %% (%d to %d) at the same %d GPUs: check memory, learning rate and the target metric",
			moved, before.BatchSize, after.BatchSize, before.GPUs)})
	}
	if before.GPUs > 0 && after.GPUs > 0 {
		a, b := float64(before.BatchSize)/float64(before.GPUs), float64(after.BatchSize)/float64(after.GPUs)
		if moved := changePct(a, b); math.Abs(moved) > 30 {
			list = append(list, batchProblem{"per-gpu", fmt.Sprintf(
				"the batch per GPU moves by %+.0f %% (%.4g to %.4g): memory use and the speed of each GPU change with it", moved, a, b)})
		}
	}
	return list
}

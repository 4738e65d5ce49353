package cost

import (
	"fmt"
	"math"
	"time"

	"trainopt/resources"
)

// Config is one configuration for a given amount of work.
type Config struct {
	Allocation resources.Allocation
	Rates      Rates
	// Time is the duration of the work in this configuration; 0 or less means unknown. Both sides of a comparison are
	// for the same work.
	Time time.Duration
}

// Total returns the cost of the work; NaN if its time is unknown.
func (c Config) Total() USD {
	if c.Time <= 0 {
		return USD(math.NaN())
	}
	return c.Rates.Hourly(c.Allocation) * USD(c.Time.Hours())
}

// Quality is the rating of a change of configuration.
type Quality string

const (
	Excellent    Quality = "excellent"    // cheaper and faster, or one of them without loss in the other
	Good         Quality = "good"         // a gain in one that is worth the loss in the other
	Questionable Quality = "questionable" // a gain in one with too great a loss in the other
	Bad          Quality = "bad"          // more expensive and slower, or one of them without any gain
	Unchanged    Quality = "unchanged"    // neither changes by more than 1 %
	Undecided    Quality = "undecided"    // a time or a price is unknown
)

// resourceChange is the change of one resource.
type resourceChange struct {
	Name          string // "gpu", "cpu", "memory", "batch"
	Unit          string // "", "", "GiB", "samples"
	Before, After float64
	// HourlyBefore and HourlyAfter are its share of the hourly price; 0 for the batch.
	HourlyBefore, HourlyAfter USD
}

// Comparison is the difference between two configurations for the same work. Changes are in percent of the value
// before, positive for an increase; NaN if unknown.
type Comparison struct {
	HourlyBefore, HourlyAfter USD // per hour
	TotalBefore, TotalAfter   USD // for the work; NaN if the time is unknown
	HourlyChangePct           float64
	TotalChangePct            float64
	TimeChangePct             float64
	Resources                 []resourceChange // gpu, cpu, memory and batch, always all four
	Quality                   Quality
	Words                     string // one sentence for the user
}

const (
	sameWithin = 0.01 // smaller relative changes of total cost or time count as none
	// patience is the exponent of the acceptable slowdown: a saving by the factor s (0.8 = −20 %) is good up to a
	// slowdown by (1/s)^patience, that is −20 % up to +95 % time and −10 % up to +37 %.
	patience = 3
)

// Compare returns the effect of a change of configuration on the hourly price, the time and the total cost of the
// same work. It is rated by total cost against time, never by the hourly price: half the GPUs at 1.6 times the time
// is 20 % cheaper and thus "good". With c and t the factors by which total cost and time change, where 1 ± 1 % counts
// as unchanged:
//
//	excellent     c or t falls, neither rises
//	bad           c or t rises, neither falls
//	good          c falls and t ≤ (1/c)³; or t falls and c ≤ 1/t, so that the speed-up pays for itself
//	questionable  one falls, the other rises beyond that
//	unchanged     neither changes
//	undecided     a time is unknown, or a total is 0 or not a number
//
// Limits are ignored; package sla determines whether the slower configuration still meets a deadline.
func Compare(before, after Config) Comparison {
	c := Comparison{HourlyBefore: before.Rates.Hourly(before.Allocation), HourlyAfter: after.Rates.Hourly(after.Allocation),
		TotalBefore: before.Total(), TotalAfter: after.Total(), TimeChangePct: math.NaN()}
	c.HourlyChangePct = changePct(float64(c.HourlyBefore), float64(c.HourlyAfter))
	c.TotalChangePct = changePct(float64(c.TotalBefore), float64(c.TotalAfter))
	if before.Time > 0 && after.Time > 0 {
		c.TimeChangePct = changePct(before.Time.Seconds(), after.Time.Seconds())
	}
	c.Resources = resourceChanges(before, after)
	c.Quality = Judge(1+c.TotalChangePct/100, 1+c.TimeChangePct/100)
	c.Words = c.words()
	return c
}

// changePct returns the change in percent of before; NaN if before is not positive or after is NaN.
func changePct(before, after float64) float64 {
	if !(before > 0) || math.IsNaN(after) {
		return math.NaN()
	}
	return 100 * (after - before) / before
}

func resourceChanges(before, after Config) []resourceChange {
	a, b := before.Allocation, after.Allocation
	p, q := before.Rates.HourlySplit(a), after.Rates.HourlySplit(b)
	return []resourceChange{
		{"gpu", "", float64(a.GPUs), float64(b.GPUs), p.GPU, q.GPU},
		{"cpu", "", float64(a.CPUs), float64(b.CPUs), p.CPU, q.CPU},
		{"memory", "GiB", float64(a.Memory), float64(b.Memory), p.Memory, q.Memory},
		{"batch", "samples", float64(a.BatchSize), float64(b.BatchSize), 0, 0},
	}
}

// Judge rates the factors by which total cost and time change by the rules of Compare; a factor that is not positive
// or is infinite is unknown.
func Judge(cost, time float64) Quality {
	if !(cost > 0) || !(time > 0) || math.IsInf(cost, 0) || math.IsInf(time, 0) {
		return Undecided
	}
	cheaper, dearer := cost < 1-sameWithin, cost > 1+sameWithin
	faster, slower := time < 1-sameWithin, time > 1+sameWithin
	switch {
	case cheaper && !slower, faster && !dearer:
		return Excellent
	case !cheaper && !faster && (dearer || slower):
		return Bad
	case cheaper && math.Log(time) <= -patience*math.Log(cost), faster && cost*time <= 1:
		return Good
	case cheaper, faster:
		return Questionable
	}
	return Unchanged
}

func (c Comparison) words() string {
	if c.Quality == Undecided {
		return "undecided: the time or the price of one side is not known"
	}
	return fmt.Sprintf("%s: total cost %+.1f %% (%.4g to %.4g USD), time %+.1f %%, price per hour %+.1f %%", c.Quality,
		c.TotalChangePct, float64(c.TotalBefore), float64(c.TotalAfter), c.TimeChangePct, c.HourlyChangePct)
}

// BatchProblem is one problem of a simultaneous change of GPUs and batch size.
type BatchProblem struct {
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
func CheckGPUBatch(before, after resources.Allocation) []BatchProblem {
	if before.BatchSize <= 0 || after.BatchSize <= 0 {
		return nil
	}
	var list []BatchProblem
	gpus, batch := after.GPUs-before.GPUs, after.BatchSize-before.BatchSize
	if (gpus > 0 && batch < 0) || (gpus < 0 && batch > 0) {
		amount := "less"
		if gpus < 0 {
			amount = "more"
		}
		list = append(list, BatchProblem{"opposite", fmt.Sprintf(
			"GPUs go from %d to %d but the batch from %d to %d: each GPU gets %s work per step; scale the batch with the GPUs",
			before.GPUs, after.GPUs, before.BatchSize, after.BatchSize, amount)})
	}
	if moved := changePct(float64(before.BatchSize), float64(after.BatchSize)); gpus == 0 && math.Abs(moved) > 50 {
		list = append(list, BatchProblem{"batch-moves", fmt.Sprintf(
			"the batch moves by %+.0f %% (%d to %d) at the same %d GPUs: check memory, learning rate and the target metric",
			moved, before.BatchSize, after.BatchSize, before.GPUs)})
	}
	if before.GPUs > 0 && after.GPUs > 0 {
		a, b := float64(before.BatchSize)/float64(before.GPUs), float64(after.BatchSize)/float64(after.GPUs)
		if moved := changePct(a, b); math.Abs(moved) > 30 {
			list = append(list, BatchProblem{"per-gpu", fmt.Sprintf(
				"the batch per GPU moves by %+.0f %% (%.4g to %.4g): memory use and the speed of each GPU change with it", moved, a, b)})
		}
	}
	return list
}

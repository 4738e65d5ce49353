package cost

import (
	"fmt"
	"math"
	"time"

	"trainopt/resources"
)

// Config is one way of doing a given piece of work.
type Config struct {
	Allocation resources.Allocation
	Rates      Rates
	// Time is how long the work takes this way; 0 or less is unknown. Both sides of a comparison are for the same work.
	Time time.Duration
}

// Total is the cost of the work; NaN when its time is unknown.
func (c Config) Total() USD {
	if c.Time <= 0 {
		return USD(math.NaN())
	}
	return c.Rates.Hourly(c.Allocation) * USD(c.Time.Hours())
}

// Quality is the verdict on a change of configuration.
type Quality string

const (
	Excellent    Quality = "excellent"    // cheaper and faster, or one of them at no loss in the other
	Good         Quality = "good"         // one is gained, and it is worth what the other loses
	Questionable Quality = "questionable" // one is gained, but the other loses too much
	Bad          Quality = "bad"          // dearer and slower, or one of them with nothing gained
	Unchanged    Quality = "unchanged"    // neither moves by more than 1 %
	Undecided    Quality = "undecided"    // a time or a price is not known
)

// ResourceChange is the change of one resource.
type ResourceChange struct {
	Name          string // "gpu", "cpu", "memory", "batch"
	Unit          string // "", "", "GiB", "samples"
	Before, After float64
	// HourlyBefore and HourlyAfter are its share of the price per hour; 0 for the batch.
	HourlyBefore, HourlyAfter USD
}

// Comparison is what changes between two configurations that do the same work. Changes are in percent of before, positive is more; NaN
// when unknown.
type Comparison struct {
	HourlyBefore, HourlyAfter USD // per hour
	TotalBefore, TotalAfter   USD // for the work; NaN when the time is unknown
	HourlyChangePct           float64
	TotalChangePct            float64
	TimeChangePct             float64
	Resources                 []ResourceChange // gpu, cpu, memory, batch, always all four
	Quality                   Quality
	Words                     string // one sentence for people
}

const (
	sameWithin = 0.01 // a change of total cost or time below this is none
	// patience is how much slowing down a saving is worth: a saving by the factor s (0.8 = −20 %) is good up to
	// a slow-down by (1/s)^patience, so −20 % up to +95 % time, −10 % up to +37 %.
	patience = 3
)

// Compare says what a change of configuration does to the price per hour, to the time and to the total cost of the same work, and judges it on total
// cost against time, never on the price per hour: half the GPUs at 1.6 times the time is 20 % cheaper, and so "good".
// With c and t the factors by which total cost and time change, 1 ± 1 % counting as unchanged:
//
//	excellent     c or t falls, neither rises
//	bad           c or t rises, neither falls
//	good          c falls and t ≤ (1/c)³; or t falls and c ≤ 1/t, the speed-up pays for itself
//	questionable  one falls, the other rises beyond that
//	unchanged     neither moves
//	undecided     a time is unknown, or a total is 0 or not a number
//
// Limits are not looked at: whether the slower way still meets a deadline is for package sla to say.
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

func changePct(before, after float64) float64 {
	if !(before > 0) || math.IsNaN(after) {
		return math.NaN()
	}
	return 100 * (after - before) / before
}

func resourceChanges(before, after Config) []ResourceChange {
	a, b := before.Allocation, after.Allocation
	p, q := before.Rates.HourlySplit(a), after.Rates.HourlySplit(b)
	return []ResourceChange{
		{"gpu", "", float64(a.GPUs), float64(b.GPUs), p.GPU, q.GPU},
		{"cpu", "", float64(a.CPUs), float64(b.CPUs), p.CPU, q.CPU},
		{"memory", "GiB", float64(a.Memory), float64(b.Memory), p.Memory, q.Memory},
		{"batch", "samples", float64(a.BatchSize), float64(b.BatchSize), 0, 0},
	}
}

// Judge judges the factors by which total cost and time change, as Compare does; not positive or infinite is unknown.
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

// BatchProblem is one finding on how GPUs and batch size move together.
type BatchProblem struct {
	Kind  string // "opposite", "batch-moves", "per-gpu"
	Words string
}

// CheckGPUBatch looks at a change of GPUs and total batch size (0: the script's own, nothing can be said). It finds
//
//	opposite     the GPUs go one way and the batch the other
//	batch-moves  the batch moves by more than 50 % at the same number of GPUs
//	per-gpu      the batch per GPU moves by more than 30 %
//
// A batch that changes also changes what is learnt: a comparison of time or cost then needs the same target metric.
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
			"GPUs go from %d to %d but the batch from %d to %d: each GPU gets %s work a step; scale the batch with the GPUs",
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

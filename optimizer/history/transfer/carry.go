package transfer

import (
	"fmt"
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/history"
	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// Prior standard deviations of the logarithm of the seconds per unit between two runs of one script. A cost
// proportional to a number differs by 0.69 for a factor of two; most arguments have no effect.
const (
	perOctave = 0.5 // of a numeric argument, per factor of two
	perWord   = 0.6 // of any other argument
	perText   = 0.4 // of an edited script: a single constant may change everything
	perData   = 1.0 // of another data set of unknown size
	// batchShare is the expected share of a larger batch that turns into speed, and its standard deviation.
	batchShare = 0.35
	// slopeShare is the share of an effect that may vary per doubling of the GPUs or CPUs.
	slopeShare = 0.25
)

const (
	// learnedRuns is the weight of the prior on these widths as a number of runs, farRuns the maximum number of
	// standard deviations that one run counts for.
	learnedRuns = 4
	farRuns     = 3
	// sameWorkSpread is the standard deviation between two runs of the same work. runSpread is that of one similar
	// run; it grows with the square of the learned scale, since runs that differ by more than their arguments explain
	// had different background loads.
	sameWorkSpread, runSpread = 0.2, 0.1
	// narrowestRuns and widestRuns bound the learned scale.
	narrowestRuns, widestRuns = 0.5, 3.0
)

// CarryTarget describes the run to which measurements are carried over.
type CarryTarget struct {
	// Config maps an allocation of this run to a configuration for queries.
	Config func(resources.Allocation) history.Config
	// Reference is the allocation relative to which effects on the scaling are measured: the user's own.
	Reference resources.Allocation

	batches *Model // predicts the effect of the batch size; nil if no batch size differs
}

// Carry turns the measurements of similar runs into evidence about a run with other arguments or another version of
// the script. Each difference becomes an unknown effect, with the width that such differences had between the runs of
// this script, and for the batch size with the offset and width that the model of this package predicts. Runs with
// the same value share an effect; numeric values share one in proportion to their logarithm, so that two values
// determine a third. The order is preserved.
func Carry(similar []history.Similar, c CarryTarget) []perf.Observation {
	scale := learnScale(similar)
	c.batches = batchModel(similar, c.Config)
	var out []perf.Observation
	for i := range similar {
		s := &similar[i]
		for _, o := range s.Observations {
			if ratio := batchRatio(s); s.Unit == "step" && ratio > 0 { // a step with another batch size is another unit
				o.UnitSeconds, o.UnitSamples = times(o.UnitSeconds, ratio), o.UnitSamples*ratio
			}
			o.Effects = []perf.Effect{{Name: "run " + s.Run, Level: runSpread * scale * scale, Reference: c.Reference}}
			for k := range s.Changes {
				o.Effects = append(o.Effects, c.effect(s, &s.Changes[k], o.Allocation, scale))
			}
			out = append(out, o)
		}
	}
	return out
}

func times(v []float64, by float64) []float64 {
	out := slices.Clone(v)
	for i := range out {
		out[i] *= by
	}
	return out
}

// batchRatio returns the current batch size divided by that of a similar run; 0 if it is the same or unknown.
func batchRatio(s *history.Similar) float64 {
	for _, c := range s.Changes {
		if c.BatchSize && c.Ratio > 0 {
			return c.Ratio
		}
	}
	return 0
}

// effect returns a change as an unknown effect on the seconds per unit at an allocation.
func (c *CarryTarget) effect(s *history.Similar, change *history.Change, at resources.Allocation, scale float64) perf.Effect {
	e := perf.Effect{Name: effectName(change), Level: scale * level(change), Reference: c.Reference}
	if r, ok := c.batchEffect(s, change, at); ok {
		// r is the speed now over the speed then; the effect is the seconds then over the seconds now.
		e.Offset, e.Level = r.Mean, math.Copysign(r.SD, e.Level)
	}
	e.Slope = slopeShare * e.Level
	return e
}

// effectName is equal for changes that are one effect: all values of a number, but each non-numeric value by itself.
func effectName(c *history.Change) string {
	if c.Ratio > 0 {
		return c.Name
	}
	return c.Name + "=" + c.Was
}

// level returns the prior standard deviation of a change, negative if the number was larger in the earlier run.
func level(c *history.Change) float64 {
	switch {
	case c.Ratio > 0:
		return perOctave * min(max(math.Log2(c.Ratio), -3), 3)
	case c.Name == history.ScriptText:
		return perText * math.Sqrt(1+c.Distance)
	case c.Name == history.DataSet:
		return perData
	}
	return perWord
}

// batchEffect predicts the ratio of samples per second at an allocation between the current and the earlier batch
// size.
func (c *CarryTarget) batchEffect(s *history.Similar, change *history.Change, at resources.Allocation) (ratio, bool) {
	if c.batches == nil || !change.BatchSize || !(change.Ratio > 0) || !(s.BatchSize > 0) {
		return ratio{}, false
	}
	was, now := c.Config(at), c.Config(at)
	was.Batch, now.Batch = s.BatchSize, s.BatchSize*change.Ratio
	r, err := c.batches.Ratio(Query{Job: s.Job, Config: was}, Query{Job: s.Job, Config: now})
	if err != nil {
		return ratio{}, false
	}
	return within(r, math.Log(change.Ratio)), true
}

// within combines a predicted ratio of speeds with a general bound: a larger batch makes a step no shorter and a
// sample no longer, so the speed grows by a factor between 1 and the ratio of batch sizes.
func within(r ratio, batch float64) ratio {
	mean, sd := batchShare*batch, max(math.Abs(batchShare*batch), 1e-3)
	a, b := 1/(r.SD*r.SD), 1/(sd*sd)
	r.Mean, r.SD = (a*r.Mean+b*mean)/(a+b), math.Sqrt(1/(a+b))
	return r
}

// batchModel fits the dependence of the speed on the batch size to the runs themselves and the published
// measurements; nil if no run had another batch size.
func batchModel(similar []history.Similar, config func(resources.Allocation) history.Config) *Model {
	differs := func(s history.Similar) bool { return batchRatio(&s) > 0 }
	if !slices.ContainsFunc(similar, differs) {
		return nil
	}
	entries := history.Published()
	for i := range similar {
		s := &similar[i]
		for k, o := range s.Observations {
			if !(s.BatchSize > 0) || o.UnitSamples <= 0 {
				continue
			}
			e := history.NewEntry(history.Probe, fmt.Sprintf("%s/%d", s.Run, k))
			e.Job, e.Observed, e.Unit = s.Job, config(o.Allocation), s.Unit
			e.Observed.Batch, e.UnitTime, e.UnitCount = s.BatchSize, stat.Median(o.UnitSeconds), float64(len(o.UnitSeconds))
			e.Throughput = o.UnitSamples / e.UnitTime
			entries = append(entries, e)
		}
	}
	return New(entries, Options{})
}

// learnScale returns the factor on the prior widths that the similar runs of a script imply: the square root of the
// posterior mean of the variance of their standardised differences under a scaled inverse-χ² prior. Each run is
// compared with the nearest one before it.
func learnScale(similar []history.Similar) float64 {
	sum, n := float64(learnedRuns), float64(learnedRuns)
	for i := range similar {
		best, z := math.Inf(1), 0.0
		for k := range similar[:i] {
			if sd, difference, ok := apart(&similar[i], &similar[k]); ok && sd < best {
				best, z = sd, difference/sd
			}
		}
		if !math.IsInf(best, 1) {
			sum, n = sum+min(z*z, farRuns*farRuns), n+1
		}
	}
	return min(max(math.Sqrt(sum/n), narrowestRuns), widestRuns)
}

// apart returns the difference of the log seconds per unit of two runs at an allocation that both measured, with its
// prior standard deviation; ok is false without such an allocation, or if they did the same work.
func apart(a, b *history.Similar) (sd, difference float64, ok bool) {
	effects := map[string]float64{}
	for i := range a.Changes {
		effects[effectName(&a.Changes[i])] += level(&a.Changes[i])
	}
	for i := range b.Changes {
		effects[effectName(&b.Changes[i])] -= level(&b.Changes[i])
	}
	variance := 0.0
	for _, e := range effects {
		variance += e * e
	}
	if variance == 0 || a.Unit != b.Unit {
		return 0, 0, false
	}
	for _, x := range a.Observations {
		for _, y := range b.Observations {
			if x.Allocation.SameShape(y.Allocation) {
				return math.Sqrt(variance + sameWorkSpread*sameWorkSpread), math.Log(stat.Median(x.UnitSeconds) / stat.Median(y.UnitSeconds)), true
			}
		}
	}
	return 0, 0, false
}

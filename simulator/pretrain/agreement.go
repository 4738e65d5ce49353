package pretrain

import (
	"math"
	"math/rand/v2"
	"time"

	"trainopt/cost"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// prices decides whether the job runs on spot capacity and sets its rates. capacity draws the interruptions once the
// amount of work is known.
func (j *job) prices(rng *rand.Rand, share float64, rates func(spot bool) (cost.Rates, bool)) {
	spot := rng.Float64() < share
	if spot {
		if r, ok := rates(true); ok {
			j.Rates, j.onSpot = r, true
			return
		}
	}
	j.Rates, _ = rates(false)
}

// drawInterruptions draws the interruptions of a job on spot capacity, over a horizon of three times the longest run plus 50 h.
func (d *Generator) drawInterruptions(rng *rand.Rand, j *job) {
	if !j.onSpot {
		return
	}
	longest := 0.0
	for _, a := range j.Candidates() {
		longest = max(longest, j.Outcome(a).Seconds)
	}
	j.Interruptions = drawSpot(rng).Interruptions(rng, 3*longest+50*3600)
}

// drawSLA draws the SLA, relative to the best attainable outcome and to the baseline. The cases and ranges are in the
// documentation of Draw.
func drawSLA(rng *rand.Rand, j *job) {
	kind := rng.Float64()
	timely, thrifty := kind >= 0.25 && kind < 0.55 || kind >= 0.75, kind >= 0.55
	impossible, onTime, squeeze := rng.Float64() < 0.05, rng.IntN(2) == 0, 0.6+0.35*rng.Float64()
	slackTime, slackMoney := rng.Float64(), rng.Float64()

	var outs []withSpare
	fastest := math.Inf(1)
	for _, a := range j.Candidates() {
		o := j.OutcomeWithInterruptions(a)
		outs = append(outs, withSpare{o, float64(j.Rates.Hourly(a)) / 3600 * j.Restart})
		fastest = min(fastest, o.Seconds)
	}
	user := j.OutcomeWithInterruptions(j.Baseline)
	deadline := math.Inf(1)
	if timely {
		deadline = (fastest + j.Restart) * between(slackTime, 1.2, max(1.5, 1.5*user.Seconds/fastest))
		if impossible && (onTime || !thrifty) {
			deadline = fastest * squeeze
		}
		deadline = math.Ceil(deadline)
		j.Spec.TimeMax = time.Duration(deadline) * time.Second
	}
	if thrifty {
		cheapest := math.Inf(1)
		for _, o := range outs {
			if o.Seconds <= max(deadline*feasibilityMargin-j.Restart, fastest) {
				cheapest = min(cheapest, o.USD+o.restartUSD)
			}
		}
		budget := cheapest * between(slackMoney, 1.2, max(1.5, 1.3*user.USD/cheapest))
		if impossible && !(timely && onTime) {
			budget = cheapest * squeeze
		}
		j.Spec.CostMaxUSD = math.Ceil(budget*100) / 100
	}
	j.setFeasibility(outs)
}

// withSpare is an outcome together with the cost of one more restart.
type withSpare struct {
	training.Outcome
	restartUSD float64
}

// feasibilityMargin is the fraction of a limit that a candidate may use for the job to count as feasible.
const feasibilityMargin = 0.97

// setFeasibility sets Feasible and Tight from the outcomes of all candidates.
func (j *job) setFeasibility(outs []withSpare) {
	n := 0
	for _, o := range outs {
		if (j.Spec.TimeMax == 0 || o.Seconds+j.Restart <= feasibilityMargin*j.Spec.TimeMax.Seconds()) &&
			(j.Spec.CostMaxUSD == 0 || o.USD+o.restartUSD <= feasibilityMargin*j.Spec.CostMaxUSD) {
			n++
		}
	}
	j.Feasible = n > 0
	j.Tight = j.Feasible && j.Spec != (sla.Spec{}) && 5*n < len(outs)
}

// between maps a uniform number in [0, 1) to a log-uniform one in [lo, hi).
func between(u, lo, hi float64) float64 { return lo * math.Exp(u*math.Log(hi/lo)) }

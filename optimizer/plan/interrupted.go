package plan

import (
	"math"
	"math/rand/v2"
)

// reclaims are the interruptions of one draw, in seconds of running time since the decision.
type reclaims struct {
	rng      *rand.Rand
	up, away float64   // means of this draw, s
	at       []float64 // running time until each interruption, ascending
	total    []float64 // time away, cumulative
}

// maxReclaims bounds the interruptions of a draw: further ones are ignored.
const maxReclaims = 1000

// interrupted returns what interruptions add, in draw k, to a stretch of the given running time in units of work of the
// given duration: the seconds of restarts and repeated work, which are paid, and the seconds without a machine. All
// allocations meet the same interruptions in a draw.
func (f *forecast) interrupted(k int, seconds, unit float64) (repeated, away float64) {
	if f.reclaim == nil {
		return 0, 0
	}
	d, i := &f.reclaim[k], f.s.Interruptions
	if d.up == 0 {
		d.up = 3600 / i.PerHour * between(i.PerHourLow, i.PerHourHigh, d.rng)
		d.away = 3600 * i.AwayHours * between(i.AwayLow, i.AwayHigh, d.rng)
	}
	start, resumable := max(f.restart[k], f.startup[k]), f.s.Resumable
	for n := 0; n < maxReclaims; n++ {
		if n == len(d.at) {
			last, waited := 0.0, 0.0
			if n > 0 {
				last, waited = d.at[n-1], d.total[n-1]
			}
			d.at, d.total = append(d.at, last+d.up*d.rng.ExpFloat64()), append(d.total, waited+d.away*d.rng.ExpFloat64())
		}
		if d.at[n] >= seconds+repeated {
			break
		}
		if away = d.total[n]; resumable {
			repeated += start + unit/2 // on average half a unit is repeated
		} else {
			repeated = d.at[n] + start // all of it
		}
	}
	return repeated, away
}

// between draws a factor with the spread of a range from its 10 % to its 90 % quantile; 1 without a range.
func between(low, high float64, rng *rand.Rand) float64 {
	if !(low > 0 && high > low) {
		return 1
	}
	const z90 = 1.2816
	return math.Exp(math.Log(high/low) / 2 / z90 * rng.NormFloat64())
}

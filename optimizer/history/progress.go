package history

import (
	"math"

	"trainopt/monitor/trainlog"
)

// progress credits the current segment with the work beyond the furthest position so far. The first row of a log
// counts its own epoch only; the length of the first step is known once the second one is logged.
func (u *run) progress(p place) {
	u.at.units[byRow].add(1)
	switch {
	case math.IsNaN(p.epoch):
	case math.IsNaN(u.epoch):
		before := math.Max(0, math.Ceil(p.epoch)-1)
		u.late = before > 0
		u.at.units[byEpoch].add(p.epoch - before)
		u.epoch = p.epoch
	case p.epoch > u.epoch:
		u.at.units[byEpoch].add(p.epoch - u.epoch)
		u.epoch = p.epoch
	}
	switch {
	case math.IsNaN(p.step):
	case math.IsNaN(u.step):
		u.step, u.firstStep = p.step, u.at
	case p.step > u.step:
		if u.firstStep != nil {
			u.firstStep.units[byStep].add(firstSteps(u.step, p.step-u.step))
			u.firstStep = nil
		}
		u.at.units[byStep].add(p.step - u.step)
		u.step = p.step
	}
}

// firstSteps returns the number of steps that the first row of a log covers, if the second one follows interval steps
// later: 50 for 49, 99 … (counted from 0) and for 50, 100 …; 0 for 0, 50 … (logged before the first step).
func firstSteps(first, interval float64) float64 {
	if first-interval >= -1 {
		return interval
	}
	return first
}

// timing records the times in a row on every clock, and the pace of each pair of position and clock. An epoch_time is
// held until the epoch is over, since several rows may belong to the same epoch.
func (u *run) timing(r *trainlog.Row, p place, o *anomalies) {
	took, hasTook := r.Value(trainlog.EpochTime)
	if hasTook && took == 0 {
		o.add(r.Line, "%s is 0: no data", trainlog.EpochTime)
		hasTook = false
	}
	if !math.IsNaN(p.time) {
		u.at.seconds[ofCounter].add(u.clock.advance(p.time))
	}
	stamp := math.NaN()
	if !r.Stamp.IsZero() {
		if u.firstStamp.IsZero() {
			u.firstStamp, u.stamp = r.Stamp, r.Stamp
			if hasTook {
				u.beforeStamp = took
				u.at.seconds[ofStamp].add(took)
			}
			if !math.IsNaN(p.time) {
				u.beforeStamp = p.time
			}
		}
		if d := r.Stamp.Sub(u.stamp).Seconds(); d > 0 {
			u.at.seconds[ofStamp].add(d)
		}
		u.stamp = r.Stamp
		stamp = r.Stamp.Sub(u.firstStamp).Seconds()
	}
	row := math.NaN()
	if math.IsNaN(u.epoch) && math.IsNaN(u.step) {
		row = float64(u.rows)
	}
	for position, v := range [numPositions]float64{byEpoch: p.epoch, byStep: p.step, byRow: row} {
		if math.IsNaN(v) {
			continue
		}
		for clock, t := range [numClocks]float64{ofCounter: p.time, ofStamp: stamp} {
			if seconds, ok := u.paces[position][clock].advance(t, v); ok {
				u.at.paces[position][clock].add(seconds)
			}
		}
	}
	if hasTook {
		if !same(p.epoch, u.epochOf) || math.IsNaN(p.epoch) {
			u.endEpoch()
		}
		u.epochTime, u.epochOf = took, p.epoch
	}
}

// endEpoch credits the segment with the epoch_time of the completed epoch; the last row of an epoch takes precedence.
func (u *run) endEpoch() {
	if math.IsNaN(u.epochTime) {
		return
	}
	u.at.epochTime.add(u.epochTime)
	u.at.epochs.add(u.epochTime)
	u.epochTime, u.epochOf = math.NaN(), math.NaN()
}

// results records the last loss and accuracy.
func (u *run) results(r *trainlog.Row) {
	if v, ok := r.Value(trainlog.TrainLoss); ok {
		u.loss, u.at.loss = v, v
	}
	if v, ok := r.Value(trainlog.TestAccuracy); ok {
		u.accuracy, u.at.accuracy = v, v
	}
}

// end settles pending values at the end of the log.
func (u *run) end() {
	u.endEpoch()
	if u.firstStep != nil && u.step > 0 {
		u.firstStep.units[byStep].add(u.step)
	}
}

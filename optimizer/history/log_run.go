package history

import (
	"math"
	"time"

	"trainopt/monitor/trainlog"
)

// maxStretches bounds the number of distinct allocations of a run; rows at further allocations are aggregated.
const maxStretches = 64

// run is one training in a log.
type run struct {
	digest    *digest
	firstLine int
	job       Job

	start, last place   // of the first row, and the last known values
	epoch, step float64 // largest values so far
	totalSteps  float64
	rows        int
	late        bool // the log starts in the middle of the training
	restarts    int  // number of times that the position decreased
	turns       int  // of those, shortly after the previous one
	sinceBack   int  // rows since then

	clock, cost counter
	paces       [numPositions][numClocks]pace
	firstStamp  time.Time
	beforeStamp float64 // seconds from the start to firstStamp, from the same row
	stamp       time.Time
	epochTime   float64  // epoch_time of the current epoch, which further rows may update
	epochOf     float64  // epoch that epochTime belongs to
	firstStep   *segment // segment of the first step; nil once its length is known

	now       config
	at        *segment
	stretches []*segment

	loss, accuracy float64 // last values
}

// place is the position of a row; NaN if missing.
type place struct{ epoch, step, time float64 }

func placeOf(r *trainlog.Row) (p place) {
	p.epoch, _ = r.Value(trainlog.Epoch)
	p.step, _ = r.Value(trainlog.Step)
	p.time, _ = r.Value(trainlog.TimeSoFar)
	return p
}

// order compares two numbers: -1 and 1 as usual, 0 if they are equal or one is unknown.
func order(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// backFrom reports whether p lies before q: by epoch, else by step, else by time.
func (p place) backFrom(q place) bool {
	if c := order(p.epoch, q.epoch); c != 0 {
		return c < 0
	}
	if c := order(p.step, q.step); c != 0 {
		return c < 0
	}
	return p.time < q.time
}

// asEarlyAs reports whether p is a possible first position of a run whose earlier occurrence started at q.
func (p place) asEarlyAs(q place) bool {
	if c := order(p.epoch, q.epoch); c != 0 {
		return c < 0
	}
	if !math.IsNaN(p.step) && !math.IsNaN(q.step) {
		return p.step <= q.step
	}
	if p.epoch == q.epoch {
		return true
	}
	return p.time < 2*q.time
}

// after returns the position after q and then p: values missing in p are those of q.
func (p place) after(q place) place {
	keep := func(a, b float64) float64 {
		if math.IsNaN(a) {
			return b
		}
		return a
	}
	return place{keep(p.epoch, q.epoch), keep(p.step, q.step), keep(p.time, q.time)}
}

func newRun(r *trainlog.Row) *run {
	n := math.NaN()
	u := &run{digest: newDigest(), firstLine: r.Line, job: NewEntry(Log, "").Job, start: placeOf(r), last: place{n, n, n},
		epoch: n, step: n, totalSteps: n, clock: newCounter(), cost: newCounter(), epochTime: n, epochOf: n, now: noConfig(),
		loss: n, accuracy: n}
	u.at = newStretch(noConfig())
	u.stretches = []*segment{u.at}
	return u
}

// finished reports whether the run has reached its announced end; true if it announced none.
func (u *run) finished() bool {
	switch {
	case !math.IsNaN(u.job.Epochs) && !math.IsNaN(u.epoch):
		return u.epoch >= u.job.Epochs
	case !math.IsNaN(u.totalSteps) && !math.IsNaN(u.step):
		return u.step >= u.totalSteps-1
	}
	return true
}

// startsNewRun reports whether a row starts another run of the same training: its position is that of the start of this
// run, which was finished.
func (u *run) startsNewRun(r *trainlog.Row) bool {
	p := placeOf(r)
	return p.backFrom(u.last) && p.asEarlyAs(u.start) && u.finished()
}

// take adds one row to the run.
func (u *run) take(r *trainlog.Row, o *anomalies) {
	u.digest.row(r)
	u.describe(r, o)
	p := placeOf(r)
	if p.backFrom(u.last) || p.time < u.last.time {
		u.recordRestart()
	}
	u.move(r, o)
	u.rows++
	u.sinceBack++
	u.last = p.after(u.last)
	u.progress(p)
	u.timing(r, p, o)
	if v, ok := r.Value(trainlog.CostSoFar); ok {
		u.at.cost.add(u.cost.advance(v))
	}
	u.results(r)
	u.at.take(r, o)
}

// recordRestart records a restart of the job from a checkpoint or from its start.
func (u *run) recordRestart() {
	u.restarts++
	if u.sinceBack <= 2 {
		u.turns++
	}
	u.sinceBack = 0
	u.last = place{math.NaN(), math.NaN(), math.NaN()}
	u.begin()
}

// begin marks the current unit as warm-up.
func (u *run) begin() {
	u.endEpoch()
	u.at.begin()
}

// describe records the job's attributes in a row.
func (u *run) describe(r *trainlog.Row, o *anomalies) {
	if r.Model != "" {
		u.job.Model = r.Model
	}
	if r.Dataset != "" {
		u.job.Dataset = r.Dataset
	}
	if c := r.Next(trainlog.TotalEpochs); c == trainlog.Step && r.Next(trainlog.TotalSteps) >= trainlog.BatchSize || c >= trainlog.BatchSize {
		return
	}
	for _, f := range [...]struct {
		c  trainlog.Column
		to *float64
	}{{trainlog.ModelParams, &u.job.Params}, {trainlog.ModelLayers, &u.job.Layers}, {trainlog.DataCount, &u.job.DataCount},
		{trainlog.DataSizeMB, &u.job.DataSizeMB}, {trainlog.TotalEpochs, &u.job.Epochs}, {trainlog.TotalSteps, &u.totalSteps}} {
		setPositive(f.to, r, f.c, o)
	}
}

// setPositive sets a value unless it is 0 or less, which is counted as odd.
func setPositive(to *float64, r *trainlog.Row, c trainlog.Column, o *anomalies) {
	if v, ok := r.Value(c); ok && v > 0 {
		*to = v
	} else if ok {
		o.add(r.Line, "%s is %g: no data", c, v)
	}
}

// maxCount is the largest plausible number of GPUs, CPUs or samples per step.
const maxCount = 1e9

// setCount sets a count between least and maxCount; other values are counted as odd.
func setCount(to *float64, r *trainlog.Row, c trainlog.Column, least float64, o *anomalies) {
	if v, ok := r.Value(c); ok && v >= least && v <= maxCount {
		*to = v
	} else if ok {
		o.add(r.Line, "%s is %g: no data", c, v)
	}
}

// move selects the segment of a row; missing fields of the allocation are unchanged.
func (u *run) move(r *trainlog.Row, o *anomalies) {
	was := u.now
	setCount(&u.now.gpus, r, trainlog.GPUCount, 0, o)
	setCount(&u.now.cpus, r, trainlog.CPUCount, 1, o)
	setCount(&u.now.batch, r, trainlog.BatchSize, 1, o)
	if r.Device != "" {
		u.now.device = r.Device
	}
	if u.now.same(&was) {
		return
	}
	if u.now.completes(&was) && !u.at.mixed {
		u.at.config = u.now
		return
	}
	u.endEpoch()
	u.at = u.stretchAt(u.now)
	u.at.begin()
}

// stretchAt returns the segment at an allocation, creating it if necessary.
func (u *run) stretchAt(c config) *segment {
	for _, s := range u.stretches {
		if s.same(&c) && !s.mixed {
			return s
		}
	}
	last := u.stretches[len(u.stretches)-1]
	if last.mixed {
		return last
	}
	s := newStretch(c)
	if len(u.stretches) == maxStretches {
		s = newStretch(noConfig())
		s.mixed = true
	}
	u.stretches = append(u.stretches, s)
	return s
}

package history

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"trainopt/cost"
	"trainopt/internal/stat"
)

// frameworks maps log formats to the framework that they imply.
var frameworks = map[string]string{"keras": "keras", "lightning": "lightning", "huggingface": "huggingface", "ultralytics": "pytorch"}

var unitNames = [numPositions]string{byEpoch: "epoch", byStep: "step", byRow: ""}

// unit returns the position by which the run's work is counted: epochs if their time or number is known, else steps,
// else rows.
func (u *run) unit() int {
	for position := range numPositions {
		for _, s := range u.stretches {
			if s.measured(position) {
				return position
			}
		}
	}
	switch {
	case !math.IsNaN(u.epoch):
		return byEpoch
	case !math.IsNaN(u.step):
		return byStep
	}
	return byRow
}

// entries returns the entries of a run: a single one, or one of the whole followed by one per segment (allocation),
// and the segments themselves. A run without unit times gets the mean of the whole run, if its counter gives the
// total time.
func (u *run) entries(path, format string, say *assumptionNotes) ([]Entry, []*segment) {
	u.end()
	whole := NewEntry(Log, u.digest.hex())
	whole.Source, whole.At, whole.Job = path, u.started(), u.job
	whole.Job.Framework = frameworks[format]
	unit, clock := u.unit(), u.clockUsed()
	parts := make([]Entry, len(u.stretches))
	for i, s := range u.stretches {
		e := whole
		s.fill(&e, unit, clock)
		if len(parts) > 1 {
			e.ID, e.Parent, e.At = fmt.Sprintf("%s/%d", whole.ID, i+1), whole.ID, time.Time{}
		}
		say.fill(&e)
		s.rates(&e, unit)
		parts[i] = e
	}
	if len(parts) == 1 {
		e := &parts[0]
		if math.IsNaN(e.UnitTime) && clock == ofCounter && e.Units > 0 && unit != byRow {
			e.UnitTime, e.UnitCount = finite(e.Seconds/e.Units), e.Units
			u.stretches[0].rates(e, unit)
			say.note("the seconds per %s are the mean of the whole run, warm-up included: the log contains nothing finer", e.Unit)
		}
		whole = *e
	} else {
		whole.Job = parts[0].Job
		whole.Observed, whole.Unit = parts[0].Observed, parts[0].Unit
		join(&whole, parts)
	}
	u.notes(say, clock, parts)
	whole.Restarts = u.restarts
	whole.TrainLoss, whole.TestAccuracy = finite(u.loss), finite(u.accuracy)
	if len(parts) == 1 {
		return []Entry{whole}, u.stretches
	}
	return append([]Entry{whole}, parts...), u.stretches
}

// started returns the start of the run, from its first timestamp and the elapsed time logged in the same row; zero if
// unknown.
func (u *run) started() time.Time {
	at := u.firstStamp
	if at.IsZero() {
		return at
	}
	if at.Location() == zoneAsWritten { // no zone in the log: assume the local one
		at = time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.Local)
	}
	if u.beforeStamp > 0 && u.beforeStamp < math.MaxInt64/2e9 {
		at = at.Add(-time.Duration(u.beforeStamp * float64(time.Second)))
	}
	return at
}

// ofEpochs is the clock that sums the times of the epochs.
const ofEpochs = numClocks

// clockUsed returns the clock that determines the seconds of the run: time_so_far if logged, else whichever of
// timestamps and the sum of the epochs covers more time (timestamps may lack the first epoch, or be present in a few
// rows only).
func (u *run) clockUsed() int {
	var stamps, epochs float64
	for _, s := range u.stretches {
		if s.seconds[ofCounter].some {
			return ofCounter
		}
		stamps += s.seconds[ofStamp].v
		epochs += s.epochs.sum
	}
	if stamps > 0 && stamps >= epochs {
		return ofStamp
	}
	return ofEpochs
}

// fill sets the measured fields of the segment's entry.
func (s *segment) fill(e *Entry, unit, clock int) {
	e.Rows, e.Unit = s.rows, unitNames[unit]
	e.Observed.GPU, e.Observed.GPUs = gpuModel(s.device), s.gpuCount()
	e.Observed.CPUs, e.Observed.Batch = s.cpus, s.batch
	if e.Units = finite(s.units[unit].value()); unit == byEpoch && !s.units[unit].some && s.epochs.n > 0 {
		e.Units = s.epochs.n
	}
	if clock == ofEpochs {
		e.Seconds = finite(s.epochs.value() * s.epochs.n)
	} else {
		e.Seconds = finite(s.seconds[clock].value())
	}
	e.CostUSD = finite(s.cost.value())
	e.GPUUtil, e.CPUUtil = finite(s.gpuUse()), finite(s.cpuUtil.value())
	e.PeakMemoryGiB, e.GPUMemoryGiB = finite(s.memory), finite(s.gpuMemory)
	e.TrainLoss, e.TestAccuracy = finite(s.loss), finite(s.accuracy)
	mean, spread, count := s.unitTimes(unit).steady()
	e.UnitTime, e.UnitSpread, e.UnitCount = finite(mean), finite(spread), finite(count)
}

// rates sets the throughput: the logged one, else the batch size over the time of a step, else the samples of an
// epoch over its time.
func (s *segment) rates(e *Entry, unit int) {
	step, _, _ := s.unitTimes(byStep).steady()
	if unit == byStep {
		step = e.UnitTime
	}
	e.Throughput = finite(stat.Median(s.speed.values()))
	if math.IsNaN(e.Throughput) {
		e.Throughput = finite(e.Observed.Batch / step)
	}
	if math.IsNaN(e.Throughput) && unit == byEpoch {
		e.Throughput = finite(e.Job.DataCount / e.UnitTime)
	}
}

// join aggregates the segments into the whole: totals are sums, peaks are maxima and utilizations are means weighted
// by rows. Values that differ between segments are unknown, the unit time included.
func join(whole *Entry, parts []Entry) {
	total := func(of func(*Entry) *float64) {
		var t sum
		for i := range parts {
			if v := *of(&parts[i]); !math.IsNaN(v) {
				t.add(v)
			}
		}
		*of(whole) = finite(t.value())
	}
	total(func(e *Entry) *float64 { return &e.Units })
	total(func(e *Entry) *float64 { return &e.Seconds })
	total(func(e *Entry) *float64 { return &e.CostUSD })
	peak := func(of func(*Entry) *float64) {
		for i := range parts {
			if v := *of(&parts[i]); !(v <= *of(whole)) && !math.IsNaN(v) {
				*of(whole) = v
			}
		}
	}
	peak(func(e *Entry) *float64 { return &e.PeakMemoryGiB })
	peak(func(e *Entry) *float64 { return &e.GPUMemoryGiB })
	share := func(of func(*Entry) *float64) {
		var m meanOf
		for i := range parts {
			if v := *of(&parts[i]); !math.IsNaN(v) {
				m.sum += v * float64(parts[i].Rows)
				m.n += float64(parts[i].Rows)
			}
		}
		*of(whole) = m.value()
	}
	share(func(e *Entry) *float64 { return &e.GPUUtil })
	share(func(e *Entry) *float64 { return &e.CPUUtil })
	for i := range parts {
		p, w := &parts[i].Observed, &whole.Observed
		whole.Rows += parts[i].Rows
		if p.GPU != w.GPU {
			w.GPU = ""
		}
		for _, v := range [][2]*float64{{&w.GPUs, &p.GPUs}, {&w.CPUs, &p.CPUs}, {&w.Batch, &p.Batch}, {&w.MemoryGiB, &p.MemoryGiB}} {
			if !same(*v[0], *v[1]) {
				*v[0] = math.NaN()
			}
		}
	}
}

// notes adds the anomalies of a run.
func (u *run) notes(say *assumptionNotes, clock int, parts []Entry) {
	timed := false
	for i := range parts {
		timed = timed || !math.IsNaN(parts[i].UnitTime)
	}
	if !timed {
		say.note(noTimes)
	}
	if u.late {
		say.note("the log begins in the middle of the training: the work before its first row is not counted")
	}
	if u.restarts > 0 {
		say.note("epoch, step or time goes back: work done again after a restart is counted in time and money, not in units")
	}
	if u.turns > 2 {
		say.note("rows go back and forth: two writers may have written one log, and times between rows mean little")
	}
	if clock == ofStamp && u.beforeStamp == 0 {
		say.note("the time of the run goes from its first row to its last: what came before the first is not known")
	}
	if u.stretches[len(u.stretches)-1].mixed {
		say.note("more than %d allocations or batch sizes: the others are not distinguished", maxStretches)
	}
}

const noTimes = "no column with the time of an epoch (epoch_time or time_so_far), and no timestamps"

// finite returns v, or NaN if v is infinite.
func finite(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// gpuModel returns the GPU model in a device_type; "" if it contains none ("cuda", "cpu", "gpu:0").
func gpuModel(device string) string {
	name, _, _ := strings.Cut(device, ":")
	letter, digit := false, false
	for _, r := range name {
		letter = letter || unicode.IsLetter(r)
		digit = digit || unicode.IsDigit(r)
	}
	if !letter || !digit {
		return ""
	}
	return cost.GPUModel(name)
}

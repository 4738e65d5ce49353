package history

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

	"trainopt/monitor/trainlog"
)

// Positions and clocks of a log; a pace is kept for each pair.
const (
	byEpoch = iota
	byStep
	byRow // neither epoch nor step: each row is one unit
	numPositions
)

const (
	ofCounter = iota // time_so_far
	ofStamp          // timestamp
	numClocks
)

// config is the configuration in a row. NaN and "" are missing.
type config struct {
	gpus, cpus, batch float64
	device            string
}

func noConfig() config { return config{gpus: math.NaN(), cpus: math.NaN(), batch: math.NaN()} }

// same reports whether two numbers are equal, or both unknown.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func (c *config) same(d *config) bool {
	return same(c.gpus, d.gpus) && same(c.cpus, d.cpus) && same(c.batch, d.batch) && c.device == d.device
}

// completes reports whether c agrees with d in all fields that d has.
func (c *config) completes(d *config) bool {
	agree := func(a, b float64) bool { return a == b || math.IsNaN(b) }
	return agree(c.gpus, d.gpus) && agree(c.cpus, d.cpus) && agree(c.batch, d.batch) && (c.device == d.device || d.device == "")
}

// meanOf is a running mean; NaN while empty.
type meanOf struct{ sum, n float64 }

func (m *meanOf) add(v float64) { m.sum += v; m.n++ }
func (m *meanOf) value() float64 {
	if m.n == 0 {
		return math.NaN()
	}
	return m.sum / m.n
}

// sum is a total that is NaN until a value is added.
type sum struct {
	v    float64
	some bool
}

func (s *sum) add(v float64) { s.v += v; s.some = true }
func (s *sum) value() float64 {
	if !s.some {
		return math.NaN()
	}
	return s.v
}

// segment holds the measurements of a segment: the work of a run at one allocation, over all its visits to it.
type segment struct {
	config
	mixed     bool // aggregates rows at many allocations
	rows      int
	units     [numPositions]sum
	seconds   [numClocks]sum
	epochs    meanOf // of epoch_time
	cost      sum
	epochTime samples
	paces     [numPositions][numClocks]samples
	speed     samples  // throughput
	gpuUtil   []meanOf // of each GPU
	busy      uint64   // bit mask of the GPUs that were ever in use
	cpuUtil   meanOf
	memory    float64 // peak
	gpuMemory float64 // peak
	loss      float64 // last
	accuracy  float64 // last
}

func newStretch(c config) *segment {
	n := math.NaN()
	return &segment{config: c, memory: n, gpuMemory: n, loss: n, accuracy: n}
}

// begin marks the arrival of the job at this allocation, for the first time or again.
func (s *segment) begin() {
	s.epochTime.markWarmup()
	s.speed.markWarmup()
	for p := range s.paces {
		for c := range s.paces[p] {
			s.paces[p][c].markWarmup()
		}
	}
}

// gpuCount returns the number of GPUs used: the logged number, 0 on a CPU device, else the number of GPUs that were
// ever busy. NaN if no GPU was busy: that does not prove that none was allocated.
func (s *segment) gpuCount() float64 {
	switch {
	case !math.IsNaN(s.gpus):
		return s.gpus
	case strings.EqualFold(s.device, "cpu"):
		return 0
	case s.busy != 0:
		return float64(bits.OnesCount64(s.busy))
	}
	return math.NaN()
}

// gpuUse returns the mean utilization, in %, of the GPUs used: the mean over GPUs of their means over rows. If the
// log lists more GPUs than the job used (all of the machine), the busiest ones count.
func (s *segment) gpuUse() float64 {
	var each []float64
	for i := range s.gpuUtil {
		if v := s.gpuUtil[i].value(); !math.IsNaN(v) {
			each = append(each, v)
		}
	}
	if used := s.gpuCount(); used >= 1 && used < float64(len(each)) {
		slices.SortFunc(each, func(a, b float64) int { return cmp.Compare(b, a) })
		each = each[:int(used)]
	}
	var m meanOf
	for _, v := range each {
		m.add(v)
	}
	return m.value()
}

// measured reports whether unit times exist for the position.
func (s *segment) measured(position int) bool {
	for c := range s.paces[position] {
		if s.paces[position][c].n > 0 {
			return true
		}
	}
	return position == byEpoch && s.epochTime.n > 0
}

// unitTimes returns the best unit times of the log: epoch_time, else differences of time_so_far, else of timestamps.
// A segment that aggregates several allocations has none.
func (s *segment) unitTimes(position int) *samples {
	if s.mixed {
		return &samples{}
	}
	if position == byEpoch && s.epochTime.n > 0 {
		return &s.epochTime
	}
	for c := range s.paces[position] {
		if s.paces[position][c].n > 0 {
			return &s.paces[position][c]
		}
	}
	return &samples{}
}

// take records the values of a row other than time and position.
func (s *segment) take(r *trainlog.Row, o *anomalies) {
	s.rows++
	for i, v := range r.GPUUtil {
		switch {
		case math.IsNaN(v):
			continue
		case v > 100:
			o.add(r.Line, "gpu_utilization is %g %%: no data", v)
			continue
		}
		for len(s.gpuUtil) <= i {
			s.gpuUtil = append(s.gpuUtil, meanOf{})
		}
		s.gpuUtil[i].add(v)
		if v > 0 && i < 64 {
			s.busy |= 1 << i
		}
	}
	if v, ok := r.Value(trainlog.CPUPercent); ok && v <= 100 {
		s.cpuUtil.add(v)
	} else if ok {
		o.add(r.Line, "cpu_percent is %g %%: no data", v)
	}
	if v, ok := r.Value(trainlog.Throughput); ok {
		s.speed.add(v)
	}
	keepLargest(&s.memory, r, trainlog.MemoryUsed)
	keepLargest(&s.gpuMemory, r, trainlog.GPUMemoryUsed)
}

func keepLargest(to *float64, r *trainlog.Row, c trainlog.Column) {
	if v, ok := r.Value(c); ok && !(v <= *to) {
		*to = v
	}
}

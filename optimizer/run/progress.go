package run

import (
	"math"
	"slices"
	"time"

	"trainopt/monitor"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// minBlock is the shortest stretch that is timed as one observation: shorter units of work are
// grouped, because the clock of a poll is coarser than they are.
const minBlock = 400 * time.Millisecond

// longUnit is the length from which one unit of work, warm-up included, is measurement enough.
const longUnit = plan.LongUnit

// maxStated bounds the stated times that are kept.
const maxStated = 32

// maxBlocks bounds the memory of one segment; older blocks are merged pairwise away.
const maxBlocks = 400

// Segment is one stretch of the run at one allocation: from a launch, or from a live change, to the next.
type Segment struct {
	Allocation  resources.Allocation `json:"allocation"`
	Label       string               `json:"label"` // probe, run
	LaunchedAt  time.Duration        `json:"launched_at"`
	StartedAt   time.Duration        `json:"started_at"`   // when the launched job ran; 0 for a live change
	FirstRowAt  time.Duration        `json:"first_row_at"` // 0 until there is one
	LastRowAt   time.Duration        `json:"last_row_at"`
	RestartFrom time.Duration        `json:"restart_from"` // when the job before was asked to leave; 0 for a first start
	EndedAt     time.Duration        `json:"ended_at"`     // 0 while it runs
	Launch      bool                 `json:"launch"`       // false when it began with a live change
	LiveCut     bool                 `json:"live_cut"`     // on fewer CPUs than its processes were launched with
	Blocks      []float64            `json:"blocks"`       // seconds per unit, one value a timed block
	Stated      []float64            `json:"stated"`       // the log's own seconds of the first units, for a stretch too short to be timed
	Units       float64              `json:"units"`        // units of work between the first row and the last
	Timed       float64              `json:"timed_s"`      // seconds between them
	Counted     Counted              `json:"counted"`      // what the observer counted
	StartDone   float64              `json:"start_done"`   // progress when it began
	Rows        int                  `json:"rows"`
	PeakGiB     float64              `json:"peak_gib"` // 0 when not measured
	CPUSum      float64              `json:"cpu_sum"`  // sum of utilisation samples of the allocated CPUs, %
	CPUN        int                  `json:"cpu_n"`
	Foreign     float64              `json:"foreign_cpus"` // sum over the samples of the CPUs that other programs used
	GPUSum      float64              `json:"gpu_sum"`
	GPUN        int                  `json:"gpu_n"`
	StartUSD    float64              `json:"start_usd"`    // money of the run when it began
	Spent       float64              `json:"spent_usd"`    // in this stretch, once it has ended
	Lost        float64              `json:"lost_usd"`     // of Spent, for work that was not kept
	CheckpointS float64              `json:"checkpoint_s"` // how long the checkpoint that ended it took, 0 when none
}

// Counted is work that the observer inside the training counted, between the ends of two steps.
type Counted struct {
	Steps   float64 `json:"steps"`
	Samples float64 `json:"samples"` // 0 where the observer does not know them
	Seconds float64 `json:"seconds"`
}

func (c *Counted) add(o Counted) {
	c.Steps, c.Samples, c.Seconds = c.Steps+o.Steps, c.Samples+o.Samples, c.Seconds+o.Seconds
}

// Observation is the segment as the performance model wants it; ok is false when nothing was timed.
func (s *Segment) Observation(unitSamples float64) (perf.Observation, bool) {
	if len(s.Blocks) == 0 {
		return perf.Observation{}, false
	}
	peak := math.NaN()
	if s.PeakGiB > 0 {
		peak = s.PeakGiB
	}
	return perf.Observation{Allocation: s.Allocation, UnitSeconds: s.Blocks[s.warmUp():], UnitSamples: unitSamples, PeakMemoryGiB: peak, LiveCut: s.LiveCut}, true
}

const (
	settledBlocks = 3   // steady blocks after which slower ones at the beginning count as warm-up
	warmUpFactor  = 1.5 // by how much a block of the warm-up is slower than the median of those after it
)

// warmUp is the number of leading blocks that are not the steady pace: compilation, filled caches, first-epoch effects. It
// is 0 until settledBlocks steady ones follow.
func (s *Segment) warmUp() int {
	n := 0
	for k := 1; k+settledBlocks <= len(s.Blocks); k++ {
		if s.Blocks[k-1] > warmUpFactor*median(s.Blocks[k:]) {
			n = k
		}
	}
	return n
}

// settled reports whether the pace can be projected: enough steady blocks, the newest no faster than the rest by
// warmUpFactor.
func (s *Segment) settled() bool {
	steady := s.Blocks[s.warmUp():]
	if len(steady) < settledBlocks {
		return false
	}
	newest := median(steady[len(steady)-settledBlocks:])
	return median(steady) <= warmUpFactor*newest
}

// Mean is the mean of utilisation samples; NaN when there are none.
func mean(sum float64, n int) float64 {
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// Progress turns log rows into units of work done, and times them. It is a pure step machine: time
// comes in with each call, as the run's elapsed time.
type Progress struct {
	Unit        string  `json:"unit"`         // "epoch" or "step"; empty until known
	Done        float64 `json:"done"`         // highest unit finished
	Total       float64 `json:"total"`        // 0 when the job does not say
	UnitSamples float64 `json:"unit_samples"` // training samples in a unit, 0 when unknown
	UnitSteps   float64 `json:"unit_steps"`   // steps of the observer in a unit, 0 when unknown
	Rows        int     `json:"rows"`
	// Backwards counts rows whose progress was below what had been reached: a restart from scratch,
	// a second writer, a repeated header.
	Backwards int `json:"backwards"`
	// Rewound is set when the first row after a restart shows that the work was not continued.
	Rewound  bool       `json:"rewound"`
	Segments []*Segment `json:"segments"`

	// Hints are totals by unit ("epoch", "step") from outside the log: the command line, the script, an earlier run. The
	// log's own total counts before them.
	Hints map[string]Hint `json:"hints"`

	markAt    time.Duration // end of the last timed block
	markDone  float64
	haveMark  bool
	reachedAt time.Duration // Done was reached
	sawResume bool          // a row has arrived since the last launch

	anyPosition bool // the launch continues from a checkpoint of unknown position
}

// Hint is a total that the log does not give.
type Hint struct {
	Units  float64 `json:"units"`
	Source string  `json:"source"` // in words: "--max_iters=300 on the command line"
}

// Suggest takes a total for a unit, unless one is known already: the better source comes first.
func (p *Progress) Suggest(unit string, h Hint) {
	if h.Units <= 0 || p.Hints[unit].Units > 0 {
		return
	}
	if p.Hints == nil {
		p.Hints = map[string]Hint{}
	}
	p.Hints[unit] = h
}

// Begin opens a segment. launch is true for a new process, false for a live change of the running one.
func (p *Progress) Begin(at time.Duration, a resources.Allocation, label string, launch bool) *Segment {
	p.End(at)
	s := &Segment{Allocation: a, Label: label, LaunchedAt: at, Launch: launch, LiveCut: !launch && a.CPUs < p.launchedCPUs(), StartDone: p.Done}
	p.Segments = append(p.Segments, s)
	p.haveMark = false
	if launch {
		p.sawResume, p.anyPosition = false, false
	}
	return s
}

// launchedCPUs is the number of CPUs at the last launch, 0 before the first.
func (p *Progress) launchedCPUs() int {
	for _, s := range slices.Backward(p.Segments) {
		if s.Launch {
			return s.Allocation.CPUs
		}
	}
	return 0
}

// End closes the open segment, if any.
func (p *Progress) End(at time.Duration) {
	if s := p.Current(); s != nil && s.EndedAt == 0 {
		s.EndedAt = at
		if n := len(s.Stated) - 1; len(s.Blocks) == 0 && n >= settledBlocks { // the first one warms up
			s.addBlock(median(s.Stated[1:]))
			if s.Timed == 0 {
				s.Units, s.Timed = float64(n), s.Blocks[0]*float64(n)
			}
		}
	}
}

// jobEnd is the run's elapsed time at which the current job ended, given how long it ran, and the time up to which it is
// charged: starting its supervisor takes time and no money. False when no job was launched or that is not known.
func (p *Progress) jobEnd(ran time.Duration) (end, charged time.Duration, ok bool) {
	for i := len(p.Segments) - 1; i >= 0 && ran > 0; i-- {
		if s := p.Segments[i]; s.Launch {
			return max(s.LaunchedAt, s.StartedAt) + ran, s.LaunchedAt + ran, true
		}
	}
	return 0, 0, false
}

// Current is the latest segment; nil before the first.
func (p *Progress) Current() *Segment {
	if len(p.Segments) == 0 {
		return nil
	}
	return p.Segments[len(p.Segments)-1]
}

// ResumeFrom makes the position of a checkpoint the progress from which a restart is expected to continue: what was done
// after the checkpoint is done again. NaN means that the position is unknown: any position above 0 continues.
func (p *Progress) ResumeFrom(position float64) {
	p.haveMark = false
	if position < p.Done {
		p.Done = position
	}
	p.anyPosition = math.IsNaN(position)
}

// Restarted forgets the progress: the job begins from nothing (a probe of a job that cannot be resumed).
func (p *Progress) Restarted() { p.Done, p.haveMark = 0, false }

// Add takes one row that arrived at the given elapsed time.
func (p *Progress) Add(row *monitor.Row, at time.Duration) {
	p.Rows++
	seg := p.Current()
	if seg == nil {
		return
	}
	seg.Rows++
	p.learnUnit(row)
	done, ok := p.position(row)
	if !ok {
		return
	}
	first := !p.sawResume
	p.sawResume = true
	seg.LastRowAt = at
	if seg.FirstRowAt == 0 {
		seg.FirstRowAt = at
	}
	if p.anyPosition && first && done < p.Done { // what was done after the checkpoint is done again
		p.Rewound, p.Done = done <= 1, done
		p.mark(at, done)
		return
	}
	if done < p.Done || (done == p.Done && !first) {
		if done < p.Done {
			p.Backwards++
		}
		if first && done < p.Done-1 {
			p.Rewound, p.Done = true, done
		}
		if first {
			p.mark(at, done)
		}
		return
	}
	if !p.haveMark {
		// The first row after a launch holds start-up and warm-up: it sets the mark and is not timed, unless a
		// unit is so long that waiting for a second one costs more than its warm-up; then the script's own
		// time of a unit begun from nothing counts.
		if sec, ok := row.Value(monitor.EpochTime); ok && p.Unit == "epoch" && p.Done == 0 && done == 1 {
			if seg.Stated = append(seg.Stated, sec); sec >= longUnit.Seconds() {
				seg.addBlock(sec)
				seg.Units, seg.Timed = 1, sec
			}
		}
		p.Done = done
		p.mark(at, done)
		return
	}
	if sec, ok := row.Value(monitor.EpochTime); ok && sec > 0 && p.Unit == "epoch" && done == p.Done+1 && len(seg.Stated) < maxStated {
		seg.Stated = append(seg.Stated, sec)
	}
	seg.Units, seg.Timed = seg.Units+done-p.Done, seg.Timed+(at-p.reachedAt).Seconds()
	p.Done, p.reachedAt = done, at
	p.outgrow()
	switch {
	case seg.Timed == 0: // read together with the first row: when that was reached is not known
		seg.Units = 0
		p.mark(at, done)
	case p.blockEnds(at, done):
		seg.addBlock((at - p.markAt).Seconds() / (done - p.markDone))
		p.mark(at, done)
	}
}

// partBlock is the length from which a part of an epoch is timed as one observation. Shorter ones would miss what comes once in
// an epoch: validation, a checkpoint, the restart of the loader.
const partBlock = 10 * time.Second

// blockEnds reports whether what was done since the mark is one observation.
func (p *Progress) blockEnds(at time.Duration, done float64) bool {
	took := at - p.markAt
	switch {
	case done <= p.markDone || took < minBlock:
		return false
	case p.Unit == "epoch":
		return math.Floor(done) > math.Floor(p.markDone) || took >= partBlock
	}
	return true
}

func (p *Progress) mark(at time.Duration, done float64) {
	p.markAt, p.markDone, p.haveMark, p.reachedAt = at, done, true, at
}

func (s *Segment) addBlock(secondsPerUnit float64) {
	s.Blocks = append(s.Blocks, secondsPerUnit)
	if len(s.Blocks) > maxBlocks {
		half := make([]float64, 0, maxBlocks) // a new slice: observations share the one before
		for len(s.Blocks) > 1 {
			half = append(half, (s.Blocks[0]+s.Blocks[1])/2)
			s.Blocks = s.Blocks[2:]
		}
		s.Blocks = append(half, s.Blocks...) // the newest stays as it is
	}
}

// learnUnit fixes what is counted: epochs when the log has them, else steps; a log that only gives a total
// number of steps counts steps.
func (p *Progress) learnUnit(row *monitor.Row) {
	_, hasEpoch := row.Value(monitor.Epoch)
	totalEpochs, hasTotalEpochs := row.Value(monitor.TotalEpochs)
	_, hasStep := row.Value(monitor.Step)
	totalSteps, hasTotalSteps := row.Value(monitor.TotalSteps)
	if p.Unit == "step" && p.Total == 0 && hasEpoch { // a log that names its epochs only from the end of the first
		p.forgetSteps()
	}
	if p.Unit == "epoch" && p.Total == 0 && p.Hints["epoch"].Units == 0 && !hasEpoch && hasStep && hasTotalSteps { // epochs without a number of them: steps with one say more
		p.forgetSteps()
	}
	if p.Unit == "" {
		hinted := hasStep && !hasTotalEpochs && p.Hints["epoch"].Units == 0 && p.Hints["step"].Units > 0
		switch {
		case hasEpoch && !hinted && (hasTotalEpochs || !hasTotalSteps):
			p.Unit = "epoch"
		case hasStep:
			p.Unit = "step"
		}
	}
	switch {
	case p.Unit == "epoch" && hasTotalEpochs && totalEpochs > 0 && totalEpochs < p.Done: // of a second, shorter training
	case p.Unit == "epoch" && hasTotalEpochs && totalEpochs > 0:
		p.Total = totalEpochs
	case p.Unit == "step" && hasTotalSteps && totalSteps > 0:
		p.Total = totalSteps
	case p.Total == 0:
		p.Total = p.Hints[p.Unit].Units
	}
	if p.Unit == "epoch" {
		if n, ok := row.Value(monitor.DataCount); ok && n > 0 {
			p.UnitSamples = n
		} else if rate, ok := row.Value(monitor.Throughput); ok && p.UnitSamples == 0 {
			if sec, ok := row.Value(monitor.EpochTime); ok && sec > 0 && rate > 0 {
				p.UnitSamples = rate * sec
			}
		}
	} else if n, ok := row.Value(monitor.BatchSize); ok && n > 0 && p.Unit == "step" {
		p.UnitSamples = n
	}
}

// changeSource starts counting by a better source of progress than the job's output. A total that the output gave stays a hint.
func (p *Progress) changeSource() {
	p.Suggest(p.Unit, Hint{p.Total, "the job's output"})
	p.Total, p.Backwards, p.sawResume = 0, 0, false
	p.forgetSteps()
}

// outgrow drops a total that the log does not give and that the training has passed. One unit more is a loop whose last
// index counts: "while iter <= max_iters".
func (p *Progress) outgrow() {
	hint := p.Hints[p.Unit].Units
	if hint == 0 || p.Total != hint || p.Done <= hint {
		return
	}
	delete(p.Hints, p.Unit)
	if p.Total = 0; p.Done <= hint+1 {
		p.Total = p.Done
	}
}

// forgetSteps starts counting in another unit: what was timed in the one before says nothing of it.
func (p *Progress) forgetSteps() {
	p.Unit, p.Done, p.UnitSamples, p.UnitSteps, p.haveMark = "", 0, 0, 0, false
	for _, s := range p.Segments {
		s.Blocks, s.Units, s.Timed, s.StartDone = nil, 0, 0, 0
	}
}

func (p *Progress) position(row *monitor.Row) (float64, bool) {
	column := monitor.Epoch
	switch p.Unit {
	case "":
		return 0, false
	case "step":
		column = monitor.Step
	}
	return row.Value(column)
}

// Finished reports whether all announced work is done.
func (p *Progress) Finished() bool { return p.Total > 0 && p.Done >= p.Total }

// Remaining is the units of work left; ok is false when the total is unknown.
func (p *Progress) Remaining() (float64, bool) {
	if p.Total <= 0 {
		return 0, false
	}
	return math.Max(0, p.Total-p.Done), true
}

// Observations of all segments that timed something, oldest first. Segments of the same allocation stay
// apart: each carries its own drift.
func (p *Progress) Observations() []perf.Observation {
	var out []perf.Observation
	for _, s := range p.Segments {
		if o, ok := s.Observation(p.UnitSamples); ok {
			out = append(out, o)
		}
	}
	return out
}

// RestartSeconds are the measured costs of each restart: from asking the job to leave, or from its last row where it
// finished its unit first, until the first row after it, less the work that this row holds (the rest of the unit that
// was interrupted). Work that the job lost and did again counts as cost.
func (p *Progress) RestartSeconds() []float64 {
	var out []float64
	for i, s := range p.Segments {
		if s.RestartFrom == 0 || s.FirstRowAt == 0 || i == 0 {
			continue
		}
		before := p.Segments[i-1]
		if len(before.Blocks) == 0 || len(s.Blocks) == 0 || before.LastRowAt == 0 {
			continue
		}
		from := max(s.RestartFrom, before.LastRowAt)
		part := math.Min(1, (from-before.LastRowAt).Seconds()/median(before.Blocks))
		out = append(out, math.Max(0, (s.FirstRowAt-from).Seconds()-(1-part)*median(s.Blocks)))
	}
	return out
}

// StartupSeconds are the measured times from each launch to its first row, less one unit of work at that
// pace: process start, imports, data loading, warm-up.
func (p *Progress) StartupSeconds() []float64 {
	var out []float64
	for _, s := range p.Segments {
		if s.Launch && s.RestartFrom == 0 && s.FirstRowAt > 0 && len(s.Blocks) > 0 {
			out = append(out, math.Max(0, (s.FirstRowAt-s.LaunchedAt).Seconds()-median(s.Blocks)))
		}
	}
	return out
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := append([]float64(nil), v...)
	for i := 1; i < len(s); i++ {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}

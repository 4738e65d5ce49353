package run

import (
	"cmp"
	"math"
	"slices"
	"time"

	"trainopt/internal/stat"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// minBlock is the shortest time that forms one observation: shorter units of work are grouped, because the resolution
// of polling is coarser.
const minBlock = 400 * time.Millisecond

// longBlock is the time after which a block of steps ends although an earlier one contains more work.
const longBlock = 10 * minBlock

// longUnit is the length at and above which one unit of work, warm-up included, suffices as a measurement.
const longUnit = plan.LongUnit

// maxStated bounds the number of stated times that are kept.
const maxStated = 32

// maxBlocks bounds the number of blocks of a segment; beyond it, older blocks are averaged pairwise.
const maxBlocks = 400

// Segment is a stretch of the run at one allocation: from a launch or a live change to the next one. Times are
// elapsed times of the run.
type Segment struct {
	Allocation  resources.Allocation `json:"allocation"`
	Label       string               `json:"label"` // probe, run
	LaunchedAt  time.Duration        `json:"launched_at"`
	StartedAt   time.Duration        `json:"started_at"`           // start of the launched job; 0 for a live change
	FirstRowAt  time.Duration        `json:"first_row_at"`         // 0 until the first row
	FirstDone   float64              `json:"first_done,omitempty"` // progress at the first row
	LastRowAt   time.Duration        `json:"last_row_at"`
	RestartFrom time.Duration        `json:"restart_from"`          // request to the previous job to exit; 0 for a first launch
	EndedAt     time.Duration        `json:"ended_at"`              // 0 while the segment is open
	Launch      bool                 `json:"launch"`                // false if it began with a live change
	LiveCut     bool                 `json:"live_cut"`              // on fewer CPUs than its processes were launched with
	Blocks      []float64            `json:"blocks"`                // seconds per unit, one value per timed block
	Stated      []float64            `json:"stated"`                // seconds of the first units as stated by the log, for a segment too short to be timed
	Left        []float64            `json:"left,omitempty"`        // blocks on a kind of node or at a power limit that the run has left, or of a preparation: they count for the overheads only
	BlockUnits  float64              `json:"block_units,omitempty"` // largest number of units of a timed block
	SlowFrom    float64              `json:"slow_from,omitempty"`   // progress at the beginning of the slowdown in progress; 0: none
	Units       float64              `json:"units"`                 // units of work between the first and the last row
	Timed       float64              `json:"timed_s"`               // seconds between them
	Counted     countedSteps         `json:"counted"`               // work counted by the observer
	StartDone   float64              `json:"start_done"`            // progress at the beginning
	Reached     float64              `json:"reached,omitempty"`     // of its last row, which may repeat earlier work
	Rows        int                  `json:"rows"`
	PeakGiB     float64              `json:"peak_gib"`               // 0 if not measured
	ResidentGiB float64              `json:"resident_gib,omitempty"` // largest resident set of a process of a job with too few samples to show its peak; 0: enough
	GrantedCPUs float64              `json:"granted_cpus,omitempty"` // that the job had by a quota which is not a whole number; 0: those of Allocation
	CPUSum      float64              `json:"cpu_sum"`                // sum of utilization samples of these CPUs, %
	CPUN        int                  `json:"cpu_n"`
	Foreign     float64              `json:"foreign_cpus"`         // sum over the samples of the CPUs used by other programs
	Taken       float64              `json:"taken_cpus,omitempty"` // sum over the samples of the allocated CPUs that other programs used
	GPUSum      float64              `json:"gpu_sum"`
	GPUN        int                  `json:"gpu_n"`
	StartUSD    float64              `json:"start_usd"`           // cost of the run at the beginning
	Spent       float64              `json:"spent_usd"`           // cost of the segment, once it has ended
	Lost        float64              `json:"lost_usd"`            // the part of Spent for work that was not kept
	CheckpointS float64              `json:"checkpoint_s"`        // seconds of the checkpoint that ended it, 0 if none
	OnDemand    bool                 `json:"on_demand,omitempty"` // on the machine on demand of a run that may use spot capacity
	PowerW      int                  `json:"power_w,omitempty"`   // power limit of the GPUs that was measured; 0: not changed
	Trial       bool                 `json:"trial,omitempty"`     // of power limits: blocks go to Left
	Used        usage                `json:"used,omitzero"`
	Partner     string               `json:"partner,omitempty"` // that shared the devices; empty: none
}

// cpus returns the number of CPUs that the job had.
func (s *Segment) cpus() float64 { return cmp.Or(s.GrantedCPUs, float64(s.Allocation.CPUs)) }

// foreign adds the CPUs that other programs used in a sample in which the job used own of its allocation: those beyond the
// other CPUs of the machine were taken from the allocation.
func (s *Segment) foreign(cpus, machine, own float64) {
	cpus, held := math.Max(0, cpus), s.cpus()
	s.Foreign += cpus
	s.Taken += math.Max(0, math.Min(cpus-(machine-held), held-own))
}

// taken returns the mean number of allocated CPUs that other programs used, to hundredths.
func (s *Segment) taken() float64 { return math.Round(100*s.Taken/math.Max(1, float64(s.CPUN))) / 100 }

// countedSteps is work counted by the observer in the training, between the ends of two steps.
type countedSteps struct {
	Steps   float64 `json:"steps"`
	Samples float64 `json:"samples"` // 0 if unknown to the observer
	Seconds float64 `json:"seconds"`
}

func (c *countedSteps) add(o countedSteps) {
	c.Steps, c.Samples, c.Seconds = c.Steps+o.Steps, c.Samples+o.Samples, c.Seconds+o.Seconds
}

// Observation returns the segment in the form required by the performance model; ok is false if nothing was timed.
func (s *Segment) Observation(unitSamples float64) (perf.Observation, bool) {
	if len(s.Blocks) == 0 {
		return perf.Observation{}, false
	}
	peak := math.NaN()
	if s.PeakGiB > 0 {
		peak = s.PeakGiB
	}
	return perf.Observation{Allocation: s.Allocation, UnitSeconds: s.Blocks[s.warmUp():], UnitSamples: unitSamples, PeakMemoryGiB: peak, LiveCut: s.LiveCut, Used: s.Used.known()}, true
}

const (
	settledBlocks = 3   // number of steady blocks after which slower ones at the beginning count as warm-up
	warmUpFactor  = 1.5 // ratio of a warm-up block to the median of the later blocks
)

// warmUp returns the number of leading blocks that are all slower than the steady pace: compilation, caches being filled,
// first-epoch effects. A slow block after a fast one is a pause or an uneven pace. It is 0 until settledBlocks blocks follow.
func (s *Segment) warmUp() (n int) {
	least := math.Inf(1)
	for k, b := range s.Blocks[:max(0, len(s.Blocks)-settledBlocks)] {
		if least = min(least, b); least <= warmUpFactor*slices.Min(s.Blocks[k+1:]) {
			break
		}
		if least > warmUpFactor*stat.Median(s.Blocks[k+1:]) {
			n = k + 1
		}
	}
	return n
}

// settled reports whether the pace can be projected: enough steady blocks, of which the first is not slower, nor the newest
// faster, than the median by more than warmUpFactor.
func (s *Segment) settled() bool {
	steady := s.Blocks[s.warmUp():]
	if len(steady) < settledBlocks {
		return false
	}
	middle, newest := stat.Median(steady), stat.Median(steady[len(steady)-settledBlocks:])
	return steady[0] <= warmUpFactor*middle && middle <= warmUpFactor*newest
}

// Progress derives from log rows the units of work done and their times. It is a pure state machine: time is passed
// with each call, as the run's elapsed time.
type Progress struct {
	Unit        string  `json:"unit"`         // "epoch" or "step"; empty until known
	Done        float64 `json:"done"`         // highest unit finished
	Total       float64 `json:"total"`        // 0 if unknown
	UnitSamples float64 `json:"unit_samples"` // training samples per unit, 0 if unknown
	UnitSteps   float64 `json:"unit_steps"`   // steps, as counted by the observer, per unit; 0 if unknown
	// From is the position from which the training continued by itself when the run began: earlier work is not of this run.
	From  float64    `json:"from,omitempty"`
	begun float64    // the first position of the run, until the next one shows their distance; 0: none
	Named namedEpoch `json:"named,omitzero"` // by the last row
	Rows  int        `json:"rows"`
	// Backwards counts rows with less progress than already reached: a restart from scratch, a second writer, a
	// repeated header.
	Backwards int `json:"backwards"`
	// Rewound is set when the first row after a restart shows that the job did not continue its work.
	Rewound  bool       `json:"rewound"`
	Segments []*Segment `json:"segments"`

	// Hints are totals by unit ("epoch", "step") from sources other than the log: the command line, the script, an
	// earlier run. A total in the log has precedence.
	Hints  map[string]hint `json:"hints"`
	Hinted bool            `json:"hinted,omitempty"` // the unit was chosen by a hint

	// Repeats reports that the job makes several trainings, such as the folds of a cross-validation. Earlier is the work of
	// complete ones that the present one follows, and Each the total of the present one. Their number is unknown, and with
	// it Total.
	Repeats   bool          `json:"repeats,omitempty"`
	Earlier   float64       `json:"earlier,omitempty"`
	Each      float64       `json:"each,omitempty"`
	againAt   time.Duration // the first row that may be of a further training; 0: none
	againFrom float64       // what Earlier then is
	beside    beside

	markAt    time.Duration // end of the last timed block
	markDone  float64
	haveMark  bool
	blockTook time.Duration // of the last timed block, which ended at the mark
	blockOf   float64       // its units; 0: no block ended at the mark
	openUntil time.Duration // until when work is added to the last block, which has less than the others
	freshMark bool          // the mark is that of the first row read by this agent, or since the launch
	reachedAt time.Duration // time at which Done was reached
	every     float64       // units from each row to the next; 0: unknown, -1: they differ
	regular   bool          // two of these distances or more were equal
	together  bool          // the last row was read together with the one before it
	sawResume bool          // a row has arrived since the last launch
	mentioned bool          // all positions so far were without a result or a total
	held      float64       // such a position, the first after a launch, from which the training did not continue

	anyPosition bool   // the launch continues from a checkpoint of unknown position
	resumed     origin // Done at the launch
}

// hint is a total from a source other than the log.
type hint struct {
	Units  float64 `json:"units"`
	Source string  `json:"source"`          // description: "--max_iters=300 on the command line"
	Whole  bool    `json:"whole,omitempty"` // of the job, even where that makes several trainings
}

// Suggest sets the hint of a unit, unless one is known already: callers suggest the better source first.
func (p *Progress) Suggest(unit string, h hint) {
	if h.Units <= 0 || p.Hints[unit].Units > 0 {
		return
	}
	if p.Hints == nil {
		p.Hints = map[string]hint{}
	}
	p.Hints[unit] = h
}

// Begin closes the open segment and opens a new one. launch is true for a new process, false for a live change of the
// running one.
func (p *Progress) Begin(at time.Duration, a resources.Allocation, label string, launch bool) *Segment {
	p.End(at)
	s := &Segment{Allocation: a, Label: label, LaunchedAt: at, Launch: launch, LiveCut: !launch && a.CPUs < p.launched().Allocation.CPUs, StartDone: p.Done}
	p.Segments = append(p.Segments, s)
	p.haveMark = false
	if launch {
		p.sawResume, p.anyPosition, p.held = false, false, math.Inf(1)
		p.Earlier, p.Each, p.againAt, p.beside = 0, 0, 0, beside{}
	}
	return s
}

// launched returns the segment of the last launch; an empty one before the first.
func (p *Progress) launched() *Segment {
	for _, s := range slices.Backward(p.Segments) {
		if s.Launch {
			return s
		}
	}
	return &Segment{}
}

// End closes the open segment, if any. A segment too short to be timed receives the median of its stated times as its
// only block. A last block that is open because it has much less work than the others is added to the one before.
func (p *Progress) End(at time.Duration) {
	if s := p.Current(); s != nil && s.EndedAt == 0 {
		s.EndedAt = at
		if n := len(s.Blocks); n > 1 && p.blockOf > 0 && p.blockOf < s.BlockUnits/2 && at < p.openUntil {
			took := s.Blocks[n-2]*s.BlockUnits + p.blockTook.Seconds()
			s.Blocks = append(slices.Clone(s.Blocks[:n-2]), took/(s.BlockUnits+p.blockOf))
		}
		if n := len(s.Stated) - 1; len(s.timed()) == 0 && n >= settledBlocks { // the first unit contains the warm-up
			s.addBlock(stat.Median(s.Stated[1:]))
			if s.Timed == 0 {
				s.Units, s.Timed = float64(n), stat.Median(s.Stated[1:])*float64(n)
			}
		}
	}
}

// jobEnd returns the elapsed time at which the current job ended, given its run time; false if no job was launched or ran
// is unknown.
func (p *Progress) jobEnd(e launch.Exit) (time.Duration, bool) {
	s := p.launched()
	return s.began() + e.Ran, s.Launch && e.Ran > 0
}

// paidUntil returns the time until which the current job is charged by the engine that held its place; false without one.
func (p *Progress) paidUntil(e launch.Exit) (time.Duration, bool) {
	s := p.launched()
	return s.LaunchedAt + e.Held, s.Launch && e.Held > 0
}

// Current returns the latest segment; nil before the first.
func (p *Progress) Current() *Segment {
	if len(p.Segments) == 0 {
		return nil
	}
	return p.Segments[len(p.Segments)-1]
}

// began returns the elapsed time from which the segment is charged: starting the supervisor of a job costs nothing.
func (s *Segment) began() time.Duration { return max(s.LaunchedAt, s.StartedAt) }

// launches returns the number of launches of the run so far.
func (p *Progress) launches() int {
	return stat.Count(p.Segments, func(s *Segment) bool { return s.Launch })
}

// launchedAt returns the elapsed time at which the current process was started.
func (p *Progress) launchedAt() time.Duration { return p.launched().LaunchedAt }

// reached returns the position of the last new row since the last launch; 0 without one. A log that repeats its rows
// exactly has no new ones.
func (p *Progress) reached() float64 {
	for _, s := range slices.Backward(p.Segments) {
		if s.Launch || s.Reached > 0 {
			return s.Reached
		}
	}
	return 0
}

// unitsIn returns the units of work done in a time at the present pace; 0 if that is unknown.
func (p *Progress) unitsIn(d time.Duration) float64 {
	s := p.Current()
	if s == nil || s.Timed == 0 {
		return 0
	}
	return s.Units / s.Timed * d.Seconds()
}

// ResumeFrom sets the progress to the position of a checkpoint, from which a restart is expected to continue: later
// work is done again. NaN means that the position is unknown; the restart may then continue anywhere above 0.
func (p *Progress) ResumeFrom(position float64) {
	p.haveMark, p.Rewound = false, false
	if position < p.Done {
		p.lose(spentAbove(position))
		p.Done, p.Named = position, namedEpoch{}
	}
	p.anyPosition, p.resumed = math.IsNaN(position), origin{Unit: p.Unit, Position: p.Done}
}

// lose marks a part of the cost of each segment of earlier launches as lost, because the present one repeats its work.
func (p *Progress) lose(part func(*Segment) float64) {
	for _, s := range p.Segments {
		if s.LaunchedAt < p.launchedAt() {
			s.Lost = math.Max(s.Lost, part(s))
		}
	}
}

// spentAbove returns the cost of an ended segment since it reached a position, if it went beyond: all of it for a position
// before its first row.
func spentAbove(position float64) func(*Segment) float64 {
	return func(s *Segment) float64 {
		switch {
		case position >= s.Reached:
			return 0
		case position < s.FirstDone:
			return s.Spent
		}
		share := (position - s.FirstDone) / (s.Reached - s.FirstDone)
		return spentSince(s.FirstRowAt + time.Duration(share*float64(s.LastRowAt-s.FirstRowAt)))(s)
	}
}

// spentSince returns the cost of an ended segment after a time.
func spentSince(at time.Duration) func(*Segment) float64 {
	return func(s *Segment) float64 {
		if at := max(at, s.began()); s.EndedAt-at > time.Millisecond { // the record rounds times
			return s.Spent * float64(s.EndedAt-at) / float64(s.EndedAt-s.began())
		}
		return 0
	}
}

// Restarted resets the progress: the job starts from scratch (after a probe of a job that cannot be resumed).
func (p *Progress) Restarted() {
	p.Done, p.haveMark, p.Earlier, p.Each, p.againAt, p.resumed, p.Named = 0, false, 0, 0, 0, origin{}, namedEpoch{}
}

// evidence are the columns of which a row of a training contains one. A position without any, such as the printed setting
// "decay at epoch 60", is replaced by the first one with it.
var evidence = []trainlog.Column{trainlog.TotalEpochs, trainlog.TotalSteps, trainlog.TrainLoss, trainlog.TestLoss, trainlog.TrainAccuracy, trainlog.TestAccuracy}

// Add processes one row that arrived at the given elapsed time. It advances Done, and closes a timed block when
// enough work is done since the last mark. Rows at or below the reached progress are not timed.
func (p *Progress) Add(row *trainlog.Row, at time.Duration) {
	p.Rows++
	seg := p.Current()
	if seg == nil {
		return
	}
	seg.Rows++
	told := slices.ContainsFunc(evidence, func(c trainlog.Column) bool { _, ok := row.Value(c); return ok })
	if at, ok := p.position(row); ok && at < p.Done && told && p.mentioned && seg.Units == 0 {
		p.changeSource()
	}
	p.mentioned = !told && (p.mentioned || p.Unit == "")
	each := max(p.Total, p.Each)
	p.learnUnit(row)
	done, ok := p.completed(row)
	_, announced := row.Value(trainlog.TotalEpochs)
	if !ok { // "Epoch 1/5"
		done = 0
	}
	counts := (ok || announced && p.Unit == "epoch") && !p.beside.found
	if p.Total > preparation*each { // determines progress and total alone
		if counts && each > 0 && p.againAt == 0 && p.Earlier == 0 && p.follows(done, each) {
			p.leavePreparation()
		}
		each = 0
	}
	if counts && p.beginsAgain(done, at, each) {
		p.Earlier, p.Done, p.Each, p.Total, p.haveMark = p.againFrom, p.againFrom, max(p.Total, p.Each), 0, false
		p.forgetLengths()
	}
	if !ok {
		return
	}
	done += p.Earlier
	first := !p.sawResume
	p.sawResume = true
	seg.LastRowAt, seg.Reached = at, done
	if seg.FirstRowAt == 0 {
		seg.FirstRowAt, seg.FirstDone = at, done
		if p.Done == 0 && p.launches() == 1 {
			p.begun = done
		}
	}
	if held := p.held; first && !told && done < p.Done-1 { // a setting, or the first line of a training that begins again
		if p.held = done; !(done > held && (done <= held+1 || p.Unit == "step")) {
			p.sawResume = false
			return
		}
	}
	if first && done <= p.From { // a launch that repeats earlier work
		p.From = 0
	}
	if p.anyPosition && first && done <= p.Done { // work after the checkpoint is done again
		p.lose(spentAbove(math.Ceil(done) - 1)) // the row is of the end of a unit
	}
	if p.anyPosition && first && done < p.Done {
		p.Rewound, p.Done = done <= 1, done
		p.mark(at, done)
		return
	}
	if told && p.Unit == "epoch" && p.beside.add(done, p.Done) {
		p.Repeats, p.Each, p.Total = true, max(p.Total, p.Each), 0
		p.forgetLengths()
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
	step := done - p.Done
	if p.begun > 0 && p.haveMark && step > 0 {
		if from := p.begun - step; from >= 1 { // less is a part of the first unit
			p.From = from
		}
		p.begun = 0
	}
	switch {
	case !p.haveMark || step == 0:
	case p.every == 0:
		p.every = step
	case p.every != step:
		p.every = -1
	default:
		p.regular = true
	}
	p.together = p.haveMark && at-p.reachedAt < sameRead
	if !p.haveMark {
		// The first row after a launch contains start-up and warm-up: it sets the mark and is not timed, unless a
		// unit is so long that waiting for a second one costs more than its warm-up; then the script's own time for
		// the first unit counts, if no earlier process can have done a part of it.
		if sec, ok := row.Value(trainlog.EpochTime); ok && p.Unit == "epoch" && done == p.Done+1 && p.wholeUnit(seg, sec) {
			if seg.Stated = append(seg.Stated, sec); sec >= longUnit.Seconds() {
				seg.addBlock(sec)
				seg.Units, seg.Timed = 1, sec
			}
		}
		p.Done = done
		p.mark(at, done)
		p.freshMark = true
		return
	}
	if p.freshMark && at-p.markAt < sameRead { // written while no agent read the log: the times of these rows are unknown
		p.Done = done
		p.dropExceededTotal(row)
		p.mark(at, done)
		return
	}
	p.freshMark = false
	if sec, ok := row.Value(trainlog.EpochTime); ok && sec > 0 && p.Unit == "epoch" && done == p.Done+1 && len(seg.Stated) < maxStated {
		seg.Stated = append(seg.Stated, sec)
	}
	seg.Units, seg.Timed = seg.Units+done-p.Done, seg.Timed+(at-p.reachedAt).Seconds()
	p.Done, p.reachedAt = done, at
	p.dropExceededTotal(row)
	switch {
	case seg.Timed == 0: // read together with the first row: the time of that one is unknown
		seg.Units = 0
		p.mark(at, done)
	case p.blockOf > 0 && (at == p.markAt || at < p.openUntil && p.blockOf < seg.BlockUnits): // of the last block: it was read together with the row that ended it, or is open
		together := at == p.markAt
		p.blockTook, p.blockOf = p.blockTook+at-p.markAt, p.blockOf+done-p.markDone
		p.markAt, p.markDone = at, done
		seg.replaceLast(p.blockTook.Seconds() / p.blockOf)
		if together {
			seg.BlockUnits = max(seg.BlockUnits, p.blockOf)
		}
	case p.blockEnds(at, done):
		took, of := at-p.markAt, done-p.markDone
		seg.addBlock(took.Seconds() / of)
		seg.BlockUnits = max(seg.BlockUnits, of)
		p.mark(at, done)
		p.blockTook, p.blockOf, p.openUntil = took, of, 0
		if of < seg.BlockUnits/2 { // a pause, such as a validation, the end of an epoch, or a slower pace
			p.openUntil = at + p.longest()
		}
	}
}

// endNormally counts the last unit of a job that ended normally at a time in it, after a line such as "Epoch 4/4", or its last
// units if it prints each n-th one and trained until then, and returns the rest as Remaining does.
func (p *Progress) endNormally(at time.Duration) (float64, bool) {
	if last := max(p.Total, p.Earlier+p.Each); last-p.Done <= 1 || last-p.Done <= p.every && p.regular && p.trainedOn(last-p.Done, at) {
		p.Done = max(p.Done, last)
	}
	return p.Remaining()
}

// trainedOn reports whether a job that ended at a time after its last line has made the given units, up to a distance between
// lines: it had half of the time for them. If that is short or unknown, a line must not have been due at their end; it was not
// where the lines begin at 0.
func (p *Progress) trainedOn(units float64, at time.Duration) bool {
	seg, first := p.Current(), p.Segments[0]
	if need := units * seg.Timed / seg.Units; need >= 1 && !p.together {
		return (at - seg.LastRowAt).Seconds() >= need/2
	}
	return units < p.every || first.FirstRowAt > 0 && first.FirstDone == 0
}

// wholeUnit reports whether the first unit of a segment, of the given seconds, was done in it as a whole: it is the
// first of the training, or the earlier process had less than a twentieth of that time for a part of it.
func (p *Progress) wholeUnit(seg *Segment, sec float64) bool {
	return p.Done == 0 || seg.Launch && !p.anyPosition && (seg.LaunchedAt-p.reachedAt).Seconds() <= sec/20
}

// sameRead is the time within which rows count as read at once.
const sameRead = 20 * time.Millisecond

// partBlock is the length at and above which a part of an epoch forms one observation. Shorter parts would miss what
// occurs once per epoch: validation, a checkpoint, the restart of the loader.
const partBlock = 10 * time.Second

// longest returns the time after which a block ends although an earlier one contains more work.
func (p *Progress) longest() time.Duration {
	if p.Unit == "epoch" {
		return partBlock
	}
	return longBlock
}

// blockEnds reports whether the work since the mark forms one observation. Blocks contain equal work: the mean pace of
// blocks of equal time would give pauses and the slow stretches of an uneven pace too much weight. A block that ends by its
// time with much less work remains open for as long again.
func (p *Progress) blockEnds(at time.Duration, done float64) bool {
	took := at - p.markAt
	switch {
	case done <= p.markDone || took < minBlock:
		return false
	case p.Unit == "epoch":
		return math.Floor(done) > math.Floor(p.markDone) || took >= p.longest()
	}
	return took >= p.longest() || done-p.markDone >= p.Current().BlockUnits
}

func (p *Progress) mark(at time.Duration, done float64) {
	p.markAt, p.markDone, p.haveMark, p.reachedAt = at, done, true, at
	p.blockTook, p.blockOf = 0, 0
}

// addBlock appends a block. Beyond maxBlocks it averages older blocks pairwise into a new slice.
func (s *Segment) addBlock(secondsPerUnit float64) {
	to := &s.Blocks
	if s.Trial {
		to = &s.Left
	}
	all := append(*to, secondsPerUnit)
	if len(all) > maxBlocks {
		half := make([]float64, 0, maxBlocks) // a new slice: observations share the old one
		for len(all) > 1 {
			half = append(half, (all[0]+all[1])/2)
			all = all[2:]
		}
		all = append(half, all...) // the newest block stays unmerged
	}
	*to = all
}

// replaceLast replaces the last block in a new slice: observations share the old one.
func (s *Segment) replaceLast(secondsPerUnit float64) {
	to := &s.Blocks
	if len(*to) == 0 {
		to = &s.Left
	}
	*to = append(slices.Clone((*to)[:len(*to)-1]), secondsPerUnit)
}

// leave makes what was timed so far count for start-ups and restarts only: the run continues on another kind of node.
func (p *Progress) leave() {
	for _, s := range p.Segments {
		s.leave()
	}
}

func (s *Segment) leave() { s.Left, s.Blocks, s.Stated = s.timed(), nil, nil }

// pace returns what the present launch has measured.
func (p *Progress) pace() measuredPace {
	out := measuredPace{UnitSeconds: math.NaN(), Startup: math.NaN(), Save: math.NaN()}
	for i := len(p.Segments) - 1; i >= 0 && math.IsNaN(out.Save); i-- {
		if took := p.Segments[i].CheckpointS; took > 0 {
			out.Save = took
		}
	}
	s := p.Current()
	if s == nil || len(s.Blocks) == 0 {
		return out
	}
	steady := s.Blocks[s.warmUp():]
	out.UnitSeconds, out.Blocks, out.Partner = stat.Median(steady), len(steady), s.Partner
	for i := len(p.Segments) - 1; i > 0 && !s.Launch && s.Allocation.Same(p.Segments[i-1].Allocation); i-- {
		s = p.Segments[i-1] // the same launch with another partner
	}
	if s.Launch && s.FirstRowAt > 0 {
		out.Startup = s.startup(out.UnitSeconds)
	}
	return out
}

package run

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
)

// The power limit of the GPUs is a knob within the range that the user allows: a settled training is measured at a few
// limits, for seconds each, and continues at the one that the preference or the energy budget selects. Work at other
// limits is work done; nothing is restarted.
const (
	powerSettle  = time.Second     // from a change of the limit to its measurement
	powerWindow  = 5 * time.Second // of a measurement, at least
	powerSteps   = 20              // steps in a measurement, if they are counted
	powerUnits   = 3               // otherwise timed blocks of units of work
	powerMost    = 7               // limits measured at most
	powerWait    = time.Minute     // a measurement takes at most this, or six units of work
	powerShare   = 4               // the remaining time is at least this multiple of all measurements
	powerSlower  = 1.02            // without a preference, the accepted ratio of times
	powerGain    = 0.98            // ratio below which another limit is preferred to the present one
	powerMargin  = 1.05            // of the remaining time, for deadline and budget
	joulesPerKWh = 3.6e6
)

// powerRange is the range of --power-limit before it is restricted to that of the devices, W.
var powerRange = resources.Range{Min: 1, Max: 100_000}

// powerFacts is what the run has measured at power limits, and the choice; ChosenW is 0 before it.
type powerFacts struct {
	Devices []string              `json:"devices"`
	Samples []journal.PowerSample `json:"samples"`
	ChosenW int                   `json:"chosen_w"`
	// FullUnitSeconds are the seconds per unit of work at the first limit.
	FullUnitSeconds float64 `json:"full_unit_seconds"`
}

// powerControl is the power limit of the running job.
type powerControl struct {
	hold    *resources.PowerHold // nil: the limits are those of the machine
	off     bool                 // given up for this run
	nowW    int
	left    []int // limits still to be measured, the present one first; empty: no measurement
	setAt   time.Duration
	segment *Segment // of the measurement; nil while the limit settles
	since   time.Duration
	joules  float64
	weights plan.Preference // of the choice
}

// measuring reports whether a limit is being measured: nothing else is changed meanwhile.
func (c *powerControl) measuring() bool { return len(c.left) > 0 }

// livingRun reports whether an agent or a supervisor of the run of a directory lives.
func livingRun(dir string) bool { return journal.HolderOf(dir) != nil || launch.Supervised(dir) }

// restoreAbandonedPower restores the power limits that a run left behind which died with its supervisor.
func (r *run) restoreAbandonedPower() {
	lines, err := resources.RestorePower(livingRun)
	for _, line := range lines {
		r.event(Info, "%s: left by a run that has died", line)
	}
	if err != nil {
		r.event(Warning, "%v", err)
	}
}

// powerStep takes the next step of the power limit: takes hold of the devices, measures, chooses, and chooses again if the
// preference or what remains has changed.
func (r *run) powerStep() {
	c := &r.power
	if r.Config.PowerLimit == "" || c.off || r.retryAt > 0 {
		return
	}
	if c.hold == nil && !r.holdPower() {
		return
	}
	switch {
	case c.measuring():
		r.measurePower()
	case r.Power.ChosenW == 0:
		r.beginPower()
	case len(r.Power.Samples) > 1:
		r.choosePower()
	}
}

// refusePower leaves the power limits as they are for the rest of the run.
func (r *run) refusePower(format string, args ...any) {
	r.releasePower()
	r.endPowerTrial()
	r.power.off = true
	why := fmt.Sprintf(format, args...)
	r.rec.Power.Reason = why
	r.event(Warning, "--power-limit %s not used: %s", r.Config.PowerLimit, why)
}

// holdPower takes hold of the devices of the job. An earlier choice for the same devices, or a single allowed limit, is
// set at once.
func (r *run) holdPower() bool {
	c := &r.power
	r.recordPower()
	if r.Current.GPUs == 0 {
		r.eventOnce(Info, "power", "--power-limit %s not used: the job uses no GPU", r.Config.PowerLimit)
		return false
	}
	hold, err := resources.HoldPower(r.dir.Dir(), r.Current.GPUIDs, livingRun)
	if err != nil {
		r.refusePower("%v", err)
		return false
	}
	c.hold, c.nowW = hold, hold.OwnW
	r.rec.Power.OwnW = &hold.OwnW
	if hold.OwnW == 0 {
		r.rec.Power.OwnW = nil
	}
	allowed, err := r.powerAllowed()
	if err != nil {
		r.refusePower("%v", err)
		return false
	}
	if r.Power == nil || !slices.Equal(r.Power.Devices, r.Current.GPUIDs) {
		r.Power = &powerFacts{Devices: r.Current.GPUIDs}
	}
	switch n := r.Power.ChosenW; {
	case n >= allowed.Min && n <= allowed.Max && n > 0:
		return r.setPower(n, "as chosen before")
	case allowed.Min == allowed.Max:
		r.Power.ChosenW = allowed.Min
		return r.setPower(allowed.Min, "the only limit allowed")
	case r.Config.Planner == "static":
		r.refusePower("the planner static chooses none within a range")
		return false
	}
	r.Power.ChosenW, r.Power.Samples = 0, nil
	r.endPowerTrial() // of an agent that has died
	return true
}

// beginPowerSegment begins a segment of a trial of limits; watts is 0 while the limit settles.
func (r *run) beginPowerSegment(watts int) {
	r.beginSegment(r.elapsed(), r.Current, r.Progress.Current().Label, false)
	r.Progress.Current().Trial, r.Progress.Current().PowerW = true, watts
}

// endPowerTrial begins a segment that counts, if the present one belongs to a trial of limits.
func (r *run) endPowerTrial() {
	if s := r.Progress.Current(); s != nil && s.Trial && s.EndedAt == 0 {
		r.beginSegment(r.elapsed(), r.Current, s.Label, false)
	}
}

// powerAllowed returns the limits that both the user and the devices allow.
func (r *run) powerAllowed() (resources.Range, error) {
	h := r.power.hold
	wish, err := resources.ParseRange(r.Config.PowerLimit, powerRange)
	if err != nil {
		return wish, err // Validate rejects it
	}
	both := resources.Range{Min: max(wish.Min, h.LeastW), Max: min(wish.Max, h.MostW)}
	if both.Min > both.Max {
		return both, fmt.Errorf("the devices allow %d to %d W", h.LeastW, h.MostW)
	}
	if wish.Min < both.Min && wish.Min != powerRange.Min || wish.Max > both.Max && wish.Max != powerRange.Max {
		r.eventOnce(Info, "power range", "--power-limit %s: the devices allow %d to %d W", r.Config.PowerLimit, h.LeastW, h.MostW)
	}
	return both, nil
}

// powerCandidates returns at most n limits of a range, from the highest to the lowest, with the machine's own if n allows.
func powerCandidates(allowed resources.Range, ownW, n int) []int {
	out := []int{allowed.Max, allowed.Min}
	if ownW > allowed.Min && ownW < allowed.Max && n > 3 {
		out = append(out, ownW)
	}
	between := n - len(out)
	for i := 1; i <= between; i++ {
		out = append(out, (allowed.Max-i*(allowed.Max-allowed.Min)/(between+1))/5*5)
	}
	out = slices.DeleteFunc(out, func(w int) bool { return w < allowed.Min })
	slices.Sort(out)
	slices.Reverse(out)
	return slices.Compact(out)
}

// beginPower starts the measurements once the training has settled, if what remains is worth them.
func (r *run) beginPower() {
	seg := r.Progress.Current()
	if r.Phase != working || seg == nil || !seg.settled() || r.Progress.Finished() {
		return
	}
	allowed, err := r.powerAllowed()
	if err != nil {
		r.refusePower("%v", err)
		return
	}
	if !r.sampler.haveJ {
		r.refusePower("the devices report no energy")
		return
	}
	unit := stat.Median(seg.Blocks[seg.warmUp():])
	n := powerMost
	if rest, known := r.Progress.Remaining(); known {
		each := math.Max(powerWindow.Seconds(), powerUnits*unit) + powerSettle.Seconds()
		if steps := r.stepSeconds(); steps > 0 {
			each = math.Max(powerWindow.Seconds(), powerSteps*steps) + powerSettle.Seconds()
		}
		n = min(n, int(rest*unit/(powerShare*each)))
	}
	if n < 2 {
		r.refusePower("what remains of the training is too short to measure it")
		return
	}
	r.Power.FullUnitSeconds, r.Power.Samples = unit, nil
	r.power.left = powerCandidates(allowed, r.power.hold.OwnW, n)
	r.event(Info, "measuring the training at power limits of %s W", strings.ReplaceAll(strings.Trim(fmt.Sprint(r.power.left), "[]"), " ", ", "))
	r.changePower(r.power.left[0])
}

func (r *run) stepSeconds() float64 {
	if r.observer == nil {
		return 0
	}
	return r.observer.facts.StepTime.Seconds()
}

// changePower sets a limit and lets it settle. It reports whether that succeeded.
func (r *run) changePower(watts int) bool {
	if err := r.power.hold.Set(watts); err != nil {
		r.refusePower("%v", err)
		return false
	}
	r.power.nowW, r.power.setAt, r.power.segment = watts, r.elapsed(), nil
	r.rec.Power.SetW = &watts
	r.recordPower()
	if r.power.measuring() {
		r.beginPowerSegment(0)
	}
	return true
}

// setPower changes to a limit that the run is to keep.
func (r *run) setPower(watts int, why string) bool {
	if watts == r.power.nowW && watts == r.power.hold.OwnW {
		return true
	}
	if !r.changePower(watts) {
		return false
	}
	r.rec.Power.Reason = why
	r.event(Info, "power limit %d W (live): %s", watts, why)
	return true
}

// measurePower advances the measurement at the present limit.
func (r *run) measurePower() {
	c, now := &r.power, r.elapsed()
	if c.segment == nil {
		if now-c.setAt >= powerSettle {
			r.beginPowerSegment(c.nowW)
			c.segment, c.since, c.joules = r.Progress.Current(), now, r.Joules
		}
		return
	}
	seg := r.Progress.Current()
	if seg != c.segment { // another change of the job
		c.left = nil
		r.Power.Samples = nil
		return
	}
	s, ok := measuredPower(seg, r.Progress.Unit, r.stepSeconds() > 0)
	if took := now - c.since; !ok || took < powerWindow {
		if took > max(powerWait, time.Duration(6*r.Power.FullUnitSeconds*float64(time.Second))) {
			r.refusePower("the pace at %d W could not be measured in %s", c.nowW, length(took))
		}
		return
	}
	s.LimitW, s.Watts = c.nowW, (r.Joules-c.joules)/(now-c.since).Seconds()
	if n := len(r.Power.Samples); !(s.Watts > 0) || n > 0 && r.Power.Samples[0].Unit != s.Unit {
		r.refusePower("the energy or the steps at %d W could not be measured", c.nowW)
		return
	}
	s.JoulesPerUnit = s.Watts * s.SecondsPerUnit
	r.Power.Samples = append(r.Power.Samples, s)
	if c.left = c.left[1:]; len(c.left) > 0 && !powerRising(r.Power.Samples, r.powerQuestion()) {
		r.changePower(c.left[0])
		return
	}
	c.left = nil
	r.choosePower()
}

// measuredPower returns the seconds per step or unit of work of a measurement; ok is false until there are enough.
func measuredPower(s *Segment, unit string, steps bool) (journal.PowerSample, bool) {
	if steps {
		return journal.PowerSample{Unit: "step", SecondsPerUnit: s.Counted.Seconds / s.Counted.Steps}, s.Counted.Steps >= powerSteps
	}
	if len(s.timed()) < powerUnits {
		return journal.PowerSample{}, false
	}
	return journal.PowerSample{Unit: unit, SecondsPerUnit: stat.Median(s.timed())}, true
}

// choosePower selects among the measured limits, and sets the choice if it is a new one.
func (r *run) choosePower() {
	q := r.powerQuestion()
	if r.Power.ChosenW != 0 && q.weights != r.power.weights {
		q.keepW = 0
	}
	w, why := q.choose(r.Power.Samples)
	r.power.weights = q.weights
	if w == r.Power.ChosenW && w == r.power.nowW {
		return
	}
	r.Power.ChosenW = w
	if !r.setPower(w, why) {
		return
	}
	r.Progress.continueAt(w, r.power.hold.OwnW, r.Current.GPUIDs)
	r.beginSegment(r.elapsed(), r.Current, r.Progress.Current().Label, false)
	r.Progress.Current().PowerW = w
}

// continueAt makes the segments on the devices of a job count if they were at the power limit at which the run continues, and
// no others. ownW is the limit of those at which none was set.
func (p *Progress) continueAt(watts, ownW int, devices []string) {
	for _, s := range p.Segments {
		switch {
		case !slices.Equal(s.Allocation.GPUIDs, devices):
		case s.Trial && s.PowerW == watts:
			s.Blocks, s.Left, s.Trial = s.Left, nil, false
		case !s.Trial && cmp.Or(s.PowerW, ownW) != watts:
			s.leave()
		}
	}
}

// powerQuestion is what the choice of a limit depends on besides its measurements.
type powerQuestion struct {
	weights plan.Preference
	stated  bool
	keepW   int // the present limit; 0: none is preferred
	// What remains: of the work in seconds at the first limit, NaN if unknown, and until each limit, +Inf without one.
	work, seconds, hours, joules float64
}

func (r *run) powerQuestion() powerQuestion {
	q := powerQuestion{weights: r.Config.Preference, stated: r.Config.PreferenceGiven, keepW: r.Power.ChosenW,
		work: math.NaN(), seconds: math.Inf(1), hours: math.Inf(1), joules: math.Inf(1)}
	if rest, known := r.Progress.Remaining(); known {
		q.work = rest * r.Power.FullUnitSeconds
	}
	if d := r.Config.SLA.TimeMax; d > 0 {
		q.seconds = (d - r.elapsed()).Seconds()
	}
	if rate := float64(r.Rates.Hourly(r.charged(r.Current))); r.Config.SLA.CostMaxUSD > 0 && rate > 0 {
		q.hours = (r.Config.SLA.CostMaxUSD - r.spent()) / rate
	}
	if b := r.Config.EnergyBudgetKWh; b > 0 {
		q.joules = b*joulesPerKWh - r.Joules
	}
	return q
}

// score returns how a limit compares with the first one: smaller is better.
func (q powerQuestion) score(first, s journal.PowerSample) float64 {
	time, energy := s.SecondsPerUnit/first.SecondsPerUnit, s.JoulesPerUnit/first.JoulesPerUnit
	switch {
	case q.stated:
		return (q.weights.Time+q.weights.Cost)*time + q.weights.Resource*energy
	case !math.IsInf(q.joules, 1):
		return time
	case time > powerSlower:
		return 1 + time // above every one that is not slower
	}
	return energy
}

// misses reports whether the rest of the work at a limit misses the deadline or the budget, and the energy budget.
// Unknown work misses nothing.
func (q powerQuestion) misses(first, s journal.PowerSample) (sla, energy bool) {
	rest := q.work * s.SecondsPerUnit / first.SecondsPerUnit
	return powerMargin*rest > min(q.seconds, 3600*q.hours), rest*s.Watts > q.joules
}

// choose returns the measured limit of least score that meets deadline, budget and energy budget. If none does, deadline
// and budget come before energy, of which it then uses the least; if none meets those, it is the fastest.
func (q powerQuestion) choose(samples []journal.PowerSample) (watts int, why string) {
	first := samples[0]
	key := func(s journal.PowerSample) (rank int, value float64) {
		switch late, energy := q.misses(first, s); {
		case late:
			return 2, s.SecondsPerUnit
		case energy:
			return 1, s.JoulesPerUnit
		}
		return 0, q.score(first, s)
	}
	best := first
	for _, s := range samples[1:] {
		rank, value := key(s)
		if r, v := key(best); rank < r || rank == r && value < v {
			best = s
		}
	}
	bestRank, bestValue := key(best)
	for _, s := range samples { // the present limit, or else the highest, unless another one is better beyond noise
		if s.LimitW != q.keepW && (q.keepW != 0 || s.LimitW != first.LimitW) {
			continue
		}
		if rank, value := key(s); rank == bestRank && bestValue > powerGain*value {
			best = s
		}
	}
	rank, _ := key(best)
	against := func(s journal.PowerSample) string {
		return page.Change(100*(s.SecondsPerUnit/first.SecondsPerUnit-1)) + " time and " + page.Change(100*(s.JoulesPerUnit/first.JoulesPerUnit-1)) + " energy"
	}
	if why = fmt.Sprintf("%.3g s and %.3g J per %s", first.SecondsPerUnit, first.JoulesPerUnit, first.Unit); best != first {
		why = fmt.Sprintf("%s per %s against %d W", against(best), best.Unit, first.LimitW)
	}
	for _, s := range samples[1:] {
		if s != best {
			why += fmt.Sprintf("; %d W: %s", s.LimitW, against(s))
		}
	}
	return best.LimitW, page.PlainBlanks(why) + []string{"", "; the energy budget is missed at every limit that meets deadline and budget", "; no limit meets deadline and budget"}[rank]
}

// powerRising reports whether the two latest limits are both worse than the best before them: lower ones will be too.
func powerRising(samples []journal.PowerSample, q powerQuestion) bool {
	n := len(samples)
	if n < 3 || !math.IsInf(q.joules, 1) {
		return false
	}
	best := math.Inf(1)
	for _, s := range samples[:n-2] {
		best = math.Min(best, q.score(samples[0], s))
	}
	return q.score(samples[0], samples[n-2]) > best/powerGain && q.score(samples[0], samples[n-1]) > best/powerGain
}

// recordPower updates the power limit in the record of the run.
func (r *run) recordPower() {
	if r.rec.Power == nil {
		r.rec.Power = &journal.Power{Allowed: r.Config.PowerLimit}
	}
	p := r.rec.Power
	if r.Config.EnergyBudgetKWh > 0 {
		j := r.Config.EnergyBudgetKWh * joulesPerKWh
		p.BudgetJoules = &j
	}
	if p.Measured = []journal.PowerSample{}; r.Power != nil {
		p.Measured = append(p.Measured, r.Power.Samples...)
	}
}

// releasePower restores the power limits when the job has ended, if its supervisor has not done so.
func (r *run) releasePower() {
	if r.power.hold == nil {
		return
	}
	r.recordPower()
	lines, err := resources.ReleasePower(r.dir.Dir())
	for _, line := range lines {
		r.event(Info, "%s", line)
	}
	restored := err == nil
	if r.rec.Power.Restored = &restored; err != nil {
		r.event(Warning, "%v", err)
	}
	r.power = powerControl{off: r.power.off}
}

package run

import (
	"fmt"
	"math"
	"slices"
	"time"

	"trainopt/optimizer/joblog"
	"trainopt/sla"
)

// hopelessShare is the share of a limit that must be used before a projection may stop a job.
const hopelessShare = 0.5

// stopHopeless stops a job that cannot meet a limit and would lose all its work when the guard stops it at that
// limit. It only saves the cost of the remainder, so any doubt lets the job continue: the user's consent (--yes),
// work that a checkpoint would keep, a log that was only discovered, an uncertain total or pace, less than half of
// the limit used.
func (r *run) stopHopeless() {
	if r.Config.Anyway || r.Config.Planner == "static" || r.leaving != nil || r.ended != nil || r.keepsWork() || !r.trusted() {
		return
	}
	why, ok := r.hopeless()
	if !ok {
		return
	}
	r.event(Problem, "%s; the job writes no checkpoint, so further work would be lost: stopping now (--yes lets it run to the limit)", why)
	r.leave(&leaving{Why: "infeasible", Words: why})
}

// hopeless reports whether even the fastest pace of this run would miss the deadline or the budget.
func (r *run) hopeless() (string, bool) {
	seg := r.progress.Current()
	rest, known := r.progress.Remaining()
	if !known || seg == nil || !seg.settled() {
		return "", false
	}
	steady := seg.Blocks[seg.warmUp():]
	since := r.elapsed() - max(seg.LastRowAt, seg.LaunchedAt)
	seconds := math.Max(0, rest*slices.Min(steady)-since.Seconds())
	finish := r.elapsed() + time.Duration(seconds*float64(time.Second))
	bill := r.spent() + seconds/3600*float64(r.rates.Hourly(r.current))
	spec := r.Config.SLA
	switch {
	case r.missed(spec.TimeMax.Seconds(), r.elapsed().Seconds(), finish.Seconds(), r.projected.seconds):
		return fmt.Sprintf("at its fastest pace so far the job needs %s, the deadline is %s", length(finish), length(spec.TimeMax)), true
	case r.missed(spec.CostMaxUSD, r.spent(), bill, r.projected.cost):
		return fmt.Sprintf("at its fastest pace so far the job costs $%.3g, the budget is $%.3g", bill, spec.CostMaxUSD), true
	}
	return "", false
}

// missed reports whether a limit is missed: enough of it is used, and both the most favourable end and the projected
// interval lie beyond it.
func (r *run) missed(limit, used, best float64, projected *sla.Interval) bool {
	return limit > 0 && used >= hopelessShare*limit && best > limit && (projected == nil || projected.P5 > limit)
}

// trusted reports whether the progress certainly belongs to the job: it comes from a log that the user named or the
// script was given, from the observer, or from output whose total another source confirms.
func (r *run) trusted() bool {
	e := r.log.Source().Evidence
	return !e.Discovered() || e == joblog.Output && r.progress.Hints[r.progress.Unit].Units == r.progress.Total
}

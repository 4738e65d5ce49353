package run

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/internal/wording"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/notify"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// Code is the exit code of `optimize`.
type Code int

// The exit codes; scripts of users rely on them.
const (
	CodeDone       Code = 0  // done, SLA met
	CodeOurs       Code = 1  // internal failure
	CodeUsage      Code = 2  // usage or configuration
	CodeMissed     Code = 3  // done, SLA missed
	CodeGuard      Code = 4  // stopped by the budget or deadline guard
	CodeTraining   Code = 5  // the training failed
	CodeInfeasible Code = 6  // refused before start, or stopped because a limit could not be met any more
	CodeTryAgain   Code = 75 // to be resumed: stopped at the end of an allocation or a lease, or before the machine is reclaimed
	CodeInterrupt  Code = 130
	CodeTerminated Code = 143
)

// Clock is the agent's source of time: the wall clock for display, and for every measurement and limit a monotonic
// clock that all processes of one boot share.
type Clock interface {
	Now() time.Time
	Monotonic() time.Duration
}

// SystemClock is the clock of the machine.
type SystemClock struct{}

// Now returns the wall clock.
func (SystemClock) Now() time.Time { return time.Now() }

// Monotonic returns CLOCK_MONOTONIC: it is unaffected by steps of the wall clock and comparable between agents of one
// boot.
func (SystemClock) Monotonic() time.Duration { return launch.Monotonic() }

// Status is a view's picture of a running job. Unknown numbers are NaN, unknown intervals nil, unknown texts empty.
type Status struct {
	RunID      string
	Script     string               // path, or the program of a command
	Log        string               // source of progress: path and format
	Phase      string               // "measuring", "training", "saving", "stopping", "waiting to start again", "waiting: …" for a place
	Allocation resources.Allocation // as granted, on each of Nodes
	Nodes      int                  // of an engine's job; 0 or 1: one
	Done       float64
	Total      float64 // 0: unknown; then Finish and CostAtEnd are nil
	Unit       string
	Elapsed    time.Duration
	Now        time.Time     // wall clock at Elapsed
	Prepared   time.Duration // from the beginning of the agent to its first launch; 0: it continues a run
	Finish     *sla.Interval // projected seconds of the whole run
	Deadline   time.Duration // 0: none
	// DeadlineSource is what sets Deadline, such as "the end of Slurm job 12 on n0"; empty: the user.
	DeadlineSource string
	Spent          cost.USD
	CostAtEnd      *sla.Interval // projected USD of the whole run
	Budget         cost.USD      // 0: none
	CPUUtil        float64       // % of the allocated CPUs
	GPUUtil        float64
	Devices        []DeviceUse // last reading of each device of the job; empty: none
	MemoryGiB      float64
	Throughput     float64 // in ThroughputUnit
	// ThroughputUnit is samples/s, steps/s or epochs/s.
	ThroughputUnit string
	Loss           float64
	Accuracy       float64
	Verdicts       []sla.Verdict
	LastAction     string
	// Checkpoint is the newest known checkpoint with the work since then; nil if none is known.
	Checkpoint *journal.Checkpoint
	// AtRisk is the run time whose work is lost if the job is stopped now: since Checkpoint, or since the launch of a
	// job that keeps none. Negative: unknown.
	AtRisk time.Duration
	// Pace is what the present launch has measured.
	Pace measuredPace
	// KeepsWork is true if the work of the job survives a stop: it saves on request, or writes checkpoints from which
	// it can continue.
	KeepsWork bool
	// Saves is true if it saves on request, at a place that no other job writes to.
	Saves bool
}

// DeviceUse is the last reading of a device.
type DeviceUse struct {
	ID          string // UUID of a GPU, or the name in the lease
	UtilPercent float64
	MemoryGiB   float64 // used by all processes; NaN: unknown, as the next
	TotalGiB    float64
}

// measuredPace is the measured pace of one launch. Unknown numbers are NaN.
type measuredPace struct {
	UnitSeconds float64 // median seconds per unit of work, without warm-up
	Blocks      int     // number of timed observations behind it
	Startup     float64 // seconds from the launch to the first unit of work, less that unit
	Save        float64 // seconds of the last stop with a checkpoint
	Partner     string  // that shared the devices meanwhile, see Lease; empty: none
}

// Level is the severity of an event line.
type Level int

// Levels of events.
const (
	Info Level = iota
	Warning
	Problem
)

// View displays a run. Its methods are called from one goroutine.
type View interface {
	// Event appends a line to the display.
	Event(level Level, line string)
	// Status replaces the previous status.
	Status(Status)
	// Planned shows the evidence for a plan: for a dry run, and if the user asked for an explanation.
	Planned(rec *journal.Record)
	// Finished receives the complete record of the run; it is the last call.
	Finished(rec *journal.Record, dir string)
}

// Quiet is a View that shows nothing.
type Quiet struct{}

// Event does nothing.
func (Quiet) Event(Level, string) {}

// Status does nothing.
func (Quiet) Status(Status) {}

// Planned does nothing.
func (Quiet) Planned(*journal.Record) {}

// Finished does nothing.
func (Quiet) Finished(*journal.Record, string) {}

// currentRate returns the throughput of the latest unit of work and its unit; NaN before the first.
func (r *run) currentRate() (rate float64, unit string) {
	seg := r.Progress.Current()
	if seg == nil || len(seg.Blocks) == 0 {
		return math.NaN(), ""
	}
	per, unit := r.Progress.throughputUnit()
	return per / seg.Blocks[len(seg.Blocks)-1], unit
}

// Resources describes the allocation of all nodes.
func (s *Status) Resources() string {
	if s.Nodes > 1 {
		return fmt.Sprintf("%d nodes of %s", s.Nodes, s.Allocation)
	}
	return s.Allocation.String()
}

// status returns the current picture of the run for the view.
func (r *run) status() Status {
	deadline, _ := r.deadline()
	s := Status{RunID: r.rec.RunID, Phase: "training", Allocation: r.charged(r.Current), Nodes: r.Config.Nodes, Done: r.Progress.Done, Total: r.Progress.Total,
		Unit: r.Progress.Unit, Elapsed: r.elapsed(), Finish: r.projected.seconds, Spent: cost.USD(r.spent()), CostAtEnd: r.projected.cost,
		CPUUtil: r.cpuUtil(), GPUUtil: r.sampler.last.GPUMean(),
		MemoryGiB: r.sampler.last.Tree.MemoryGiB, Throughput: math.NaN(), Loss: float64(r.rec.Training.TrainLoss),
		Accuracy: float64(r.rec.Training.TestAccuracy), Verdicts: r.verdicts, LastAction: r.lastAction,
		Script: r.rec.Script.Path, Log: r.log.describe(), Now: r.Clock.Now(), Prepared: r.prepared, Deadline: deadline, DeadlineSource: r.deadlineSource(), Budget: cost.USD(r.Config.SLA.CostMaxUSD),
		Checkpoint: r.rec.Checkpoint, AtRisk: r.atRisk(), Pace: r.Progress.pace(), KeepsWork: r.keepsWork(), Saves: r.Resumable}
	s.Throughput, s.ThroughputUnit = r.currentRate()
	for _, g := range r.sampler.last.GPUs {
		if !math.IsNaN(g.UtilPercent) {
			s.Devices = append(s.Devices, DeviceUse{g.UUID, g.UtilPercent, g.MemoryGiB, g.TotalGiB})
		}
	}
	switch {
	case r.Pending != nil && r.Pending.Next == nil:
		s.Phase = "stopping"
	case r.Pending != nil:
		s.Phase = "saving"
	case r.retryAt > 0 && r.first:
		s.Phase = "waiting: until " + r.Config.Engine + " accepts the job"
	case r.retryAt > 0:
		s.Phase = "waiting to start again"
	case r.queued != nil:
		s.Phase = "waiting: " + r.queued.Waiting()
	case r.Phase == probing:
		s.Phase = "measuring"
	}
	return s
}

const (
	// steadyRisk is the number of consecutive evaluations in which a limit must be at risk before a message is sent.
	steadyRisk = 3
	// lastDelivery bounds the wait for messages at the end of a run.
	lastDelivery = 5 * time.Second
)

// notices sends the messages about a run.
type notices struct {
	sender *notify.Sender        // nil without targets
	risk   map[sla.Objective]int // consecutive evaluations at risk
}

// openNotices prepares the targets of messages and reports those to which none can be sent.
func (r *run) openNotices() {
	if len(r.Config.Notify) == 0 {
		return
	}
	for _, t := range r.Config.Notify {
		if problem := t.Check(); problem != "" {
			r.event(Warning, "%s", problem)
		}
	}
	r.notices = notices{sender: notify.NewSender(r.Config.Notify), risk: map[sla.Objective]int{}}
}

// closeNotices waits for the last messages for a bounded time.
func (r *run) closeNotices() {
	if r.notices.sender != nil {
		for _, failure := range r.notices.sender.Close(lastDelivery) {
			r.View.Event(Warning, failure)
		}
	}
}

// tell sends a message once per run and key. What was sent is stored before, so that a message that another agent may
// have delivered is not repeated.
func (r *run) tell(event notify.Event, key, text string, limit *sla.Verdict) {
	if r.notices.sender == nil || slices.Contains(r.Notified, key) {
		return
	}
	r.Notified = append(r.Notified, key)
	r.saveState()
	r.send(event, text, limit, r.elapsed().Seconds(), r.spent())
}

// send sends a message.
func (r *run) send(event notify.Event, text string, limit *sla.Verdict, seconds, usd float64) {
	m := notify.Message{Event: event, At: r.Clock.Now().UTC(), RunID: r.rec.RunID, Name: r.rec.Name, State: string(r.rec.State), Limit: limit,
		Text: page.PlainBlanks(text), Command: "optimize report " + shellWord(r.dir.Dir()), Link: r.pageLink()}
	m.Seconds, m.CostUSD = &seconds, &usd
	r.notices.sender.Send(m)
}

// tellAgain forgets the messages that a resumed run may send another time: about the end of an ended run, and about limits
// that have changed.
func (r *run) tellAgain(before sla.Spec) {
	r.Notified = slices.DeleteFunc(r.Notified, func(key string) bool {
		kind, limit, _ := strings.Cut(key, ":")
		switch {
		case kind == "end" || kind == "failure":
			return r.Ended
		case limit == string(sla.Time):
			return r.Config.SLA.TimeMax != before.TimeMax
		case limit == string(sla.Cost):
			return r.Config.SLA.CostMaxUSD != before.CostMaxUSD
		}
		return false
	})
}

// shellWord quotes a path for a shell, if necessary.
func shellWord(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,=") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// pageLink returns the address of the run's page; empty if the user gave none.
func (r *run) pageLink() string {
	link := r.Config.NotifyLink
	switch {
	case link == "":
		return ""
	case strings.Contains(link, "{run}"):
		return strings.ReplaceAll(link, "{run}", url.PathEscape(r.rec.RunID))
	}
	return strings.TrimRight(link, "/") + "/runs/" + url.PathEscape(r.rec.RunID)
}

// tellPlan sends the first plan.
func (r *run) tellPlan(p *journal.Plan) {
	text := fmt.Sprintf("plan: %s", p.Allocation)
	if q := p.Prediction; q != nil {
		text += "; predicted " + withInterval(q.Seconds, wording.Duration) + " for " + withInterval(q.CostUSD, page.USD)
	} else {
		text += "; the whole run is not predicted: the total amount of work is not known"
	}
	r.tell(notify.Planned, "plan", text, nil)
}

// withInterval formats a prediction with its 90 % interval.
func withInterval(v sla.Interval, format func(float64) string) string {
	return fmt.Sprintf("%s (%s to %s)", format(v.P50), format(v.P5), format(v.P95))
}

// tellLimits sends the limits that are at risk or missed. A projection only puts a limit at risk; while the run continues,
// a limit is missed if its measured value has passed it for good, as time, cost and peak memory do.
func (r *run) tellLimits(final bool) {
	if r.notices.sender == nil {
		return
	}
	for i := range r.verdicts {
		v := &r.verdicts[i]
		grows := v.Objective == sla.Time || v.Objective == sla.Cost || v.Objective == sla.Memory
		passed := v.Value != nil && grows && *v.Value > v.Limit
		switch {
		case v.Status == sla.Violated && (final || passed):
			r.tell(notify.Missed, "missed:"+string(v.Objective), limitText(v, "missed"), v)
			continue
		case final || v.Status != sla.AtRisk && v.Status != sla.Violated || len(r.Progress.Observations()) == 0:
			r.notices.risk[v.Objective] = 0
			continue
		}
		if r.notices.risk[v.Objective]++; r.notices.risk[v.Objective] >= steadyRisk {
			r.tell(notify.AtRisk, "at-risk:"+string(v.Objective), limitText(v, "at risk"), v)
		}
	}
	for _, failure := range r.notices.sender.Failures() {
		r.event(Warning, "%s", failure)
	}
}

// limitText describes a limit and what is measured or projected.
func limitText(v *sla.Verdict, what string) string {
	format := func(x float64) string { return fmt.Sprintf("%.4g %s", x, v.Unit) }
	switch v.Objective {
	case sla.Time:
		format = wording.Duration
	case sla.Cost:
		format = page.USD
	}
	names := map[sla.Objective]string{sla.Time: "deadline", sla.Cost: "budget", sla.Throughput: "throughput", sla.Memory: "memory limit",
		sla.GPUUtil: "GPU utilization", sla.CPUUtil: "CPU utilization"}
	text := fmt.Sprintf("%s of %s %s", names[v.Objective], format(v.Limit), what)
	if early := v.Value != nil && (v.Objective == sla.Time || v.Objective == sla.Cost) && *v.Value <= v.Limit; early && v.Projected == nil {
		text += ": the run was stopped at " + format(*v.Value)
	} else if v.Projected != nil {
		text += ": projected " + withInterval(*v.Projected, format)
	} else if v.Value != nil {
		text += ": measured " + format(*v.Value)
	}
	return text
}

// tellEnd sends the end of the run, after its last record.
func (r *run) tellEnd() {
	e := r.ended
	r.tellLimits(true)
	if e.state == journal.Failed {
		r.tell(notify.Failed, "failure", "the training failed: "+endText(e), nil)
	}
	text := string(e.state)
	if e.state != journal.Done {
		text += " (" + endText(e) + ")"
	}
	text += fmt.Sprintf(" after %s for %s", wording.Duration(r.elapsed().Seconds()), page.USD(r.spent()))
	if e.state == journal.Done && len(r.verdicts) > 0 {
		text += map[bool]string{true: "; every limit is met", false: "; not every limit is met"}[!slices.ContainsFunc(r.verdicts, func(v sla.Verdict) bool { return v.Status != sla.Met })]
	}
	r.tell(notify.Ended, "end:"+string(e.state), text, nil)
}

// TellEnd sends the end of a run that was stopped at the end of a lease, and to which its scheduler gives no other one. Nothing is
// sent about one that ended otherwise: it has told that itself.
func (a Agent) TellEnd(dir string, state journal.State, why string) {
	jd, err := journal.Open(dir)
	if err != nil {
		return
	}
	r := newRun(a, Config{})
	if _, err := jd.LoadState(&r.facts); err != nil {
		return
	}
	if r.rec, err = journal.ReadRecord(dir); err != nil || r.rec.Exit == nil || r.rec.Exit.Reason != byLease {
		return
	}
	r.dir, r.rec.State, r.notices.sender = jd, state, notify.NewSender(r.Config.Notify)
	seconds, usd := float64(r.rec.Outcome.Seconds), float64(r.rec.Outcome.CostUSD)
	r.send(notify.Ended, fmt.Sprintf("%s (%s) after %s for %s", state, why, wording.Duration(seconds), page.USD(usd)), nil, seconds, usd)
	r.closeNotices()
}

// endText describes why a run ended early.
func endText(e *ending) string {
	switch {
	case e.exit != nil && e.state == journal.Failed:
		return describeExit(*e.exit)
	case e.detail != "":
		return e.reason + ": " + e.detail
	}
	return e.reason
}

package replay

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/share"
)

// Options configure an audit. The zero value is useful.
type Options struct {
	Policies []string // to compare the day with; nil: all, of which those that co-locate jobs only if some shared devices
	Draws    int      // simulations of each policy with other rates and move costs; 0: 20
	Seed     uint64   // of the draws
	Progress func(done, total int)
}

// jobEstimate is a value with the 2.5 and 97.5 % quantiles of its interval.
type jobEstimate struct {
	Value page.Exact `json:"value"`
	Lo    page.Exact `json:"lo"`
	Hi    page.Exact `json:"hi"`
}

// summary contains the figures of a day, live or simulated, over the jobs that ended live. Those of the simulation are
// unknown while more than a tenth of the jobs have not ended, since the jobs that end first are no sample of all, and if the
// devices have changed.
type summary struct {
	MeanJCTS      page.Exact `json:"mean_jct_s"`
	MedianJCTS    page.Exact `json:"median_jct_s"`
	MakespanS     page.Exact `json:"makespan_s"` // from the first submission to the last end
	CostUSD       page.Exact `json:"cost_usd"`
	DeadlinesKept page.Exact `json:"deadlines_kept"`
	Moves         page.Exact `json:"moves"` // starts after the first of a job
}

// jobAudit is a job, live and simulated under the policy of the day.
type jobAudit struct {
	ID            int        `json:"id"`
	Name          string     `json:"name"`
	User          string     `json:"user"`
	State         string     `json:"state"`
	JCTS          page.Exact `json:"jct_s"`
	SimulatedJCTS page.Exact `json:"simulated_jct_s"`
	Error         page.Exact `json:"error"` // relative to live
	DeadlineS     page.Exact `json:"deadline_s"`
	CostUSD       page.Exact `json:"cost_usd"`
	Starts        int        `json:"starts"`
}

// policyAudit is the day as it would have been under a policy.
type policyAudit struct {
	Policy        string      `json:"policy"`
	InForce       bool        `json:"in_force"` // it decided on the day
	MeanJCTS      jobEstimate `json:"mean_jct_s"`
	OneDay        jobEstimate `json:"one_day"` // mean JCT of one simulation, of the same jobs: mean, and 5 and 95 % quantiles
	Change        jobEstimate `json:"change"`  // of the mean JCT, relative to the simulated day
	Saved         jobEstimate `json:"saved_s"` // sum over the jobs of the time by which they end earlier than in the simulated day
	MakespanS     jobEstimate `json:"makespan_s"`
	CostUSD       jobEstimate `json:"cost_usd"`
	Fairness      jobEstimate `json:"finish_time_fairness"` // mean over jobs of the time relative to that under isolated
	WorstFairness jobEstimate `json:"worst_finish_time_fairness"`
	DeadlinesKept jobEstimate `json:"deadlines_kept"`
	Moves         page.Exact  `json:"moves"`
	Failed        string      `json:"failed,omitempty"` // why it could not be simulated
}

// calibration compares predictions with what was seen.
type calibration struct {
	N           int        `json:"n"`
	MedianRatio page.Exact `json:"median_ratio"` // of seen to predicted
	MedianError page.Exact `json:"median_error"` // of the absolute error relative to what was seen
	Within10    page.Exact `json:"within_10_percent"`
}

// waste contains device-seconds of the day that brought no progress.
type waste struct {
	HeldS     page.Exact `json:"held_device_s"` // all that jobs held
	StartingS page.Exact `json:"starting_device_s"`
	SavingS   page.Exact `json:"saving_device_s"`
	// RepeatedS is what jobs held for steps that they lost, when they left without saving.
	RepeatedS page.Exact `json:"repeated_device_s"`
	// IdleS is the time that devices were free while jobs waited for as many, an upper bound: they may have been of types
	// on which these jobs do not run.
	IdleS page.Exact `json:"idle_device_s"`
	Lost  int        `json:"lost"` // lives that ended before their job did, without a request to leave
}

// faults is what went wrong on the day, and what it cost. RepeatedS and Lost of waste belong to it.
type faults struct {
	Restarts  int        `json:"server_restarts"`
	UnservedS page.Exact `json:"unserved_s"` // without a server while jobs had not ended, at most: since its last event
	// UnservedIdleS is the device time in that time that was free while jobs waited, or held by jobs that had left at the end
	// of their leases. DownS is the device time of nodes that were down.
	UnservedIdleS page.Exact `json:"unserved_idle_device_s"`
	DownS         page.Exact `json:"down_device_s"`
	// Relaunches are the starts of trainings beyond those that the policy decided: after failures and lost nodes.
	Relaunches int `json:"relaunches"`
}

// starts compares the first prediction of each start with the start.
type starts struct {
	N            int        `json:"n"`
	Within90     page.Exact `json:"within_90_percent_interval"` // share of the starts
	MedianErrorS page.Exact `json:"median_error_s"`             // of the absolute differences from the median
	MedianWaitS  page.Exact `json:"median_wait_s"`
}

// returned is what the return of unused devices gave.
type returned struct {
	Shrinks    int        `json:"shrinks"` // without those that were undone
	Undone     int        `json:"undone"`
	PredictedS page.Exact `json:"predicted_gain_s"` // sum of the predictions, each from its time on
	// WithoutS is the mean completion time of the same day if all jobs had kept their devices, and Change that of the
	// simulated day relative to it.
	WithoutS page.Exact  `json:"mean_jct_without_s"`
	Change   jobEstimate `json:"change"`
}

// Audit is the result of a replay.
type Audit struct {
	Schema    int        `json:"schema"`
	From      page.Exact `json:"from"` // Unix seconds
	Until     page.Exact `json:"until"`
	Policies  []string   `json:"policies"` // of the day, one after the other
	Submitted int        `json:"submitted"`
	Compared  int        `json:"compared"` // jobs that ended live and were simulated
	Running   int        `json:"running"`  // jobs that have not ended live
	Deadlines int        `json:"deadlines"`
	// Unfinished counts the deadlines of jobs that ended otherwise than by finishing, which are not among Deadlines: missed.
	Unfinished int `json:"deadlines_unfinished"`

	Live        summary       `json:"live"`
	Simulated   summary       `json:"simulated"`
	OneDay      jobEstimate   `json:"one_day"`          // mean JCT of one simulation: mean, and 5 and 95 % quantiles
	MedianError page.Exact    `json:"median_job_error"` // of the absolute relative errors of jobs
	Jobs        []jobAudit    `json:"jobs"`
	Others      []policyAudit `json:"others"`
	Rates       calibration   `json:"rates"`
	MoveCosts   calibration   `json:"move_costs"`
	Starts      starts        `json:"starts"`
	Pairs       []pairAudit   `json:"pairs"` // jobs that shared devices
	Waste       waste         `json:"waste"`
	Faults      faults        `json:"faults"`
	Returned    *returned     `json:"returned"` // null: no job had devices that it did not use
	Notes       []string      `json:"notes"`
}

const (
	defaultDraws = 20
	mostRunning  = 0.1 // share of the jobs that have not ended up to which live and simulated are compared
	resamples    = 50  // of the jobs, per draw
)

// Audit replays the day. The policies know the rates of all jobs from the start. A day of which nothing can be simulated,
// since no job made progress whose work is known, has no simulated figures.
func (d *Day) Audit(ctx context.Context, o Options) (*Audit, error) {
	if o.Draws = cmp.Or(o.Draws, defaultDraws); o.Draws < 1 {
		return nil, fmt.Errorf("replay the event log: %d draws, want at least 1", o.Draws)
	}
	for _, name := range o.Policies {
		if _, err := share.New(name, share.Options{Random: zero{}}); err != nil {
			return nil, fmt.Errorf("replay the event log: %w", err)
		}
	}
	pairs := d.pairs()
	if o.Policies == nil {
		if o.Policies = slices.DeleteFunc(share.Names(), share.Packs); len(pairs) > 0 {
			o.Policies = share.Names()
		}
	}
	r := newRates(d)
	for _, j := range d.Jobs {
		best := 0.0
		for _, t := range d.Devices {
			best = max(best, r.at(j, place{t.Name, j.GPUs}).rate)
		}
		steps, ok := j.work()
		j.endless = ok && best > 0 && steps/best > min(50_000*d.Round, 1e7) // too many rounds even on the fastest type
	}
	a := &auditor{day: d, o: o, rates: r, moves: newMoves(d, r)}
	a.Jobs, a.Others, a.Pairs = []jobAudit{}, []policyAudit{}, d.pairs()
	a.Schema, a.From, a.Until, a.Submitted = 1, page.Exact(d.From), page.Exact(d.Until), len(d.Jobs)
	var until []float64
	for _, j := range d.Jobs {
		for _, l := range j.Lives {
			if v := l.Known - l.Worked; v >= 0 {
				until = append(until, v)
			}
		}
	}
	if a.measured = stat.Median(until); math.IsNaN(a.measured) {
		a.measured = 0
	}
	for _, p := range d.Policies {
		a.Policies = append(a.Policies, p.Policy)
	}
	a.price = d.paid()
	if err := a.draw(ctx); err != nil {
		return nil, err
	}
	a.compare()
	if err := a.others(ctx); err != nil {
		return nil, err
	}
	if err := a.returned(ctx); err != nil {
		return nil, err
	}
	a.calibrate()
	a.Waste, a.Faults = d.waste(a.rates)
	a.Starts = d.starts()
	a.note()
	return &a.Audit, nil
}

// auditor assembles an Audit.
type auditor struct {
	Audit
	day   *Day
	o     Options
	rates *rates
	moves *moves
	// sources counts the rates of the scenario by origin; left contains the jobs that are not simulated.
	sources map[rateSource]int
	left    []int
	same    []*job // jobs that ended live and are simulated
	all     []*job // those, and the ones that have not ended
	worlds  []drawn
	// price is what jobs paid live, relative to the prices of the devices for the time that they held them; 1: unknown.
	price float64
	// measured is the median of the seconds from the first progress of a life to the first measurement of its rate.
	measured float64
}

// compare fills in the day live and simulated: means, and for each job the median, over the draws.
func (a *auditor) compare() {
	live := &cluster.Outcome{End: map[int]float64{}, Cost: map[int]float64{}}
	var errs []float64
	for _, j := range a.day.Jobs {
		row := jobAudit{ID: j.ID, Name: j.Name, User: j.User, State: string(j.State), JCTS: page.Exact(j.End - j.Arrival), SimulatedJCTS: page.Exact(math.NaN()), Error: page.Exact(math.NaN()),
			DeadlineS: page.Exact(j.Deadline - j.Arrival), CostUSD: page.Exact(j.CostUSD), Starts: len(j.Lives)}
		switch {
		case !j.State.Ended():
			a.Running++
		case j.Deadline > 0 && !j.ended():
			a.Unfinished++
		}
		live.End[j.ID], live.Cost[j.ID] = j.End, j.CostUSD
		if !slices.Contains(a.left, j.ID) {
			ends := make([]float64, len(a.worlds))
			for k := range a.worlds {
				ends[k] = a.worlds[k].day.End[j.ID]
			}
			row.SimulatedJCTS = page.Exact(stat.Median(ends) - j.Arrival)
			if j.ended() {
				live.Moves += len(j.Lives) - 1
				row.Error = (row.SimulatedJCTS - row.JCTS) / row.JCTS
				errs = append(errs, math.Abs(float64(row.Error)))
			}
		}
		a.Jobs = append(a.Jobs, row)
	}
	a.Compared, a.MedianError = len(a.same), page.Exact(stat.Median(errs))
	a.Deadlines = stat.Count(a.all, func(j *job) bool { return j.Deadline > 0 })
	a.Live = a.summary(live)
	if len(a.worlds) == 0 || a.day.Changed || float64(a.Running) > mostRunning*float64(len(a.day.Jobs)) {
		nan := page.Exact(math.NaN())
		a.Simulated, a.MedianError, a.OneDay = summary{nan, nan, nan, nan, nan, nan}, nan, jobEstimate{nan, nan, nan}
		return
	}
	n := page.Exact(len(a.worlds))
	var days []float64
	for k := range a.worlds {
		s := a.summary(a.worlds[k].day)
		days = append(days, float64(s.MeanJCTS))
		a.Simulated.MeanJCTS += s.MeanJCTS / n
		a.Simulated.MedianJCTS += s.MedianJCTS / n
		a.Simulated.MakespanS += s.MakespanS / n
		a.Simulated.CostUSD += s.CostUSD * page.Exact(a.price) / n
		a.Simulated.DeadlinesKept += s.DeadlinesKept / n
		a.Simulated.Moves += s.Moves / n
	}
	a.OneDay = oneDay(days)
}

// oneDay returns the mean of a figure over simulations, with the 5 and 95 % quantiles. Decisions between nearly equal jobs
// fall either way, so that one day, live or simulated, differs from the mean.
func oneDay(days []float64) jobEstimate {
	slices.Sort(days)
	return jobEstimate{page.Exact(stat.Mean(days)), page.Exact(stat.Quantile(days, 0.05)), page.Exact(stat.Quantile(days, 0.95))}
}

// summary returns the figures of the jobs that ended live.
func (a *auditor) summary(o *cluster.Outcome) summary {
	f := figuresOf(o, nil, a.same)
	return summary{MeanJCTS: page.Exact(f.mean), MedianJCTS: page.Exact(f.median), MakespanS: page.Exact(f.makespan - a.day.From), CostUSD: page.Exact(f.cost), DeadlinesKept: page.Exact(f.kept), Moves: page.Exact(o.Moves)}
}

// figures are the figures of jobs in an outcome.
type figures struct{ mean, median, makespan, cost, kept, sum, fair, worst float64 }

// figuresOf computes the figures of jobs, which may be listed several times; fair relates them to another outcome.
func figuresOf(o, isolated *cluster.Outcome, jobs []*job) figures {
	if len(jobs) == 0 {
		nan := math.NaN()
		return figures{nan, nan, nan, nan, nan, nan, nan, nan}
	}
	f := figures{makespan: math.NaN(), fair: math.NaN(), worst: math.NaN()}
	jcts := make([]float64, 0, len(jobs))
	ratios := 0.0
	for _, j := range jobs {
		end := o.End[j.ID]
		jcts = append(jcts, end-j.Arrival)
		f.sum += end - j.Arrival
		f.cost += o.Cost[j.ID]
		if !(f.makespan >= end) {
			f.makespan = end
		}
		if end <= j.Deadline {
			f.kept++
		}
		if isolated != nil {
			r := (end - j.Arrival) / (isolated.End[j.ID] - j.Arrival)
			ratios += r
			if !(f.worst >= r) {
				f.worst = r
			}
		}
	}
	if isolated != nil {
		f.fair = ratios / float64(len(jobs))
	}
	f.mean, f.median = f.sum/float64(len(jobs)), stat.Median(jcts)
	return f
}

// paid returns the costs of the jobs relative to the prices of the devices for the time that they held them: a run also
// pays for what its agent measured, such as memory. 1 without costs or prices, or if
// the devices were changed.
func (d *Day) paid() float64 {
	paid, listed := 0.0, 0.0
	for _, j := range d.Jobs {
		if !(j.CostUSD > 0) {
			continue
		}
		paid += j.CostUSD
		for _, l := range j.Lives {
			for _, t := range d.Devices {
				if t.Name == l.Device {
					listed += l.charged() * float64(l.GPUs) / 3600 * t.USDHour
				}
			}
		}
	}
	if !d.Changed && paid > 0 && listed > 0 {
		return paid / listed
	}
	return 1
}

// charged returns the seconds of a life in which its training ran, half of those in which another job had the same devices.
func (l *life) charged() float64 {
	seconds := l.Left - l.Start - l.Away
	for _, t := range l.Shared {
		seconds -= (t.until - t.since) / 2
	}
	return seconds
}

// calibrate compares the predictions of the live scheduler with what was seen.
func (a *auditor) calibrate() {
	var rate, move pairs
	for _, j := range a.day.Jobs {
		for i, l := range j.Lives {
			if done, took, ok := l.progress(); ok {
				rate.add(l.PredictedRate, done/took)
			}
			if i == 0 {
				continue
			}
			if seen := l.Worked - l.Start + j.Lives[i-1].Save; l.PredictedMove > 0 {
				move.add(l.PredictedMove, seen)
			}
		}
	}
	a.Rates, a.MoveCosts = rate.calibration(), move.calibration()
}

// pairs are predictions with what was seen.
type pairs struct{ ratios, errors []float64 }

func (p *pairs) add(predicted, seen float64) {
	if predicted > 0 && seen > 0 {
		p.ratios = append(p.ratios, seen/predicted)
		p.errors = append(p.errors, math.Abs(predicted-seen)/seen)
	}
}

func (p *pairs) calibration() calibration {
	within := stat.Count(p.errors, func(e float64) bool { return e <= 0.1 })
	return calibration{N: len(p.ratios), MedianRatio: page.Exact(stat.Median(p.ratios)), MedianError: page.Exact(stat.Median(p.errors)), Within10: page.Exact(float64(within) / float64(len(p.errors)))}
}

// note lists what was assumed.
func (a *auditor) note() {
	if len(a.worlds) == 0 {
		a.Notes = append(a.Notes, "Nothing was simulated: no job made progress whose work is known.")
	} else {
		a.Notes = append(a.Notes, "The simulated policies learn rates as the live one does: a job on a device type on which it never ran has the mean ratio of types of the jobs measured so far.",
			fmt.Sprintf("Figures are means over %d simulations with rates drawn from their measured spread, at least %g %%, and starts and saves from those of the day: decisions between nearly equal jobs can fall either way.", len(a.worlds), 100*tieBreak))
		a.Notes = append(a.Notes, a.rates.about(a.sources)...)
		if math.IsNaN(a.rates.repeat) {
			a.Notes = append(a.Notes, "No two lives of the same command were on the same devices: the intervals contain no uncertainty of measured rates.")
		}
		if len(a.Pairs) > 0 || slices.ContainsFunc(a.o.Policies, share.Packs) {
			a.Notes = append(a.Notes, fmt.Sprintf("A job beside another one that it never ran beside has the median rate of jobs of the same names; else %.0f %% of its rate alone, the median of published pairs, with unknown error.", 100*assumedRatio))
		}
		if a.moves.assumed {
			a.Notes = append(a.Notes, "No job was asked to leave: a save is assumed to take the time in which trainings leave after their last step, and that to write a checkpoint, which the simulations draw from none to that of their start-up, or to that of writing as much as the job has written, at 20 MB/s and 0.1 s, if that is less.")
		}
	}
	if n := len(slices.DeleteFunc(slices.Clone(a.day.Jobs), func(j *job) bool { return !j.silent })); n > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("Jobs that reported no progress: %d. The time for which each had its last devices counts as its work.", n))
	}
	if len(a.left) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("Not simulated, since their work or their rate is unknown, or many times longer than the day: %d of %d jobs.", len(a.left), len(a.day.Jobs)))
	}
	if n := len(a.day.Jobs) - len(a.left) - len(a.same); n > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("Simulated but not compared, since they have not completed live: %s. A job that was stopped or failed is simulated with the work that it had done.", page.Plural(n, "job")))
	}
	if a.day.Failures > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("The live policy failed in %s; jobs then kept their devices.", page.Plural(a.day.Failures, "decision")))
	}
	if a.price != 1 {
		a.Notes = append(a.Notes, fmt.Sprintf("Simulated costs are those of the devices for the time that jobs hold them, times %.3g: what jobs paid live relative to it.", a.price))
	}
	if a.day.Torn > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("Not read from the event log: %s, damaged or of a job whose submission is missing.", page.Plural(a.day.Torn, "line")))
	}
	if a.day.Changed {
		a.Notes = append(a.Notes, "The devices were changed; all simulations have the last ones.")
	}
	if a.day.Restarts > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("Restarts of the server: %d; the simulated one runs all the time.", a.day.Restarts))
	}
}

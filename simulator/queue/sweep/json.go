package sweep

import (
	"trainopt/optimizer/report/page"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue"
)

// job is the JSON form of an outcome.
type job struct {
	ID        string     `json:"id"`
	Submit    page.Exact `json:"submit_s"`
	Start     page.Exact `json:"start_s"`
	End       page.Exact `json:"end_s"`
	Procs     int        `json:"procs"`
	Allocated *string    `json:"allocated"` // set of cores in Batsim's notation
	State     string     `json:"state"`
}

// document is schema 1 of the JSON output. Values of the summary keep their names.
type document struct {
	Schema          int            `json:"schema"`
	Engine          string         `json:"engine"`
	Policy          string         `json:"policy"`
	Backfill        string         `json:"backfill"`
	Placement       *string        `json:"placement"`
	Seed            uint64         `json:"seed"`
	AsPublished     bool           `json:"as_published"`
	Compat          bool           `json:"compat"`
	Workload        string         `json:"workload"`
	Procs           int            `json:"procs"`
	Window          [2]int         `json:"window"` // start, length
	Jobs            []job          `json:"jobs"`
	BoundedSlowdown page.Exact     `json:"mean_bounded_slowdown"`
	MaxBounded      page.Exact     `json:"max_bounded_slowdown"`
	Slowdown        page.Exact     `json:"mean_slowdown"`
	MaxSlowdown     page.Exact     `json:"max_slowdown"`
	Wait            page.Exact     `json:"mean_wait_s"`
	MaxWait         page.Exact     `json:"max_wait_s"`
	Turnaround      page.Exact     `json:"mean_turnaround_s"`
	MaxTurnaround   page.Exact     `json:"max_turnaround_s"`
	Utilization     page.Exact     `json:"utilization"`
	Published       page.Exact     `json:"published_utilization"`
	Makespan        page.Exact     `json:"makespan_s"` // time of the last end, as in Batsim 3
	Span            page.Exact     `json:"span_s"`     // from the first submission to the last end
	Energy          page.Exact     `json:"energy_joules"`
	Completed       int            `json:"completed"`
	Killed          int            `json:"killed"`
	Rejected        int            `json:"rejected"`
	Unfinished      int            `json:"unfinished"`
	Dropped         map[string]int `json:"dropped"`
	Events          int            `json:"events"`
	Decisions       *int           `json:"decisions"` // of HDeepRM's process
	Rewards         []page.Exact   `json:"rewards,omitempty"`
	Losses          []page.Exact   `json:"losses,omitempty"`
	Wall            page.Exact     `json:"wall_s"`
	Warnings        []string       `json:"warnings"`
}

// record returns the JSON form of the run.
func (r *RunView) record() document {
	s := r.Summary()
	d := document{Schema: 1, Engine: "queue", Policy: r.Method.Policy, Backfill: r.Method.Backfill, Seed: r.Method.Seed, AsPublished: r.Method.AsPublished,
		Compat: r.Method.Compat, Workload: r.words(), Procs: r.Procs, Window: [2]int{r.Window.Start, r.Window.Length}, Jobs: make([]job, len(r.Jobs)),
		BoundedSlowdown: page.Exact(s.BoundedSlowdown.Mean), MaxBounded: page.Exact(s.BoundedSlowdown.Max), Slowdown: page.Exact(s.Slowdown.Mean),
		MaxSlowdown: page.Exact(s.Slowdown.Max), Wait: page.Exact(s.Wait.Mean), MaxWait: page.Exact(s.Wait.Max), Turnaround: page.Exact(s.Turnaround.Mean),
		MaxTurnaround: page.Exact(s.Turnaround.Max), Utilization: page.Exact(s.Utilization), Published: page.Exact(s.PublishedUtilization),
		Makespan: page.Exact(s.Makespan), Span: page.Exact(s.Span), Energy: page.Exact(s.Energy), Completed: s.Completed, Killed: s.Killed, Rejected: s.Rejected,
		Unfinished: s.Unfinished, Dropped: r.Dropped, Events: r.Events, Wall: page.Exact(r.WallS), Warnings: append([]string{}, r.Notes...)}
	if r.Method.Placement != "" {
		d.Placement = &r.Method.Placement
	}
	if r.Counts != nil {
		d.Decisions = &r.Counts.Decisions
	}
	for _, l := range r.Learned {
		d.Rewards, d.Losses = append(d.Rewards, page.Exact(l.Reward)), append(d.Losses, page.Exact(l.Loss))
	}
	for i := range r.Jobs {
		d.Jobs[i] = asJob(&r.Jobs[i])
	}
	return d
}

func asJob(o *queue.Outcome) job {
	j := job{ID: o.Job.Label(), Submit: page.Exact(o.Job.Submit), Start: page.Exact(o.Start), End: page.Exact(o.End), Procs: o.Job.Procs, State: stateNames[o.State]}
	if o.Cores != nil {
		cores := hdeeprm.FormatIntervals(o.Cores)
		j.Allocated = &cores
	}
	return j
}

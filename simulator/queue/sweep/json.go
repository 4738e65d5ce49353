package sweep

import (
	"trainopt/optimizer/report/page"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue"
)

// number is a float that JSON represents as null where it is unknown.
type number float64

func (n number) MarshalJSON() ([]byte, error) { return page.JSONNumber(float64(n), -1) }

// job is the JSON form of an outcome.
type job struct {
	ID        string  `json:"id"`
	Submit    number  `json:"submit_s"`
	Start     number  `json:"start_s"`
	End       number  `json:"end_s"`
	Procs     int     `json:"procs"`
	Allocated *string `json:"allocated"` // set of cores in Batsim's notation
	State     string  `json:"state"`
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
	BoundedSlowdown number         `json:"mean_bounded_slowdown"`
	MaxBounded      number         `json:"max_bounded_slowdown"`
	Slowdown        number         `json:"mean_slowdown"`
	MaxSlowdown     number         `json:"max_slowdown"`
	Wait            number         `json:"mean_wait_s"`
	MaxWait         number         `json:"max_wait_s"`
	Turnaround      number         `json:"mean_turnaround_s"`
	MaxTurnaround   number         `json:"max_turnaround_s"`
	Utilization     number         `json:"utilization"`
	Published       number         `json:"published_utilization"`
	Makespan        number         `json:"makespan_s"` // time of the last end, as in Batsim 3
	Span            number         `json:"span_s"`     // from the first submission to the last end
	Energy          number         `json:"energy_joules"`
	Completed       int            `json:"completed"`
	Killed          int            `json:"killed"`
	Rejected        int            `json:"rejected"`
	Unfinished      int            `json:"unfinished"`
	Dropped         map[string]int `json:"dropped"`
	Events          int            `json:"events"`
	Decisions       *int           `json:"decisions"` // of HDeepRM's process
	Rewards         []number       `json:"rewards,omitempty"`
	Losses          []number       `json:"losses,omitempty"`
	Wall            number         `json:"wall_s"`
	Warnings        []string       `json:"warnings"`
}

// record returns the JSON form of the run.
func (r *RunView) record() document {
	s := r.Summary()
	d := document{Schema: 1, Engine: "queue", Policy: r.Method.Policy, Backfill: r.Method.Backfill, Seed: r.Method.Seed, AsPublished: r.Method.AsPublished,
		Compat: r.Method.Compat, Workload: r.words(), Procs: r.Procs, Window: [2]int{r.Window.Start, r.Window.Length}, Jobs: make([]job, len(r.Jobs)),
		BoundedSlowdown: number(s.BoundedSlowdown.Mean), MaxBounded: number(s.BoundedSlowdown.Max), Slowdown: number(s.Slowdown.Mean),
		MaxSlowdown: number(s.Slowdown.Max), Wait: number(s.Wait.Mean), MaxWait: number(s.Wait.Max), Turnaround: number(s.Turnaround.Mean),
		MaxTurnaround: number(s.Turnaround.Max), Utilization: number(s.Utilization), Published: number(s.PublishedUtilization),
		Makespan: number(s.Makespan), Span: number(s.Span), Energy: number(s.Energy), Completed: s.Completed, Killed: s.Killed, Rejected: s.Rejected,
		Unfinished: s.Unfinished, Dropped: r.Dropped, Events: r.Events, Wall: number(r.WallS), Warnings: append([]string{}, r.Notes...)}
	if r.Method.Placement != "" {
		d.Placement = &r.Method.Placement
	}
	if r.Counts != nil {
		d.Decisions = &r.Counts.Decisions
	}
	for _, l := range r.Learned {
		d.Rewards, d.Losses = append(d.Rewards, number(l.Reward)), append(d.Losses, number(l.Loss))
	}
	for i := range r.Jobs {
		d.Jobs[i] = asJob(&r.Jobs[i])
	}
	return d
}

func asJob(o *queue.Outcome) job {
	j := job{ID: o.Job.Label(), Submit: number(o.Job.Submit), Start: number(o.Start), End: number(o.End), Procs: o.Job.Procs, State: stateNames[o.State]}
	if o.Cores != nil {
		cores := hdeeprm.FormatIntervals(o.Cores)
		j.Allocated = &cores
	}
	return j
}

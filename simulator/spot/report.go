package spot

import (
	"io"
	"math"
	"slices"
	"strconv"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/experiment"
)

// Report is a completed job with its context.
type Report struct {
	Policy  string
	Seed    uint64
	Job     capacity.Job
	Market  Market
	From    int // tick of the market at the start of the job
	Outcome outcome
	Optimum *outcome // nil: infeasible
	Others  []Other  // the same job under all policies
	// Short descriptions of capacity and prices; prices with source and date.
	Capacity, Prices string
	PricesDated      string        // YYYY-MM-DD; empty: given by the user
	Drawn            *Availability // nil: a trace
	WallS            experiment.Number
	Warnings         []string
}

// Other is the same job under another policy.
type Other struct {
	Policy  string
	Outcome outcome
}

// formats contains the writer of each format. A new one is one line here.
var formats = page.Formats[*Report]{
	"csv":  page.CSVOf((*Report).timeline),
	"html": page.HTMLOf((*Report).pictured),
	"json": page.JSONOf((*Report).record),
	"text": page.TextOf((*Report).document),
}

// Formats lists the formats of a Report.
func Formats() []string { return formats.Names() }

// Write writes the job in one of Formats.
func (r *Report) Write(w io.Writer, format string) error {
	return formats.Write(w, "simulation", r, format)
}

type drawnJSON struct {
	UpS   experiment.Number `json:"up_s"`
	DownS experiment.Number `json:"down_s"`
}

type otherJSON struct {
	Policy  string            `json:"policy"`
	CostUSD experiment.Number `json:"cost_usd"`
	SpotS   experiment.Number `json:"spot_s"`
	DemandS experiment.Number `json:"on_demand_s"`
	Elapsed experiment.Number `json:"elapsed_s"`
	Starts  int               `json:"starts"`
	Missed  bool              `json:"missed"`
}

type stretchJSON struct {
	FromS   experiment.Number `json:"from_s"`
	ToS     experiment.Number `json:"to_s"`
	Machine string            `json:"machine"`
	Zone    string            `json:"zone,omitempty"`
	DoneS   experiment.Number `json:"done_s"`
}

// record returns the JSON form of the run, schema 1. Unknown and infinite numbers are null.
func (r *Report) record() any {
	n := func(v float64) experiment.Number { return experiment.Number(v) }
	out := struct {
		Schema      int               `json:"schema"`
		Engine      string            `json:"engine"`
		Policy      string            `json:"policy"`
		Seed        uint64            `json:"seed"`
		Capacity    string            `json:"capacity"`
		Drawn       *drawnJSON        `json:"drawn"` // null: a trace
		Zones       []string          `json:"zones"`
		Available   experiment.Number `json:"available"` // share of the time until the deadline with capacity in some zone
		TickS       experiment.Number `json:"tick_s"`
		StartS      experiment.Number `json:"start_s"`
		WorkS       experiment.Number `json:"work_s"`
		DeadlineS   experiment.Number `json:"deadline_s"`
		ChangeoverS experiment.Number `json:"changeover_s"`
		SpotUSD     experiment.Number `json:"spot_usd_per_hour"`
		DemandUSD   experiment.Number `json:"on_demand_usd_per_hour"`
		Prices      string            `json:"prices"`
		PricesDated string            `json:"prices_dated,omitempty"`
		CostUSD     experiment.Number `json:"cost_usd"`
		SpotS       experiment.Number `json:"spot_s"`
		DemandS     experiment.Number `json:"on_demand_s"`
		WaitS       experiment.Number `json:"wait_s"`
		LostS       experiment.Number `json:"changeovers_s"`
		ElapsedS    experiment.Number `json:"elapsed_s"` // null: never finished
		DoneS       experiment.Number `json:"done_s"`
		Starts      int               `json:"starts"`
		Taken       int               `json:"taken_away"`
		Missed      bool              `json:"missed"`
		AloneUSD    experiment.Number `json:"on_demand_cost_usd"`
		OptimumUSD  experiment.Number `json:"optimum_cost_usd"` // null: infeasible
		Saving      experiment.Number `json:"saving"`           // relative to on demand, a fraction
		WorkLostS   experiment.Number `json:"lost_work_s"`      // when machines were reclaimed, beyond changeovers
		Others      []otherJSON       `json:"policies"`
		Timeline    []stretchJSON     `json:"timeline"`
		WallS       experiment.Number `json:"wall_s"`
		Warnings    []string          `json:"warnings"`
	}{Schema: 1, Engine: "spot", Policy: r.Policy, Seed: r.Seed, Capacity: r.Capacity, Available: n(r.available()), TickS: n(r.Market.TickS),
		StartS: n(float64(r.From) * r.Market.TickS), WorkS: n(r.Job.WorkS), DeadlineS: n(r.Job.DeadlineS), ChangeoverS: n(r.Job.ChangeoverS),
		SpotUSD: n(r.Job.SpotUSDHour), DemandUSD: n(r.Job.OnDemandUSDHour), Prices: r.Prices, PricesDated: r.PricesDated, CostUSD: n(r.Outcome.USD),
		SpotS: n(r.Outcome.SpotS), DemandS: n(r.Outcome.OnDemandS), WaitS: n(r.Outcome.WaitS), LostS: n(r.Outcome.ChangeoverS), ElapsedS: n(r.Outcome.ElapsedS),
		DoneS: n(r.Outcome.DoneS), Starts: r.Outcome.Starts, Taken: r.Outcome.Taken, Missed: r.Outcome.Missed, AloneUSD: n(r.Job.AloneUSD()),
		OptimumUSD: n(r.optimum()), Saving: n(1 - r.Outcome.USD/r.Job.AloneUSD()), WorkLostS: n(r.Outcome.LostS), Others: []otherJSON{}, Timeline: []stretchJSON{}, WallS: r.WallS, Warnings: append([]string{}, r.Warnings...)}
	if r.Drawn != nil {
		out.Drawn = &drawnJSON{n(r.Drawn.UpS), n(r.Drawn.DownS)}
	}
	for _, z := range r.Market.Zones {
		out.Zones = append(out.Zones, z.Name)
	}
	for _, o := range r.Others {
		out.Others = append(out.Others, otherJSON{o.Policy, n(o.Outcome.USD), n(o.Outcome.SpotS), n(o.Outcome.OnDemandS), n(o.Outcome.ElapsedS), o.Outcome.Starts, o.Outcome.Missed})
	}
	for _, s := range r.Outcome.Timeline {
		out.Timeline = append(out.Timeline, stretchJSON{n(s.FromS), n(s.ToS), s.On.Machine.String(), r.zone(s.On), n(s.DoneS)})
	}
	return out
}

// zone returns the name of the zone of spot capacity; empty for other machines.
func (r *Report) zone(c capacity.Choice) string {
	if c.Machine != capacity.Spot {
		return ""
	}
	return r.Market.Zones[c.Zone].Name
}

// optimum returns the cost of the optimum, NaN if infeasible.
func (r *Report) optimum() float64 {
	if r.Optimum == nil {
		return math.NaN()
	}
	return r.Optimum.USD
}

// available returns the share of the ticks until the deadline at which some zone has capacity.
func (r *Report) available() float64 {
	ticks := max(1, int(math.Round(r.Job.DeadlineS/r.Market.TickS)))
	up := 0
	for k := range ticks {
		if slices.ContainsFunc(r.Market.Zones, func(z zone) bool { return z.Up[(r.From+k)%len(z.Up)] }) {
			up++
		}
	}
	return float64(up) / float64(ticks)
}

// timeline returns the timeline of the run, one row per period.
func (r *Report) timeline() [][]string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	rows := [][]string{{"from_s", "to_s", "machine", "zone", "done_s"}}
	for _, s := range r.Outcome.Timeline {
		rows = append(rows, []string{f(s.FromS), f(s.ToS), s.On.Machine.String(), r.zone(s.On), f(s.DoneS)})
	}
	return rows
}

package simulate

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/experiment"
	"trainopt/simulator/spot"
)

// spotFlags holds the flags for the prices and the requirements of a job on spot capacity.
type spotFlags struct {
	cli.Options
	availability             string
	zones                    int
	tick                     time.Duration
	work, changeover         time.Duration
	checkpoint, save, notice time.Duration
	spotPrice                string
	onDemandPrice            float64
	zonePrices               []float64 // of --spot-usd-hour, if it is a list
	instance                 string
}

// Defaults: the job of the paper on the machine of its traces.
const (
	defaultSpotWork       = 48 * time.Hour
	defaultSpotDeadline   = 60 * time.Hour
	defaultSpotChangeover = 12 * time.Minute
	defaultSpotTick       = 5 * time.Minute
	defaultAvailability   = "2h:1h"
	defaultSpotInstance   = "aws:p3.2xlarge"
)

func (f *spotFlags) add(o cli.Options) {
	f.Options = o
	fs := o.Flags
	f.work, f.changeover, f.tick = defaultSpotWork, defaultSpotChangeover, defaultSpotTick
	fs.StringVar(&f.availability, "availability", defaultAvailability, "generate capacity with these mean times with and without it, `UP:DOWN`")
	fs.IntVar(&f.zones, "zone-count", 1, "number of generated zones, any of which the job may use")
	cli.DurationVar(fs, &f.tick, "tick", "interval at which generated capacity changes and machines are selected, `DUR`")
	cli.DurationVar(fs, &f.work, "work", "`DUR` of the job on one uninterrupted machine")
	cli.DurationVar(fs, &f.changeover, "changeover", "`DUR` lost, and paid, at each start of a machine: start, set-up, and work since the last checkpoint")
	cli.DurationVar(fs, &f.checkpoint, "checkpoint-interval", "work between checkpoints, of which `DUR` at most is lost when a machine is reclaimed (default: part of --changeover)")
	cli.DurationVar(fs, &f.save, "save-time", "`DUR` of a save within the notice")
	cli.DurationVar(fs, &f.notice, "notice", "`DUR` between the announcement and the end of spot capacity, 2m on AWS")
	fs.StringVar(&f.spotPrice, "spot-usd-hour", "", "spot price of the machine, `USD` per hour, or one for each zone, A,B,… (default: those of the traces, if they have prices)")
	fs.Float64Var(&f.onDemandPrice, "on-demand-usd-hour", 0, "on-demand price of the machine, `USD` per hour")
	fs.StringVar(&f.instance, "instance", defaultSpotInstance, "use both prices of a `CLOUD:TYPE` of the catalogue, see optimize prices")
}

// rules returns the flags that cannot be combined; traces are the files of measured capacity.
func (f *spotFlags) rules(traces []string) []cli.Rule {
	const both = "spot-usd-hour on-demand-usd-hour"
	given := f.Changed(strings.Fields(both)...)
	return []cli.Rule{
		{If: traces != nil, Flags: "availability zone-count tick", Conflict: "--trace"},
		{If: given, Flags: "instance", Conflict: "--spot-usd-hour and --on-demand-usd-hour"},
		{If: !f.Changed("spot-usd-hour"), Flags: "on-demand-usd-hour", Requires: "--spot-usd-hour"},
		{If: !f.Changed("on-demand-usd-hour"), Flags: "spot-usd-hour", Requires: "--on-demand-usd-hour"},
		{If: !f.Changed("checkpoint-interval"), Flags: "save-time notice", Requires: "--checkpoint-interval"},
	}
}

// job returns the job given by the flags, without its deadline, at the given prices or those of the catalogue, with
// their description and date.
func (f *spotFlags) job() (j capacity.Job, prices, dated string, warnings []string, err error) {
	j = capacity.Job{WorkS: f.work.Seconds(), ChangeoverS: f.changeover.Seconds(), CheckpointS: f.checkpoint.Seconds(), SaveS: f.save.Seconds(), NoticeS: f.notice.Seconds()}
	if f.work == 0 {
		return j, "", "", nil, errors.New("--work 0: want a duration above 0")
	}
	if f.Changed("checkpoint-interval") && (f.checkpoint == 0 || f.save > f.checkpoint) {
		return j, "", "", nil, fmt.Errorf("--checkpoint-interval %v: want a duration above 0 and no shorter than --save-time %v", f.checkpoint, f.save)
	}
	if f.Changed("spot-usd-hour") {
		if err := f.givenPrices(); err != nil {
			return j, "", "", nil, err
		}
		j.SpotUSDHour, j.OnDemandUSDHour = slices.Min(f.zonePrices), f.onDemandPrice
		return j, fmt.Sprintf("%s USD/h on spot capacity, %.4g on demand, as given", f.spotPrice, f.onDemandPrice), "", nil, nil
	}
	catalogue, warnings, err := f.Catalogue()
	if err != nil {
		return j, "", "", nil, err
	}
	offer, err := catalogue.Lookup(f.instance)
	if err != nil {
		return j, "", "", nil, fmt.Errorf("--instance: %w", err)
	}
	if !(offer.Spot > 0 && offer.OnDemand > 0) {
		lacking := map[bool]string{true: "on demand", false: "on spot capacity"}[offer.Spot > 0]
		return j, "", "", nil, fmt.Errorf("--instance %s: the catalogue has no price %s: give --spot-usd-hour and --on-demand-usd-hour", f.instance, lacking)
	}
	j.SpotUSDHour, j.OnDemandUSDHour = float64(offer.Spot), float64(offer.OnDemand)
	prices = fmt.Sprintf("%s:%s: %.4g USD/h on spot capacity (of %s), %.4g on demand (of %s)", offer.Cloud, offer.Type, float64(offer.Spot), offer.SpotDated, float64(offer.OnDemand), offer.Dated)
	return j, prices, min(offer.Dated, offer.SpotDated), warnings, nil
}

// givenPrices parses --spot-usd-hour.
func (f *spotFlags) givenPrices() error {
	wrong := fmt.Errorf("--spot-usd-hour %s, --on-demand-usd-hour %v: want a price of at least 0, or one for each zone, and one above 0", f.spotPrice, f.onDemandPrice)
	f.zonePrices = nil
	for _, part := range strings.Split(f.spotPrice, ",") {
		usd, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(usd >= 0 && f.onDemandPrice > 0 && !math.IsInf(usd+f.onDemandPrice, 1)) {
			return wrong
		}
		f.zonePrices = append(f.zonePrices, usd)
	}
	return nil
}

// price sets the prices of the zones: those given take precedence over those of the traces. It returns what they are, for
// zones with prices of their own.
func (f *spotFlags) price(m *spot.Market, j capacity.Job) (string, error) {
	if n := len(f.zonePrices); n > 1 && n != len(m.Zones) {
		return "", fmt.Errorf("--spot-usd-hour %s: %d prices, but %s has %d zones", f.spotPrice, n, m.Name, len(m.Zones))
	}
	m.Zones = slices.Clone(m.Zones)
	for z := range m.Zones {
		if f.zonePrices != nil {
			m.Zones[z].USDHour = nil
		}
		if len(f.zonePrices) > 1 {
			m.Zones[z].USDHour = slices.Repeat([]float64{f.zonePrices[z]}, m.Ticks())
		}
	}
	if !m.Priced() {
		return "", nil
	}
	var parts []string
	for _, z := range m.Zones {
		usd := z.USDHour
		if usd == nil {
			usd = []float64{j.SpotUSDHour}
		}
		text := fmt.Sprintf("%.4g", slices.Min(usd))
		if most := slices.Max(usd); most > slices.Min(usd) {
			text += fmt.Sprintf(" to %.4g", most)
		}
		parts = append(parts, z.Name+" "+text)
	}
	return "spot prices of the zones, USD/h: " + strings.Join(parts, ", "), nil
}

// drawn parses --availability and validates --tick and --zone-count.
func (f *spotFlags) drawn() (spot.Availability, error) {
	up, down, ok := strings.Cut(f.availability, ":")
	a, err1 := cli.ParseDuration(up)
	b, err2 := cli.ParseDuration(down)
	if !ok || err1 != nil || err2 != nil || a <= 0 || b <= 0 {
		return spot.Availability{}, fmt.Errorf("--availability %q: want UP:DOWN, mean times with and without capacity, such as 2h:30m", f.availability)
	}
	if f.tick <= 0 || f.tick > min(a, b) {
		return spot.Availability{}, fmt.Errorf("--tick %v: want more than 0, and no more than the times of --availability %s", f.tick, f.availability)
	}
	if f.zones < 1 || f.zones > maxZones {
		return spot.Availability{}, fmt.Errorf("--zone-count %d: want 1 to %d", f.zones, maxZones)
	}
	return spot.Availability{UpS: a.Seconds(), DownS: b.Seconds()}, nil
}

// maxZones limits the number of generated zones.
const maxZones = 16

// draw generates a market that extends beyond a deadline after a start.
func (f *spotFlags) draw(startS, deadlineS float64, seed uint64) (spot.Market, *spot.Availability, string, error) {
	a, err := f.drawn()
	if err != nil {
		return spot.Market{}, nil, "", err
	}
	ticks := math.Ceil((startS + 4*deadlineS) / f.tick.Seconds())
	if ticks > spot.MostTicks {
		return spot.Market{}, nil, "", fmt.Errorf("--tick %v: more than %.0f ticks until the deadline, want a longer tick", f.tick, spot.MostTicks/4)
	}
	m, err := spot.Generate(a, f.tick.Seconds(), max(1, int(ticks)), f.zones, seed)
	description := fmt.Sprintf("capacity generated with mean times of %v with and %v without it, seed %d", short(a.UpS), short(a.DownS), seed)
	if f.zones > 1 {
		description = fmt.Sprintf("%d zones of ", f.zones) + description
	}
	return m, &a, description, err
}

func short(seconds float64) string {
	text := time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// simulateSpotOptions holds the flags of `simulate spot`.
type simulateSpotOptions struct {
	spotFlags
	format          cli.Format
	traces          []string
	policy          string
	deadline, start time.Duration
	seed            uint64
	list            bool
}

func simulateSpotCommand(e *cli.Env) *cobra.Command {
	o := &simulateSpotOptions{deadline: defaultSpotDeadline}
	cmd := &cobra.Command{
		Use: "spot", Short: "A job with a deadline on interruptible spot capacity: when to pay for a machine on demand", Args: cobra.NoArgs,
		Long: `Simulate one job on spot capacity that appears and disappears, and on demand where the policy selects that. The result
contains the cost, whether the deadline is met, the cost on demand alone, and the minimum cost given perfect knowledge of the
future. The policy "uniform" is Uniform Progress (Wu et al., "Can't Be Late", NSDI 2024); "adaptive" minimizes the expected
cost given the capacity of the week before --start; "cheapest" is uniform with moves to cheaper zones.

Capacity is a measured trace (--trace, a file in the layout of skypilot-org/spot-traces, plain or gzip; several files, or
those of a folder, are zones, any of which the job may use), or is generated (--availability). Prices are constant, or
"prices" in the traces, USD per hour at each tick. Work is kept when a machine is reclaimed, except for the loss that is part
of --changeover, or, with --checkpoint-interval, the work since the last checkpoint; with --notice of at least --save-time, one is
saved then. A missed deadline is a result, not an error.

--json prints: schema, engine, policy, seed, capacity, drawn, zones, available, tick_s, start_s,
work_s, deadline_s, changeover_s, spot_usd_per_hour, on_demand_usd_per_hour, prices, prices_dated,
cost_usd, spot_s, on_demand_s, wait_s, changeovers_s, elapsed_s, done_s, starts, taken_away, missed,
on_demand_cost_usd, optimum_cost_usd, saving, lost_work_s, policies[policy, cost_usd, spot_s, on_demand_s,
elapsed_s, starts, missed], timeline[from_s, to_s, machine, zone, done_s], wall_s, warnings[].`,
		Example: `  optimize simulate spot
  optimize simulate spot --work 20h --deadline 30h --availability 3h:1h --instance aws:p3.2xlarge --output page.html
  optimize simulate spot --trace us-west-2a.json.gz --start 36h --spot-usd-hour 0.92 --on-demand-usd-hour 3.06
  optimize simulate spot --list-policies`,
		RunE: func(*cobra.Command, []string) error {
			if o.list {
				return printList(o.Env, "policies", listSpotPolicies())
			}
			return o.run()
		},
	}
	o.add(e.Options(cmd))
	fs := o.Flags
	fs.StringSliceVar(&o.traces, "trace", nil, "measured capacity: `FILE`s or folders; several are simultaneous zones")
	cli.DurationVar(fs, &o.deadline, "deadline", "`DUR` from the start of the job to its deadline")
	cli.DurationVar(fs, &o.start, "start", "start `DUR` after the beginning of the trace")
	fs.StringVar(&o.policy, "policy", "", "policy, see --list-policies (default: adaptive if the trace has a day or more before --start, else uniform)")
	fs.BoolVar(&o.list, "list-policies", false, "list the policies with their required information")
	fs.Uint64Var(&o.seed, "seed", 0, "random seed")
	o.format.Add(fs, spot.Formats())
	return cmd
}

func listSpotPolicies() (out experiment.List) {
	for _, m := range spot.Methods() {
		out = append(out, experiment.Listed{Name: m.Name, Lines: []string{m.Does + "; requires " + m.Knows}})
	}
	return out
}

// market sets the capacity given by the flags and the tick at which the job starts.
func (o *simulateSpotOptions) market(r *spot.Report) error {
	start := o.start.Seconds()
	var err error
	if o.traces == nil {
		if r.Market, r.Drawn, r.Capacity, err = o.draw(start, o.deadline.Seconds(), o.seed); err != nil {
			return err
		}
		r.From = int(math.Round(start / r.Market.TickS))
		return nil
	}
	var zones []capacity.Trace
	var names []string
	for _, path := range o.traces {
		t, err := capacity.Load(o.Path(path))
		if err != nil {
			return fmt.Errorf("--trace %s: %w", path, err)
		}
		zones, names = append(zones, t...), append(names, filepath.Base(path))
	}
	if r.Market, err = spot.NewMarket(strings.Join(names, ", "), zones...); err != nil {
		return fmt.Errorf("--trace %s: %w", strings.Join(o.traces, ","), err)
	}
	r.From = int(math.Round(start / r.Market.TickS))
	if r.From >= r.Market.Ticks() {
		return fmt.Errorf("--start %v: the trace ends after %.4g h", o.start, float64(r.Market.Ticks())*r.Market.TickS/3600)
	}
	if over := float64(r.From)*r.Market.TickS + o.deadline.Seconds() - float64(r.Market.Ticks())*r.Market.TickS; over > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the trace ends %.4g h before the deadline and is repeated from its beginning", over/3600))
	}
	r.Capacity = "capacity as measured in " + r.Market.Name
	if len(zones) > 1 {
		r.Capacity = fmt.Sprintf("%d zones with capacity as measured in %s", len(zones), r.Market.Name)
	}
	return nil
}

// prepare returns the run given by the flags, not yet executed.
func (o *simulateSpotOptions) prepare() (*spot.Report, spot.Method, error) {
	if o.policy == "" {
		o.policy = "uniform"
		if o.start >= 24*time.Hour {
			o.policy = "adaptive"
		}
	}
	method, err := spot.Find(o.policy)
	if err != nil {
		return nil, method, fmt.Errorf("--policy: %w", err)
	}
	if o.deadline == 0 {
		return nil, method, errors.New("--deadline 0: want a duration above 0")
	}
	if err := o.Check(o.rules(o.traces)...); err != nil {
		return nil, method, err
	}
	r := &spot.Report{Policy: method.Name, Seed: o.seed}
	if r.Job, r.Prices, r.PricesDated, r.Warnings, err = o.job(); err != nil {
		return nil, method, err
	}
	r.Job.DeadlineS = o.deadline.Seconds()
	if err := o.market(r); err != nil {
		return nil, method, err
	}
	words, err := o.price(&r.Market, r.Job)
	if err != nil {
		return nil, method, err
	}
	if words != "" {
		r.Prices = fmt.Sprintf("%s; on demand %.4g", words, r.Job.OnDemandUSDHour)
	}
	if o.traces == nil {
		r.Warnings = append(r.Warnings, "capacity is generated, not measured: the times with and without it are memoryless")
	}
	if !r.Job.Feasible() {
		r.Warnings = append(r.Warnings, fmt.Sprintf("no policy can meet the deadline: work and one changeover take %.4g h, the deadline is after %.4g h", (r.Job.WorkS+r.Job.ChangeoverS)/3600, r.Job.DeadlineS/3600))
	}
	return r, method, nil
}

// run runs every policy on the same job and market, and writes the outcome of the selected one with the others for
// comparison. Policies that are infeasible for the job are omitted unless selected.
func (o *simulateSpotOptions) run() error {
	if err := o.format.Resolve(o.Options); err != nil {
		return err
	}
	r, method, err := o.prepare()
	if err != nil {
		return cli.Usagef("simulate spot: %w", err)
	}
	from := o.Clock.Monotonic()
	for _, m := range spot.Methods() {
		got, err := m.Run(r.Job, r.Market, r.From, o.seed)
		if errors.Is(err, spot.ErrInfeasible) {
			if m.Name == method.Name {
				return cli.Usagef("simulate spot: --policy %s: %w", o.policy, err)
			}
			continue
		}
		if err != nil {
			return cli.Usagef("simulate spot: %w", err)
		}
		if m.Name == "optimum" {
			r.Optimum = &got
		}
		if m.Name == method.Name {
			r.Outcome = got
		}
		r.Others = append(r.Others, spot.Other{Policy: m.Name, Outcome: got})
	}
	r.WallS = experiment.Number((o.Clock.Monotonic() - from).Seconds())
	return o.Write(o.format.File, "simulation", func(w io.Writer) error { return r.Write(w, o.format.Name) })
}

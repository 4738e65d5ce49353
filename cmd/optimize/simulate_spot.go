package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cost"
	"trainopt/simulator/experiment"
	"trainopt/simulator/spot"
)

// spotFlags holds the flags for the prices and the requirements of a job on spot capacity.
type spotFlags struct {
	availability          string
	zones                 int
	tick                  time.Duration
	work, changeover      time.Duration
	spotPrice, alonePrice float64
	instance              string
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

func (f *spotFlags) add(fs *pflag.FlagSet) {
	f.work, f.changeover, f.tick = defaultSpotWork, defaultSpotChangeover, defaultSpotTick
	fs.StringVar(&f.availability, "availability", defaultAvailability, "instead of a trace, draw capacity with these mean times with and without, `UP:DOWN`")
	fs.IntVar(&f.zones, "zones", 1, "draw so many zones, of which the job may use any")
	fs.Var(span{&f.tick}, "tick", "drawn capacity changes, and machines are chosen, every `DUR`")
	fs.Var(span{&f.work}, "work", "`DUR` that the job takes on one machine that stays")
	fs.Var(span{&f.changeover}, "changeover", "`DUR` lost, and paid, whenever a machine begins: start, set-up, and work since the last checkpoint")
	fs.Float64Var(&f.spotPrice, "spot-usd-hour", 0, "price of the machine on spot capacity, `USD` an hour")
	fs.Float64Var(&f.alonePrice, "on-demand-usd-hour", 0, "price of the machine on demand, `USD` an hour")
	fs.StringVar(&f.instance, "instance", defaultSpotInstance, "instead: both prices of a `CLOUD:TYPE` of the catalogue, see optimize prices")
}

// prices sets the prices of a job, as given or from the catalogue, and returns their description and date.
func (f *spotFlags) prices(e *env, cmd *cobra.Command, c *common, j *spot.Job) (words, dated string, warnings []string, err error) {
	one, other := cmd.Flags().Changed("spot-usd-hour"), cmd.Flags().Changed("on-demand-usd-hour")
	switch {
	case one != other:
		return "", "", nil, errors.New("--spot-usd-hour and --on-demand-usd-hour: want both, or neither and --instance")
	case one && cmd.Flags().Changed("instance"):
		return "", "", nil, errors.New("--instance says nothing with --spot-usd-hour and --on-demand-usd-hour")
	case one && !(f.spotPrice >= 0 && f.alonePrice > 0 && !math.IsInf(f.spotPrice+f.alonePrice, 1)):
		return "", "", nil, fmt.Errorf("--spot-usd-hour %v, --on-demand-usd-hour %v: want a price from 0 and one above 0", f.spotPrice, f.alonePrice)
	case one:
		j.SpotUSDHour, j.OnDemandUSDHour = f.spotPrice, f.alonePrice
		return fmt.Sprintf("%.4g USD/h on spot capacity, %.4g on demand, as given", f.spotPrice, f.alonePrice), "", nil, nil
	}
	catalogue, warnings, err := e.catalogue(c)
	if err != nil {
		return "", "", nil, err
	}
	offer, err := catalogue.Lookup(f.instance)
	if err != nil {
		return "", "", nil, fmt.Errorf("--instance: %w", err)
	}
	if !(offer.Spot > 0 && offer.OnDemand > 0) {
		return "", "", nil, fmt.Errorf("--instance %s: the catalogue has no price %s: give --spot-usd-hour and --on-demand-usd-hour", f.instance, lacking(offer))
	}
	j.SpotUSDHour, j.OnDemandUSDHour = float64(offer.Spot), float64(offer.OnDemand)
	return fmt.Sprintf("%s:%s: %.4g USD/h on spot capacity (of %s), %.4g on demand (of %s)", offer.Cloud, offer.Type, float64(offer.Spot), offer.SpotDated, float64(offer.OnDemand), offer.Dated),
		min(offer.Dated, offer.SpotDated), warnings, nil
}

func lacking(o cost.Offer) string {
	if o.Spot > 0 {
		return "on demand"
	}
	return "on spot capacity"
}

// job returns the job given by the flags, without its deadline.
func (f *spotFlags) job(e *env, cmd *cobra.Command, c *common) (j spot.Job, words, dated string, warnings []string, err error) {
	j = spot.Job{WorkS: f.work.Seconds(), ChangeoverS: f.changeover.Seconds()}
	if f.work == 0 {
		return j, "", "", nil, errors.New("--work 0: want a duration above 0")
	}
	words, dated, warnings, err = f.prices(e, cmd, c, &j)
	return j, words, dated, warnings, err
}

// drawn parses --availability and validates --tick and --zones.
func (f *spotFlags) drawn() (spot.Availability, error) {
	up, down, ok := strings.Cut(f.availability, ":")
	a, err1 := parseDuration(up)
	b, err2 := parseDuration(down)
	if !ok || err1 != nil || err2 != nil || a <= 0 || b <= 0 {
		return spot.Availability{}, fmt.Errorf("--availability %q: want UP:DOWN, mean times with and without capacity, such as 2h:30m", f.availability)
	}
	if f.tick <= 0 || f.tick > min(a, b) {
		return spot.Availability{}, fmt.Errorf("--tick %v: want more than 0, and no more than the times of --availability %s", f.tick, f.availability)
	}
	if f.zones < 1 || f.zones > mostZones {
		return spot.Availability{}, fmt.Errorf("--zones %d: want 1 to %d", f.zones, mostZones)
	}
	return spot.Availability{UpS: a.Seconds(), DownS: b.Seconds()}, nil
}

// mostZones limits the number of generated zones.
const mostZones = 16

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
	words := fmt.Sprintf("capacity drawn with means of %v up and %v away, seed %d", short(a.UpS), short(a.DownS), seed)
	if f.zones > 1 {
		words = fmt.Sprintf("%d zones of ", f.zones) + words
	}
	return m, &a, words, err
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

// simulatingSpot holds the flags of simulate spot.
type simulatingSpot struct {
	spotFlags
	traces          []string
	policy          string
	deadline, start time.Duration
	seed            uint64
	list            bool
	format, output  string
}

func simulateSpotCommand(e *env, c *common) *cobra.Command {
	f := &simulatingSpot{deadline: defaultSpotDeadline}
	cmd := &cobra.Command{
		Use: "spot", Short: "A job with a deadline where spot capacity comes and goes: when to pay for a machine on demand", Args: cobra.NoArgs,
		Long: `Runs one job on spot capacity that comes and goes, and on demand where the policy says so, and says
what it costs, whether it is in time, what on demand alone costs, and the least that anybody could
have paid who knew the future. The policy "uniform" is Uniform Progress (Wu et al., "Can't Be Late",
NSDI 2024).

Capacity is a measured trace (--trace, a file of the layout of skypilot-org/spot-traces, plain or
gzip; several files, or those of a folder, are zones of which the job may use any), or is drawn
(--availability). Prices stay as they are; work is kept when a machine is taken away, but for what
--changeover says. A missed deadline is a result and not an error.

--json prints: schema, engine, policy, seed, capacity, drawn, zones, available, tick_s, start_s,
work_s, deadline_s, changeover_s, spot_usd_per_hour, on_demand_usd_per_hour, prices, prices_dated,
cost_usd, spot_s, on_demand_s, wait_s, changeovers_s, elapsed_s, done_s, starts, taken_away, missed,
on_demand_cost_usd, optimum_cost_usd, saving, policies[policy, cost_usd, spot_s, on_demand_s,
elapsed_s, starts, missed], timeline[from_s, to_s, machine, zone, done_s], wall_s, warnings[].`,
		Example: `  optimize simulate spot
  optimize simulate spot --work 20h --deadline 30h --availability 3h:1h --instance aws:p3.2xlarge --out page.html
  optimize simulate spot --trace us-west-2a.json.gz --start 36h --spot-usd-hour 0.92 --on-demand-usd-hour 3.06
  optimize simulate spot --policies`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				return e.listSpotPolicies()
			}
			return e.simulateSpot(cmd, c, f)
		},
	}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringSliceVar(&f.traces, "trace", nil, "measured capacity: `FILE`s or folders; several are zones at the same time")
	f.add(fs)
	fs.Var(span{&f.deadline}, "deadline", "`DUR` from the start of the job by which it must be done")
	fs.Var(span{&f.start}, "start", "begin `DUR` after the begin of the trace")
	fs.StringVar(&f.policy, "policy", "uniform", "who decides, see --policies")
	fs.BoolVar(&f.list, "policies", false, "list the policies, what each does and must know")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of everything that is random")
	fs.StringVar(&f.format, "format", "text", strings.Join(spot.Formats(), "|")+" (default: by the name of --out)")
	fs.StringVarP(&f.output, "out", "o", "", "write to `FILE` instead of standard output")
	return cmd
}

func (e *env) listSpotPolicies() error {
	var b bytes.Buffer
	for _, m := range spot.Methods() {
		fmt.Fprintf(&b, "%-10s %s; knows %s\n", m.Name, m.Does, m.Knows)
	}
	return writeAll(e.stdout, b.Bytes())
}

// market sets the capacity given by the flags and the tick at which the job starts.
func (f *simulatingSpot) market(e *env, cmd *cobra.Command, r *spot.Report) error {
	start := f.start.Seconds()
	if f.traces == nil {
		var err error
		if r.Market, r.Drawn, r.Capacity, err = f.draw(start, f.deadline.Seconds(), f.seed); err != nil {
			return err
		}
		r.From = int(math.Round(start / r.Market.TickS))
		return nil
	}
	if err := notWithTraces(cmd, "--trace"); err != nil {
		return err
	}
	var zones []spot.Trace
	for _, path := range f.traces {
		t, err := spot.Load(inDir(e.dir, path))
		if err != nil {
			return fmt.Errorf("--trace %s: %w", path, err)
		}
		zones = append(zones, t...)
	}
	var err error
	names := make([]string, len(f.traces))
	for i, path := range f.traces {
		names[i] = filepath.Base(path)
	}
	if r.Market, err = spot.NewMarket(strings.Join(names, ", "), zones...); err != nil {
		return fmt.Errorf("--trace %s: %w", strings.Join(f.traces, ","), err)
	}
	r.From = int(math.Round(start / r.Market.TickS))
	if r.From >= r.Market.Ticks() {
		return fmt.Errorf("--start %v: the trace ends after %.4g h", f.start, float64(r.Market.Ticks())*r.Market.TickS/3600)
	}
	if over := float64(r.From)*r.Market.TickS + f.deadline.Seconds() - float64(r.Market.Ticks())*r.Market.TickS; over > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the trace ends %.4g h before the deadline, and begins again there", over/3600))
	}
	r.Capacity = "capacity as measured in " + r.Market.Name
	if len(zones) > 1 {
		r.Capacity = fmt.Sprintf("%d zones with capacity as measured in %s", len(zones), r.Market.Name)
	}
	return nil
}

// notWithTraces rejects flags that apply only to generated capacity.
func notWithTraces(cmd *cobra.Command, flag string) error {
	for _, name := range []string{"availability", "zones", "tick"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s says nothing with %s", name, flag)
		}
	}
	return nil
}

// prepare returns the run given by the flags, not yet executed.
func (f *simulatingSpot) prepare(e *env, cmd *cobra.Command, c *common) (*spot.Report, spot.Method, error) {
	method, err := spot.Find(f.policy)
	if err != nil {
		return nil, method, fmt.Errorf("--policy: %w", err)
	}
	if f.deadline == 0 {
		return nil, method, errors.New("--deadline 0: want a duration above 0")
	}
	r := &spot.Report{Policy: method.Name, Seed: f.seed}
	var warnings []string
	if r.Job, r.Prices, r.PricesDated, warnings, err = f.job(e, cmd, c); err != nil {
		return nil, method, err
	}
	r.Job.DeadlineS = f.deadline.Seconds()
	r.Warnings = warnings
	if err := f.market(e, cmd, r); err != nil {
		return nil, method, err
	}
	if f.traces == nil {
		r.Warnings = append(r.Warnings, "capacity is drawn, not measured: times with and without it follow each other without memory")
	}
	return r, method, nil
}

// simulateSpot runs every policy on the same job and market, and writes the outcome of the selected one with the others
// for comparison. Policies that are infeasible for the job are omitted unless selected.
func (e *env) simulateSpot(cmd *cobra.Command, c *common, f *simulatingSpot) error {
	format, err := formatOf(cmd, c, f.format, f.output, spot.Formats())
	if err != nil {
		return usageError{err}
	}
	r, method, err := f.prepare(e, cmd, c)
	if err != nil {
		return usageError{fmt.Errorf("simulate spot: %w", err)}
	}
	from := e.clock.Monotonic()
	if !r.Job.Feasible() {
		r.Warnings = append(r.Warnings, fmt.Sprintf("nothing is in time: work and one changeover take %.4g h, the deadline is after %.4g h", (r.Job.WorkS+r.Job.ChangeoverS)/3600, r.Job.DeadlineS/3600))
	}
	for _, m := range spot.Methods() {
		got, err := m.Run(r.Job, r.Market, r.From, f.seed)
		if errors.Is(err, spot.ErrInfeasible) {
			if m.Name == method.Name {
				return usageError{fmt.Errorf("simulate spot: --policy %s: %w", f.policy, err)}
			}
			continue
		}
		if err != nil {
			return usageError{fmt.Errorf("simulate spot: %w", err)}
		}
		if m.Name == "optimum" {
			r.Optimum = &got
		}
		if m.Name == method.Name {
			r.Outcome = got
		}
		r.Others = append(r.Others, spot.Other{Policy: m.Name, Outcome: got})
	}
	r.WallS = experiment.Number((e.clock.Monotonic() - from).Seconds())
	return e.put(f.output, "simulation", func(w io.Writer) error { return r.Write(w, format) })
}

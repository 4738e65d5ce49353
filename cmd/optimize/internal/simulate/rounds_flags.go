package simulate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/cluster"
	"trainopt/simulator/platform"
	"trainopt/simulator/workload"
)

// roundsFlags holds the flags of a simulation in rounds except the load: the cluster, the kind of jobs and the
// mechanism.
type roundsFlags struct {
	cli.Options
	trace, traceFormat, generate, window, reference string
	throughputs, prices                             string
	perServer                                       string
	slos, priorities, compat, ideal, wholeRounds    bool
	filled, globalQueue, skipUnknown                bool
	drawTypes                                       int64
	duration, interval, recompute, preemption       string
	limit                                           string
	preemptionSteps, backlog, profiled              float64
	referenceModels                                 int
	agent                                           string
	agentData                                       []byte
}

const defaultCluster = "v100=36,p100=36,k80=36"

func (f *roundsFlags) add(o cli.Options) {
	f.Options = o
	fs := o.Flags
	fs.StringVar(&f.trace, "trace", "", "read the jobs from `FILE`, which may be compressed by gzip")
	fs.StringVar(&f.traceFormat, "trace-format", "", "format of the trace (default: by its content)")
	fs.StringVar(&f.generate, "generate", "", "generate jobs as Gavel does: single|multi (devices of a job) (default single)")
	fs.Int64Var(&f.drawTypes, "draw-types", 0, "with --trace: draw a type for jobs whose type was not measured, with this seed; durations are kept")
	fs.BoolVar(&f.skipUnknown, "skip-unknown", false, "with --trace: leave out and count jobs whose type was not measured")
	fs.BoolVar(&f.filled, "filled", false, "fill the cluster with generated jobs at the start, before further jobs arrive")
	fs.StringVar(&f.window, "window", "", "report on the jobs `A:B` (IDs, B excluded)")
	fs.StringVar(&f.duration, "duration", "", "duration `DUR` of each generated job alone on the reference device (default: drawn)")
	fs.StringVar(&f.reference, "reference", "v100", "device type on which durations hold")
	fs.BoolVar(&f.priorities, "priorities", false, "give 20 % of the generated jobs weight 5")
	fs.BoolVar(&f.slos, "slos", false, "give generated jobs deadlines of 1.2, 2 or 10 times their duration")
	fs.StringVar(&f.perServer, "gpus-per-server", "1", "devices per server, `N` or by type: a100=8,t4=4")
	fs.StringVar(&f.throughputs, "throughputs", "", "throughput table, `FILE` in Gavel's format (default: that of Gavel, embedded)")
	fs.StringVar(&f.prices, "prices", "gavel", "gavel|gavel-on-demand|catalogue or a `FILE` with kind,usd_hour")
	fs.BoolVar(&f.compat, "compat", false, "simulate as the published code of Gavel does")
	fs.BoolVar(&f.ideal, "ideal", false, "no rounds: every job gets exactly its shares")
	fs.BoolVar(&f.wholeRounds, "whole-rounds", false, "keep released devices idle until the end of the round (as with --compat)")
	fs.BoolVar(&f.globalQueue, "global-queue", false, "with --compat: one queue for the devices of all types, the most urgent first")
	fs.StringVar(&f.interval, "round", "360", "length of a round, `DUR` or seconds")
	fs.StringVar(&f.recompute, "recompute", "", "minimum time between two decisions, `DUR` or seconds (default: 1920 with --compat, else none)")
	fs.StringVar(&f.preemption, "preemption-cost", "0", "time lost by a job at each restart or migration, `DUR` or seconds")
	fs.Float64Var(&f.preemptionSteps, "preemption-steps", 0, "steps repeated by a job at each restart or migration, in addition")
	fs.Float64Var(&f.profiled, "profiling-percentage", 1, "share (0 to 1) of the pairs with reference models that is measured before jobs are paired")
	fs.IntVar(&f.referenceModels, "reference-models", 0, "number of job types whose pairs are measured in advance (default: all)")
	fs.StringVar(&f.agent, "agent", "", "agent `FILE` of the policies agent:PREFERENCE, from optimize pretrain --env cluster")
	fs.StringVar(&f.limit, "limit", "", "end after `DUR` of simulated time")
	fs.Float64Var(&f.backlog, "backlog", 0, "report an unstable load when jobs request this multiple of the devices with a rising trend (default 25, below 0 never)")
}

// workloadSource is the validated source of the jobs of a simulation.
type workloadSource struct {
	base        cluster.Config // without Devices, load and policy
	trace       *workload.Trace
	description string // of the jobs without the load: "jobs of x.trace"
	notes       []string
}

// rules returns the flags that cannot be combined.
func (f *roundsFlags) rules() []cli.Rule {
	trace := f.trace != ""
	return []cli.Rule{
		{If: trace, Flags: "generate arrival-rate arrival-rates static slos priorities duration filled", Conflict: "--trace"},
		{If: !trace, Flags: "trace-format draw-types skip-unknown", Requires: "--trace"},
		{If: f.skipUnknown, Flags: "draw-types", Conflict: "--skip-unknown", Reason: "jobs are either left out or given another type"},
		{If: !f.compat, Flags: "global-queue", Requires: "--compat", Reason: "by default each device is assigned to the job that gains most"},
		{If: f.compat || f.ideal, Flags: "agent", Conflict: f.changedOf("compat", "ideal"), Reason: "only the default mechanism can change its policy"},
		{If: f.compat && f.preemption != "", Flags: "preemption-cost", Conflict: "--compat", Reason: "Gavel's simulation has no such cost"},
		{If: f.Changed("arrival-rate", "arrival-rates"), Flags: "static", Conflict: f.changedOf("arrival-rate", "arrival-rates"), Reason: "jobs either arrive or are all present at the start"},
		{If: !trace && !f.Changed("arrival-rate", "arrival-rates", "figure"), Flags: "window", Requires: "--arrival-rate, --arrival-rates or --trace"},
	}
}

// changedOf returns the first of the flags that the user set, "" if none.
func (f *roundsFlags) changedOf(flags ...string) string {
	for _, name := range flags {
		if f.Changed(name) {
			return "--" + name
		}
	}
	return ""
}

// source reads the inputs that do not depend on load and cluster.
func (f *roundsFlags) source() (*workloadSource, error) {
	out := &workloadSource{base: cluster.Config{Compat: f.compat, Ideal: f.ideal, WholeRounds: f.wholeRounds, GlobalQueue: f.globalQueue, Backlog: f.backlog, Clock: f.Clock.Monotonic}}
	c := &out.base
	var duration float64
	var errs []error
	for _, d := range []struct {
		flag, text string
		into       *float64
	}{{"round", f.interval, &c.Interval}, {"preemption-cost", f.preemption, &c.Preemption.Seconds}, {"limit", f.limit, &c.Limit},
		{"recompute", f.recompute, &c.MinRecompute}, {"duration", f.duration, &duration}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.into, err = parseSeconds(d.text); err != nil {
			errs = append(errs, fmt.Errorf("--%s %w", d.flag, err))
		}
	}
	if f.recompute != "" && c.MinRecompute == 0 {
		c.MinRecompute = -1
	}
	window, err := parseWindow(f.window)
	errs = append(errs, err, f.Check(f.rules()...), f.Want("round", f.interval == "" || c.Interval > 0, "more than 0"),
		f.Want("preemption-steps", f.preemptionSteps >= 0 && !math.IsInf(f.preemptionSteps, 0), "a number of at least 0"), f.Want("backlog", !math.IsNaN(f.backlog), "a number"),
		f.Want("profiling-percentage", f.profiled > 0 && f.profiled <= 1, "a share above 0 and at most 1"))
	if f.generate != "" {
		errs = append(errs, cli.WantOne("generate", f.generate, "single", "multi"))
	}
	if f.profiled != 1 || f.referenceModels != 0 {
		c.Profiling = cluster.Profiling{Share: f.profiled, References: f.referenceModels}
	}
	c.Preemption.Steps = f.preemptionSteps
	c.Window = window
	c.Throughputs = workload.GavelTable()
	if f.throughputs != "" {
		if c.Throughputs, err = workload.LoadThroughputs(f.Path(f.throughputs)); err != nil {
			errs = append(errs, fmt.Errorf("--throughputs: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if f.trace != "" {
		return out, f.readTrace(out)
	}
	c.Filled = f.filled
	o := workload.Options{MultiGPU: f.generate == "multi", MultiPriority: f.priorities, SLOs: f.slos, Seconds: duration, Reference: f.reference}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if _, err := workload.NewGenerator(o, c.Throughputs); err != nil {
		return nil, fmt.Errorf("--generate: %w", err)
	}
	c.Generate = &o
	out.description = map[bool]string{false: "jobs on one device each", true: "jobs on 1 to 8 devices"}[o.MultiGPU]
	return out, nil
}

// readTrace loads the trace and completes its jobs.
func (f *roundsFlags) readTrace(out *workloadSource) error {
	trace, err := workload.LoadTrace(f.Path(f.trace), f.traceFormat)
	if err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	if len(trace.Jobs) == 0 {
		return fmt.Errorf("--trace %s: it has no jobs", f.trace)
	}
	o := cluster.TraceOptions{Reference: f.reference, Skip: f.skipUnknown}
	if f.Changed("draw-types") {
		o.Draw = &f.drawTypes
	}
	var notes []string
	if trace.Jobs, notes, err = cluster.CompleteTrace(trace.Jobs, out.base.Throughputs, o); err != nil {
		if !o.Skip && o.Draw == nil {
			err = fmt.Errorf("%w; --skip-unknown leaves such jobs out", err)
		}
		return fmt.Errorf("--trace %s: %w", f.trace, err)
	}
	out.notes = append(trace.Warnings(), notes...)
	out.trace, out.base.Jobs = trace, trace.Jobs
	out.description = fmt.Sprintf("%d jobs of %s", len(trace.Jobs), f.trace)
	return nil
}

// devices returns the device types of a cluster with their prices, and a note on the prices.
func (f *roundsFlags) devices(c cluster.Config, text string) ([]schedule.DeviceType, string, error) {
	known := slices.DeleteFunc(slices.Clone(c.Throughputs.Devices()), func(d string) bool { return strings.HasSuffix(d, "_unconsolidated") })
	machines, err := platform.Parse(text, known)
	if err != nil {
		return nil, "", fmt.Errorf("--cluster: %w", err)
	}
	if machines, err = machines.InServers(f.perServer); err != nil {
		return nil, "", fmt.Errorf("--gpus-per-server: %w", err)
	}
	name := f.prices
	if !slices.Contains([]string{"gavel", "gavel-on-demand", "catalogue"}, name) {
		name = f.Path(name)
	}
	prices, err := platform.Prices(name)
	if err != nil {
		return nil, "", fmt.Errorf("--prices: %w", err)
	}
	note := machines.PriceNote(machines.Price(prices))
	c.Devices = cluster.Devices(machines)
	return c.Devices, note, c.CheckSizes()
}

// parseSeconds parses a non-negative duration or number of seconds.
func parseSeconds(text string) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && v < 1e12 {
		return v, nil // beyond the range of a duration
	}
	if d, err := cli.ParseDuration(text); err == nil && d >= 0 {
		return d.Seconds(), nil
	}
	return 0, fmt.Errorf("%q: want a duration such as 6m, 2h30m or 5d, or seconds, at least 0", text)
}

// parseWindow parses "A:B"; "" is the zero window.
func parseWindow(text string) (cluster.Window, error) {
	if text == "" {
		return cluster.Window{}, nil
	}
	lo, hi, ok := strings.Cut(text, ":")
	a, err1 := strconv.Atoi(lo)
	b, err2 := strconv.Atoi(hi)
	if !ok || err1 != nil || err2 != nil || a < 0 || b <= a {
		return cluster.Window{}, fmt.Errorf("--window %q: want A:B, IDs of jobs with 0 ≤ A < B", text)
	}
	return cluster.Window{Start: a, End: b}, nil
}

// knownPolicy returns an error that names similar policies if the policy does not exist.
func knownPolicy(flag, name string) error {
	_, err := share.New(name, share.Options{})
	left := share.Names()
	if err == nil || slices.Contains(left, strings.SplitN(name, "_alpha=", 2)[0]) {
		return err
	}
	var near []string
	for range 3 {
		n := cli.Nearest(name, left)
		near = append(near, n)
		left = slices.DeleteFunc(left, func(p string) bool { return p == n })
	}
	return fmt.Errorf("%s %q: unknown, nearest known are %s; `optimize simulate rounds --list-policies` lists all", flag, name, strings.Join(near, ", "))
}

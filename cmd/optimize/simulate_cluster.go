package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/cluster"
	"trainopt/simulator/cluster/sweep"
	"trainopt/simulator/platform"
	"trainopt/simulator/workload"
)

// roundsFlags holds the flags of a simulation in rounds except the load: the cluster, the kind of jobs and the
// mechanism.
type roundsFlags struct {
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
}

const defaultCluster = "v100=36,p100=36,k80=36"

func (f *roundsFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.trace, "trace", "", "jobs of a `FILE`, which may be compressed by gzip")
	fs.StringVar(&f.traceFormat, "trace-format", "", "its format, when it is not to be told by its contents")
	fs.StringVar(&f.generate, "generate", "", "draw jobs as Gavel does: single|multi (devices of a job) (default single)")
	fs.Int64Var(&f.drawTypes, "draw-types", 0, "with --trace: jobs of kinds that nobody measured get one at random, by this seed; durations stay")
	fs.BoolVar(&f.skipUnknown, "skip-unknown", false, "with --trace: jobs of kinds that nobody measured are left out, and counted")
	fs.BoolVar(&f.filled, "filled", false, "drawn jobs fill the cluster at the start; then they arrive")
	fs.StringVar(&f.window, "window", "", "of which jobs there are figures, `A:B` (IDs, B not included)")
	fs.StringVar(&f.duration, "duration", "", "every drawn job takes `DUR` alone on the reference device (default: drawn)")
	fs.StringVar(&f.reference, "reference", "v100", "device type on which durations hold")
	fs.BoolVar(&f.priorities, "priorities", false, "20 % of the drawn jobs get weight 5")
	fs.BoolVar(&f.slos, "slos", false, "drawn jobs have deadlines of 1.2, 2 or 10 times their duration")
	fs.StringVar(&f.perServer, "gpus-per-server", "1", "devices of one server, `N` or by type: a100=8,t4=4")
	fs.StringVar(&f.throughputs, "throughputs", "", "throughput table, `FILE` in Gavel's form (default: Gavel's, in the binary)")
	fs.StringVar(&f.prices, "prices", "gavel", "gavel|gavel-on-demand|catalogue or a `FILE` with kind,usd_hour")
	fs.BoolVar(&f.compat, "compat", false, "simulate as the published code of Gavel does")
	fs.BoolVar(&f.ideal, "ideal", false, "no rounds: every job gets exactly its shares")
	fs.BoolVar(&f.wholeRounds, "whole-rounds", false, "devices that become free stay idle to the end of the round (as with --compat)")
	fs.BoolVar(&f.globalQueue, "global-queue", false, "with --compat: one queue for the devices of all types, the most urgent first")
	fs.StringVar(&f.interval, "interval", "360", "length of a round, `DUR` or seconds")
	fs.StringVar(&f.recompute, "recompute", "", "least time between two decisions, `DUR` or seconds (default: 1920 with --compat, else none)")
	fs.StringVar(&f.preemption, "preemption-cost", "0", "what a job loses each time it goes on after a pause or elsewhere, `DUR` or seconds")
	fs.Float64Var(&f.preemptionSteps, "preemption-steps", 0, "and so many steps that it does again")
	fs.Float64Var(&f.profiled, "profiling-percentage", 1, "share (0 to 1) of the pairs with reference models that is measured before jobs are paired")
	fs.IntVar(&f.referenceModels, "reference-models", 0, "how many kinds of jobs are measured beside each other before (default: all)")
	fs.StringVar(&f.limit, "limit", "", "end after `DUR` of simulated time")
	fs.Float64Var(&f.backlog, "backlog", 0, "not stable when jobs ask for so many times the devices, and more and more (default 25, below 0 never)")
}

// jobsOf is the validated source of the jobs of a simulation.
type jobsOf struct {
	base  cluster.Config // without Devices, load and policy
	trace *workload.Trace
	words string // description of the jobs without the load: "jobs of x.trace"
	notes []string
}

// jobs reads the inputs that do not depend on load and cluster.
func (f *roundsFlags) jobs(e *env, cmd *cobra.Command) (*jobsOf, error) {
	out := &jobsOf{base: cluster.Config{Compat: f.compat, Ideal: f.ideal, WholeRounds: f.wholeRounds, GlobalQueue: f.globalQueue, Backlog: f.backlog, Clock: e.clock.Monotonic}}
	c := &out.base
	var duration float64
	var errs []error
	span := func(flag, text string, into *float64) {
		if text == "" {
			return
		}
		v, err := parseSpan(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s %w", flag, err))
		}
		*into = v
	}
	span("interval", f.interval, &c.Interval)
	span("preemption-cost", f.preemption, &c.Preemption.Seconds)
	span("limit", f.limit, &c.Limit)
	span("recompute", f.recompute, &c.MinRecompute)
	span("duration", f.duration, &duration)
	if f.recompute != "" && c.MinRecompute == 0 {
		c.MinRecompute = -1
	}
	if f.interval != "" && c.Interval <= 0 {
		errs = append(errs, fmt.Errorf("--interval %s: want more than 0", f.interval))
	}
	if !(f.preemptionSteps >= 0) || math.IsInf(f.preemptionSteps, 0) {
		errs = append(errs, fmt.Errorf("--preemption-steps %v: want a number from 0", f.preemptionSteps))
	}
	if math.IsNaN(f.backlog) {
		errs = append(errs, errors.New("--backlog NaN: want a number"))
	}
	if !(f.profiled > 0 && f.profiled <= 1) {
		errs = append(errs, fmt.Errorf("--profiling-percentage %v: want a share above 0 and at most 1", f.profiled))
	}
	c.Profiling = cluster.Profiling{Share: f.profiled, References: f.referenceModels}
	if f.profiled == 1 && f.referenceModels == 0 {
		c.Profiling = cluster.Profiling{}
	}
	c.Preemption.Steps = f.preemptionSteps
	errs = append(errs, f.conflicts(cmd))
	window, err := parseWindow(f.window)
	errs = append(errs, err)
	c.Window = window
	if f.throughputs != "" {
		table, err := workload.LoadThroughputs(inDir(e.dir, f.throughputs))
		if err != nil {
			errs = append(errs, fmt.Errorf("--throughputs: %w", err))
		}
		c.Throughputs = table
	} else {
		c.Throughputs = workload.GavelTable()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if f.trace != "" {
		return out, out.readTrace(e, cmd, f)
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
	out.words = map[bool]string{false: "jobs on one device each", true: "jobs on 1 to 8 devices"}[o.MultiGPU]
	return out, nil
}

// conflicts returns an error for flags that cannot be combined.
func (f *roundsFlags) conflicts(cmd *cobra.Command) error {
	var errs []error
	if f.generate != "" && f.generate != "single" && f.generate != "multi" {
		errs = append(errs, fmt.Errorf("--generate %q: want single or multi", f.generate))
	}
	if f.trace != "" {
		for _, flag := range []string{"generate", "rate", "rates", "static", "slos", "priorities", "duration", "filled"} {
			if cmd.Flags().Changed(flag) {
				errs = append(errs, fmt.Errorf("--%s says nothing with --trace", flag))
			}
		}
	} else {
		for _, flag := range []string{"trace-format", "draw-types", "skip-unknown"} {
			if cmd.Flags().Changed(flag) {
				errs = append(errs, fmt.Errorf("--%s says nothing without --trace", flag))
			}
		}
	}
	if f.skipUnknown && cmd.Flags().Changed("draw-types") {
		errs = append(errs, errors.New("--skip-unknown says nothing with --draw-types: either jobs are left out or they get another kind"))
	}
	if f.globalQueue && !f.compat {
		errs = append(errs, errors.New("--global-queue says nothing without --compat: by default each device goes to whom it helps most"))
	}
	if f.compat && f.preemption != "" && cmd.Flags().Changed("preemption-cost") {
		errs = append(errs, errors.New("--preemption-cost says nothing with --compat: Gavel's simulation has none"))
	}
	return errors.Join(errs...)
}

// readTrace loads the trace and completes its jobs with rates of the throughput table. Jobs of unknown types are an
// error unless flags drop them or draw other types for them.
func (o *jobsOf) readTrace(e *env, cmd *cobra.Command, f *roundsFlags) error {
	trace, err := workload.LoadTrace(inDir(e.dir, f.trace), f.traceFormat)
	if err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	if len(trace.Jobs) == 0 {
		return fmt.Errorf("--trace %s: it has no jobs", f.trace)
	}
	o.notes = trace.Warnings()
	if f.skipUnknown {
		all := len(trace.Jobs)
		trace.Jobs = workload.Measured(trace.Jobs, o.base.Throughputs, f.reference)
		if len(trace.Jobs) == 0 {
			return fmt.Errorf("--trace %s: the throughput table has no rate for any of its %d jobs", f.trace, all)
		}
		if left := all - len(trace.Jobs); left > 0 {
			o.notes = append(o.notes, fmt.Sprintf("%d of %d jobs are left out, since nobody measured how fast they are: what runs is less than the trace", left, all))
		}
	}
	if cmd.Flags().Changed("draw-types") {
		var note string
		if trace.Jobs, note, err = cluster.DrawTypes(trace.Jobs, o.base.Throughputs, f.reference, f.drawTypes); note != "" {
			o.notes = append(o.notes, note)
		}
	} else {
		err = workload.Complete(trace.Jobs, o.base.Throughputs, f.reference)
		if err != nil && !f.skipUnknown {
			err = fmt.Errorf("%w; --skip-unknown leaves such jobs out", err)
		}
	}
	if err != nil {
		return fmt.Errorf("--trace %s: %w", f.trace, err)
	}
	o.trace, o.base.Jobs = trace, trace.Jobs
	o.words = fmt.Sprintf("%d jobs of %s", len(trace.Jobs), f.trace)
	return nil
}

// devices returns the device types of one cluster with their prices, and a note on the prices.
func (f *roundsFlags) devices(e *env, o *jobsOf, text string) ([]schedule.DeviceType, string, error) {
	var known []string
	for _, d := range o.base.Throughputs.Devices() {
		if !strings.HasSuffix(d, "_unconsolidated") {
			known = append(known, d)
		}
	}
	machines, err := platform.Parse(text, known)
	if err != nil {
		return nil, "", fmt.Errorf("--cluster: %w", err)
	}
	if machines, err = machines.InServers(f.perServer); err != nil {
		return nil, "", fmt.Errorf("--gpus-per-server: %w", err)
	}
	name := f.prices
	if !slices.Contains([]string{"gavel", "gavel-on-demand", "catalogue"}, name) {
		name = inDir(e.dir, name)
	}
	prices, err := platform.Prices(name)
	if err != nil {
		return nil, "", fmt.Errorf("--prices: %w", err)
	}
	unpriced := machines.Price(prices)
	var words []string
	from := ""
	for _, a := range machines {
		if a.PriceFrom != "" {
			words, from = append(words, fmt.Sprintf("%s %g", a.Name, a.USDHour)), a.PriceFrom
		}
	}
	note := ""
	if len(words) > 0 {
		note = fmt.Sprintf("USD per device-hour: %s; %s", strings.Join(words, ", "), from)
	}
	if len(unpriced) > 0 {
		note = strings.TrimPrefix(note+"; no price of "+strings.Join(unpriced, ", ")+": costs are unknown", "; ")
	}
	c := o.base
	c.Devices = cluster.Devices(machines)
	if err := sweep.Fits(&c); err != nil {
		return nil, "", err
	}
	return c.Devices, note, nil
}

// parseSpan parses a non-negative duration or number of seconds.
func parseSpan(text string) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && v < 1e12 {
		return v, nil // beyond the range of a duration
	}
	if d, err := parseDuration(text); err == nil && d >= 0 {
		return d.Seconds(), nil
	}
	return 0, fmt.Errorf("%q: want a duration such as 6m, 2h30m or 5d, or seconds, from 0", text)
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
	if err == nil || slices.Contains(share.Names(), strings.SplitN(name, "_alpha=", 2)[0]) {
		return err
	}
	left := map[string]string{}
	for _, n := range share.Names() {
		left[n] = ""
	}
	var near []string
	for range 3 {
		n := nearest(name, left)
		near = append(near, n)
		delete(left, n)
	}
	return fmt.Errorf("%s %q: unknown, nearest known are %s; `optimize simulate rounds --policies` lists all", flag, name, strings.Join(near, ", "))
}

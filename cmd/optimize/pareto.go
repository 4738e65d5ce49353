package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cost"
	"trainopt/optimizer/front"
	"trainopt/optimizer/journal"
	"trainopt/resources"
	"trainopt/sla"
)

// paretoSettings lists the settings that pareto accepts as flags, with their help for this command.
var paretoSettings = map[string]string{
	"prefer": "", "rates": "", "instance": "", "gpu-hour": "", "cpu-hour": "", "gb-hour": "", "deadline": "", "budget": "", "batch-size": "",
	"gpus":   "GPUs: of a log that does not say, `N`; with --model the range to predict, `A:B`",
	"cpus":   "CPUs: of a log that does not say, `N`; with --model the range to predict, `A:B`",
	"memory": "GiB of memory: of a log, `N`; with --model the range to predict, `A:B`",
}

// forModel lists the flags that require --model, because a recorded decision cannot be evaluated for other values.
var forModel = []string{"rates", "instance", "gpu-hour", "cpu-hour", "gb-hour", "deadline", "budget", "batch-size", "gpus", "cpus", "memory", "seed"}

type paretoFlags struct {
	format, output string
	model          bool
}

func paretoCommand(e *env, c *common) *cobra.Command {
	f := &paretoFlags{}
	cmd := &cobra.Command{
		Use: "pareto [RUN|LOG…]", Short: "Show the Pareto front of time, cost and resources, and the point that a preference selects",
		Long: `The Pareto front of time, cost and resources, the point that a preference selects, and what one gives up there.

One RUN (default: the latest) shows the candidates of its last decision; with --model its performance model predicts the whole
job afresh, on other ranges, prices or limits if you like. Several runs, or training logs, are one measured point each.`,
		Example: `  optimize pareto --prefer time
  optimize pareto latest --model --cpus 1:16 --cpu-hour 0.05
  optimize pareto one-gpu.csv two-gpus.csv four-gpus.csv --gpu-hour 2.5 --format html -o front.html`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return e.pareto(cmd, c, f, args) },
	}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringVar(&f.format, "format", "text", "text|json|csv|html|svg|markdown")
	fs.StringVarP(&f.output, "output", "o", "", "write to `FILE` instead of standard output")
	fs.BoolVar(&f.model, "model", false, "predict the whole job afresh with the performance model of the run")
	for _, s := range settings {
		if help, ok := paretoSettings[s.flag]; ok && s.flag != "" {
			if help == "" {
				help = s.help
			}
			fs.String(s.flag, s.value, help)
		}
	}
	fs.Lookup("prefer").DefValue = "that of the run, else balanced"
	return cmd
}

// pareto reads a front from runs or logs, selects a point by preference and writes the result. Without --prefer the
// preference of the run applies.
func (e *env) pareto(cmd *cobra.Command, c *common, f *paretoFlags, args []string) error {
	if c.json && !cmd.Flags().Changed("format") {
		f.format = "json"
	}
	if !front.Known(f.format) {
		return usageError{fmt.Errorf("--format %q: unknown, want one of %s", f.format, front.FormatNames())}
	}
	vals, err := loadSettings(e, cmd.Flags(), c.config)
	if err != nil {
		return usageError{err}
	}
	preference, stated, err := vals.preference()
	if err != nil {
		return usageError{err}
	}
	set, err := e.frontSet(cmd.Flags(), c, f, vals, args)
	if err != nil {
		return usageError{err}
	}
	if !stated && set.Preference != nil {
		preference = *set.Preference
	}
	chosen, err := front.Choose(set, preference)
	if err != nil {
		return usageError{err}
	}
	if f.output == "" {
		return front.Render(e.stdout, chosen, f.format, e.width())
	}
	var b bytes.Buffer // buffered so that a failure leaves an existing file unchanged
	if err := front.Render(&b, chosen, f.format, 0); err != nil {
		return err
	}
	if err := os.WriteFile(inDir(e.dir, f.output), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the front: %w", err)
	}
	return nil
}

// frontSet reads the sources named by the arguments.
func (e *env) frontSet(fs *pflag.FlagSet, c *common, f *paretoFlags, v *values, args []string) (front.Set, error) {
	if len(args) == 0 {
		args = []string{"latest"}
	}
	if len(args) == 1 && !isFile(inDir(e.dir, args[0])) {
		dir, err := e.runOrLog(c, args[0])
		if err != nil {
			return front.Set{}, err
		}
		return e.runSet(fs, dir, f.model, v)
	}
	if f.model {
		return front.Set{}, fmt.Errorf("--model asks the model of one run, and %s named: a log has none; give one run", strings.Join(args, ", "))
	}
	return e.measuredSet(c, v, args)
}

func (e *env) runSet(fs *pflag.FlagSet, dir string, model bool, v *values) (front.Set, error) {
	if model {
		d, err := e.described(dir, v)
		if err != nil {
			return front.Set{}, err
		}
		return front.FromModel(dir, d)
	}
	var asked []string
	fs.Visit(func(f *pflag.Flag) {
		if slices.Contains(forModel, f.Name) {
			asked = append(asked, "--"+f.Name)
		}
	})
	if len(asked) > 0 {
		return front.Set{}, fmt.Errorf("%s: a recorded decision has its own prices and limits; add --model to predict with others", strings.Join(asked, ", "))
	}
	return front.FromRun(dir)
}

// described returns the resources, prices, limits and seed with which the user overrides those of the run.
func (e *env) described(dir string, v *values) (front.Overrides, error) {
	var errs []error
	d := front.Overrides{Ranges: resources.Ranges{GPUs: v.text("resource.gpus"), CPUs: v.text("resource.cpus"), Memory: v.text("resource.memory"), BatchSize: v.text("resource.batch_size")}}
	rec, err := journal.ReadRecord(dir)
	if err != nil {
		return d, err
	}
	d.Seed = uint64(rec.Seed)
	if d.Rates, err = e.pricesFor(v, func() cost.Rates { return rec.Prices.Rates }); err != nil {
		errs = append(errs, err)
	}
	if v.set("sla.time_max") || v.set("sla.cost_max") {
		given := map[sla.Objective]float64{}
		if v.set("sla.time_max") {
			given[sla.Time] = v.length("sla.time_max", &errs).Seconds()
		}
		if v.set("sla.cost_max") {
			given[sla.Cost] = v.number("sla.cost_max", &errs)
		}
		spec, err := sla.New(given)
		if err != nil {
			errs = append(errs, err)
		}
		d.Spec = &spec
	}
	return d, errors.Join(errs...)
}

// pricesFor returns the prices given by the user: a file, an instance, or single prices that override base; nil if none
// is given.
func (e *env) pricesFor(v *values, base func() cost.Rates) (*cost.Rates, error) {
	rates, err := makeRates(e, v)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, p := range []struct {
		key  string
		into func(*cost.Rates) *cost.USD
	}{
		{"cost.gpu_hour", func(r *cost.Rates) *cost.USD { return &r.GPUHour }},
		{"cost.cpu_hour", func(r *cost.Rates) *cost.USD { return &r.CPUHour }},
		{"cost.gb_hour", func(r *cost.Rates) *cost.USD { return &r.GiBHour }},
	} {
		if !v.set(p.key) {
			continue
		}
		if v.text("cost.rates") != "" || v.text("cost.instance") != "" {
			errs = append(errs, fmt.Errorf("%s excludes --rates and --instance: both say what the machine costs", v.src[p.key]))
			continue
		}
		if rates == nil {
			r := base()
			rates, r.Source, r.Instance = &r, "given by hand, else "+r.Source, 0
		}
		*p.into(rates) = cost.USD(v.number(p.key, &errs))
	}
	if rates != nil && len(errs) == 0 {
		errs = append(errs, rates.Validate())
	}
	return rates, errors.Join(errs...)
}

// measuredSet returns the set in which each log and each finished run is one point.
func (e *env) measuredSet(c *common, v *values, args []string) (front.Set, error) {
	fallback, err := fallbackAllocation(v)
	errs := []error{err}
	var list []front.Finished
	gpus := false
	for _, a := range args {
		var one front.Finished
		if path := inDir(e.dir, a); isFile(path) {
			one, err = front.ReadLog(path, v.table("monitor.columns"), fallback)
		} else if path, err = e.runOrLog(c, a); err == nil {
			one, err = front.ReadRun(path)
		}
		errs = append(errs, err)
		list, gpus = append(list, one), gpus || one.Allocation.GPUs > 0
	}
	rates, err := e.pricesFor(v, func() cost.Rates { return front.AssumedRates(gpus) })
	if err := errors.Join(append(errs, err)...); err != nil {
		return front.Set{}, err
	}
	return front.FromFinished(list, rates), nil
}

// fallbackAllocation returns the allocation assumed for logs that do not record one.
func fallbackAllocation(v *values) (resources.Allocation, error) {
	var errs []error
	a := resources.Allocation{}
	for _, n := range []struct {
		key  string
		into *int
	}{{"resource.gpus", &a.GPUs}, {"resource.cpus", &a.CPUs}, {"resource.batch_size", &a.BatchSize}} {
		*n.into = v.whole(n.key, &errs)
		if *n.into < 0 {
			errs = append(errs, v.wrong(n.key, v.text(n.key), "a number from 0 on"))
		}
	}
	memory := v.number("resource.memory", &errs)
	if !(memory >= 0) {
		errs = append(errs, v.wrong("resource.memory", v.text("resource.memory"), "GiB from 0 on"))
	}
	a.Memory = resources.GiB(memory)
	return a, errors.Join(errs...)
}

// runOrLog finds a run. If the reference looks like a missing log, the error reports that.
func (e *env) runOrLog(c *common, ref string) (string, error) {
	dir, err := journal.Find(c.absoluteState(e), ref)
	if err != nil && isLog(ref) {
		return "", fmt.Errorf("read training log %s: there is no such file", ref)
	}
	return dir, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

package runs

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/optimizer/analysis"
	"trainopt/optimizer/journal"
	"trainopt/resources"
	"trainopt/sla"
)

// paretoSettings lists the settings that pareto accepts as flags, with their help for this command.
var paretoSettings = map[string]string{
	"prefer": "", "rates": "", "instance": "", "gpu-hour": "", "cpu-hour": "", "gib-hour": "", "deadline": "", "budget": "", "batch-size": "",
	"gpus":   "GPUs of logs that do not record them, `N`; with --from-model the range to predict, `A:B`",
	"cpus":   "CPUs of logs that do not record them, `N`; with --from-model the range to predict, `A:B`",
	"memory": "GiB of memory of logs that do not record it, `N`; with --from-model the range to predict, `A:B`",
}

// modelFlags lists the flags that require --from-model, because a recorded decision cannot be evaluated for other values.
const modelFlags = "rates instance gpu-hour cpu-hour gib-hour deadline budget batch-size gpus cpus memory"

// paretoOptions holds the flags of `pareto` that are not settings.
type paretoOptions struct {
	cli.Options
	format cli.Format
	model  bool
}

func paretoCommand(e *cli.Env) *cobra.Command {
	o := &paretoOptions{}
	cmd := &cobra.Command{
		GroupID: cli.Plan, Use: "pareto [RUN|LOG…]", Short: "Show the Pareto front of time, cost and resources, and the point that a preference selects",
		Long: `Show the Pareto front of time, cost and resources, the point that a preference selects, and the trade-offs of that point.

For one RUN (default: the latest), the points are the candidates of its last decision; with --from-model the performance model
of the run predicts the whole job again, optionally for other ranges, prices or limits. Each of several runs or training
logs is one measured point.`,
		Example: `  optimize pareto --prefer time
  optimize pareto latest --from-model --cpus 1:16 --cpu-hour 0.05
  optimize pareto one-gpu.csv two-gpus.csv four-gpus.csv --gpu-hour 2.5 --format html -o front.html`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	o.Options = e.Options(cmd)
	o.format.Add(o.Flags, analysis.FrontFormats())
	o.Flags.BoolVar(&o.model, "from-model", false, "predict the whole job again with the performance model of the run")
	cli.AddSettings(o.Flags, paretoSettings)
	o.Flags.Lookup("prefer").DefValue = "that of the run, else balanced"
	return cmd
}

// run reads a front from runs or logs, selects a point by preference and writes the result. Without --prefer the
// preference of the run applies.
func (o *paretoOptions) run(args []string) error {
	if err := o.format.Resolve(o.Options); err != nil {
		return err
	}
	vals, err := o.LoadSettings(o.Flags, o.Config)
	if err != nil {
		return cli.Usage(err)
	}
	preference, stated, err := vals.Preference()
	if err != nil {
		return cli.Usage(err)
	}
	set, err := o.set(vals, args)
	if err != nil {
		return cli.Usage(err)
	}
	if !stated && set.Preference != nil {
		preference = *set.Preference
	}
	chosen, err := analysis.ChooseFront(set, preference)
	if err != nil {
		return cli.Usage(err)
	}
	width := 0
	if o.format.File == "" {
		width = o.Columns()
	}
	return o.Write(o.format.File, "front", func(w io.Writer) error { return chosen.Render(w, o.format.Name, width) })
}

// set reads the sources named by the arguments.
func (o *paretoOptions) set(v *cli.Values, args []string) (analysis.FrontPoints, error) {
	if len(args) == 0 {
		args = []string{"latest"}
	}
	if len(args) > 1 || cli.IsFile(o.Path(args[0])) {
		if o.model {
			return analysis.FrontPoints{}, fmt.Errorf("--from-model requires a single run, not %s: logs contain no performance model", strings.Join(args, ", "))
		}
		return o.measured(v, args)
	}
	dir, err := o.FindRun(args[0])
	if err != nil {
		return analysis.FrontPoints{}, err
	}
	if o.model {
		d, err := o.described(dir, v)
		if err != nil {
			return analysis.FrontPoints{}, err
		}
		return analysis.FromModel(dir, d)
	}
	if err := o.Check(cli.Rule{If: true, Flags: modelFlags, Requires: "--from-model", Reason: "a recorded decision has its own prices and limits"}); err != nil {
		return analysis.FrontPoints{}, err
	}
	return analysis.FromRun(dir)
}

// described returns the resources, prices, limits and seed with which the user overrides those of the run.
func (o *paretoOptions) described(dir string, v *cli.Values) (analysis.ModelOverrides, error) {
	var errs []error
	d := analysis.ModelOverrides{Ranges: resources.Ranges{GPUs: v.Text("resource.gpus"), CPUs: v.Text("resource.cpus"), Memory: v.Text("resource.memory"), BatchSize: v.Text("resource.batch_size")}}
	rec, err := journal.ReadVerified(dir)
	if err != nil {
		return d, err
	}
	d.Seed = uint64(rec.Seed)
	if d.Rates, err = o.Rates(v, func() cost.Rates { return rec.Prices.Rates }); err != nil {
		errs = append(errs, err)
	}
	if given := v.Limits(&errs, sla.Time, sla.Cost); len(given) > 0 {
		spec, err := sla.New(given)
		if err != nil {
			errs = append(errs, err)
		}
		d.Spec = &spec
	}
	return d, errors.Join(errs...)
}

// measured returns the set in which each log and each finished run is one point.
func (o *paretoOptions) measured(v *cli.Values, args []string) (analysis.FrontPoints, error) {
	fallback, err := fallbackAllocation(v)
	errs := []error{err}
	var list []analysis.Finished
	gpus := false
	for _, a := range args {
		var one analysis.Finished
		if path := o.Path(a); cli.IsFile(path) {
			one, err = analysis.ReadFinishedLog(path, v.Table("monitor.columns"), fallback)
		} else if path, err = o.FindRun(a); err == nil {
			one, err = analysis.ReadFinishedRun(path)
		}
		errs = append(errs, err)
		list, gpus = append(list, one), gpus || one.Allocation.GPUs > 0
	}
	rates, err := o.Rates(v, func() cost.Rates { return analysis.AssumedRates(gpus) })
	if err := errors.Join(append(errs, err)...); err != nil {
		return analysis.FrontPoints{}, err
	}
	return analysis.FromFinished(list, rates), nil
}

// fallbackAllocation returns the allocation assumed for logs that do not record one.
func fallbackAllocation(v *cli.Values) (resources.Allocation, error) {
	var errs []error
	a := resources.Allocation{}
	for _, n := range []struct {
		key  string
		into *int
	}{{"resource.gpus", &a.GPUs}, {"resource.cpus", &a.CPUs}, {"resource.batch_size", &a.BatchSize}} {
		*n.into = v.Whole(n.key, &errs)
		if *n.into < 0 {
			errs = append(errs, v.Wrong(n.key, v.Text(n.key), "a number of at least 0"))
		}
	}
	memory := v.Number("resource.memory", &errs)
	if !(memory >= 0) {
		errs = append(errs, v.Wrong("resource.memory", v.Text("resource.memory"), "at least 0 GiB"))
	}
	a.Memory = resources.GiB(memory)
	return a, errors.Join(errs...)
}

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cost"
	"trainopt/monitor/trainlog"
	"trainopt/optimizer/analysis"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/logs"
	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// analyzeSettings lists the settings that analyze accepts as flags, with their help for this command.
var analyzeSettings = map[string]string{
	"deadline": "say which runs took longer than `DUR`", "budget": "say which runs cost more than `USD`",
	"min-throughput": "say which runs were slower than `X` samples/s", "max-memory": "say which runs used more than `GiB` of memory",
	"min-gpu-util": "say which runs used their GPUs less than `%`", "min-cpu-util": "say which runs used their CPUs less than `%`",
	"rates": "re-price all runs: `FILE` with what the machine costs", "instance": "re-price all runs: `CLOUD:TYPE[:spot]`",
	"gpu-hour": "re-price all runs: `USD` per GPU and hour", "cpu-hour": "re-price all runs: `USD` per CPU and hour",
	"gb-hour": "re-price all runs: `USD` per GiB of memory and hour", "log-format": "format of the logs (default: by their content)",
}

// repricing lists the flags that reprice all runs.
var repricing = []string{"rates", "instance", "gpu-hour", "cpu-hour", "gb-hour"}

type analyzeFlags struct {
	format, output string
	assumed        importFlags
}

func analyzeCommand(e *env, c *common) *cobra.Command {
	f := &analyzeFlags{assumed: importFlags{numbers: map[string]*float64{}}}
	cmd := &cobra.Command{
		Use: "analyze [LOG…|RUN…]", Short: "Analyze finished trainings: time, cost, scaling, best configuration per model, waste",
		Long: `What finished trainings say: what each model took and cost, how its speed scales with GPUs, CPUs
and batch, which configuration did the same work fastest, cheapest and for the least money a
sample, which runs break given limits, and where money went without work being done.

Training logs of any framework, or the directories in which they were left, and runs can be named
together; without any, all runs and imported logs of the state directory are looked at. Time and money are compared per unit of the same work.`,
		Example: `  optimize analyze
  optimize analyze old/*.csv --gpu-hour 2.5 --cpu-hour 0.04
  optimize analyze latest results.csv --deadline 2h --min-gpu-util 60
  optimize analyze --format html -o analysis.html
  optimize analyze --format markdown -o analysis.md`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return e.analyze(cmd.Flags(), c, f, args) },
	}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringVar(&f.format, "format", "text", "text|json|csv|html|markdown")
	fs.StringVarP(&f.output, "output", "o", "", "write to `FILE` instead of standard output")
	for _, s := range settings {
		if help, ok := analyzeSettings[s.flag]; ok && s.flag != "" {
			fs.String(s.flag, "", help)
		}
	}
	for _, n := range importNumbers {
		f.assumed.numbers[n.flag] = fs.Float64(n.flag, math.NaN(), "of a log that does not say: "+n.help)
		fs.Lookup(n.flag).DefValue = "0" // hides the default in help
	}
	fs.StringVar(&f.assumed.gpuModel, "gpu-model", "", "of a log that does not say: `NAME` of the GPUs")
	fs.StringVar(&f.assumed.model, "model", "", "of a log that does not say: `NAME` of the model")
	fs.StringVar(&f.assumed.dataset, "dataset", "", "of a log that does not say: `NAME` of the data set")
	return cmd
}

// analyze reads the settings, collects runs and logs, and writes the analysis to standard output or to a file. If
// nothing can be analyzed, it returns a usage error.
func (e *env) analyze(fs *pflag.FlagSet, c *common, f *analyzeFlags, args []string) error {
	if c.json && !fs.Changed("format") {
		f.format = "json"
	}
	if !analysis.Known(f.format) {
		return usageError{fmt.Errorf("--format %q: unknown, want one of %s", f.format, analysis.FormatNames())}
	}
	vals, err := loadSettings(e, fs, c.config)
	if err != nil {
		return usageError{err}
	}
	options, err := e.analyzeOptions(fs, vals)
	if err != nil {
		return usageError{err}
	}
	read, err := f.logOptions(vals)
	if err != nil {
		return usageError{err}
	}
	a := analysis.New(options)
	if err := e.collect(c, a, read, args); err != nil {
		return err
	}
	report := a.Analyze()
	if report.Runs == 0 {
		return usageError{errors.New(nothingToAnalyze(c, args, report))}
	}
	if f.output == "" {
		return analysis.Render(e.stdout, report, f.format)
	}
	return replaceFile(inDir(e.dir, f.output), func(w io.Writer) error { return analysis.Render(w, report, f.format) })
}

func nothingToAnalyze(c *common, args []string, r *analysis.Report) string {
	if len(args) > 0 {
		return fmt.Sprintf("analyze %s: no finished run%s", strings.Join(args, ", "), suffix(r.Notes))
	}
	return fmt.Sprintf("analyze: there are no finished runs in %s%s; name a training log, or take one in with `optimize runs import`", c.stateDir, suffix(r.Notes))
}

func suffix(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

// analyzeOptions returns the limits and prices given by the user.
func (e *env) analyzeOptions(fs *pflag.FlagSet, v *values) (analysis.Options, error) {
	var o analysis.Options
	var errs []error
	given := map[sla.Objective]float64{}
	for objective, key := range map[sla.Objective]string{sla.Cost: "sla.cost_max", sla.Throughput: "sla.throughput_min", sla.Memory: "sla.memory_max",
		sla.GPUUtil: "sla.gpu_util_min", sla.CPUUtil: "sla.cpu_util_min"} {
		if v.set(key) {
			given[objective] = v.number(key, &errs)
		}
	}
	if v.set("sla.time_max") {
		given[sla.Time] = v.length("sla.time_max", &errs).Seconds()
	}
	if len(errs) == 0 {
		limits, err := sla.New(given)
		errs, o.Limits = append(errs, err), limits
	}
	if slices.ContainsFunc(repricing, fs.Changed) {
		today := e.clock.Now().Format(time.DateOnly)
		rates, err := e.pricesFor(v, func() cost.Rates { return cost.Rates{Source: "nothing", Dated: today} })
		errs, o.Rates = append(errs, err), rates
	}
	return o, errors.Join(errs...)
}

// logOptions returns the options for reading logs, with the values that replace missing columns.
func (f *analyzeFlags) logOptions(v *values) (logs.Options, error) {
	f.assumed.format = v.text("monitor.log_format")
	assume, err := f.assumed.assume()
	if err != nil {
		if strings.Contains(err.Error(), "--format") {
			err = fmt.Errorf("--log-format %q: unknown, want one of %s", f.assumed.format, strings.Join(trainlog.Formats(), ", "))
		}
		return logs.Options{}, err
	}
	return logs.Options{Format: f.assumed.format, Aliases: v.table("monitor.columns"), Assume: assume}, nil
}

// collect adds the logs and runs named by the arguments, or the whole history without arguments.
func (e *env) collect(c *common, a *analysis.Analyzer, o logs.Options, args []string) error {
	if len(args) == 0 {
		entries, err := e.historyEntries(c, history.Filter{})
		a.AddEntries(entries)
		return err
	}
	var errs []error
	for _, arg := range args {
		log, run, err := e.logOrRun(c, arg)
		switch {
		case err != nil:
		case log != "":
			err = a.AddLog(log, o)
		default:
			err = e.addRun(c, a, run)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// logOrRun resolves a reference to the path of a training log, which may be a framework's output directory, or to a run
// directory.
func (e *env) logOrRun(c *common, ref string) (log, run string, err error) {
	path := inDir(e.dir, ref)
	if isFile(path) {
		return path, "", nil
	}
	run, err = e.runOrLog(c, ref)
	if info, stat := os.Stat(path); err != nil && stat == nil && info.IsDir() {
		return path, "", nil
	}
	return "", run, err
}

// addRun adds a run and its probes from the history of the state directory that contains the run.
func (e *env) addRun(c *common, a *analysis.Analyzer, dir string) error {
	of := *c
	of.stateDir = filepath.Dir(filepath.Dir(dir))
	entries, err := e.historyEntries(&of, history.Filter{})
	if err != nil {
		return err
	}
	id := filepath.Base(dir)
	entries = slices.DeleteFunc(entries, func(entry history.Entry) bool { return entry.ID != id && entry.Parent != id })
	if len(entries) == 0 {
		rec, err := journal.ReadRecord(dir)
		if err != nil {
			return err
		}
		return fmt.Errorf("analyze run %s: it is %s, not finished", id, rec.State)
	}
	a.AddEntries(entries)
	return nil
}

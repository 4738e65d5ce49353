package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/measured"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/predict"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// predictSettings lists the settings that predict accepts as flags, with their help for this command.
var predictSettings = map[string]string{
	"deadline": "", "budget": "", "prefer": "", "rates": "of this machine, with --here: `FILE` with what it costs",
	"gpu-hour": "of this machine, with --here: `USD` per GPU and hour", "cpu-hour": "of this machine, with --here: `USD` per CPU and hour",
	"gb-hour":   "of this machine, with --here: `USD` per GiB of memory and hour",
	"gpus":      "GPUs of the job, over all its machines, `A:B`; 0: none",
	"cpus":      "CPUs of the job, over all its machines, `A:B`",
	"epochs":    "epochs of the whole training",
	"instance":  "only these machines: `CLOUD:TYPE[:spot]`, several with commas",
	"resumable": "whether the job resumes after an interruption: auto|yes|no",
}

type predictFlags struct {
	like, script                           string
	model, framework, dataset, gpu         string
	params, layers, dataCount, size, batch string
	clouds                                 []string
	spot, here                             bool
	top                                    int
	format, output                         string
}

func predictCommand(e *env, c *common) *cobra.Command {
	f := &predictFlags{}
	cmd := &cobra.Command{
		Use: "predict", Short: "Predict time, cost and resources of a new job, with intervals, and the cheapest offers that fit",
		Long: `Time, cost and resources of a job that has not run, with 90 % intervals, what they rest on, the
cheapest offers that fit, and what would change the choice.

The job is like an earlier run or a training log (--like), a script (--script: earlier runs of it
are used), or described (--model, --params …). Predictions rest on the runs database, the log and
published measurements; where nothing measured resembles the job there is no answer. Machines are
those of the price catalogue (optimize prices), or this one (--here).

Exit code 6: no machine keeps the deadline and the budget with 95 % probability.`,
		Example: `  optimize predict --like latest --epochs 200 --deadline 8h --prefer cost
  optimize predict --script train.py --gpu t4 --top 10
  optimize predict --model resnet50 --dataset imagenet --epochs 90 --format html -o prediction.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.predict(cmd, c, f) },
	}
	flags := cmd.Flags()
	flags.SetNormalizeFunc(normalize)
	flags.StringVar(&f.like, "like", "", "a job as this `RUN` or training log (or its directory) did it")
	flags.StringVar(&f.script, "script", "", "the job of this `SCRIPT`, which is read and not run")
	flags.StringVar(&f.model, "model", "", "`NAME` of the model, such as resnet50")
	flags.StringVar(&f.framework, "framework", "", "`NAME` of the framework, such as pytorch")
	flags.StringVar(&f.dataset, "dataset", "", "`NAME` of the data set, such as imagenet")
	flags.StringVar(&f.params, "params", "", "trained parameters, `N` (25.6M, 1.3B)")
	flags.StringVar(&f.layers, "layers", "", "layers of the model, `N`")
	flags.StringVar(&f.dataCount, "data-count", "", "samples of one epoch, `N`")
	flags.StringVar(&f.size, "data-size", "", "size of the data set, `MB`")
	flags.StringVar(&f.batch, "batch", "", "samples per step over all GPUs, `N`")
	flags.StringVar(&f.gpu, "gpu", "", "only machines with this GPU `MODEL`, or a part of its name")
	flags.StringSliceVar(&f.clouds, "cloud", nil, "only machines of these `CLOUDS`")
	flags.BoolVar(&f.spot, "spot", false, "choose among spot prices")
	flags.BoolVar(&f.here, "here", false, "on this machine and not on one of the catalogue")
	flags.IntVar(&f.top, "top", 5, "how many of the cheapest offers are shown")
	flags.StringVar(&f.format, "format", "text", "text|json|csv|html|markdown")
	flags.StringVarP(&f.output, "output", "o", "", "write to `FILE` instead of standard output")
	for _, s := range settings {
		if help, ok := predictSettings[s.flag]; ok && s.flag != "" {
			flags.String(s.flag, s.value, cmp.Or(help, s.help))
		}
	}
	flags.Lookup("resumable").NoOptDefVal = "yes"
	return cmd
}

// predict builds the question from flags, settings, and --like or --script, answers it from the runs database and the
// embedded measurements, and writes the answer. An infeasible answer is written too, with its own exit code.
func (e *env) predict(cmd *cobra.Command, c *common, f *predictFlags) error {
	if c.json && !cmd.Flags().Changed("format") {
		f.format = "json"
	}
	if !predict.Known(f.format) {
		return usageError{fmt.Errorf("--format %q: unknown, want one of %s", f.format, predict.FormatNames())}
	}
	vals, err := e.projectSettings(cmd.Flags(), c)
	if err != nil {
		return usageError{err}
	}
	q, err := e.asked(f, vals)
	if err != nil {
		return usageError{err}
	}
	entries, notes, err := e.measurements(c)
	if err != nil {
		return err
	}
	q.Notes = append(q.Notes, notes...)
	about := &subject{question: q, entries: entries}
	if err := e.describe(c, f, vals, about); err != nil {
		return usageError{err}
	}
	if q.Machines, err = e.machines(c, f, vals, about); err != nil {
		return usageError{err}
	}
	entries = append(about.entries, measured.Embedded()...)
	if note := predict.FillKnown(&q.Job, entries); note != "" {
		q.Notes = append(q.Notes, note)
	}
	widen := history.Calibrate(entries).Widen
	answer, err := predict.Ask(q, entries, func(list []history.Entry) predict.Predictor {
		return transfer.New(list, transfer.Options{Widen: widen})
	})
	if errors.Is(err, transfer.ErrNoBasis) || errors.Is(err, predict.ErrNoMachine) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if err := e.writePrediction(answer, f); err != nil {
		return err
	}
	if !answer.Feasible {
		return exitError{code: run.CodeInfeasible, err: errors.New(answer.Nearest)}
	}
	return nil
}

func (e *env) writePrediction(a *predict.Answer, f *predictFlags) error {
	if f.output == "" {
		return predict.Render(e.stdout, a, f.format)
	}
	var b bytes.Buffer // buffered so that a failure leaves an existing file unchanged
	if err := predict.Render(&b, a, f.format); err != nil {
		return err
	}
	if err := os.WriteFile(inDir(e.dir, f.output), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the prediction: %w", err)
	}
	return nil
}

// measurements returns the entries of the updated runs database. A state directory that does not exist has none and is
// not created.
func (e *env) measurements(c *common) (entries []history.Entry, notes []string, err error) {
	dir := c.absoluteState(e)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	db, notes, err := history.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	more, err := db.Sync()
	if err != nil {
		return nil, nil, err
	}
	entries, err = db.Entries(history.Filter{})
	return entries, append(notes, more...), err
}

// asked returns the question given by the flags alone, with all problems in one error.
func (e *env) asked(f *predictFlags, v *values) (*predict.Question, error) {
	var errs []error
	q := &predict.Question{Job: history.NewEntry(history.Run, "").Job, Top: f.top}
	if f.like != "" && f.script != "" {
		errs = append(errs, errors.New("--like and --script exclude each other: both say which job is asked about"))
	}
	j := &q.Job
	j.Model, j.Framework, j.Dataset = f.model, f.framework, f.dataset
	for _, n := range []struct {
		flag, text string
		into       *float64
	}{{"params", f.params, &j.Params}, {"layers", f.layers, &j.Layers}, {"data-count", f.dataCount, &j.DataCount}, {"data-size", f.size, &j.DataSizeMB}, {"batch", f.batch, &q.Batch}} {
		*n.into = amount("--"+n.flag, n.text, &errs)
	}
	if v.set("resource.epochs") {
		j.Epochs = amount(v.src["resource.epochs"], v.text("resource.epochs"), &errs)
	}
	before := len(errs)
	if q.Deadline = v.length("sla.time_max", &errs); v.set("sla.time_max") && q.Deadline <= 0 && len(errs) == before {
		errs = append(errs, v.wrong("sla.time_max", v.text("sla.time_max"), "a duration above 0"))
	}
	before = len(errs)
	if q.Budget = cost.USD(v.number("sla.cost_max", &errs)); v.set("sla.cost_max") && !(q.Budget > 0) && len(errs) == before {
		errs = append(errs, v.wrong("sla.cost_max", v.text("sla.cost_max"), "an amount above 0"))
	}
	for _, r := range []struct {
		key  string
		into *resources.Range
	}{{"resource.gpus", &q.GPUs}, {"resource.cpus", &q.CPUs}} {
		if text := v.text(r.key); text != "" {
			var err error
			if *r.into, err = resources.ParseRange(text, resources.Range{Max: predict.Unbounded}); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", v.src[r.key], err))
			}
		}
	}
	if v.text("resource.cpus") != "" && q.CPUs.Max == 0 && len(errs) == 0 {
		errs = append(errs, v.wrong("resource.cpus", v.text("resource.cpus"), "at least 1"))
	}
	var err error
	if q.Preference, _, err = v.preference(); err != nil {
		errs = append(errs, err)
	}
	switch r := v.text("engine.resumable"); r {
	case "yes", "no":
		yes := r == "yes"
		q.Resumable = &yes
	case "auto":
	default:
		errs = append(errs, v.wrong("engine.resumable", r, "auto, yes or no"))
	}
	if f.top < 1 {
		errs = append(errs, fmt.Errorf("--top %d: want a number from 1 on", f.top))
	}
	if f.spot {
		q.Market = predict.Spot
	}
	return q, errors.Join(errs...)
}

// amount parses a number above 0 with an optional suffix k, M or B for thousands, millions or billions; an empty text
// yields NaN.
func amount(flag, text string, errs *[]error) float64 {
	if text == "" {
		return math.NaN()
	}
	digits, factor := text, 1.0
	for suffix, by := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			digits, factor = rest, by
		}
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(digits, ",", ""), 64)
	if n *= factor; err != nil || !(n > 0) || math.IsInf(n, 0) {
		*errs = append(*errs, fmt.Errorf("%s %q: want a number above 0, such as 50000, 25.6M or 1.3B", flag, text))
		return math.NaN()
	}
	return n
}

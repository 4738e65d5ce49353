// Package predict contains the commands about jobs that have not run, about prices, and those that measure programs:
// predict, prices, profile colocate and profile place.
package predict

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/predict"
	"trainopt/resources"
)

// Commands returns the commands of this package.
func Commands(e *cli.Env) []*cobra.Command {
	return []*cobra.Command{predictCommand(e), pricesCommand(e), profileCommand(e)}
}

// predictSettings lists the settings that predict accepts as flags, with their help for this command.
var predictSettings = map[string]string{
	"deadline": "", "budget": "", "prefer": "", "rates": "with --here: `FILE` with the prices of this machine",
	"gpu-hour": "with --here: `USD` per GPU and hour of this machine", "cpu-hour": "with --here: `USD` per CPU and hour of this machine",
	"gib-hour":  "with --here: `USD` per GiB of memory and hour of this machine",
	"gpus":      "GPUs of the job, over all its machines, `A:B`; 0: none",
	"cpus":      "CPUs of the job, over all its machines, `A:B`",
	"epochs":    "epochs of the whole training",
	"instance":  "only these machines: `CLOUD:TYPE[:spot]`, separated by commas",
	"resumable": "whether the job resumes after an interruption: auto|yes|no",
}

// options holds the flags of `predict` that are not settings.
type options struct {
	cli.Options
	format                                 cli.Format
	like, script                           string
	model, framework, dataset, gpu         string
	params, layers, dataCount, size, batch string
	clouds                                 []string
	spot, here                             bool
	top                                    int
	export, image                          string
	command                                []string // of the job, to export
}

func predictCommand(e *cli.Env) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		GroupID: cli.Plan, Use: "predict [flags] [-- COMMAND…]", Short: "Predict time, cost and resources of a new job, with intervals, and the cheapest offers that fit",
		Long: `Predict time, cost and resources of a job that has not run, with 90 % intervals, their basis, the cheapest offers that fit,
and the changes that would lead to another choice.

The job is described by an earlier run or a training log (--like), by a script (--script, with the earlier runs of it), or
by its properties (--model, --params …). Predictions are based on the runs database, the log and published measurements; if
no measurement resembles the job, no prediction is made. Machines are those of the price catalogue (optimize prices), or the
local one (--here).

With --export, the selected machine becomes a batch script of Slurm (sbatch), a task of SkyPilot (sky) or a Job of
Kubernetes (k8s-job), which runs the command after -- or else the script: with the predicted resources, and the upper end of
the predicted time as its limit (k8s-job: the deadline, if there is one).

Exit code 6: no machine meets the deadline and the budget with 95 % probability.`,
		Example: `  optimize predict --like latest --epochs 200 --deadline 8h --prefer cost
  optimize predict --script train.py --gpu t4 --top 10
  optimize predict --model resnet50 --dataset imagenet --epochs 90 --format html -o prediction.html
  optimize predict --script train.py --epochs 90 --gpu a100 --export sbatch -o train.sbatch
  optimize predict --like latest --export sky -o task.yaml -- python3 train.py --lr 0.1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n != 0 && len(args) > 0 {
				return cobra.NoArgs(cmd, args)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { o.command = args; return o.run() },
	}
	o.Options = e.Options(cmd)
	fs := o.Flags
	fs.StringVar(&o.like, "like", "", "a job like this `RUN` or training log (or its directory)")
	fs.StringVar(&o.script, "script", "", "the job of this `SCRIPT`, which is read but not run")
	fs.StringVar(&o.model, "model", "", "`NAME` of the model, such as resnet50")
	fs.StringVar(&o.framework, "framework", "", "`NAME` of the framework, such as pytorch")
	fs.StringVar(&o.dataset, "dataset", "", "`NAME` of the data set, such as imagenet")
	fs.StringVar(&o.params, "params", "", "trained parameters, `N` (25.6M, 1.3B)")
	fs.StringVar(&o.layers, "layers", "", "layers of the model, `N`")
	fs.StringVar(&o.dataCount, "data-count", "", "samples per epoch, `N`")
	fs.StringVar(&o.size, "data-size", "", "size of the data set, `MB`")
	fs.StringVar(&o.batch, "batch-size", "", "samples per step over all GPUs, `N`")
	fs.StringVar(&o.gpu, "gpu", "", "only machines with this GPU `MODEL`, or a part of its name")
	fs.StringSliceVar(&o.clouds, "cloud", nil, "only machines of these `CLOUDS`")
	fs.BoolVar(&o.spot, "spot", false, "select among spot prices")
	fs.BoolVar(&o.here, "here", false, "predict for this machine instead of those of the catalogue")
	fs.IntVar(&o.top, "top", 5, "number of cheapest offers to show")
	fs.StringVar(&o.export, "export", "", "write a file that starts the job on the selected machine: "+strings.Join(predict.Exports(), "|"))
	fs.StringVar(&o.image, "image", "", "container image of the command, `NAME` (with --export k8s-job)")
	o.format.Add(fs, predict.Formats())
	cli.AddSettings(fs, predictSettings)
	return cmd
}

// run builds the question from flags, settings, and --like or --script, answers it from the runs database and the
// embedded measurements, and writes the answer. An infeasible answer is written too, with its own exit code.
func (o *options) run() error {
	if o.export == "" {
		if err := o.format.Resolve(o.Options); err != nil {
			return err
		}
	}
	vals, err := o.ProjectSettings(o.Flags)
	if err != nil {
		return cli.Usage(err)
	}
	q, err := o.question(vals)
	if err = errors.Join(err, o.checkExport()); err != nil {
		return cli.Usage(err)
	}
	q.Today = o.Clock.Now()
	entries, notes, err := o.SharedHistory(history.Filter{})
	if err != nil {
		return err
	}
	q.Notes = append(q.Notes, notes...)
	s := &predict.Subject{Question: q, Entries: entries}
	if err := o.describe(s, vals); err != nil {
		return cli.Usage(err)
	}
	if err := o.machines(s, vals); err != nil {
		return cli.Usage(err)
	}
	entries = append(s.Entries, history.Published()...)
	if note := predict.FillKnown(&q.Job, entries); note != "" {
		q.Notes = append(q.Notes, note)
	}
	widen := history.Calibrate(entries).Widen
	answer, err := predict.Ask(q, entries, func(list []history.Entry) predict.Predictor {
		return transfer.New(list, transfer.Options{Widen: widen})
	})
	if errors.Is(err, transfer.ErrNoBasis) || errors.Is(err, predict.ErrNoMachine) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	if o.export != "" && answer.Feasible {
		return o.Write(o.format.File, o.export+" file", func(w io.Writer) error { return predict.Export(w, answer, o.export, o.command, o.image) })
	}
	if o.export != "" {
		return cli.Infeasiblef("%s; nothing is exported", answer.Nearest)
	}
	if err := o.Write(o.format.File, "prediction", func(w io.Writer) error { return answer.Render(w, o.format.Name) }); err != nil {
		return err
	}
	if !answer.Feasible {
		return cli.Infeasiblef("%s", answer.Nearest)
	}
	return nil
}

// checkExport checks the flags of an export and completes its command.
func (o *options) checkExport() error {
	if err := cli.WantOne("export", o.export, predict.Exports()...); o.export != "" && err != nil {
		return err
	}
	switch {
	case o.export == "" && len(o.command) > 0:
		return errors.New("a command after -- requires --export: nothing else runs it")
	case o.export == "" && o.image != "":
		return errors.New("--image requires --export k8s-job: nothing else runs in a container")
	case o.export == "":
		return nil
	case len(o.command) == 0 && o.script != "":
		o.command = predict.ScriptCommand(o.script)
	case o.script != "" && isArgument(o.command[0]):
		return fmt.Errorf("--export %s: %q after -- is not a program: append the whole command, such as -- %s", o.export, o.command[0],
			strings.Join(append(predict.ScriptCommand(o.script), o.command...), " "))
	case len(o.command) == 0:
		return fmt.Errorf("--export %s: the command of the job is not known: append it after --, such as -- python3 train.py", o.export)
	}
	if o.JSON {
		return fmt.Errorf("--export %s cannot be combined with --json: the exported file has its own format", o.export)
	}
	return o.Check(cli.Rule{If: true, Flags: "format top", Conflict: "--export", Reason: "the exported file has its own format"},
		cli.Rule{If: o.export != "k8s-job", Flags: "image", Requires: "--export k8s-job", Reason: "nothing else runs in a container"},
		cli.Rule{If: o.export == "sky", Flags: "here", Conflict: "--export sky", Reason: "this machine is not one of a cloud"})
}

// isArgument reports whether the first word of a command is an option or a number, as of a command without its program.
func isArgument(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return err == nil || strings.HasPrefix(word, "-")
}

// question returns the question given by the flags alone, with all problems in one error.
func (o *options) question(v *cli.Values) (*predict.Question, error) {
	var errs []error
	bad := func(key, want string) { errs = append(errs, v.Wrong(key, v.Text(key), want)) }
	q := &predict.Question{Job: history.NewEntry(history.Run, "").Job, Top: o.top}
	j := &q.Job
	j.Model, j.Framework, j.Dataset = o.model, o.framework, o.dataset
	for _, n := range []struct {
		flag, text string
		most       float64 // beyond every training
		into       *float64
	}{{"--params", o.params, maxAmount, &j.Params}, {"--layers", o.layers, maxEpochs, &j.Layers}, {"--data-count", o.dataCount, maxAmount, &j.DataCount},
		{"--data-size", o.size, maxAmount, &j.DataSizeMB}, {"--batch-size", o.batch, maxEpochs, &q.Batch}, {v.Source("resource.epochs"), v.Text("resource.epochs"), maxEpochs, &j.Epochs}} {
		*n.into = amount(n.flag, n.text, n.most, &errs)
	}
	before := len(errs)
	if q.Deadline = v.Length("sla.time_max", &errs); v.Set("sla.time_max") && q.Deadline <= 0 && len(errs) == before {
		bad("sla.time_max", "a duration above 0")
	}
	before = len(errs)
	if q.Budget = cost.USD(v.Number("sla.cost_max", &errs)); v.Set("sla.cost_max") && !(q.Budget > 0) && len(errs) == before {
		bad("sla.cost_max", "an amount above 0")
	}
	for _, r := range []struct {
		key  string
		into *resources.Range
	}{{"resource.gpus", &q.GPUs}, {"resource.cpus", &q.CPUs}} {
		if text := v.Text(r.key); text != "" {
			var err error
			if *r.into, err = resources.ParseRange(text, resources.Range{Max: predict.Unbounded}); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", v.Source(r.key), err))
			} else if r.key == "resource.cpus" && r.into.Max == 0 {
				bad(r.key, "at least 1")
			}
		}
	}
	var err error
	if q.Preference, _, err = v.Preference(); err != nil {
		errs = append(errs, err)
	}
	switch r := v.Text("engine.resumable"); r {
	case "yes", "no":
		yes := r == "yes"
		q.Resumable = &yes
	case "auto":
	default:
		bad("engine.resumable", "auto, yes or no")
	}
	errs = append(errs, o.Check(o.rules(v, q)...))
	if o.top < 1 {
		errs = append(errs, fmt.Errorf("--top %d: want at least 1", o.top))
	}
	if o.spot {
		q.Market = predict.Spot
	}
	return q, errors.Join(errs...)
}

// rules returns the flags that cannot be combined.
func (o *options) rules(v *cli.Values, q *predict.Question) []cli.Rule {
	named := v.Text("cost.instance") != ""
	return []cli.Rule{
		{If: o.like != "", Flags: "script", Conflict: "--like", Reason: "both describe the job"},
		{If: o.here, Flags: "cloud spot", Conflict: "--here", Reason: "this machine is not one of a cloud"},
		{If: !o.here, Flags: "rates gpu-hour cpu-hour gib-hour", Requires: "--here", Reason: "prices of other machines are imported with `optimize prices import`"},
		{If: named, Flags: "cloud", Conflict: "--instance", Reason: "both select machines"},
		{If: named && !o.here, Flags: "gpu", Conflict: "--instance", Reason: "a machine has its own GPUs"},
		{If: v.Text("resource.gpus") != "" && q.GPUs.Max == 0, Flags: "gpu", Conflict: "--gpus 0"},
	}
}

// describe adds the description of the job by --like or --script.
func (o *options) describe(s *predict.Subject, v *cli.Values) error {
	if v.Text("resource.gpus") != "" {
		s.UseGPU(s.GPUs.Max > 0)
	}
	if o.gpu != "" {
		s.UseGPU(true)
	}
	switch {
	case o.like != "":
		log, run, err := o.FindLogOrRun(o.like)
		switch {
		case err != nil:
		case log != "":
			err = s.LikeLog(o.like, log, history.LogOptions{Aliases: v.Table("monitor.columns")})
		default:
			err = s.LikeRun(run)
		}
		if err != nil {
			return fmt.Errorf("--like: %w", err)
		}
	case o.script != "":
		if err := s.Inspect(o.script, o.Path(o.script)); err != nil {
			return fmt.Errorf("--script: %w", err)
		}
	case s.Job.Model == "" && !(s.Job.Params > 0):
		return errors.New("describe the job: give --like RUN|LOG, --script SCRIPT, or --model NAME with --params and --epochs")
	}
	return nil
}

// machines sets the candidate machines: this machine, the named ones, or the offers of the catalogue.
func (o *options) machines(s *predict.Subject, v *cli.Values) error {
	if o.here {
		return o.thisMachine(s, v)
	}
	catalogue, err := cost.OpenCatalogue(o.PriceDirs()...)
	if err != nil {
		return err
	}
	if named := v.Text("cost.instance"); named != "" {
		if err := s.NamedMachines(catalogue, strings.Split(named, ",")); err != nil {
			return fmt.Errorf("--instance %s: %w", named, err)
		}
		return nil
	}
	if err := s.SelectMachines(catalogue, o.clouds, o.gpu); err != nil {
		return fmt.Errorf("%w%s%s: `optimize prices list` lists them", err, after(" cloud ", strings.Join(o.clouds, ", ")), after(" GPU ", o.gpu))
	}
	return nil
}

// after returns a text with a prefix, "" for an empty text.
func after(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// thisMachine sets the machine to the local one, at the given rates or, as a run, as a whole at the default rates for
// its kind.
func (o *options) thisMachine(s *predict.Subject, v *cli.Values) error {
	if v.Text("cost.instance") != "" {
		return fmt.Errorf("%s cannot be combined with --here: this machine is not one of a cloud", v.Source("cost.instance"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	host, err := resources.Discover(ctx, resources.Roots{})
	if err != nil {
		return fmt.Errorf("--here: %w", err)
	}
	return s.OwnMachine(host, func(gpu string) (*cost.Rates, error) {
		base := func() cost.Rates { return cost.Default(gpu) }
		rates, err := o.Rates(v, base)
		if err != nil {
			return nil, err
		}
		return ratesOf(host, rates, base()), nil
	})
}

// ratesOf returns the rates that a run has on a host: the given ones, or else those of the whole machine at unit prices.
func ratesOf(host resources.Host, given *cost.Rates, unit cost.Rates) *cost.Rates {
	r := unit
	if given != nil {
		r = *given
	}
	if r.Instance == 0 {
		r.CPUQuota = host.FractionalCPUs()
	}
	if given == nil {
		r = r.WholeMachine(resources.Allocation{GPUs: len(host.GPUs), CPUs: max(1, int(host.CPUs)), Memory: host.Memory})
	}
	return &r
}

// Amounts beyond every training.
const maxAmount, maxEpochs = 1e15, 1e9

// amount parses a number above 0 with an optional suffix k, M or B for thousands, millions or billions; an empty text
// yields NaN.
func amount(flag, text string, most float64, errs *[]error) float64 {
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
	if n *= factor; err != nil || !(n > 0) || n > most {
		*errs = append(*errs, fmt.Errorf("%s %q: want a number above 0 and at most %g, such as 50000, 25.6M or 1.3B", flag, text, most))
		return math.NaN()
	}
	return n
}

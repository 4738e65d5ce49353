package simulate

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/morl"
	"trainopt/morl/network"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/pretrain"
)

// saveEvery is the minimum interval between saves of a long training.
const saveEvery = 30 * time.Second

// pretrainOptions holds the flags of `pretrain`.
type pretrainOptions struct {
	cli.Options
	env, agent, out, resume, profiles, resets, keep string
	table                                           string // of placement
	trace, backfill                                 string // of queue
	procs                                           int
	steps, measure, batch, every, actions           int
	seed                                            uint64
	gamma, rate                                     float64
	hidden                                          []int
	activation, backend                             string
	history, recurrent                              int
	curves                                          []string
	site                                            siteFlags
}

func pretrainCommand(e *cli.Env) *cobra.Command {
	o := &pretrainOptions{}
	cmd := &cobra.Command{
		GroupID: cli.Study, Use: "pretrain", Short: "Train an agent in a simulated environment and save it", Args: cobra.NoArgs,
		Long: `Train an agent in a simulated environment and save it.

Environments: ` + strings.Join(environments(), ", ") + `, and process:COMMAND:
your own environment, a program that answers requests in JSON on its standard input and output; "optimize pretrain adapter" prints one
in Python for any environment of MO-Gymnasium.

Agents: ` + strings.Join(pretrain.Agents(), ", ") + policyAgents() + `.

Settings default to those of the recipe for the environment and agent. During training the agent is evaluated without
exploration; the file contains the agent with the best evaluation (--keep last: the last one).

After an interrupt (Ctrl-C) the current state is saved, and --resume FILE continues the training. Until all steps are done,
FILE` + pretrain.CheckpointSuffix + ` exists beside the agent file: the current networks and the learning curve. Neither file contains the replay
buffer or the state of the optimizer: after --resume the replay buffer is filled again before learning continues, so that a
resumed training does not give the same bytes as an uninterrupted one. An uninterrupted one gives the same bytes for the same
seed on any number of cores.`,
		Example: `  optimize pretrain --env problem:deep-sea-treasure --algorithm envelope --curves curves.html
  optimize pretrain --env training --algorithm conditioned --steps 200000 --output agent.bin
  optimize pretrain --env cluster --algorithm conditioned --output cluster.agent
  optimize pretrain --env queue --algorithm evolution --backfill rlscheduler --output mine.policy
  optimize pretrain --env placement --algorithm improved --output mine.model
  optimize pretrain --env "process:python3 environment.py deep-sea-treasure-v0" --algorithm envelope --steps 20000
  optimize pretrain --resume agent.bin`,
		RunE: func(*cobra.Command, []string) error {
			if err := o.site.check(o.Options); err != nil {
				return cli.Usage(err)
			}
			run, check := o.run, func() error { _, err := o.options(); return errors.Join(err, o.checkPaths()) }
			if _, ok := pretrain.PolicyWorlds[o.env]; ok {
				run, check = o.runPolicy, func() error { _, err := o.policyOptions(); return err }
			}
			if o.site.engine != local && o.Share == nil { // otherwise run checks
				if err := check(); err != nil {
					return cli.Usage(err)
				}
			}
			return o.site.whole(o.Env, "pretrain", run)
		},
	}
	o.Options = e.Options(cmd)
	fs := o.Flags
	const ofQueue = "with --env queue: "
	fs.StringVar(&o.env, "env", "", "environment: cluster, training, "+strings.Join(slices.Sorted(maps.Keys(pretrain.PolicyWorlds)), ", ")+", problem:`NAME` or process:COMMAND")
	fs.StringVar(&o.table, "table", place.EmbeddedData, "with --env placement: throughputs, `FILE` or metis (embedded)")
	fs.StringVar(&o.trace, "trace", "", ofQueue+"train on `FILE` in the Standard Workload Format (default: generated jobs)")
	fs.StringVar(&o.backfill, "backfill", "none", ofQueue+"none|rlscheduler")
	fs.IntVar(&o.procs, "procs", 256, ofQueue+"processors of the machine, without --trace")
	fs.StringVar(&o.agent, "algorithm", "", strings.Join(pretrain.Agents(), "|")+policyAgents())
	fs.IntVar(&o.steps, "steps", 0, "decisions to train on, including those of a resumed agent; updates of queue, episodes of placement (default: that of the recipe)")
	fs.Float64Var(&o.gamma, "gamma", 0, "discount per unit of work, above 0 to 1 (default: that of the recipe)")
	fs.Uint64Var(&o.seed, "seed", 0, "random seed")
	fs.StringVarP(&o.out, "output", "o", "", "agent `FILE` to write (default: ENV-AGENT.agent, or the resumed file)")
	fs.StringVar(&o.resume, "resume", "", "continue training the agent in `FILE`")
	fs.StringArrayVar(&o.curves, "curves", nil, "write the learning curves to `FILE`.csv or .html; may be repeated")
	fs.IntSliceVar(&o.hidden, "hidden", nil, "units of the hidden layers, `N,N` (default: those of the recipe)")
	fs.StringVar(&o.activation, "activation", "", strings.Join(network.Activations, "|")+": function of the hidden units; gelu and silu with --backend gorgonia (default relu)")
	fs.IntVar(&o.history, "observations", 0, "a state is the last `N` observations of a problem or process (default 1)")
	fs.IntVar(&o.recurrent, "recurrent", 0, "`UNITS` of a recurrent layer (GRU) that reads the --observations; with --backend gorgonia (default: none)")
	fs.StringVar(&o.backend, "backend", "", "gradients by kernels or gorgonia, which only builds with the tag gorgonia have (default kernels, or that of the resumed agent)")
	fs.Float64Var(&o.rate, "learning-rate", 0, "learning rate (default: that of the recipe)")
	fs.IntVar(&o.batch, "minibatch", 0, "transitions per batch (default: that of the recipe)")
	fs.IntVar(&o.every, "gradient-every", 0, "decisions between gradient steps (default: that of the recipe)")
	fs.IntVar(&o.measure, "evaluate-every", 0, "decisions between evaluations (default: that of the recipe)")
	fs.StringVar(&o.keep, "keep", "best", "agent to store at the end: best|last")
	fs.IntVar(&o.actions, "actions", 0, "with --env training: 9 (GPUs and CPUs) or 27 (and memory) (default 9)")
	fs.StringVar(&o.profiles, "profiles", "", "`DIR` with measured tables to draw jobs from (default: the curves fitted to them)")
	o.site.add(fs)
	cli.CompleteFlag(cmd, "env", environments)
	cmd.AddCommand(&cobra.Command{Use: "adapter", Short: "Print a Python program that serves an environment to --env process:COMMAND", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.Print(morl.Adapter) }})
	fs.StringVar(&o.resets, "resets", "", "replacement of critics: evidence|random|never (default: that of the recipe)")
	return cmd
}

// run trains an agent, saves it at most every saveEvery, and writes it with its curves at the end. An interrupt writes the
// current state and prints the command that continues; a failed save is reported once and does not stop the training.
func (o *pretrainOptions) run() error {
	options, err := o.options()
	if err == nil {
		err = o.checkPaths()
	}
	if err != nil {
		return cli.Usage(err)
	}
	ui := newLearningView(o.Env)
	options.Now, options.Progress = o.Clock.Monotonic, ui.at
	files := &pretrain.Files{Path: o.Path(o.out), Own: o.out == o.resume}
	saved, warned := o.Clock.Monotonic(), false
	options.Save = func(agent, present []byte) error {
		now := o.Clock.Monotonic()
		if now-saved < saveEvery {
			return nil
		}
		saved = now
		if err := files.Save(agent, present); err != nil && !warned {
			warned = true // keep learning: the next save may succeed
			fmt.Fprintf(o.Stderr, "optimize: save during training: %v\n", err)
		}
		return nil
	}
	t, err := pretrain.Prepare(options)
	if err != nil {
		if o.resume != "" {
			err = fmt.Errorf("resume %s: %w", o.resume, err)
		}
		return cli.Usage(err)
	}
	ctx, stop := o.UntilSignal()
	defer stop()
	r, err := t.Run(ctx)
	ui.bar.Done()
	interrupt := cli.Interrupted(ctx)
	if err != nil && interrupt == nil {
		return fmt.Errorf("pretrain: %w", err)
	}
	if err := o.write(files, r); err != nil {
		return err
	}
	if r.Present != nil {
		return interrupt.Exitf("pretrain: %w after %d of %d steps; continue with: optimize pretrain --resume %s", interrupt, r.Steps, r.Of, cli.Quote(o.out))
	}
	return nil
}

// rules returns the flags that cannot be combined.
func (o *pretrainOptions) rules() []cli.Rule {
	return []cli.Rule{
		{If: true, Flags: "table", Requires: "--env placement"},
		{If: true, Flags: "trace backfill procs", Requires: "--env queue"},
		{If: strings.HasPrefix(o.env, "problem:") || strings.HasPrefix(o.env, pretrain.ProcessPrefix), Flags: "actions profiles", Requires: "--env training", Reason: "a problem has its own"},
		{If: o.agent == "pareto", Flags: "hidden activation backend recurrent learning-rate minibatch gradient-every", Conflict: "--algorithm pareto", Reason: "it learns a table"},
	}
}

// options checks the flags and reads the files that they name.
func (o *pretrainOptions) options() (pretrain.Options, error) {
	out := pretrain.Options{Env: o.env, Agent: o.agent, Steps: o.steps, Seed: o.seed, Measure: o.measure, KeepLast: o.keep == "last",
		Backend: o.backend,
		Config:  morl.Config{Hidden: o.hidden, Activation: o.activation, History: o.history, Recurrent: o.recurrent, Gamma: o.gamma, Rate: o.rate, Batch: o.batch, Every: o.every}, Jobs: pretrain.JobOptions{Actions: o.actions}}
	out.Process = morl.Options{Dir: o.Dir, Env: o.Environ}
	if !strings.HasPrefix(o.env, pretrain.ProcessPrefix) {
		if err := oneOf("--env", o.env, environments(), o.resume != ""); err != nil {
			return out, err // which agents there are depends on it
		}
	}
	if err := errors.Join(oneOf("--algorithm", o.agent, pretrain.Agents(), o.resume != ""),
		o.Check(o.rules()...),
		o.Want("steps", o.steps >= 1, "1 or more"), o.Want("evaluate-every", o.measure >= 1, "1 or more"),
		o.Want("minibatch", o.batch >= 1, "1 or more"), o.Want("gradient-every", o.every >= 1, "1 or more"),
		o.Want("gamma", o.gamma > 0 && o.gamma <= 1, "more than 0, at most 1"), o.Want("learning-rate", o.rate > 0 && o.rate <= 1, "more than 0, at most 1"),
		o.Want("hidden", len(o.hidden) > 0, "one number a layer, such as 128,128"),
		o.Want("activation", slices.Contains(network.Activations, o.activation), strings.Join(network.Activations, ", ")),
		o.Want("backend", o.backend == pretrain.Kernels || o.backend == pretrain.Gorgonia, "kernels or gorgonia"),
		o.Want("observations", o.history >= 1, "1 or more"), o.Want("recurrent", o.recurrent >= 1, "1 or more"), o.Want("actions", o.actions == 9 || o.actions == 27, "9 or 27"),
		o.Want("keep", o.keep == "best" || o.keep == "last", "best or last"),
		o.Want("resets", slices.Contains([]string{"evidence", "random", "never"}, o.resets), "evidence, random or never")); err != nil {
		return out, err
	}
	switch o.resets {
	case "":
	case "never":
		out.NoResets = true
	default:
		out.Config.Resets.Mode = o.resets
		if o.env == "training" {
			out.Config.Resets.Debt = 3 // the SLA objective
		}
	}
	if o.profiles != "" {
		kinds, err := pretrain.Load(o.Path(o.profiles))
		if err != nil {
			return out, fmt.Errorf("--profiles: %w", err)
		}
		out.Jobs.Kinds, out.Jobs.Data = kinds, "measured"
	}
	var err error
	if o.resume != "" {
		if out.Resume, out.Checkpoint, err = pretrain.ReadFiles(o.Path(o.resume)); err != nil {
			err = fmt.Errorf("--resume: %w", err)
		}
	}
	return out, err
}

// oneOf returns an error that names the nearest known word if word is not known. With optional, an empty word is valid.
func oneOf(flag, word string, known []string, optional bool) error {
	switch {
	case slices.Contains(known, word) || word == "" && optional:
		return nil
	case word == "":
		return fmt.Errorf("%s is required: one of %s", flag, strings.Join(known, ", "))
	}
	return fmt.Errorf("%s %q: unknown, nearest known is %s (known: %s)", flag, word, cli.Nearest(word, known), strings.Join(known, ", "))
}

// checkPaths determines the output paths and checks that they are writable before hours of work.
func (o *pretrainOptions) checkPaths() error {
	if o.out == "" {
		if o.out = o.resume; o.out == "" {
			name := strings.TrimPrefix(o.env, "problem:")
			if strings.HasPrefix(name, pretrain.ProcessPrefix) {
				name = "process"
			}
			o.out = name + "-" + o.agent + ".agent"
			if o.Share == nil && cli.Exists(o.Path(o.out)) { // a lost task may have left it
				return fmt.Errorf("%s exists: continue its training by --resume %s, or name another file by --output", o.out, o.out)
			}
		}
	}
	var errs []error
	for _, curve := range o.curves {
		if _, ok := curveFormats[strings.ToLower(filepath.Ext(curve))]; !ok {
			errs = append(errs, fmt.Errorf("--curves %s: want a name that ends in .csv or .html", curve))
		}
		errs = append(errs, o.Writable("curves", curve))
	}
	return errors.Join(append(errs, o.Writable("output", o.out))...)
}

// curveFormats maps file extensions to the writers of learning curves.
var curveFormats = map[string]func(*pretrain.Result, io.Writer) error{
	".csv": (*pretrain.Result).WriteCSV, ".html": (*pretrain.Result).WriteHTML, ".htm": (*pretrain.Result).WriteHTML,
}

// write writes agent, checkpoint and curves and prints a summary. A failure of one does not prevent the others.
func (o *pretrainOptions) write(files *pretrain.Files, r *pretrain.Result) error {
	errs := []error{files.Save(r.Data, r.Present)}
	for _, curve := range o.curves {
		errs = append(errs, o.Write(curve, "learning curve", func(w io.Writer) error { return curveFormats[strings.ToLower(filepath.Ext(curve))](r, w) }))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if o.JSON {
		return r.WriteJSON(o.Stdout, o.out)
	}
	return o.Print(o.summary(r))
}

// summary formats the result of a training: the measured quality, the kept agent and the files.
func (o *pretrainOptions) summary(r *pretrain.Result) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-18s "+format+"\n", append([]any{name}, args...)...)
	}
	fmt.Fprintf(&b, "%s in %s, seed %d: %d steps in %s\n", r.Meta.Agent, r.Meta.Env, r.Meta.Seed, r.Steps, time.Duration(r.WallSeconds*float64(time.Second)).Round(time.Second/10))
	switch j := r.Jobs; {
	case !r.Known:
		row("measured", "nothing yet")
	case j != nil:
		row("mean utility", "%.4f on %d jobs that were not used for training", j.Agent, j.Jobs)
		row("own configuration", "%.4f", j.Own)
		row("performance model", "%.4f; the agent is %+.5f ± %.5f", j.Model, j.OverModel, 2*j.OverModelSE)
	default:
		row("front", "%d points, hypervolume %.3f above %v", len(r.Front), r.Hypervolume, r.Reference)
		row("expected utility", "%.4f", r.ExpectedUtility)
	}
	row("kept", "the agent of step %d", r.Meta.Stats.Steps)
	row("file", "%s", o.out)
	for _, curve := range o.curves {
		row("curves", "%s", curve)
	}
	return b.String()
}

// learningView shows the progress of a training: a bar on a terminal, otherwise a line at intervals.
type learningView struct {
	*cli.Env
	bar      *cli.Bar
	last     pretrain.Progress
	from     time.Duration
	first    int // steps at the start of this view
	lastLine time.Duration
	shown    atomic.Pointer[string] // text beside the bar, which repaints itself
}

// lineEvery is the interval of progress lines without a terminal.
const lineEvery = 20 * time.Second

func newLearningView(e *cli.Env) *learningView {
	v := &learningView{Env: e, from: -1}
	v.bar = e.Bar("learning", func() string {
		if s := v.shown.Load(); s != nil {
			return *s
		}
		return ""
	})
	return v
}

// at shows the progress of the training; the first call starts the bar and the clock.
func (v *learningView) at(p pretrain.Progress) {
	now := v.Clock.Monotonic()
	if v.from < 0 {
		v.from, v.lastLine, v.first = now, now, p.Steps
	}
	v.last = p
	if v.bar.Shown() {
		details := v.details(now)
		v.shown.Store(&details)
		v.bar.At(p.Steps, p.Of)
	} else if !v.Quiet && now-v.lastLine >= lineEvery {
		v.lastLine = now
		fmt.Fprintf(v.Stderr, "%d of %d steps%s\n", p.Steps, p.Of, v.details(now))
	}
}

// details formats the speed, the loss and the last measurement.
func (v *learningView) details(now time.Duration) string {
	s := ""
	if took := (now - v.from).Seconds(); took > 0 {
		s += fmt.Sprintf(", %.0f steps/s", float64(v.last.Steps-v.first)/took)
	}
	if !math.IsNaN(v.last.Loss) {
		s += fmt.Sprintf(", loss %.2g", v.last.Loss)
	}
	if x := v.last.Point; x != nil {
		if math.IsNaN(float64(x.Model)) {
			s += fmt.Sprintf(", hypervolume %.6g", x.Hypervolume)
		} else {
			s += fmt.Sprintf(", utility %.4f (model %.4f)", x.ExpectedUtility, x.Model)
		}
	}
	return s
}

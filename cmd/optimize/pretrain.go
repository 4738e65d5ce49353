package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"trainopt/internal/regular"
	"trainopt/morl"
	"trainopt/simulator/pretrain"
	"trainopt/simulator/training/profile"
)

// checkpointSuffix is appended to the name of an agent file for the checkpoint of an interrupted training.
const checkpointSuffix = ".checkpoint"

// saveEvery is the minimum interval between saves of a long training.
const saveEvery = 30 * time.Second

type pretrainFlags struct {
	env, agent, out, resume, profiles, resets, keep string
	table                                           string // of placement
	trace, backfill                                 string // of queue
	procs                                           int
	steps, measure, batch, every, actions           int
	seed                                            uint64
	gamma, rate                                     float64
	hidden                                          []int
	curves                                          []string
}

func pretrainCommand(e *env, c *common) *cobra.Command {
	f := &pretrainFlags{}
	cmd := &cobra.Command{
		Use: "pretrain", Short: "Train an agent in a simulated environment and save it", Args: cobra.NoArgs,
		Long: `Trains an agent in a simulated environment and saves it.

Environments: ` + strings.Join(environments(), ", ") + `.
Agents: ` + strings.Join(pretrain.Agents(), ", ") + policyAgents() + `.

Settings that are not given are those of the recipe for the environment and agent. While it learns the agent is measured
without exploration; the file holds the agent that measured best (--keep last: the last one).

An interrupt (Ctrl-C) saves what there is, and --resume FILE goes on. Beside the agent file lies FILE` + checkpointSuffix + ` until all
steps are done: the networks as they were, and the curve so far. Replay and the state of the optimiser are in neither file:
after --resume the replay starts empty and is filled for a while before learning goes on, so a resumed training does not
give the same bytes as one that was never interrupted. One that was not does, for the same seed, on any number of cores.`,
		Example: `  optimize pretrain --env problem:deep-sea-treasure --agent envelope --curves curves.html
  optimize pretrain --env training --agent conditioned --steps 200000 --out agent.bin
  optimize pretrain --env queue --agent evolution --backfill rlscheduler --out mine.policy
  optimize pretrain --env placement --agent improved --out mine.model
  optimize pretrain --resume agent.bin`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p, ok := policyEnvs[f.env]; ok {
				return e.pretrainPolicy(cmd, c, f, p)
			}
			return e.pretrain(cmd, c, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.env, "env", "", "environment: training, "+strings.Join(slices.Sorted(maps.Keys(policyEnvs)), ", ")+" or problem:`NAME`")
	fs.StringVar(&f.table, "table", metisData, "of the environment placement: throughputs, `FILE` or metis (in the binary)")
	fs.StringVar(&f.trace, "trace", "", "of the environment queue: learn from `FILE` in the Standard Workload Format (default: drawn jobs)")
	fs.StringVar(&f.backfill, "backfill", "none", "of the environment queue: none|rlscheduler")
	fs.IntVar(&f.procs, "procs", 256, "of the environment queue, without --trace: processors of the machine")
	fs.StringVar(&f.agent, "agent", "", strings.Join(pretrain.Agents(), "|")+policyAgents())
	fs.IntVar(&f.steps, "steps", 0, "decisions to learn from, those of a resumed agent included; updates of queue, episodes of placement (default: the recipe's)")
	fs.Float64Var(&f.gamma, "gamma", 0, "discount per unit of work, above 0 to 1 (default: the recipe's)")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of everything that is random")
	fs.StringVarP(&f.out, "out", "o", "", "agent `FILE` to write (default: ENV-AGENT.agent, or the resumed file)")
	fs.StringVar(&f.resume, "resume", "", "continue training the agent in `FILE`")
	fs.StringArrayVar(&f.curves, "curves", nil, "write the learning curves to `FILE`.csv or .html; may be repeated")
	fs.IntSliceVar(&f.hidden, "hidden", nil, "units of the hidden layers, `N,N` (default: the recipe's)")
	fs.Float64Var(&f.rate, "rate", 0, "learning rate (default: the recipe's)")
	fs.IntVar(&f.batch, "batch", 0, "transitions in a batch (default: the recipe's)")
	fs.IntVar(&f.every, "every", 0, "decisions between gradient steps (default: the recipe's)")
	fs.IntVar(&f.measure, "measure", 0, "decisions between measurements (default: the recipe's)")
	fs.StringVar(&f.keep, "keep", "best", "which agent the file holds in the end: best|last")
	fs.IntVar(&f.actions, "actions", 0, "of the environment training: 9 (GPUs and CPUs) or 27 (and memory) (default 9)")
	fs.StringVar(&f.profiles, "profiles", "", "`DIR` with measured tables to draw jobs from (default: the curves fitted to them)")
	fs.StringVar(&f.resets, "resets", "", "when critics are replaced: evidence|random|never (default: the recipe's)")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
			known := map[string]string{"json": "", "quiet": ""}
			fs.VisitAll(func(f *pflag.Flag) { known[f.Name] = "" })
			err = fmt.Errorf("%w: nearest known is --%s", err, nearest(name, known))
		}
		return usageError{err}
	})
	return cmd
}

// pretrain trains an agent, saves it at most every saveEvery, and writes it with its curves at the end. An interrupt
// writes the current state and prints the command that continues; a failed save is reported once and does not stop the
// training.
func (e *env) pretrain(cmd *cobra.Command, c *common, f *pretrainFlags) error {
	o, err := e.pretrainOptions(cmd, f)
	if err != nil {
		return usageError{err}
	}
	if err := e.pretrainPaths(f); err != nil {
		return usageError{err}
	}
	ui := e.learning(c)
	o.Now, o.Progress = e.clock.Monotonic, ui.at
	files := agentFiles{path: inDir(e.dir, f.out), ours: f.out == f.resume}
	saved, warned := e.clock.Monotonic(), false
	o.Save = func(agent, present []byte) error {
		now := e.clock.Monotonic()
		if now-saved < saveEvery {
			return nil
		}
		saved = now
		if err := files.save(agent, present); err != nil && !warned {
			warned = true // keep learning: the next save may succeed
			fmt.Fprintf(e.stderr, "optimize: save while learning: %v\n", err)
		}
		return nil
	}
	t, err := pretrain.Prepare(o)
	if err != nil {
		if f.resume != "" {
			err = fmt.Errorf("resume %s: %w", f.resume, err)
		}
		return usageError{err}
	}
	ctx, stop := e.untilSignal()
	defer stop()
	r, err := t.Run(ctx)
	ui.done()
	var broken interruptedBy
	if err != nil && !errors.As(context.Cause(ctx), &broken) {
		return fmt.Errorf("pretrain: %w", err)
	}
	if err := e.writePretrained(c, f, files, r); err != nil {
		return err
	}
	if r.Present != nil {
		return exitError{broken.code(), fmt.Errorf("pretrain: %s after %d of %d steps; go on with: optimize pretrain --resume %s", endedBy(broken.signal), r.Steps, r.Of, quoted(f.out))}
	}
	return nil
}

// quoted quotes a file name for a shell.
func quoted(name string) string {
	if strings.ContainsAny(name, " \t\n'\"$&;|<>()*?[]#~`\\!") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// pretrainOptions checks the flags and reads the files that they name.
func (e *env) pretrainOptions(cmd *cobra.Command, f *pretrainFlags) (pretrain.Options, error) {
	o := pretrain.Options{Env: f.env, Agent: f.agent, Steps: f.steps, Seed: f.seed, Measure: f.measure, KeepLast: f.keep == "last",
		Config: morl.Config{Hidden: f.hidden, Gamma: f.gamma, Rate: f.rate, Batch: f.batch, Every: f.every}, Jobs: pretrain.JobOptions{Actions: f.actions}}
	var errs []error
	bad := func(flag string, wrong bool, want string) {
		if cmd.Flags().Changed(flag) && wrong {
			errs = append(errs, fmt.Errorf("--%s %s: want %s", flag, cmd.Flags().Lookup(flag).Value, want))
		}
	}
	errs = append(errs, oneOf("--env", f.env, environments(), f.resume != ""), oneOf("--agent", f.agent, pretrain.Agents(), f.resume != ""))
	bad("steps", f.steps < 1, "1 or more")
	bad("measure", f.measure < 1, "1 or more")
	bad("batch", f.batch < 1, "1 or more")
	bad("every", f.every < 1, "1 or more")
	bad("gamma", !(f.gamma > 0 && f.gamma <= 1), "more than 0, at most 1")
	bad("rate", !(f.rate > 0 && f.rate <= 1), "more than 0, at most 1")
	bad("hidden", len(f.hidden) == 0, "one number a layer, such as 128,128")
	bad("actions", f.actions != 9 && f.actions != 27, "9 or 27")
	bad("keep", f.keep != "best" && f.keep != "last", "best or last")
	bad("resets", !slices.Contains([]string{"evidence", "random", "never"}, f.resets), "evidence, random or never")
	bad("table", true, "--env placement with it")
	for _, flag := range []string{"trace", "backfill", "procs"} {
		bad(flag, true, "--env queue with it")
	}
	for _, flag := range []string{"actions", "profiles"} {
		if strings.HasPrefix(f.env, "problem:") {
			bad(flag, true, "--env training: a problem has its own")
		}
	}
	switch f.resets {
	case "":
	case "never":
		o.NoResets = true
	default:
		o.Config.Resets.Mode = f.resets
		if !strings.HasPrefix(f.env, "problem:") {
			o.Config.Resets.Debt = 3 // the SLA objective
		}
	}
	if err := errors.Join(errs...); err != nil {
		return o, err
	}
	if f.profiles != "" {
		kinds, err := profile.Load(inDir(e.dir, f.profiles))
		if err != nil {
			return o, fmt.Errorf("--profiles: %w", err)
		}
		o.Jobs.Kinds, o.Jobs.Data = kinds, "measured"
	}
	var err error
	if f.resume != "" {
		o.Resume, o.Checkpoint, err = readResumed(inDir(e.dir, f.resume))
	}
	return o, err
}

// oneOf returns an error that names the nearest known word if word is not known. With optional, an empty word is valid.
func oneOf(flag, word string, known []string, optional bool) error {
	switch {
	case slices.Contains(known, word) || word == "" && optional:
		return nil
	case word == "":
		return fmt.Errorf("%s is needed: one of %s", flag, strings.Join(known, ", "))
	}
	table := map[string]string{}
	for _, k := range known {
		table[k] = ""
	}
	return fmt.Errorf("%s %q: unknown, nearest known is %s (known: %s)", flag, word, nearest(word, table), strings.Join(known, ", "))
}

// readResumed reads an agent file and its checkpoint, if present.
func readResumed(path string) (agent, checkpoint []byte, err error) {
	if agent, err = regular.ReadFile(path, regular.Data); err != nil {
		return nil, nil, fmt.Errorf("--resume: %w", err)
	}
	if agent == nil {
		agent = []byte{}
	}
	checkpoint, err = regular.ReadFile(path+checkpointSuffix, regular.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return agent, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--resume: checkpoint: %w", err)
	}
	return agent, checkpoint, nil
}

// pretrainPaths determines the output paths and checks that they are writable before hours of work.
func (e *env) pretrainPaths(f *pretrainFlags) error {
	if f.out == "" {
		if f.out = f.resume; f.out == "" {
			f.out = strings.TrimPrefix(f.env, "problem:") + "-" + f.agent + ".agent"
			if _, err := os.Stat(inDir(e.dir, f.out)); err == nil {
				return fmt.Errorf("%s is there already: go on with it by --resume %s, or name another file by --out", f.out, f.out)
			}
		}
	}
	var errs []error
	for _, curve := range f.curves {
		if _, ok := curveFormats[strings.ToLower(filepath.Ext(curve))]; !ok {
			errs = append(errs, fmt.Errorf("--curves %s: want a name that ends in .csv or .html", curve))
		}
		errs = append(errs, writable("--curves", inDir(e.dir, curve)))
	}
	return errors.Join(append(errs, writable("--out", inDir(e.dir, f.out)))...)
}

func writable(flag, path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s %s: is a directory", flag, path)
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".optimize-*")
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return fmt.Errorf("%s %s: cannot write into its directory: %w", flag, path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// curveFormats maps file extensions to the writers of learning curves.
var curveFormats = map[string]func(r *pretrain.Result, b *bytes.Buffer) error{
	".csv":  func(r *pretrain.Result, b *bytes.Buffer) error { return r.WriteCSV(b) },
	".html": func(r *pretrain.Result, b *bytes.Buffer) error { return r.WriteHTML(b) },
	".htm":  func(r *pretrain.Result, b *bytes.Buffer) error { return r.WriteHTML(b) },
}

// agentFiles is an agent file and its checkpoint. They are consistent even after a crash between the two writes: the
// checkpoint, if present, is never older than the agent.
type agentFiles struct {
	path string
	ours bool // an existing checkpoint belongs to this training
}

// save writes both files; a nil present means that the training is complete, and removes the checkpoint.
func (a *agentFiles) save(agent, present []byte) error {
	checkpoint := a.path + checkpointSuffix
	if a.ours && present != nil {
		if err := pretrain.Replace(checkpoint, present); err != nil {
			return err
		}
		return pretrain.Replace(a.path, agent)
	}
	if !a.ours { // of an earlier training that the user overwrites
		if err := os.Remove(checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := pretrain.Replace(a.path, agent); err != nil {
		return err
	}
	a.ours = true
	if present != nil {
		return pretrain.Replace(checkpoint, present)
	}
	if err := os.Remove(checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writePretrained writes agent, checkpoint and curves and prints a summary. A failure of one does not prevent the
// others.
func (e *env) writePretrained(c *common, f *pretrainFlags, files agentFiles, r *pretrain.Result) error {
	errs := []error{files.save(r.Data, r.Present)}
	for _, curve := range f.curves {
		var b bytes.Buffer
		if err := curveFormats[strings.ToLower(filepath.Ext(curve))](r, &b); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, pretrain.Replace(inDir(e.dir, curve), b.Bytes()))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if c.json {
		return r.WriteJSON(e.stdout, f.out)
	}
	return writeAll(e.stdout, []byte(pretrainSummary(f, r)))
}

// pretrainSummary formats the result of a training: the measured quality, the kept agent and the files.
func pretrainSummary(f *pretrainFlags, r *pretrain.Result) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-18s "+format+"\n", append([]any{name}, args...)...)
	}
	fmt.Fprintf(&b, "%s in %s, seed %d: %d steps in %s\n", r.Meta.Agent, r.Meta.Env, r.Meta.Seed, r.Steps, time.Duration(r.WallSeconds*float64(time.Second)).Round(time.Second/10))
	switch j := r.Jobs; {
	case !r.Known:
		row("measured", "nothing yet")
	case j != nil:
		row("mean utility", "%.4f on %d jobs it was not trained on", j.Agent, j.Jobs)
		row("own configuration", "%.4f", j.Own)
		row("performance model", "%.4f; the agent is %+.5f ± %.5f", j.Model, j.OverModel, 2*j.OverModelSE)
	default:
		row("front", "%d points, hypervolume %.3f above %v", len(r.Front), r.Hypervolume, r.Reference)
		row("expected utility", "%.4f", r.ExpectedUtility)
	}
	row("kept", "the agent of step %d", r.Meta.Stats.Steps)
	row("file", "%s", f.out)
	for _, curve := range f.curves {
		row("curves", "%s", curve)
	}
	return b.String()
}

// learningView shows the progress of a training: a bar on a terminal, otherwise a line at intervals.
type learningView struct {
	e     *env
	quiet bool
	all   *mpb.Progress
	bar   *mpb.Bar
	last  pretrain.Progress
	from  time.Duration
	first int // steps at the start of this view
	told  time.Duration
	shown atomic.Pointer[string] // text beside the bar, which repaints itself
}

// tellEvery is the interval of progress lines without a terminal.
const tellEvery = 20 * time.Second

func (e *env) learning(c *common) *learningView {
	v := &learningView{e: e, quiet: c.quiet, from: -1}
	if c.quiet || e.width == nil || e.width() == 0 {
		return v
	}
	v.all = mpb.New(mpb.WithOutput(e.stderr), mpb.WithWidth(max(10, min(40, e.width()-70))), mpb.WithAutoRefresh(), mpb.WithRefreshRate(time.Second/4))
	return v
}

// at shows the progress of the training; the first call starts the bar and the clock.
func (v *learningView) at(p pretrain.Progress) {
	now := v.e.clock.Monotonic()
	if v.from < 0 {
		v.from, v.told, v.first = now, now, p.Steps
		if v.all != nil {
			v.bar = v.all.New(int64(p.Of), mpb.BarStyle().Lbound("").Filler("█").Tip("").Padding("░").Rbound(""), mpb.BarRemoveOnComplete(),
				mpb.PrependDecorators(decor.Name("learning ")),
				mpb.AppendDecorators(decor.CountersNoUnit(" %d/%d"), decor.Any(func(decor.Statistics) string {
					if s := v.shown.Load(); s != nil {
						return *s
					}
					return ""
				})))
		}
	}
	v.last = p
	if v.bar != nil {
		words := v.words(now)
		v.shown.Store(&words)
		v.bar.SetCurrent(int64(p.Steps))
	} else if !v.quiet && now-v.told >= tellEvery {
		v.told = now
		fmt.Fprintf(v.e.stderr, "%d of %d steps%s\n", p.Steps, p.Of, v.words(now))
	}
}

// words formats the speed, the loss and the last measurement.
func (v *learningView) words(now time.Duration) string {
	s := ""
	if took := (now - v.from).Seconds(); took > 0 {
		s += fmt.Sprintf(", %.0f steps/s", float64(v.last.Steps-v.first)/took)
	}
	if !math.IsNaN(v.last.Loss) {
		s += fmt.Sprintf(", loss %.2g", v.last.Loss)
	}
	if x := v.last.Point; x != nil {
		if math.IsNaN(x.Model) {
			s += fmt.Sprintf(", hypervolume %.6g", x.Hypervolume)
		} else {
			s += fmt.Sprintf(", utility %.4f (model %.4f)", x.ExpectedUtility, x.Model)
		}
	}
	return s
}

func (v *learningView) done() {
	if v.bar != nil {
		v.bar.Abort(true)
		v.all.Wait()
	}
}

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"trainopt/simulator/training"

	"github.com/spf13/cobra"

	"trainopt/cost"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/report"
	"trainopt/optimizer/run"
	"trainopt/resources"
	"trainopt/sla"
)

// trainFlags holds the flags of `train` that are not settings.
type trainFlags struct {
	train                []string
	host                 string
	dryRun, explain, yes bool
	fresh                bool
}

func trainCommand(e *env, c *common) *cobra.Command {
	f := &trainFlags{}
	cmd := &cobra.Command{
		Use:   "train [SCRIPT] [flags] [-- SCRIPT ARGS… | -- COMMAND ARGS…]",
		Short: "Run a training script under control of cost, time and resources",
		Example: `  optimize --train train.py --deadline 2h --budget 5
  optimize --train train.py --prefer cost -- --lr 0.1
  optimize train -- ./train.sh big`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return e.train(cmd, c, f, args) },
	}
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalize)
	fs.StringArrayVar(&f.train, "train", nil, "the training `SCRIPT`; may be given several times")
	fs.StringVar(&f.host, "host", "", "plan for a described machine that is not this one: `FILE|CLOUD:TYPE` (with --dry-run)")
	fs.BoolVar(&f.dryRun, "dry-run", false, "plan only")
	fs.BoolVar(&f.explain, "explain", false, "say why")
	fs.BoolVar(&f.yes, "yes", false, "ask nothing; start even if earlier runs say that the limits will be reached")
	fs.BoolVar(&f.fresh, "fresh", false, "start a new run even if one of the same training was left by an agent that died")
	addSettings(fs)
	return cmd
}

// scripts splits the arguments into the scripts to train and the arguments after `--`.
func (f *trainFlags) scripts(cmd *cobra.Command, args []string) (scripts, rest []string, err error) {
	before := args
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		before, rest = args[:at], args[at:]
	}
	scripts = append(append([]string(nil), f.train...), before...)
	if len(scripts) == 0 && len(rest) == 0 {
		return nil, nil, usageError{errors.New("nothing to train: give --train SCRIPT, or a command after --")}
	}
	for _, s := range scripts {
		if strings.TrimSpace(s) == "" {
			return nil, nil, usageError{errors.New("--train: the script's name is empty")}
		}
	}
	return scripts, rest, nil
}

// train runs each script in sequence with the same configuration and prints their records. The exit code is that of the
// first failure; an interrupt skips the remaining scripts.
func (e *env) train(cmd *cobra.Command, c *common, f *trainFlags, args []string) error {
	scripts, rest, err := f.scripts(cmd, args)
	if err != nil {
		return err
	}
	vals, err := e.projectSettings(cmd.Flags(), c)
	if err != nil {
		return usageError{err}
	}
	cfg, err := makeConfig(e, c, f, vals)
	if err != nil {
		return usageError{err}
	}
	if len(scripts) == 0 {
		scripts = []string{""}
	}
	var records []*journal.Record
	worst := error(nil)
	for _, s := range scripts {
		one := cfg
		one.Train, one.Args = s, rest
		res := e.trainOne(c, f, one)
		if res.Record != nil {
			records = append(records, res.Record)
		}
		if res.Code != run.CodeDone && worst == nil {
			worst = exitError{res.Code, res.Err}
		} else if res.Err != nil && len(scripts) > 1 {
			fmt.Fprintf(e.stderr, "optimize: %s: %v\n", s, res.Err)
		}
		if res.Code >= run.CodeInterrupt { // stopped by the user: do not start the others
			break
		}
	}
	if err := e.printRecords(c, cfg, records, len(scripts)); err != nil {
		return err
	}
	return worst
}

// trainOne runs one training. If an agent of the same training has died and --fresh is not set, it resumes that run
// instead, or starts a new one if it is not resumable.
func (e *env) trainOne(c *common, f *trainFlags, cfg run.Config) run.Result {
	view := e.view(c)
	signals, stop := e.listen()
	defer stop()
	agent := e.agent(view)
	if f.yes {
		agent.Confirm = func(string) bool { return true }
	} else if e.ask && !c.json {
		agent.Confirm = func(question string) bool { return e.confirm(question, signals) }
	}
	if !cfg.DryRun && !f.fresh {
		if dir := run.FindOrphanedRun(cfg); dir != "" {
			view.Event(run.Info, fmt.Sprintf("found %s of the same training, left by an agent that died: going on with it (--fresh starts a new one)", filepath.Base(dir)))
			res := agent.Resume(cmdContext(), dir, run.Change{TimeMax: cfg.SLA.TimeMax, CostMaxUSD: cfg.SLA.CostMaxUSD}, signals)
			if !errors.Is(res.Err, run.ErrNotResumable) {
				return res
			}
			view.Event(run.Warning, res.Err.Error()+"; starting a new run")
		}
	}
	return agent.Run(cmdContext(), cfg, signals)
}

// agent returns the agent of a run on this machine.
func (e *env) agent(view run.View) run.Agent {
	return run.Agent{Launcher: launch.Local{Self: e.self}, View: view, Clock: e.clock, Environ: e.environ, Lighten: e.lighten, Simulate: training.Like}
}

// confirm asks a yes/no question; a signal means no.
func (e *env) confirm(question string, signals <-chan os.Signal) bool {
	fmt.Fprintf(e.stderr, "%s [y/N] ", question)
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(e.stdin).ReadString('\n')
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answered:
		return answer == "y" || answer == "yes"
	case <-signals:
		fmt.Fprintln(e.stderr)
		return false
	}
}

func (e *env) printRecords(c *common, cfg run.Config, records []*journal.Record, scripts int) error {
	if len(records) == 0 {
		return nil
	}
	if c.json {
		if scripts == 1 {
			return printJSON(e.stdout, records[0])
		}
		return printJSON(e.stdout, records)
	}
	if scripts > 1 {
		return report.Summary(e.stdout, records)
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeAll(w, append(data, '\n'))
}

// makeConfig converts settings to a run.Config, with all problems in one error.
func makeConfig(e *env, c *common, f *trainFlags, v *values) (run.Config, error) {
	var errs []error
	cfg := run.Config{
		Dir: e.dir, StateDir: c.absoluteState(e), DryRun: f.dryRun, Explain: f.explain,
		Planner: v.text("rl.planner"), Agent: v.text("rl.agent"), GPUs: v.text("resource.gpus"), CPUs: v.text("resource.cpus"), Memory: v.text("resource.memory"),
		BatchSize: v.text("resource.batch_size"), Epochs: v.whole("resource.epochs", &errs), Dataset: v.text("resource.dataset"),
		Seed: int64(v.whole("resource.seed", &errs)), Log: v.text("monitor.log"), Format: v.text("monitor.log_format"),
		Columns: v.table("monitor.columns"), Pattern: v.text("monitor.progress_pattern"), Offline: v.list("monitor.offline_logs"),
		Resume: run.Resumable(v.text("engine.resumable")), Samples: v.whole("rl.baseline_samples", &errs),
		Ratio: v.number("rl.baseline_ratio", &errs), Interval: v.length("monitor.interval", &errs),
		Every: v.whole("rl.epoch_adjustment_frequency", &errs), Grace: v.length("engine.grace", &errs),
		Restarts: v.whole("engine.max_restarts", &errs), Python: v.text("engine.python"),
		Steps: v.whole("resource.steps", &errs), NumWorkers: v.text("resource.num_workers"), Observe: v.text("monitor.observe"),
		PTY: v.toggle("monitor.pty", &errs),
	}
	none := func(key string, n *int) { // an explicit 0 means none rather than the default
		if v.set(key) && *n == 0 {
			*n = -1
		}
	}
	none("rl.baseline_samples", &cfg.Samples)
	none("engine.max_restarts", &cfg.Restarts)
	if v.set("rl.baseline_ratio") && cfg.Ratio == 0 {
		cfg.Samples = -1
	}
	if cfg.Agent != "" {
		if !filepath.IsAbs(cfg.Agent) {
			cfg.Agent = filepath.Join(e.dir, cfg.Agent)
		}
		if _, err := os.Stat(cfg.Agent); err != nil {
			errs = append(errs, fmt.Errorf("--agent: %w", err))
		} else if cfg.Planner != "morl" {
			errs = append(errs, fmt.Errorf("--agent is for --planner morl, not %s", cfg.Planner))
		}
	}
	cfg.SeedGiven = v.set("resource.seed")
	given := map[sla.Objective]float64{}
	limit := func(o sla.Objective, key string, value float64) {
		if v.set(key) {
			given[o] = value
		}
	}
	limit(sla.Time, "sla.time_max", v.length("sla.time_max", &errs).Seconds())
	limit(sla.Cost, "sla.cost_max", v.number("sla.cost_max", &errs))
	limit(sla.Throughput, "sla.throughput_min", v.number("sla.throughput_min", &errs))
	limit(sla.Memory, "sla.memory_max", v.number("sla.memory_max", &errs))
	limit(sla.GPUUtil, "sla.gpu_util_min", v.number("sla.gpu_util_min", &errs))
	limit(sla.CPUUtil, "sla.cpu_util_min", v.number("sla.cpu_util_min", &errs))
	var err error
	if cfg.SLA, err = sla.New(given); err != nil {
		errs = append(errs, err)
	}
	if cfg.Preference, cfg.PreferenceGiven, err = v.preference(); err != nil {
		errs = append(errs, err)
	}
	if cfg.Knobs, err = knobs(v); err != nil {
		errs = append(errs, err)
	}
	if name := v.text("engine.name"); name != "local" {
		errs = append(errs, fmt.Errorf("--engine %q: this build runs jobs with \"local\" only", name))
	}
	if cfg.Rates, err = makeRates(e, v); err != nil {
		errs = append(errs, err)
	}
	for key, into := range map[string]**cost.USD{"cost.gpu_hour": &cfg.GPUHour, "cost.cpu_hour": &cfg.CPUHour, "cost.gb_hour": &cfg.GiBHour} {
		if v.set(key) {
			price := cost.USD(v.number(key, &errs))
			*into = &price
			if cfg.Rates != nil {
				errs = append(errs, fmt.Errorf("%s excludes --rates and --instance: both say what the machine costs", v.src[key]))
			}
		}
	}
	if f.host != "" {
		if err := describeHost(e, f.host, v, &cfg); err != nil {
			errs = append(errs, err)
		}
	}
	return cfg, errors.Join(errs...)
}

// knobs returns the user's templates by knob name; nil if none are given.
func knobs(v *values) (map[string]string, error) {
	var errs []error
	var out map[string]string
	given := v.table("engine.knobs")
	for _, n := range slices.Sorted(maps.Keys(given)) {
		name, template, err := inspect.ParseKnob(n + "=" + given[n])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.src["engine.knobs"], err))
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = template
	}
	return out, errors.Join(errs...)
}

// makeRates returns the rates of a file or an instance; nil if neither is given.
func makeRates(e *env, v *values) (*cost.Rates, error) {
	var r *cost.Rates
	if file := v.text("cost.rates"); file != "" {
		loaded, err := cost.LoadRates(inDir(e.dir, file))
		if err != nil {
			return nil, fmt.Errorf("--rates: %w", err)
		}
		r = &loaded
	}
	if name := v.text("cost.instance"); name != "" {
		if r != nil {
			return nil, errors.New("--rates and --instance exclude each other: both say what the machine costs")
		}
		offer, err := e.offer(v, name)
		if err != nil {
			return nil, fmt.Errorf("--instance: %w", err)
		}
		rates := offer.Rates()
		r = &rates
	}
	return r, nil
}

// describeHost fills in a machine other than the local one, from a file or a cloud machine type.
func describeHost(e *env, name string, v *values, cfg *run.Config) error {
	var host resources.Host
	priced := cfg.Rates != nil || cfg.GPUHour != nil || cfg.CPUHour != nil || cfg.GiBHour != nil
	if cloud, _, ok := strings.Cut(name, ":"); ok && !strings.ContainsAny(cloud, "/.") {
		offer, err := e.offer(v, name)
		if err != nil {
			return fmt.Errorf("--host: %w", err)
		}
		host = offer.Host()
		if !priced {
			rates := offer.Rates()
			cfg.Rates = &rates
		}
	} else {
		d, err := resources.LoadHostDescription(inDir(e.dir, name))
		if err != nil {
			return fmt.Errorf("--host: %w", err)
		}
		host = d.Host()
		if d.Price != nil && !priced {
			cfg.Rates = describedRates(d.Price)
		}
	}
	cfg.Described = &host
	return nil
}

func describedRates(p *resources.HostPrice) *cost.Rates {
	value := func(v *float64) cost.USD {
		if v == nil {
			return 0
		}
		return cost.USD(*v)
	}
	return &cost.Rates{Instance: value(p.Instance), GPUHour: value(p.GPUHour), CPUHour: value(p.CPUHour), GiBHour: value(p.GiBHour),
		Source: p.Source, Dated: p.Dated}
}

func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/regular"
	"trainopt/optimizer/plan"
	"trainopt/simulator/experiment"
	"trainopt/simulator/pretrain"
	"trainopt/simulator/training"
	"trainopt/simulator/trial"
)

// zeusKind is the kind of recurring jobs; see runRecurring.
const zeusKind = "zeus"

// compareTrainingOptions holds the flags of `compare training`.
type compareTrainingOptions struct {
	cli.Options
	comparison
	prefer, agents    []string
	kinds, profiles   string
	figure            string
	jobs, recurrences int
	steps             int // of --figure ablation
	eta               float64
}

func compareTrainingCommand(e *cli.Env) *cobra.Command {
	o := &compareTrainingOptions{}
	cmd := &cobra.Command{
		Use: "training", Short: "Benchmark planners on simulated training jobs", Args: cobra.NoArgs,
		Long: `Run simulated training jobs with several policies and compare time, cost, energy, deadlines, budgets and regret.

The jobs are drawn from measured training jobs; all policies run the same jobs with the same SLA and noise. Measurements and
restarts of a policy are charged to it. Policies: ` + strings.Join(trial.Names(), ", ") + `,
and the planner morl with another agent: --agent NAME=FILE makes it the policy NAME.

With --kinds zeus the jobs are trainings that recur until they reach the same quality; the policies select their batch size
and the power limit of their GPU; all search is charged. Policies: ` + strings.Join(trial.RecurringNames(), ", ") + `.

Jobs are priced as in clouds, per unit of allocated resources. On a machine that is owned or rented as a whole, releasing
CPUs or GPUs saves nothing.`,
		Example: `  optimize compare training --policies user,oracle,random,rules,model --seeds 0:9
  optimize compare training --policies user,model,morl,mine --agent mine=agent.bin
  optimize compare training --kinds held-out --prefer cost --job-count 20 --output comparison.html --jobs-out jobs.csv
  optimize compare training --figure slamorl --kinds held-out --seeds 0:4
  optimize compare training --figure ablation --kinds held-out --seeds 0:4 --job-count 4
  optimize compare training --kinds zeus --policies user,oracle,zeus,bandit --eta 0.5`,
		RunE: func(*cobra.Command, []string) error {
			if err := o.Check(o.rules()...); err != nil {
				return cli.Usage(err)
			}
			switch {
			case o.figure == ablationFigure:
				return o.runAblation()
			case o.figure != "":
				return o.runFigure()
			case o.kinds == zeusKind:
				return o.runRecurring()
			}
			return o.runTrainings()
		},
	}
	o.Options = e.Options(cmd)
	fs := o.Flags
	o.comparison.add(fs, []string{"user", "oracle", "random", "rules", "model"})
	fs.Lookup("against").Usage = "policies with which all others are compared in pairs (default: model, zeus and user, if present, else the first)"
	fs.StringSliceVar(&o.prefer, "prefer", []string{"time", "cost", "balanced"}, "preferences with which each job is run: time, cost, resource, balanced")
	fs.StringVar(&o.kinds, "kinds", "train", "kinds of jobs: train|held-out|sia|all|zeus")
	fs.StringVar(&o.profiles, "profiles", "", "`DIR` with the measured tables (default: the curves fitted to them)")
	fs.IntVar(&o.jobs, "job-count", 8, "jobs per seed")
	fs.StringArrayVar(&o.agents, "agent", nil, "`NAME=FILE`: a policy NAME, the planner morl with the agent of FILE from optimize pretrain; may be repeated")
	fs.StringVar(&o.figure, "figure", "", "run an experiment on drawn jobs: slamorl (published: 13 workloads, three static baselines, SLA at 1.1 × their mean) or ablation (what each component of SLA-MORL is worth, with agents trained for it)")
	fs.IntVar(&o.steps, "steps", 2000, "with --figure ablation: decisions of each of the six trainings a seed")
	fs.Float64Var(&o.eta, "eta", 1, "with --kinds zeus: weight of energy against time in the cost, 0 to 1")
	fs.IntVar(&o.recurrences, "recurrences", 0, "with --kinds zeus: recurrences of each job (default 2 · batch sizes · power limits)")
	return cmd
}

// rules returns the flags that cannot be combined.
func (o *compareTrainingOptions) rules() []cli.Rule {
	return []cli.Rule{
		{If: o.figure != "", Flags: "eta recurrences agent jobs-out against engine", Conflict: "--figure " + o.figure},
		{If: o.figure == ablationFigure, Flags: "policies", Conflict: "--figure ablation"},
		{If: o.figure != "" && o.figure != ablationFigure, Flags: "prefer job-count output format", Conflict: "--figure " + o.figure},
		{If: o.figure != ablationFigure, Flags: "steps", Requires: "--figure ablation"},
		{If: o.figure == "" && o.kinds != zeusKind, Flags: "eta recurrences", Requires: "--kinds zeus"},
		{If: o.figure == "" && o.kinds == zeusKind, Flags: "prefer job-count agent", Conflict: "--kinds zeus"},
	}
}

// checkPolicies returns an error for the first policy that check refuses.
func (o *compareTrainingOptions) checkPolicies(check func(string) error) error {
	for _, p := range o.policies {
		if err := check(p); err != nil {
			return cli.Usagef("--policies: %w", err)
		}
	}
	return nil
}

// checkPreferences returns an error for the first invalid value of --prefer.
func (o *compareTrainingOptions) checkPreferences() error {
	for _, p := range o.prefer {
		if _, err := plan.ParsePreference(p); err != nil {
			return cli.Usagef("--prefer: %w", err)
		}
	}
	return nil
}

// runTrainings runs the benchmark of decisions on simulated training jobs.
func (o *compareTrainingOptions) runTrainings() error {
	agents, err := loadAgents(o.Env, o.agents)
	if err != nil {
		return cli.Usagef("--agent %w", err)
	}
	for _, a := range agents {
		switch given := o.Changed("policies"); {
		case !given:
			o.policies = append(o.policies, a.name)
		case !slices.Contains(o.policies, a.name):
			return cli.Usagef("--agent %s=%s: %q is not among --policies", a.name, a.file, a.name)
		}
	}
	seeds, err := o.resolve(o.Options)
	if err != nil {
		return cli.Usage(err)
	}
	draw, err := o.draw(o.jobs)
	if err != nil {
		return cli.Usage(err)
	}
	if err := o.checkPreferences(); err != nil {
		return err
	}
	if err := o.checkPolicies(func(p string) error { _, err := trial.Lookup(p, agents.planner); return err }); err != nil {
		return err
	}
	bench := trial.Bench{Policies: o.policies, Draw: draw, Seeds: seeds, Prefer: o.prefer, Agents: agents.planner, Evaluate: experiment.Options{Notes: agents.notes(),
		Against: o.against, Title: fmt.Sprintf("Decisions on simulated training jobs (%s), preferring %s", o.kinds, strings.Join(o.prefer, ", "))}}
	var against []trial.BaselineComparison
	err = o.comparison.run(o.Env, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		bench.Evaluate.Progress = progress
		result, trials, err := bench.Run(ctx)
		against = trial.CompareWithBaseline(trials)
		return result, func(w io.Writer) error { return trial.WriteTrials(w, trials) }, err
	})
	if err != nil || o.format.Name != "text" || o.format.File != "" || len(against) == 0 {
		return err
	}
	return trial.WriteBaselineComparison(o.Stdout, against)
}

// runFigure reproduces a published experiment.
func (o *compareTrainingOptions) runFigure() error {
	if o.figure != "slamorl" {
		return cli.Usagef("--figure %q: want slamorl or ablation", o.figure)
	}
	if !o.Changed("policies") {
		o.policies = []string{"oracle", "rules", "model"}
	}
	if err := o.checkPolicies(func(p string) error { _, err := trial.Lookup(p, nil); return err }); err != nil {
		return err
	}
	seeds, err := parseSeeds(o.seeds)
	if err != nil {
		return cli.Usage(err)
	}
	draw, err := o.draw(trial.SLAMORLWorkloads)
	if err != nil {
		return cli.Usage(err)
	}
	figure := trial.SLAMORL{Draw: draw, Seeds: seeds, Policies: o.policies}
	_, interrupt, err := o.Work("simulating", func(ctx context.Context, progress func(done, total int)) error {
		figure.Progress = progress
		rows, err := figure.Run(ctx)
		if err != nil {
			return err
		}
		return trial.WriteSLAMORL(o.Stdout, rows)
	})
	if err != nil && interrupt != nil {
		return interrupt.Exitf("compare: %w", interrupt)
	}
	return err
}

// maxRecurrences limits the number of recurrences of one comparison.
const maxRecurrences = 100000

// runRecurring compares policies on the recurring jobs of the Zeus evaluation.
func (o *compareTrainingOptions) runRecurring() error {
	if !o.Changed("policies") {
		o.policies = []string{"user", "oracle", "grid", "random", "zeus", "bandit"}
	}
	seeds, err := o.resolve(o.Options)
	if err != nil {
		return cli.Usage(err)
	}
	if err := o.checkPolicies(trial.CheckRecurring); err != nil {
		return err
	}
	if err := errors.Join(o.Want("eta", o.eta >= 0 && o.eta <= 1, "0 (time alone) to 1 (energy alone)"),
		o.Want("recurrences", o.recurrences >= 1 && o.recurrences <= maxRecurrences, fmt.Sprintf("1 to %d", maxRecurrences))); err != nil {
		return cli.Usage(err)
	}
	jobs, source, err := o.recurringJobs()
	if err != nil {
		return err
	}
	r := trial.Recurring{Policies: o.policies, Jobs: jobs, Seeds: seeds, Eta: o.eta, Recurrences: o.recurrences, Evaluate: experiment.Options{
		Against: o.against, Title: fmt.Sprintf("Batch size and power limit of recurring training jobs (%s), eta %g", source, o.eta)}}
	return o.comparison.run(o.Env, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		r.Evaluate.Progress = progress
		result, all, err := r.Run(ctx)
		return result, func(w io.Writer) error { return trial.WriteRecurred(w, all) }, err
	})
}

// recurringJobs returns the jobs of the tables of --profiles or of its subfolder zeus-nsdi23, by default of the fitted
// models, and a description of the source.
func (o *compareTrainingOptions) recurringJobs() (jobs []*trial.RecurringJob, source string, err error) {
	if o.profiles == "" {
		jobs, err = trial.Fitted()
		return jobs, "models fitted to the Zeus traces", err
	}
	dir := o.Path(o.profiles)
	if below := filepath.Join(dir, "zeus-nsdi23"); cli.Exists(below) {
		dir = below
	}
	if jobs, err = trial.Load(dir); err != nil {
		return nil, "", cli.Usagef("--profiles: %w", err)
	}
	return jobs, "tables of the Zeus traces", nil
}

// draw returns a function that draws the jobs of a seed.
func (o *compareTrainingOptions) draw(jobs int) (func(uint64) ([]training.Scenario, error), error) {
	if jobs < 1 || jobs > maxSeeds {
		return nil, fmt.Errorf("--job-count %d: want 1 to %d", jobs, maxSeeds)
	}
	options := pretrain.GeneratorOptions{Kinds: pretrain.Embedded()}
	if o.profiles != "" {
		loaded, err := pretrain.Load(o.Path(o.profiles))
		if err != nil {
			return nil, fmt.Errorf("--profiles: %w", err)
		}
		options.Kinds = loaded
	}
	switch o.kinds {
	case "train", "held-out", "all":
		options.Set = pretrain.Set(o.kinds)
	case "sia":
		options.Set = pretrain.All
		options.Kinds = slices.DeleteFunc(options.Kinds, func(k pretrain.Kind) bool { return !strings.HasPrefix(k.Source, "Sia") })
		if len(options.Kinds) == 0 {
			return nil, errors.New("--kinds sia: the Sia tables are not embedded: give their directory with --profiles DIR")
		}
	default:
		return nil, fmt.Errorf("--kinds %q: want train, held-out, sia, all or zeus", o.kinds)
	}
	return func(seed uint64) ([]training.Scenario, error) { return pretrain.Scenarios(jobs, seed, options) }, nil
}

// loadedAgent is an agent loaded by --agent, used as a policy.
type loadedAgent struct {
	name, file string
	agent      *plan.Agent
}

type loadedAgents []loadedAgent

// agentName matches the permitted names of policies given by --agent.
var agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`)

// loadAgents reads the files of --agent. Errors start with the invalid value.
func loadAgents(e *cli.Env, values []string) (loadedAgents, error) {
	var out loadedAgents
	for _, v := range values {
		name, file, ok := strings.Cut(v, "=")
		switch {
		case !ok || file == "" || !agentName.MatchString(name):
			return nil, fmt.Errorf("%q: want NAME=FILE, NAME of letters, digits, dots, dashes and underscores, at most 40", v)
		case slices.Contains(trial.Names(), name):
			return nil, fmt.Errorf("%s: a policy %s exists", v, name)
		case slices.ContainsFunc(out, func(a loadedAgent) bool { return a.name == name }):
			return nil, fmt.Errorf("%s: %s is given twice", v, name)
		}
		agent, err := readAgent(e.Path(file))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
		out = append(out, loadedAgent{name, file, agent})
	}
	return out, nil
}

func readAgent(file string) (*plan.Agent, error) {
	in, err := regular.Open(file, regular.Data)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	if info, err := in.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("is a directory, want an agent file")
	}
	return plan.LoadAgent(in)
}

// planner returns the planner of a loaded agent, for trial.Bench.Agents.
func (l loadedAgents) planner(name string) (plan.Planner, error) {
	for _, a := range l {
		if a.name == name {
			return plan.MORL{Agent: a.agent}, nil
		}
	}
	return nil, nil
}

// notes describes the source of each agent name.
func (l loadedAgents) notes() []string {
	var out []string
	for _, a := range l {
		out = append(out, fmt.Sprintf("%s is the planner morl with the agent of %s: %s, trained on %d decisions", a.name, filepath.Base(a.file), a.agent.Meta.Agent, a.agent.Meta.Stats.Steps))
	}
	return out
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/internal/regular"
	"trainopt/optimizer/plan"
	"trainopt/simulator/experiment"
	"trainopt/simulator/training"
	"trainopt/simulator/training/profile"
	"trainopt/simulator/training/recurring"
	"trainopt/simulator/trial"
)

// zeusKind is the kind of recurring jobs; see compareRecurring.
const zeusKind = "zeus"

// comparingTraining holds the flags of compare training.
type comparingTraining struct {
	comparing
	prefer, agents    []string
	kinds, profiles   string
	figure            string
	jobs, recurrences int
	eta               float64
}

func compareTrainingCommand(e *env, c *common) *cobra.Command {
	var f comparingTraining
	cmd := &cobra.Command{
		Use: "training", Short: "Benchmark planners on simulated training jobs", Args: cobra.NoArgs,
		Long: `Runs simulated training jobs under several policies and compares time, cost, energy, deadlines, budgets and regret.

The jobs are drawn from measured training jobs; each policy meets the same jobs with the same agreement and noise.
What a policy measures and every restart is charged to it. Policies: ` + strings.Join(trial.Names(), ", ") + `,
and the planner morl with another agent: --agent NAME=FILE makes it the policy NAME.

With --kinds zeus the jobs are trainings that recur until they reach the same quality, and what is chosen is their batch
size and the power limit of their GPU; all search is charged. Policies: ` + strings.Join(trial.RecurringNames(), ", ") + `.

Jobs are priced as clouds price them: by the unit, for what is held. On a machine that is owned or rented as a whole,
giving back CPUs or GPUs saves nothing.`,
		Example: `  optimize compare training --policies user,oracle,random,rules,model --seeds 0:9
  optimize compare training --policies user,model,morl,mine --agent mine=agent.bin
  optimize compare training --kinds held-out --prefer cost --jobs 20 --out comparison.html --jobs-out jobs.csv
  optimize compare training --figure slamorl --kinds held-out --seeds 0:4
  optimize compare training --kinds zeus --policies user,oracle,zeus,bandit --eta 0.5`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.figure != "" {
				return e.figureTraining(cmd, c, &f)
			}
			if f.kinds == zeusKind {
				return e.compareRecurring(cmd, c, &f)
			}
			return e.compareTraining(cmd, c, &f)
		},
	}
	f.add(cmd, []string{"user", "oracle", "random", "rules", "model"})
	flags := cmd.Flags()
	flags.StringSliceVar(&f.prefer, "prefer", []string{"time", "cost", "balanced"}, "preferences under which each job is run: time, cost, resource, balanced")
	flags.StringVar(&f.kinds, "kinds", "train", "jobs of which kinds: train|held-out|sia|all|zeus")
	flags.StringVar(&f.profiles, "profiles", "", "`DIR` with the measured tables (default: the curves fitted to them)")
	flags.IntVar(&f.jobs, "jobs", 8, "jobs of each seed")
	flags.StringArrayVar(&f.agents, "agent", nil, "`NAME=FILE`: a policy NAME, the planner morl with the agent of FILE from optimize pretrain; may be repeated")
	flags.StringVar(&f.figure, "figure", "", "play a published experiment on drawn jobs: slamorl (13 workloads, three static baselines, SLA at 1.1 × their mean)")
	flags.Float64Var(&f.eta, "eta", 1, "zeus: weight of energy against time in the cost, 0 to 1")
	flags.IntVar(&f.recurrences, "recurrences", 0, "zeus: how often each job recurs (default 2 · batch sizes · power limits)")
	return cmd
}

// only rejects flags that do not apply to the given kinds of jobs.
func only(cmd *cobra.Command, kinds string, names ...string) error {
	for _, n := range names {
		if cmd.Flags().Changed(n) {
			return fmt.Errorf("--%s says nothing with --kinds %s", n, kinds)
		}
	}
	return nil
}

// compareTraining runs the benchmark of decisions on simulated training jobs.
func (e *env) compareTraining(cmd *cobra.Command, c *common, f *comparingTraining) error {
	if err := only(cmd, f.kinds, "eta", "recurrences"); err != nil {
		return usageError{err}
	}
	agents, err := e.loadAgents(f.agents)
	if err != nil {
		return usageError{fmt.Errorf("--agent %w", err)}
	}
	for _, a := range agents {
		switch given := cmd.Flags().Changed("policies"); {
		case !given:
			f.policies = append(f.policies, a.name)
		case !slices.Contains(f.policies, a.name):
			return usageError{fmt.Errorf("--agent %s=%s: %q is not among --policies", a.name, a.file, a.name)}
		}
	}
	seeds, err := f.resolve(cmd, c)
	if err != nil {
		return usageError{err}
	}
	draw, err := e.drawTraining(f.kinds, f.profiles, f.jobs)
	if err != nil {
		return err
	}
	for _, p := range f.prefer {
		if _, err := plan.ParsePreference(p); err != nil {
			return usageError{fmt.Errorf("--prefer: %w", err)}
		}
	}
	for _, p := range f.policies {
		if _, err := trial.Lookup(p, agents.planner); err != nil {
			return usageError{fmt.Errorf("--policies: %w", err)}
		}
	}
	bench := trial.Bench{Policies: f.policies, Draw: draw, Seeds: seeds, Prefer: f.prefer, Agents: agents.planner, Evaluate: experiment.Options{Notes: agents.notes(),
		Against: f.against, Title: fmt.Sprintf("Decisions on simulated training jobs (%s), preferring %s", f.kinds, strings.Join(f.prefer, ", "))}}
	var against []trial.BaselineComparison
	err = e.runComparison(c, &f.comparing, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		bench.Evaluate.Progress = progress
		comparison, trials, err := bench.Run(ctx)
		against = trial.CompareWithBaseline(trials)
		return comparison, func(w io.Writer) error { return trial.WriteTrials(w, trials) }, err
	})
	if err != nil || f.format != "text" || f.output != "" || len(against) == 0 {
		return err
	}
	return trial.WriteBaselineComparison(e.stdout, against)
}

// figureTraining reproduces a published experiment.
func (e *env) figureTraining(cmd *cobra.Command, c *common, f *comparingTraining) error {
	if f.figure != "slamorl" {
		return usageError{fmt.Errorf("--figure %q: want slamorl", f.figure)}
	}
	if err := only(cmd, "the figure slamorl", "eta", "recurrences", "prefer", "jobs", "agent", "out", "jobs-out", "format", "against"); err != nil {
		return usageError{err}
	}
	if !cmd.Flags().Changed("policies") {
		f.policies = []string{"oracle", "rules", "model"}
	}
	for _, p := range f.policies {
		if _, err := trial.Lookup(p, nil); err != nil {
			return usageError{fmt.Errorf("--policies: %w", err)}
		}
	}
	seeds, err := parseSeeds(f.seeds)
	if err != nil {
		return usageError{err}
	}
	draw, err := e.drawTraining(f.kinds, f.profiles, trial.SLAMORLWorkloads)
	if err != nil {
		return err
	}
	ctx, stop := e.untilSignal()
	defer stop()
	bar := e.bar(c, "playing")
	figure := trial.SLAMORL{Draw: draw, Seeds: seeds, Policies: f.policies, Progress: bar.at}
	rows, err := figure.Run(ctx)
	bar.done()
	if err != nil {
		return err
	}
	return trial.WriteSLAMORL(e.stdout, rows)
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
func (e *env) loadAgents(values []string) (loadedAgents, error) {
	var out loadedAgents
	for _, v := range values {
		name, file, ok := strings.Cut(v, "=")
		switch {
		case !ok || file == "" || !agentName.MatchString(name):
			return nil, fmt.Errorf("%q: want NAME=FILE, NAME of letters, digits, dots, dashes and underscores, at most 40", v)
		case slices.Contains(trial.Names(), name):
			return nil, fmt.Errorf("%s: there is a policy %s already", v, name)
		case slices.ContainsFunc(out, func(a loadedAgent) bool { return a.name == name }):
			return nil, fmt.Errorf("%s: %s is given twice", v, name)
		}
		agent, err := readAgent(inDir(e.dir, file))
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
		return nil, errors.New("it is a directory, want an agent file")
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
		out = append(out, fmt.Sprintf("%s is the planner morl with the agent of %s: %s, %d decisions learned from", a.name, filepath.Base(a.file), a.agent.Meta.Agent, a.agent.Meta.Stats.Steps))
	}
	return out
}

// drawTraining returns a function that draws the jobs of a seed.
func (e *env) drawTraining(kinds, dir string, jobs int) (func(uint64) ([]training.Scenario, error), error) {
	if jobs < 1 || jobs > maxSeeds {
		return nil, usageError{fmt.Errorf("--jobs %d: want 1 to %d", jobs, maxSeeds)}
	}
	o := profile.GeneratorOptions{Kinds: profile.Embedded()}
	if dir != "" {
		loaded, err := profile.Load(inDir(e.dir, dir))
		if err != nil {
			return nil, usageError{fmt.Errorf("--profiles: %w", err)}
		}
		o.Kinds = loaded
	}
	switch kinds {
	case "train", "held-out", "all":
		o.Set = profile.Set(kinds)
	case "sia":
		o.Set = profile.All
		o.Kinds = slices.DeleteFunc(o.Kinds, func(k profile.Kind) bool { return !strings.HasPrefix(k.Source, "Sia") })
		if len(o.Kinds) == 0 {
			return nil, usageError{errors.New("--kinds sia: the Sia tables are not part of the program: give their directory with --profiles DIR")}
		}
	default:
		return nil, usageError{fmt.Errorf("--kinds %q: want train, held-out, sia, all or zeus", kinds)}
	}
	return func(seed uint64) ([]training.Scenario, error) { return profile.Scenarios(jobs, seed, o) }, nil
}

// maxRecurrences limits the number of recurrences of one comparison.
const maxRecurrences = 100000

// compareRecurring compares policies on the recurring jobs of the Zeus evaluation.
func (e *env) compareRecurring(cmd *cobra.Command, c *common, f *comparingTraining) error {
	if err := only(cmd, f.kinds, "prefer", "jobs", "agent"); err != nil {
		return usageError{err}
	}
	if !cmd.Flags().Changed("policies") {
		f.policies = []string{"user", "oracle", "grid", "random", "zeus", "bandit"}
	}
	seeds, err := f.resolve(cmd, c)
	if err != nil {
		return usageError{err}
	}
	for _, p := range f.policies {
		if err := trial.CheckRecurring(p); err != nil {
			return usageError{fmt.Errorf("--policies: %w", err)}
		}
	}
	switch {
	case !(f.eta >= 0 && f.eta <= 1):
		return usageError{fmt.Errorf("--eta %g: want 0 (time alone) to 1 (energy alone)", f.eta)}
	case cmd.Flags().Changed("recurrences") && (f.recurrences < 1 || f.recurrences > maxRecurrences):
		return usageError{fmt.Errorf("--recurrences %d: want 1 to %d", f.recurrences, maxRecurrences)}
	}
	jobs, from, err := e.recurringJobs(f.profiles)
	if err != nil {
		return err
	}
	r := trial.Recurring{Policies: f.policies, Jobs: jobs, Seeds: seeds, Eta: f.eta, Recurrences: f.recurrences, Evaluate: experiment.Options{
		Against: f.against, Title: fmt.Sprintf("Batch size and power limit of recurring training jobs (%s), eta %g", from, f.eta)}}
	return e.runComparison(c, &f.comparing, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		r.Evaluate.Progress = progress
		comparison, all, err := r.Run(ctx)
		return comparison, func(w io.Writer) error { return trial.WriteRecurred(w, all) }, err
	})
}

// recurringJobs returns the jobs of the tables in a folder or in its subfolder zeus-nsdi23, or of the fitted models if
// dir is "", and a description of the source.
func (e *env) recurringJobs(dir string) (jobs []*recurring.Job, from string, err error) {
	if dir == "" {
		jobs, err = recurring.Fitted()
		return jobs, "models fitted to the Zeus traces", err
	}
	dir = inDir(e.dir, dir)
	jobs, err = recurring.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if below, err2 := recurring.Load(filepath.Join(dir, "zeus-nsdi23")); err2 == nil || !errors.Is(err2, fs.ErrNotExist) {
			jobs, err = below, err2
		}
	}
	if err != nil {
		return nil, "", usageError{fmt.Errorf("--profiles: %w", err)}
	}
	return jobs, "tables of the Zeus traces", nil
}

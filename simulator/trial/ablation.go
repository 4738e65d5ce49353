package trial

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"trainopt/morl"
	"trainopt/optimizer/plan"
	"trainopt/simulator/experiment"
	"trainopt/simulator/training"
)

// Ablation shows what each of the four components of SLA-MORL (arXiv 2508.03509) is worth: critic resets, dropout
// uncertainty, dynamic weights and several policies. The reference has all of them, in the layout of SLA-MORL (the agent
// multi); every other arm differs in one component, which is off or as in the code of SLA-MORL. All arms run the same jobs
// with the same noise, beside oracle, model and the default agent.
//
// An arm has an agent for each seed, trained with that seed, so that the intervals cover the chance of training too.
type Ablation struct {
	Draw   func(seed uint64) ([]training.Scenario, error)
	Seeds  []uint64
	Prefer []string // in the user's notation
	// Train returns an agent multi trained with the configuration, in which zero fields have the default of the caller.
	Train    func(ctx context.Context, c morl.Config, seed uint64) (*plan.Agent, error)
	Progress func(done, total int)
	Title    string
}

// ablated is one arm of an Ablation.
type ablated struct {
	component, setting, means string
	config                    morl.Config
	planner                   plan.MORL // without the agent
	plain                     bool      // critics are evaluated without dropout
}

// dropoutPasses is the number of passes with dropout, dropoutSpread the factor that scales their spread to a standard
// deviation of the error (morl, TestDropoutAgainstEnsemble).
const (
	dropoutPasses = 20
	dropoutSpread = 0.30
)

// allOn is the configuration of the agent with all components.
var allOn = morl.Config{Resets: morl.Resets{Mode: "evidence", Debt: 3}}

// ablations are the arms; the first is the reference.
var ablations = []ablated{
	{component: "all", setting: "on", means: "resets on evidence, spread of 20 passes with dropout, weights that adapt to projected violations, a policy for each preference", config: allOn},
	{component: "resets", setting: "off", means: "critics are never replaced", config: morl.Config{}},
	{component: "resets", setting: "ancestor", means: "every 200 decisions of a policy with probability 0.3, by an untrained critic", config: morl.Config{Resets: morl.Resets{Mode: "random", Debt: 3}}},
	{component: "dropout", setting: "off", means: "dropout in training only; the critics' value decides, however uncertain", config: allOn, planner: plan.MORL{SpreadFactor: -1}, plain: true},
	{component: "dropout", setting: "ancestor", means: "dropout never active, as its networks are always in evaluation mode; the critics' value decides", config: morl.Config{Resets: allOn.Resets, Dropout: -1}, planner: plan.MORL{SpreadFactor: -1}, plain: true},
	{component: "weights", setting: "off", means: "the preference and the multiplier of the SLA, whatever is projected", config: allOn, planner: plan.MORL{Weights: "preference"}},
	{component: "weights", setting: "ancestor", means: "its constants: 0.6 for the preferred objective, 0.1 for the others, 0.2 for the SLA; balanced 0.25 each", config: allOn, planner: plan.MORL{Weights: "constant"}},
	{component: "policies", setting: "off", means: "one policy for all preferences", config: morl.Config{Resets: allOn.Resets, Policies: "one"}},
	{component: "policies", setting: "ancestor", means: "several, selected by the preference, but all learn the same weights", config: morl.Config{Resets: allOn.Resets, Policies: "unweighted"}},
}

// references are the arms beside which the others are shown; model is the first.
var references = []string{"model", "oracle", "user", "morl"}

func (a *ablated) name() string { return a.component + " " + a.setting }

// run runs a job with the planner of the arm and an agent trained for it.
func (a *ablated) run(job Job, agent *plan.Agent) (*outcome, error) {
	p, passes := a.planner, dropoutPasses
	if a.plain {
		passes = 0
	}
	p.SpreadFactor = cmp.Or(p.SpreadFactor, dropoutSpread)
	var err error
	if p.Agent, err = agent.WithDropout(passes); err != nil {
		return nil, err
	}
	return Run(job, p, Options{})
}

// trained returns a function that returns the agent of an arm and a seed, trained when it is first required.
func (e *Ablation) trained() func(context.Context, *ablated, uint64) (*plan.Agent, error) {
	type key struct {
		resets   string
		dropout  float64
		policies string
		seed     uint64
	}
	var mu sync.Mutex
	agents := make(map[key]func() (*plan.Agent, error))
	return func(ctx context.Context, a *ablated, seed uint64) (*plan.Agent, error) {
		k := key{a.config.Resets.Mode, a.config.Dropout, a.config.Policies, seed}
		mu.Lock()
		train, ok := agents[k]
		if !ok {
			train = sync.OnceValues(func() (*plan.Agent, error) { return e.Train(ctx, a.config, seed) })
			agents[k] = train
		}
		mu.Unlock()
		return train()
	}
}

// Run trains the agents, runs all arms and returns their comparison with model and with the reference. Errors are those of
// experiment.Run: when the context is cancelled, the complete part is returned with its error.
func (e *Ablation) Run(ctx context.Context) (*experiment.Comparison, error) {
	b := Bench{Draw: e.Draw, Seeds: e.Seeds, Prefer: e.Prefer}
	list, err := b.cases()
	if err != nil {
		return nil, err
	}
	arms, policies := make(map[string]*ablated), slices.Clone(references)
	o := experiment.Options{Engine: "training", Title: e.Title, Metrics: ablationMetrics(), Against: []string{"model", ablations[0].name()}, Progress: e.Progress}
	for i := range ablations {
		a := &ablations[i]
		arms[a.name()], policies = a, append(policies, a.name())
		o.Notes = append(o.Notes, a.name()+": "+a.means)
	}
	o.Notes = append(o.Notes, notes...)
	agent, models := e.trained(), make([]*outcome, len(list)) // runs of model by case
	c, _, err := experiment.Run(ctx, policies, experimentCases(list), o, func(ctx context.Context, policy string, k int) (map[string]float64, struct{}, error) {
		c, resets := &list[k], math.NaN()
		arm, err := Lookup(policy, nil)
		if a := arms[policy]; a != nil {
			var trained *plan.Agent
			if trained, err = agent(ctx, a, c.seed); err == nil {
				resets = float64(trained.Meta.Stats.Resets)
				arm = Arm{a.means, func(job Job, _ *jobTruth, _ Options) (*outcome, error) { return a.run(job, trained) }}
			}
		}
		if err != nil {
			return nil, struct{}{}, err
		}
		t, err := c.try(policy, arm, Options{})
		if err != nil {
			return nil, struct{}{}, err
		}
		if policy == "model" {
			models[k] = t.Outcome
		}
		t.Values["resets"], t.Values["unlike_model"] = resets, math.NaN()
		if m := models[k]; m != nil {
			t.Values["unlike_model"] = map[bool]float64{true: 1}[t.Outcome.Seconds != m.Seconds || t.Outcome.USD != m.USD]
		}
		return t.Values, struct{}{}, nil
	})
	return c, err
}

// ablationMetrics returns the metrics of an ablation.
func ablationMetrics() []experiment.Metric {
	var out []experiment.Metric
	for _, m := range metrics(nil) {
		switch m.Name {
		case "regret", "agreement_kept":
			out = append(out, m)
		case "restarts":
			m.Detail = true
			out = append(out, m)
		}
	}
	return append(out, experiment.Metric{Name: "unlike_model", Unit: "share", Detail: true, Means: "runs that differ from that of model in time or cost"},
		experiment.Metric{Name: "resets", Detail: true, Means: "critics replaced in the training of the agent"})
}

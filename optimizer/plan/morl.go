package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"trainopt/morl"
	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// MORL plans with a pretrained multi-objective agent, within the candidates that the performance model allows.
//
// The agent learned in simulation (simulator/training.Environment) the error of a performance model fitted to a few
// measurements. Its critics correct the prediction for each allocation that meets the SLA; the preference then
// chooses among the corrected predictions as Model does among the uncorrected ones. The allocation reached by
// following the actor from the current allocation is one of the candidates.
//
// MORL decides as Model does, and records the reason, when no correction is possible (no model, or total work
// unknown), when the job cannot be moved, when no allocation meets the SLA, when the agent file is broken or belongs
// to another environment, and when the critics disagree on whether another allocation is better: their mean advantage
// must exceed its standard deviation over the critics times spreadFactor.
type MORL struct {
	// Agent decides; nil selects the embedded agent.
	Agent *Agent
	// Broken is the reason for a missing agent; the model then decides.
	Broken error
	// SpreadFactor scales the spread of the critics to a standard deviation of their error; 0: 3.35, negative: their mean
	// decides regardless of the spread.
	SpreadFactor float64
	// Weights of the objectives: "" adapts them to projected violations, "preference" leaves them as preferred, and
	// "constant" is the code of SLA-MORL: 0.6 for the leading objective, 0.1 for the others and 0.2 for the SLA, or all 0.25.
	Weights string
}

var _ Planner = MORL{}

// Name returns "morl".
func (MORL) Name() string { return "morl" }

// Agent is a pretrained agent. It is safe for concurrent use.
type Agent struct {
	Meta    morl.Meta
	critics morl.Valuer
	// multiplier is the Lagrange multiplier of the SLA used in training.
	multiplier float64
}

// errForeignAgent is returned for a saved agent that cannot evaluate training jobs.
var errForeignAgent = errors.New("not an agent for training jobs")

// WithDropout returns an agent whose critics are evaluated by passes with dropout (see morl.NewDropout).
func (a *Agent) WithDropout(passes int) (*Agent, error) {
	d, err := morl.NewDropout(a.critics, passes, a.Meta.Seed)
	return &Agent{Meta: a.Meta, critics: d, multiplier: a.multiplier}, err
}

// LoadAgent reads an agent file (morl.WriteFile). The agent must have critics and must have been trained in a
// simulator/training.Environment.
func LoadAgent(r io.Reader) (*Agent, error) {
	meta, a, err := morl.ReadFile(r)
	if err != nil {
		return nil, err
	}
	critics, ok := a.(morl.Valuer)
	s := meta.Shape
	if !ok || s.State != perf.StateSize || s.Actions != 9 && s.Actions != 27 || !slices.Equal(s.Objectives, perf.Objectives) {
		return nil, fmt.Errorf("agent %q for %q (%d state numbers, %d actions, objectives %v): %w", meta.Agent, meta.Env, s.State, s.Actions, s.Objectives, errForeignAgent)
	}
	return &Agent{Meta: meta, critics: critics, multiplier: multiplierOf(meta)}, nil
}

// Learned contains the details of a learning agent's decision.
type Learned struct {
	Agent string // kind and amount of training, as text
	// State is the state of the chosen allocation. Action is the actor's first step from the current allocation, out
	// of Actions (9 or 27). Walk is the allocation that its steps lead to.
	State   perf.State
	Action  int
	Actions int
	Walk    resources.Allocation
	// Weights are the preference weights passed to the agent (cost, time, resource, SLA). Value is the critics' mean
	// estimate of the rest of the run at the choice, relative to the whole run at the baseline, and Spread its
	// standard deviation over the critics.
	Weights, Value, Spread [4]float64
	// UnitSeconds is the model's prediction for a unit of work at the choice. Shift is the factor by which the
	// critics correct the seconds of the whole run.
	UnitSeconds, Shift float64
	// Fallback is the reason why the model decided; empty when the agent decided or agreed.
	Fallback string
}

// spreadFactor scales the spread of an ensemble of critics to a standard deviation of their error; the plain spread
// is too small by this factor (morl, TestDropoutAgainstEnsemble).
const spreadFactor = 3.35

// Decide returns the choice described at MORL. *Infeasible and other errors are those of Model.
func (p MORL) Decide(s Snapshot) (Plan, error) {
	base, err := Model{}.Decide(s)
	base.Planner = p.Name()
	if err != nil {
		var no *Infeasible
		if errors.As(err, &no) {
			no.Plan.Planner = p.Name()
		}
		return base, err
	}
	agent, err := p.agent()
	why := ""
	switch {
	case err != nil:
		why = err.Error()
	case s.Model != nil && !(s.Total > 0):
		why = "the remaining work is unknown"
	case !base.Predicted:
		why = "nothing is measured yet"
	case s.Current != nil && !s.Resumable:
		why = "the job cannot be moved"
	}
	if why != "" {
		base.Learned = &Learned{Fallback: why}
		if s.Model != nil {
			base.Reason += "; the model's choice, as " + why
		}
		return base, nil
	}
	return agent.decide(s, base, p), nil
}

// Current returns the deciding agent.
func (p MORL) Current() (*Agent, error) { return p.agent() }

func (p MORL) agent() (*Agent, error) {
	if p.Agent != nil || p.Broken != nil {
		return p.Agent, p.Broken
	}
	return embedded()
}

// decide corrects the model's candidates and chooses again. Candidates are the model's choice, the feasible part of
// the front, the current allocation and the end of the actor's walk.
func (a *Agent) decide(s Snapshot, base Plan, settings MORL) Plan {
	o := outlook(s)
	w := a.weights(s, base, settings.Weights)
	factor := cmp.Or(settings.SpreadFactor, spreadFactor)
	l := &Learned{Agent: fmt.Sprintf("%s, %d decisions", a.Meta.Agent, a.Meta.Stats.Steps), Weights: w, Actions: a.Meta.Shape.Actions}
	l.Action, l.Walk = a.walk(o, s, w)
	cs := slices.Clone(base.Candidates)
	all := rated(s)
	current, model := -1, -1
	var among []int
	for i, c := range cs {
		if s.Current != nil && c.Allocation.SameShape(*s.Current) {
			current = i
		}
		own := c.Allocation.Same(base.Allocation)
		if own {
			model = i
		}
		if own || feasible(c) && !measuredWorse(s, all, c.Allocation) && (c.OnFront || i == current || c.Allocation.SameShape(l.Walk)) {
			among = append(among, i)
		}
	}
	if model < 0 { // unreachable while Model chooses among its candidates
		return base
	}
	at := make([]resources.Allocation, len(among))
	for k, i := range among {
		at[k] = cs[i].Allocation
	}
	plain := choose(cs, among, s.Preference.normalised(), current)
	judged := o.CriticEstimates(a.critics, resources.ActionSpace{WithMemory: l.Actions == 27}.Stay(), at, w)
	by := make(map[int]*perf.CriticEstimate, len(judged))
	for k, i := range among {
		by[i] = &judged[k]
		correct(&cs[i], judged[k], o.Own)
	}
	chosen := choose(cs, among, s.Preference.normalised(), current)
	if chosen == plain { // the corrections change nothing: keep the choice of the model, which also considers uncertainty
		chosen = model
	}
	if chosen >= 0 && chosen != model {
		if gain, sd := by[chosen].AdvantageOver(*by[model]); factor >= 0 && !(gain > factor*sd) {
			l.Fallback = fmt.Sprintf("the critics are not sure that %s is better (%+.3f ± %.3f)", cs[chosen].Allocation, gain, factor*sd)
			chosen = model
		}
	}
	if chosen < 0 {
		chosen = model
	}
	l.UnitSeconds, l.Shift = s.Model.UnitSeconds(cs[chosen].Allocation).P50, cs[chosen].Seconds.P50/base.Candidates[chosen].Seconds.P50
	l.State, l.Value, l.Spread = by[chosen].State, by[chosen].Value, by[chosen].Spread
	return a.plan(s, base, chosen, model, l)
}

// plan returns the model's plan with the agent's choice applied.
func (a *Agent) plan(s Snapshot, base Plan, chosen, model int, l *Learned) Plan {
	out := base
	if chosen != model {
		b := newEvaluation(s)
		out = b.plan(base.Planner, chosen, b.reason(chosen)+fmt.Sprintf("; the agent prefers it to the model's choice, %s", base.Candidates[model].Allocation))
	}
	out.Learned = l
	if l.Fallback != "" {
		out.Reason += "; the model's choice, as " + l.Fallback
	}
	return out
}

// correct shifts the medians of a candidate by the difference between critics and model, at most by half of each.
func correct(c *Candidate, j perf.CriticEstimate, own perf.BaselineRun) {
	shift := func(i int, v, scale float64) float64 {
		d := (j.Potential[i] - j.Value[i]) * scale
		return v + min(max(d, -0.5*v), 0.5*v)
	}
	c.CostUSD.P50 = shift(0, c.CostUSD.P50, own.USD)
	c.Seconds.P50 = shift(1, c.Seconds.P50, own.Seconds)
}

// weights returns the preference weights for the agent: the preference, the multiplier of the SLA, and additional
// weight on objectives at risk at the current allocation. rule is MORL.Weights.
func (a *Agent) weights(s Snapshot, base Plan, rule string) [4]float64 {
	p := s.Preference.normalised()
	if rule == "constant" {
		return constantWeights([3]float64{p.Cost, p.Time, p.Resource})
	}
	w := morl.Constrained([]float32{float32(p.Cost), float32(p.Time), float32(p.Resource), 0}, []float64{0, 0, 0, a.multiplier})
	at := base.Chosen
	for _, c := range base.Candidates {
		if s.Current != nil && c.Allocation.SameShape(*s.Current) {
			at = c
		}
	}
	severity := []float64{0, 0, 0, 1 - at.Chance}
	if t := s.Spec.TimeMax.Seconds(); t > 0 {
		severity[1] = excess(at.Seconds.P50, t)
	}
	if m := s.Spec.CostMaxUSD; m > 0 {
		severity[0] = excess(at.CostUSD.P50, m)
	}
	if rule == "preference" {
		severity = nil
	}
	var before []float32
	if s.Weights != nil {
		for _, v := range s.Weights {
			before = append(before, float32(v))
		}
	}
	var out [4]float64
	for i, v := range (morl.Weights{}).Next(before, w, severity) {
		out[i] = float64(v)
	}
	return out
}

// constantWeights returns the weights of SLA-MORL's code for a preference (cost, time, resource).
func constantWeights(p [3]float64) [4]float64 {
	for i, v := range p {
		if v > p[(i+1)%3] && v > p[(i+2)%3] {
			out := [4]float64{0.1, 0.1, 0.1, 0.2}
			out[i] = 0.6
			return out
		}
	}
	return [4]float64{0.25, 0.25, 0.25, 0.25}
}

// walk follows the actor from the current or initial allocation until it selects no change, for at most 16 steps. It
// returns the first action and the final allocation.
func (a *Agent) walk(o *perf.Outlook, s Snapshot, w [4]float64) (first int, end resources.Allocation) {
	space := resources.ActionSpace{Limits: s.Limits, WithMemory: a.Meta.Shape.Actions == 27}
	at := clip(s.Baseline, s)
	if s.Current != nil {
		at = *s.Current
	}
	pref := make([]float32, len(w))
	for i, v := range w {
		pref[i] = float32(v)
	}
	first = space.Stay()
	state := make([]float32, perf.StateSize)
	for step := range 16 {
		for i, v := range o.OutlookAt(at).State {
			state[i] = float32(v)
		}
		action := a.critics.Prefer(morl.Observation{State: state, Mask: space.Mask(at)}, pref)
		if step == 0 {
			first = action
		}
		if action == space.Stay() {
			break
		}
		at = space.Apply(action, at)
	}
	return first, at
}

// outlook converts the snapshot to the input of agents.
func outlook(s Snapshot) *perf.Outlook {
	return &perf.Outlook{Limits: s.Limits, Spec: s.Spec, Rates: s.Rates, Model: s.Model, Done: s.Done, Total: s.Total,
		Elapsed: s.Elapsed.Seconds(), SpentUSD: float64(s.Spent), Current: s.Current, Baseline: s.Baseline,
		Startup: positive(s.Startup.P50), Restart: positive(s.Restart.P50)}
}

// positive returns v if it is positive and finite, otherwise 0.
func positive(v float64) float64 {
	if v > 0 && !math.IsInf(v, 0) {
		return v
	}
	return 0
}

// Package metis places containers by the agents of Metis (Wang, Weng, Wang, Chen, Li, "Metis: learning to schedule
// long-running applications in shared container clusters at scale", SC 2020) and of its follow-up George (SoCC 2021), as
// in their programs, by a recipe of this project that learns faster, and by the methods that they are compared with:
// Medea, Paragon, fixed rules, and the exact and greedy placements of package place.
//
//	o, err := metis.Place(ctx, "exact", &problem, metis.Options{})
//	w, err := problem.Evaluate(o.Placement)
//
// A Report is one placement with its context, as text, JSON, CSV of its nodes or an HTML page.
//
// Metis divides the problem: a tree of three choices per level leads from the cluster to a node, with a small network
// per level. A sub-scheduler for 27 nodes is trained once (Train), for arbitrary batches; for a batch on a large cluster,
// a high-level agent then learns, within seconds, how many containers of each app each group of 27 nodes receives.
// Vanilla RL chooses among all nodes directly; divide-and-conquer learns the whole tree for one batch. The improved
// recipe has one network that scores the distinct kinds of nodes, for any number of nodes and containers, and learns from
// a teacher based on the shadow prices of the apps (see trainImproved).
//
// Known differences from these programs:
//   - Throughputs are looked up in a table instead of predicted by a forest for each node, and the random numbers
//     differ.
//   - The best placement found counts even if it is a demonstration.
//   - With more than three groups, a demonstration assigns a container to the emptiest of all groups instead of the
//     emptiest part at each level; a group holds the capacity of its nodes (216 containers), where the program for
//     729 nodes uses 200.
//   - By default, Metis plays 1500 episodes instead of 20 000 (2000 on 729 nodes), and other methods play fewer, too.
//   - Divide-conquer is the paper's tree of four levels with settings of this project, unless Options.Compat is set.
//   - George's second-order steps are replaced by a PID Lagrangian on the same policy gradient.
//   - Objectives other than the mean throughput, several node types, and nodes that are not empty are additions (not
//     for metis).
package metis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/experiment"
)

// Options are the options of a placement. The zero value maximises the mean RPS without limits.
type Options struct {
	Objective place.Objective
	Limits    place.Limits
	Seed      uint64
	// Compat reproduces the published code where this project improves on it.
	Compat bool
	// Episodes is the number of episodes of learning methods; 0 means that of the method.
	Episodes int
	Workers  int                  // goroutines of learning methods; 0 means one per core. Results do not depend on it
	Clock    func() time.Duration // time since the start, for Outcome.Curve; nil means no times
	// Progress is called with the number of episodes played; nil means no reports.
	Progress func(episodes int)
	// Zones, Budget and Apart are the options of george, see ParseZones and george; other methods ignore them.
	Zones  []Zone
	Budget float64
	Apart  bool
	// model holds the sub-schedulers of methods that require them; nil means the built-in ones.
	Model *model
}

// Outcome is a solution with the learning curve that led to it.
type Outcome struct {
	place.Solution
	Curve []point // of learning methods
}

// point is a point of a learning curve.
type point struct {
	Episode int               `json:"episode"`
	Seconds experiment.Number `json:"seconds"` // by Options.Clock
	Mean    experiment.Number `json:"mean"`    // mean objective of the episodes since the last point
	Best    experiment.Number `json:"best"`    // best so far; NaN if no episode satisfied the limits
}

// Method is a placement method.
type Method struct {
	Does, From string
	// Objective is set if the method maximises Options.Objective, Limits if it satisfies Options.Limits. Other
	// methods have their own objective and no limits.
	Objective, Limits bool
	// Random is set if the result depends on the seed.
	Random bool
	// Compat describes how the published code differs; "" if it does not.
	Compat string
	// Learned is set if the method learns from the problem in episodes; it then returns a curve.
	Learned bool
	// Wishes is set if the method uses only the constraints of the problem, not throughputs.
	Wishes bool

	place func(ctx context.Context, p *place.Problem, o Options) (*Outcome, error)
}

// Origins of methods.
const (
	kubernetes = "Kubernetes"
	usual      = "usual"
	fromMetis  = "Metis, Wang et al., SC 2020"
	fromMedea  = "Medea, Garefalakis et al., EuroSys 2018, as Metis wrote it down"
	ours       = "this program"
)

// all is the registry of methods. A new method is one line here.
var all = map[string]Method{
	"exact": {Does: "the best placement, and a proof how far from the best it is", From: ours + "; configuration program: Gilmore and Gomory, 1961",
		Objective: true, Limits: true, place: placeExact},
	"greedy": {Does: "each container where it adds most", From: usual, Objective: true, Limits: true, place: placeGreedy(false)},
	"greedy-improve": {Does: "greedy, and then pairs of nodes are divided again as long as that helps", From: ours,
		Objective: true, Limits: true, place: placeGreedy(true)},

	"medea": {Does: "wishes about neighbours missed as little as can be; of the placements that do, the first one met", From: fromMedea,
		Wishes: true, place: placeMedea(anyOptimum)},
	"medea-best": {Does: "medea, and of the placements that miss as little one of the highest throughput", From: fromMedea, Wishes: true, place: placeMedea(bestRPS)},
	"medea-worst": {Does: "medea, and of the placements that miss as little one of the lowest throughput", From: fromMedea,
		Wishes: true, place: placeMedea(worstRPS)},
	"paragon": {Does: "what containers cause is matched with what others tolerate, the closest fit first", From: "Paragon, Delimitrou and Kozyrakis, ASPLOS 2013, as Metis adapted it",
		Wishes: true, Random: true, Compat: "nodes that were ruled out may be chosen in the end", place: placeParagon},
	"paragon-published": {Does: "paragon as in the code published with Metis, the same as paragon with --compat", From: "Paragon, as Metis adapted it",
		Wishes: true, Random: true, place: byRule("paragon-published")},

	"metis": {Does: "an agent learns how many containers each group of 27 nodes gets, trained sub-schedulers place them there", From: fromMetis,
		Objective: true, Random: true, Learned: true, place: byLearning("metis")},
	"divide-conquer": {Does: "an agent learns all choices of a tree that leads from the cluster to a node", From: fromMetis, Objective: true, Random: true, Learned: true,
		Compat: "what Metis's code runs under that name: metis without entropy, demonstrations and replay", place: byLearning("divide-conquer")},
	"vanilla-rl": {Does: "an agent learns to choose among all nodes at once", From: fromMetis, Objective: true, Random: true, Learned: true, place: byLearning("vanilla-rl")},
	"george": {Does: "divide-conquer that keeps apps to a part of the nodes: --zones, --zone-budget, --apart; unless said isr and checksum, for all but 5 % of the containers", From: "George, Wang et al., SoCC 2021",
		Objective: true, Random: true, Learned: true, place: byLearning("george")},

	"balanced":     {Does: "the node with the fewest of the app among the emptiest", From: fromMetis + ", its demonstrations", Random: true, place: byRule("balanced")},
	"binpack":      {Does: "the fullest node with room", From: kubernetes + ", MostAllocated", Random: true, place: byRule("binpack")},
	"least-loaded": {Does: "the emptiest node", From: usual, Random: true, place: byRule("least-loaded")},
	"random":       {Does: "any node with room", From: usual, Random: true, place: byRule("random")},
	"round-robin":  {Does: "one node after another", From: fromMetis + ", what its sub-scheduler is measured against", place: byRule("round-robin")},
	"spread":       {Does: "few of an app on a node, and the emptier ones", From: kubernetes + ", its default scores", Random: true, place: byRule("spread")},
}

// Names returns the names of all methods, sorted.
func Names() []string { return slices.Sorted(maps.Keys(all)) }

// Find returns the method with the given name.
func Find(name string) (Method, error) {
	m, ok := all[name]
	if !ok {
		return m, fmt.Errorf("method %q: unknown, want one of %s", name, strings.Join(Names(), ", "))
	}
	return m, nil
}

// Place places the batch of a problem by a method and validates the placement. The error wraps place.ErrInfeasible if
// no placement within the limits was found, or is the context's; in the latter case, learning methods also return the
// best placement so far, if any.
func Place(ctx context.Context, name string, p *place.Problem, o Options) (*Outcome, error) {
	m, err := Find(name)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.Validate(), o.Objective.Validate(), o.Limits.Validate()); err != nil {
		return nil, err
	}
	if o.Objective != (place.Objective{}) && !m.Objective {
		return nil, fmt.Errorf("method %s has an objective of its own", name)
	}
	if o.Limits != (place.Limits{}) && !m.Limits {
		return nil, fmt.Errorf("method %s keeps no limits", name)
	}
	out, ended := m.place(ctx, p, o)
	if out == nil {
		return nil, ended
	}
	w, err := p.Evaluate(out.Placement)
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", name, err)
	}
	if m.Objective {
		out.Value = o.Objective.Value(w, p.Nodes())
	}
	return out, ended
}

func placeExact(ctx context.Context, p *place.Problem, o Options) (*Outcome, error) {
	s, err := place.Exact(ctx, p, o.Objective, o.Limits, place.ExactSettings{})
	return outcome(&s, err)
}

func placeGreedy(improve bool) func(context.Context, *place.Problem, Options) (*Outcome, error) {
	return func(ctx context.Context, p *place.Problem, o Options) (*Outcome, error) {
		s, err := place.Greedy(ctx, p, o.Objective, o.Limits, place.GreedySettings{Improve: improve, InOrder: o.Compat})
		return outcome(&s, err)
	}
}

func placeMedea(tie medeaTie) func(context.Context, *place.Problem, Options) (*Outcome, error) {
	return func(ctx context.Context, p *place.Problem, _ Options) (*Outcome, error) {
		s, report, err := placeByMedea(ctx, p, medeaOptions{Tie: tie})
		if err != nil {
			return nil, err
		}
		if report.Magnitude > report.Least+1e-6 {
			s.Notes = append(s.Notes, fmt.Sprintf("the search ended early: %.6g is missed, none can miss less than %.6g", report.Magnitude, report.Least))
		}
		return outcome(s, nil)
	}
}

func placeParagon(ctx context.Context, p *place.Problem, o Options) (*Outcome, error) {
	if o.Compat {
		return byRule("paragon-published")(ctx, p, o)
	}
	return byRule("paragon")(ctx, p, o)
}

// byRule returns a method of package baseline.
func byRule(name string) func(context.Context, *place.Problem, Options) (*Outcome, error) {
	return func(_ context.Context, p *place.Problem, o Options) (*Outcome, error) {
		return outcome(baselines[name](p, rand.New(rand.NewPCG(o.Seed, 0))))
	}
}

func outcome(s *place.Solution, err error) (*Outcome, error) {
	if err != nil {
		return nil, err
	}
	return &Outcome{Solution: *s}, nil
}

// List returns the name, description and origin of every method.
func List() (out experiment.List) {
	for _, name := range Names() {
		m := all[name]
		lines := []string{m.Does}
		switch {
		case m.Objective && m.Limits:
			lines = append(lines, "takes any --objective and limits")
		case m.Objective:
			lines = append(lines, "takes any --objective, no limits")
		case m.Wishes:
			lines = append(lines, "knows --constraints, no throughput")
		default:
			lines = append(lines, "looks at no throughput")
		}
		if m.Compat != "" {
			lines = append(lines, "with --compat: "+m.Compat)
		}
		out = append(out, experiment.Listed{Name: name, Lines: append(lines, "from: "+m.From)})
	}
	return out
}

// orNaN replaces infinite values, which learning uses for unknown ones, by NaN.
func orNaN(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// byLearning returns a method that learns. A required model that is not given is replaced by the built-in one,
// which is for the apps measured by Metis.
func byLearning(name string) func(context.Context, *place.Problem, Options) (*Outcome, error) {
	return func(ctx context.Context, p *place.Problem, o Options) (*Outcome, error) {
		po := learningOptions{Method: name, Objective: o.Objective, Seed: o.Seed, Episodes: o.Episodes, Workers: o.Workers,
			Clock: o.Clock, Released: o.Compat && name == "divide-conquer"}
		if name == "george" {
			po.Zones, po.Budget, po.Apart = o.Zones, o.Budget, o.Apart
		}
		var model *model
		if needsModel(name, po.Released) {
			if model = o.Model; model == nil {
				model = pretrained()
			}
		}
		s, curve, err := placeByLearning(ctx, p, model, po, func(at LearningPoint) {
			if o.Progress != nil {
				o.Progress(at.Episode)
			}
		})
		if s == nil {
			return nil, err
		}
		out := &Outcome{Solution: *s}
		for _, at := range curve {
			out.Curve = append(out.Curve, point{at.Episode, experiment.Number(at.Seconds), experiment.Number(at.Value), experiment.Number(orNaN(at.Best))})
		}
		return out, err
	}
}

package simulate

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/regular"
	"trainopt/simulator/cluster"
	"trainopt/simulator/pretrain"
)

// Prefixes of policies that choose among cluster.Choices during a run.
const (
	agentPrefix = "agent:" // the agent of --agent, by a preference
	mixPrefix   = "mix:"   // at random, with constant weights: the control of what an agent gains from the state
)

// defaultPreferences are those by which policies are compared, besides those in their names.
var defaultPreferences = []string{"time", "cost", "fairness", "balanced"}

// checkPolicy returns an error if a policy does not exist, or its agent cannot be read.
func (f *roundsFlags) checkPolicy(flag, name string) error {
	agent := strings.HasPrefix(name, agentPrefix)
	if !agent && !strings.HasPrefix(name, mixPrefix) {
		return knownPolicy(flag, name)
	}
	if agent && f.agent == "" {
		return fmt.Errorf("%s %s: requires --agent FILE, from optimize pretrain --env cluster", flag, name)
	}
	if agent && f.agentData == nil {
		data, err := regular.ReadFile(f.Path(f.agent), regular.Data)
		if err != nil {
			return fmt.Errorf("--agent: %w", err)
		}
		f.agentData = data
	}
	if _, err := f.newChooser(name); err != nil {
		return fmt.Errorf("%s %s: %w", flag, name, err)
	}
	return nil
}

// newChooser returns the choices of a policy for one run; nil: it is none of cluster.Choices.
func (f *roundsFlags) newChooser(policy string) (func(*cluster.DecisionPoint) int, error) {
	if preference, ok := strings.CutPrefix(policy, agentPrefix); ok {
		return pretrain.ClusterChooser(f.agentData, preference)
	}
	mix, ok := strings.CutPrefix(policy, mixPrefix)
	if !ok {
		return nil, nil
	}
	weights, err := cluster.ParseWeights(mix, cluster.Choices)
	rng := rand.New(rand.NewPCG(0, 0))
	return func(*cluster.DecisionPoint) int {
		left := rng.Float64()
		return max(0, slices.IndexFunc(weights, func(w float64) bool { left -= w; return left < 0 }))
	}, err
}

// chooser is newChooser for a policy that checkPolicy has accepted.
func (f *roundsFlags) chooser(policy string) func(*cluster.DecisionPoint) int {
	choose, err := f.newChooser(policy)
	if err != nil {
		panic(err)
	}
	return choose
}

// preferences adds to a sweep the preferences by which its policies are compared.
func (o *compareRoundsOptions) preferences(s *cluster.Sweep) error {
	names := slices.Clone(defaultPreferences)
	for _, p := range o.policies {
		if name, ok := strings.CutPrefix(p, agentPrefix); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		p, err := cluster.ParsePreference(name)
		if err != nil {
			return err
		}
		s.Preferences = append(s.Preferences, p)
	}
	return nil
}

// drawnScenario adds to a sweep the clusters and jobs of --drawn, by seed.
func (o *compareRoundsOptions) drawnScenario(s *cluster.Sweep) error {
	const others = "cluster arrival-rates static trace generate window duration reference priorities slos filled gpus-per-server throughputs prices " +
		"compat ideal whole-rounds round recompute preemption-cost preemption-steps profiling-percentage reference-models limit backlog"
	if err := errors.Join(cli.WantOne("drawn", o.drawn, slices.Sorted(maps.Keys(pretrain.DrawnClusters))...), o.Check(cli.Rule{If: true, Flags: others, Conflict: "--drawn"}),
		o.Want("fairness", o.fairness, "true with --drawn")); err != nil {
		return err
	}
	s.Title, s.XName = "Policies on drawn clusters, "+o.drawn, "drawn"
	s.Scenarios = []cluster.Scenario{{Name: "a cluster with its jobs for each seed", Draw: pretrain.DrawnClusters[o.drawn]}}
	return nil
}

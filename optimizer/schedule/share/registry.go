// Package share contains the policies that divide the time of a cluster among training jobs: from a snapshot, each
// computes the share of every device type that each job receives. A policy is one file and one line of Policies.
//
// It does not assign devices; schedule.Engine does.
//
//	policy, err := share.New("max_min_fairness_perf", share.Options{})
//	allocation, err := policy.Decide(snapshot)
package share

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/schedule"
)

// Options are the parameters of a new policy.
type Options struct {
	// Random is the source of the policies that draw device types or pairs (fifo, gandiva); nil: a generator with a
	// fixed seed.
	Random Random
	// Compat selects the behaviour of Gavel's code where it deviates from its intention.
	Compat bool
	// Alpha is the parameter given as a suffix of the name ("allox_alpha=0.5"); nil: none.
	Alpha *float64
}

// Random is a source of random numbers, such as *rand.Rand of math/rand/v2.
type Random interface {
	// IntN returns a number from 0 to n − 1, uniformly distributed; n is at least 1.
	IntN(n int) int
}

// random returns the source of a policy.
func (o Options) random() Random {
	if o.Random != nil {
		return o.Random
	}
	return rand.New(rand.NewPCG(0, 0))
}

// Policies contains the constructors of all policies by name. A policy instance serves a single run.
var Policies = map[string]func(Options) schedule.Policy{
	"allox":             newAlloX,
	"best_match":        newBestMatch(false),
	"best_match_packed": newBestMatchPacked(false),
	"cheapest":          stateless(cheapest{}),
	"elasticflow":       newElasticFlow,
	"fifo":              newFIFO,
	"fifo_packed":       newFIFOPacked,
	"fifo_perf":         stateless(fifoPerf{}),
	"gandiva":           newGandiva,
	"isolated":          stateless(isolated{}),
	"proportional":      stateless(proportional{}),
	"sia":               newSia(false),
	"sia_exploring":     newSia(true),
	"srtf":              newBestMatch(true),
	"srtf_packed":       newBestMatchPacked(true),
	"themis":            newThemis,
	"tiresias":          newTiresias,

	"finish_time_fairness":                              newFinishTimeFairness(referenceView),
	"finish_time_fairness_packed":                       newFinishTimeFairness(packedView),
	"finish_time_fairness_perf":                         newFinishTimeFairness(heterogeneousView),
	"hierarchical_fairness_packed":                      newHierarchical(packedView, false),
	"hierarchical_fairness_perf":                        newHierarchical(heterogeneousView, false),
	"hierarchical_fifo_packed":                          newHierarchical(packedView, true),
	"hierarchical_fifo_perf":                            newHierarchical(heterogeneousView, true),
	"max_min_fairness":                                  newMaxMinFairness(agnosticView),
	"max_min_fairness_packed":                           newMaxMinFairness(packedView),
	"max_min_fairness_perf":                             newMaxMinFairness(heterogeneousView),
	"max_min_fairness_water_filling":                    newWaterFilling(agnosticView),
	"max_min_fairness_water_filling_packed":             newWaterFilling(packedView),
	"max_min_fairness_water_filling_perf":               newWaterFilling(heterogeneousView),
	"max_sum_throughput_normalized_by_cost_packed_SLOs": newMaxSumPerDollar(packedView, true),
	"max_sum_throughput_normalized_by_cost_perf":        newMaxSumPerDollar(heterogeneousView, false),
	"max_sum_throughput_normalized_by_cost_perf_SLOs":   newMaxSumPerDollar(heterogeneousView, true),
	"max_sum_throughput_perf":                           newMaxSumThroughput,
	"min_total_duration":                                newMinTotalDuration(referenceView),
	"min_total_duration_packed":                         newMinTotalDuration(packedView),
	"min_total_duration_perf":                           newMinTotalDuration(heterogeneousView),
	"strategy_proof":                                    newStrategyProof(agnosticView),
	"strategy_proof_perf":                               newStrategyProof(heterogeneousView),
}

// stateless returns the constructor of a policy without options and state.
func stateless(p schedule.Policy) func(Options) schedule.Policy {
	return func(Options) schedule.Policy { return p }
}

// Names returns the names of Policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(Policies)) }

// Packs reports whether a policy co-locates jobs, and decides by rates of pairs. An unknown one does not.
func Packs(name string) bool {
	make, ok := Policies[name]
	return ok && make(Options{}).Traits().Packs
}

// New returns a policy by name. The name of "allox" may end with "_alpha=" and a number from 0 to 1.
func New(name string, o Options) (schedule.Policy, error) {
	plain, number, hasAlpha := strings.Cut(name, "_alpha=")
	if hasAlpha {
		alpha, err := strconv.ParseFloat(number, 64)
		if err != nil || !(alpha >= 0 && alpha <= 1) {
			return nil, fmt.Errorf("policy %q: alpha is %q, want a number from 0 to 1", name, number)
		}
		if plain != "allox" {
			return nil, fmt.Errorf("policy %q: only allox has an alpha", name)
		}
		o.Alpha = &alpha
	}
	make, ok := Policies[plain]
	if !ok {
		return nil, fmt.Errorf("policy %q: unknown, want one of %s", name, strings.Join(Names(), ", "))
	}
	return make(o), nil
}

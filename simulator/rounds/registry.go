package rounds

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// PolicyOptions are the parameters of a new policy.
type PolicyOptions struct {
	Seed int64
	// Compat selects the behaviour of Gavel's code where it deviates from its intention.
	Compat bool
	// Alpha is the parameter given as a suffix of the name ("allox_alpha=0.5"); nil: none.
	Alpha *float64
}

// Policies contains the constructors of all policies by name. A policy instance serves a single run.
var Policies = map[string]func(PolicyOptions) Policy{
	"allox":             newAlloX,
	"best_match":        newBestMatch,
	"best_match_packed": newBestMatchPacked,
	"cheapest":          newCheapest,
	"elasticflow":       newElasticFlow,
	"fifo":              newFIFO,
	"fifo_packed":       newFIFOPacked,
	"fifo_perf":         newFIFOPerf,
	"gandiva":           newGandiva,
	"isolated":          newIsolated,
	"proportional":      newProportional,
	"sia":               newSia,
	"sia_exploring":     newSiaExploring,
	"srtf":              newSRTF,
	"srtf_packed":       newSRTFPacked,
	"themis":            newThemis,
	"tiresias":          newTiresias,

	"finish_time_fairness":                              newFinishTimeFairness(reference),
	"finish_time_fairness_packed":                       newFinishTimeFairness(paired),
	"finish_time_fairness_perf":                         newFinishTimeFairness(measured),
	"hierarchical_fairness_packed":                      newHierarchical(paired, false),
	"hierarchical_fairness_perf":                        newHierarchical(measured, false),
	"hierarchical_fifo_packed":                          newHierarchical(paired, true),
	"hierarchical_fifo_perf":                            newHierarchical(measured, true),
	"max_min_fairness":                                  newMaxMinFairness(alike),
	"max_min_fairness_packed":                           newMaxMinFairness(paired),
	"max_min_fairness_perf":                             newMaxMinFairness(measured),
	"max_min_fairness_water_filling":                    newWaterFilling(alike),
	"max_min_fairness_water_filling_packed":             newWaterFilling(paired),
	"max_min_fairness_water_filling_perf":               newWaterFilling(measured),
	"max_sum_throughput_normalized_by_cost_packed_SLOs": newMaxSumPerDollar(paired, true),
	"max_sum_throughput_normalized_by_cost_perf":        newMaxSumPerDollar(measured, false),
	"max_sum_throughput_normalized_by_cost_perf_SLOs":   newMaxSumPerDollar(measured, true),
	"max_sum_throughput_perf":                           newMaxSumThroughput,
	"min_total_duration":                                newMinTotalDuration(reference),
	"min_total_duration_packed":                         newMinTotalDuration(paired),
	"min_total_duration_perf":                           newMinTotalDuration(measured),
	"strategy_proof":                                    newStrategyProof(alike),
	"strategy_proof_perf":                               newStrategyProof(measured),
}

// PolicyNames returns the names of Policies, sorted.
func PolicyNames() []string { return slices.Sorted(maps.Keys(Policies)) }

// NewPolicy returns a policy by name. The name of "allox" may end with "_alpha=" and a number from 0 to 1.
func NewPolicy(name string, o PolicyOptions) (Policy, error) {
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
		return nil, fmt.Errorf("policy %q: there is none of this name; there are %s", name, strings.Join(PolicyNames(), ", "))
	}
	return make(o), nil
}

package spot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/capacity"
)

// Method is a policy with its name and description.
type Method struct {
	Name  string
	Does  string // short description
	Knows string // required information
	// Drawn is true if the choices depend on the seed.
	Drawn bool
	// Learns is true if the choices depend on the capacity before the start of the job.
	Learns bool
	// Misses is true if the policy may miss feasible deadlines.
	Misses bool

	make func(seed uint64) capacity.Policy // nil: Optimum
}

// slicesOfTime is the number of slices of the registered sliced policies.
const slicesOfTime = 8

// always returns a constructor of a policy that does not depend on the seed.
func always(p capacity.Policy) func(uint64) capacity.Policy {
	return func(uint64) capacity.Policy { return p }
}

// methods contains the policies, sorted by name. A new one is one line here.
var methods = []Method{
	{Name: "adaptive", Does: "the least expected cost by a chain estimated from the past week; uniform without a day of history", Knows: "work, deadline, past capacity", Learns: true, make: func(uint64) capacity.Policy { return new(capacity.Adaptive).Choose }},
	{Name: "cheapest", Does: "as uniform, and moves to a cheaper zone where that pays for the changeover", Knows: "work, deadline, prices", make: always(capacity.Cheapest)},
	{Name: "greedy", Does: "spot capacity alone until only a machine on demand can still be in time", Knows: "work, deadline", make: always(capacity.Greedy)},
	{Name: "on-demand", Does: "never uses spot capacity", Knows: "nothing", make: always(capacity.AlwaysOnDemand)},
	{Name: "optimum", Does: "the least that any policy could have paid and be in time", Knows: "the whole future"},
	{Name: "shifted", Does: "as sliced, with slices that begin at a random time", Knows: "work, deadline", Drawn: true, make: func(seed uint64) capacity.Policy {
		return capacity.TimeSliced(slicesOfTime, rand.New(rand.NewPCG(seed, 0x5911ce)).Float64())
	}},
	{Name: "sliced", Does: fmt.Sprintf("greedy in each of %d slices of the time", slicesOfTime), Knows: "work, deadline", make: always(capacity.TimeSliced(slicesOfTime, 0))},
	{Name: "spot-only", Does: "never pays for a machine on demand; misses deadlines", Knows: "nothing", Misses: true, make: always(capacity.SpotOnly)},
	{Name: "uniform", Does: "Uniform Progress: on demand only when behind the straight line to the deadline", Knows: "work, deadline", make: always(capacity.Uniform)},
}

// Methods returns all policies, sorted by name.
func Methods() []Method { return slices.Clone(methods) }

// Find returns the policy of a name, ignoring case. "_" and a space are equivalent to "-", and uniform-progress to
// uniform.
func Find(name string) (Method, error) {
	asked := strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(name))
	if asked == "uniform-progress" {
		asked = "uniform"
	}
	var names []string
	for _, m := range methods {
		if m.Name == asked {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Method{}, fmt.Errorf("policy %q: unknown, want one of %s", name, strings.Join(names, ", "))
}

// Run runs a job under the method; see Run and Optimum. The seed is used only if Drawn is set.
func (m Method) Run(j capacity.Job, market Market, from int, seed uint64) (outcome, error) {
	if m.make == nil {
		return hindsight(j, market, from)
	}
	return run(m.make(seed), j, market, from)
}

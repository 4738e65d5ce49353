package hdeeprm

import (
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
)

// JobPolicy selects the next waiting job.
type JobPolicy uint8

// The job policies, in the order of HDeepRM's table of actions. All but the first stably sort the queue in place,
// ascending.
const (
	RandomJob JobPolicy = iota // random, drawn again for every job
	First                      // earliest submission
	Shortest                   // lowest requested time
	Smallest                   // fewest cores
	LowMem                     // least memory per core
	LowMemBW                   // least bandwidth per core
	jobPolicies
)

// CorePolicy selects the cores of a job.
type CorePolicy uint8

// The core policies, in the order of HDeepRM's table of actions; HighFreeCores is not part of it.
const (
	RandomCore CorePolicy = iota
	HighGFLOPS            // highest speed
	HighCores             // processor with the most busy cores: the behaviour of HDeepRM's code
	HighMem               // node with the most free memory
	HighMemBW             // processor with the most free bandwidth
	LowPower              // lowest active power
	// HighFreeCores takes the processor with the most free cores: high_cores as HDeepRM's documentation describes it.
	HighFreeCores
	corePolicies
)

var (
	jobNames = [jobPolicies]string{"random", "first", "shortest", "smallest", "low_mem", "low_mem_bw"}
	// coreNames are those of cores.NewChooser.
	coreNames = [corePolicies]string{"random", "high_gflops", "high_cores", "high_mem", "high_mem_bw", "low_power", "high_free_cores"}
	// keys are the sort keys of the job policies.
	keys = [jobPolicies]func(*order.Job) float64{
		First:    func(j *order.Job) float64 { return j.Submit },
		Shortest: func(j *order.Job) float64 { return j.Request },
		Smallest: func(j *order.Job) float64 { return float64(j.Procs) },
		LowMem:   func(j *order.Job) float64 { return j.Memory },
		LowMemBW: func(j *order.Job) float64 { return j.Bandwidth },
	}
)

// String returns the name in options files.
func (p JobPolicy) String() string { return jobNames[p] }

// String returns the name in options files.
func (p CorePolicy) String() string { return coreNames[p] }

// JobPolicies returns the names of the job policies in the order of the table.
func JobPolicies() []string { return slices.Clone(jobNames[:]) }

// CorePolicies returns the names of the core policies in the order of the table, followed by high_free_cores.
func CorePolicies() []string { return slices.Clone(coreNames[:]) }

// parse returns the index of a name. The error lists the valid names.
func parse(what, name string, names []string) (int, error) {
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("no %s is called %q: there are %s", what, name, strings.Join(names, ", "))
}

// Pair is an action: a job policy and a core policy.
type Pair struct {
	Job  JobPolicy
	Core CorePolicy
}

// ParsePair parses the form "shortest-high_gflops".
func ParsePair(s string) (Pair, error) {
	job, core, found := strings.Cut(s, "-")
	if !found {
		return Pair{}, fmt.Errorf("policy pair %q: want a job policy, a hyphen and a core policy, as in shortest-high_gflops", s)
	}
	j, err := parse("job policy", job, jobNames[:])
	if err != nil {
		return Pair{}, fmt.Errorf("policy pair %q: %w", s, err)
	}
	c, err := parse("core policy", core, coreNames[:])
	if err != nil {
		return Pair{}, fmt.Errorf("policy pair %q: %w", s, err)
	}
	return Pair{JobPolicy(j), CorePolicy(c)}, nil
}

// String returns the form that ParsePair accepts.
func (p Pair) String() string { return p.Job.String() + "-" + p.Core.String() }

// Random reports whether the pair draws random numbers.
func (p Pair) Random() bool { return p.Job == RandomJob || p.Core == RandomCore }

// Table returns HDeepRM's table of 36 actions; the index of a pair is 6·job + core.
func Table() []Pair {
	var table []Pair
	for j := range jobPolicies {
		for c := range HighFreeCores {
			table = append(table, Pair{j, c})
		}
	}
	return table
}

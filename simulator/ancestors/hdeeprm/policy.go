package hdeeprm

import (
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
)

// jobPolicy selects the next waiting job.
type jobPolicy uint8

// The job policies, in the order of HDeepRM's table of actions. All but the first stably sort the queue in place,
// ascending.
const (
	randomJob   jobPolicy = iota // random, drawn again for every job
	firstJob                     // earliest submission
	shortestJob                  // lowest requested time
	smallestJob                  // fewest cores
	lowMemJob                    // least memory per core
	lowMemBWJob                  // least bandwidth per core
	jobPolicies
)

// corePolicy selects the cores of a job.
type corePolicy uint8

// The core policies, in the order of HDeepRM's table of actions; highFreeCores is not part of it.
const (
	randomCore corePolicy = iota
	highGFLOPS            // highest speed
	highCores             // processor with the most busy cores: the behaviour of HDeepRM's code
	highMem               // node with the most free memory
	highMemBW             // processor with the most free bandwidth
	lowPower              // lowest active power
	// highFreeCores takes the processor with the most free cores: high_cores as HDeepRM's documentation describes it.
	highFreeCores
	corePolicies
)

var (
	jobNames = [jobPolicies]string{"random", "first", "shortest", "smallest", "low_mem", "low_mem_bw"}
	// coreNames are those of cores.NewChooser.
	coreNames = [corePolicies]string{"random", "high_gflops", "high_cores", "high_mem", "high_mem_bw", "low_power", "high_free_cores"}
	// keys are the sort keys of the job policies.
	keys = [jobPolicies]func(*order.Job) float64{
		firstJob:    func(j *order.Job) float64 { return j.Submit },
		shortestJob: func(j *order.Job) float64 { return j.Request },
		smallestJob: func(j *order.Job) float64 { return float64(j.Procs) },
		lowMemJob:   func(j *order.Job) float64 { return j.Memory },
		lowMemBWJob: func(j *order.Job) float64 { return j.Bandwidth },
	}
)

// String returns the name in options files.
func (p jobPolicy) String() string { return jobNames[p] }

// String returns the name in options files.
func (p corePolicy) String() string { return coreNames[p] }

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
	job  jobPolicy
	core corePolicy
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
	return Pair{jobPolicy(j), corePolicy(c)}, nil
}

// String returns the form that ParsePair accepts.
func (p Pair) String() string { return p.job.String() + "-" + p.core.String() }

// Settings returns the settings under which every decision applies the pair; the only choice is action 0. seed and compat are
// as in Settings.
func (p Pair) Settings(seed int64, compat bool) Settings {
	return Settings{Actions: []Pair{p}, Void: true, View: Minimal, Objective: Completion, Seed: seed, Compat: compat}
}

// Random reports whether the pair draws random numbers.
func (p Pair) Random() bool { return p.job == randomJob || p.core == randomCore }

// Table returns HDeepRM's table of 36 actions; the index of a pair is 6·job + core.
func Table() []Pair {
	var table []Pair
	for j := range jobPolicies {
		for c := range highFreeCores {
			table = append(table, Pair{j, c})
		}
	}
	return table
}

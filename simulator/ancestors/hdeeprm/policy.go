package hdeeprm

import (
	"fmt"
	"slices"
	"strings"

	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
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
	jobNames  = [jobPolicies]string{"random", "first", "shortest", "smallest", "low_mem", "low_mem_bw"}
	coreNames = [corePolicies]string{"random", "high_gflops", "high_cores", "high_mem", "high_mem_bw", "low_power", "high_free_cores"}
	// keys are the sort keys of the job policies.
	keys = [jobPolicies]func(*queue.Job) float64{
		First:    func(j *queue.Job) float64 { return j.Submit },
		Shortest: func(j *queue.Job) float64 { return j.Request },
		Smallest: func(j *queue.Job) float64 { return float64(j.Procs) },
		LowMem:   func(j *queue.Job) float64 { return j.Memory },
		LowMemBW: func(j *queue.Job) float64 { return j.Bandwidth },
	}
	choosers = [corePolicies]func(below func(int) int) cores.Chooser{
		RandomCore:    cores.Anywhere,
		HighGFLOPS:    func(func(int) int) cores.Chooser { return cores.Fastest() },
		HighCores:     func(func(int) int) cores.Chooser { return cores.Busiest() },
		HighMem:       func(func(int) int) cores.Chooser { return cores.MostMemory() },
		HighMemBW:     func(func(int) int) cores.Chooser { return cores.MostBandwidth() },
		LowPower:      func(func(int) int) cores.Chooser { return cores.Thriftiest() },
		HighFreeCores: func(func(int) int) cores.Chooser { return cores.Freest() },
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

// ParseJobPolicy returns the job policy with the given name. The error lists the valid names.
func ParseJobPolicy(name string) (JobPolicy, error) {
	if i := slices.Index(jobNames[:], name); i >= 0 {
		return JobPolicy(i), nil
	}
	return 0, fmt.Errorf("no job policy is called %q: there are %s", name, strings.Join(jobNames[:], ", "))
}

// ParseCorePolicy returns the core policy with the given name. The error lists the valid names.
func ParseCorePolicy(name string) (CorePolicy, error) {
	if i := slices.Index(coreNames[:], name); i >= 0 {
		return CorePolicy(i), nil
	}
	return 0, fmt.Errorf("no core policy is called %q: there are %s", name, strings.Join(coreNames[:], ", "))
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
	var p Pair
	var err error
	if p.Job, err = ParseJobPolicy(job); err != nil {
		return Pair{}, fmt.Errorf("policy pair %q: %w", s, err)
	}
	if p.Core, err = ParseCorePolicy(core); err != nil {
		return Pair{}, fmt.Errorf("policy pair %q: %w", s, err)
	}
	return p, nil
}

// String returns the form that ParsePair accepts.
func (p Pair) String() string { return p.Job.String() + "-" + p.Core.String() }

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

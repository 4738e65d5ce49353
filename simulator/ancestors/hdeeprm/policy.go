package hdeeprm

import (
	"fmt"
	"slices"
	"strings"

	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
)

// JobPolicy says which waiting job is next.
type JobPolicy uint8

// The job policies, in the order of HDeepRM's table of actions. All but the first sort the queue, ascending and stably, in place.
const (
	RandomJob JobPolicy = iota // any, anew at each look at the queue
	First                      // submitted first
	Shortest                   // lowest requested time
	Smallest                   // fewest cores
	LowMem                     // least memory of a core
	LowMemBW                   // least bandwidth of a core
	jobPolicies
)

// CorePolicy says which cores a job gets.
type CorePolicy uint8

// The core policies, in the order of HDeepRM's table of actions; HighFreeCores is not in it.
const (
	RandomCore CorePolicy = iota
	HighGFLOPS            // highest speed
	HighCores             // processor with the most busy cores: what HDeepRM does under this name
	HighMem               // node with the most memory left
	HighMemBW             // processor with the most bandwidth left
	LowPower              // lowest power at work
	// HighFreeCores is the processor with the most free cores: what HDeepRM's documentation says of high_cores.
	HighFreeCores
	corePolicies
)

var (
	jobNames  = [jobPolicies]string{"random", "first", "shortest", "smallest", "low_mem", "low_mem_bw"}
	coreNames = [corePolicies]string{"random", "high_gflops", "high_cores", "high_mem", "high_mem_bw", "low_power", "high_free_cores"}
	// keys are what the job policies sort by.
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

// String is the name in options files.
func (p JobPolicy) String() string { return jobNames[p] }

// String is the name in options files.
func (p CorePolicy) String() string { return coreNames[p] }

// JobPolicies are the names of the job policies in the order of the table.
func JobPolicies() []string { return slices.Clone(jobNames[:]) }

// CorePolicies are the names of the core policies in the order of the table, and then high_free_cores.
func CorePolicies() []string { return slices.Clone(coreNames[:]) }

// ParseJobPolicy is the job policy of a name. The error names those that there are.
func ParseJobPolicy(name string) (JobPolicy, error) {
	if i := slices.Index(jobNames[:], name); i >= 0 {
		return JobPolicy(i), nil
	}
	return 0, fmt.Errorf("no job policy is called %q: there are %s", name, strings.Join(jobNames[:], ", "))
}

// ParseCorePolicy is the core policy of a name. The error names those that there are.
func ParseCorePolicy(name string) (CorePolicy, error) {
	if i := slices.Index(coreNames[:], name); i >= 0 {
		return CorePolicy(i), nil
	}
	return 0, fmt.Errorf("no core policy is called %q: there are %s", name, strings.Join(coreNames[:], ", "))
}

// Pair is an action: a policy for jobs and one for cores.
type Pair struct {
	Job  JobPolicy
	Core CorePolicy
}

// ParsePair reads "shortest-high_gflops".
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

// String is the form that ParsePair reads.
func (p Pair) String() string { return p.Job.String() + "-" + p.Core.String() }

// Table is HDeepRM's table of actions: number 6·job + core, 36 of them.
func Table() []Pair {
	var table []Pair
	for j := range jobPolicies {
		for c := range HighFreeCores {
			table = append(table, Pair{j, c})
		}
	}
	return table
}

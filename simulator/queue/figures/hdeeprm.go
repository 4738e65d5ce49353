package figures

import (
	"fmt"
	"slices"

	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/sweep"
)

// Learning returns HDeepRM's learning experiment, in which an agent learns where to place jobs: two jobs on four
// cores, where the fast processor has insufficient bandwidth for both. It is learning_workload.json in the repository
// of HDeepRM (MIT licence, 6 October 2019).
func Learning() (*sweep.Workload, error) {
	tree, err := platform.Example("learning")
	if err != nil {
		return nil, err
	}
	var jobs []queue.Job
	for i := range 2 {
		jobs = append(jobs, queue.Job{ID: i, Procs: 1, Request: 5, Run: 5, Ops: 5 * 4.2e9, RequestOps: 5 * 4.2e9, Memory: 8000, Bandwidth: 24, User: -1, Group: -1, Executable: -1})
	}
	return &sweep.Workload{Name: "HDeepRM's learning experiment, 2 jobs", Jobs: jobs, Procs: tree.Cores, Tree: tree, Limits: hdeeprm.LimitsOf(jobs),
		Dropped: map[string]int{}}, nil
}

// HDeepRM returns a comparison of all pairs of HDeepRM's table with orders, backfilling and placements on a platform.
func HDeepRM(w *sweep.Workload, compat bool, seeds []uint64) *sweep.Sweep {
	s := &sweep.Sweep{Title: "HDeepRM's pairs and what is better: " + w.Name,
		Notes: []string{"HDeepRM has no published table: its repository has these experiments without results, so that only ours are shown"}}
	for _, pair := range hdeeprm.Table() {
		s.Methods = append(s.Methods, sweep.Named{Name: pair.String(), Method: sweep.Method{Policy: pair.String(), Compat: compat}})
	}
	for _, order := range []string{"fcfs", "sjf", "saf"} {
		for _, placement := range []string{"high_gflops", "best"} {
			s.Methods = append(s.Methods, sweep.Named{Name: order + "+easy+" + placement, Method: sweep.Method{Policy: order, Backfill: "easy", Placement: placement}})
		}
	}
	s.Methods = append(s.Methods, sweep.Named{Name: "saf+easy+best, makespan", Method: sweep.Method{Policy: "saf", Backfill: "easy", Placement: "best", Objective: "makespan"}})
	s.Methods = append(s.Methods, sweep.Named{Name: "saf+easy+energy", Method: sweep.Method{Policy: "saf", Backfill: "easy", Placement: "energy", Objective: "energy"}})
	s.Against = []string{s.Methods[slices.IndexFunc(s.Methods, func(m sweep.Named) bool { return m.Policy == "first-high_gflops" })].Name}
	for _, seed := range seeds {
		s.Cases = append(s.Cases, sweep.Case{Name: fmt.Sprintf("seed %d", seed), Workload: w, Seed: seed, Group: seed})
	}
	return s
}

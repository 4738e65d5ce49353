package sweep

import (
	"fmt"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
)

// LearningExperiment returns HDeepRM's learning experiment, in which an agent learns where to place jobs: two jobs on four
// cores, where the fast processor has insufficient bandwidth for both. It is learning_workload.json in the repository
// of HDeepRM (MIT licence, 6 October 2019).
func LearningExperiment() (*Workload, error) {
	tree, err := platform.Example("learning")
	if err != nil {
		return nil, err
	}
	var jobs []order.Job
	for i := range 2 {
		jobs = append(jobs, order.Job{ID: i, Procs: 1, Request: 5, Run: 5, Ops: 5 * 4.2e9, RequestOps: 5 * 4.2e9, Memory: 8000, Bandwidth: 24, User: -1, Group: -1, Executable: -1})
	}
	return &Workload{Name: "HDeepRM's learning experiment, 2 jobs", Jobs: jobs, Procs: tree.Cores, Tree: tree, Limits: hdeeprm.LimitsOf(jobs),
		Dropped: map[string]int{}}, nil
}

// HDeepRMFigure returns a comparison of all pairs of HDeepRM's table with orders, backfilling and placements on a platform.
func HDeepRMFigure(w *Workload, compat bool, seeds []uint64) *Sweep {
	s := &Sweep{Title: "HDeepRM's pairs and what is better: " + w.Name,
		Notes: []string{"HDeepRM has no published table: its repository has these experiments without results, so that only ours are shown"}}
	for _, pair := range hdeeprm.Table() {
		s.Methods = append(s.Methods, Named{Name: pair.String(), Method: Method{Policy: pair.String(), Compat: compat}})
	}
	for _, order := range []string{"fcfs", "sjf", "saf"} {
		for _, placement := range []string{"high_gflops", "best"} {
			s.Methods = append(s.Methods, Named{Name: order + "+easy+" + placement, Method: Method{Policy: order, Backfill: "easy", Placement: placement}})
		}
	}
	s.Methods = append(s.Methods, Named{Name: "saf+easy+best, makespan", Method: Method{Policy: "saf", Backfill: "easy", Placement: "best", Objective: "makespan"}})
	s.Methods = append(s.Methods, Named{Name: "saf+easy+energy", Method: Method{Policy: "saf", Backfill: "easy", Placement: "energy", Objective: "energy"}})
	s.Against = []string{s.Methods[slices.IndexFunc(s.Methods, func(m Named) bool { return m.Policy == "first-high_gflops" })].Name}
	for _, seed := range seeds {
		s.Cases = append(s.Cases, Case{Name: fmt.Sprintf("seed %d", seed), Workload: w, Seed: seed, Group: seed})
	}
	return s
}

package queue_test

import (
	"context"
	"flag"
	"math"
	"testing"

	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

var (
	against     = flag.String("against", "", "platform on which the defaults are compared with the 36 pairs")
	againstJobs = flag.Int("against-jobs", 500, "jobs of each workload")
	againstLoad = flag.Float64("against-load", 0.7, "load of each workload")
)

// TestAgainstPairs compares the defaults, by objective, with the best of the 36 pairs for each metric, on five
// workloads by the model of Lublin and Feitelson: the mean ratio of ours to theirs with a 95 % interval (Student, 4
// degrees of freedom). It takes minutes:
//
//	go test -run AgainstPairs -v -args -against gaia
func TestAgainstPairs(t *testing.T) {
	if *against == "" {
		t.Skip("wants -against and minutes")
	}
	tree, err := platform.Example(*against)
	if err != nil {
		t.Fatal(err)
	}
	const seeds = 5
	numbers := func(r *queue.Result, err error) [3]float64 {
		if err != nil {
			t.Fatal(err)
		}
		s := r.Summary()
		return [3]float64{s.Makespan, s.Slowdown.Mean, s.Energy}
	}
	names := [...]string{"finish", "slowdown", "energy"} // by objective
	ratios := map[queue.Objective][3][]float64{}
	for seed := range uint64(seeds) {
		jobs := lublin(t, tree, *againstJobs, seed+1, *againstLoad)
		pair := [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
		for _, p := range hdeeprm.Table() {
			r, _, err := p.Run(tree, jobs, 0, false)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range numbers(r, nil) {
				pair[i] = min(pair[i], v)
			}
		}
		for o := range queue.Objective(3) {
			all := ratios[o]
			for i, v := range numbers(queue.RunCores(context.Background(), queue.CoresConfig{Tree: tree, Jobs: jobs, Objective: o})) {
				all[i] = append(all[i], v/pair[i])
			}
			ratios[o] = all
			t.Logf("seed %d, %s: makespan, mean slowdown, energy by the best pair's: %.3f", seed+1, names[o], [3]float64{all[0][seed], all[1][seed], all[2][seed]})
		}
	}
	for o := range queue.Objective(3) {
		for i, what := range []string{"makespan", "mean slowdown", "energy"} {
			mean, square := 0.0, 0.0
			for _, v := range ratios[o][i] {
				mean += v / seeds
			}
			for _, v := range ratios[o][i] {
				square += (v - mean) * (v - mean) / (seeds - 1)
			}
			t.Logf("%s, %s: %s is %.3f ± %.3f of the best pair's", *against, names[o], what, mean, 2.776*math.Sqrt(square/seeds))
		}
	}
}

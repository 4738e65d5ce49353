package pretrain_test

import (
	"cmp"
	"fmt"
	"slices"

	"trainopt/resources"
	"trainopt/simulator/pretrain"
)

func Example() {
	jobs, err := pretrain.NewGenerator(pretrain.GeneratorOptions{Set: "train", Seed: 1, Mix: pretrain.Mix{Measured: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	job := jobs.At(0)
	cheapest := slices.MinFunc(job.Candidates(), func(a, b resources.Allocation) int { return cmp.Compare(job.Outcome(a).USD, job.Outcome(b).USD) })
	user := job.Outcome(job.Baseline)
	fmt.Println(job.Outcome(cheapest).USD <= user.USD, cheapest.GPUs >= job.Limits.GPUs.Min)

	run := job.Start(1)
	run.Run(job.Baseline, job.Units)
	fmt.Println(run.Done == job.Units)
	// Output:
	// true true
	// true
}

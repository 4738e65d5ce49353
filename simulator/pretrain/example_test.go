package pretrain_test

import (
	"fmt"

	"trainopt/resources"
	"trainopt/simulator/pretrain"
	"trainopt/simulator/training"
)

func Example() {
	jobs, err := pretrain.NewGenerator(pretrain.GeneratorOptions{Set: pretrain.TrainingSet, Seed: 1, Mix: pretrain.Mix{Measured: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	job := jobs.At(0)
	cheapest, out, ok := job.Best(func(_ resources.Allocation, o training.Outcome) float64 { return o.USD })
	user := job.Outcome(job.Baseline)
	fmt.Println(ok, out.USD <= user.USD, cheapest.GPUs >= job.Limits.GPUs.Min)

	run := job.Start(1)
	run.Run(job.Baseline, job.Units)
	fmt.Println(run.Done == job.Units)
	// Output:
	// true true true
	// true
}

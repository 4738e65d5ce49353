package simulate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/morl"
	"trainopt/optimizer/plan"
	"trainopt/simulator/experiment"
	"trainopt/simulator/pretrain"
	"trainopt/simulator/trial"
)

// ablationFigure is the --figure of runAblation.
const ablationFigure = "ablation"

// runAblation compares the planner morl with and without each component of SLA-MORL.
func (o *compareTrainingOptions) runAblation() error {
	seeds, err := o.resolve(o.Options)
	if err != nil {
		return cli.Usage(err)
	}
	if err := o.Want("steps", o.steps >= 100, "at least 100"); err != nil {
		return cli.Usage(err)
	}
	draw, err := o.draw(o.jobs)
	if err != nil {
		return cli.Usage(err)
	}
	if err := o.checkPreferences(); err != nil {
		return err
	}
	figure := trial.Ablation{Draw: draw, Seeds: seeds, Prefer: o.prefer, Train: o.trainAblated,
		Title: fmt.Sprintf("Components of SLA-MORL on simulated training jobs (%s), preferring %s, agents of %d decisions", o.kinds, strings.Join(o.prefer, ", "), o.steps)}
	return o.comparison.run(o.Env, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		figure.Progress = progress
		result, err := figure.Run(ctx)
		return result, nil, err
	})
}

// trainAblated trains an agent of the ablation on jobs of the training set.
func (o *compareTrainingOptions) trainAblated(ctx context.Context, c morl.Config, seed uint64) (*plan.Agent, error) {
	c.Hidden, c.Warmup = []int{64, 64}, max(32, o.steps/40)
	t, err := pretrain.Prepare(pretrain.Options{Env: "training", Agent: "multi", Steps: o.steps, Seed: seed, Config: c, NoResets: c.Resets.Mode == "",
		Measure: max(1, o.steps/10), KeepLast: true, Jobs: pretrain.JobOptions{Count: 1}})
	if err != nil {
		return nil, err
	}
	r, err := t.Run(ctx)
	if err != nil {
		return nil, err
	}
	return plan.LoadAgent(bytes.NewReader(r.Data))
}

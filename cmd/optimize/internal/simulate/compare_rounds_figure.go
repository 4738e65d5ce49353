package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/simulator/cluster"
	"trainopt/simulator/experiment"
)

// figureRules returns the flags that cannot be combined with --figure.
func (o *compareRoundsOptions) figureRules() []cli.Rule {
	return []cli.Rule{
		{If: true, Except: "figure policies points seeds window compat timeout processes format output jobs-out", Conflict: "--figure"},
		{If: o.figure == "runtime", Flags: "policies window compat processes jobs-out engine", Conflict: "--figure runtime"},
	}
}

// runFigure reproduces a published figure. --compat is on unless set otherwise.
func (o *compareRoundsOptions) runFigure() error {
	figure, err := cluster.FindFigure(o.figure)
	if err != nil {
		err = fmt.Errorf("--figure: %w", err)
	}
	if err := errors.Join(o.Check(o.figureRules()...), err, o.Want("points", o.points >= 1, "at least 1")); err != nil {
		return cli.Usage(err)
	}
	if figure == nil {
		return o.runDecisions()
	}
	o.compat = o.compat || !o.Changed("compat")
	base, source, err := o.prepare()
	if err != nil {
		return cli.Usage(err)
	}
	options := cluster.FigureOptions{Seeds: base.Seeds, Points: o.points, Window: source.base.Window, Compat: o.compat}
	if o.Changed("policies") {
		options.Policies = o.policies
	}
	s, err := figure.Sweep(options)
	if err != nil {
		return cli.Usagef("--figure: %w", err)
	}
	s.Workers, s.Timeout, s.Notes = base.Workers, base.Timeout, append(base.Notes, s.Notes...)
	for _, p := range s.Policies {
		if err := knownPolicy("--figure", p); err != nil {
			return cli.Usage(err)
		}
	}
	return o.sweep(s, func(out *cluster.Outcome) { figure.Beside(out) })
}

// decisionLimit is the decision time above which a policy is not measured with twice as many jobs.
const decisionLimit = 5 * time.Minute

// runDecisions measures the decision times of policies.
func (o *compareRoundsOptions) runDecisions() error {
	base, _, err := o.prepare()
	if err != nil {
		return cli.Usage(err)
	}
	return o.comparison.run(o.Env, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		result, err := cluster.Decisions(ctx, cluster.DecisionOptions{Seeds: base.Seeds, Points: o.points, Limit: cmp.Or(base.Timeout, decisionLimit), Clock: o.Clock.Monotonic, Progress: progress})
		return result, nil, err
	})
}

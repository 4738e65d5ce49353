package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/simulator/cluster/sweep"
	"trainopt/simulator/experiment"
)

// figureFlags lists the flags that are valid with --figure.
var figureFlags = map[string]bool{"figure": true, "policies": true, "points": true, "seeds": true, "window": true, "compat": true, "timeout": true, "processes": true,
	"format": true, "out": true, "jobs-out": true, "json": true, "quiet": true, "config": true, "state-dir": true, "log-level": true}

// compareFigure reproduces a published figure. --compat is on unless set otherwise.
func (e *env) compareFigure(cmd *cobra.Command, c *common, f *comparingRounds) error {
	var other error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !figureFlags[flag.Name] && other == nil {
			other = fmt.Errorf("--%s says nothing with --figure", flag.Name)
		}
	})
	if other != nil {
		return usageError{other}
	}
	figure, err := sweep.FindFigure(f.figure)
	if err != nil {
		return usageError{fmt.Errorf("--figure: %w", err)}
	}
	if cmd.Flags().Changed("points") && f.points < 1 {
		return usageError{fmt.Errorf("--points %d: want at least 1", f.points)}
	}
	if figure == nil {
		return e.compareDecisions(cmd, c, f)
	}
	f.compat = f.compat || !cmd.Flags().Changed("compat")
	window, err := parseWindow(f.window)
	if err != nil {
		return usageError{err}
	}
	base, _, err := f.prepare(e, cmd, c)
	if err != nil {
		return usageError{err}
	}
	o := sweep.FigureOptions{Seeds: base.Seeds, Points: f.points, Window: window, Compat: f.compat}
	if cmd.Flags().Changed("policies") {
		o.Policies = f.policies
	}
	s, err := figure.Sweep(o)
	if err != nil {
		return usageError{fmt.Errorf("--figure: %w", err)}
	}
	s.Workers, s.Timeout, s.Notes = base.Workers, base.Timeout, append(base.Notes, s.Notes...)
	for _, p := range s.Policies {
		if err := knownPolicy("--figure", p); err != nil {
			return usageError{err}
		}
	}
	return e.runSweep(c, f, s, func(o *sweep.Outcome) { figure.Beside(o) })
}

// decisionLimit is the decision time above which a policy is not measured with twice as many jobs.
const decisionLimit = 5 * time.Minute

// compareDecisions measures the decision times of policies.
func (e *env) compareDecisions(cmd *cobra.Command, c *common, f *comparingRounds) error {
	for _, flag := range []string{"policies", "window", "compat", "processes", "jobs-out"} {
		if cmd.Flags().Changed(flag) {
			return usageError{fmt.Errorf("--%s says nothing with --figure runtime", flag)}
		}
	}
	base, _, err := f.prepare(e, cmd, c)
	if err != nil {
		return usageError{err}
	}
	limit := base.Timeout
	if limit == 0 {
		limit = decisionLimit
	}
	return e.runComparison(c, &f.comparing, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		comparison, err := sweep.Decisions(ctx, sweep.DecisionOptions{Seeds: base.Seeds, Points: f.points, Limit: limit, Clock: e.clock.Monotonic, Progress: progress})
		return comparison, nil, err
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/simulator/experiment"
	"trainopt/simulator/queue/render"
	"trainopt/simulator/queue/sweep"
)

// compareQueueFigure reproduces a published experiment.
func (e *env) compareQueueFigure(cmd *cobra.Command, c *common, f *comparingQueue) error {
	for _, flag := range []string{"policies", "against", "backfill", "placement", "windows", "starts", "length", "as-published"} {
		if cmd.Flags().Changed(flag) {
			return usageError{fmt.Errorf("--%s says nothing with --figure", flag)}
		}
	}
	switch f.figure {
	case "rlscheduler":
		return e.compareRLScheduler(cmd, c, f)
	case "hdeeprm":
		return e.compareHDeepRM(cmd, c, f)
	}
	return usageError{fmt.Errorf("--figure %q: unknown, want rlscheduler or hdeeprm", f.figure)}
}

// compareRLScheduler runs the published job sequences on each trace, without and with backfilling.
func (e *env) compareRLScheduler(cmd *cobra.Command, c *common, f *comparingQueue) error {
	if err := f.only(cmd, "with --figure rlscheduler", "generate", "jobs-count", "load", "overestimate", "procs", "platform", "options", "prefer"); err != nil {
		return usageError{err}
	}
	if f.trace == "" {
		return usageError{fmt.Errorf("--figure rlscheduler: say --trace FILE[,FILE…]: rows are there for %s, by the names of the files", strings.Join(sweep.TraceNames(), ", "))}
	}
	if !cmd.Flags().Changed("seeds") {
		f.seeds = "0"
	}
	f.policies = nil
	seeds, err := f.resolve(cmd, c)
	if err != nil {
		return usageError{err}
	}
	if len(seeds) != 1 {
		return usageError{fmt.Errorf("--seeds %s: want one, of the search: the sequences are given", f.seeds)}
	}
	type row struct {
		trace    string
		backfill bool
		sweep    *sweep.Sweep
	}
	var rows []row
	missing := sweep.TraceNames()
	for _, path := range strings.Split(f.trace, ",") {
		name, ok := sweep.TraceName(path)
		if !ok {
			return usageError{fmt.Errorf("--trace %s: its name is none of a trace of the table: %s", path, strings.Join(sweep.TraceNames(), ", "))}
		}
		w, err := sweep.Load(inDir(e.dir, path), sweep.TraceOptions{AsPublished: true})
		if err != nil {
			return usageError{fmt.Errorf("--trace: %w", err)}
		}
		missing = deleted(missing, name)
		for _, backfill := range []bool{false, true} {
			s, err := sweep.RLSchedulerFigure(name, w, backfill, seeds[0])
			if err != nil {
				return usageError{fmt.Errorf("--trace %s: %w", filepath.Base(path), err)}
			}
			s.Workers, s.Keep = f.workers, f.jobsOut != ""
			rows = append(rows, row{name, backfill, s})
		}
	}
	return e.runComparison(c, &f.comparing, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		all := &experiment.Comparison{Schema: 1, Engine: "queue", Title: "RLScheduler's table", Metrics: []string{}, Rows: []experiment.Row{}, Paired: []experiment.Pair{},
			Definitions: []experiment.Metric{}, WallS: experiment.Number(math.NaN())}
		if len(missing) > 0 {
			all.Notes = append(all.Notes, "rows without a trace here: "+strings.Join(missing, ", "))
		}
		var outcomes []*sweep.Outcome
		jobs := func(w io.Writer) error {
			var errs []error
			for _, o := range outcomes {
				errs = append(errs, render.ComparedJobs(w, o))
			}
			return errors.Join(errs...)
		}
		for i, r := range rows {
			n := len(r.sweep.Cases)
			r.sweep.Progress = func(done, _ int) { progress(i*n+done, n*len(rows)) }
			o, err := sweep.Compare(ctx, r.sweep)
			if o.Comparison != nil {
				sweep.AddPublished(o, r.trace, r.backfill)
				outcomes = append(outcomes, o)
				all.Also = append(all.Also, o.Comparison)
				all.Seeds, all.Policies, all.Against = o.Comparison.Seeds, o.Comparison.Policies, o.Comparison.Against
				all.Cases += o.Comparison.Cases
				t := o.Comparison.Tables[len(o.Comparison.Tables)-1]
				t.Title = r.sweep.Title + ": " + t.Title
				all.Tables = append(all.Tables, t)
				o.Comparison.Tables = nil
			}
			if err != nil {
				return all, jobs, err
			}
		}
		all.Fold = true
		return all, jobs, nil
	})
}

func deleted(all []string, name string) []string {
	var out []string
	for _, n := range all {
		if n != name {
			out = append(out, n)
		}
	}
	return out
}

// compareHDeepRM runs the policy pairs on a platform, by default that of the learning experiment.
func (e *env) compareHDeepRM(cmd *cobra.Command, c *common, f *comparingQueue) error {
	if !cmd.Flags().Changed("seeds") {
		f.seeds = "0"
	}
	f.policies = nil
	seeds, err := f.resolve(cmd, c)
	if err != nil {
		return usageError{err}
	}
	var preference *sweep.Preference
	if f.prefer != "" {
		p, err := queuePreference(f.prefer)
		if err != nil {
			return usageError{err}
		}
		preference = &p
	}
	w, err := sweep.LearningExperiment()
	if f.onPlatform() {
		w, _, err = f.jobs(e, cmd, seeds[0], cmd.Flags().Changed("seeds"))
	}
	if err != nil {
		return usageError{fmt.Errorf("compare queue: %w", err)}
	}
	s := sweep.HDeepRMFigure(w, f.compat, seeds)
	s.Notes = append(s.Notes, f.about(w)...)
	s.Workers, s.Keep = f.workers, true
	return e.runQueueSweep(c, f, s, func(o *sweep.Outcome) error { return addFront(o, preference) })
}

package simulate

import (
	"context"
	"errors"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/simulator/experiment"
	"trainopt/simulator/queue/sweep"
)

// runFigure reproduces a published experiment.
func (o *compareQueueOptions) runFigure() error {
	if err := errors.Join(o.Check(o.rules()...), wantProcesses(o.Options, o.workers)); err != nil {
		return cli.Usage(err)
	}
	switch o.figure {
	case "rlscheduler":
		return o.runRLScheduler()
	case "hdeeprm":
		return o.runHDeepRM()
	}
	return cli.Usagef("--figure %q: unknown, want rlscheduler or hdeeprm", o.figure)
}

// figureSeeds returns the seeds of an experiment, by default 0.
func (o *compareQueueOptions) figureSeeds() ([]uint64, error) {
	if !o.Changed("seeds") {
		o.seeds = "0"
	}
	o.policies = nil
	seeds, err := o.resolve(o.Options)
	return seeds, cli.Usage(err)
}

// runRLScheduler runs the published job sequences on each trace, without and with backfilling.
func (o *compareQueueOptions) runRLScheduler() error {
	if o.trace == "" {
		return cli.Usagef("--figure rlscheduler: give --trace FILE[,FILE…]; traces of the table, by file name: %s", strings.Join(sweep.TraceNames(), ", "))
	}
	seeds, err := o.figureSeeds()
	if err != nil {
		return err
	}
	if len(seeds) != 1 {
		return cli.Usagef("--seeds %s: want one, for the search: the sequences are fixed", o.seeds)
	}
	type row struct {
		trace    string
		backfill bool
		sweep    *sweep.Sweep
	}
	var rows []row
	missing := sweep.TraceNames()
	for _, path := range strings.Split(o.trace, ",") {
		name, ok := sweep.TraceName(path)
		if !ok {
			return cli.Usagef("--trace %s: not the name of a trace of the table: %s", path, strings.Join(sweep.TraceNames(), ", "))
		}
		w, err := sweep.Load(o.Path(path), sweep.TraceOptions{AsPublished: true})
		if err != nil {
			return cli.Usagef("--trace: %w", err)
		}
		missing = slices.DeleteFunc(missing, func(n string) bool { return n == name })
		for _, backfill := range []bool{false, true} {
			s, err := sweep.RLSchedulerFigure(name, w, backfill, seeds[0])
			if err != nil {
				return cli.Usagef("--trace %s: %w", filepath.Base(path), err)
			}
			s.Workers, s.Keep = o.workers, o.jobsOut != ""
			rows = append(rows, row{name, backfill, s})
		}
	}
	return o.comparison.run(o.Env, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		all := &experiment.Comparison{Schema: 1, Engine: "queue", Title: "RLScheduler's table", Metrics: []string{}, Rows: []experiment.Row{}, Paired: []experiment.Pair{},
			Definitions: []experiment.Metric{}, WallS: experiment.Number(math.NaN())}
		if len(missing) > 0 {
			all.Notes = append(all.Notes, "rows without a trace: "+strings.Join(missing, ", "))
		}
		var outcomes []*sweep.Outcome
		jobs := func(w io.Writer) error {
			var errs []error
			for _, out := range outcomes {
				errs = append(errs, out.WriteJobs(w))
			}
			return errors.Join(errs...)
		}
		for i, r := range rows {
			n := len(r.sweep.Cases)
			r.sweep.Progress = func(done, _ int) { progress(i*n+done, n*len(rows)) }
			out, err := r.sweep.Run(ctx)
			if out.Comparison != nil {
				out.AddPublished(r.trace, r.backfill)
				outcomes = append(outcomes, out)
				all.Also = append(all.Also, out.Comparison)
				all.Seeds, all.Policies, all.Against = out.Comparison.Seeds, out.Comparison.Policies, out.Comparison.Against
				all.Cases += out.Comparison.Cases
				t := out.Comparison.Tables[len(out.Comparison.Tables)-1]
				t.Title = r.sweep.Title + ": " + t.Title
				all.Tables = append(all.Tables, t)
				out.Comparison.Tables = nil
			}
			if err != nil {
				return all, jobs, err
			}
		}
		all.Fold = true
		return all, jobs, nil
	})
}

// runHDeepRM runs the policy pairs on a platform, by default that of the learning experiment.
func (o *compareQueueOptions) runHDeepRM() error {
	seeds, err := o.figureSeeds()
	if err != nil {
		return err
	}
	preference, err := o.preference()
	if err != nil {
		return cli.Usage(err)
	}
	w, err := sweep.LearningExperiment()
	if o.onPlatform() {
		w, _, err = o.jobs(seeds[0], o.Changed("seeds"))
	}
	if err != nil {
		return cli.Usagef("compare queue: %w", err)
	}
	s := sweep.HDeepRMFigure(w, o.compat, seeds)
	s.Notes = append(s.Notes, o.about(w)...)
	s.Workers, s.Keep = o.workers, true
	return o.sweep(s, func(out *sweep.Outcome) error { return out.AddFront(preference) })
}

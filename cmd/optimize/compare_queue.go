package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/internal/regular"
	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/experiment"
	"trainopt/simulator/queue/render"
	"trainopt/simulator/queue/sweep"
	"trainopt/simulator/workload/batsim"
)

// comparingQueue holds the flags of compare queue.
type comparingQueue struct {
	comparing
	queueFlags
	backfills                []string
	starts, prefer, figure   string
	windows, length, workers int
	front                    bool
	deadlines                float64
	metrics                  []string
}

func compareQueueCommand(e *env, c *common) *cobra.Command {
	f := &comparingQueue{}
	cmd := &cobra.Command{
		Use: "queue", Short: "Policies of a batch queue on the same windows of a trace, or on several generated workloads", Args: cobra.NoArgs,
		Long: `Runs several policies on the same jobs and compares them: means with 95 % intervals, paired
tests. A case is a window of a trace (--windows, --starts) or a generated workload (--seeds); tests
take windows as independent of each other. With several --backfill or --placement each policy is
tried with each of them.

--front says which combinations no other beats in slowdown, energy, utilisation and deadlines
together, --prefer which of them a preference picks.

--figure rlscheduler plays the published evaluation of RLScheduler (ten sequences of 1,024 jobs)
on each --trace that it knows and prints the published values beside ours; --figure hdeeprm tries
all 36 pairs of HDeepRM, and what is better, on a platform.

--metrics A.csv,B.csv prints two schedules of Batsim side by side, as hdeeprm-metrics draws them.`,
		Example: `  optimize compare queue --policies fcfs,sjf,saf --backfill none,easy --seeds 0:9
  optimize compare queue --policies saf,rollout --trace trace.swf.gz --windows 10 --length 256
  optimize compare queue --policies fcfs,saf --trace trace.swf --starts published --as-published
  optimize compare queue --platform gaia --policies first-high_gflops,saf --placement best,energy
  optimize compare queue --figure rlscheduler --trace lublin_256.swf.gz --out table.html
  optimize compare queue --figure hdeeprm --platform mini --prefer slowdown=2,energy=1
  optimize compare queue --metrics a_schedule.csv,b_schedule.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("metrics"):
				return e.compareSchedules(c, f)
			case cmd.Flags().Changed("figure"):
				return e.compareQueueFigure(cmd, c, f)
			}
			return e.compareQueue(cmd, c, f)
		},
	}
	f.comparing.add(cmd, []string{"fcfs", "sjf", "saf", "f4"})
	fs := cmd.Flags()
	fs.SetNormalizeFunc(normalizeQueue)
	f.queueFlags.add(fs)
	fs.Lookup("policies").Usage = "what is compared, `A,B,…`, or all; see optimize simulate queue --policies"
	fs.Lookup("against").Usage = "with which of them all others are compared in pairs (default: the first)"
	fs.Lookup("seeds").Usage = "of generated workloads, and of policies that draw, `A:B` (both included) or a list (default 0:9; 0 for traces)"
	fs.Lookup("seeds").DefValue = ""
	fs.StringSliceVar(&f.backfills, "backfill", nil, "none|easy|conservative|rlscheduler, several with commas (default easy)")
	fs.Lookup("placement").Usage += "; several with commas"
	fs.IntVar(&f.windows, "windows", 0, "so many windows of --length jobs, spread evenly over the trace")
	fs.StringVar(&f.starts, "starts", "", "windows that begin at these jobs, a list, or published (RLScheduler's ten)")
	fs.IntVar(&f.length, "length", 1024, "jobs of a window")
	fs.BoolVar(&f.front, "front", false, "say which are on the Pareto front of slowdown, energy, utilisation and deadlines")
	fs.StringVar(&f.prefer, "prefer", "", "pick one of the front: balanced|time|cost|resource or weights, slowdown=2,energy=1")
	fs.Float64Var(&f.deadlines, "deadlines", 0, "give jobs a deadline of so many times their requested time after submission")
	fs.IntVar(&f.workers, "processes", 0, "cases at the same time (default: one a core)")
	fs.StringVar(&f.figure, "figure", "", "rlscheduler|hdeeprm: what was published, beside ours")
	fs.StringSliceVar(&f.metrics, "metrics", nil, "compare two schedules of Batsim, `A.csv,B.csv`")
	return cmd
}

// compareSchedules prints the first eight metrics of two schedules side by side.
func (e *env) compareSchedules(c *common, f *comparingQueue) error {
	if len(f.metrics) != 2 {
		return usageError{fmt.Errorf("--metrics: %d files, want two: A.csv,B.csv", len(f.metrics))}
	}
	var files [2]*os.File
	for i, path := range f.metrics {
		file, err := regular.Open(inDir(e.dir, path), regular.Data)
		if err != nil {
			return usageError{fmt.Errorf("--metrics: %w", err)}
		}
		defer file.Close()
		files[i] = file
	}
	all, err := batsim.Compare(files[0], files[1])
	if err != nil {
		return usageError{fmt.Errorf("--metrics %s: %w", strings.Join(f.metrics, ","), err)}
	}
	if c.json {
		type metric struct {
			Metric string            `json:"metric"`
			A      experiment.Number `json:"a"`
			B      experiment.Number `json:"b"`
		}
		var out []metric
		for _, m := range all {
			out = append(out, metric{m.Name, experiment.Number(m.A), experiment.Number(m.B)})
		}
		return printJSON(e.stdout, map[string]any{"schema": 1, "files": f.metrics, "metrics": out})
	}
	fmt.Fprintf(e.stdout, "%-22s %18s %18s %9s\n", "", shorten(filepath.Base(f.metrics[0]), 18), shorten(filepath.Base(f.metrics[1]), 18), "B by A")
	for _, m := range all {
		fmt.Fprintf(e.stdout, "%-22s %18.3f %18.3f %9.3f\n", m.Name, m.A, m.B, m.B/m.A)
	}
	return nil
}

// shorten truncates a name to most characters by removing its beginning.
func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return s
}

// methods returns the combinations of policies, backfilling and placement.
func (f *comparingQueue) methods(e *env, w *sweep.Workload) ([]sweep.Named, error) {
	policies := f.policies
	if slices.Equal(policies, []string{"all"}) {
		policies = slices.DeleteFunc(sweep.Policies(w.Tree != nil), func(p string) bool { return p == sweep.Rollout })
	}
	backfills, placements := f.backfills, strings.Split(f.placement, ",")
	if len(backfills) == 0 {
		backfills = []string{""}
	}
	var out []sweep.Named
	for _, p := range policies {
		for i, b := range backfills {
			for j, place := range placements {
				if kind := sweep.KindOf(p); w.Tree != nil && kind != sweep.Order { // chooses the placement itself and does not backfill
					if i > 0 || j > 0 {
						continue
					}
					b, place = "", ""
				}
				g := f.queueFlags
				g.placement = place
				m, err := g.method(e, w, p, b, 0)
				if err != nil {
					return nil, err
				}
				name := p
				if len(backfills) > 1 && b != "" {
					name += "+" + m.Backfill
				}
				if len(placements) > 1 && place != "" {
					name += "+" + m.Placement
				}
				out = append(out, sweep.Named{Name: name, Method: m})
			}
		}
	}
	return out, nil
}

// windowsOf returns the windows selected by flags.
func (f *comparingQueue) windowsOf(cmd *cobra.Command, w *sweep.Workload) (out []sweep.Window, notes []string, err error) {
	n := len(w.Jobs)
	if f.length < 1 {
		return nil, nil, fmt.Errorf("--length %d: want at least 1", f.length)
	}
	switch {
	case f.starts != "" && f.windows != 0:
		return nil, nil, errors.New("--windows and --starts both say where windows begin: want one of them")
	case f.starts == "published":
		for _, s := range rlscheduler.Starts1024 {
			out = append(out, sweep.Window{Start: s, Length: f.length})
		}
	case f.starts != "":
		for _, part := range strings.Split(f.starts, ",") {
			s, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil || s < 0 {
				return nil, nil, fmt.Errorf("--starts %q: want numbers of jobs from 0 on, with commas, or published", f.starts)
			}
			out = append(out, sweep.Window{Start: s, Length: f.length})
		}
	case cmd.Flags().Changed("windows"):
		if f.windows < 1 || f.windows > maxSeeds {
			return nil, nil, fmt.Errorf("--windows %d: want 1 to %d", f.windows, maxSeeds)
		}
		var apart bool
		if out, apart = sweep.Spread(n, f.windows, f.length); !apart {
			notes = append(notes, fmt.Sprintf("%d windows of %d jobs overlap in a workload of %d: they are not independent, intervals are too narrow", f.windows, f.length, n))
		}
	default:
		if cmd.Flags().Changed("length") {
			return nil, nil, errors.New("--length says nothing without --windows or --starts")
		}
		return []sweep.Window{{}}, nil, nil
	}
	for _, p := range out {
		if p.Start+p.Length > n {
			return nil, nil, fmt.Errorf("%v: the workload has the jobs 0 to %d", p, n-1)
		}
	}
	return out, notes, nil
}

// prepare reads or generates the workloads and returns the sweep over all cases.
func (f *comparingQueue) prepare(e *env, cmd *cobra.Command, c *common) (*sweep.Sweep, error) {
	drawn := f.trace == "" && f.workload == "" && f.custom == "" && f.options == ""
	if !drawn && !cmd.Flags().Changed("seeds") {
		f.seeds = "0"
	}
	policies := f.policies // --against refers to method names, which differ from policy names
	f.policies = nil
	against := f.against
	f.against = nil
	seeds, err := f.resolve(cmd, c)
	if err != nil {
		return nil, err
	}
	f.policies, f.against = policies, against
	s := &sweep.Sweep{Against: f.against, Keep: f.jobsOut != "", Workers: f.workers, Title: "Batch queues"}
	if cmd.Flags().Changed("processes") && f.workers < 1 {
		return nil, fmt.Errorf("--processes %d: want at least 1", f.workers)
	}
	if !(f.deadlines >= 0) {
		return nil, fmt.Errorf("--deadlines %v: want more than 0, or 0 for none", f.deadlines)
	}
	var w *sweep.Workload
	var source string
	for _, seed := range seeds {
		if w == nil || drawn {
			if w, source, err = f.jobs(e, cmd, seed, drawn || cmd.Flags().Changed("seeds")); err != nil {
				return nil, err
			}
			if f.deadlines != 0 {
				w.Jobs = sweep.SetDeadlines(w.Jobs, f.deadlines)
			}
		}
		windows, notes, err := f.windowsOf(cmd, w)
		if err != nil {
			return nil, err
		}
		for k, p := range windows {
			one := sweep.Case{Workload: w, Window: p, Seed: seed, Group: seed, Name: fmt.Sprintf("seed %d", seed)}
			if len(windows) > 1 {
				one.Name = p.String()
				if !drawn {
					one.Group = uint64(k)
				}
				if len(seeds) > 1 {
					one.Name += fmt.Sprintf(", seed %d", seed)
				}
			}
			s.Cases = append(s.Cases, one)
		}
		if seed == seeds[0] {
			s.Title = w.Name
			if source != "" {
				s.Title += " of " + source
			}
			s.Notes = append(append(s.Notes, notes...), f.about(w)...)
			if len(windows) > 1 && !drawn {
				s.Notes = append(s.Notes, "where seeds are counted, each window is one")
			}
		}
	}
	if s.Methods, err = f.methods(e, w); err != nil {
		return nil, err
	}
	s.Notes = append(s.Notes, unlike(s.Methods)...)
	return s, f.checkNames(s)
}

// unlike returns notes on the backfilling of each method if it differs between methods and is not part of their names.
func unlike(methods []sweep.Named) []string {
	by := map[string][]string{}
	for _, m := range methods {
		if !strings.Contains(m.Name, "+") {
			by[m.Backfill] = append(by[m.Backfill], m.Name)
		}
	}
	if len(by) < 2 {
		return nil
	}
	var out []string
	for _, b := range slices.Sorted(maps.Keys(by)) {
		out = append(out, fmt.Sprintf("backfilling %s: %s", b, strings.Join(by[b], ", ")))
	}
	return out
}

// about returns the notes on a workload that a reader needs.
func (f *comparingQueue) about(w *sweep.Workload) []string {
	out := slices.DeleteFunc(slices.Clone(w.Notes), func(n string) bool { return strings.Contains(n, "agent") })
	if len(w.Dropped) > 0 {
		out = append(out, "jobs left out: "+reasons(w.Dropped))
	}
	return out
}

func (f *comparingQueue) checkNames(s *sweep.Sweep) error {
	var names []string
	for _, m := range s.Methods {
		if slices.Contains(names, m.Name) {
			return fmt.Errorf("--policies: %q is named twice", m.Name)
		}
		names = append(names, m.Name)
	}
	for _, a := range f.against {
		if !slices.Contains(names, a) {
			return fmt.Errorf("--against %q: not among %s", a, strings.Join(names, ", "))
		}
	}
	return nil
}

func (e *env) compareQueue(cmd *cobra.Command, c *common, f *comparingQueue) error {
	var preference *sweep.Preference
	if f.prefer != "" {
		p, err := queuePreference(f.prefer)
		if err != nil {
			return usageError{err}
		}
		preference, f.front = &p, true
	}
	s, err := f.prepare(e, cmd, c)
	if err != nil {
		return usageError{fmt.Errorf("compare queue: %w", err)}
	}
	s.Keep = s.Keep || f.front
	return e.runQueueSweep(c, f, s, func(o *sweep.Outcome) error {
		render.Picture(o)
		if f.front {
			return addFront(o, preference)
		}
		return nil
	})
}

// runQueueSweep runs a comparison and writes it together with the additions of finish.
func (e *env) runQueueSweep(c *common, f *comparingQueue, s *sweep.Sweep, finish func(*sweep.Outcome) error) error {
	return e.runComparison(c, &f.comparing, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		s.Progress = progress
		o, err := sweep.Compare(ctx, s)
		if o.Comparison == nil {
			return nil, nil, err
		}
		if bad := finish(o); bad != nil && err == nil {
			err = bad
		}
		return o.Comparison, func(w io.Writer) error { return render.ComparedJobs(w, o) }, err
	})
}

package simulate

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

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/regular"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/experiment"
	"trainopt/simulator/queue/sweep"
)

// compareQueueOptions holds the flags of `compare queue`.
type compareQueueOptions struct {
	comparison
	queueFlags
	backfills                []string
	starts, prefer, figure   string
	windows, length, workers int
	front                    bool
	deadlines                float64
	metrics                  []string
}

func compareQueueCommand(e *cli.Env) *cobra.Command {
	o := &compareQueueOptions{}
	cmd := &cobra.Command{
		Use: "queue", Short: "Policies of a batch queue on the same windows of a trace, or on several generated workloads", Args: cobra.NoArgs,
		Long: `Run several policies on the same jobs and compare them: means with 95 % intervals, paired tests. A case is a window of a trace
(--windows, --window-starts) or a generated workload (--seeds); tests treat windows as independent. With several --backfill or
--placement each policy is combined with each of them.

--front shows the combinations that no other dominates in slowdown, energy, utilization and deadlines, --prefer the one of
them that a preference selects.

--figure rlscheduler runs the published evaluation of RLScheduler (ten sequences of 1,024 jobs) on each known --trace and
prints the published values beside ours; --figure hdeeprm runs all 36 pairs of HDeepRM and better policies on a platform.

--metrics A.csv,B.csv prints the metrics of two schedules of Batsim side by side, as hdeeprm-metrics does.`,
		Example: `  optimize compare queue --policies fcfs,sjf,saf --backfill none,easy --seeds 0:9
  optimize compare queue --policies saf,rollout --trace trace.swf.gz --windows 10 --length 256
  optimize compare queue --policies fcfs,saf --trace trace.swf --window-starts published --as-published
  optimize compare queue --platform gaia --policies first-high_gflops,saf --placement best,energy
  optimize compare queue --figure rlscheduler --trace lublin_256.swf.gz --output table.html
  optimize compare queue --figure hdeeprm --platform mini --prefer slowdown=2,energy=1
  optimize compare queue --metrics a_schedule.csv,b_schedule.csv`,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case o.Changed("metrics"):
				return o.compareSchedules()
			case o.Changed("figure"):
				return o.runFigure()
			}
			return o.run()
		},
	}
	o.queueFlags.add(e.Options(cmd))
	fs := o.Flags
	o.comparison.add(fs, []string{"fcfs", "sjf", "saf", "f4"})
	fs.Lookup("policies").Usage = "policies to compare, `A,B,…`, or all; see optimize simulate queue --list-policies"
	fs.Lookup("seeds").Usage = "seeds of generated workloads and random policies, `A:B` (both included) or a list (default 0:9; 0 for traces)"
	fs.Lookup("seeds").DefValue = ""
	fs.StringSliceVar(&o.backfills, "backfill", nil, "none|easy|conservative|rlscheduler, separated by commas (default easy)")
	fs.Lookup("placement").Usage += "; several separated by commas"
	fs.IntVar(&o.windows, "windows", 0, "number of windows of --length jobs, evenly spread over the trace")
	fs.StringVar(&o.starts, "window-starts", "", "first jobs of the windows, a list, or published (RLScheduler's ten)")
	fs.IntVar(&o.length, "length", 1024, "jobs per window")
	fs.BoolVar(&o.front, "front", false, "show the Pareto front of slowdown, energy, utilization and deadlines")
	fs.StringVar(&o.prefer, "prefer", "", "select from the front: balanced|time|cost|resource or weights, slowdown=2,energy=1")
	fs.Float64Var(&o.deadlines, "deadlines", 0, "give jobs a deadline of this multiple of their requested time after submission")
	fs.IntVar(&o.workers, "processes", 0, "concurrent cases (default: one per core)")
	fs.StringVar(&o.figure, "figure", "", "rlscheduler|hdeeprm: print published results beside ours")
	fs.StringSliceVar(&o.metrics, "metrics", nil, "compare two schedules of Batsim, `A.csv,B.csv`")
	return cmd
}

// rules returns the flags that cannot be combined.
func (o *compareQueueOptions) rules() []cli.Rule {
	return []cli.Rule{
		{If: o.windows != 0, Flags: "window-starts", Conflict: "--windows", Reason: "both select the windows"},
		{If: o.starts == "" && !o.Changed("windows") && o.length > 0, Flags: "length", Requires: "--windows or --window-starts"},
		{If: o.figure != "", Flags: "policies against backfill placement windows window-starts length as-published", Conflict: "--figure"},
		{If: o.figure == "rlscheduler", Flags: "generate job-count load overestimate procs platform options prefer", Conflict: "--figure rlscheduler"},
	}
}

// compareSchedules prints the first eight metrics of two schedules side by side.
func (o *compareQueueOptions) compareSchedules() error {
	if err := o.Check(cli.Rule{If: true, Flags: "engine engine-arg parallel", Conflict: "--metrics"}); err != nil {
		return cli.Usage(err)
	}
	if len(o.metrics) != 2 {
		return cli.Usagef("--metrics: %d files, want two: A.csv,B.csv", len(o.metrics))
	}
	var files [2]*os.File
	for i, path := range o.metrics {
		file, err := regular.Open(o.Path(path), regular.Data)
		if err != nil {
			return cli.Usagef("--metrics: %w", err)
		}
		defer file.Close()
		files[i] = file
	}
	all, err := hdeeprm.CompareSchedules(files[0], files[1])
	if err != nil {
		return cli.Usagef("--metrics %s: %w", strings.Join(o.metrics, ","), err)
	}
	if o.JSON {
		type metric struct {
			Metric string            `json:"metric"`
			A      experiment.Number `json:"a"`
			B      experiment.Number `json:"b"`
		}
		var out []metric
		for _, m := range all {
			out = append(out, metric{m.Name, experiment.Number(m.A), experiment.Number(m.B)})
		}
		return o.PrintJSON(map[string]any{"schema": 1, "files": o.metrics, "metrics": out})
	}
	fmt.Fprintf(o.Stdout, "%-22s %18s %18s %9s\n", "", shorten(filepath.Base(o.metrics[0])), shorten(filepath.Base(o.metrics[1])), "B by A")
	for _, m := range all {
		fmt.Fprintf(o.Stdout, "%-22s %18.3f %18.3f %9.3f\n", m.Name, m.A, m.B, m.B/m.A)
	}
	return nil
}

// shorten truncates a name to the width of a column by removing its beginning.
func shorten(s string) string {
	const limit = 18
	if r := []rune(s); len(r) > limit {
		return "…" + string(r[len(r)-limit+1:])
	}
	return s
}

// methods returns the combinations of policies, backfilling and placement.
func (o *compareQueueOptions) methods(w *sweep.Workload) ([]sweep.Named, error) {
	policies := o.policies
	if slices.Equal(policies, []string{"all"}) {
		policies = slices.DeleteFunc(sweep.Policies(w.Tree != nil), func(p string) bool { return p == sweep.Rollout })
	}
	backfills, placements := o.backfills, strings.Split(o.placement, ",")
	if len(backfills) == 0 {
		backfills = []string{""}
	}
	var out []sweep.Named
	for _, p := range policies {
		for i, b := range backfills {
			for j, place := range placements {
				if kind := sweep.KindOf(p); w.Tree != nil && kind != sweep.Order { // selects the placement itself and does not backfill
					if i > 0 || j > 0 {
						continue
					}
					b, place = "", ""
				}
				g := o.queueFlags
				g.placement = place
				m, err := g.method(w, p, b, 0)
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
func (o *compareQueueOptions) windowsOf(w *sweep.Workload) (out []sweep.Window, notes []string, err error) {
	n := len(w.Jobs)
	switch {
	case o.starts == "published":
		for _, s := range rlscheduler.Starts1024 {
			out = append(out, sweep.Window{Start: s, Length: o.length})
		}
	case o.starts != "":
		for _, part := range strings.Split(o.starts, ",") {
			s, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil || s < 0 {
				return nil, nil, fmt.Errorf("--window-starts %q: want job numbers of at least 0, separated by commas, or published", o.starts)
			}
			out = append(out, sweep.Window{Start: s, Length: o.length})
		}
	case o.Changed("windows"):
		if o.windows < 1 || o.windows > maxSeeds {
			return nil, nil, fmt.Errorf("--windows %d: want 1 to %d", o.windows, maxSeeds)
		}
		var apart bool
		if out, apart = sweep.Spread(n, o.windows, o.length); !apart {
			notes = append(notes, fmt.Sprintf("%d windows of %d jobs overlap in a workload of %d: they are not independent, intervals are too narrow", o.windows, o.length, n))
		}
	default:
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
func (o *compareQueueOptions) prepare() (*sweep.Sweep, error) {
	if err := errors.Join(o.Check(o.rules()...), wantProcesses(o.Options, o.workers), o.Want("deadlines", o.deadlines >= 0, "more than 0, or 0 for none"),
		o.Want("length", o.length > 0, "at least 1")); err != nil {
		return nil, err
	}
	drawn := o.trace == "" && o.workload == "" && o.custom == "" && o.options == ""
	if !drawn && !o.Changed("seeds") {
		o.seeds = "0"
	}
	policies := o.policies // --against refers to method names, which differ from policy names
	o.policies = nil
	against := o.against
	o.against = nil
	seeds, err := o.resolve(o.Options)
	if err != nil {
		return nil, err
	}
	o.policies, o.against = policies, against
	s := &sweep.Sweep{Against: o.against, Keep: o.jobsOut != "", Workers: o.workers, Title: "Batch queues"}
	var w *sweep.Workload
	var source string
	for _, seed := range seeds {
		if w == nil || drawn {
			if w, source, err = o.jobs(seed, drawn || o.Changed("seeds")); err != nil {
				return nil, err
			}
			if o.deadlines != 0 {
				w.Jobs = sweep.SetDeadlines(w.Jobs, o.deadlines)
			}
		}
		windows, notes, err := o.windowsOf(w)
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
			s.Notes = append(append(s.Notes, notes...), o.about(w)...)
			if len(windows) > 1 && !drawn {
				s.Notes = append(s.Notes, "each window counts as one seed")
			}
		}
	}
	if s.Methods, err = o.methods(w); err != nil {
		return nil, err
	}
	s.Notes = append(s.Notes, backfillingNotes(s.Methods)...)
	return s, o.checkNames(s)
}

// backfillingNotes returns notes on the backfilling of each method if it differs between methods and is not part of their names.
func backfillingNotes(methods []sweep.Named) []string {
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
func (o *compareQueueOptions) about(w *sweep.Workload) []string {
	out := slices.DeleteFunc(slices.Clone(w.Notes), func(n string) bool { return strings.Contains(n, "agent") })
	if len(w.Dropped) > 0 {
		out = append(out, "jobs left out: "+reasons(w.Dropped))
	}
	return out
}

func (o *compareQueueOptions) checkNames(s *sweep.Sweep) error {
	var names []string
	for _, m := range s.Methods {
		if slices.Contains(names, m.Name) {
			return fmt.Errorf("--policies: %q is named twice", m.Name)
		}
		names = append(names, m.Name)
	}
	for _, a := range o.against {
		if !slices.Contains(names, a) {
			return fmt.Errorf("--against %q: not among %s", a, strings.Join(names, ", "))
		}
	}
	return nil
}

// preference returns the preference of --prefer, nil if it is not given.
func (o *compareQueueOptions) preference() (*sweep.Preference, error) {
	if o.prefer == "" {
		return nil, nil
	}
	p, err := sweep.ParseNamed(o.prefer)
	if err != nil {
		return nil, fmt.Errorf("--prefer %w", err)
	}
	return &p, nil
}

func (o *compareQueueOptions) run() error {
	preference, err := o.preference()
	if err != nil {
		return cli.Usage(err)
	}
	o.front = o.front || preference != nil
	s, err := o.prepare()
	if err != nil {
		return cli.Usagef("compare queue: %w", err)
	}
	s.Keep = s.Keep || o.front
	return o.sweep(s, func(out *sweep.Outcome) error {
		out.Picture()
		if o.front {
			return out.AddFront(preference)
		}
		return nil
	})
}

// sweep runs a comparison and writes it together with the additions of finish.
func (o *compareQueueOptions) sweep(s *sweep.Sweep, finish func(*sweep.Outcome) error) error {
	return o.comparison.run(o.Env, func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error) {
		s.Progress = progress
		out, err := s.Run(ctx)
		if out.Comparison == nil {
			return nil, nil, err
		}
		if bad := finish(out); bad != nil && err == nil {
			err = bad
		}
		var preference sweep.PreferenceError
		if errors.As(err, &preference) {
			err = cli.Usagef("--prefer: %w", err)
		}
		return out.Comparison, func(w io.Writer) error { return out.WriteJobs(w) }, err
	})
}

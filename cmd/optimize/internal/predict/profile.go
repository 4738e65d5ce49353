package predict

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/regular"
	"trainopt/optimizer/colocate"
	"trainopt/optimizer/journal"
)

func profileCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		GroupID: cli.Cluster, Use: "profile WHAT", Short: "Measure how programs disturb each other, and placements of them", Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("profile: name what to measure: colocate, place")
			}
			return cli.Usagef("profile %q: unknown, want colocate or place", args[0])
		},
	}
	cmd.AddCommand(colocateCommand(e), placeCommand(e))
	return cmd
}

// measureFlags are the flags of all measurements.
type measureFlags struct {
	cli.Options
	spec, budget, precision, foreign, engine string
	engineArgs                               []string
	seed                                     uint64
}

// local is the engine that is this machine.
const local = "local"

func (f *measureFlags) add(o cli.Options) {
	f.Options = o
	fs := o.Flags
	fs.StringVar(&f.spec, "spec", "", "YAML `FILE` that describes the apps, see profile colocate --example")
	fs.StringVar(&f.budget, "timeout", "", "maximum real `DURATION` of the measurements (default: no limit)")
	fs.StringVar(&f.precision, "precision", "5%", "repeat a pattern until its 90 % intervals are at most ± this `SHARE` of the mean")
	fs.StringVar(&f.foreign, "max-foreign", "50%", "repeat, or else flag, measurements during which others took more than this `SHARE` of the node")
	fs.StringVar(&f.engine, "engine", local, "where patterns are measured: local|slurm (a job with a node for itself each)")
	fs.StringArrayVar(&f.engineArgs, "engine-arg", nil, "`OPTION` of the site, passed to sbatch: --partition=cpu, --time=60 (repeatable)")
	fs.Uint64Var(&f.seed, "seed", 0, "random seed of the order of measurements")
}

// readSpec reads the specification and returns its directory.
func (f *measureFlags) readSpec() (*colocate.Spec, string, error) {
	if f.spec == "" {
		return nil, "", errors.New("--spec is required: a file that describes the apps, see optimize profile colocate --example")
	}
	file, err := regular.Open(f.Path(f.spec), regular.Settings)
	if err != nil {
		return nil, "", fmt.Errorf("--spec: %w", err)
	}
	defer file.Close()
	spec, err := colocate.ParseSpec(file)
	if err != nil {
		return nil, "", fmt.Errorf("read specification %s: %w", f.spec, err)
	}
	return spec, filepath.Dir(f.Path(f.spec)), nil
}

// profile returns a profile with the settings of the flags.
func (f *measureFlags) profile(apps []string, capacity int) (*colocate.Profile, error) {
	p := &colocate.Profile{Apps: apps, Capacity: capacity, Seed: f.seed, Now: f.Clock.Monotonic}
	var errs []error
	share := func(flag, text string) float64 {
		v, err := parseShare(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s %w", flag, err))
		}
		return v
	}
	p.Limits = colocate.Limits{Precision: share("precision", f.precision), Foreign: share("max-foreign", f.foreign)}
	if f.budget != "" {
		d, err := cli.ParseDuration(f.budget)
		if err == nil && d <= 0 {
			err = errors.New("want more than 0")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--timeout %q: %w", f.budget, err))
		}
		p.Budget = d
	}
	p.Report = func(r colocate.Row, done, total int) {
		if !f.Quiet {
			fmt.Fprintf(f.Stderr, "optimize: [%d/%d] %s\n", done, total, describe(apps, r))
		}
	}
	p.Warn = func(err error) { fmt.Fprintf(f.Stderr, "optimize: %v; it is measured again later\n", err) }
	return p, errors.Join(errs...)
}

// measurer returns the measurer of the engine and a function that ends its use.
func (f *measureFlags) measurer(spec *colocate.Spec, dir string) (colocate.Measurer, func(), error) {
	if err := errors.Join(cli.WantOne("engine", f.engine, cli.EngineNames()...),
		f.Check(cli.Rule{If: f.engine == local, Flags: "engine-arg", Requires: "--engine slurm"})); err != nil {
		return nil, nil, err
	}
	if f.engine == local {
		l, err := colocate.NewLocal(spec, dir, f.seed)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.spec, err)
		}
		return l, l.Close, nil
	}
	eng, err := cli.OpenEngine(f.engine)
	if err == nil {
		err = journal.MakeStateDir(f.State())
	}
	if err != nil {
		return nil, nil, err
	}
	jobs, err := os.MkdirTemp(f.State(), "colocate-")
	if err != nil {
		return nil, nil, fmt.Errorf("prepare the jobs: %w", err)
	}
	return &colocate.Remote{Engine: eng, Self: f.Self[0], Spec: f.Path(f.spec), Dir: jobs, Env: f.Environ, Extra: f.engineArgs, Seed: f.seed},
		func() { os.RemoveAll(jobs) }, nil
}

// parseShare parses 40% or 0.4.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > 0 && v <= 1) {
		return 0, fmt.Errorf("%q: want a share above 0, at most 100%%", text)
	}
	return v, nil
}

// speeds returns the throughputs of a row.
func speeds(apps []string, r colocate.Row) string {
	var parts []string
	for a, k := range r.Counts {
		if k > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", apps[a], withInterval(r.RPS[a])))
		}
	}
	return strings.Join(parts, ", ")
}

// describe returns a row in one line.
func describe(apps []string, r colocate.Row) string {
	text := fmt.Sprintf("%s: %s; %d cycles", colocate.Label(apps, r.Counts), speeds(apps, r), r.Cycles)
	if r.Foreign >= 0.005 {
		text += fmt.Sprintf(", %.0f %% of the node taken by others", 100*r.Foreign)
	}
	if r.Wide {
		text += ", interval still wide"
	}
	if r.Disturbed {
		text += ", disturbed"
	}
	return text
}

// withInterval formats a mean and half the width of its interval.
func withInterval(e colocate.Estimate) string {
	switch {
	case math.IsNaN(e.Mean):
		return "no data"
	case math.IsNaN(e.Half()):
		return fmt.Sprintf("%.3f", e.Mean)
	}
	return fmt.Sprintf("%.3f ±%.3f", e.Mean, e.Half())
}

// save writes a table; "" names none.
func (f *measureFlags) save(table string, apps []string, rows []colocate.Row) error {
	if table == "" {
		return nil
	}
	return f.Write(table, "table", func(w io.Writer) error { return colocate.WriteRows(w, apps, rows) })
}

// measure runs a profile until its end or a signal, whose message ends with hint, and writes a table after each pattern.
func (f *measureFlags) measure(name, hint string, p *colocate.Profile, table string) (elapsed time.Duration, err error) {
	failed := error(nil)
	report := p.Report
	ctx, stop := f.UntilSignal()
	defer stop()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	p.Report = func(r colocate.Row, done, total int) {
		report(r, done, total)
		if failed = f.save(table, p.Apps, p.Rows()); failed != nil {
			cancel()
		}
	}
	from := f.Clock.Monotonic()
	err = p.Run(inner)
	elapsed = f.Clock.Monotonic() - from
	if failed != nil {
		return elapsed, failed
	}
	if interrupt := cli.Interrupted(ctx); interrupt != nil {
		return elapsed, interrupt.Exitf("%s: %w with %d patterns not measured%s", name, interrupt, p.Missing(), hint)
	}
	return elapsed, err
}

// readRows reads the rows of a table; none if it does not exist and need not.
func (f *measureFlags) readRows(flag, file string, apps []string, optional bool) ([]colocate.Row, error) {
	in, err := regular.Open(f.Path(file), regular.Data)
	if optional && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		defer in.Close()
		var rows []colocate.Row
		if rows, err = colocate.ReadRows(in, apps); err == nil {
			return rows, nil
		}
	}
	return nil, fmt.Errorf("--%s: read %s: %w", flag, file, regular.Reason(err))
}

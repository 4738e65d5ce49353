package predict

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/wording"
	"trainopt/optimizer/colocate"
	"trainopt/optimizer/report/page"
)

// colocateOptions holds the flags of `profile colocate`.
type colocateOptions struct {
	measureFlags
	capacity            int
	sample, out, replay string
	example             bool
}

func colocateCommand(e *cli.Env) *cobra.Command {
	o := &colocateOptions{}
	cmd := &cobra.Command{
		Use: "colocate --spec FILE --capacity N --output TABLE", Short: "Measure the throughput of programs beside each other", Args: cobra.NoArgs,
		Long: `Measure the throughput of one container of each app in every pattern of containers that a node can hold, relative to a
container alone, as a table for optimize simulate placement --table.

Windows with one container alone and windows with the whole pattern alternate, so that both are disturbed alike by other
programs of the machine, and are repeated until the 90 % intervals are narrow or the budget is spent. The programs are pinned
to the CPUs of the node. With --sample 40%, only that share of the patterns is measured: pairs first, then those whose
estimate from the others is most uncertain; simulate placement estimates the rest.

The table has, for each app, n_APP and rps_APP (operations per second without the programs of others, relative to alone), its
interval (rps_lo_, rps_hi_), cpu_APP (operations per CPU-second, relative to alone: interference without time sharing),
wall_APP (per second as observed), alone_APP (operations/s alone), and for each pattern cycles, foreign and steal (shares of
the node taken by other programs and by the hypervisor) and flags (wide, disturbed).

Patterns that --output already contains are not measured again: an interrupted profile continues with the same command.
--json prints: schema, patterns, measured, missing, wide, disturbed, seconds, table.`,
		Example: `  optimize profile colocate --example > apps.yaml
  optimize profile colocate --spec apps.yaml --capacity 3 --output table.csv
  optimize profile colocate --spec apps.yaml --capacity 4 --sample 40% --timeout 1h --output table.csv`,
		RunE: func(*cobra.Command, []string) error {
			if o.example {
				return o.Print(colocate.Sample)
			}
			return o.run()
		},
	}
	o.add(e.Options(cmd))
	fs := o.Flags
	fs.IntVar(&o.capacity, "capacity", 0, "maximum number of containers of a node")
	fs.StringVar(&o.sample, "sample", "100%", "`SHARE` of the patterns to measure")
	fs.StringVarP(&o.out, "output", "o", "", "`FILE` of the table, CSV")
	fs.StringVar(&o.replay, "replay", "", "take measurements from the table `FILE` instead, to try a --sample")
	fs.BoolVar(&o.example, "example", false, "print a commented specification")
	return cmd
}

// run measures and writes the table after each pattern.
func (o *colocateOptions) run() error {
	spec, dir, err := o.readSpec()
	if err != nil {
		return cli.Usage(err)
	}
	share, err := parseShare(o.sample)
	if err != nil {
		err = fmt.Errorf("--sample %w", err)
	}
	p, profileErr := o.profile(spec.Names(), o.capacity)
	if o.out == "" {
		err = errors.Join(err, errors.New("--output is required: the file of the table"))
	}
	if o.capacity < 1 || o.capacity > 255 {
		err = errors.Join(err, fmt.Errorf("--capacity %d: want 1 to 255 containers of a node", o.capacity))
	}
	if err := errors.Join(err, profileErr); err != nil {
		return cli.Usage(err)
	}
	p.Share = share
	if p.Known, err = o.readRows("output", o.out, p.Apps, true); err != nil {
		return cli.Usage(err)
	}
	if o.replay != "" {
		if p.Replay, err = o.readRows("replay", o.replay, p.Apps, false); err != nil {
			return cli.Usage(err)
		}
	} else {
		m, done, err := o.measurer(spec, dir)
		if err != nil {
			return cli.Usage(err)
		}
		defer done()
		p.Measure = m
	}
	if err := o.save(o.out, p.Apps, p.Known); err != nil { // before measurements are spent on a table that cannot be written
		return err
	}
	elapsed, err := o.measure("profile colocate", "; the same command continues", p, o.out)
	if err != nil {
		return err
	}
	if err := o.save(o.out, p.Apps, p.Rows()); err != nil {
		return err
	}
	return o.summarise(p, elapsed.Seconds())
}

// summarise prints the result.
func (o *colocateOptions) summarise(p *colocate.Profile, seconds float64) error {
	rows := p.Rows()
	wide, disturbed := 0, 0
	for _, r := range rows {
		if r.Wide {
			wide++
		}
		if r.Disturbed {
			disturbed++
		}
	}
	if o.JSON {
		return o.PrintJSON(map[string]any{"schema": 1, "patterns": p.Patterns(), "measured": len(rows), "missing": p.Missing(),
			"wide": wide, "disturbed": disturbed, "seconds": math.Round(1000*seconds) / 1000, "table": o.out})
	}
	table := &page.Table{Columns: append(page.Left("pattern"), page.Right("app", "rps", "per CPU-second", "cycles", "others %")...), Named: true}
	for _, r := range rows {
		if r.Cycles == 0 {
			continue
		}
		name, cycles, others := colocate.Label(p.Apps, r.Counts), strconv.Itoa(r.Cycles), fmt.Sprintf("%.0f", 100*(r.Foreign+r.Steal))
		for a, k := range r.Counts {
			if k > 0 {
				table.Rows = append(table.Rows, page.Row(name, p.Apps[a], withInterval(r.RPS[a]), withInterval(r.CPU[a]), cycles, others))
				name, cycles, others = "", "", ""
			}
		}
	}
	notes := []string{"rps: operations per second without the programs of others, relative to one container alone, with 90 % intervals."}
	if n := p.Missing(); n > 0 {
		notes = append(notes, fmt.Sprintf("The budget is spent: %d selected patterns were not measured. The same command continues.", n))
	}
	if wide > 0 {
		notes = append(notes, fmt.Sprintf("%d patterns have intervals wider than ±%s (flag wide).", wide, o.precision))
	}
	if disturbed > 0 {
		notes = append(notes, fmt.Sprintf("During %d patterns, others took more than %s of the node (flag disturbed).", disturbed, o.foreign))
	}
	if len(rows) < p.Patterns() {
		notes = append(notes, fmt.Sprintf("%d patterns are not in the table: optimize simulate placement --table %s estimates them.", p.Patterns()-len(rows), o.out))
	}
	subtitle := "measured in " + wording.Duration(seconds)
	if o.replay != "" {
		subtitle = "taken from " + o.replay
	}
	return (page.Document{Layout: page.Listing, Title: fmt.Sprintf("%d of %d patterns of %d apps in %s", len(rows), p.Patterns(), len(p.Apps), o.out),
		Subtitle: subtitle, Sections: []page.Section{{Title: "Throughput beside others", Blocks: []page.Block{{Table: table}}, Notes: notes}}}).Text(o.Stdout)
}

package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/internal/regular"
	"trainopt/optimizer/schedule/place"
	"trainopt/simulator/pretrain"
)

// policyFlags lists the flags that apply to each environment of pretrain.PolicyWorlds, besides those of all.
var policyFlags = map[string]string{"placement": "table", "queue": "trace procs backfill resume hidden"}

// environments returns all names for --env.
func environments() []string {
	return slices.Sorted(slices.Values(append(pretrain.Environments(), slices.Collect(maps.Keys(pretrain.PolicyWorlds))...)))
}

// policyAgents lists the agents of pretrain.PolicyWorlds for the help text.
func policyAgents() string {
	text := ""
	for _, n := range slices.Sorted(maps.Keys(pretrain.PolicyWorlds)) {
		text += "; of " + n + ": " + strings.Join(pretrain.PolicyWorlds[n].Agents, ", ")
	}
	return text
}

// policyOptions checks the flags and reads the files that they name.
func (o *pretrainOptions) policyOptions() (pretrain.PolicyOptions, error) {
	out := pretrain.PolicyOptions{Env: o.env, Agent: o.agent, Seed: o.seed, Steps: o.steps, Clock: o.Clock.Monotonic,
		Procs: o.procs, Backfill: o.backfill == "rlscheduler", Hidden: o.hidden}
	if err := errors.Join(oneOf("--algorithm", o.agent, pretrain.PolicyWorlds[o.env].Agents, false), o.Want("steps", o.steps >= 1, "1 or more"),
		o.Check(cli.Rule{If: true, Except: "env algorithm steps seed output curves " + policyFlags[o.env], Conflict: "--env " + o.env}),
		cli.WantOne("backfill", o.backfill, "none", "rlscheduler"), o.Want("procs", o.procs >= 1, "at least 1")); err != nil {
		return out, err
	}
	if o.trace != "" {
		out.Trace = o.Path(o.trace)
	}
	if o.resume != "" {
		out.Resume = o.Path(o.resume)
	}
	if o.env == "placement" {
		var err error
		if out.Table, err = place.LoadTable(o.table, o.Path, 0, 1); err != nil {
			return out, fmt.Errorf("--table: %w", err)
		}
	}
	return out, o.checkPaths()
}

// runPolicy trains an agent of o.env and writes its file, curves and summary.
func (o *pretrainOptions) runPolicy() error {
	options, err := o.policyOptions()
	if err != nil {
		return cli.Usage(err)
	}
	var p *pretrain.Policy
	elapsed, interrupt, err := o.Work("learning", func(ctx context.Context, progress func(done, total int)) (err error) {
		p, err = pretrain.TrainPolicy(ctx, options, func(x pretrain.PolicyPoint) { progress(x.Step, x.Of) })
		return err
	})
	var input pretrain.InputError
	switch {
	case p == nil && interrupt != nil:
		return interrupt.Exitf("pretrain: %w; nothing was saved", interrupt)
	case errors.As(err, &input):
		return cli.Usagef("pretrain: %w", err)
	case err != nil:
		return fmt.Errorf("pretrain: %w", err)
	}
	errs := []error{regular.WriteFile(o.Path(o.out), 0o644, p.Data)}
	for _, name := range o.curves {
		errs = append(errs, o.Write(name, "learning curve", func(w io.Writer) error {
			if strings.EqualFold(filepath.Ext(name), ".csv") {
				return p.WriteCSV(w)
			}
			return p.WriteHTML(w, options)
		}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	unit := pretrain.PolicyWorlds[o.env].Unit
	if o.JSON {
		err = p.WriteJSON(o.Stdout, options, elapsed, o.out)
	} else {
		err = o.Print(o.policySummary(p, unit, elapsed))
	}
	if err == nil && interrupt != nil {
		err = interrupt.Exitf("pretrain: %w after %d %s; the agent so far is in %s", interrupt, p.Steps, unit, cli.Quote(o.out))
	}
	return err
}

func (o *pretrainOptions) policySummary(p *pretrain.Policy, unit string, elapsed time.Duration) string {
	var b strings.Builder
	row := func(name, value string) { fmt.Fprintf(&b, "%-18s %s\n", name, value) }
	fmt.Fprintf(&b, "%s in %s, seed %d: %d %s in %s\n", o.agent, o.env, o.seed, p.Steps, unit, elapsed.Round(time.Second/10))
	if v := p.Last(); !math.IsNaN(v) {
		row("reached", fmt.Sprintf("%.4f, %s", v, p.Measure))
	}
	if p.Source != "" {
		row("trained on", p.Source)
	}
	row("file", o.out)
	for _, curve := range o.curves {
		row("curves", curve)
	}
	use := fmt.Sprintf("optimize simulate queue --policy %s --backfill %s", cli.Quote(o.out), o.backfill)
	if o.env == "placement" {
		use = "optimize simulate placement --method metis --agent " + cli.Quote(o.out)
		if o.table != place.EmbeddedData {
			use += " --table " + cli.Quote(o.table) + " --counts …"
		}
	}
	row("use", use)
	return b.String()
}

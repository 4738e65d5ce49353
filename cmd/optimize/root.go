package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cmd/optimize/internal/predict"
	"trainopt/cmd/optimize/internal/runs"
	"trainopt/cmd/optimize/internal/simulate"
	"trainopt/cost"
	"trainopt/optimizer/cluster"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// execute runs one command line and returns its exit code.
func execute(e *cli.Env) run.Code { return e.Execute(newRoot(e)) }

// newRoot returns the root command with all subcommands.
func newRoot(e *cli.Env) *cobra.Command {
	b := currentBuild()
	return cli.NewRoot(e, b.String(), completions(e), slices.Concat(runs.Commands(e), predict.Commands(e), simulate.Commands(e),
		[]*cobra.Command{doctorCommand(e), versionCommand(e), cli.ManCommand(e, b.Version, b.Date)})...)
}

func doctorCommand(e *cli.Env) *cobra.Command {
	var o cli.Options
	cmd := &cobra.Command{Use: "doctor", GroupID: cli.Setup, Short: "Check this machine, or an engine: hardware, limits, missing dependencies and their impact", Args: cobra.NoArgs,
		Example: `  optimize doctor
  optimize doctor --engine slurm --engine-arg=--partition=gpu    # also run a test job there`,
		RunE: func(*cobra.Command, []string) error { return doctor(o) }}
	o = e.Options(cmd)
	cli.AddSettings(o.Flags, map[string]string{"engine": "also run a test job there: local|slurm", "engine-arg": ""})
	return cmd
}

func doctor(o cli.Options) error {
	vals, err := o.ProjectSettings(o.Flags)
	if err != nil {
		return cli.Usage(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	checks := resources.Doctor(ctx, resources.Roots{})
	if name := vals.Text("engine.name"); name != "local" {
		more, err := runs.CheckEngine(o.Env, name, vals.List("engine.args"))
		if err != nil {
			return cli.Usage(err)
		}
		checks = append(checks, more...)
	}
	if o.JSON {
		return o.PrintJSON(map[string]any{"schema": 1, "checks": checks})
	}
	return o.Print(findingsText(checks, cmp.Or(o.OutputColumns(), math.MaxInt)))
}

// findingsText lists the findings in two columns within a width.
func findingsText(checks []resources.Finding, columns int) string {
	var b strings.Builder
	add := func(head, text string) {
		for _, line := range page.Wrap(text, max(columns-28, 12)) {
			fmt.Fprintf(&b, "%-27s %s\n", head, line)
			head = ""
		}
	}
	for _, k := range checks {
		add(fmt.Sprintf("%-8s %-18s", k.Status, k.Name), k.Found)
		if k.Cost != "" {
			add("", "costs: "+k.Cost)
		}
		if k.Do != "" {
			add("", "do: "+k.Do)
		}
	}
	return b.String()
}

// completions returns the values that a shell completes, by metavariable.
func completions(e *cli.Env) map[string]cli.Completions {
	offers := func(name func(cost.Offer) string) cli.Completions {
		return func() []string {
			catalogue, err := cost.OpenCatalogue(e.PriceDirs()...)
			if err != nil && catalogue == nil {
				return nil
			}
			var out []string
			seen := map[string]bool{}
			for _, o := range catalogue.Offers {
				if n := name(o); !seen[n] {
					seen[n] = true
					out = append(out, n)
				}
			}
			return out
		}
	}
	cloud := offers(func(o cost.Offer) string { return o.Cloud })
	return map[string]cli.Completions{
		"RUN": func() []string {
			entries, _ := journal.List(e.State())
			out := []string{"latest\tthe newest run"}
			for _, en := range entries {
				text := en.ID
				if en.Record != nil {
					text += fmt.Sprintf("\t%s, %s", en.Record.State, cli.OneLine(strings.Join(en.Record.Command, " ")))
				}
				out = append(out, text)
			}
			return out
		},
		"JOB": func() []string {
			jobs, _, _ := cluster.Jobs(e.State())
			var out []string
			for _, j := range jobs {
				if !j.State.Ended() {
					out = append(out, fmt.Sprintf("%d\t%s, %s", j.ID, j.Name, j.State))
				}
			}
			return out
		},
		"CLOUD": cloud, "CLOUDS": cloud,
		"CLOUD:TYPE": offers(func(o cost.Offer) string { return o.Name() }),
	}
}

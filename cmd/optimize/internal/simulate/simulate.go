// Package simulate contains the commands on simulated worlds: simulate, compare and pretrain.
package simulate

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/ancestors/metis"
	"trainopt/simulator/experiment"
	"trainopt/simulator/queue/sweep"
	"trainopt/simulator/spot"
	"trainopt/simulator/trial"
)

// Commands returns the commands of this package.
func Commands(e *cli.Env) []*cobra.Command {
	return []*cobra.Command{
		engineCommand(e, "compare", "Compare policies on the same jobs over several seeds: means, intervals, paired tests", compareCommands),
		engineCommand(e, "simulate", "Run a policy over jobs on a simulated cluster", simulateCommands),
		pretrainCommand(e),
	}
}

// simulateCommands is the registry of engines that simulate a cluster: one line each.
var simulateCommands = map[string]func(*cli.Env) *cobra.Command{
	"decision":  simulateDecisionCommand,
	"placement": simulatePlacementCommand,
	"queue":     simulateQueueCommand,
	"rounds":    simulateRoundsCommand,
	"spot":      simulateSpotCommand,
	"training":  compareTrainingCommand, // a job runs alone: the same command
}

// engineCommand returns a command with one subcommand per engine.
func engineCommand(e *cli.Env, name, short string, engines map[string]func(*cli.Env) *cobra.Command) *cobra.Command {
	names := slices.Sorted(maps.Keys(engines))
	cmd := &cobra.Command{
		Use: name + " ENGINE", GroupID: cli.Study, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("%s: name an engine: %s", name, strings.Join(names, ", "))
			}
			return cli.Usagef("%s %q: unknown, want %s", name, args[0], strings.Join(names, ", "))
		},
	}
	for _, n := range names {
		sub := reduceGC(engines[n](e))
		for _, flag := range []string{"policy", "policies", "method", "methods", "against"} {
			if f := sub.Flags().Lookup(flag); f != nil && f.Value.Type() != "bool" {
				cli.CompleteFlag(sub, flag, policyNames[n])
			}
		}
		cmd.AddCommand(sub)
	}
	return cmd
}

// policyNames lists the policies of each engine, which a shell completes.
var policyNames = map[string]cli.Completions{
	"placement": metis.Names,
	"queue":     func() []string { return sweep.Policies(false) },
	"rounds":    share.Names,
	"spot": func() []string {
		var names []string
		for _, m := range spot.Methods() {
			names = append(names, m.Name+"\t"+m.Does)
		}
		return names
	},
	"training": trial.Names,
}

// reduceGC reduces the frequency of garbage collection of a long-running command with a small heap, where it would take a
// sixth of the time.
func reduceGC(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		defer debug.SetGCPercent(debug.SetGCPercent(400))
		return run(cmd, args)
	}
	return cmd
}

// printList prints a list of policies or methods, or with --json an object with its entries.
func printList(e *cli.Env, what string, list experiment.List) error {
	if e.JSON {
		return e.PrintJSON(map[string]any{"schema": 1, what: list})
	}
	return e.Print(list.Text())
}

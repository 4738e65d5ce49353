// Package simulate contains the commands on simulated worlds: simulate, compare and pretrain.
package simulate

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
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
}

// engineCommand returns a command with one subcommand per engine.
func engineCommand(e *cli.Env, name, short string, engines map[string]func(*cli.Env) *cobra.Command) *cobra.Command {
	names := slices.Sorted(maps.Keys(engines))
	cmd := &cobra.Command{
		Use: name + " ENGINE", Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("%s: name an engine: %s", name, strings.Join(names, ", "))
			}
			return cli.Usagef("%s %q: unknown, want %s", name, args[0], strings.Join(names, ", "))
		},
	}
	for _, n := range names {
		cmd.AddCommand(reduceGC(engines[n](e)))
	}
	return cmd
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

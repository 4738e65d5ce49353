package main

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// simulated is the registry of engines that simulate a cluster: one line each.
var simulated = map[string]func(*env, *common) *cobra.Command{
	"placement": simulatePlacementCommand,
	"queue":     simulateQueueCommand,
	"rounds":    simulateRoundsCommand,
	"spot":      simulateSpotCommand,
}

func simulateCommand(e *env, c *common) *cobra.Command {
	names := slices.Sorted(maps.Keys(simulated))
	cmd := &cobra.Command{
		Use: "simulate ENGINE", Short: "Run a policy over jobs on a simulated cluster", Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("simulate: name what to simulate: %s", strings.Join(names, ", "))}
			}
			return usageError{fmt.Errorf("simulate %q: unknown, want %s", args[0], strings.Join(names, ", "))}
		},
	}
	for _, n := range names {
		cmd.AddCommand(roomy(simulated[n](e, c)))
	}
	return cmd
}

// roomy reduces the frequency of garbage collection of a long-running command with a small heap, where it would take a
// sixth of the time.
func roomy(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		defer debug.SetGCPercent(debug.SetGCPercent(400))
		return run(cmd, args)
	}
	return cmd
}

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// simulated are the engines that simulate a cluster. A new one is one line here.
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
		cmd.AddCommand(simulated[n](e, c))
	}
	return cmd
}

package main

import (
	"fmt"
	"time"

	"context"

	"github.com/spf13/cobra"

	"trainopt/resources"
)

func doctorCommand(e *env, c *common) *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "Check this machine: hardware, limits, missing dependencies and their impact", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, cancel := context.WithTimeout(cmdContext(), 30*time.Second)
			defer cancel()
			checks := resources.Doctor(ctx, resources.Roots{})
			if c.json {
				return printJSON(e.stdout, map[string]any{"schema": 1, "checks": checks})
			}
			for _, k := range checks {
				fmt.Fprintf(e.stdout, "%-8s %-18s %s\n", k.Status, k.Name, k.Found)
				if k.Cost != "" {
					fmt.Fprintf(e.stdout, "%-27s costs: %s\n", "", k.Cost)
				}
				if k.Do != "" {
					fmt.Fprintf(e.stdout, "%-27s do:    %s\n", "", k.Do)
				}
			}
			return nil
		}}
}

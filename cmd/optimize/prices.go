package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func pricesCommand(e *env, c *common) *cobra.Command {
	return &cobra.Command{Use: "prices", Hidden: true, RunE: func(*cobra.Command, []string) error { return errors.New("not written yet") }}
}

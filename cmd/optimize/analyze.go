package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func analyzeCommand(e *env, c *common) *cobra.Command {
	return &cobra.Command{Use: "analyze", Hidden: true, RunE: func(*cobra.Command, []string) error { return errors.New("not written yet") }}
}

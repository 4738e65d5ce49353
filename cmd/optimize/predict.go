package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func predictCommand(e *env, c *common) *cobra.Command {
	return &cobra.Command{Use: "predict", Hidden: true, RunE: func(*cobra.Command, []string) error { return errors.New("not written yet") }}
}

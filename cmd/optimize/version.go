package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"trainopt/cmd/optimize/internal/cli"
)

// version, commit and date (RFC 3339) are set at link time (-X main.version=…); by default they are those that the Go
// command recorded.
var version, commit, date string

// build describes the program: its version, and the commit that it was built from with its time (UTC), "" if unknown.
// Modified reports changes since the commit.
type build struct {
	Version  string
	Commit   string
	Date     string
	Modified bool
}

func currentBuild() build {
	b := build{Version: cmp.Or(version, "development")}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if version == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	b.Commit, b.Date = commit, date
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(commit, s.Value)
		case "vcs.time":
			b.Date = cmp.Or(date, s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String formats the version, the commit and its time.
func (b build) String() string {
	text := b.Version
	if b.Commit != "" {
		text += ", commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			text += " (modified)"
		}
	}
	if b.Date != "" {
		text += ", " + b.Date
	}
	return text
}

func versionCommand(e *cli.Env) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Show the version", GroupID: cli.Setup, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		b := currentBuild()
		if e.JSON {
			known := func(text string) any {
				if text == "" {
					return nil
				}
				return text
			}
			return e.PrintJSON(map[string]any{"schema": 1, "version": b.Version, "commit": known(b.Commit), "date": known(b.Date), "modified": b.Modified,
				"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
		}
		return e.Print(fmt.Sprintf("optimize %s (%s, %s/%s)\n", b, runtime.Version(), runtime.GOOS, runtime.GOARCH))
	}}
}

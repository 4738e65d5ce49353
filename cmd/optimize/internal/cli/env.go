// Package cli contains the root command, the commands of the program itself (settings, manual pages, topics), and what all
// commands share: the process environment and the common flags, settings from flags, environment variables and files,
// rules for combining flags, output, progress, exit codes, and what is written from the definition of the commands: help
// texts that fit the terminal, and completions of values for shells.
//
// A command states its group ([Train], [Runs], …) by cobra's GroupID. Its texts are written in paragraphs that are wrapped
// here: consecutive lines are one paragraph unless they are indented or end with a backslash. The option struct of a command
// embeds Options:
//
//	type reportOptions struct {
//		cli.Options
//		format cli.Format
//	}
package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"trainopt/optimizer/run"
	"trainopt/simulator/experiment"
)

// Env contains all external inputs and outputs, so that the whole command line runs inside a test, and the flags of
// every command.
type Env struct {
	Args    []string // without the program name
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string
	Dir     string   // working directory
	Self    []string // command that starts the binary as keeper
	// Listen starts to receive the user's signals. Until then, and in commands that run no job, signals have their
	// default effect.
	Listen func() (signals <-chan os.Signal, stop func())
	Clock  run.Clock
	// Width returns the width of the terminal on Stderr, 0 if Stderr is not a terminal; Interactive reports whether a
	// question can be answered on Stdin.
	Width       func() int
	Interactive bool
	// Share is the part of a command's work that this process does as a task of an array job; nil: the whole command.
	Share *experiment.Share
	// Lighten minimises the footprint of the process for supervision until heavy is called; nil disables this.
	Lighten func() (heavy func())

	Config, StateDir, LogLevel, Color string
	JSON, Quiet                       bool
	// ShowOutput shows the output of a job beside the display of its run.
	ShowOutput bool

	printed bool // whether a result was printed on Stdout
}

// AddFlags registers the flags of every command.
func (e *Env) AddFlags(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(Normalize)
	fs.StringVar(&e.Config, "config", e.Getenv("OPTIMIZE_CONFIG"), "configuration `FILE` (YAML, TOML or JSON; default: the nearest optimize.yaml upwards; none: no file)")
	fs.StringVar(&e.StateDir, "state-dir", e.Getenv("OPTIMIZE_STATE_DIR"), "`DIR` that contains the runs (default: the nearest .optimize upwards, else ./.optimize)")
	fs.BoolVar(&e.JSON, "json", false, "print JSON on standard output, errors too")
	fs.BoolVar(&e.Quiet, "quiet", false, "print only results and errors")
	fs.StringVar(&e.LogLevel, "log-level", "info", "minimum level of messages on stderr: debug|info|warn|error")
	fs.StringVar(&e.Color, "color", "auto", "colors on a terminal: auto|always|never (auto: unless NO_COLOR is set)")
}

// CheckFlags checks the values of the flags of every command.
func (e *Env) CheckFlags() error {
	if !slices.Contains([]string{"debug", "info", "warn", "warning", "error"}, strings.ToLower(e.LogLevel)) {
		return Usagef("--log-level %q: want debug, info, warn or error", e.LogLevel)
	}
	return Usage(WantOne("color", e.Color, "auto", "always", "never"))
}

// Colored reports whether a text on Stderr, the terminal of messages, may contain colors.
func (e *Env) Colored() bool {
	return e.Color == "always" || e.Color != "never" && e.Columns() > 0 && e.Getenv("NO_COLOR") == ""
}

// alwaysAllowed lists the flags of every command, and those that only select where the work is done, to which no rule
// applies.
var alwaysAllowed = []string{"config", "state-dir", "json", "quiet", "log-level", "color", "help", "engine", "engine-arg", "parallel"}

// Getenv returns the value of an environment variable, "" if it is not set.
func (e *Env) Getenv(name string) string {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(e.Environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// Path returns the path of a file named by the user, relative to the working directory.
func (e *Env) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.Dir, name)
}

// Columns returns the width of the terminal on Stderr, 0 if it is not a terminal.
func (e *Env) Columns() int {
	if e.Width == nil {
		return 0
	}
	return e.Width()
}

// OutputColumns returns the width of the terminal on which Stdout and Stderr are, 0 if Stdout is not one.
func (e *Env) OutputColumns() int {
	if f, ok := e.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return e.Columns()
	}
	return 0
}

// Exists reports whether a path exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

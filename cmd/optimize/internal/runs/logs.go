package runs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
)

// logsPoll is the interval at which a followed log is read.
const logsPoll = 200 * time.Millisecond

// logsOptions holds the flags of `logs`.
type logsOptions struct {
	cli.Options
	follow, stdout, stderr bool
	lines                  int
}

func logsCommand(e *cli.Env) *cobra.Command {
	o := &logsOptions{}
	cmd := &cobra.Command{
		GroupID: cli.Runs, Use: "logs [RUN]", Short: "Show the output of a run (default: the latest)", Args: cobra.MaximumNArgs(1),
		Example: `  optimize logs              # the latest run
  optimize logs -f           # follow until it ends
  optimize logs -n 20 --stderr 20261123`,
		Long: `Print the output of the job of a run: standard error, then standard output, including rotated parts; with --follow also
new output until the run ends.`,
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	o.Options = e.Options(cmd)
	o.Flags.BoolVarP(&o.follow, "follow", "f", false, "follow the output until the run ends")
	o.Flags.BoolVar(&o.stdout, "stdout", false, "standard output only")
	o.Flags.BoolVar(&o.stderr, "stderr", false, "standard error only")
	o.Flags.IntVarP(&o.lines, "lines", "n", -1, "only the last `LINES` of each")
	return cmd
}

func (o *logsOptions) run(args []string) error {
	if o.lines < -1 {
		return cli.Usagef("--lines %d: want 0 or more", o.lines)
	}
	dir, err := findRun(o.Env, args)
	if err != nil {
		return err
	}
	ctx, stop := o.UntilSignal()
	defer stop()
	out := o.Stdout
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		out = &terminalFilter{to: out}
	}
	stdout, stderr := launch.Outputs(dir)
	outputs := []*launch.Output{stderr, stdout}
	if o.stdout != o.stderr {
		outputs = []*launch.Output{stderr}
		if o.stdout {
			outputs = []*launch.Output{stdout}
		}
	}
	return printLogs(ctx, out, dir, outputs, o.lines, o.follow)
}

// printLogs copies the outputs of a run; with follow it continues until the run ends or ctx is cancelled.
func printLogs(ctx context.Context, out io.Writer, dir string, outputs []*launch.Output, lines int, follow bool) error {
	found := false
	for _, s := range outputs {
		ok, err := s.Open(lines)
		if err != nil {
			return err
		}
		found = found || ok
	}
	if !found && !follow {
		return fmt.Errorf("read the output of %s: no output of its job is kept", filepath.Base(dir))
	}
	for {
		over := !follow || !isRunning(dir) // checked before reading, so that the last lines are included
		for _, s := range outputs {
			if err := s.Copy(out); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logsPoll):
		}
	}
}

// isRunning reports whether an agent is working on the run or its job is alive without one.
func isRunning(dir string) bool { return journal.HolderOf(dir) != nil || launch.Living(dir) }

// terminalFilter is a writer that removes terminal control from text: it passes only colours among escape sequences and only
// line feed, carriage return and tab among control characters. It is a state machine over a stream, in which a sequence
// may be split between writes.
type terminalFilter struct {
	to    io.Writer
	state byte   // 0 text, 'e' after ESC, '[' in a control sequence, 's' in a string terminated by ST or BEL, 'S' after ESC in one, 'x' in another sequence
	seq   []byte // the current sequence
	c1    bool   // after 0xC2, which may start a control character in UTF-8
}

// sequenceLimit is the maximum length in bytes of a colour sequence that is passed on.
const sequenceLimit = 64

func (h *terminalFilter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for _, b := range p {
		out = h.next(out, b)
	}
	if _, err := h.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// next processes one byte and appends the bytes to be written to out.
func (h *terminalFilter) next(out []byte, b byte) []byte {
	if h.c1 {
		h.c1 = false
		if b >= 0x80 && b < 0xa0 {
			return out
		}
		out = append(out, 0xc2)
	}
	switch h.state {
	case 'e':
		h.state = 0
		switch {
		case b == '[':
			h.state, h.seq = '[', append(h.seq[:0], 0x1b, '[')
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			h.state = 's'
		case b >= 0x20 && b < 0x30:
			h.state = 'x'
		}
		return out
	case '[':
		h.seq = append(h.seq, b)
		if b >= 0x40 && b < 0x7f {
			h.state = 0
			if b == 'm' && len(h.seq) <= sequenceLimit {
				return append(out, h.seq...)
			}
		} else if b < 0x20 || b >= 0x7f {
			h.state = 0
		} else if len(h.seq) > sequenceLimit {
			h.seq = h.seq[:sequenceLimit+1]
		}
		return out
	case 's':
		if b == 0x07 {
			h.state = 0
		} else if b == 0x1b {
			h.state = 'S'
		} else if b == '\n' { // strings contain no line feed: the job died within one
			h.state = 0
			return append(out, b)
		}
		return out
	case 'S':
		h.state = 's'
		if b == '\\' {
			h.state = 0
		}
		return out
	case 'x':
		if b >= 0x30 {
			h.state = 0
		}
		return out
	}
	switch {
	case b == 0x1b:
		h.state = 'e'
	case b == 0xc2:
		h.c1 = true
	case b < 0x20 && b != '\n' && b != '\r' && b != '\t' || b == 0x7f:
	default:
		out = append(out, b)
	}
	return out
}

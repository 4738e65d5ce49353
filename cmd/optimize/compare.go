package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"trainopt/optimizer/run"
	"trainopt/simulator/experiment"
)

// compared is the registry of engines whose policies can be compared: one line each.
var compared = map[string]func(*env, *common) *cobra.Command{
	"placement": comparePlacementCommand,
	"queue":     compareQueueCommand,
	"rounds":    compareRoundsCommand,
	"spot":      compareSpotCommand,
	"training":  compareTrainingCommand,
}

func compareCommand(e *env, c *common) *cobra.Command {
	names := slices.Sorted(maps.Keys(compared))
	cmd := &cobra.Command{
		Use: "compare ENGINE", Short: "Compare policies on the same jobs over several seeds: means, intervals, paired tests", Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("compare: name what to simulate: %s", strings.Join(names, ", "))}
			}
			return usageError{fmt.Errorf("compare %q: unknown, want %s", args[0], strings.Join(names, ", "))}
		},
	}
	for _, n := range names {
		cmd.AddCommand(roomy(compared[n](e, c)))
	}
	return cmd
}

// comparing holds the flags common to all comparisons.
type comparing struct {
	policies, against       []string
	seeds                   string
	format, output, jobsOut string
}

func (f *comparing) add(cmd *cobra.Command, policies []string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.policies, "policies", policies, "what is compared, `A,B,…`")
	flags.StringSliceVar(&f.against, "against", nil, "with which of them all others are compared in pairs (default: those of model, zeus and user that are, else the first)")
	flags.StringVar(&f.seeds, "seeds", "0:9", "seeds, `A:B` (both included) or a list")
	flags.StringVar(&f.format, "format", "text", "text|csv|html|json|markdown (default: by the name of --out)")
	flags.StringVarP(&f.output, "out", "o", "", "write to `FILE` instead of standard output")
	flags.StringVar(&f.jobsOut, "jobs-out", "", "write every single job to `FILE` as CSV")
}

// resolve checks the flags, fills in dependent values and returns the seeds.
func (f *comparing) resolve(cmd *cobra.Command, c *common) ([]uint64, error) {
	switch {
	case cmd.Flags().Changed("format"):
	case c.json:
		f.format = "json"
	default:
		if byName, ok := map[string]string{".csv": "csv", ".html": "html", ".htm": "html", ".json": "json", ".md": "markdown"}[filepath.Ext(f.output)]; ok {
			f.format = byName
		}
	}
	if !slices.Contains(experiment.Formats(), f.format) {
		return nil, fmt.Errorf("--format %q: unknown, want one of %s", f.format, strings.Join(experiment.Formats(), ", "))
	}
	if f.against == nil {
		for _, p := range []string{"model", "zeus", "user"} {
			if slices.Contains(f.policies, p) {
				f.against = append(f.against, p)
			}
		}
	}
	for i, p := range f.policies {
		if slices.Contains(f.policies[:i], p) {
			return nil, fmt.Errorf("--policies: %q is named twice", p)
		}
	}
	for _, p := range f.against {
		if !slices.Contains(f.policies, p) {
			return nil, fmt.Errorf("--against %q: not among --policies", p)
		}
	}
	return parseSeeds(f.seeds)
}

// maxSeeds limits the number of seeds of one comparison.
const maxSeeds = 10000

// parseSeeds parses "A:B", inclusive, or "A,B,C".
func parseSeeds(text string) ([]uint64, error) {
	fail := func() ([]uint64, error) {
		return nil, fmt.Errorf("--seeds %q: want A:B, both included, or a list of different whole numbers, at most %d", text, maxSeeds)
	}
	if lo, hi, ok := strings.Cut(text, ":"); ok {
		a, err1 := strconv.ParseUint(lo, 10, 64)
		b, err2 := strconv.ParseUint(hi, 10, 64)
		if err1 != nil || err2 != nil || b < a || b-a >= maxSeeds {
			return fail()
		}
		var out []uint64
		for s := a; ; s++ {
			if out = append(out, s); s == b {
				return out, nil
			}
		}
	}
	var out []uint64
	for _, part := range strings.Split(text, ",") {
		s, err := strconv.ParseUint(strings.TrimSpace(part), 10, 64)
		if err != nil || slices.Contains(out, s) || len(out) == maxSeeds {
			return fail()
		}
		out = append(out, s)
	}
	return out, nil
}

// runComparison runs a comparison and writes its results; the function returned by run writes the individual jobs.
// After an interrupt, the completed part is still written.
func (e *env) runComparison(c *common, f *comparing, run func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error)) error {
	ctx, stop := e.untilSignal()
	defer stop()
	from := e.clock.Monotonic()
	bar := e.bar(c, "comparing")
	comparison, jobs, err := run(ctx, bar.at)
	bar.done()
	var broken interruptedBy
	if err != nil && !errors.As(context.Cause(ctx), &broken) {
		return err
	}
	if comparison != nil {
		comparison.WallS = experiment.Number((e.clock.Monotonic() - from).Seconds())
		if broken.signal != nil {
			comparison.Notes = append(comparison.Notes, "interrupted: not all cases were run")
		}
		if err := e.writeComparison(f, comparison, jobs); err != nil {
			return err
		}
	}
	if broken.signal != nil {
		return exitError{broken.code(), fmt.Errorf("compare: %w", broken)}
	}
	return nil
}

// interruptedBy is an interrupt by a signal of the user.
type interruptedBy struct{ signal os.Signal }

func (i interruptedBy) Error() string { return endedBy(i.signal) }

func (i interruptedBy) code() run.Code {
	if i.signal == syscall.SIGTERM || i.signal == syscall.SIGHUP {
		return run.CodeTerminated
	}
	return run.CodeInterrupt
}

func (e *env) writeComparison(f *comparing, comparison *experiment.Comparison, jobs func(io.Writer) error) error {
	var b bytes.Buffer
	if err := experiment.Render(&b, comparison, f.format); err != nil {
		return err
	}
	if f.output == "" {
		if err := writeAll(e.stdout, b.Bytes()); err != nil {
			return fmt.Errorf("write comparison: %w", err)
		}
	} else if err := os.WriteFile(inDir(e.dir, f.output), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	if f.jobsOut == "" {
		return nil
	}
	b.Reset()
	if err := jobs(&b); err != nil {
		return err
	}
	if err := os.WriteFile(inDir(e.dir, f.jobsOut), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write jobs: %w", err)
	}
	return nil
}

// progressBar shows the progress of long work. It prints nothing if stderr is not a terminal.
type progressBar struct {
	all *mpb.Progress
	bar *mpb.Bar
	new func(total int)
}

// bar returns a progress bar, which prints nothing with --quiet or without a terminal. It appears at the first call of
// at.
func (e *env) bar(c *common, what string) *progressBar {
	p := &progressBar{}
	if e.width == nil || e.width() == 0 || c.quiet {
		return p
	}
	var out io.Writer = e.stderr
	p.new = func(total int) {
		p.all = mpb.New(mpb.WithOutput(out), mpb.WithWidth(min(60, e.width()-30)), mpb.WithAutoRefresh(), mpb.WithRefreshRate(time.Second/4))
		p.bar = p.all.New(int64(total), mpb.BarStyle().Lbound("").Filler("█").Tip("").Padding("░").Rbound(""), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(what+" ")),
			mpb.AppendDecorators(decor.CountersNoUnit(" %d/%d "), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO), "")))
	}
	return p
}

// at updates the progress. Calls must not be concurrent.
func (p *progressBar) at(done, total int) {
	if p.new != nil {
		p.new(total)
		p.new = nil
	}
	if p.bar != nil {
		p.bar.SetCurrent(int64(done))
	}
}

func (p *progressBar) done() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.all.Wait()
	}
}

// untilSignal returns a context that is cancelled at the first signal, with interruptedBy as its cause, and a function
// that releases its resources.
func (e *env) untilSignal() (context.Context, func()) {
	signals, stop := e.listen()
	ctx, cancel := context.WithCancelCause(cmdContext())
	go func() {
		select {
		case s := <-signals:
			cancel(interruptedBy{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		stop()
	}
}

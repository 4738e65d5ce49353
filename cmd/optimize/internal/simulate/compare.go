package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/simulator/experiment"
)

// compareCommands is the registry of engines whose policies can be compared: one line each.
var compareCommands = map[string]func(*cli.Env) *cobra.Command{
	"placement": comparePlacementCommand,
	"queue":     compareQueueCommand,
	"rounds":    compareRoundsCommand,
	"spot":      compareSpotCommand,
	"training":  compareTrainingCommand,
}

// comparison holds the flags of all comparisons.
type comparison struct {
	policies, against []string
	seeds             string
	format            cli.Format
	jobsOut           string
	site              siteFlags
}

func (c *comparison) add(fs *pflag.FlagSet, policies []string) {
	fs.StringSliceVar(&c.policies, "policies", policies, "policies to compare, `A,B,…`")
	fs.StringSliceVar(&c.against, "against", nil, "policies with which all others are compared in pairs (default: the first)")
	fs.StringVar(&c.seeds, "seeds", "0:9", "seeds, `A:B` (both included) or a list")
	c.format.Add(fs, experiment.Formats())
	fs.StringVar(&c.jobsOut, "jobs-out", "", "write each job to `FILE` as CSV")
	c.site.add(fs)
}

// resolve checks the flags, fills in dependent values and returns the seeds.
func (c *comparison) resolve(o cli.Options) ([]uint64, error) {
	if err := errors.Join(c.format.Resolve(o), c.site.check(o)); err != nil {
		return nil, err
	}
	if c.against == nil {
		for _, p := range []string{"model", "zeus", "user"} {
			if slices.Contains(c.policies, p) {
				c.against = append(c.against, p)
			}
		}
	}
	for i, p := range c.policies {
		if slices.Contains(c.policies[:i], p) {
			return nil, fmt.Errorf("--policies: %q is named twice", p)
		}
	}
	for _, p := range c.against {
		if !slices.Contains(c.policies, p) {
			return nil, fmt.Errorf("--against %q: not among --policies", p)
		}
	}
	return parseSeeds(c.seeds)
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

// compareFunc runs a comparison; the function that it returns writes the individual jobs.
type compareFunc func(ctx context.Context, progress func(done, total int)) (*experiment.Comparison, func(io.Writer) error, error)

// run runs a comparison, here or on the site of the flags, and writes its results. After an interrupt, the completed part
// is still written. In a task of the site nothing is written.
func (c *comparison) run(e *cli.Env, compare compareFunc) error {
	site, done, err := c.site.open(e)
	if err != nil {
		return err
	}
	var result *experiment.Comparison
	var jobs func(io.Writer) error
	elapsed, interrupt, err := e.Work("comparing", func(ctx context.Context, progress func(done, total int)) (err error) {
		result, jobs, err = compare(experiment.On(ctx, site), progress)
		return err
	})
	done(err)
	if e.Share != nil || err != nil && interrupt == nil {
		return err
	}
	interrupted := err != nil
	if result != nil {
		result.WallS = experiment.Number(elapsed.Seconds())
		if interrupted {
			result.Notes = append(result.Notes, "interrupted: not all cases were run")
		}
		err = e.Write(c.format.File, "comparison", func(w io.Writer) error { return result.Render(w, c.format.Name) })
		if err == nil && c.jobsOut != "" {
			err = e.Write(c.jobsOut, "jobs", jobs)
		}
		if err != nil {
			return err
		}
	}
	if interrupted {
		return interrupt.Exitf("compare: %w", interrupt)
	}
	return nil
}

// wantProcesses checks the value of --processes.
func wantProcesses(o cli.Options, n int) error { return o.Want("processes", n >= 1, "at least 1") }

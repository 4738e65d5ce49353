package agents

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"trainopt/simulator/queue/rlscheduler"
)

var (
	makeSeeds    = flag.Int("agents.make", 0, "train the built-in policies anew with so many seeds each, and print what they reach")
	makeUpdates  = flag.Int("agents.make-updates", 40, "generations of each")
	makeMode     = flag.String("agents.make-backfill", "", "with (yes) or without (no) backfilling only")
	makeOut      = flag.String("agents.make-out", "", "a folder for the policy files")
	makeLength   = flag.Int("agents.make-length", 512, "jobs of a drawn sequence")
	makeEpisodes = flag.Int("agents.make-episodes", 16, "of a candidate")
	makeHigh     = flag.Float64("agents.make-high", 1.1, "highest offered load")
	makePlain    = flag.Bool("agents.make-plain", false, "the model's sizes and times only")
	makeFirst    = flag.Uint64("agents.make-first", 1, "first seed")
	makeSigma    = flag.Float64("agents.make-sigma", 0.3, "first deviation")
)

// machine has as many processors as those of the published traces, and no jobs.
var machine = &rlscheduler.Trace{Procs: 256, Nodes: 256}

// TestMake trains policies on drawn workloads, as the built-in ones were.
func TestMake(t *testing.T) {
	if *makeSeeds == 0 {
		t.Skip("-agents.make says with how many seeds")
	}
	for _, backfill := range []bool{false, true} {
		if *makeMode == "yes" && !backfill || *makeMode == "no" && backfill {
			continue
		}
		for seed := *makeFirst; seed < *makeFirst+uint64(*makeSeeds); seed++ {
			o := Options{Seed: seed, Updates: *makeUpdates, Episodes: *makeEpisodes, Relative: true, Logarithm: true, Validation: 96, Every: 10,
				Sequence: rlscheduler.Sequence{Length: *makeLength, Backfill: backfill,
					Drawn: &rlscheduler.Drawn{Low: 0.7, High: *makeHigh, Varied: !*makePlain}}}
			o.Evolution.Sigma = *makeSigma
			begin := time.Now()
			a, err := Train(context.Background(), machine, o, nil, func(p Progress) {
				if p.Validation == p.Validation {
					fmt.Printf("  update %d after %.0f s: return %.4f, validation %.4f\n", p.Update, time.Since(begin).Seconds(), p.Return, p.Validation)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range published {
				if p.backfill != backfill {
					continue
				}
				report(t, trace(t, p.trace), a, backfill, fmt.Sprintf("seed %d, %s, backfill %v: published RL %v, best rule %v", seed, p.trace, backfill, p.rl, p.rules))
			}
			if *makeOut != "" {
				f, err := os.Create(filepath.Join(*makeOut, fmt.Sprintf("%v-%d.policy", backfill, seed)))
				if err != nil {
					t.Fatal(err)
				}
				if err := a.Write(f); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

package rlscheduler

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var (
	trainFor   = flag.Duration("agents.for", 0, "train agents for the published table for so long each and print what they reach")
	trainTrace = flag.String("agents.trace", "", "of one trace only: Lublin-1 or Lublin-2")
	trainMode  = flag.String("agents.backfill", "", "with (yes) or without (no) backfilling only")
	trainBy    = flag.String("agents.method", "evolution", "evolution or ppo")
	trainSeed  = flag.Uint64("agents.seed", 1, "of the training")
	trainLen   = flag.Int("agents.length", 1024, "jobs of a sequence that is learned from")
	trainPiece = flag.Int("agents.pieces", 32, "jobs of a piece of which sequences are put together")
	trainRel   = flag.Bool("agents.relative", false, "rewards relative to SJF's")
	trainEps   = flag.Int("agents.episodes", 0, "of an update")
	trainOut   = flag.String("agents.out", "", "a folder for the policy files")
	trainWide  = flag.Int("agents.hidden", 0, "units of a hidden layer; 0: none")
	trainSigma = flag.Float64("agents.sigma", 0.2, "first deviation of evolution")
	trainUpd   = flag.Int("agents.updates", 1000000, "at most")
)

// targets holds the mean bounded slowdown on ten sequences of 1,024 jobs, of RLScheduler's agents and of the best
// heuristic.
var targets = []struct {
	trace     string
	backfill  bool
	rl, rules float64
}{
	{"Lublin-1", false, 254.67, 258.37},
	{"Lublin-2", false, 724.51, 622.18},
	{"Lublin-1", true, 58.64, 53.64},
	{"Lublin-2", true, 118.79, 90.72},
}

// TestTrainForTable trains on sequences that share no job with the published ones:
//
//	go test -run TrainForTable -v ./simulator/ancestors/rlscheduler -agents.for 3m
func TestTrainForTable(t *testing.T) {
	if *trainFor == 0 {
		t.Skip("-agents.for says how long to train")
	}
	for _, p := range targets {
		if *trainTrace != "" && *trainTrace != p.trace || *trainMode == "yes" && !p.backfill || *trainMode == "no" && p.backfill {
			continue
		}
		tr := load(t, p.trace)
		o := TrainOptions{Method: *trainBy, Seed: *trainSeed, Updates: *trainUpd, Episodes: *trainEps, Relative: *trainRel,
			Sequence: Sequence{Length: *trainLen, Backfill: p.backfill,
				Starts: unseen(tr, Starts1024, 1024, *trainPiece), Pieces: *trainPiece}, Validation: 48}
		if *trainWide > 0 {
			o.Hidden = []int{*trainWide}
		}
		o.Evolution.Sigma = *trainSigma
		starts := o.Sequence.Starts
		ctx, cancel := context.WithTimeout(context.Background(), *trainFor)
		begin, last := time.Now(), TrainProgress{}
		a, err := Train(ctx, tr, o, nil, func(p TrainProgress) {
			last = p
			if p.Validation == p.Validation {
				fmt.Printf("  update %d after %.0f s: return %.4g, validation %.4f\n", p.Update, time.Since(begin).Seconds(), p.Return, p.Validation)
			}
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		report(t, tr, a, p.backfill, fmt.Sprintf("%s, backfill %v, %d starts from %d to %d, %d updates, %.0f s: published RL %v, best rule %v",
			p.trace, p.backfill, len(starts), starts[0], starts[len(starts)-1], last.Update, time.Since(begin).Seconds(), p.rl, p.rules))
		if *trainOut != "" {
			f, err := os.Create(filepath.Join(*trainOut, fmt.Sprintf("%s-%v-%s.policy", p.trace, p.backfill, *trainBy)))
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Write(f); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
}

func report(t *testing.T, tr *Trace, a *Agent, backfill bool, what string) {
	for name, rng := range map[string]*rand.Rand{"greedy": nil, "sampled": rand.New(rand.NewPCG(1, 1))} {
		t.Logf("%s: %.2f %s", what, meanSlowdown(a.evaluate(t, tr, Starts1024, 1024, backfill, rng)), name)
	}
}

// unseen returns the starts of sequences of want jobs that share no job with the sequences of length jobs at the
// given starts, for example the published ones.
func unseen(t *Trace, starts []int, length, want int) []int {
	taken := make([]bool, len(t.Jobs))
	for _, s := range starts {
		for i := max(s, 0); i < min(s+length, len(t.Jobs)); i++ {
			taken[i] = true
		}
	}
	var free []int
	run := 0
	for i := range taken {
		if run++; taken[i] {
			run = 0
		}
		if run >= want {
			free = append(free, i-want+1)
		}
	}
	return slices.Clip(free)
}

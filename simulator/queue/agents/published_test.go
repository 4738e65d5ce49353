package agents

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"trainopt/simulator/ancestors/rlscheduler"
)

var (
	trainFor   = flag.Duration("agents.for", 0, "train agents for the published table for so long each and print what they reach")
	trainTrace = flag.String("agents.trace", "", "of one trace only: lublin_256 or lublin_256_new2")
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

func trace(t testing.TB, name string) *rlscheduler.Trace {
	t.Helper()
	path := filepath.Join("../../../../shared/data/swf", name+".swf.gz")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the published traces are not here: %v", err)
	}
	tr, err := rlscheduler.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// published holds the mean bounded slowdown on ten sequences of 1,024 jobs, of RLScheduler's agents and of the best
// heuristic.
var published = []struct {
	trace     string
	backfill  bool
	rl, rules float64
}{
	{"lublin_256", false, 254.67, 258.37},
	{"lublin_256_new2", false, 724.51, 622.18},
	{"lublin_256", true, 58.64, 53.64},
	{"lublin_256_new2", true, 118.79, 90.72},
}

// TestPublishedTable trains on sequences that share no job with the published ones:
//
//	go test -run PublishedTable -v ./simulator/queue/agents -agents.for 3m
func TestPublishedTable(t *testing.T) {
	if *trainFor == 0 {
		t.Skip("-agents.for says how long to train")
	}
	for _, p := range published {
		if *trainTrace != "" && *trainTrace != p.trace || *trainMode == "yes" && !p.backfill || *trainMode == "no" && p.backfill {
			continue
		}
		tr := trace(t, p.trace)
		o := Options{Method: *trainBy, Seed: *trainSeed, Updates: *trainUpd, Episodes: *trainEps, Relative: *trainRel,
			Sequence: rlscheduler.Sequence{Length: *trainLen, Backfill: p.backfill,
				Starts: rlscheduler.Unseen(tr, rlscheduler.Starts1024, 1024, *trainPiece), Pieces: *trainPiece}, Validation: 48}
		if *trainWide > 0 {
			o.Hidden = []int{*trainWide}
		}
		o.Evolution.Sigma = *trainSigma
		starts := o.Sequence.Starts
		ctx, cancel := context.WithTimeout(context.Background(), *trainFor)
		begin, last := time.Now(), Progress{}
		a, err := Train(ctx, tr, o, nil, func(p Progress) {
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

func report(t *testing.T, tr *rlscheduler.Trace, a *Agent, backfill bool, what string) {
	for name, play := range map[string]Play{"greedy": {Backfill: backfill}, "sampled": {Backfill: backfill, Sample: true, Seed: 1}} {
		all, err := a.Evaluate(tr, rlscheduler.Starts1024, 1024, play)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.2f %s", what, Mean(all), name)
	}
}

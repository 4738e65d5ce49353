package rlscheduler

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"trainopt/optimizer/schedule/order"
)

var (
	makeSeeds    = flag.Int("agents.make", 0, "train the built-in policies anew with so many seeds each, and print what they reach")
	makeUpdates  = flag.Int("agents.make-updates", 40, "generations of each")
	makeMode     = flag.String("agents.make-backfill", "", "with (yes) or without (no) backfilling only")
	makeOut      = flag.String("agents.make-out", "", "a folder for the policy files")
	makeLength   = flag.Int("agents.make-length", 640, "jobs of a drawn sequence")
	makeEpisodes = flag.Int("agents.make-episodes", 24, "of a candidate")
	makeHigh     = flag.Float64("agents.make-high", 1.4, "highest offered load")
	makePlain    = flag.Bool("agents.make-plain", false, "the model's sizes and times only")
	makeFirst    = flag.Uint64("agents.make-first", 1, "first seed")
	makeRaw      = flag.Bool("agents.make-raw", false, "reward by bounded slowdown itself, not by the logarithm of its ratio to SJF's")
	makeFrom     = flag.String("agents.make-from", "", "a policy file to go on from")
	makeJudge    = flag.String("agents.make-judge", "", "judge these policy files (a pattern) on drawn workloads, and train none")
	makeOver     = flag.Float64("agents.make-over", 0, "most by which requests are longer than run times, in every other sequence")
	makeSigma    = flag.Float64("agents.make-sigma", 0.3, "first deviation")
)

// machine has the size of the published traces, and no jobs.
var machine = &Trace{Procs: 256, Nodes: 256}

// TestMake trains policies on generated workloads, in the same way as the built-in ones.
func TestMake(t *testing.T) {
	if *makeSeeds == 0 {
		t.Skip("-agents.make says with how many seeds")
	}
	for _, backfill := range []bool{false, true} {
		if *makeMode == "yes" && !backfill || *makeMode == "no" && backfill {
			continue
		}
		for seed := *makeFirst; seed < *makeFirst+uint64(*makeSeeds); seed++ {
			o := TrainOptions{Seed: seed, Updates: *makeUpdates, Episodes: *makeEpisodes, Relative: !*makeRaw, Logarithm: !*makeRaw, Validation: 96, Every: 10,
				Sequence: Sequence{Length: *makeLength, Backfill: backfill,
					Drawn: &Drawn{Low: 0.7, High: *makeHigh, Varied: !*makePlain, Overestimate: *makeOver, Mixed: *makeOver > 0}}}
			o.Evolution.Sigma = *makeSigma
			var from *Agent
			if *makeFrom != "" {
				from = readAgent(t, *makeFrom)
			}
			begin := time.Now()
			a, err := Train(context.Background(), machine, o, from, func(p TrainProgress) {
				if p.Validation == p.Validation {
					fmt.Printf("  update %d after %.0f s: return %.4f, validation %.4f\n", p.Update, time.Since(begin).Seconds(), p.Return, p.Validation)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range targets {
				if p.backfill != backfill {
					continue
				}
				report(t, load(t, p.trace), a, backfill, fmt.Sprintf("seed %d, %s, backfill %v: published RL %v, best rule %v", seed, p.trace, backfill, p.rl, p.rules))
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

func readAgent(t *testing.T, path string) *Agent {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := ReadAgent(f)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestJudge evaluates policies on generated workloads not used in training, for the selection of a policy.
func TestJudge(t *testing.T) {
	if *makeJudge == "" {
		t.Skip("-agents.make-judge names the files")
	}
	files, err := filepath.Glob(*makeJudge)
	if err != nil {
		t.Fatal(err)
	}
	for _, backfill := range []bool{false, true} {
		if *makeMode == "yes" && !backfill || *makeMode == "no" && backfill {
			continue
		}
		for _, varied := range []bool{false, true} {
			var all [][]order.Job
			for i := range uint64(*makeEpisodes) {
				d := Drawn{Low: 0.7, High: 1.2, Varied: varied, Overestimate: *makeOver}
				jobs, err := d.Draw(rand.New(rand.NewPCG(1<<40, i)), 1024, machine.Procs)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, jobs)
			}
			var base []float64
			say := func(name string, player func(e *Episode, jobs []order.Job) Player) {
				sum, ratio := 0.0, 0.0
				for i, jobs := range all {
					e := NewEpisode(jobs, machine.Procs, backfill)
					v := play(e, player(e, jobs)).BoundedSlowdown
					if len(base) <= i {
						base = append(base, v)
					}
					sum += v / float64(len(all))
					ratio += math.Log(v/base[i]) / float64(len(all))
				}
				fmt.Printf("backfill %v, varied %v, %s: mean %.2f, by SAF %.4f\n", backfill, varied, name, sum, math.Exp(ratio))
			}
			for _, h := range []int{2, 3, 6} {
				say(Further[h].Name, func(_ *Episode, jobs []order.Job) Player { return Further[h].Player(jobs) })
			}
			for _, f := range files {
				d, err := readAgent(t, f).decider(machine)
				if err != nil {
					t.Fatal(err)
				}
				say(filepath.Base(f), func(e *Episode, jobs []order.Job) Player {
					d.beginOver(e, jobs)
					return d.next
				})
			}
		}
	}
}

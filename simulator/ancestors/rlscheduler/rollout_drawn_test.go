package rlscheduler

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"trainopt/internal/stat"
)

var (
	drawn      = flag.Int("drawn", 0, "compare search with its rules on so many drawn workloads")
	drawnFirst = flag.Uint64("drawn-seed", 100, "of the workloads")
	drawnSure  = flag.String("drawn-sure", "-1 1 2", "standard errors that are asked for")
	drawnAgent = flag.String("drawn-agent", "", "prefix of policy files for Options.Agent: …true… with backfilling, …false… without")
	drawnN     = flag.Int("drawn-samples", 0, "guesses")
	drawnMode  = flag.String("drawn-backfill", "", "with (yes) or without (no) backfilling only")
	drawnOver  = flag.Float64("drawn-over", 0, "most by which requests are longer")
)

// workloads returns traces of 600 jobs, of which the last 400 are simulated.
func workloads(t testing.TB, n int, seed uint64) []*Trace {
	var all []*Trace
	for i := range n {
		d := Drawn{Low: 0.6, High: 1.1, Varied: i%2 == 1, Overestimate: *drawnOver}
		jobs, err := d.Draw(rand.New(rand.NewPCG(seed, uint64(i))), 600, 256)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &Trace{Procs: 256, Nodes: 256, Jobs: jobs})
	}
	return all
}

// spread returns the mean and the half-width of its 95 % interval.
func spread(v []float64) (float64, float64) {
	m, s := stat.Mean(v), 0.0
	for _, x := range v {
		s += (x - m) * (x - m)
	}
	return m, 1.96 * math.Sqrt(s/float64(len(v)-1)/float64(len(v)))
}

// TestDrawn prints bounded slowdowns on generated workloads, and their geometric mean ratio to those of SAF:
//
//	go test -run Drawn -v ./simulator/ancestors/rlscheduler -drawn 12
func TestDrawn(t *testing.T) {
	if *drawn == 0 {
		t.Skip("-drawn says on how many workloads")
	}
	const first, length = 200, 400
	for _, backfill := range []bool{false, true} {
		if *drawnMode == "yes" && !backfill || *drawnMode == "no" && backfill {
			continue
		}
		all := workloads(t, *drawn, *drawnFirst)
		base := make([]float64, len(all))
		print := func(name string, v []float64, took time.Duration) {
			if name == "SAF" {
				copy(base, v)
			}
			ratio := make([]float64, len(v))
			for i := range v {
				ratio[i] = math.Log(v[i] / base[i])
			}
			m, ci := spread(v)
			lm, lci := spread(ratio)
			fmt.Printf("backfill %-5v %-22s %8.2f ± %-7.2f  vs SAF %.3f (%.3f to %.3f)  %.0f jobs/s\n", backfill, name, m, ci, math.Exp(lm), math.Exp(lm-lci), math.Exp(lm+lci),
				float64(len(v)*length)/took.Seconds())
		}
		run := func(name string, player func(tr *Trace) Player) {
			begin := time.Now()
			var v []float64
			for _, tr := range all {
				v = append(v, play(tr.Episode(first, length, backfill), player(tr)).BoundedSlowdown)
			}
			print(name, v, time.Since(begin))
		}
		rules, err := heuristics([]string{"SAF", "SJF", "smallest", "F1", "F3", "F4"})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range rules {
			run(h.Name, func(tr *Trace) Player { return h.Player(tr.Jobs[first : first+length]) })
		}
		var agent *Agent
		if *drawnAgent != "" {
			agent = readAgent(t, fmt.Sprintf(*drawnAgent, backfill))
			run("agent", func(tr *Trace) Player {
				next, err := agent.Player(tr, first, length)
				if err != nil {
					t.Fatal(err)
				}
				return next
			})
		}
		for _, word := range strings.Fields(*drawnSure) {
			s, err := strconv.ParseFloat(word, 64)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range []*Agent{nil, agent} {
				if a == nil && agent != nil && *drawnN != 0 {
					continue
				}
				run(fmt.Sprintf("search %v %v", s, a != nil), func(tr *Trace) Player {
					r, err := NewRollout(RolloutOptions{Sure: s, Agent: a, Samples: *drawnN, RulesOnly: a == nil})
					if err != nil {
						t.Fatal(err)
					}
					return r.Player(tr, first)
				})
				if agent == nil {
					break
				}
			}
		}
	}
}

package search

import (
	"context"
	"errors"
	"flag"
	"math"
	"testing"
	"time"

	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/queue/agents"
)

var (
	tables     = flag.String("tables", "", "print tables over the published starts of this trace: lublin_256, lublin_256_new2 or KTH-SP2")
	tablesMode = flag.String("tables-backfill", "", "with (yes) or without (no) backfilling only")
	tablesSeed = flag.Uint64("tables-seed", 0, "of the search")
	tablesOnly = flag.String("tables-only", "", "this player only, beside SJF: \"search, learned\", say")
	tablesFast = flag.Bool("tables-fast", false, "without the searches")
)

// files holds the traces of the tables.
var files = map[string]string{
	"lublin_256": "lublin_256.swf.gz", "lublin_256_new2": "lublin_256_new2.swf.gz", "KTH-SP2": "KTH-SP2-1996-2.1-cln.swf.gz",
}

func TestTable(t *testing.T) {
	trace := made(t, 2, 300)
	p := rlscheduler.Protocol{Begin: []int{0, 80, 150}, Length: 100, First: 300}
	sjf, saf := rlscheduler.Published[3], rlscheduler.Further[2]
	searching, err := NewPlayer(trace, Options{Samples: 1, Horizon: 5})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Table(context.Background(), trace, p, true, []Entrant{
		{"sjf", RulePlayer(trace, sjf)}, {"saf", RulePlayer(trace, saf)}, {"sjf again", RulePlayer(trace, sjf)}, {"search", searching}, {"again", searching},
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := rlscheduler.Reproduce(context.Background(), "", trace, p, []rlscheduler.Heuristic{sjf, saf})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows[:2] {
		if got := r.Mean; got != want[2+i].Figures {
			t.Errorf("%s: %+v, want %+v", r.Name, got, want[2+i].Figures)
		}
	}
	if r := rows[2]; r.Ratio != 1 || r.From != 1 || r.To != 1 || r.Half != rows[0].Half || !(r.Half > 0) || len(r.BoundedSlowdown) != 3 {
		t.Errorf("the same rule again: %+v", r)
	}
	if rows[3].Mean != rows[4].Mean {
		t.Errorf("searched again: %v, want %v", rows[4].Mean, rows[3].Mean)
	}
	if m, half := interval([]float64{1, 2, 3}); m != 2 || math.Abs(half-4.30265/math.Sqrt(3)) > 1e-4 {
		t.Errorf("interval of 1, 2, 3: %v ± %v", m, half)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Table(ended, trace, p, true, []Entrant{{"sjf", RulePlayer(trace, sjf)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	p.Length = 1000
	if _, err := Table(context.Background(), trace, p, true, nil); err == nil {
		t.Error("sequences that the trace has not are accepted")
	}
}

// TestTables prints the results of heuristics, built-in policies and search on the published starts:
//
//	go test -run Tables -v -timeout 30m ./simulator/queue/search -tables KTH-SP2
func TestTables(t *testing.T) {
	if *tables == "" {
		t.Skip("-tables names a trace")
	}
	trace := load(t, files[*tables])
	for _, backfill := range []bool{false, true} {
		if *tablesMode == "yes" && !backfill || *tablesMode == "no" && backfill {
			continue
		}
		agent, err := agents.Builtin(map[bool]string{false: "none", true: "rlscheduler"}[backfill])
		if err != nil {
			t.Fatal(err)
		}
		learned, err := AgentPlayer(trace, agent)
		if err != nil {
			t.Fatal(err)
		}
		var players []Entrant
		for _, h := range append(rlscheduler.Published[3:], rlscheduler.Further[2:]...) {
			players = append(players, Entrant{h.Name, RulePlayer(trace, h)})
		}
		players = append(players, Entrant{"learned", learned})
		if !*tablesFast {
			alone, err1 := NewPlayer(trace, Options{Seed: *tablesSeed, RulesOnly: true})
			with, err2 := NewPlayer(trace, Options{Seed: *tablesSeed})
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			players = append(players, Entrant{"search", alone}, Entrant{"search, learned", with})
		}
		for i, m := range players {
			if *tablesOnly != "" && m.Name != *tablesOnly {
				continue
			}
			begin := time.Now()
			rows, err := Table(context.Background(), trace, rlscheduler.Published1024, backfill, []Entrant{players[0], m})
			if err != nil {
				t.Fatal(err)
			}
			r := rows[1]
			t.Logf("%s, backfill %v, %d %s: %.2f ± %.2f, by SJF's %.3f (%.3f to %.3f), %.0f jobs/s", *tables, backfill, i, r.Name, r.Mean.BoundedSlowdown,
				r.Half, r.Ratio, r.From, r.To, float64(len(r.BoundedSlowdown)*1024)/time.Since(begin).Seconds())
		}
	}
}

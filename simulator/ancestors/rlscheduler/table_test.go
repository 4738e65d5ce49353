package rlscheduler

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var files = map[string]string{
	"Lublin-1": "lublin_256.swf.gz", "Lublin-2": "lublin_256_new2.swf.gz", "KTH-SP2": "KTH-SP2-1996-2.1-cln.swf.gz",
}

// load reads a trace of the published evaluation; the test is skipped if it is absent.
func load(tb testing.TB, name string) *Trace {
	tb.Helper()
	path := filepath.Join("../../../../shared/data/swf", files[name])
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("the published traces are not here: %v", err)
	}
	trace, err := Load(path)
	if err != nil {
		tb.Fatal(err)
	}
	return trace
}

// Every entry of the table whose trace is available is reproduced to every printed digit.
func TestPublishedTable(t *testing.T) {
	for name, entries := range map[string]int{"Lublin-1": 24, "Lublin-2": 24, "KTH-SP2": 10} {
		t.Run(name, func(t *testing.T) {
			for _, g := range reproduce(name, load(t, name)) {
				want, ok := Find(name, g.Backfill, g.Policy)
				if !ok {
					continue
				}
				entries--
				for _, c := range []struct {
					what, format string
					got, want    float64
				}{
					{"bounded slowdown", "%.2f", g.BoundedSlowdown, want.BoundedSlowdown}, {"utilization", "%.3f", g.Utilization, want.Utilization},
					{"wait", "%.0f", g.Wait, want.Wait},
				} {
					if a, b := fmt.Sprintf(c.format, c.got), fmt.Sprintf(c.format, c.want); a != b && !math.IsNaN(c.want) {
						t.Errorf("%s, backfill %v: %s %s, want %s", g.Policy, g.Backfill, c.what, a, b)
					}
				}
			}
			if entries != 0 {
				t.Errorf("%d entries were not compared", entries)
			}
		})
	}
}

func TestTableHasAllPublished(t *testing.T) {
	published, ours := 0, 0
	for _, e := range table() {
		if e.Ours {
			ours++
		} else {
			published++
		}
	}
	if published != 48 || ours != 38 {
		t.Errorf("%d published entries and %d of this project, want 48 and 38", published, ours)
	}
	if e, ok := Find("HPC2N", true, "RL"); !ok || e.BoundedSlowdown != 86.14 || e.Utilization != 0.642 {
		t.Errorf("RL on HPC2N: %+v", e)
	}
	if _, ok := Find("HPC2N", true, "F2"); ok {
		t.Error("F2 on HPC2N is published nowhere")
	}
}

// reproduce runs all heuristics on the published sequences of a trace, without and with backfilling, and returns the
// means over the sequences.
func reproduce(name string, t *Trace) (entries []tableEntry) {
	for _, backfill := range []bool{false, true} {
		for _, h := range slices.Concat(Published, Further) {
			var f figures
			n := float64(len(Starts1024))
			for _, start := range Starts1024 {
				m := play(t.Episode(start, 1024, backfill), h.Player(t.Jobs[start:start+1024]))
				f.BoundedSlowdown += m.BoundedSlowdown / n
				f.Utilization += m.Utilization / n
				f.Wait += m.Wait / n
			}
			entries = append(entries, tableEntry{name, backfill, h.Name, f, true})
		}
	}
	return entries
}

// The published simulator, in Python, starts 4,100 jobs/s without and 14,800 with backfilling (Lublin-1, these
// heuristics).
func BenchmarkEpisode(b *testing.B) {
	trace := load(b, "Lublin-1")
	for _, backfill := range []bool{false, true} {
		b.Run(fmt.Sprintf("backfill=%v", backfill), func(b *testing.B) {
			jobs := 0
			for b.Loop() {
				for _, h := range Published {
					for _, start := range Starts1024 {
						play(trace.Episode(start, 1024, backfill), h.Player(trace.Jobs[start:start+1024]))
						jobs += 1024
					}
				}
			}
			b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkCopyFrom measures the cost of copying an episode in progress, which a search incurs per rollout.
func BenchmarkCopyFrom(b *testing.B) {
	trace := load(b, "Lublin-1")
	e := trace.Episode(Starts1024[0], 1024, true)
	for e.Started() < 512 {
		e.Start(e.Waiting()[0])
	}
	c := clone(e)
	for b.Loop() {
		c.copyFrom(e)
	}
}

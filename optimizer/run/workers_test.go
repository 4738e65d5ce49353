package run

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// loadingJob plays a training of steps in passes of 8 over its data, which waits for two of the three seconds of a
// step with the script's own workers, and otherwise takes the time that pace returns; waited is the waiting part of
// it.
func loadingJob(total int, own int, pace func(workers int) (seconds, waited float64)) func(*actor) launch.Exit {
	return func(a *actor) launch.Exit {
		workers := own
		if n, err := strconv.Atoi(a.setting("OPTIMIZE_OBSERVE_WORKERS")); err == nil {
			workers = n
		}
		a.begins(nil)
		answered, stepping, waiting := 0.0, 0.0, 0.0
		for a.epoch < total {
			if q := a.request(); a.epoch%8 == 0 && q != nil && q["op"] == "workers" && q["id"].(float64) > answered {
				before := workers
				workers, answered = int(q["workers"].(float64)), q["id"].(float64)
				a.report(map[string]any{"event": "answer", "id": answered, "op": "workers", "ok": true, "workers": workers, "before": before, "seconds": 0.01})
			}
			seconds, waited := pace(workers)
			stepping, waiting = stepping+seconds, waiting+waited
			if !a.progress(seconds, map[string]any{"step": a.epoch + 1, "total_steps": total, "step_seconds": seconds,
				"threads": 1, "workers": workers, "stepping": stepping, "waiting": waiting}) {
				return a.leave()
			}
		}
		return finished
	}
}

func loadingStage(t *testing.T, pace func(workers int) (seconds, waited float64)) *stage {
	s := observedStage(t, loadingJob(60, 0, pace))
	s.cfg.Planner, s.cfg.CPUs, s.cfg.NumWorkers = "model", "4", "0:3"
	return s
}

// workersOf returns the loader workers of the actions of a run, in order.
func workersOf(rec *journal.Record) string {
	var out []string
	for _, a := range rec.Actions {
		if a.From.NumWorkers != a.To.NumWorkers {
			out = append(out, fmt.Sprintf("%s %d", a.Applied, a.To.NumWorkers))
		}
	}
	return strings.Join(out, ", ")
}

// TestInputBoundTrainingGetsWorkers: a training that waits for its data gets workers between two passes, keeps them
// if it is faster, and starts with them in the next run.
func TestInputBoundTrainingGetsWorkers(t *testing.T) {
	t.Parallel()
	pace := func(workers int) (float64, float64) {
		if workers > 0 {
			return 1, 0
		}
		return 3, 2
	}
	s := loadingStage(t, pace)
	rec := s.run().Record
	if got := workersOf(rec); rec.State != journal.Done || got != "live 2" {
		t.Fatalf("%s with workers %q, want done with 2 set live: %v", rec.State, got, s.events)
	}
	if seconds := float64(rec.Outcome.Seconds); seconds > 120 {
		t.Errorf("took %g s, want well below the 180 s without workers", seconds)
	}
	again := loadingStage(t, pace)
	again.cfg.StateDir, again.cfg.Dir = s.cfg.StateDir, s.cfg.Dir
	next := again.run().Record
	if seconds := float64(next.Outcome.Seconds); next.Plan == nil || next.Plan.Allocation.NumWorkers != 2 || seconds > 70 {
		t.Errorf("the next run took %g s with plan %+v, want 2 workers from its start: %v", seconds, next.Plan, again.events)
	}
	if got := again.started()[0].setting("OPTIMIZE_OBSERVE_WORKERS"); got != "2" {
		t.Errorf("the next run began with %q workers", got)
	}
}

// TestUselessWorkersAreTakenBack: workers that make the training slower are reverted, and not tried again.
func TestUselessWorkersAreTakenBack(t *testing.T) {
	t.Parallel()
	s := loadingStage(t, func(workers int) (float64, float64) {
		if workers > 0 {
			return 5, 4
		}
		return 3, 2
	})
	rec := s.run().Record
	if got := workersOf(rec); rec.State != journal.Done || got != "live 2, live 0" {
		t.Errorf("%s with workers %q, want 2 and the script's own again: %v", rec.State, got, s.events)
	}
}

// TestWorkersThatSlowDownLaterAreTakenBack: a change that was faster at first is judged again as more is measured.
func TestWorkersThatSlowDownLaterAreTakenBack(t *testing.T) {
	t.Parallel()
	changed := 0
	s := loadingStage(t, nil)
	s.cfg.Every = 1000 // no regular adaptation
	s.play = loadingJob(240, 0, func(workers int) (float64, float64) {
		if workers == 0 {
			return 3, 2
		}
		if changed++; changed > 40 {
			return 9, 0
		}
		return 1, 0
	})
	rec := s.run().Record
	if got := workersOf(rec); rec.State != journal.Done || got != "live 2, live 0" {
		t.Errorf("%s with workers %q, want 2 and later the script's own again: %v", rec.State, got, s.events)
	}
}

// TestInputBoundStream: of a training that waits for an iterable dataset, more workers are not offered: their change is refused.
func TestInputBoundStream(t *testing.T) {
	t.Parallel()
	for stream, advice := range map[bool]string{false: "keep up (--num-workers 0:2 lets", true: "keep up if the dataset divides its data"} {
		s := observedStage(t, func(a *actor) launch.Exit {
			a.begins(nil)
			for a.epoch < 30 {
				n := float64(a.epoch + 1)
				a.progress(3, map[string]any{"step": n, "total_steps": 30, "step_seconds": 3, "workers": 0, "stepping": 3 * n, "waiting": 2 * n, "stream": stream})
			}
			return finished
		})
		s.cfg.CPUs = "4"
		if s.run(); len(s.said(Warning, advice)) != 1 {
			t.Errorf("stream %v: %v; want %q", stream, s.said(Warning, "input-bound"), advice)
		}
	}
}

// TestWorkersWithoutConsent: without a range, with a single number, or with the static planner, no number is tried.
func TestWorkersWithoutConsent(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"no range":     func(c *Config) { c.NumWorkers = "" },
		"one number":   func(c *Config) { c.NumWorkers = "1" },
		"static":       func(c *Config) { c.Planner = "static" },
		"no probes":    func(c *Config) { c.Samples = -1 },
		"narrow range": func(c *Config) { c.NumWorkers = "0:0" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, loadingJob(30, 0, func(int) (float64, float64) { return 3, 2 }))
			s.cfg.Planner, s.cfg.CPUs, s.cfg.NumWorkers = "model", "4", "0:3"
			set(&s.cfg)
			rec := s.run().Record
			if got := workersOf(rec); rec.State != journal.Done || got != "" || len(s.said(Info, "from the next pass")) > 0 {
				t.Errorf("%s with workers %q", rec.State, got)
			}
			want := ""
			if name == "one number" {
				want = "1"
			}
			if got := s.started()[0].setting("OPTIMIZE_OBSERVE_WORKERS"); got != want {
				t.Errorf("launched with %q workers, want %q", got, want)
			}
		})
	}
}

// TestBatchSizeStatesItsRule: a launch with a changed batch size reports that the result changes, and the factor for
// the learning rate if the script's batch size is known.
func TestBatchSizeStatesItsRule(t *testing.T) {
	t.Parallel()
	s := observedStage(t, loadingJob(3, 0, func(int) (float64, float64) { return 1, 0 }))
	s.cfg.Knobs["batch_size"] = "--batch-size={}"
	r := newRun(s.agent(), s.cfg)
	r.rec = &journal.Record{}
	r.Argv = []string{"python3", "train.py", "--batch-size", "16"}
	r.readCommand(&r.facts)
	r.stateBatch(resources.Allocation{CPUs: 1, BatchSize: 16})
	if len(r.rec.Warnings) > 0 {
		t.Errorf("the own batch size warns: %v", r.rec.Warnings)
	}
	r.stateBatch(resources.Allocation{CPUs: 1, BatchSize: 64})
	if got := strings.Join(r.rec.Warnings, "\n"); !strings.Contains(got, "changes the result") || !strings.Contains(got, "by 4 with SGD, by 2 with an adaptive") {
		t.Errorf("warnings %q, want the factors 4 and 2", got)
	}
}

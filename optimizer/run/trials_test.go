package run

import (
	"testing"
	"time"

	"trainopt/optimizer/launch"
)

// TestTrialTime: a trial uses at most one percent of the launch, and slow steps are tried as soon as the launch, as predicted, is
// long enough.
func TestTrialTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step, launch, want time.Duration // want 0: no trial
	}{
		{time.Millisecond, 3 * time.Second, 30 * time.Millisecond},
		{5 * time.Millisecond, 3 * time.Second, 0},
		{5 * time.Millisecond, time.Hour, 2 * time.Second},
		{100 * time.Millisecond, 90 * time.Second, 0},
		{100 * time.Millisecond, 100 * time.Second, time.Second},
		{500 * time.Millisecond, 290 * time.Second, 0},
		{500 * time.Millisecond, 300 * time.Second, 3 * time.Second},
		{500 * time.Millisecond, time.Hour, 3 * time.Second},
		{10 * time.Second, time.Hour, 0},
		{10 * time.Second, 2 * time.Hour, time.Minute},
	} {
		limit, ok := trialTime(c.step, c.launch)
		if !ok {
			limit = 0
		}
		if limit != c.want || ok && limit > c.launch/100 {
			t.Errorf("steps of %v in %v: %v, want %v", c.step, c.launch, limit, c.want)
		}
	}
}

// TestThreadChangeRenewsThePrediction: a change of threads after the plan makes the training faster than planned; the
// outcome is compared with a prediction for the new count, or with the plan's if the run ends before there is another.
func TestThreadChangeRenewsThePrediction(t *testing.T) {
	for name, after := range map[string]int{"renewed": 2000, "at the end": 10} {
		t.Run(name, func(t *testing.T) { changeThreads(t, after) })
	}
}

// changeThreads runs a training that ends at most a number of steps after a change of its threads.
func changeThreads(t *testing.T, after int) {
	t.Parallel()
	var s *stage
	changedAt := 0.0
	s = observedStage(t, func(a *actor) launch.Exit {
		a.begins(map[string]any{"can_set_threads": true})
		const each = 10
		steps := 2000
		threads, pace, answered := 4, 0.2, 0.0
		for a.epoch*each < steps {
			if q := a.request(); q != nil && q["id"].(float64) > answered && len(s.said(Info, "plan: ")) > 0 {
				answered = q["id"].(float64)
				answer := map[string]any{"event": "answer", "id": answered, "op": q["op"], "ok": true, "seconds": 0.1}
				switch n := int(q["threads"].(float64)); {
				case q["op"] == "trial" && n == 1:
					answer["before"], answer["tried"] = threads, n
					answer["seconds_before"], answer["seconds_tried"], answer["seconds_after"] = 0.2, 0.04, 0.2
				case q["op"] == "trial":
					answer["before"], answer["tried"] = threads, n
					answer["seconds_before"], answer["seconds_tried"], answer["seconds_after"] = 0.04, 0.2, 0.04
				default:
					answer["before"], answer["threads"] = threads, n
					threads, pace = n, 0.04
					changedAt = (a.stage.clock.Monotonic() - a.from).Seconds()
					steps = min(steps, a.epoch*each+after)
				}
				a.report(answer)
			}
			if !a.progress(each*pace, map[string]any{"step": each * (a.epoch + 1), "total_steps": steps, "step_seconds": pace, "threads": threads}) {
				return a.leave()
			}
		}
		return finished
	})
	s.cfg.Planner, s.cfg.CPUs = "model", "4"
	rec := s.run().Record
	if n := len(rec.Actions); n != 1 || rec.Actions[0].To.Threads != 1 || rec.Plan == nil || changedAt == 0 {
		t.Fatalf("actions %+v, plan %+v: %v", rec.Actions, rec.Plan, s.events)
	}
	took := float64(rec.Outcome.Seconds)
	if p := rec.Plan.Prediction; p == nil || (float64(p.AtS) > changedAt) != (after > 100) || after > 100 && (!inside(took, p.Seconds) || !inside(float64(rec.Outcome.CostUSD), p.CostUSD)) {
		t.Errorf("predicted %+v; the threads changed after %.1f s, the run took %.1f s and cost %v", p, changedAt, took, rec.Outcome.CostUSD)
	}
}

package run

import (
	"context"
	"strconv"
	"testing"

	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/simulator/training"
)

// PlayScenario runs a simulated CPU job under the real agent, by the stage's clock, and returns the allocations on which
// it was launched, in order.
func PlayScenario(t *testing.T, s *training.Scenario, seed uint64, prefer plan.Preference) []resources.Allocation {
	t.Helper()
	x := s.Start(seed)
	total := int(s.Units)
	var stage *stage
	stage = newStage(t, func(a *actor) launch.Exit {
		a.begin()
		stage.clock.advance(at(s.Startup))
		for a.epoch < total {
			if !a.work(total, x.Run(resources.Allocation{CPUs: a.command.Allocation.CPUs}, 1)[0]) {
				stage.clock.advance(at(s.Restart - s.Startup))
				return a.leave()
			}
		}
		return finished
	})
	stage.timed = true
	c := &stage.cfg
	c.Planner, c.Preference, c.PreferenceGiven, c.SLA, c.Rates = "model", prefer, true, s.Spec, &s.Rates
	c.CPUs = strconv.Itoa(s.Limits.CPUs.Min) + ":" + strconv.Itoa(s.Limits.CPUs.Max)
	agent := stage.agent()
	agent.Discover = func(context.Context) (resources.Host, error) {
		h := resources.Host{CPUs: float64(s.Limits.CPUs.Max), Memory: 16}
		for i := range s.Limits.CPUs.Max {
			h.CPUIDs = append(h.CPUIDs, i)
		}
		return h, nil
	}
	defer func() {
		for _, e := range stage.said(0, "") {
			t.Log(e)
		}
	}()
	if res := agent.Run(t.Context(), *c, nil); res.Code != CodeDone {
		t.Errorf("the agent ends with %d: %v", res.Code, res.Err)
	}
	var out []resources.Allocation
	for _, a := range stage.started() {
		out = append(out, resources.Allocation{CPUs: a.command.Allocation.CPUs})
	}
	return out
}

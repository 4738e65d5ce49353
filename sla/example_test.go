package sla_test

import (
	"fmt"
	"testing"
	"time"

	"trainopt/sla"
)

func ExampleEvaluate() {
	spec := sla.Spec{TimeMax: 2 * time.Hour, CostMaxUSD: 10}
	verdicts := sla.Evaluate(spec, map[sla.Objective]sla.Measure{
		sla.Time: {Value: 1800, Projected: &sla.Interval{P5: 6000, P50: 6800, P95: 7700}},
		sla.Cost: {Value: 2.1, Projected: &sla.Interval{P5: 7, P50: 8, P95: 9}},
	})
	for _, v := range verdicts {
		fmt.Println(v.Objective, v.Status)
	}
	// Output:
	// time at-risk
	// cost met
}

func ExampleGuard() {
	guard, _ := sla.NewGuard(sla.Spec{CostMaxUSD: 10}, sla.GuardOptions{})
	tick := sla.Tick{Elapsed: time.Hour, SpentUSD: 9.5, USDPerHour: 9.5, Reserve: time.Minute}
	d := guard.Step(tick)
	fmt.Println(d.Action, d.Next.Round(time.Second))

	tick.Elapsed, tick.SpentUSD = tick.Elapsed+d.Next, 9.5+9.5*d.Next.Hours()
	d = guard.Step(tick)
	fmt.Println(d.Action, d.Limit)
	// Output:
	// keep-going 2m9s
	// checkpoint cost
}

func BenchmarkGuardStep(b *testing.B) {
	guard, _ := sla.NewGuard(sla.Spec{CostMaxUSD: 10, TimeMax: time.Hour}, sla.GuardOptions{})
	for b.Loop() {
		guard.Step(sla.Tick{Elapsed: time.Minute, SpentUSD: 1, USDPerHour: 3, Reserve: time.Second})
	}
}

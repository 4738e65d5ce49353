// Package roundstest provides inputs for tests of scheduling policies: snapshots without a simulation. It is for
// tests only.
//
//	s := roundstest.Snapshot(t, roundstest.Cluster(2, 2, 2), jobs)
//	a := roundstest.Decide(t, policy, s)
package roundstest

import (
	"testing"

	"trainopt/simulator/rounds"
	"trainopt/simulator/workload"
)

// Cluster returns the given numbers of K80, P100 and V100, each in a server of its own, at the prices of Gavel's
// simulator. Types with a count of 0 are omitted.
func Cluster(k80, p100, v100 int) []rounds.DeviceType {
	var out []rounds.DeviceType
	for _, d := range []rounds.DeviceType{
		{Name: "k80", Count: k80, PerServer: 1, USDHour: 0.135, Watts: 300},
		{Name: "p100", Count: p100, PerServer: 1, USDHour: 0.43, Watts: 250},
		{Name: "v100", Count: v100, PerServer: 1, USDHour: 0.74, Watts: 300},
	} {
		if d.Count > 0 {
			out = append(out, d)
		}
	}
	return out
}

// Snapshot returns a snapshot of a cluster in which all jobs wait, at the arrival of the last one and without
// progress, with the rates of the embedded table. Callers may modify it.
func Snapshot(t testing.TB, devices []rounds.DeviceType, jobs []workload.Job) *rounds.Snapshot {
	t.Helper()
	table := workload.GavelTable()
	s := &rounds.Snapshot{Devices: devices}
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	if err := table.Require(jobs, names); err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		j := &jobs[i]
		state := rounds.JobState{Job: j, Remaining: j.Steps, Seconds: j.Seconds}
		for _, d := range names {
			state.Rate = append(state.Rate, table.Alone(d, j.Type, j.GPUs))
		}
		s.Jobs = append(s.Jobs, state)
		s.Now = max(s.Now, j.Arrival)
	}
	s.Pair = func(a, b, device int) (ra, rb float64) {
		if s.Jobs[a].GPUs != s.Jobs[b].GPUs {
			return 0, 0
		}
		ra, rb, _ = table.Beside(names[device], s.Jobs[a].Type, s.Jobs[b].Type, s.Jobs[a].GPUs)
		return ra, rb
	}
	return s
}

// Jobs returns the first n jobs of Gavel's generator, all arriving at time 0.
func Jobs(t testing.TB, n int, seed int64, multiGPU bool) []workload.Job {
	t.Helper()
	g, err := workload.NewGenerator(workload.Options{Seed: seed, MultiGPU: multiGPU}, workload.GavelTable())
	if err != nil {
		t.Fatal(err)
	}
	return g.Take(n)
}

// Decide returns the decision of a policy and fails the test if it is an error or invalid.
func Decide(t testing.TB, p rounds.Policy, s *rounds.Snapshot) rounds.Allocation {
	t.Helper()
	a, err := p.Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	var traits rounds.Traits
	if d, ok := p.(rounds.Described); ok {
		traits = d.Traits()
	}
	if err := a.Check(s, traits); err != nil {
		t.Fatal(err)
	}
	return a
}

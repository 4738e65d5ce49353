package share_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/workload"
)

// lastDraw is a source without state.
type lastDraw struct{}

func (lastDraw) IntN(n int) int { return n - 1 }

func lastDraws(t *testing.T, name string) schedule.Policy {
	t.Helper()
	p, err := share.New(name, share.Options{Random: lastDraw{}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A policy with the state of another decides like that one, while jobs arrive, progress and complete.
func TestRestoredPoliciesDecideAlike(t *testing.T) {
	for _, name := range share.Names() {
		t.Run(name, func(t *testing.T) {
			p := lastDraws(t, name)
			if _, ok := p.(schedule.Stateful); !ok {
				return
			}
			jobs := gavelJobs(t, 24, 3, name != "allox")
			for i := range 6 {
				s := snapshot(t, gavelDevices(3, 3, 9), jobs[2*i:2*i+12])
				s.Now = 700 * float64(i)
				for k := range s.Jobs {
					s.Jobs[k].Remaining *= 1 - 0.1*float64(i)
					s.Jobs[k].Attained = 1000 * float64(i)
					s.Jobs[k].Deadline = 1e6 * float64(k+1)
				}
				state, err := json.Marshal(p.(schedule.Stateful).State())
				if err != nil {
					t.Fatal(err)
				}
				restored := lastDraws(t, name)
				if err := share.Restore(restored.(schedule.Stateful), state); err != nil {
					t.Fatal(err)
				}
				one, two := checked(t, p, s), checked(t, restored, s)
				if !reflect.DeepEqual(one, two) {
					t.Fatalf("decision %d: %v, restored %v", i, one, two)
				}
			}
		})
	}
}

func TestBadStateIsRefused(t *testing.T) {
	for _, state := range []string{"", "{}", "[]", "[1,2]", `["x"]`} {
		if err := share.Restore(policy(t, "fifo", false).(schedule.Stateful), []byte(state)); err == nil {
			t.Errorf("state %q is accepted", state)
		}
	}
}

// pythonRandom draws the numbers of Gavel.
type pythonRandom struct{ *workload.Python }

func (p pythonRandom) IntN(n int) int { return p.Below(n) }

// gavelDevices returns the given numbers of K80, P100 and V100, each in a server of its own, at the prices of Gavel's
// simulator. Types with a count of 0 are omitted.
func gavelDevices(k80, p100, v100 int) []schedule.DeviceType {
	var out []schedule.DeviceType
	for _, d := range []schedule.DeviceType{
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

// snapshot returns a snapshot of a cluster in which all jobs wait, at the arrival of the last one and without
// progress, with the rates of the embedded table. Callers may modify it.
func snapshot(t testing.TB, devices []schedule.DeviceType, jobs []workload.Job) *schedule.Snapshot {
	t.Helper()
	table := workload.GavelTable()
	s := &schedule.Snapshot{Devices: devices}
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	if err := table.Require(jobs, names); err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		j := &jobs[i]
		state := schedule.JobState{Job: j, Remaining: j.Steps, Seconds: j.Seconds}
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

// gavelJobs returns the first n jobs of Gavel's generator, all arriving at time 0.
func gavelJobs(t testing.TB, n int, seed int64, multiGPU bool) []workload.Job {
	t.Helper()
	g, err := workload.NewGenerator(workload.Options{Seed: seed, MultiGPU: multiGPU}, workload.GavelTable())
	if err != nil {
		t.Fatal(err)
	}
	return g.Take(n)
}

// checked returns the decision of a policy and fails the test if it is an error or invalid.
func checked(t testing.TB, p schedule.Policy, s *schedule.Snapshot) schedule.Allocation {
	t.Helper()
	a, err := p.Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Check(s, p.Traits()); err != nil {
		t.Fatal(err)
	}
	return a
}

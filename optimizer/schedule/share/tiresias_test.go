package share

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"trainopt/optimizer/schedule"
)

// oneType returns a snapshot of jobs on one device type, at one step per second.
func oneType(now float64, devices int, jobs ...schedule.JobState) *schedule.Snapshot {
	for i := range jobs {
		jobs[i].Rate = []float64{1}
	}
	return &schedule.Snapshot{Now: now, Devices: []schedule.DeviceType{{Name: "a", Count: devices, PerServer: 1}}, Jobs: jobs}
}

func aJob(id int, arrival float64, gpus int, steps, done, attained float64) schedule.JobState {
	return schedule.JobState{
		Job:       &schedule.Job{ID: id, Type: "x", Arrival: arrival, GPUs: gpus, Steps: steps, Deadline: math.NaN(), SLO: math.NaN()},
		Remaining: steps - done, Attained: attained,
	}
}

// running returns the IDs of the jobs with devices.
func running(t *testing.T, p schedule.Policy, s *schedule.Snapshot) string {
	t.Helper()
	a, err := p.Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Check(s, schedule.Traits{}); err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, e := range a.Entries {
		ids = append(ids, s.Jobs[e.A].ID)
	}
	slices.Sort(ids)
	return fmt.Sprint(ids)
}

// The queues of Tiresias over consecutive decisions.
func TestTiresiasQueues(t *testing.T) {
	p := newTiresias(Options{})
	for _, c := range []struct {
		why  string
		s    *schedule.Snapshot
		want string
	}{
		{"first come, first served", oneType(0, 2, aJob(0, 0, 1, 1e6, 0, 0), aJob(1, 0, 1, 1e6, 0, 0), aJob(2, 0, 1, 1e6, 0, 0)), "[0 1]"},
		{"who has had less in the same queue does not stop who runs", oneType(3000, 2, aJob(0, 0, 1, 1e6, 3000, 3000), aJob(1, 0, 1, 1e6, 3000, 3000), aJob(2, 0, 1, 1e6, 0, 0)), "[0 1]"},
		{"two pass the first bound, the first to come stays", oneType(3250, 2, aJob(0, 0, 1, 1e6, 3250, 3250), aJob(1, 0, 1, 1e6, 3250, 3250), aJob(2, 0, 1, 1e6, 0, 0)), "[0 2]"},
		{"who was stopped goes behind who runs", oneType(3300, 2, aJob(0, 0, 1, 1e6, 3300, 3300), aJob(1, 0, 1, 1e6, 3250, 3250), aJob(2, 0, 1, 1e6, 50, 50)), "[0 2]"},
		{"the second bound; who was stopped is next", oneType(7200, 2, aJob(0, 0, 1, 1e6, 7200, 7200), aJob(1, 0, 1, 1e6, 3250, 3250), aJob(2, 0, 1, 1e6, 3200, 3200)), "[1 2]"},
		{"who does not fit is passed over", oneType(7300, 2, aJob(0, 0, 1, 1e6, 7200, 7200), aJob(1, 0, 1, 1e6, 3350, 3350), aJob(3, 7300, 3, 1e6, 0, 0)), "[0 1]"},
		{"device-seconds count, also past two bounds at once", oneType(9000, 2, aJob(4, 7300, 2, 1e6, 1700, 8000), aJob(5, 9000, 2, 1e6, 0, 0)), "[4]"},
		{"then it is in the last queue", oneType(9001, 2, aJob(4, 7300, 2, 1e6, 1700, 8002), aJob(6, 9001, 1, 1e6, 0, 0)), "[6]"},
	} {
		if got := running(t, p, c.s); got != c.want {
			t.Errorf("%s: %s run, want %s", c.why, got, c.want)
		}
	}
}

// Leases of Themis are kept, and the jobs that are worst off come first.
func TestThemisLeases(t *testing.T) {
	p := newThemis(Options{})
	for _, c := range []struct {
		why  string
		s    *schedule.Snapshot
		want string
	}{
		{"both have a lease", oneType(0, 2, aJob(0, 0, 1, 1e5, 0, 0), aJob(1, 0, 1, 1e5, 0, 0)), "[0 1]"},
		{"a short job that has waited is the worst off, but nothing is free", oneType(600, 2, aJob(0, 0, 1, 1e5, 600, 600), aJob(1, 0, 1, 1e5, 600, 600), aJob(2, 1, 1, 10, 0, 0)), "[0 1]"},
		{"leases end", oneType(1200, 2, aJob(0, 0, 1, 1e5, 1200, 1200), aJob(1, 0, 1, 1e5, 1200, 1200), aJob(2, 1, 1, 10, 0, 0)), "[0 2]"},
		{"its devices are free before the end of the lease", oneType(1210, 2, aJob(0, 0, 1, 1e5, 1210, 1210), aJob(1, 0, 1, 1e5, 1200, 1200)), "[0 1]"},
	} {
		if got := running(t, p, c.s); got != c.want {
			t.Errorf("%s: %s run, want %s", c.why, got, c.want)
		}
	}
}

// A job alone on its own part of the cluster has a finish-time ratio of 1.
func TestFinishTimeRatio(t *testing.T) {
	for name, c := range map[string]struct {
		s    *schedule.Snapshot
		want float64
	}{
		"alone":                       {oneType(0, 4, aJob(0, 0, 4, 100, 0, 0)), 1},
		"alone, half done":            {oneType(50, 4, aJob(0, 0, 4, 100, 50, 200)), 1},
		"waited as long as it takes":  {oneType(100, 4, aJob(0, 0, 4, 100, 0, 0)), 2},
		"an equal part would be half": {oneType(0, 4, aJob(0, 0, 4, 100, 0, 0), aJob(1, 0, 4, 100, 0, 0)), 0.5},
	} {
		if got, _ := finishTimeRatio(c.s, 0); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestAbsentJobsAreRemembered: a job that must not be interrupted for a time is absent from the snapshots of that time, with its
// devices. Policies that let running jobs continue let it continue afterwards, too.
func TestAbsentJobsAreRemembered(t *testing.T) {
	for _, name := range []string{"tiresias", "themis", "allox"} {
		p, err := New(name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		long, short := aJob(0, 0, 1, 1e6, 0, 0), aJob(1, 1, 1, 10, 0, 0)
		held := long
		held.Held = 1
		away := oneType(2, 0, short)
		away.Absent = []schedule.JobState{held}
		for _, c := range []struct {
			why  string
			s    *schedule.Snapshot
			want string
		}{
			{"alone", oneType(0, 1, long), "[0]"},
			{"absent", away, "[]"},
			{"back", oneType(100, 1, held, short), "[0]"},
		} {
			if got := running(t, p, c.s); got != c.want {
				t.Errorf("%s: %s: %s, want %s", name, c.why, got, c.want)
			}
		}
	}
}

package share_test

import (
	"reflect"
	"testing"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
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
				state, err := p.(schedule.Stateful).State()
				if err != nil {
					t.Fatal(err)
				}
				restored := lastDraws(t, name)
				if err := restored.(schedule.Stateful).Restore(state); err != nil {
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
		if err := policy(t, "fifo", false).(schedule.Stateful).Restore([]byte(state)); err == nil {
			t.Errorf("state %q is accepted", state)
		}
	}
}

package history

import (
	"math"
	"os"
	"testing"
)

// prototypes is the folder of the logs of the ancestor's first prototype. They have no licence and are not part of
// the repository.
const prototypes = "../../../../shared/data/slamorl/rl-dqn-logs/"

// TestPrototypeLogs reads logs from an independent source that use other column names.
func TestPrototypeLogs(t *testing.T) {
	if _, err := os.Stat(prototypes); err != nil {
		t.Skip("the prototype's logs are not there: ", err)
	}
	episodes, err := ReadLog(prototypes+"dqn_episodes.csv", LogOptions{Aliases: map[string]string{"gpu_node": "model_name", "episode": "epoch", "last_epoch_time_s": "epoch_time", "accuracy_pct": "test_accuracy"}})
	if err != nil {
		t.Fatal(err)
	}
	check(t, episodes)
	if len(episodes.Entries) != 3 || episodes.Rows != 300 || episodes.Bad != 0 {
		t.Fatalf("%d rows, %d bad, %q", episodes.Rows, episodes.Bad, shown(episodes))
	}
	for i, want := range []struct {
		node string
		took float64 // mean seconds, by hand
	}{{"rtx2080", 1.053}, {"rtx6000", 1.155}, {"rtx8000", 1.169}} {
		e := episodes.Entries[i]
		if e.Job.Model != want.node || e.Units != 100 || math.Abs(e.UnitTime-want.took) > 0.01 {
			t.Errorf("%s, want %s with %g s", show(&e), want.node, want.took)
		}
	}
	steps, err := ReadLog(prototypes+"dqn_steps.csv", LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, steps)
	if len(steps.Entries) != 4 || steps.Rows != 80 {
		t.Fatalf("four episodes of twenty steps are %q", shown(steps))
	}
	for i := range steps.Entries {
		if e := &steps.Entries[i]; e.Rows != 20 || e.UnitTime < 1.1 || e.UnitTime > 1.2 || e.Seconds < 22 || e.Seconds > 24 {
			t.Errorf("%s", show(e))
		}
	}
}

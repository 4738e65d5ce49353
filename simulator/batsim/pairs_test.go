package batsim

import (
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

func pairOf(name string) hdeeprm.Pair {
	p, err := hdeeprm.ParsePair(name)
	if err != nil {
		panic(err)
	}
	return p
}

// runPair runs jobs under one pair of policies.
func runPair(t testing.TB, tree *platform.Tree, jobs []order.Job, pair hdeeprm.Pair, seed int64) *queue.Result {
	t.Helper()
	e, err := hdeeprm.NewEnvironment(tree, jobs, hdeeprm.Limits{}, pair.Settings(seed, false))
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Run(func([]float32) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pairSettings(pair hdeeprm.Pair) *hdeeprm.Settings {
	return &hdeeprm.Settings{Actions: []hdeeprm.Pair{pair}, Void: true, Objective: hdeeprm.Completion, Seed: 7}
}

// TestPairs checks that every pair of policies makes the same decisions with and without the socket.
func TestPairs(t *testing.T) {
	tree, jobs := example(t, "learning"), learningJobs()
	table := append(hdeeprm.Table(), pairOf("shortest-high_free_cores"))
	for _, pair := range table {
		t.Run(pair.String(), func(t *testing.T) {
			want := runPair(t, tree, jobs, pair, 7)
			got, decided := both(t, tree, jobs, ServeOptions{Tree: tree, Pairs: pairSettings(pair)}, SimulateOptions{})
			same(t, got, want, true)
			same(t, decided, want, true)
			if got.Energy != want.Energy || got.Switches != want.Switches || got.GroupedSwitches != want.GroupedSwitches || got.Events != want.Events {
				t.Errorf("%v J, %d switches in %d, %d events; want %v, %d, %d, %d", got.Energy, got.Switches, got.GroupedSwitches, got.Events,
					want.Energy, want.Switches, want.GroupedSwitches, want.Events)
			}
		})
	}
}

// TestPairsMini is TestPairs for the published trace.
func TestPairsMini(t *testing.T) {
	tree, jobs := mini(t)
	table := hdeeprm.Table()
	if testing.Short() {
		table = []hdeeprm.Pair{pairOf("shortest-high_gflops"), pairOf("random-random")}
	}
	for i, pair := range table {
		t.Run(pair.String(), func(t *testing.T) {
			want := runPair(t, tree, jobs, pair, 7)
			got, decided := both(t, tree, jobs, ServeOptions{Tree: tree, Pairs: pairSettings(pair)}, SimulateOptions{ForwardProfiles: i%2 == 1})
			same(t, got, want, true)
			same(t, decided, want, true)
			if got.Energy != want.Energy || got.Switches != want.Switches || got.GroupedSwitches != want.GroupedSwitches {
				t.Errorf("%v J, %d switches in %d, want %v, %d, %d", got.Energy, got.Switches, got.GroupedSwitches, want.Energy, want.Switches, want.GroupedSwitches)
			}
		})
	}
}

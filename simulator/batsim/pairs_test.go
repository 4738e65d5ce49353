package batsim

import (
	"testing"

	"trainopt/simulator/ancestors/hdeeprm"
)

func pairOf(name string) hdeeprm.Pair {
	p, err := hdeeprm.ParsePair(name)
	if err != nil {
		panic(err)
	}
	return p
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
			want, _, err := pair.Run(tree, jobs, 7, false)
			if err != nil {
				t.Fatal(err)
			}
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
			want, _, err := pair.Run(tree, jobs, 7, false)
			if err != nil {
				t.Fatal(err)
			}
			got, decided := both(t, tree, jobs, ServeOptions{Tree: tree, Pairs: pairSettings(pair)}, SimulateOptions{ForwardProfiles: i%2 == 1})
			same(t, got, want, true)
			same(t, decided, want, true)
			if got.Energy != want.Energy || got.Switches != want.Switches || got.GroupedSwitches != want.GroupedSwitches {
				t.Errorf("%v J, %d switches in %d, want %v, %d, %d", got.Energy, got.Switches, got.GroupedSwitches, want.Energy, want.Switches, want.GroupedSwitches)
			}
		})
	}
}

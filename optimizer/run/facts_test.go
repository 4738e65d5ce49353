package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"trainopt/cost"
)

// TestStateFileFormat: the facts read from a recorded state file are written with the same keys and values.
func TestStateFileFormat(t *testing.T) {
	recorded, err := os.ReadFile(filepath.Join("testdata", "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f facts
	if err := json.Unmarshal(recorded, &f); err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(&f)
	if err != nil {
		t.Fatal(err)
	}
	var before, after map[string]any
	if err := json.Unmarshal(recorded, &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &after); err != nil {
		t.Fatal(err)
	}
	for key, value := range before {
		if !reflect.DeepEqual(after[key], value) {
			t.Errorf("%s: %v, was %v", key, after[key], value)
		}
		delete(after, key)
	}
	if len(after) > 0 {
		t.Errorf("new keys %v", after)
	}
	if m, err := cost.RestoreMeter(f.MeterState); err != nil || m.Total(f.Elapsed) <= 0 {
		t.Errorf("meter %v, %v", m, err)
	}
	if f.Handle == nil || f.Pending == nil || f.Pending.Next == nil || f.Progress.launches() != 2 || f.Origin.Position != 12 || f.LogState == nil || len(f.OutputState) != 2 {
		t.Errorf("facts %+v", f)
	}
}

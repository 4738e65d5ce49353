package launch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"trainopt/resources"
)

// TestStartRemovesGroups checks that a start removes the cgroups of an earlier one whose agent died before its supervisor.
func TestStartRemovesGroups(t *testing.T) {
	t.Parallel()
	c := testCommand(t)
	c.Args = []string{"true"}
	e, err := resources.NewEnforcer(resources.EnforceOptions{RunID: uniqueName("lost"), Allocation: c.Allocation})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Remove() })
	var state struct{ Made []string }
	if err := json.Unmarshal(e.State(), &state); err != nil {
		t.Fatal(err)
	}
	if len(state.Made) == 0 {
		t.Skip("this process may create no cgroups")
	}
	write(t, filepath.Join(c.RunDir, enforceFile), string(e.State()), 0o600)
	waitEnd(t, start(t, testLocal(), c))
	for _, dir := range state.Made {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

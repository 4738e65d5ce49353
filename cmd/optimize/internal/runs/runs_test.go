package runs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/cluster"
)

// TestRunOfCluster: the run of a job of the cluster is not resumed beside its server, until the job has ended.
func TestRunOfCluster(t *testing.T) {
	state := t.TempDir()
	id, err := cluster.Submit(state, cluster.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		state cluster.State
		run   string
		want  bool
	}{{cluster.Waiting, "r", true}, {cluster.Running, "r", true}, {cluster.Cancelled, "r", false}, {cluster.Waiting, "another", false}} {
		data, err := json.Marshal(cluster.Job{Schema: 1, ID: id, State: c.state, Run: c.run})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, "cluster", "jobs", "1", "job.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ofCluster(filepath.Join(state, "runs", "r")); (err != nil) != c.want || err != nil && !strings.Contains(err.Error(), "cluster cancel 1") {
			t.Errorf("%s job of run %s: %v", c.state, c.run, err)
		}
	}
}

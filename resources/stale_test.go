package resources

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestRemoveStale(t *testing.T) {
	e, k := modelEnforcer(t, "v2-root", Allocation{CPUs: 1}, Limits{})
	parent := filepath.Dir(e.s.Group.Dir)
	old := time.Now().Add(-time.Hour)
	group := func(name, pids string, made time.Time) string {
		dir := filepath.Join(parent, name)
		if err := k.mkdir(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pids), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, made, made); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	elsewhere, k2 := modelEnforcer(t, "hybrid", Allocation{CPUs: 1}, Limits{})
	quota := filepath.Join(k2.root, "cpu", "optimize-dead") // in a hierarchy in which this job has no cgroup
	if err := k2.mkdir(quota); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(quota, old, old); err != nil {
		t.Fatal(err)
	}
	if n := elsewhere.RemoveStale(); n != 1 {
		t.Errorf("removed %d cgroups of other hierarchies, want 1", n)
	}
	gone := group("optimize-dead", "", old)
	kept := []string{e.s.Group.Dir, group("optimize-busy", "7\n", old), group("optimize-starting", "", time.Now()), group("others", "", old)}
	if n := e.RemoveStale(); n != 1 {
		t.Errorf("removed %d cgroups, want 1", n)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("the empty cgroup of a dead agent is still there")
	}
	for _, dir := range kept {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

package simulate

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/plan/pretrained"
)

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string][]uint64{"0:2": {0, 1, 2}, "7": {7}, "5:5": {5}, "3, 1": {3, 1}, "18446744073709551614:18446744073709551615": {1<<64 - 2, 1<<64 - 1}} {
		if got, err := parseSeeds(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "1:", "-1", "1.5", "2:1", "0:10000", "1,,2"} {
		if got, err := parseSeeds(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

// TestAgentPlanners checks that each agent of --agent is a separate planner.
func TestAgentPlanners(t *testing.T) {
	data, err := io.ReadAll(pretrained.File())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.bin"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	agents, err := loadAgents(&cli.Env{Dir: dir}, []string{"mine=a.bin", "theirs=a.bin"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := agents.planner("theirs"); err != nil || p != (plan.MORL{Agent: agents[1].agent}) || agents[1].agent == nil || agents[1].agent == agents[0].agent {
		t.Errorf("theirs is %+v, %v", p, err)
	}
}

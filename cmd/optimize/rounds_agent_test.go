package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

func TestAgentOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("trains an agent")
	}
	w := newWorld(t)
	if code, _, errs := w.run("pretrain", "--env", "cluster", "--algorithm", "envelope", "--steps", "100", "--hidden", "8", "--output", "c.agent"); code != run.CodeDone {
		t.Fatal(code, errs)
	}
	code, out, errs := w.run("simulate", "rounds", "--policy", "agent:time+cost", "--agent", "c.agent", "--static", "20", "--cluster", "v100=2,k80=4", "--json")
	var r struct {
		Policy string           `json:"policy"`
		Jobs   []map[string]any `json:"jobs"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != run.CodeDone || r.Policy != "agent:time+cost" || len(r.Jobs) != 20 {
		t.Errorf("%d %s%s %v", code, out, errs, err)
	}

	line := "compare rounds --drawn unseen --seeds 0:1 --policies sia,mix:sia=2+cheapest,agent:cost=3+time --agent c.agent"
	code, out, errs = w.run(append(strings.Fields(line), "--output", "c.html")...)
	page, err := os.ReadFile(filepath.Join(w.dir, "c.html"))
	if code != run.CodeDone || err != nil {
		t.Fatal(code, out, errs, err)
	}
	for _, want := range []string{"relative time by relative cost", "unfairness", "loss cost=3+time", "mix:sia=2+cheapest", "Pareto front"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in the page", want)
		}
	}

	for args, want := range map[string]string{
		"simulate rounds --policy agent:time":                                 "requires --agent FILE",
		"simulate rounds --policy agent:speed --agent c.agent":                `weights "speed": want some of time, cost, fairness`,
		"simulate rounds --policy mix:fifo":                                   "want some of sia",
		"simulate rounds --policy agent:time --agent absent":                  "absent",
		"simulate rounds --policy agent:time --agent c.html":                  "no agent file",
		"simulate rounds --policy agent:time --agent c.agent --compat":        "--agent cannot be combined with --compat",
		"compare rounds --drawn mine":                                         `--drawn "mine"`,
		"compare rounds --drawn unseen --arrival-rates 1,2":                   "--arrival-rates cannot be combined with --drawn",
		"compare rounds --drawn unseen --fairness=false":                      "--fairness",
		"compare rounds --policies fifo,agent:time --static 5 --agent c.html": "no agent file",
	} {
		if code, out, errs := w.run(strings.Fields(args)...); code != run.CodeUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s%s, want %q", args, code, out, errs, want)
		}
	}
}

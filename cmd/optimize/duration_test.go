package main

import (
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// TestDaysAreUnderstood checks that every duration flag accepts days and reports an invalid duration exactly once.
func TestDaysAreUnderstood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.epochLog("one.csv", 1, 12, 40)
	for _, text := range []string{"5d", "5 d 00 h"} {
		code, out, errs := w.run("predict", "--like", "one.csv", "--gpu", "T4", "--gpus", "1", "--deadline", text)
		if code != run.CodeDone || !strings.Contains(strings.ReplaceAll(out, "\u00a0", " "), "deadline 5 d 00 h") {
			t.Errorf("%s: exit %d, %s%s", text, code, out, errs)
		}
	}
	for _, args := range [][]string{
		{"predict", "--like", "one.csv", "--deadline", "5w"}, {"predict", "--like", "one.csv", "--budget", "much"}, {"analyze", "one.csv", "--deadline", "5w"},
		{"runs", "stop", "x", "--grace", "5w"},
	} {
		code, _, errs := w.run(args...)
		if code != run.CodeUsage || strings.Count(errs, "want ") != 1 || strings.Contains(errs, ";") {
			t.Errorf("%q: exit %d, %s; want one refusal", args, code, errs)
		}
	}
	if code, _, errs := w.run("runs", "stop", "x", "--grace", "1d"); code == run.CodeDone || strings.Contains(errs, "grace") {
		t.Errorf("exit %d, %s: want the day to be understood", code, errs)
	}
}

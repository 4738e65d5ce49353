package main

import (
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// TestInit checks that the file is written once, has no effect as written, and is named when it is read.
func TestInit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if code, out, errs := w.run("init"); code != run.CodeDone || !strings.Contains(out, "optimize.yaml") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := w.run("init"); code != run.CodeUsage || !strings.Contains(errs, "exists") {
		t.Errorf("again: exit %d: %s", code, errs)
	}
	w.write("ok.py", "print('hello')\n")
	code, _, errs := w.run("--train", "ok.py", "--dry-run")
	if code != run.CodeDone || strings.Count(errs, "configuration: optimize.yaml") != 1 {
		t.Errorf("exit %d: %s", code, errs)
	}
	w.write("optimize.yaml", "sla:\n  cost_maxx: 1\n")
	if code, _, errs := w.run("--train", "ok.py", "--dry-run"); code != run.CodeUsage || !strings.Contains(errs, "optimize.yaml") || !strings.Contains(errs, "sla.cost_max") {
		t.Errorf("a broken file: exit %d: %s", code, errs)
	}
	if code, _, errs := w.run("--train", "ok.py", "--dry-run", "--config", "none"); code != run.CodeDone || strings.Contains(errs, "configuration:") {
		t.Errorf("--config none: exit %d: %s", code, errs)
	}
}

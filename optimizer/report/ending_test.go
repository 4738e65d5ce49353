package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// TestOutputOfAFailedRun checks that the last lines are shown without escape sequences, with the location of the full
// output.
func TestOutputOfAFailedRun(t *testing.T) {
	text := render(t, load(t, "failed"), "text")
	for _, want := range []string{"Last 20 lines of stderr", "optimize logs 20260315-110000-train-c0ffee", "job.stderr", "  Traceback (most recent call last):", `    File "train.py", line 12`,
		"      grow()", "  MemoryError", "step 30 of 30"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "step 14 of 30") || !strings.Contains(text, "step 15 of 30") {
		t.Error("more or fewer than 20 lines are shown")
	}
	if page := render(t, load(t, "failed"), "html"); !strings.Contains(page, "MemoryError") || strings.Contains(page, "[31m") {
		t.Error("the page does not show the last line of stderr as plain text")
	}
	if strings.Contains(render(t, load(t, "finished"), "text"), "LAST OUTPUT") {
		t.Error("the output of a finished training is shown")
	}
}

// TestTailIsBounded checks that special files are not read, that long lines and files are cut, and that stdout is used
// if stderr is empty.
func TestTailIsBounded(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("job.stdout", strings.Repeat("x", 1<<20)+"\nlast\n")
	if out := readTail(dir); out.stream != "stdout" || len(out.lines) != 2 || out.lines[1] != "last" || len([]rune(out.lines[0])) != tailWidth || !out.cut {
		t.Errorf("%d lines of %s, cut %t", len(out.lines), out.stream, out.cut)
	}
	write("job.stderr", "  \n\r\n")
	if out := readTail(dir); out.stream != "stdout" {
		t.Errorf("blank stderr: %+v", out)
	}
	if err := os.Remove(filepath.Join(dir, "job.stdout")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "job.stdout")); err != nil {
		t.Fatal(err)
	}
	if out := readTail(dir); len(out.lines) != 0 {
		t.Errorf("a device was read: %d lines", len(out.lines))
	}
}

// TestResumeLine checks the exact command, or the reason why a run cannot be resumed.
func TestResumeLine(t *testing.T) {
	limits := journal.SLA{Spec: sla.Spec{TimeMax: 10 * time.Minute, CostMaxUSD: .05}}
	predicted := func(seconds, usd float64) *journal.Plan {
		around := func(v float64) sla.Interval { return sla.Interval{P5: .8 * v, P50: .9 * v, P95: v} }
		return &journal.Plan{Prediction: &journal.Prediction{Seconds: around(seconds), CostUSD: around(usd)}}
	}
	for name, c := range map[string]struct {
		reason    string
		plan      *journal.Plan
		resumable bool
		want      string
	}{
		"by the user":                   {"user", nil, true, "optimize runs resume ID"},
		"deadline, work to repeat":      {"deadline", predicted(3000, 1), true, "optimize runs resume ID --deadline 61m"},
		"budget, work to repeat":        {"budget", predicted(300, .06), true, "optimize runs resume ID --budget 0.14"},
		"deadline, need predicted":      {"deadline", predicted(3000, 1), true, "optimize runs resume ID --deadline 55m"},
		"deadline, need unknown":        {"deadline", nil, true, "optimize runs resume ID --deadline DURATION"},
		"deadline, prediction exceeded": {"deadline", predicted(300, 1), true, "optimize runs resume ID --deadline DURATION"},
		"budget, need predicted":        {"budget", predicted(300, .06), true, "optimize runs resume ID --budget 0.066"},
		"budget, need unknown":          {"budget", nil, true, "optimize runs resume ID --budget USD"},
		"budget, prediction exceeded":   {"budget", predicted(300, .01), true, "optimize runs resume ID --budget USD"},
		"not resumable":                 {"user", nil, false, ""},
	} {
		r := &journal.Record{State: journal.Stopped, Exit: &journal.Exit{Reason: c.reason}, Script: journal.Script{Resumable: &c.resumable}, SLA: limits, Plan: c.plan}
		if strings.Contains(name, "work to repeat") {
			r.Overheads.StartupSeconds, r.Checkpoint = []journal.Number{100, 60}, &journal.Checkpoint{RiskSeconds: 200}
		}
		line, why := resumeLine(r, "ID")
		if line != c.want || (line == "") != (why != "") {
			t.Errorf("%s: %q, %q; want %q", name, line, why, c.want)
		}
	}
}

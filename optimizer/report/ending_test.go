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
	resumable, not := pointer(true), pointer(false)
	for want, r := range map[string]*journal.Record{
		"optimize runs resume ID":                {State: journal.Stopped, Exit: &journal.Exit{Reason: "user"}, Script: journal.Script{Resumable: resumable}},
		"optimize runs resume ID --deadline 20m": {State: journal.Stopped, Exit: &journal.Exit{Reason: "deadline"}, Script: journal.Script{Resumable: resumable}, SLA: journal.SLA{Spec: sla.Spec{TimeMax: 10 * time.Minute}}},
		"optimize runs resume ID --deadline 55m": {State: journal.Stopped, Exit: &journal.Exit{Reason: "deadline"}, Script: journal.Script{Resumable: resumable}, SLA: journal.SLA{Spec: sla.Spec{TimeMax: 10 * time.Minute}},
			Plan: &journal.Plan{Prediction: &journal.Prediction{Seconds: sla.Interval{P5: 2000, P50: 2500, P95: 3000}}}},
		"optimize runs resume ID --budget 0.1": {State: journal.Stopped, Exit: &journal.Exit{Reason: "budget"}, Script: journal.Script{Resumable: resumable}, SLA: journal.SLA{Spec: sla.Spec{CostMaxUSD: .05}}},
		"":                                     {State: journal.Stopped, Exit: &journal.Exit{Reason: "user"}, Script: journal.Script{Resumable: not}},
	} {
		line, why := ResumeLine(r, "ID")
		if line != want || (line == "") != (why != "") {
			t.Errorf("%q, %q; want %q", line, why, want)
		}
	}
}

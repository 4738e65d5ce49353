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

// TestInputAdvice checks that a training that failed at the end of its input, or asked for a terminal, is reported with the
// remedy, and no other.
func TestInputAdvice(t *testing.T) {
	const input, terminal = "; a terminal is not passed on", "; the training asks for a terminal: --pty"
	for _, c := range []struct{ first, last, advice string }{
		{"", "EOFError: EOF when reading a line", input}, {"", "bdb.BdbQuit", input}, {"", "EOFError: Ran out of input", ""},
		{"stty: 'standard input': Inappropriate ioctl for device", "ValueError: not enough values to unpack (expected 2, got 0)", terminal},
		{"", "OSError: [Errno 25] Inappropriate ioctl for device", terminal}, {"", "ValueError: not enough values to unpack (expected 2, got 0)", ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "job.stderr"), []byte(c.first+"\nTraceback (most recent call last):\n"+c.last+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		a := finishedAnswer(&data{Dir: dir, Record: &journal.Record{State: journal.Failed}})
		if _, got, _ := strings.Cut(a.Text, "last output: "+c.last); !strings.HasPrefix(got, c.advice) || c.advice == "" && got != "" {
			t.Errorf("%s: %s", c.last, a.Text)
		}
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
	write("job.stderr", "RuntimeError: "+strings.Repeat("x", 200)+"\n")
	if last := lastLine(&data{Dir: dir}); len([]rune(last)) != 120 || !strings.HasSuffix(last, "x…") {
		t.Errorf("last line %q", last)
	}
	write("job.stderr", "  \n\r\n")
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

// TestBeforeLauncher: the last line of a training is its own error rather than the end of its launcher's report.
func TestBeforeLauncher(t *testing.T) {
	const own = "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"t.py\", line 4, in <module>\n[rank0]: ValueError: boom\n"
	const called = "Traceback (most recent call last):\n  File \"bin/accelerate\", line 8, in <module>\n    sys.exit(main())\nsubprocess.CalledProcessError: Command '['python3', 't.py']' returned non-zero exit status 1.\n"
	for name, c := range map[string]struct {
		text, last string
		launched   bool
	}{
		"torchrun": {own + "E1126 18:41:48.424000 30852 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 30861) of binary: python3\n" +
			"Traceback (most recent call last):\n  File \"bin/torchrun\", line 8, in <module>\n    raise ChildFailedError(\n" +
			"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + strings.Repeat("=", 60) + "\nt.py FAILED\n" + strings.Repeat("=", 60) + "\n", "[rank0]: ValueError: boom", true},
		"accelerate":     {own + called, "[rank0]: ValueError: boom", true},
		"no launcher":    {own, "[rank0]: ValueError: boom", false},
		"the script's":   {"downloading\n" + called, "subprocess.CalledProcessError: Command '['python3', 't.py']' returned non-zero exit status 1.", false},
		"only a message": {"subprocess.CalledProcessError: none\n", "subprocess.CalledProcessError: none", false},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "job.stderr"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := readTail(dir)
		if n := len(out.lines); n == 0 || out.lines[n-1] != c.last || out.launched != c.launched {
			t.Errorf("%s: %q, launched %v; want the last line %q and %v", name, out.lines, out.launched, c.last, c.launched)
		}
	}
}

// TestUnitsOf: one epoch is singular.
func TestUnitsOf(t *testing.T) {
	for n, want := range map[journal.Number]string{1: "1 epoch", 2: "2 epochs", 0.417: "0.417 epochs", journal.Unknown(): ""} {
		if got := unitsOf(&journal.Record{Training: journal.Training{Unit: "epoch"}}, n); got != want {
			t.Errorf("%g: %q, want %q", float64(n), got, want)
		}
	}
}

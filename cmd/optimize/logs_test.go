package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
)

func TestLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.state(), "runs", w.past("net", 1))
	for name, text := range map[string]string{"job.stdout.1": "1\n2\n", "job.stdout": "3\n4\n5\n", "job.stderr": "warn\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"logs":                          "warn\n1\n2\n3\n4\n5\n",
		"logs --stdout":                 "1\n2\n3\n4\n5\n",
		"logs --stderr":                 "warn\n",
		"logs --stdout -n 2":            "4\n5\n",
		"logs --stdout -n 3":            "3\n4\n5\n",
		"logs --stdout -n 4":            "2\n3\n4\n5\n",
		"logs --stdout -n 9":            "1\n2\n3\n4\n5\n",
		"logs --stdout -n 0":            "",
		"logs --stdout -f latest":       "1\n2\n3\n4\n5\n", // the run has ended
		"logs " + filepath.Base(dir):    "warn\n1\n2\n3\n4\n5\n",
		"logs --stdout --stderr -n 1":   "warn\n5\n",
		"logs --follow --stderr latest": "warn\n",
	} {
		if code, out, errs := w.run(strings.Fields(line)...); code != run.CodeDone || out != want {
			t.Errorf("%s: exit %d, %q, want %q\n%s", line, code, out, want, errs)
		}
	}
	for _, args := range [][]string{{"logs", ""}, {"logs", "nothing"}, {"logs", "-n", "-5"}} {
		if code, _, errs := w.run(args...); code != run.CodeUsage {
			t.Errorf("%q: exit %d, want %d\n%s", args, code, run.CodeUsage, errs)
		}
	}
}

// TestUnwrittenLog checks that a named training log that the training has not written is reported.
func TestUnwrittenLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("t.py", "print('Epoch 1/1')\n")
	code, rec, errs := w.record("--train", "t.py", "--log", "typo.csv")
	want := "typo.csv: no such file: the training has not written it"
	if code != run.CodeDone || !strings.Contains(errs, want) || !strings.Contains(strings.Join(rec.Warnings, " "), want) {
		t.Errorf("exit %d, warnings %q\n%s", code, rec.Warnings, errs)
	}
}

// TestLogsFollow checks that following ends with the run, with its last line, although the log was rotated meanwhile.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("talk.sh", "#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10; do echo line $i; sleep 0.1; done\necho last\n")
	agent := w.agent("--train", "talk.sh", "--quiet")
	dir := w.latest("running", func(dir string, rec *journal.Record) bool {
		_, err := os.Stat(filepath.Join(dir, "job.stdout"))
		return err == nil
	})
	code, out, errs := w.run("logs", "-f", "--stdout", filepath.Base(dir))
	if code != run.CodeDone || !strings.HasPrefix(out, "line 1\n") || !strings.HasSuffix(out, "line 10\nlast\n") {
		t.Errorf("exit %d, %q\n%s", code, out, errs)
	}
	agent.Wait()
}

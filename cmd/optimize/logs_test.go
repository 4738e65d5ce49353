package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
)

func TestLogs(t *testing.T) {
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

// TestLogsFollow checks that following ends with the run, with its last line, although the log was rotated meanwhile.
func TestLogsFollow(t *testing.T) {
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

func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\r\n":                         "plain\ttext\r\n",
		"\x1b[1;31mred\x1b[0m":                    "\x1b[1;31mred\x1b[0m",
		"\x1b[2J\x1b[Hgone":                       "gone",
		"\x1b]0;title\x07after":                   "after",
		"\x1b]52;c;aGk=\x1b\\after":               "after",
		"\x1bPquery\x1b\\after":                   "after",
		"\x1bcreset":                              "reset",
		"\x1b(0lines":                             "lines",
		"bell\x07 back\x08 del\x7f":               "bell back del",
		"\u009b31m caf\u00e9 \u00a0":              "31m café \u00a0",
		"\x1b]never ended\nnext line":             "\nnext line",
		"\x1b[" + strings.Repeat("1;", 99) + "mx": "x",
	} {
		for _, size := range []int{1, 3, len(text)} { // for any division of the input into writes
			var b bytes.Buffer
			h := &harmless{to: &b}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				fmt.Fprintf(h, "%s", rest[:min(size, len(rest))])
			}
			if b.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", text, size, b.String(), want)
			}
		}
	}
}

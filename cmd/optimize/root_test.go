package main

import (
	"slices"
	"strings"
	"testing"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/run"
)

func TestRewriteArgs(t *testing.T) {
	for in, want := range map[string]string{
		"--train a.py":                  "train --train a.py",
		"--budget 5 --train a.py":       "train --budget 5 --train a.py",
		"--training_file a.py":          "train --training_file a.py",
		"-- python3 a.py":               "train -- python3 a.py",
		"--json --train=a.py":           "train --json --train=a.py",
		"train a.py":                    "train a.py",
		"--state-dir x runs list":       "--state-dir x runs list",
		"--state-dir runs --train a.py": "train --state-dir runs --train a.py",
		"report":                        "report",
		"--help":                        "--help",
		"--train a.py --resumable no":   "train --train a.py --resumable=no",
		"--train a.py --resumable":      "train --train a.py --resumable",
		"--train a.py --offline_logs a.csv b.csv -- x": "train --train a.py --offline_logs a.csv --offline_logs b.csv -- x",
		"train --offline-logs a.csv b.py":              "train --offline-logs a.csv b.py",
		"--train a.py -- --resumable yes":              "train --train a.py -- --resumable yes",
	} {
		if got := rewriteArgs(newRoot(&cli.Env{}), strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestUnknownCommands checks that the error is one line that names the nearest command or how to list the commands.
func TestUnknownCommands(t *testing.T) {
	for args, want := range map[string]string{
		"predct":       "unknown command \"predct\": nearest known is `optimize predict`",
		"runs lst":     "unknown command \"lst\" of `optimize runs`: nearest known is `optimize runs list`",
		"prices imprt": "nearest known is `optimize prices import`",
		"xylophone":    "unknown command \"xylophone\": `optimize --help` lists them",
		"runs nothing": "`optimize runs --help` lists them",
	} {
		w := newWorld(t)
		code, out, errs := w.run(strings.Fields(args)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q: want 2 and %q", args, code, out, errs, want)
		}
	}
}

// TestSeveralScripts checks that scripts run in sequence with one summary, and that the exit code is the first nonzero
// one.
func TestSeveralScripts(t *testing.T) {
	needPython(t)
	w := newWorld(t)
	w.write("good.py", "print('Epoch 1/1')\n")
	w.write("bad.py", "raise SystemExit(9)\n")
	code, out, errs := w.run("--train", "good.py", "--train", "bad.py", "--train", "good.py", "--cpus", "1", "--quiet")
	if code != run.CodeTraining {
		t.Errorf("exit %d, want 5\n%s", code, errs)
	}
	if strings.Count(out, "good") < 2 || !strings.Contains(out, "bad") {
		t.Errorf("the summary does not name all three:\n%s", out)
	}
}

package main

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// TestCompletedFlagsDescribed: shells show the descriptions of flags as they are.
func TestCompletedFlagsDescribed(t *testing.T) {
	for flag, want := range map[string]string{"--deadl": "--deadline\tfinish within DUR", "--state": "--state-dir\tDIR that contains the runs"} {
		var out strings.Builder
		e := &cli.Env{Args: []string{"__complete", "train", flag}, Stdout: &out, Stderr: &strings.Builder{}}
		if code := execute(e); code != 0 || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %d, %q, want %q", flag, code, out.String(), want)
		}
	}
}

func TestRewriteArgs(t *testing.T) {
	t.Parallel()
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
		"--deadline 9s --yes train -- a b":             "train --deadline 9s --yes -- a b",
		"--state-dir train train a.py":                 "train --state-dir train a.py",
		"--budget=1 --train train":                     "train --budget=1 --train train",
		"--yes report train":                           "--yes report train",
		"--color always runs":                          "--color always runs",
	} {
		if got := cli.RewriteArgs(newRoot(&cli.Env{}), strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestUnknownCommands checks that the error is one line that names the nearest command or how to list the commands.
func TestUnknownCommands(t *testing.T) {
	t.Parallel()
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

// TestEngineNamesAreCompleted checks that every --engine completes all engines, which its help text must list.
func TestEngineNamesAreCompleted(t *testing.T) {
	t.Parallel()
	w, found := newWorld(t), 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if f := cmd.Flags().Lookup("engine"); f != nil && !f.Hidden {
			found++
			path := strings.Fields(cmd.CommandPath())[1:]
			_, out, _ := w.run(slices.Concat([]string{cobra.ShellCompNoDescRequestCmd}, path, []string{"--engine", ""})...)
			if want := strings.Join(cli.EngineNames(), "\n") + "\n:"; !strings.HasPrefix(out, want) {
				t.Errorf("%s --engine completes %q, want %q", cmd.CommandPath(), out, want)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&cli.Env{}))
	if found < 5 {
		t.Errorf("%d commands with --engine found: the test looks in the wrong place", found)
	}
}

// TestSeveralScripts checks that scripts run in sequence with one summary, and that the exit code is the first nonzero
// one.
func TestSeveralScripts(t *testing.T) {
	t.Parallel()
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

// TestFlagsHaveOneMeaning checks that a name of a flag stands for values of one kind in all commands.
func TestFlagsHaveOneMeaning(t *testing.T) {
	t.Parallel()
	kind := func(f *pflag.Flag) string {
		name := cli.Metavariable(f)
		switch {
		case f.Value.Type() == "bool":
			return "bool"
		case f.Value.Type() == "duration" || name == "DUR" || name == "DURATION":
			return "duration"
		case strings.HasPrefix(name, "FILE") || strings.HasPrefix(name, "DIR") || strings.HasSuffix(name, "=FILE"):
			return "file"
		}
		return "text or number"
	}
	kinds := map[string]map[string]string{}
	walk(newRoot(&cli.Env{}), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if kinds[f.Name] == nil {
				kinds[f.Name] = map[string]string{}
			}
			kinds[f.Name][kind(f)] = c.CommandPath()
		})
	})
	for name, of := range kinds {
		if len(of) > 1 {
			t.Errorf("--%s has several meanings: %v", name, of)
		}
	}
}

// TestFormerFlags checks that former names of flags are accepted, and that the help shows the current ones only.
func TestFormerFlags(t *testing.T) {
	t.Parallel()
	for line, name := range map[string]string{
		"simulate rounds --policies": "list-policies", "simulate rounds --rate=1": "arrival-rate", "simulate rounds --jobs=x": "jobs-out",
		"simulate queue --jobs=x": "jobs-out", "simulate queue --jobs_count=3": "job-count", "simulate queue --agent=ppo": "algorithm",
		"simulate queue --nb-jobs=3": "job-count", "compare queue --starts=1": "window-starts", "simulate placement --methods": "list-methods",
		"simulate placement --model=x": "agent", "simulate decision --devices=8": "device-count", "compare training --jobs=8": "job-count",
		"compare rounds --rates=1": "arrival-rates", "simulate rounds --interval=1": "round", "compare spot --traces=x": "trace",
		"pretrain --agent=x": "algorithm", "pretrain --rate=1": "learning-rate", "pretrain --batch=1": "minibatch", "predict --batch=8": "batch-size",
		"predict --train=x.py": "script", "pareto --model": "from-model", "runs import --format=csv": "log-format", "runs import --gpu-model=T4": "gpu",
		"serve --host=x": "hostname", "profile place --budget=1m": "timeout", "compare spot --out=x": "output", "train --gb-hour=1": "gib-hour",
	} {
		root := newRoot(&cli.Env{})
		cmd, args, err := root.Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(args); err != nil || !cmd.Flags().Changed(name) {
			t.Errorf("%s: %v; --%s is not set", line, err, name)
		}
		former, _, _ := strings.Cut(strings.TrimPrefix(args[0], "--"), "=")
		if text := cmd.UsageString(); !strings.Contains(text, "--"+name) || regexp.MustCompile(` --`+former+`\b[^-]`).MatchString(text) {
			t.Errorf("the help of %s shows the former name, or not --%s", cmd.CommandPath(), name)
		}
	}
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

// TestFindingsFit checks that the findings of doctor are wrapped to the terminal in their column.
func TestFindingsFit(t *testing.T) {
	checks := []resources.Finding{{Status: "warn", Name: "clock", Found: "not synchronised", Cost: "start and finish times in reports may be off; deadlines are kept", Do: "run a time service"}}
	for columns, want := range map[int]string{
		60:          "warn     clock              not synchronised\n                            costs: start and finish times in\n                            reports may be off; deadlines\n                            are kept\n                            do: run a time service\n",
		math.MaxInt: "warn     clock              not synchronised\n                            costs: start and finish times in reports may be off; deadlines are kept\n                            do: run a time service\n",
	} {
		if got := findingsText(checks, columns); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", columns, got, want)
		}
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/run"
)

// sizingJSON is the part of `optimize analyze --sacct FILE --json` that the tests read.
type sizingJSON struct {
	Schema int
	Groups []struct {
		User, Name     string
		CostUSD        float64 `json:"cost_usd"`
		Recommendation struct {
			Lines []struct{ Option string }
		}
	}
	Notes []string
}

// accounting returns the example accounting.
func accounting(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../examples/sacct.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (w *world) sizing(args ...string) sizingJSON {
	w.t.Helper()
	code, out, errs := w.run(append([]string{"analyze", "--json"}, args...)...)
	var a sizingJSON
	if err := json.Unmarshal([]byte(out), &a); err != nil || code != run.CodeDone || a.Schema != 1 {
		w.t.Fatalf("exit %d, %v\nstdout: %s\nstderr: %s", code, err, out, errs)
	}
	return a
}

func TestAnalyzeAccounting(t *testing.T) {
	w := newWorld(t)
	w.write("sacct.txt", accounting(t)+"9999|half a line\n")
	a := w.sizing("--sacct", "sacct.txt")
	if len(a.Groups) != 3 || a.Groups[0].Name != "finetune-llm" || len(a.Groups[1].Recommendation.Lines) != 3 {
		t.Errorf("%+v", a)
	}
	if notes := strings.Join(a.Notes, "\n"); !strings.Contains(notes, "1 line of the accounting could not be read") || !strings.Contains(notes, "line 64") {
		t.Errorf("notes: %s", notes)
	}
	one := w.sizing("--sacct", "sacct.txt", "--user", "grace", "--gpu-hour", "1")
	if len(one.Groups) != 1 || one.Groups[0].CostUSD < 169 || one.Groups[0].CostUSD > 170 {
		t.Errorf("%+v", one)
	}
	for _, format := range []string{"text", "markdown", "html", "csv"} {
		if code, out, errs := w.run("analyze", "--sacct", "sacct.txt", "--format", format); code != run.CodeDone || !strings.Contains(out, "train-resnet") {
			t.Errorf("%s: exit %d: %.200s %s", format, code, out, errs)
		}
	}
}

// TestSacctCommandIsDocumented: the documented command and that of the help text request the columns that are read.
func TestSacctCommandIsDocumented(t *testing.T) {
	t.Parallel()
	_, help, _ := newWorld(t).run("analyze", "--help")
	for name, text := range map[string]string{"docs/slurm.md": document(t, "docs/slurm.md"), "analyze --help": help} {
		if want := "--format=" + slurm.AccountingFields; !strings.Contains(strings.ReplaceAll(text, "\\\n", ""), want) {
			t.Errorf("%s does not contain %s", name, want)
		}
	}
}

// TestAnalyzeSacct calls a sacct that answers only if it is asked as documented.
func TestAnalyzeSacct(t *testing.T) {
	w := newWorld(t)
	w.write("accounting", accounting(t))
	script := "#!/bin/sh\n" + `case "$TZ $SLURM_TIME_FORMAT $SACCT_FORMAT $*" in
"UTC standard  --duplicates --parsable2 --starttime=now-7days --format=JobID,"*JobName) cat accounting ;;
"UTC standard  --duplicates --parsable2 --starttime=2026-10-01 --format=JobID,"*"JobName --user=ada") cat accounting ;;
*) echo "sacct: fatal: asked for $*" >&2; exit 1 ;;
esac
`
	bin := filepath.Dir(w.write("sacct", strings.Replace(script, "cat accounting", "cat "+filepath.Join(w.dir, "accounting"), -1)))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	w.environ = append(w.environ, "SACCT_FORMAT=JobID", "TZ=Asia/Tokyo", "SLURM_TIME_FORMAT=%s")
	if a := w.sizing("--sacct", "live"); len(a.Groups) != 3 {
		t.Errorf("%+v", a)
	}
	if a := w.sizing("--sacct", "live", "--since", "2026-10-01", "--user", "ada"); len(a.Groups) != 2 {
		t.Errorf("%+v", a)
	}
	for want, args := range map[string][]string{
		"sacct: fatal: asked for": {"--sacct", "live", "--user", "grace"},
		"want the name of a user": {"--sacct", "live", "--user", "a b"},
		"want a time that sacct":  {"--sacct", "live", "--since", "-1 day"},
	} {
		if code, _, errs := w.run(append([]string{"analyze"}, args...)...); code != run.CodeUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}
}

func TestAnalyzeAccountingRefuses(t *testing.T) {
	w := newWorld(t)
	w.write("sacct.txt", accounting(t))
	w.write("log.csv", "epoch,epoch_time\n1,2\n")
	for want, args := range map[string][]string{
		"--deadline cannot be combined with --sacct": {"--sacct", "sacct.txt", "--deadline", "2h"},
		"--since requires --sacct live":              {"--sacct", "sacct.txt", "--since", "2026-10-01"},
		"--user requires --sacct":                    {"--user", "ada"},
		"cannot be combined with log.csv":            {"--sacct", "sacct.txt", "log.csv"},
		"no such file":                               {"--sacct", "absent.txt"},
		"line 1 is no header":                        {"--sacct", "log.csv"},
		"no jobs of user eve":                        {"--sacct", "sacct.txt", "--user", "eve"},
		"cannot be combined with --rates":            {"--sacct", "sacct.txt", "--gpu-hour", "1", "--instance", "aws:p3.2xlarge"},
	} {
		code, out, errs := w.run(append([]string{"analyze"}, args...)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit %d: %s%s; want %q", args, code, out, errs, want)
		}
	}
}

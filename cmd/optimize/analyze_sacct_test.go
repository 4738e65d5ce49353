package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
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

// TestOddAccounting: jobs count by their state where times are missing, components of heterogeneous jobs are sized on their
// own, and what cannot be read is named.
func TestOddAccounting(t *testing.T) {
	const header = "JobID|User|State|Start|End|ElapsedRaw|TimelimitRaw|NodeList|AllocCPUS|MaxRSS|JobName\n"
	line := func(id, state, start, seconds, node string) string {
		return id + "|ada|" + state + "|" + start + "|Unknown|" + seconds + "|60|" + node + "|4||train\n"
	}
	zipped := func(text string) string {
		var b strings.Builder
		z := gzip.NewWriter(&b)
		z.Write([]byte(text))
		z.Close()
		return b.String()
	}
	var tasks strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&tasks, "7_%d|ada|COMPLETED|2026-10-01T10:00:00|2026-10-01T10:01:00|60|60|n1|4||train\n", i)
	}
	for name, c := range map[string]struct{ text, want, refused string }{
		"empty":          {refused: "the text is empty"},
		"header only":    {text: header, refused: "no jobs"},
		"cut in a line":  {text: header + "12|ada|COMP", refused: "none of 1 line could be read, first: line 2"},
		"cut archive":    {text: zipped(header + line("1", "COMPLETED", "2026-10-01T10:00:00", "60", "n1"))[:40], refused: "the file is empty or cut off"},
		"no times":       {text: "JobID|User|State|JobName\n1|ada|COMPLETED|train\n2|ada|PENDING|train\n", want: "train: 1 run, 0 running, 1 waiting"},
		"unknown start":  {text: header + line("1", "COMPLETED", "Unknown", "60", "n1") + line("2", "RUNNING", "Unknown", "60", "n1") + line("3", "PENDING", "Unknown", "0", "None assigned"), want: "train: 2 run, 1 running, 1 waiting"},
		"never started":  {text: header + line("1", "CANCELLED by 7", "2026-10-01T10:00:00", "0", "None assigned") + line("2", "PENDING", "Unknown", "0", ""), want: "train: 0 run, 0 running, 1 waiting"},
		"heterogeneous":  {text: header + line("9+0", "COMPLETED", "2026-10-01T10:00:00", "60", "n1") + line("9+1", "COMPLETED", "2026-10-01T10:00:00", "60", "n2"), want: "train+0: 1 run, 0 running, 0 waiting; train+1: 1 run, 0 running, 0 waiting"},
		"array of 10000": {text: header + tasks.String(), want: "train: 10000 run, 0 running, 0 waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write("sacct.txt", c.text)
			code, out, errs := w.run("analyze", "--json", "--sacct", "sacct.txt")
			if c.refused != "" {
				if code != run.CodeUsage || !strings.Contains(errs, c.refused) || strings.Count(errs, "\n") != 1 {
					t.Fatalf("exit %d, %q, want %q", code, errs, c.refused)
				}
				return
			}
			var a struct {
				Groups []struct {
					Name                   string
					Runs, Running, Waiting int
				}
			}
			if err := json.Unmarshal([]byte(out), &a); err != nil || code != run.CodeDone {
				t.Fatalf("exit %d, %v: %s", code, err, errs)
			}
			var got []string
			for _, g := range a.Groups {
				got = append(got, fmt.Sprintf("%s: %d run, %d running, %d waiting", g.Name, g.Runs, g.Running, g.Waiting))
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

package runs

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/cluster"
	"trainopt/optimizer/run"
)

// TestDeadlineColumn: the list has a column of deadlines only if a job has one.
func TestDeadlineColumn(t *testing.T) {
	now := time.Now()
	for _, limited := range []bool{false, true} {
		jobs := []jobDocument{{Job: cluster.Job{ID: 1, Name: "a", State: cluster.Waiting}, User: "u"}, {Job: cluster.Job{ID: 2, Name: "b", State: cluster.Waiting}, User: "u"}}
		if limited {
			jobs[1].Deadline = &now
		}
		text, err := table(jobs, now)
		if err != nil || strings.Contains(text, "deadline") != limited || !strings.Contains(text, "waited") {
			t.Errorf("a deadline %v: %v\n%s", limited, err, text)
		}
	}
}

// TestRateOfPresentDevices: the rates of a job are listed once each, that of its present devices first.
func TestRateOfPresentDevices(t *testing.T) {
	j := jobDocument{Job: cluster.Job{Device: "b", Where: []int32{0}, Rates: []cluster.Rate{{Device: "a", GPUs: 1, PerSec: 1}, {Device: "b", GPUs: 1, PerSec: 2}, {Device: "c", GPUs: 1, PerSec: 3}}}}
	if got, want := rate(&j), "b 2/s, a 1/s, c 3/s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReasonOfFailure: of a long reason, the list shows its end, the cause; of an infeasible SLA, its beginning.
func TestReasonOfFailure(t *testing.T) {
	for reason, want := range map[string]string{
		"exit code 3": "failed: exit code 3",
		"start the training: start \"/usr/bin/python3\": chdir /home/someone/proj: no such file or directory": "failed: no such file or directory",
	} {
		if got := state(&jobDocument{Job: cluster.Job{State: cluster.Failed, Reason: reason}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := state(&jobDocument{Job: cluster.Job{State: cluster.Starting, Queued: true, Reason: "queued by slurm"}}); got != "queued by slurm" {
		t.Errorf("a job in the queue of the engine is listed as %q", got)
	}
	code := int(run.CodeInfeasible)
	refused := cluster.Job{State: cluster.Failed, ExitCode: &code, Reason: "no allowed allocation meets the budget of $0.01 with 95 % probability; nearest: 1 CPU: 12.6 s (90 %: 9 s–21 s) for $0.02"}
	if got, want := state(&jobDocument{Job: refused}), "failed: no allowed allocation meets the "; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q…", got, want)
	}
}

// TestJobFieldsDocumented checks that docs/cluster.md names each field of a job in jobs --json.
func TestJobFieldsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### Fields of a job\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[jobDocument]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !strings.Contains(section, "`"+name+"`") {
			t.Errorf("field %s of jobs --json is not in docs/cluster.md", name)
		}
	}
}

// TestNamesInTheList: a name or a reason with control characters changes neither the terminal nor the rows of the list.
func TestNamesInTheList(t *testing.T) {
	text, err := table([]jobDocument{{Job: cluster.Job{ID: 1, Name: "\x1b[31mred\nline", State: cluster.Failed, Reason: "\x1b]0;x\a"}, User: "u\tv"}}, time.Now())
	if err != nil || strings.ContainsAny(text, "\x1b\a\t") || strings.Count(strings.TrimSpace(text), "\n") != 1 {
		t.Errorf("%v: %q", err, text)
	}
}

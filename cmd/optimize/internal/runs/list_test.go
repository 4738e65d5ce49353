package runs

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"trainopt/optimizer/journal"
)

// TestRunsTable checks that a list is abbreviated to the width of the terminal, and that run ids are never cut.
func TestRunsTable(t *testing.T) {
	rec := journal.Blank[journal.Record]()
	rec.RunID, rec.State, rec.StartedAt = "20261123-110754-train_digits-7f4174", journal.Done, time.Now()
	for columns, full := range map[int]bool{100: true, 80: false, 20: false} {
		text, err := runsTable([]journal.Entry{{ID: rec.RunID, Record: &rec}}, columns)
		if err != nil || strings.Contains(text, "allocation") != full || !strings.Contains(text, rec.RunID) {
			t.Errorf("%d columns: %v\n%s", columns, err, text)
		}
	}
	rec.State, rec.Exit = journal.Stopped, &journal.Exit{Reason: "user"}
	rec.Training.TotalUnits, rec.Outcome.Epochs, rec.Outcome.Seconds, rec.Outcome.CostUSD = 300, 299, 271, 0.000346
	text, err := runsTable([]journal.Entry{{ID: rec.RunID, Record: &rec}}, 80)
	for _, line := range strings.Split(text, "\n") {
		if err != nil || utf8.RuneCountInString(line) > 80 {
			t.Errorf("%d of 80 columns: %v %q", utf8.RuneCountInString(line), err, line)
		}
	}
	for columns, want := range map[int]string{120: "failed (exited)", 60: "failed"} {
		rec.State, rec.Exit = journal.Failed, &journal.Exit{Reason: "exited"}
		if text, err := runsTable([]journal.Entry{{ID: rec.RunID, Record: &rec}}, columns); err != nil || !strings.Contains(text, want+"  ") {
			t.Errorf("%d columns: %v\n%s", columns, err, text)
		}
	}
	rec.State = journal.Done
	if text, err := runsTable([]journal.Entry{{ID: rec.RunID, Record: &rec}}, 100); err != nil || !strings.Contains(text, "finished ") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestRunElsewhere checks that a run of an agent on another machine is listed and followed as running while it replaces its
// state.
func TestRunElsewhere(t *testing.T) {
	state := t.TempDir()
	dir, err := journal.Create(state, "20261123-110754-train-7f4174")
	if err != nil {
		t.Fatal(err)
	}
	rec := journal.Blank[journal.Record]()
	rec.Schema, rec.RunID, rec.State = journal.Schema, dir.ID(), journal.Running
	if err := dir.WriteRecord(&rec); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"lock": fmt.Sprintf(`{"pid": %d, "boot_id": "another", "host": "n0"}`, os.Getpid()), "state": "1"} {
		if err := os.WriteFile(dir.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		age     time.Duration // of the state
		running bool
		state   string
	}{{-20 * time.Second, true, " running (on n0) "}, {time.Hour, false, " orphaned "}} {
		at := time.Now().Add(-c.age)
		if err := os.Chtimes(dir.Path("state"), at, at); err != nil {
			t.Fatal(err)
		}
		entries, err := journal.List(state)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := runsTable(entries, 120); err != nil || !strings.Contains(text, c.state) || isRunning(dir.Dir()) != c.running {
			t.Errorf("state of %s: followed %t, want %t; %v\n%s", c.age, isRunning(dir.Dir()), c.running, err, text)
		}
	}
}

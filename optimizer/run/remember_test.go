package run

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
)

// TestRunsAreRemembered: every run is stored in the runs database, however it ends.
func TestRunsAreRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		play  func(*actor) launch.Exit
		limit time.Duration
		want  journal.State
	}{
		"done":    {resumable(4, 2), 0, journal.Done},
		"failed":  {func(a *actor) launch.Exit { a.work(4, 2); return failed(3) }, 0, journal.Failed},
		"stopped": {resumable(400, 2), 9 * time.Second, journal.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, c.play)
			s.cfg.Restarts, s.cfg.SLA.TimeMax = -1, c.limit
			res := s.run()
			if n := s.said(Warning, "runs database"); len(n) > 0 {
				t.Errorf("warnings %q", n)
			}
			db, _, err := history.Open(s.cfg.StateDir)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			entries, err := db.Entries(history.Filter{Kinds: []history.Kind{history.Run}})
			if err != nil || len(entries) != 1 {
				t.Fatalf("%d entries, %v", len(entries), err)
			}
			if e := entries[0]; e.State != string(c.want) || e.ID != res.Record.RunID || e.CostUSD != float64(res.Record.Outcome.CostUSD) {
				t.Errorf("remembered %+v, want %s", e, c.want)
			}
		})
	}
}

// TestRunWithoutDatabase: an unusable runs database causes one warning and has no other effect on a run.
func TestRunWithoutDatabase(t *testing.T) {
	t.Parallel()
	s := newStage(t, resumable(4, 2))
	if err := os.MkdirAll(filepath.Join(s.cfg.StateDir, "history.db"), 0o755); err != nil {
		t.Fatal(err)
	}
	res := s.run()
	if res.Code != CodeDone || res.Err != nil {
		t.Errorf("exit %d, %v", res.Code, res.Err)
	}
	if said := s.said(Warning, ""); len(said) != 1 {
		t.Errorf("warnings %q, want one", said)
	}
	before := res.Record.RunID
	again := s.run()
	if said := s.said(Info, "recalled 1 earlier run of this training (newest "+before+")"); len(said) != 1 {
		t.Errorf("the second run said %q: want that it recalls the first", s.said(Info, "recall"))
	}
	if !slices.ContainsFunc(again.Record.Warnings, func(w string) bool { return len(w) > 0 }) {
		t.Error("the second run's record does not say that every run was read")
	}
}

package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/plan"
)

// scalingJob plays a resumable training with a start-up of 2 s whose epochs take seconds/CPUs, with a serial part of a
// tenth.
func scalingJob(total int, seconds float64) func(*actor) launch.Exit {
	return func(a *actor) launch.Exit {
		a.stage.clock.advance(at(2)) // start-up
		for a.begin(); a.epoch < total; {
			if !a.work(total, seconds*(0.1+0.9/float64(a.command.Allocation.CPUs))) {
				return a.leave()
			}
		}
		return finished
	}
}

// preferring runs a training that prefers cost, and asks for another preference after a number of epochs.
func preferring(t *testing.T, change func(*stage), wish plan.Preference) (*journal.Record, *journal.Answer, *stage) {
	t.Helper()
	s := newStage(t, scalingJob(60, 10))
	s.cfg.Planner, s.cfg.CPUs = "model", "1:4"
	s.cfg.Preference, s.cfg.PreferenceGiven = plan.Preference{Cost: 1}, true
	if change != nil {
		change(s)
	}
	var once sync.Once
	var answer *journal.Answer
	var failure error
	var asked sync.WaitGroup
	s.onStatus = func(st Status) {
		if st.Done >= 20 && st.Phase == "training" {
			once.Do(func() {
				asked.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					answer, failure = Prefer(ctx, filepath.Join(s.cfg.StateDir, "runs", st.RunID), wish)
				})
			})
		}
	}
	rec := s.run().Record
	asked.Wait()
	if failure != nil {
		t.Fatalf("%v\n%s", failure, strings.Join(s.events, "\n"))
	}
	if answer == nil {
		t.Fatalf("nothing was asked: %s\n%s", rec.State, strings.Join(s.events, "\n"))
	}
	return rec, answer, s
}

// TestPreferMovesTheJob: the plan changes to the allocation of the new preference, and the record has the request.
func TestPreferMovesTheJob(t *testing.T) {
	t.Parallel()
	rec, answer, s := preferring(t, nil, plan.Preference{Time: 1})
	if !answer.Changed || !strings.Contains(answer.Text, "the plan changes to 4 CPU") {
		t.Errorf("answer %+v\n%s", answer, strings.Join(s.events, "\n"))
	}
	if rec.State != journal.Done || rec.Preference.Time != 1 || rec.Plan.Allocation.CPUs != 4 || len(rec.PreferenceChanges) != 1 || rec.PreferenceChanges[0].From.Cost != 1 {
		t.Errorf("%s, preference %v, plan %v, changes %+v", rec.State, rec.Preference, rec.Plan.Allocation, rec.PreferenceChanges)
	}
	if last := s.actors[len(s.actors)-1]; last.command.Allocation.CPUs != 4 || last.epoch != 60 {
		t.Errorf("the last launch has %d CPUs and reached epoch %d", last.command.Allocation.CPUs, last.epoch)
	}
}

// TestPreferStays: where the new preference selects the present allocation, or the planner never moves, the answer says
// why nothing changes.
func TestPreferStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*stage)
		wish   plan.Preference
		want   string
	}{
		"same choice": {nil, plan.Preference{Cost: .9, Resource: .1}, "the plan stays at"},
		"static":      {func(s *stage) { s.cfg.Planner = "static" }, plan.Preference{Time: 1}, "static planner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec, answer, _ := preferring(t, c.change, c.wish)
			if answer.Changed || !strings.Contains(answer.Text, c.want) || len(rec.PreferenceChanges) != 1 {
				t.Errorf("answer %+v, changes %+v", answer, rec.PreferenceChanges)
			}
		})
	}
}

func TestPreferWithoutAgent(t *testing.T) {
	t.Parallel()
	s := newStage(t, resumable(3, 1))
	res := s.run()
	if _, err := Prefer(context.Background(), res.Dir, plan.Preference{Time: 1}); !errors.Is(err, ErrNoAgent) {
		t.Errorf("%v, want ErrNoAgent", err)
	}
	if _, err := os.Stat(filepath.Join(res.Dir, "requests")); err == nil {
		t.Error("a request was written for an ended run")
	}
}

// TestDamagedRequest: a request that cannot be read is answered and does not disturb the run.
func TestDamagedRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, resumable(8, 1))
	var once sync.Once
	dir := ""
	s.onStatus = func(st Status) {
		if st.Done >= 2 {
			once.Do(func() {
				dir = filepath.Join(s.cfg.StateDir, "runs", st.RunID)
				if err := errors.Join(os.Mkdir(filepath.Join(dir, "requests"), 0o700), os.WriteFile(filepath.Join(dir, "requests", "1.json"), []byte("{"), 0o600)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	rec := s.run().Record
	a, err := journal.ReadAnswer(dir, "1")
	if err != nil || a == nil || a.Changed || !strings.Contains(a.Text, "no known change") || rec.State != journal.Done {
		t.Errorf("%+v %v, run %s", a, err, rec.State)
	}
}

// TestUnwrittenAnswer: a request whose answer cannot be written is carried out once, and answered when it can be.
func TestUnwrittenAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t, resumable(20, 1))
	dir, began, removed := "", false, false
	s.onStatus = func(st Status) {
		dir = filepath.Join(s.cfg.StateDir, "runs", st.RunID)
		obstacle := filepath.Join(dir, "requests", ".1.answer.json.tmp")
		var err error
		switch {
		case st.Done >= 2 && !began:
			began = true
			err = errors.Join(os.MkdirAll(filepath.Join(obstacle, "full"), 0o700),
				os.WriteFile(filepath.Join(dir, "requests", "1.json"), []byte(`{"schema":1,"prefer":{"time":1}}`), 0o600))
		case st.Done >= 15 && !removed:
			removed = true
			err = os.RemoveAll(obstacle)
		}
		if err != nil {
			t.Error(err)
		}
	}
	rec := s.run().Record
	a, err := journal.ReadAnswer(dir, "1")
	if err != nil || a == nil || len(rec.PreferenceChanges) != 1 || a.Text != rec.PreferenceChanges[0].Answer {
		t.Errorf("answer %+v %v, changes %+v", a, err, rec.PreferenceChanges)
	}
}

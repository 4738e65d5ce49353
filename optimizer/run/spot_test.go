package run

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/schedule/capacity"
)

// spotStage is a training of 30 epochs of 20 s on the stage, on spot capacity at $1 per hour in zones of the given
// traces, whose ticks are 30 s, or on demand at $3. The clock advances while the run waits.
func spotStage(t *testing.T, deadline time.Duration, traces ...string) *stage {
	t.Helper()
	s := newStage(t, resumable(30, 20))
	rates := func(usd cost.USD, source string) cost.Rates {
		return cost.Rates{Instance: usd, Source: source, Dated: "2026-03-01"}
	}
	s.cfg.Spot = &capacity.Offers{OnDemand: capacity.Offer{Name: "large", Rates: rates(3, "on demand")}}
	for z, up := range traces {
		path := filepath.Join(s.cfg.Dir, fmt.Sprintf("zone%d.json", z))
		text := `{"metadata":{"gap_seconds":30},"data":[` + strings.Join(strings.Split(up, ""), ",") + `]}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.cfg.Spot.Zones = append(s.cfg.Spot.Zones, capacity.Offer{Name: fmt.Sprintf("zone %d", z), Rates: rates(1, fmt.Sprintf("zone %d", z)), Trace: path})
	}
	s.cfg.SLA.TimeMax = deadline
	s.onStatus = func(Status) {
		actors := s.started()
		select {
		case <-actors[len(actors)-1].done:
			s.clock.advance(2 * time.Second)
		default:
		}
	}
	return s
}

// TestSpotMarket: a run between spot capacity and a machine on demand meets its deadline, loses no work, and its cost is
// the sum of its stretches at their prices.
func TestSpotMarket(t *testing.T) {
	for name, c := range map[string]struct {
		deadline     time.Duration
		traces       []string
		spot, demand bool
		taken        int
		waits        bool
	}{
		"always":                {900 * time.Second, []string{strings.Repeat("1", 60)}, true, false, 0, false},
		"never again":           {900 * time.Second, []string{"111" + strings.Repeat("0", 60)}, true, true, 1, true},
		"not at the start":      {1200 * time.Second, []string{"000" + strings.Repeat("1", 60)}, true, true, 0, true},
		"another zone":          {900 * time.Second, []string{"111" + strings.Repeat("0", 60), strings.Repeat("1", 63)}, true, false, 1, false},
		"too late":              {700 * time.Second, []string{strings.Repeat("0", 60) + "1"}, false, true, 0, true},
		"no time for any other": {700 * time.Second, []string{"1" + strings.Repeat("0", 60)}, true, true, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spotStage(t, c.deadline, c.traces...)
			res := s.run()
			rec := res.Record
			if res.Code != CodeDone || float64(rec.Outcome.Epochs) != 30 || rec.Outcome.Rows != 30 || rec.Spot == nil {
				t.Fatalf("exit %d (%v): %v epochs in %d rows, %+v\n%s", res.Code, res.Err, rec.Outcome.Epochs, rec.Outcome.Rows, rec.Spot, strings.Join(s.said(Info, ""), "\n"))
			}
			sum, machines := 0.0, map[string]bool{}
			for _, x := range rec.Spot.Stretches {
				price := map[string]float64{"spot": 1, "on-demand": 3}[x.Machine]
				if float64(x.USDHour) != price || math.Abs(float64(x.ToS-x.FromS)/3600*price-float64(x.CostUSD)) > 1e-9 {
					t.Errorf("stretch %+v at %g USD per hour", x, price)
				}
				sum += float64(x.CostUSD)
				machines[x.Machine] = true
			}
			if math.Abs(sum-float64(rec.Outcome.CostUSD)) > 1e-9 {
				t.Errorf("the stretches cost $%g, the run $%v", sum, rec.Outcome.CostUSD)
			}
			if machines["spot"] != c.spot || machines["on-demand"] != c.demand || rec.Spot.Taken != c.taken || (len(s.said(Info, "waiting for it")) > 0) != c.waits {
				t.Errorf("machines %v, %d taken away\n%s", machines, rec.Spot.Taken, strings.Join(s.said(Info, ""), "\n"))
			}
			if float64(rec.Outcome.Seconds) > c.deadline.Seconds() {
				t.Errorf("took %v s of %v", rec.Outcome.Seconds, c.deadline)
			}
			if !c.spot {
				if rec.Spot.SavingPct.Known() || rec.Spot.AloneUSD.Known() {
					t.Errorf("saved %v %% of $%v on demand throughout", rec.Spot.SavingPct, rec.Spot.AloneUSD)
				}
				return
			}
			if alone := 600.0 / 3600 * 3; math.Abs(float64(rec.Spot.AloneUSD)-alone) > 0.05*alone || math.Abs(float64(rec.Spot.SavingPct)-100*(1-sum/float64(rec.Spot.AloneUSD))) > 1e-6 {
				t.Errorf("on demand alone $%v, saved %v %%; want about $%g", rec.Spot.AloneUSD, rec.Spot.SavingPct, alone)
			}
		})
	}
}

// TestSpotSavingOfContinuedWork: epochs that were done before the run are not a part of its cost on demand alone.
func TestSpotSavingOfContinuedWork(t *testing.T) {
	t.Parallel()
	s := spotStage(t, 900*time.Second, strings.Repeat("1", 60))
	s.saved = 30
	s.play = func(a *actor) launch.Exit {
		for a.epoch = s.saved; a.epoch < 60; {
			if !a.work(60, 20) {
				return a.leave()
			}
		}
		return finished
	}
	rec := s.run().Record
	if rec.Spot == nil {
		t.Fatalf("%+v", rec.Exit)
	}
	if alone := 600.0 / 3600 * 3; math.Abs(float64(rec.Spot.AloneUSD)-alone) > 0.05*alone || math.Abs(float64(rec.Spot.SavingPct)-200.0/3) > 5 {
		t.Errorf("on demand alone $%v, saved %v %%; want about $%g and two thirds", rec.Spot.AloneUSD, rec.Spot.SavingPct, alone)
	}
}

// TestSpotKeepsNothing: a training that keeps no checkpoint would lose its work with the machine and runs on demand.
func TestSpotKeepsNothing(t *testing.T) {
	t.Parallel()
	s := spotStage(t, time.Hour, strings.Repeat("1", 60))
	s.cfg.Resume = resumableNo
	s.play = func(a *actor) launch.Exit {
		for a.epoch < 5 {
			if !a.work(5, 20) {
				return a.leave()
			}
		}
		return finished
	}
	res := s.run()
	if res.Code != CodeDone || len(res.Record.Spot.Stretches) != 1 || res.Record.Spot.Stretches[0].Machine != "on-demand" || len(s.said(Warning, "keeps no checkpoint")) != 1 {
		t.Errorf("exit %d, %+v", res.Code, res.Record.Spot)
	}
}

// TestSpotOwnCheckpoints: a training that does not save on request, and resumes by an argument, continues on the next machine from
// the last checkpoint that it wrote by itself, also after it has waited.
func TestSpotOwnCheckpoints(t *testing.T) {
	for name, trace := range map[string]string{"moved": "000" + strings.Repeat("1", 90), "waits": "1111" + strings.Repeat("0", 8) + strings.Repeat("1", 90)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spotStage(t, time.Hour, trace)
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "train.py"), []byte("raise SystemExit('the test plays it')\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.cfg.Train, s.cfg.Resume, s.cfg.Knobs = "train.py", resumableAuto, map[string]string{"resume": "--resume {path}"}
			s.play = func(a *actor) launch.Exit {
				a.begins(nil)
				if args := a.command.Args; a.n > 1 {
					fmt.Sscanf(filepath.Base(args[len(args)-1]), "ckpt_step_%d.pt", &a.epoch)
				}
				for a.epoch < 30 {
					if !a.step(30, 20) {
						return died("SIGTERM")
					}
					a.checkpoint()
				}
				return finished
			}
			res := s.run()
			if res.Code != CodeDone || float64(res.Record.Outcome.Steps) != 30 {
				t.Errorf("exit %d (%v), %v steps", res.Code, res.Err, res.Record.Outcome.Steps)
			}
			starts := s.started()
			if len(starts) < 2 {
				t.Errorf("%d starts\n%s", len(starts), strings.Join(s.said(Info, ""), "\n"))
			}
			for _, a := range starts[1:] {
				if args := a.command.Args; !strings.HasPrefix(filepath.Base(args[len(args)-1]), "ckpt_step_") {
					t.Errorf("started by %q\n%s", args, strings.Join(s.said(Info, ""), "\n"))
				}
			}
		})
	}
}

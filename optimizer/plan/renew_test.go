package plan

import (
	"context"
	"errors"
	"testing"
	"time"

	"trainopt/morl"
	"trainopt/optimizer/perf"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// Critics with large errors are replaced by critics trained on the run's own measurements; accurate ones are kept.
func TestRenewReplacesCriticsThatAreWorse(t *testing.T) {
	s := gpuScene().prefer("time").agreed(sla.Spec{TimeMax: time.Hour}).running(gpu(4, 32), 5, 3*time.Minute, 1, 20).snapshot(t)
	shape := morl.Shape{State: perf.StateSize, Actions: 9, Objectives: perf.Objectives}
	absurd := func(perf.State) [4]float64 { return [4]float64{3, -3, 2, 1} }
	wrong := &Agent{Meta: morl.Meta{Agent: "conditioned", Env: "training", Shape: shape, Config: morl.Config{Hidden: []int{16}, Gamma: 0.95, Rate: 1e-3, Tau: 0.01, Scale: []float64{1, 1, 1, 1}}},
		critics: opinion{each: []func(perf.State) [4]float64{absurd, absurd}}, multiplier: 0.5}
	renewed, how, err := wrong.Renew(t.Context(), s, training.Like, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !how.Swapped || renewed == wrong || !(how.After < how.Before/2) {
		t.Errorf("%+v: want the absurd critics replaced by much better ones", how)
	}
	if p, err := (MORL{Agent: renewed}).Decide(s); err != nil || p.Learned.Agent == "" {
		t.Errorf("the renewed agent decides %+v, %v", p.Learned, err)
	}
	exact := &Agent{Meta: wrong.Meta, critics: opinion{each: []func(perf.State) [4]float64{none, none}}, multiplier: 0.5}
	if kept, how, err := exact.Renew(t.Context(), s, training.Like, 1); err != nil || how.Swapped && how.After >= how.Before || !how.Swapped && kept != exact {
		t.Errorf("%+v, %v", how, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if same, _, err := wrong.Renew(ctx, s, training.Like, 1); !errors.Is(err, context.Canceled) || same != wrong {
		t.Errorf("interrupted: %v", err)
	}
	if _, _, err := wrong.Renew(t.Context(), Snapshot{}, training.Like, 1); !errors.Is(err, errNoModel) {
		t.Errorf("nothing measured: %v", err)
	}
}

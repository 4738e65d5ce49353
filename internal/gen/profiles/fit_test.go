package main

import (
	"math"
	"testing"

	"trainopt/simulator/training/profile"
)

// TestFitCurveFindsTheCurve checks that a curve is recovered from its own times when one row in twenty is off by half.
func TestFitCurveFindsTheCurve(t *testing.T) {
	truth := profile.StepCurve{Fixed: 0.02, PerBatch: 0.001, Exponent: 1.05, Local: 0.03, LocalPerGPU: 0.004,
		Nodes: [3]float64{0.2, 0.15, 0.18}, NodesPerGPU: 0.003, OverlapPower: 2.5}
	var rows []profile.StepRow
	for _, placement := range [][]int{{1}, {2}, {3}, {4}, {1, 4}, {4, 4}, {2, 4, 4}, {4, 4, 4}, {4, 4, 4, 4}} {
		for _, batch := range []float64{16, 32, 64, 128, 256, 512} {
			r := profile.StepRow{Placement: placement, Batch: batch}
			r.Seconds = truth.Seconds(r.GPUs(), len(placement), batch)
			rows = append(rows, r)
		}
	}
	clean := append([]profile.StepRow(nil), rows...)
	for i := 10; i < len(rows); i += 20 {
		rows[i].Seconds *= 1.5
	}
	if e := profile.CurveError(fitCurve(rows), clean); e.Median > 0.01 || e.P90 > 0.03 {
		t.Errorf("the curve found is off by %+v", e)
	}
}

func TestFitNoiseScaleFindsIt(t *testing.T) {
	const phi, m0 = 5000.0, 128
	var ps []profile.Progress
	for batch := m0; batch <= 4096; batch *= 2 {
		worth := (phi + m0) / (phi + float64(batch))
		ps = append(ps, profile.Progress{Batch: batch, Steps: 1000, Reference: 1000 * worth * float64(batch) / m0})
	}
	got, e := fitNoiseScale(ps)
	if math.Abs(got/phi-1) > 0.01 || e.P90 > 0.005 || e.Points != 5 {
		t.Errorf("noise scale %v, want %v; %+v", got, phi, e)
	}
}

func TestRunNeedsItsFlags(t *testing.T) {
	for _, args := range [][]string{nil, {"--data", "x"}, {"--data", t.TempDir(), "--date", "2026-01-01", "--out", t.TempDir() + "/m.json"}} {
		if run(args, nil) == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

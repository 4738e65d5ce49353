package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"trainopt/optimizer/history"
	"trainopt/simulator/pretrain"
)

// A curve is found again from its own times, with one row in twenty off by half.
func TestFitCurveFindsTheCurve(t *testing.T) {
	truth := pretrain.StepCurve{Fixed: 0.02, PerBatch: 0.001, Exponent: 1.05, Local: 0.03, LocalPerGPU: 0.004,
		Nodes: [3]float64{0.2, 0.15, 0.18}, NodesPerGPU: 0.003, OverlapPower: 2.5}
	var rows []history.StepRow
	for _, placement := range [][]int{{1}, {2}, {3}, {4}, {1, 4}, {4, 4}, {2, 4, 4}, {4, 4, 4}, {4, 4, 4, 4}} {
		for _, batch := range []float64{16, 32, 64, 128, 256, 512} {
			r := history.StepRow{Placement: placement, Batch: batch}
			r.Seconds = truth.Seconds(r.GPUs(), len(placement), batch)
			rows = append(rows, r)
		}
	}
	clean := append([]history.StepRow(nil), rows...)
	for i := 10; i < len(rows); i += 20 {
		rows[i].Seconds *= 1.5
	}
	if e := curveError(fitCurve(rows), clean); e.Median > 0.01 || e.P90 > 0.03 {
		t.Errorf("the curve found is off by %+v", e)
	}
}

func TestFitNoiseScaleFindsIt(t *testing.T) {
	const phi, m0 = 5000.0, 128
	var ps []history.BatchProgress
	for batch := m0; batch <= 4096; batch *= 2 {
		worth := (phi + m0) / (phi + float64(batch))
		ps = append(ps, history.BatchProgress{Batch: batch, Steps: 1000, Reference: 1000 * worth * float64(batch) / m0})
	}
	got, e := fitNoiseScale(ps)
	if math.Abs(got/phi-1) > 0.01 || e.P90 > 0.005 || e.Points != 5 {
		t.Errorf("noise scale %v, want %v; %+v", got, phi, e)
	}
}

// The errors recorded in models.json are those of the curves against the tables, and small enough for the curves to
// serve as the truth.
func TestFitsAgainstTables(t *testing.T) {
	dir := filepath.Join(published, "pollux-profiles")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no measured tables here: %v", err)
	}
	text, err := os.ReadFile("../../simulator/pretrain/models.json")
	if err != nil {
		t.Fatal(err)
	}
	var m pretrain.Models
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Steps) != 5 {
		t.Fatalf("%d fitted models, want 5", len(m.Steps))
	}
	for _, s := range m.Steps {
		tables, err := history.LoadPolluxTables(filepath.Join(dir, s.Family))
		if err != nil {
			t.Fatal(err)
		}
		var rows []history.StepRow
		for _, r := range tables.Steps {
			if r.Packed(s.GPUsPerNode) && r.GPUs() <= s.MaxGPUs {
				rows = append(rows, r)
			}
		}
		got := curveError(s.Curve, rows)
		t.Logf("%-16s step time: median error %4.1f %%, p90 %4.1f %% of %d; worth of a sample: median %.1f %%, p90 %.1f %% of %d batches",
			s.Name, 100*got.Median, 100*got.P90, got.Points, 100*s.EfficiencyError.Median, 100*s.EfficiencyError.P90, s.EfficiencyError.Points)
		if got != s.Error {
			t.Errorf("%s: error %+v, models.json says %+v", s.Name, got, s.Error)
		}
		if got.Median > 0.05 || got.P90 > 0.17 {
			t.Errorf("%s: %+v is too far off", s.Name, got)
		}
		for _, p := range tables.Progress {
			e := (s.NoiseScale + s.ReferenceBatch) / (s.NoiseScale + float64(p.Batch))
			if math.Abs(e/p.Efficiency(tables.Progress[0].Batch)-1) > 0.04 {
				t.Errorf("%s: worth of a sample at batch %d is %v, measured %v", s.Name, p.Batch, e, p.Efficiency(tables.Progress[0].Batch))
			}
		}
	}
}

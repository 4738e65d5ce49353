package trainlog

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestFrame(t *testing.T) {
	rows, _, err := ReadLog("testdata/formats/lightning.csv", TailOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rows[0].Model, rows[0].Stamp, rows[0].GPUUtil = "m", time.Unix(5, 0), []float64{math.NaN(), 50}
	df := Frame(rows)
	want(t, "columns", df.Names(), []string{"timestamp", "model_name", "epoch", "step", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "gpu_utilization_1"})
	want(t, "step", df.Col("step").Float(), []float64{49, 99, 117, 149, 199, 235})
	if v := df.Col("test_loss").Float(); !math.IsNaN(v[0]) || v[2] != 0.663 {
		t.Errorf("test_loss %v", v)
	}
	want(t, "texts", []string{df.Col("timestamp").Records()[0], df.Col("model_name").Records()[0]}, []string{time.Unix(5, 0).Format(time.RFC3339Nano), "m"})
	want(t, "utilization", df.Col("gpu_utilization_1").Float()[:2], []float64{50, math.NaN()})
	if empty := Frame(nil); !errors.Is(empty.Err, ErrNoData) {
		t.Errorf("no rows: %v", empty.Err)
	}
}

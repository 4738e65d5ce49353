package monitor

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// trained is what testdata/writers/train.py says that it logged.
type trained struct {
	Epochs []struct {
		TrainLoss     float64 `json:"train_loss"`
		TrainAccuracy float64 `json:"train_accuracy"`
		TestLoss      float64 `json:"test_loss"`
		TestAccuracy  float64 `json:"test_accuracy"`
		Seconds       float64 `json:"seconds"`
	} `json:"epochs"`
	Steps []float64 `json:"steps"` // loss of each
}

// train runs a small training in Python that writes every kind of log, as the writers of the frameworks do.
func train(t *testing.T) (dir string, truth trained) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to write the logs with")
	}
	dir = t.TempDir()
	cmd := exec.Command(python, "testdata/writers/train.py", dir)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("train.py: %v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "truth.json"))
	if err == nil {
		err = json.Unmarshal(data, &truth)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, truth
}

// writtenLogs are the logs of train.py: the format each must be recognised as, what it says at the end of each epoch, and how exact its
// numbers are. steps is the first step of an epoch's end and the number of steps between two.
var writtenLogs = map[string]struct {
	format  string
	columns []Column
	steps   [2]float64
	exact   float64
}{
	"training.csv":                         {"keras", []Column{Epoch, TrainLoss, TrainAccuracy, TestLoss, TestAccuracy}, [2]float64{}, 0},
	"lightning_logs/version_0/metrics.csv": {"lightning", []Column{Epoch, Step, TrainLoss, TestLoss, TestAccuracy}, [2]float64{7, 8}, 0},
	"lightning_logs/version_0":             {"lightning", []Column{Epoch, Step, TrainLoss, TestLoss, TestAccuracy}, [2]float64{7, 8}, 0},
	"trainer_state.json":                   {"huggingface", []Column{Epoch, Step, TestLoss, TestAccuracy}, [2]float64{8, 8}, 0},
	".":                                    {"huggingface", []Column{Epoch, Step, TestLoss, TestAccuracy}, [2]float64{8, 8}, 0},
	"hf":                                   {"huggingface", []Column{Epoch, Step, TestLoss, TestAccuracy}, [2]float64{8, 8}, 0},
	"hf/checkpoint-32":                     {"huggingface", []Column{Epoch, Step, TestLoss, TestAccuracy}, [2]float64{8, 8}, 0},
	"hf/runs":                              {"tensorboard", []Column{Epoch, Step, TestLoss, TestAccuracy, TimeSoFar}, [2]float64{8, 8}, 1e-6},
	"results.csv":                          {"ultralytics", []Column{Epoch, TimeSoFar, TrainLoss, TestLoss, TestAccuracy}, [2]float64{}, 1e-5},
	"results_old.csv":                      {"ultralytics", []Column{Epoch, TrainLoss, TestLoss, TestAccuracy}, [2]float64{}, 1e-4},
	"flat.jsonl":                           {"jsonl", []Column{Epoch, Step, TrainLoss, TrainAccuracy, TestLoss, TestAccuracy, TimeSoFar}, [2]float64{8, 8}, 0},
	"nested.jsonl":                         {"jsonl", []Column{Epoch, Step, TrainLoss, TrainAccuracy, TestLoss, TestAccuracy, TimeSoFar}, [2]float64{8, 8}, 0},
	"torch":                                {"tensorboard", []Column{Step, TrainLoss, TrainAccuracy, TestLoss, TestAccuracy, TimeSoFar}, [2]float64{0, 1}, 1e-6},
	"pl":                                   {"tensorboard", []Column{Epoch, Step, TrainLoss, TestLoss, TestAccuracy, TimeSoFar}, [2]float64{7, 8}, 1e-6},
	"keras":                                {"tensorboard", []Column{Epoch, TrainLoss, TrainAccuracy, TestLoss, TestAccuracy, TimeSoFar}, [2]float64{}, 1e-6},
	"keras/validation":                     {"tensorboard", []Column{Epoch, TestLoss, TestAccuracy}, [2]float64{}, 1e-6},
}

func TestWriters(t *testing.T) {
	dir, truth := train(t)
	for name, log := range writtenLogs {
		t.Run(name, func(t *testing.T) {
			rows, stats, err := ReadLog(filepath.Join(dir, name), TailOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want(t, "format, bad, again", []any{stats.Format, stats.FirstBad, stats.Again}, []any{log.format, []BadRow{}, 0})
			ends := 0
			for i := range rows {
				if _, ok := rows[i].Value(TestLoss); !ok {
					continue
				}
				if ends++; ends > len(truth.Epochs) {
					t.Fatalf("more than %d epochs end", len(truth.Epochs))
				}
				e := truth.Epochs[ends-1]
				at := map[Column]float64{Epoch: float64(ends), Step: log.steps[0] + log.steps[1]*float64(ends-1), TrainLoss: e.TrainLoss, TrainAccuracy: e.TrainAccuracy,
					TestLoss: e.TestLoss, TestAccuracy: e.TestAccuracy, TimeSoFar: e.Seconds}
				for _, c := range log.columns {
					if got, _ := rows[i].Value(c); math.IsNaN(got) || math.Abs(got-at[c]) > log.exact*at[c] {
						t.Errorf("epoch %d: %s is %v, want %v", ends, c, got, at[c])
					}
				}
			}
			want(t, "epochs", ends, len(truth.Epochs))
		})
	}
}

// What the logs say beside the ends of epochs.
func TestWritersDetails(t *testing.T) {
	dir, truth := train(t)
	read := func(name string) []Row {
		rows, _, err := ReadLog(filepath.Join(dir, name), TailOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	trainer := read("trainer_state.json")
	want(t, "steps of the trainer", values(trainer, Step), []float64{4, 8, 12, 16, 20, 24, 28, 32})
	want(t, "epochs of the trainer", values(trainer, Epoch), []float64{.5, 1, 1.5, 2, 2.5, 3, 3.5, 4})
	for i, v := range values(trainer, TrainLoss) {
		if math.Abs(v-truth.Steps[4*i+3]) > 5e-5 {
			t.Errorf("loss at step %d is %g, want %g", 4*i+4, v, truth.Steps[4*i+3])
		}
	}
	last := trainer[len(trainer)-1]
	want(t, "time and throughput of the trainer", []float64{last.values[TimeSoFar], last.values[Throughput]}, []float64{8, 80})
	want(t, "of the whole training", []float64{last.values[TotalEpochs], last.values[TotalSteps], last.values[BatchSize]}, []float64{4, 32, 20})

	board := read("hf/runs")
	want(t, "steps of the board", values(board, Step), values(trainer, Step))
	want(t, "epochs of the board", values(board, Epoch), values(trainer, Epoch))
	want(t, "throughput of the board", values(board, Throughput), []float64{-1, -1, -1, -1, -1, -1, -1, 80})

	want(t, "epochs of Lightning", values(read("lightning_logs/version_0"), Epoch), []float64{-1, -1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4})
	want(t, "steps of Lightning", values(read("lightning_logs/version_0"), Step), []float64{2, 5, 7, 8, 11, 14, 15, 17, 20, 23, 23, 26, 29, 31})
	want(t, "epochs of its board", values(read("pl"), Epoch), []float64{-1, -1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4})
	want(t, "epoch times of Keras", values(read("keras"), EpochTime), []float64{-1, 2, 2, 2})
	want(t, "stamps", read("flat.jsonl")[1].Stamp.Unix(), 1751364004)
	if rows := read("torch"); rows[3].Stamp.Unix() != 1751364008 {
		t.Errorf("the last event was at %v", rows[3].Stamp)
	}

	for name, format := range map[string]string{"keras": "csv", "hf": "tensorboard"} {
		_, s, err := ReadLog(filepath.Join(dir, name), TailOptions{Format: format})
		if errors.Is(err, ErrNoData) != (name == "keras") {
			t.Errorf("%s as %s: %v, %+v", name, format, err, s)
		}
	}
}

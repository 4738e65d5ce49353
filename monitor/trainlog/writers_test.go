package trainlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// trained is the reference output of testdata/writers/train.py.
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

// train runs a small training in Python that writes every kind of log with the frameworks' writers.
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

// writtenLogs are the logs of train.py: the expected format, the columns at the end of each epoch, and the precision
// of the numbers. steps is the step at the end of the first epoch and the number of steps per epoch.
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
			want(t, "format, rows, bad, again", []any{stats.Format, stats.Rows, stats.FirstBad, stats.Repeated}, []any{log.format, len(rows), []BadRow{}, 0})
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

// Contents of the logs other than the epoch ends.
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

// damages are kinds of damage to a log on disk with their tolerated effect; rows of other lines are unaffected.
var damages = map[string]struct {
	spoil  func(log []byte) []byte
	header bool // only for logs with a header
	json   bool // for a JSON document too
	lost   int  // maximum number of rows lost
	bad    int  // number of lines that must be counted as bad
}{
	"as it is": {spoil: func(b []byte) []byte { return b }, json: true},
	"CRLF": {spoil: func(b []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r"), nil), []byte("\n"), []byte("\r\n"))
	}, json: true},
	"byte order mark":          {spoil: func(b []byte) []byte { return append([]byte("\ufeff"), b...) }},
	"UTF-16":                   {spoil: func(b []byte) []byte { return utf16le("\ufeff" + string(b)) }},
	"cut within the last line": {spoil: func(b []byte) []byte { return b[:len(b)-12] }, json: true, lost: 1},
	"a block of NULs":          {spoil: func(b []byte) []byte { return insert(b, strings.Repeat("\x00", 512)) }},
	"NULs within a line": {spoil: func(b []byte) []byte {
		return append(append(bytes.Clone(b[:len(b)-8]), make([]byte, 512)...), b[len(b)-8:]...)
	}},
	"a row of another width": {spoil: func(b []byte) []byte { return insert(b, "1,2\n") }, bad: 1},
	"another program's line": {spoil: func(b []byte) []byte { return insert(b, "Killed by signal 9\n") }, bad: 1},
	"header in the middle":   {spoil: func(b []byte) []byte { h, _, _ := bytes.Cut(b, []byte("\n")); return insert(b, string(h)+"\n") }, header: true},
}

// insert inserts text between two lines in the middle.
func insert(log []byte, text string) []byte {
	at := len(log)/2 + bytes.IndexByte(log[len(log)/2:], '\n') + 1
	return append(append(bytes.Clone(log[:at]), text...), log[at:]...)
}

// A damaged log is read as before, except for the damaged part.
func TestWritersDamaged(t *testing.T) {
	dir, _ := train(t)
	for name, log := range writtenLogs {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || log.format == "tensorboard" { // a directory; TestEventsDamaged covers the event files
			continue
		}
		whole, _, err := ReadLog(filepath.Join(dir, name), TailOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for how, d := range damages {
			if d.header && log.format == "jsonl" || !d.json && log.format == "huggingface" {
				continue
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				path := writeLog(t, filepath.Base(name), d.spoil(bytes.Clone(data)))
				rows, stats, err := ReadLog(path, TailOptions{Format: log.format})
				if err != nil || len(rows) < len(whole)-d.lost || len(rows) > len(whole) {
					t.Fatalf("%d rows of %d: %v", len(rows), len(whole), err)
				}
				kept := whole[:len(whole)-d.lost]
				want(t, "rows", valuesOf(rows[:len(kept)]), valuesOf(kept))
				if stats.Bad < d.bad || stats.Bad > d.bad+d.lost {
					t.Errorf("%d bad lines, want %d: %v", stats.Bad, d.bad, stats.FirstBad)
				}
			})
		}
	}
}

// valuesOf returns the contents of rows without their line numbers.
func valuesOf(rows []Row) string {
	s := ""
	for i := range rows {
		s += fmt.Sprintf("%x ", rowHash(&rows[i], 0)+new(textHashes).of(&rows[i]))
	}
	return s
}

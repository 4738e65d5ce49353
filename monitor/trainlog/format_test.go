package trainlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Recordings of logs with the expected columns. An absent value is -1. joined contains the expectation for Scan where
// it merges rows of one step that a Tail returns separately.
var recordings = map[string]struct {
	format  string
	columns map[Column][]float64
	joined  map[Column][]float64
	bad     int
}{
	"csv.csv": {format: "csv", columns: map[Column][]float64{
		Epoch: {1, 2, 3}, TotalEpochs: {3, 3, 3}, ModelParams: {11181642, 11181642, 11181642}, DataCount: {50000, 50000, 50000}, BatchSize: {128, 128, 128},
		TrainLoss: {1.52, 1.01, 0.78}, TestAccuracy: {52.6, 65.1, 71}, EpochTime: {10.2, 10, 10.1}, TimeSoFar: {10.2, 20.2, 30.3},
		Throughput: {4901.9, 5000, 4950.4}, GPUMemoryUsed: {1.8, 1.8, 1.8}, CostSoFar: {0.02, 0.04, 0.06}, MemoryUsed: {-1, -1, -1}}},
	"keras.csv": {format: "keras", columns: map[Column][]float64{
		Epoch: {1, 2, 3}, TrainLoss: {0.4993, 0.3754, 0.3353}, TrainAccuracy: {0.8245, 0.8645, 0.8776}, TestLoss: {0.4254, 0.3815, 0.3622}, TestAccuracy: {0.8466, 0.8618, 0.8701}}},
	"keras_named_metric.csv": {format: "keras", columns: map[Column][]float64{
		Epoch: {1, 2}, TrainLoss: {0.6931, 0.5210}, TrainAccuracy: {0.51, 0.741}, TestAccuracy: {0.56, 0.7622}}},
	"lightning.csv": {format: "lightning", columns: map[Column][]float64{
		Epoch: {-1, -1, 1, 1, 1, 1, 2, 2}, Step: {49, 99, 117, 117, 149, 199, 235, 235},
		TrainLoss: {0.912, 0.702, -1, 0.844, 0.5411, 0.498, -1, 0.519}, TestLoss: {-1, -1, 0.663, -1, -1, -1, 0.487, -1},
		TrainAccuracy: {-1, -1, -1, 0.7015, -1, -1, -1, 0.826}, TestAccuracy: {-1, -1, 0.771, -1, -1, -1, 0.832, -1}},
		joined: map[Column][]float64{
			Epoch: {-1, -1, 1, 1, 1, 2}, Step: {49, 99, 117, 149, 199, 235},
			TrainLoss: {0.912, 0.702, 0.844, 0.5411, 0.498, 0.519}, TestLoss: {-1, -1, 0.663, -1, -1, 0.487},
			TrainAccuracy: {-1, -1, 0.7015, -1, -1, 0.826}, TestAccuracy: {-1, -1, 0.771, -1, -1, 0.832}}},
	"ultralytics.csv": {format: "ultralytics", columns: map[Column][]float64{
		Epoch: {1, 2}, TimeSoFar: {12.345, 24.1}, TrainLoss: {5, 4.5}, TestLoss: {5, 4.6}, TestAccuracy: {0.279, 0.312}}},
	"ultralytics_yolov5.csv": {format: "ultralytics", columns: map[Column][]float64{
		Epoch: {1, 2}, TrainLoss: {0.13, 0.11}, TestLoss: {0.101, 0.098}, TestAccuracy: {0.379, 0.385}}},
	"huggingface.json": {format: "huggingface", columns: map[Column][]float64{
		Epoch: {0.5, 1, 1, 2, 2}, Step: {1, 2, 2, 4, 4}, TotalSteps: {4, 4, 4, 4, 4}, TotalEpochs: {2, 2, 2, 2, 2}, BatchSize: {8, 8, 8, 8, 8},
		TrainLoss: {0.7, -1, -1, 0.4, -1}, TestLoss: {-1, -1, 0.52, -1, -1}, TestAccuracy: {-1, -1, 0.81, -1, -1},
		TimeSoFar: {-1, -1, -1, -1, 40.25}, Throughput: {-1, -1, -1, -1, 91.2}},
		joined: map[Column][]float64{
			Epoch: {0.5, 1, 2}, Step: {1, 2, 4}, TotalSteps: {4, 4, 4}, TrainLoss: {0.7, -1, 0.4}, TestLoss: {-1, 0.52, -1},
			TestAccuracy: {-1, 0.81, -1}, TimeSoFar: {-1, -1, 40.25}, Throughput: {-1, -1, 91.2}}},
	"huggingface_list.json": {format: "huggingface", columns: map[Column][]float64{Epoch: {0.5, 1}, TrainLoss: {0.7, -1}, TestLoss: {-1, 0.5}}},
	"jsonl.jsonl": {format: "jsonl", bad: 1, columns: map[Column][]float64{
		Epoch: {1, 2, 3}, TrainLoss: {0.9, 0.5, 0.4}, TrainAccuracy: {0.4, 0.6, 0.7}, TestLoss: {0.8, -1, 0.6}, Throughput: {-1, -1, 1234.5}}},
	"observer.jsonl": {format: "observer", columns: map[Column][]float64{
		Epoch: {0.1, 2, 3}, TotalEpochs: {3, 3, 3}, Step: {1, 20, 30}, TotalSteps: {30, 30, 30}, BatchSize: {16, 16, 16},
		TrainLoss: {-1, 1.38543253, 1.38659668}, TestLoss: {-1, 0.693117261, 0.692972839}, Throughput: {-1, -1, -1}}},
	"stdout_keras.txt": {format: "stdout", columns: map[Column][]float64{
		Epoch: {-1, 0.1, 0.5, 1, 1, 2}, TotalEpochs: {3, 3, 3, 3, 3, 3}, TrainLoss: {-1, 2.3, 1.5, 1.1, -1, 0.8},
		TestLoss: {-1, -1, -1, 1.2, -1, 0.9}, TestAccuracy: {-1, -1, -1, 0.55, -1, 0.65}}},
}

func TestFormats(t *testing.T) {
	files, err := filepath.Glob("testdata/formats/*")
	if err != nil || len(files) != len(recordings) {
		t.Errorf("%d recordings, %d expectations (%v)", len(files), len(recordings), err)
	}
	seen := map[string]bool{}
	for name, r := range recordings {
		t.Run(name, func(t *testing.T) {
			rows, stats, err := ReadLog(filepath.Join("testdata/formats", name), TailOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want(t, "format", stats.Format, r.format)
			want(t, "bad", stats.Bad, r.bad)
			if r.joined == nil {
				r.joined = r.columns
			}
			checkColumns(t, rows, r.joined)
		})
		t.Run(name+"/forced-and-in-pieces", func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata/formats", name))
			if err != nil {
				t.Fatal(err)
			}
			b := newBench(t, TailOptions{Format: r.format})
			for i := 0; i < len(data); i += 37 {
				b.append(string(data[i:min(i+37, len(data))]))
				b.poll()
			}
			more, err := b.tail.Finish(b.now)
			b.ok(err)
			checkColumns(t, append(b.rows, more...), r.columns)
			want(t, "bad", b.stats().Bad, r.bad)
		})
		seen[r.format] = true
	}
	for _, name := range Formats() {
		if !seen[name] && formats[name].records == nil { // covered by TestTensorBoard
			t.Errorf("format %s has no recording", name)
		}
	}
}

func checkColumns(t *testing.T, rows []Row, columns map[Column][]float64) {
	t.Helper()
	for c, w := range columns {
		got := values(rows, c)
		want(t, c.String(), fmt.Sprintf("%.6g", got), fmt.Sprintf("%.6g", w))
	}
}

func TestUnknownFormat(t *testing.T) {
	_, err := Open("x", TailOptions{Format: "excel"})
	if err == nil || !strings.Contains(err.Error(), "ultralytics") {
		t.Errorf("the error does not list the formats: %v", err)
	}
	for name, text := range map[string]string{"empty": "", "prose": "hello\nworld\n", "other.csv": "a,b,c\n1,2,3\n", "damaged.json": `{"log_history": [`} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		rows, _, err := ReadLog(path, TailOptions{})
		if !errors.Is(err, ErrNoData) || len(rows) != 0 || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
	}
	if _, _, err := ReadLog("/no/such/file", TailOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing log: %v", err)
	}
}

// progressOf formats each row as column=value pairs in canonical order.
func progressOf(rows []Row) []string {
	out := []string{}
	for i := range rows {
		var parts []string
		for c := Column(0); c < NumColumns; c++ {
			if v, ok := rows[i].Value(c); ok {
				parts = append(parts, fmt.Sprintf("%s=%.5g", c, v))
			}
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

func TestStdoutLines(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string
	}{
		"epoch of":            {"Epoch 3/20\n", []string{"epoch=2 total_epochs=20"}},
		"epoch with a result": {"Epoch 3/20 loss: 0.5 acc: 91.5%\n", []string{"epoch=3 total_epochs=20 train_loss=0.5 train_accuracy=91.5"}},
		"brackets":            {"Epoch [3/20], Step [50/100], Loss: 0.25\n", []string{"epoch=2.5 total_epochs=20 train_loss=0.25"}},
		"epoch:":              {"epoch: 3 train_loss=1e-3 val_loss=0.02\n", []string{"epoch=3 train_loss=0.001 test_loss=0.02"}},
		"from zero":           {"Epoch 0: loss 0.5\nEpoch 1: loss 0.4\n", []string{"epoch=1 train_loss=0.5", "epoch=2 train_loss=0.4"}},
		"bare brackets":       {"[3/20] loss 0.5\n", []string{"step=3 total_steps=20 train_loss=0.5"}},
		"step of":             {"step 100/1000\n", []string{"step=100 total_steps=1000"}},
		"step alone":          {"step 250 | loss 3.2 | 1234.5 samples/s\n", []string{"step=250 train_loss=3.2 throughput=1234.5"}},
		"iter":                {"iter 100: loss 2.5, time 30.2ms, mfu 1.2%\n", []string{"step=100 train_loss=2.5"}},
		"tqdm":                {" 45%|####5     | 9/20 [00:10<00:12,  1.10s/it, loss=0.31]\r", []string{"step=9 total_steps=20 train_loss=0.31"}},
		"tqdm of epochs":      {"Epochs:  45%|####5     | 9/20 [00:10<00:12]\r", []string{"epoch=9 total_epochs=20"}},
		"tqdm in an epoch":    {"Epoch 2:  50%|#####     | 50/100 [00:10<00:12, loss=0.3]\r", []string{"epoch=1.5 train_loss=0.3"}},
		"tqdm of an epoch":    {"Epoch 1/5:  50%|█████     | 30/60 [00:01<00:01, 29.6it/s, loss=0.31]\rEpoch 1/5: 100%|██████████| 60/60 [00:02<00:00]\nEpoch 5/5: 100%|██████████| 60/60 [00:02<00:00]\n", []string{"epoch=0.5 total_epochs=5 train_loss=0.31", "epoch=1 total_epochs=5", "epoch=5 total_epochs=5"}},
		"generation":          {"generation 1/20  best fitness 3.250  mean 2.1\ngeneration 2/20  best fitness 3.5\n", []string{"step=1 total_steps=20", "step=2 total_steps=20"}},
		"rounds of clients":   {"[Round 3/10] loss: 0.5\n", []string{"step=3 total_steps=10 train_loss=0.5"}},
		"tqdm redraws":        {" 45%|####| 9/20 [00:10<00:12]\r 45%|####| 9/20 [00:11<00:12]\r 50%|#####| 10/20 [00:11<00:12]\r", []string{"step=9 total_steps=20", "step=10 total_steps=20"}},
		"download":            {"Downloading: 45%|####5     | 9/20 [00:10<00:12]\nValidating: 50%|## | 5/10\n", []string{}},
		"hugging face":        {"{'loss': 0.6931, 'grad_norm': 2.0, 'learning_rate': 5e-05, 'epoch': 0.25}\n", []string{"epoch=0.25 train_loss=0.6931"}},
		"colours":             {"\x1b[32mEpoch\x1b[0m \x1b[1m3\x1b[0m/20 loss 0.5\n", []string{"epoch=3 train_loss=0.5"}},
		"three of twenty":     {"Epoch 3 of 20 finished, epoch time: 12.5 s, loss 1\n", []string{"epoch=3 total_epochs=20 train_loss=1 epoch_time=12.5"}},
		"no progress":         {"Loading /data/3/20/file\nbatch size 64\n10:20:30 started, lr=0.1\n2025/07/01 hello\nerror 3/4\n", []string{}},
		"printed commands":    {"$ build/glove -x-max 10 -iter 25 < data/a.bin\n+ python train.py --epoch 25 --data a=b\n", []string{}},
		"lengths of LIBSVM":   {"optimization finished, #iter = 2034\nobj = -6314.5, rho = -0.75\noptimization finished, #iter = 1988\n", []string{}},
		"nan":                 {"epoch: 2 loss: nan\n", []string{"epoch=1"}},
		"validation later":    {"Epoch 1/2\nval_loss: 0.5 val_acc: 0.8\n", []string{"total_epochs=2", "epoch=1 total_epochs=2 test_loss=0.5 test_accuracy=0.8"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, TailOptions{Format: "stdout"})
			b.write(c.text)
			b.poll()
			want(t, "rows", strings.Join(progressOf(b.rows), "\n"), strings.Join(c.want, "\n"))
			want(t, "bad", b.stats().Bad, 0)
		})
	}
}

func TestStdoutPatterns(t *testing.T) {
	b := newBench(t, TailOptions{Format: "stdout", Patterns: []*regexp.Regexp{
		regexp.MustCompile(`^it\s+(?P<step>\d+) of (?P<total_steps>\d+) l=(?P<loss>\S+)`),
		regexp.MustCompile(`^pass (?P<epoch>\d+) acc (?P<accuracy>[\d.]+)% (?P<throughput>\d+)/s`),
	}})
	b.write("it 5 of 90 l=0.25\nEpoch 3/20\npass 2 acc 91.5% 1200/s\nit 6 of 90 l=oops\n")
	b.poll()
	want(t, "rows", progressOf(b.rows), []string{"step=5 total_steps=90 train_loss=0.25", "epoch=2 train_accuracy=91.5 throughput=1200", "step=6 total_steps=90"})
	for _, bad := range []string{`(?P<colour>\d+)`, `epoch (\d+)`} {
		if _, err := Open("x", TailOptions{Patterns: []*regexp.Regexp{regexp.MustCompile(bad)}}); err == nil {
			t.Errorf("pattern %s was taken", bad)
		}
	}
}

// Progress is followed in the same stream when the agent stops and restarts the job.
func TestStdoutOverRestart(t *testing.T) {
	b := newBench(t, TailOptions{})
	b.write("Epoch 1/4\nloss: 0.5\nEpoch 2/4\n")
	b.poll()
	b.restart(TailOptions{})
	b.append("loss: 0.4\n")
	want(t, "epochs", b.poll(), []float64{2})
	want(t, "format", b.stats().Format, "stdout")
}

// A trainer state that is rewritten at each checkpoint yields only its new entries, even if it is read half-written.
func TestTailDocumentRewritten(t *testing.T) {
	entry := func(i int) string { return fmt.Sprintf(`{"epoch": %g, "step": %d, "loss": 0.%d}`, float64(i)/4, i, i) }
	doc := func(n int) string {
		var parts []string
		for i := 1; i <= n; i++ {
			parts = append(parts, entry(i))
		}
		return `{"log_history": [7, ` + strings.Join(parts, ",\n") + `], "max_steps": 9}`
	}
	b := newBench(t, TailOptions{})
	b.write(doc(2))
	b.poll()
	want(t, "steps", values(b.rows, Step), []float64{1, 2})
	b.write(doc(4)[:len(doc(4))-30]) // half
	b.poll()
	b.write(doc(4))
	b.poll()
	b.ok(os.WriteFile(b.path+".new", []byte(doc(5)), 0o644))
	b.ok(os.Rename(b.path+".new", b.path))
	b.poll()
	b.restart(TailOptions{})
	b.poll()
	b.write(doc(6))
	b.poll()
	want(t, "steps", values(b.rows, Step), []float64{1, 2, 3, 4, 5, 6})
	want(t, "total", values(b.rows, TotalSteps), []float64{9, 9, 9, 9, 9, 9})
	want(t, "format, rows, bad", []any{b.stats().Format, b.stats().Rows, b.stats().FirstBad}, []any{"huggingface", 6, []string{`line 1: entry is not an object: "7"`}})
	b.write(doc(8)[:len(doc(8))-30]) // and never completed
	rows, err := b.tail.Finish(b.now)
	b.ok(err)
	want(t, "salvaged", values(rows, Step), []float64{7})
}

func TestDocumentInPieces(t *testing.T) {
	var parts []string
	for i := 1; i <= 5000; i++ {
		parts = append(parts, fmt.Sprintf(`{"epoch": %g, "step": %d, "loss": 0.5}`, float64(i)/100, i))
	}
	b := newBench(t, TailOptions{MaxRows: 700})
	b.write("[" + strings.Join(parts, ",") + "]")
	b.poll()
	steps := values(b.rows, Step)
	want(t, "rows", len(steps), 5000)
	for i, s := range steps {
		if s != float64(i+1) {
			t.Fatalf("row %d has step %g", i, s)
		}
	}
}

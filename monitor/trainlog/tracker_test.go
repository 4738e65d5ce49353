package trainlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// wandbFileOf returns a transaction log of the given messages.
func wandbFileOf(messages ...[]byte) []byte {
	out := slices.Clone(wandbMagic)
	put := func(kind byte, data []byte) {
		sum := crc32.ChecksumIEEE(append([]byte{kind}, data...))
		out = binary.LittleEndian.AppendUint32(out, sum)
		out = binary.LittleEndian.AppendUint16(out, uint16(len(data)))
		out = append(append(out, kind), data...)
	}
	for _, m := range messages {
		for first := true; ; first = false {
			left := wandbBlock - len(out)%wandbBlock
			if left < wandbHeader {
				out = append(out, make([]byte, left)...)
				left = wandbBlock
			}
			n := min(len(m), left-wandbHeader)
			last := n == len(m)
			put(byte(map[[2]bool]int{{true, true}: wholeRecord, {true, false}: firstPart, {false, false}: middlePart, {false, true}: lastPart}[[2]bool{first, last}]), m[:n])
			if m = m[n:]; last {
				break
			}
		}
	}
	return out
}

// wandbMessage returns a Record with one field, whose items are key and JSON value in turn.
func wandbMessage(field, item protowire.Number, pairs ...string) []byte {
	var inner []byte
	for i := 0; i < len(pairs); i += 2 {
		var one []byte
		name := protowire.Number(1)
		if strings.Contains(pairs[i], "/") {
			name = 2
		}
		for _, part := range strings.Split(pairs[i], "/") {
			one = protowire.AppendString(protowire.AppendTag(one, name, protowire.BytesType), part)
		}
		one = protowire.AppendString(protowire.AppendTag(one, 16, protowire.BytesType), pairs[i+1])
		inner = protowire.AppendBytes(protowire.AppendTag(inner, item, protowire.BytesType), one)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), inner)
}

func writeTo(t *testing.T, data []byte, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// wandbRunMessages is a run of four steps with configuration and system metrics.
func wandbRunMessages() [][]byte {
	config := wandbMessage(5, 1, "batch_size", "32", "epochs", "4", "model", `"resnet18"`, "_wandb", "{}", "epoch", "99")
	long := wandbMessage(2, 1, "_step", "2", "_runtime", "3.5", "_timestamp", "1795000003.5", "loss", "NaN", "caption", `"`+strings.Repeat("x", 3*wandbBlock)+`"`, "epoch", "2")
	environment := protowire.AppendVarint(protowire.AppendTag(nil, 17, protowire.VarintType), 16)
	environment = protowire.AppendString(protowire.AppendTag(environment, 18, protowire.BytesType), "NVIDIA A100-SXM4-40GB")
	environment = protowire.AppendVarint(protowire.AppendTag(environment, 19, protowire.VarintType), 2)
	return [][]byte{config, protowire.AppendBytes(protowire.AppendTag(nil, 26, protowire.BytesType), environment),
		wandbMessage(2, 1, "_step", "0", "_runtime", "1.5", "_timestamp", "1795000001.5", "train/loss", "0.5", "epoch", "0"),
		wandbMessage(7, 3, "gpu.1.gpu", "80.5", "cpu", "12", "gpu.1.temp", "60"),
		wandbMessage(2, 1, "_step", "1", "_runtime", "2.5", "_timestamp", "1795000002.5", "loss", "0.25", "val_acc", "0.75", "epoch", "1"),
		long,
		wandbMessage(2, 1, "_step", "3", "_runtime", "4.5", "_timestamp", "1795000004.5", "trainer/global_step", "30", "loss", "0.1", "epoch", "3")}
}

// TestWandb reads a run by its file, and by the directories that contain it.
func TestWandb(t *testing.T) {
	dir := t.TempDir()
	path := writeTo(t, wandbFileOf(wandbRunMessages()...), dir, "wandb", "offline-run-1", "run-abc.wandb")
	for _, p := range []string{path, filepath.Dir(path)} {
		rows, stats, err := ReadLog(p, TailOptions{})
		if err != nil || stats.Format != "wandb" || len(rows) != 4 || stats.Bad != 0 || stats.Behind != 0 {
			t.Fatalf("%s: %v, %+v, %d rows", p, err, stats, len(rows))
		}
		first, second, last := rows[0], rows[1], rows[3]
		if first.Model != "resnet18" || first.Device != "NVIDIA A100-SXM4-40GB" || !first.Stamp.Equal(time.Unix(1795000001, 5e8)) || first.GPUUtil != nil {
			t.Errorf("first row: %+v", first)
		}
		for c, want := range map[Column]float64{Epoch: 1, TotalEpochs: 4, Step: 0, BatchSize: 32, CPUCount: 16, GPUCount: 2, TrainLoss: 0.5, TimeSoFar: 1.5} {
			if v, ok := first.Value(c); !ok || v != want {
				t.Errorf("first row: %s %g, want %g", c, v, want)
			}
		}
		if v, _ := second.Value(TestAccuracy); v != 0.75 || len(second.GPUUtil) != 2 || !math.IsNaN(second.GPUUtil[0]) || second.GPUUtil[1] != 80.5 {
			t.Errorf("second row: %+v", second)
		}
		if _, ok := rows[2].Value(TrainLoss); ok {
			t.Error("NaN is a loss")
		}
		if v, _ := last.Value(Step); v != 30 {
			t.Errorf("last row: step %g, want that of the trainer", v)
		}
	}
	if got := RunsIn(filepath.Join(dir, "wandb")); !slices.Equal(got, []string{filepath.Dir(path)}) {
		t.Errorf("runs: %v", got)
	}
	if _, err := Open(path, TailOptions{Format: "wandb"}); !errors.Is(err, errNotFollowed) {
		t.Errorf("Open: %v", err)
	}
}

// TestWandbDamaged: a damaged part costs its block, a cut-off end only the record in it.
func TestWandbDamaged(t *testing.T) {
	whole := wandbFileOf(wandbRunMessages()...)
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		rows   int
		bad    bool
	}{
		"a byte of the first record": {func(b []byte) []byte { b[20] ^= 1; return b }, 1, true},
		"cut off":                    {func(b []byte) []byte { return b[:len(b)-5] }, 3, false},
		"header only":                {func(b []byte) []byte { return b[:len(wandbMagic)] }, 0, false},
	} {
		rows, stats, err := ReadLog(writeTo(t, c.damage(slices.Clone(whole)), t.TempDir(), "run-x.wandb"), TailOptions{})
		if len(rows) != c.rows || stats.Bad > 0 != c.bad || (err != nil) != (c.rows == 0) {
			t.Errorf("%s: %d rows, %+v, %v; want %d", name, len(rows), stats, err, c.rows)
		}
	}
}

// mlflowStore writes a file store with one run of three epochs and one without a known metric.
func mlflowStore(t *testing.T, dir string) (run string) {
	run = filepath.Join(dir, "1", "aaaa")
	writeTo(t, []byte("name: demo\n"), dir, "1", "meta.yaml")
	writeTo(t, []byte("run_id: aaaa\nstart_time: 1795000000000\nend_time: null\n"), run, "meta.yaml")
	writeTo(t, []byte("1795000001000 0.5 0\n1795000002000 0.25 1\n1795000003000 0.125 2\n"), run, "metrics", "loss")
	writeTo(t, []byte("1795000001100 0.7 0\nbroken\n1795000003100 0.9 2\n"), run, "metrics", "val", "accuracy")
	writeTo(t, []byte("1795000000500 40 0\n1795000002500 60 1\n"), run, "metrics", "system", "gpu_0_utilization_percentage")
	writeTo(t, []byte("1 2 3\n"), run, "metrics", "unknown")
	writeTo(t, []byte("3"), run, "params", "epochs")
	writeTo(t, []byte("vit_b_16"), run, "params", "model_name")
	writeTo(t, nil, dir, "1", "bbbb", "metrics", "other")
	writeTo(t, []byte("run_id: bbbb\n"), dir, "1", "bbbb", "meta.yaml")
	return run
}

func TestMLflow(t *testing.T) {
	store := t.TempDir()
	run := mlflowStore(t, store)
	rows, stats, err := ReadLog(run, TailOptions{})
	if err != nil || stats.Format != "mlflow" || len(rows) != 3 || stats.Bad != 1 || rows[0].Model != "vit_b_16" {
		t.Fatalf("%v, %+v, %+v", err, stats, rows)
	}
	var got [][]float64
	for _, r := range rows {
		var line []float64
		for _, c := range []Column{Epoch, TotalEpochs, TrainLoss, TestAccuracy, TimeSoFar} {
			v, ok := r.Value(c)
			if !ok {
				v = -1
			}
			line = append(line, v)
		}
		got = append(got, append(line, r.GPUUtil...))
	}
	if want := [][]float64{{1, 3, 0.5, 0.7, 1.1, 40}, {2, 3, 0.25, -1, 2, 40}, {3, 3, 0.125, 0.9, 3.1, 60}}; !reflect.DeepEqual(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	gone := filepath.Join(store, "1", "cccc")
	if err := errors.Join(os.MkdirAll(filepath.Join(gone, "metrics"), 0o755), os.WriteFile(filepath.Join(gone, "meta.yaml"), []byte("lifecycle_stage: deleted\nname: x\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if runs := RunsIn(store); !slices.Equal(runs, []string{run, filepath.Join(store, "1", "bbbb")}) {
		t.Errorf("runs: %v", runs)
	}
	if runs := RunsIn(run); !slices.Equal(runs, []string{run}) {
		t.Errorf("run: %v", runs)
	}
	if _, _, err := ReadLog(filepath.Join(store, "1", "bbbb"), TailOptions{}); !errors.Is(err, ErrNoData) {
		t.Errorf("without a known metric: %v", err)
	}
	steps := filepath.Join(store, "2", "cccc") // all values at step 0
	writeTo(t, []byte("run_id: cccc\n"), steps, "meta.yaml")
	writeTo(t, []byte("1795000001000 0.5 0\n1795000002000 0.25 0\n"), steps, "metrics", "loss")
	rows, _, err = ReadLog(steps, TailOptions{})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %+v", err, rows)
	}
	if _, has := rows[1].Value(Step); has {
		t.Errorf("values logged without a step have one: %+v", rows[1])
	}
}

// TestFollowEvents: an event file that grows by any number of bytes gives the rows of the finished file, once each, also
// across a restart of the agent.
func TestFollowEvents(t *testing.T) {
	for _, source := range []string{"torch", "keras/train"} {
		files, err := filepath.Glob("testdata/tensorboard/" + source + "/events*")
		if err != nil || len(files) == 0 {
			t.Fatal(source, files, err)
		}
		data, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, chunk := range []int{7, 100, 5000, len(data)} {
			t.Run(fmt.Sprint(source, chunk), func(t *testing.T) { followEvents(t, data, filepath.Base(filepath.Dir(files[0])), chunk) })
		}
	}
}

func followEvents(t *testing.T, data []byte, folder string, chunk int) {
	path := writeTo(t, data, t.TempDir(), folder, "events.out.tfevents.1.x")
	want, _, err := ReadLog(path, TailOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tail, err := Open(path, TailOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []Row
	now := time.Now()
	for end, n := 0, 0; end < len(data); n++ {
		end = min(end+chunk, len(data))
		writeTo(t, data[:end], path)
		rows, err := tail.Poll(now)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rows...)
		if n%10 == 5 {
			state := tail.State()
			tail.Close()
			if tail, err = Open(path, TailOptions{Resume: &state}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for {
		rows, err := tail.Finish(now)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, rows...); len(rows) == 0 {
			break
		}
	}
	if stats := tail.Stats(); stats.Format != "tensorboard" || stats.Bad > 0 || len(got) != len(want) {
		t.Fatalf("%d rows, want %d: %+v", len(got), len(want), stats)
	}
	for i := range want {
		want[i].At = now
		if a, b := fmt.Sprint(got[i].Values()), fmt.Sprint(want[i].Values()); a != b {
			t.Errorf("row %d: %v, want %v", i, a, b)
		}
	}
	tail.Close()
}

func TestLatestEvents(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for name, age := range map[string]time.Duration{"run/train/events.out.tfevents.1": 3, "run/validation/events.out.tfevents.2": 1, "old/events.out.tfevents.0": 100, "run/other.txt": 0} {
		path := writeTo(t, []byte("x"), dir, name)
		if err := os.Chtimes(path, now, now.Add(-age*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if got := LatestEvents(dir, now.Add(-50*time.Second)); got != filepath.Join(dir, "run/train/events.out.tfevents.1") {
		t.Error(got)
	}
	if got := LatestEvents(dir, now.Add(time.Second)); got != "" {
		t.Error(got)
	}
}

// FuzzWandb: no input makes the reader fail or loop.
func FuzzWandb(f *testing.F) {
	f.Add(wandbFileOf(wandbRunMessages()...))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, _ = ReadLog(writeTo(t, append(slices.Clone(wandbMagic), data...), t.TempDir(), "run-x.wandb"), TailOptions{})
	})
}

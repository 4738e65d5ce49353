package trainlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// Output of the real writers: Keras 3.15 on TensorFlow 2.21 (two calls of fit, the second with batch values) beside
// its own CSVLogger, and tensorboardX 2.6.
func TestTensorBoardRecordings(t *testing.T) {
	rows, stats, err := ReadLog("testdata/tensorboard/keras", TailOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csv, _, err := ReadLog("testdata/tensorboard/keras.csv", TailOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "format, bad, behind", []any{stats.Format, stats.Bad, stats.Behind}, []any{"tensorboard", 0, 0})
	for _, c := range []Column{Epoch, TrainLoss, TrainAccuracy, TestLoss, TestAccuracy} {
		want(t, c.String(), fmt.Sprintf("%.5g", values(rows, c)), fmt.Sprintf("%.5g", values(csv, c)))
	}
	want(t, "epoch time", fmt.Sprintf("%.3f", values(rows, EpochTime)), "[-1.000 0.378 0.164 -1.000 0.134]")
	want(t, "time", fmt.Sprintf("%.3f", values(rows, TimeSoFar)), "[1.317 1.695 1.859 2.089 2.224]")
	want(t, "year", rows[0].Stamp.UTC().Year(), 2026)

	rows, _, err = ReadLog("testdata/tensorboard/torch", TailOptions{Aliases: map[string]string{"lr": "throughput"}})
	if err != nil {
		t.Fatal(err)
	}
	checkColumns(t, rows, map[Column][]float64{Step: {0, 1, 2, 3}, TrainLoss: {1, .5, 1. / 3, .25}, TestLoss: {1.1, .55, 1.1 / 3, .275},
		TrainAccuracy: {0, .1, .2, .3}, TestAccuracy: {0, .09, .18, .27}, Throughput: {.001, .001, .001, .001}})
	if v, _ := rows[1].Value(TrainAccuracy); v != 0.1 {
		t.Errorf("a float32 of 0.1 is read as %g", v)
	}
}

// Targets of the tags of common writers.
func TestTensorBoardTags(t *testing.T) {
	const nowhere = Column(-1)
	for tag, want := range map[string]map[split]Column{
		"Loss/train": {splitUnknown: TrainLoss}, "Loss/test": {splitUnknown: TestLoss}, "Accuracy/valid": {splitUnknown: TestAccuracy},
		"Loss": {splitUnknown: TrainLoss, splitTrain: TrainLoss, splitHeld: TestLoss}, "train_loss_step": {splitUnknown: TrainLoss},
		"train_loss_epoch": {splitUnknown: TrainLoss}, "val_acc": {splitUnknown: TestAccuracy}, "epoch": {splitUnknown: Epoch},
		"train/loss": {splitUnknown: TrainLoss}, "eval/loss": {splitUnknown: TestLoss}, "eval/accuracy": {splitUnknown: TestAccuracy},
		"train/epoch": {splitUnknown: Epoch}, "train/train_samples_per_second": {splitUnknown: Throughput}, "train/train_runtime": {splitUnknown: TimeSoFar},
		"train/train_loss": {splitUnknown: nowhere}, "eval/runtime": {splitUnknown: nowhere}, "eval/samples_per_second": {splitUnknown: nowhere},
		"epoch_loss": {splitTrain: TrainLoss, splitHeld: TestLoss}, "epoch_sparse_categorical_accuracy": {splitHeld: TestAccuracy},
		"epoch_time": {splitUnknown: EpochTime}, "batch_accuracy": {splitTrain: nowhere}, "evaluation_accuracy_vs_iterations": {splitHeld: nowhere},
		"epoch_learning_rate": {splitTrain: nowhere}, "mine": {splitUnknown: Throughput}, "theirs": {splitTrain: nowhere, splitHeld: TestLoss},
	} {
		for s, column := range want {
			o := TailOptions{Aliases: map[string]string{"mine": "throughput", "validation/theirs": "test_loss"}}
			names, err := userAliases(o.Aliases)
			if err != nil {
				t.Fatal(err)
			}
			got := resolveTag(&parseOptions{aliases: names}, s, tag)
			if (got.kind == toColumn) != (column != nowhere) || got.kind == toColumn && got.column != column {
				t.Errorf("%s of %d goes to %d %s, want %s", tag, s, got.kind, got.column, column)
			}
		}
	}
	if math.IsNaN(later(math.NaN(), 1)) || earlier(math.NaN(), 1) != 1 || later(1, 2) != 2 || earlier(2, math.NaN()) != 2 {
		t.Error("a time that is not known counts")
	}
}

// firstEvents returns the path of an event file written by torch.
func firstEvents(t testing.TB) string {
	t.Helper()
	files, err := filepath.Glob("testdata/tensorboard/torch/events*")
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %v", files, err)
	}
	return files[0]
}

// frame returns the record of data.
func frame(data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(crc32.Checksum(b, castagnoli)))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, maskedCRC(crc32.Checksum(data, castagnoli)))
}

// scalarEvent returns the record of one value.
func scalarEvent(step int, tag string, v float32) []byte {
	value := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), tag)
	value = protowire.AppendFixed32(protowire.AppendTag(value, 2, protowire.Fixed32Type), math.Float32bits(v))
	summary := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), value)
	e := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(1.7e9+float64(step)))
	e = protowire.AppendVarint(protowire.AppendTag(e, 2, protowire.VarintType), uint64(step))
	return frame(protowire.AppendBytes(protowire.AppendTag(e, 5, protowire.BytesType), summary))
}

// eventLog returns an event file with one loss per step, from step 0.
func eventLog(steps int) []byte {
	var b []byte
	for s := range steps {
		b = append(b, scalarEvent(s, "train_loss", float32(s))...)
	}
	return b
}

// Effects of damage to an event file. All records have the same length.
func TestEventsDamaged(t *testing.T) {
	record := len(eventLog(1))
	long := binary.LittleEndian.AppendUint64(nil, 1<<60)
	long = binary.LittleEndian.AppendUint32(long, maskedCRC(crc32.Checksum(long, castagnoli)))
	for name, c := range map[string]struct {
		log    []byte
		steps  []float64
		bad    []string
		noted  []string
		behind int
	}{
		"whole":               {log: eventLog(4), steps: []float64{0, 1, 2, 3}},
		"cut in the data":     {log: eventLog(4)[:4*record-9], steps: []float64{0, 1, 2}, behind: record - 9},
		"cut in the header":   {log: eventLog(4)[:3*record+5], steps: []float64{0, 1, 2}, behind: 5},
		"a bit of the data":   {log: flip(eventLog(4), record+20), steps: []float64{0, 2, 3}, bad: []string{fmt.Sprintf("line 2: FILE: byte %d: the checksum of a record of %d bytes is wrong", record, record-16)}},
		"a bit of the length": {log: flip(eventLog(4), record), steps: []float64{0, 2, 3}, bad: []string{fmt.Sprintf("line 2: FILE: byte %d: %d bytes that are no record", record, record)}},
		"a block of NULs": {log: slices.Concat(eventLog(2), make([]byte, 4096), eventLog(4)[2*record:]), steps: []float64{0, 1, 2, 3},
			bad: []string{fmt.Sprintf("line 3: FILE: byte %d: 4096 bytes that are no record", 2*record)}},
		"NULs at the end":    {log: append(eventLog(2), make([]byte, 4096)...), steps: []float64{0, 1}, bad: []string{fmt.Sprintf("line 3: FILE: byte %d: 4096 bytes that are no record", 2*record)}},
		"a length that lies": {log: slices.Concat(eventLog(2), long, eventLog(4)[2*record:]), steps: []float64{0, 1}, behind: 12 + 2*record},
		"a record too long":  {log: slices.Concat(eventLog(2), frame(make([]byte, maxRecord+1)), eventLog(4)[2*record:]), steps: []float64{0, 1, 2, 3}, bad: []string{fmt.Sprintf("line 3: FILE: byte %d: a record of %d bytes: more than %d", 2*record, maxRecord+1, maxRecord)}},
		"no event":           {log: slices.Concat(eventLog(2), frame([]byte{0xff, 0xff}), eventLog(4)[2*record:]), steps: []float64{0, 1, 2, 3}, bad: []string{fmt.Sprintf("line 3: FILE: byte %d: the record is no event", 2*record)}},
		"a damaged summary":  {log: slices.Concat(eventLog(1), frame([]byte{5<<3 | 2, 2, 0x0a, 9})), steps: []float64{0}, bad: []string{fmt.Sprintf("line 2: FILE: byte %d: the summary of the event is damaged", record)}},
		"nan and inf":        {log: slices.Concat(eventLog(1), scalarEvent(1, "train_loss", float32(math.NaN())), scalarEvent(2, "val_loss", float32(math.Inf(1))), scalarEvent(3, "val_loss", 1)), steps: []float64{0, 3}, noted: []string{`line 2: train_loss is "NaN": no data`, `line 3: val_loss is "+Inf": no data`}},
		"a step goes back":   {log: slices.Concat(eventLog(3), scalarEvent(1, "train_loss", 9)), steps: []float64{0, 1, 2, 1}, noted: []string{"line 4: step goes back from 2 to 1", "line 4: time_so_far goes back from 2 to 1"}},
		"two tags of a step": {log: slices.Concat(eventLog(1), scalarEvent(0, "val_loss", 2), scalarEvent(0, "nobody knows", 2)), steps: []float64{0}},
		"other records":      {log: slices.Concat(frame(nil), eventLog(1), frame([]byte{3<<3 | 2, 1, 'x'})), steps: []float64{0}},
	} {
		for _, gz := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/gzip=%v", name, gz), func(t *testing.T) {
				data := c.log
				if gz {
					data = zipped(t, data)
				}
				path := writeLog(t, "events.out.tfevents.1.host", data)
				rows, s, err := ReadLog(path, TailOptions{})
				if err != nil {
					t.Fatal(err)
				}
				want(t, "steps", values(rows, Step), c.steps)
				want(t, "format, bad, noted, behind", []any{s.Format, s.Bad, s.Noted, s.Behind}, []any{"tensorboard", len(c.bad), len(c.noted), c.behind})
				want(t, "bad", strings.ReplaceAll(fmt.Sprint(s.FirstBad), path, "FILE"), fmt.Sprint(c.bad))
				want(t, "noted", s.FirstNoted, append([]string{}, c.noted...))
			})
		}
	}
}

func flip(b []byte, at int) []byte {
	b[at] ^= 1
	return b
}

// The memory for an event file does not depend on its size, nor on false record lengths.
func TestEventsMemory(t *testing.T) {
	many := writeLog(t, "events.out.tfevents.1", eventLog(200_000))
	lie := binary.LittleEndian.AppendUint64(nil, maxRecord)
	lie = binary.LittleEndian.AppendUint32(lie, maskedCRC(crc32.Checksum(lie, castagnoli)))
	lies := writeLog(t, "events.out.tfevents.2", append(eventLog(2), bytes.Repeat(lie, 10_000)...))
	for path, rows := range map[string]int{many: 200_000, lies: 2} {
		peak := heapPeak(func(sample func()) {
			n := 0
			s, err := Scan(path, TailOptions{}, func(*Row) error {
				if n++; n%1000 == 1 {
					sample()
				}
				return nil
			})
			sample()
			want(t, "rows, error", []any{s.Rows, err}, []any{rows, nil})
		})
		if peak > 8<<20 {
			t.Errorf("%s took %d MiB", filepath.Base(path), peak>>20)
		}
	}
}

// Restarts leave several files in a directory; the gaps between them are not counted as training time.
func TestEventsOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	for i, steps := range [][2]int{{0, 3}, {1002, 1004}} { // the second begins 1000 s later, one step back
		var log []byte
		for s := steps[0]; s < steps[1]; s++ {
			log = append(log, scalarEvent(s, "train_loss", float32(s))...)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%d.host", i)), log, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rows, s, err := ReadLog(dir, TailOptions{})
	want(t, "error, path, bad", []any{err, s.Path, s.Bad}, []any{nil, dir, 0})
	want(t, "steps", values(rows, Step), []float64{0, 1, 2, 1002, 1003})
	want(t, "time", values(rows, TimeSoFar), []float64{0, 1, 2, 2, 3})
}

// FuzzEvents reads arbitrary bytes as an event file: no crash, no impossible value, bounded memory, and consistent
// statistics.
func FuzzEvents(f *testing.F) {
	data, err := os.ReadFile(firstEvents(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(eventLog(3))
	f.Add(flip(eventLog(3), 70))
	f.Add(append(eventLog(1), 1, 2, 3))
	f.Add(frame([]byte{9, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f, 16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "events.out.tfevents.1")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		rows, s, err := ReadLog(path, TailOptions{Format: "tensorboard"})
		if err != nil && !errors.Is(err, ErrNoData) && !errors.Is(err, errCompressed) {
			t.Fatal(err)
		}
		if s.Rows != len(rows) || s.Bytes+s.Behind != int64(len(data)) && s.Bytes > 0 && !bytes.HasPrefix(data, []byte{0x1f, 0x8b, 8}) {
			t.Fatalf("%d rows of %d bytes: %+v", len(rows), len(data), s)
		}
		for i := range rows {
			checkRow(t, &rows[i])
		}
	})
}

// FuzzEvent reads arbitrary bytes as the data of one record, past the checksums that a fuzzer does not find.
func FuzzEvent(f *testing.F) {
	f.Add(eventLog(1)[recordHeader : len(eventLog(1))-4])
	f.Add([]byte{5<<3 | 2, 4, 0x0a, 2, 0x42, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		e, ok := decodeEvent(data)
		if !ok {
			return
		}
		eachScalar(e.summary, func(tag []byte, v float64) {
			if len(tag) > len(data) {
				t.Fatalf("a tag of %d bytes in %d", len(tag), len(data))
			}
			resolveTag(&parseOptions{}, splitHeld, string(tag))
		})
	})
}

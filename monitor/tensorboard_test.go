package monitor

import (
	"fmt"
	"math"
	"testing"
)

// What the real writers wrote: Keras 3.15 on TensorFlow 2.21 (two calls of fit, the second with batch values) beside its own
// CSVLogger, and tensorboardX 2.6.
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

// Where the tags of the usual writers go.
func TestTensorBoardTags(t *testing.T) {
	const nowhere = Column(-1)
	for tag, want := range map[string]map[split]Column{
		"Loss/train": {splitUnsaid: TrainLoss}, "Loss/test": {splitUnsaid: TestLoss}, "Accuracy/valid": {splitUnsaid: TestAccuracy},
		"Loss": {splitUnsaid: TrainLoss, splitTrain: TrainLoss, splitHeld: TestLoss}, "train_loss_step": {splitUnsaid: TrainLoss},
		"train_loss_epoch": {splitUnsaid: TrainLoss}, "val_acc": {splitUnsaid: TestAccuracy}, "epoch": {splitUnsaid: Epoch},
		"train/loss": {splitUnsaid: TrainLoss}, "eval/loss": {splitUnsaid: TestLoss}, "eval/accuracy": {splitUnsaid: TestAccuracy},
		"train/epoch": {splitUnsaid: Epoch}, "train/train_samples_per_second": {splitUnsaid: Throughput}, "train/train_runtime": {splitUnsaid: TimeSoFar},
		"train/train_loss": {splitUnsaid: nowhere}, "eval/runtime": {splitUnsaid: nowhere}, "eval/samples_per_second": {splitUnsaid: nowhere},
		"epoch_loss": {splitTrain: TrainLoss, splitHeld: TestLoss}, "epoch_sparse_categorical_accuracy": {splitHeld: TestAccuracy},
		"epoch_time": {splitUnsaid: EpochTime}, "batch_accuracy": {splitTrain: nowhere}, "evaluation_accuracy_vs_iterations": {splitHeld: nowhere},
		"epoch_learning_rate": {splitTrain: nowhere}, "mine": {splitUnsaid: Throughput}, "theirs": {splitTrain: nowhere, splitHeld: TestLoss},
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

package main

import (
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
)

// learning is a small training that stops once it has converged. Large batches have fast epochs but need many of them: a
// run takes 0.9 s at batch size 16, 3 s at 32 and 6 s at 64, the script's default: more than starts differ on a busy machine.
const learning = `import os, time
batch = int(os.environ.get("OPTIMIZER_BATCH_SIZE", "64"))
pace, epochs = {16: (0.3, 3), 32: (0.25, 12), 64: (0.2, 30)}[batch]
log = os.environ.get("OPTIMIZER_LOG", "log.csv")
open(log, "w").write("epoch,data_count,batch_size,epoch_time,train_loss\n")
for epoch in range(1, epochs + 1):
    time.sleep(pace)
    with open(log, "a") as f: f.write("%d,100,%d,%g,%g\n" % (epoch, batch, pace, 1 / epoch))
`

// TestBanditMovesToTheBetterBatch checks that over the recurrences of a job the batch size converges to the one with
// the shortest run, although its epochs are the slowest.
func TestBanditMovesToTheBetterBatch(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("learn.py", learning)
	var chosen []int
	var last *journal.Record
	for range 5 {
		code, rec, errs := w.record("--train", script, "--planner", "bandit", "--batch-size", "16:64", "--cpus", "1", "--prefer", "time", "--interval", "0.1")
		if code != run.CodeDone {
			t.Fatalf("exit %d\n%s", code, errs)
		}
		chosen, last = append(chosen, int(rec.Training.BatchSize)), rec // as reported in the script's log
	}
	if want := []int{64, 32, 16, 16, 16}; !slices.Equal(chosen, want) {
		t.Errorf("batch sizes %v, want %v: the own, then outwards, then the best", chosen, want)
	}
	if p := last.Plan; p == nil || p.Planner != "bandit" || p.Allocation.BatchSize != 16 || !strings.Contains(p.Reason, "recurrence 5 of this job: batch 16") {
		t.Errorf("plan of the last run %+v", p)
	}
}

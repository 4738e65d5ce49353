package run

import (
	"os"
	"path/filepath"
	"testing"

	"trainopt/monitor/trainlog"
	"trainopt/resources"
)

// rowsOf returns the rows of a log with the given contents.
func rowsOf(t *testing.T, text string) []trainlog.Row {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	rows, _, err := trainlog.ReadLog(path, trainlog.TailOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestProgressWithinEpochs: the rows within an epoch do not complete it: the training is not finished before the last epoch
// ends. The first row of a log, which may complete its epoch, does not finish the training either.
func TestProgressWithinEpochs(t *testing.T) {
	const several = "epoch,step,loss\n0,10,2\n0,20,1.9\n0,30,1.8\n1,40,1.7\n1,50,1.6\n"
	for name, c := range map[string]struct {
		text     string
		total    float64
		done     []float64 // after each row
		finished int       // number of rows after which it is finished; 0: only at the end of the log
		blocks   []float64 // of the rows, one per second
		end      float64
	}{
		"several rows":     {several, 2, []float64{1, 0, 0, 1, 4. / 3}, 0, []float64{3}, 2},
		"of one epoch":     {"epoch,step,loss\n1,10,2\n1,20,1.9\n1,30,1.8\n", 1, []float64{1, 0, 0}, 0, nil, 1},
		"the first row":    {"epoch,step,loss\n1,10,2\n", 1, []float64{1}, 0, nil, 1},
		"more than a row":  {"epoch,step,loss\n1,100,2\n2,200,1.9\n2,300,1.7\n", 2, []float64{1, 2, 1}, 0, []float64{1}, 2},
		"one row":          {"epoch,step,loss\n1,10,2\n2,20,1.9\n3,30,1.8\n", 3, []float64{1, 2, 3}, 3, []float64{1, 1}, 3},
		"one row, no step": {"epoch,loss\n1,2\n2,1.9\n", 2, []float64{1, 2}, 2, []float64{1}, 2},
		"validated":        {"epoch,step,train_loss,test_loss\n1,10,2,\n1,20,1.9,3\n2,30,1.8,\n2,40,1.7,2.9\n", 2, []float64{1, 0, 1, 2}, 4, []float64{2, 1}, 2},
		"fractions from 0": {"epoch,step,loss\n0,0,2\n0.5,5,2\n1,10,2\n1.5,15,2\n2,20,2\n", 2, []float64{1, 0.5, 1, 1.5, 2}, 5, []float64{2, 2}, 2},
		"early end":        {several, 5, []float64{1, 0, 0, 1, 4. / 3}, 0, []float64{3}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var p Progress
			p.Suggest("epoch", hint{Units: c.total})
			seg := begin(&p, 0)
			for i, r := range rowsOf(t, c.text) {
				p.Add(&r, at(float64(i+1)))
				if !near(p.Done, c.done[i]) || p.Finished() != (i+1 == c.finished) {
					t.Errorf("row %d: %g epochs, finished %t; want %g, %t", i+1, p.Done, p.Finished(), c.done[i], i+1 == c.finished)
				}
			}
			wantBlocks(t, seg, c.blocks...)
			if p.Backwards > 0 {
				t.Errorf("%d rows go backwards", p.Backwards)
			}
			if rest, ok := p.endOfLog(); !ok || rest != max(0, c.total-c.end) || p.Done != c.end || p.Finished() != (c.end == c.total) {
				t.Errorf("at the end of the log %g epochs and %g left (%t), finished %t; want %g of %g", p.Done, rest, ok, p.Finished(), c.end, c.total)
			}
		})
	}
}

// TestFirstRowWithinEpoch: the start-up extends to the first row, also where that counted as the end of an epoch at first, and
// such a row is no reason to count epochs instead of steps.
func TestFirstRowWithinEpoch(t *testing.T) {
	var p Progress
	begin(&p, 0)
	for i, r := range rowsOf(t, "epoch,step,loss\n1,10,2\n1,20,1.9\n2,30,1.8\n2,40,1.7\n3,50,1.6\n") {
		p.Add(&r, at(20+float64(i)))
	}
	if got := p.StartupSeconds(); len(got) != 1 || !near(got[0], 20) {
		t.Errorf("start-up %v, want 20 s", got)
	}
	p = Progress{}
	p.Suggest("step", hint{Units: 100})
	begin(&p, 0)
	for _, r := range rowsOf(t, "step,loss\n5,2\n") {
		p.Add(&r, at(1))
	}
	p.Suggest("epoch", hint{Units: 2})
	for i, r := range rowsOf(t, "epoch,step,loss\n1,10,2\n1,20,1.9\n") {
		if p.Add(&r, at(2+float64(i))); p.Unit != "step" || p.Total != 100 {
			t.Errorf("row %d: %g of %g %ss, want steps", i+1, p.Done, p.Total, p.Unit)
		}
	}
}

// TestResumedWithinEpoch: a checkpoint before the epoch in progress takes it back, and a launch without further rows does not
// complete it.
func TestResumedWithinEpoch(t *testing.T) {
	var p Progress
	p.Suggest("epoch", hint{Units: 3})
	begin(&p, 0)
	for i, r := range rowsOf(t, "epoch,step,loss\n1,10,2\n1,20,1.9\n2,30,1.8\n2,40,1.7\n") {
		p.Add(&r, at(1+float64(i)))
	}
	p.Begin(at(10), resources.Allocation{CPUs: 2}, "run", true)
	p.ResumeFrom(1)
	if rest, _ := p.endOfLog(); rest != 2 {
		t.Errorf("%g epochs left, want 2", rest)
	}
}

// TestProgressOfGlobalSteps: a printed step of the whole training is none of the epoch beside it.
func TestProgressOfGlobalSteps(t *testing.T) {
	var p Progress
	p.Suggest("epoch", hint{Units: 3})
	begin(&p, 0)
	for i, r := range rowsOf(t, "global step 100/300, epoch: 0, loss: 1\nglobal step 110/300, epoch: 1, loss: 1\n") {
		p.Add(&r, at(1+float64(i)))
		if want := 100 + 10*float64(i); p.Unit != "step" || p.Done != want || p.Total != 300 {
			t.Errorf("%g of %g %ss, want %g of 300 steps", p.Done, p.Total, p.Unit, want)
		}
	}
}

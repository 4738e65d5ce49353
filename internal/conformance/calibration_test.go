package conformance

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

var (
	calibrationFlag = flag.Int("calibration", 0, "runs of TestCalibration on the machine as it is, and as many under load; 0: skip")
	loadFlag        = flag.Int("load", 30, "computing processes beside the runs of the second half")
)

// calibrated lists trainings whose total is known from the command line or the output.
var calibrated = []string{"pytorch-loader", "plain", "keras", "hf-trainer", "scikit-learn", "lightning", "plain-slow-start", "torchrun", "xgboost", "accelerate"}

// TestCalibration measures the coverage of the predicted 90 % intervals on a quiet and on a loaded machine. A run
// without a prediction counts as a miss. It takes an hour or more and therefore runs on request only.
func TestCalibration(t *testing.T) {
	if *calibrationFlag == 0 {
		t.Skip("a benchmark: give -calibration N")
	}
	interpreter(t)
	for _, c := range []struct {
		name string
		load int
		full bool
	}{{"quiet", 0, true}, {"loaded", *loadFlag, false}} { // under load a short training lasts as long as a full one
		t.Run(c.name, func(t *testing.T) {
			stop := func() {}
			if c.load > 0 {
				stop = startLoad(t, c.load)
			}
			defer stop()
			held := 0
			for i := range *calibrationFlag {
				tr := named(t, calibrated[i%len(calibrated)])
				length := tr.short
				if c.full {
					length = tr.full
				}
				w := newWorkplace(t, tr)
				w.counted = false
				w.timed(w.wrapped(length))
				r, word := w.record(), "no prediction"
				if r.Plan != nil && r.Plan.Prediction != nil {
					p := r.Plan.Prediction.Seconds
					word = "outside"
					if within(r.Outcome.Seconds, p) {
						held++
						word = "inside"
					}
					word = fmt.Sprintf("predicted %.1f–%.1f s, %s", p.P5, p.P95, word)
				}
				fmt.Fprintf(os.Stderr, "%s, %s: took %.1f s, %s\n", c.name, tr.name, r.Outcome.Seconds, word)
			}
			t.Logf("%d of %d outcomes inside their 90 %% intervals", held, *calibrationFlag)
			if want := (*calibrationFlag*17 + 19) / 20; held < want {
				t.Errorf("%d of %d outcomes inside their 90 %% intervals, want at least %d", held, *calibrationFlag, want)
			}
		})
	}
}

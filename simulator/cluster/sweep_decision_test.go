package cluster

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

// Every policy that proves a bound stays within 1 % of the optimum, from scratch and after changes.
func TestLossIsBounded(t *testing.T) {
	for _, policy := range []string{"best_match", "max_min_fairness_perf", "sia", "srtf"} {
		for _, kinds := range []int{0, 20} {
			r, err := (DecisionConfig{Policy: policy, Devices: 1000, Types: 4, Jobs: 1500, Kinds: kinds, Changes: 20}).Measure()
			if err != nil {
				t.Fatal(err)
			}
			for name, s := range map[string]decisionStep{"first": r.First, "next": r.Next} {
				if loss := float64(s.MaxLoss); !(loss >= 0 && loss <= 0.01) {
					t.Errorf("%s, %d kinds, %s decision: %v below the optimum, want at most 1 %%", policy, kinds, name, loss)
				}
				if s.Placed == 0 || !math.IsNaN(float64(s.Seconds)) {
					t.Errorf("%s, %s decision: %d jobs placed in %v s, without a clock", policy, name, s.Placed, s.Seconds)
				}
			}
		}
	}
}

// The same seed gives the same result, to the last digit of the loss.
func TestSameSeed(t *testing.T) {
	for _, policy := range []string{"max_min_fairness_perf", "sia", "srtf"} {
		var out [2]bytes.Buffer
		for k := range out {
			r, err := (DecisionConfig{Policy: policy, Devices: 300, Types: 4, Jobs: 500, Kinds: 20, Changes: 20}).Measure()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Write(&out[k], "json"); err != nil {
				t.Fatal(err)
			}
		}
		if out[0].String() != out[1].String() {
			t.Errorf("got\n%s\nand\n%s", &out[0], &out[1])
		}
	}
}

// A policy without a bound reports none, and the same seed gives the same decision.
func TestUnknownLossAndSameSeed(t *testing.T) {
	c := DecisionConfig{Policy: "fifo_perf", Devices: 10, Types: 3, Jobs: 30, Kinds: 3, Changes: 5, Clock: func() time.Duration { return 0 }, CPU: func() time.Duration { return 0 }}
	var out [2]bytes.Buffer
	for k := range out {
		r, err := c.Measure()
		if err != nil {
			t.Fatal(err)
		}
		if !math.IsNaN(float64(r.First.MaxLoss)) || r.First.Placed != 10 {
			t.Errorf("loss %v, %d jobs placed on 10 devices", r.First.MaxLoss, r.First.Placed)
		}
		if err := r.Write(&out[k], "text"); err != nil {
			t.Fatal(err)
		}
	}
	if out[0].String() != out[1].String() || !strings.Contains(out[0].String(), "the policy proves no bound") {
		t.Errorf("got\n%s\nand\n%s", &out[0], &out[1])
	}
}

func TestSweepRefusals(t *testing.T) {
	for want, c := range map[string]DecisionConfig{
		"0 types of device":  {Policy: "srtf", Devices: 1, Jobs: 1},
		"2 devices: want 3":  {Policy: "srtf", Devices: 2, Types: 3, Jobs: 1},
		"0 jobs":             {Policy: "srtf", Devices: 1, Types: 1},
		"-1 kinds of jobs":   {Policy: "srtf", Devices: 1, Types: 1, Jobs: 1, Kinds: -1},
		"2 changes: want 0 ": {Policy: "srtf", Devices: 1, Types: 1, Jobs: 1, Changes: 2},
		`policy "x"`:         {Policy: "x", Devices: 1, Types: 1, Jobs: 1},
	} {
		if _, err := c.Measure(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

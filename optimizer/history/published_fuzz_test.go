package history

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func FuzzReadPlacements(f *testing.F) {
	f.Add("placement,local_bsz,step_time,sync_time\n14,32,0.1,0.05\n")
	f.Add("local_bsz,step_time,sync_time,placement\n115.0,0.2,0,1\n\"")
	f.Add("placement,local_bsz,step_time\n1,1e999,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := readPlacements(strings.NewReader(text))
		if err == nil && len(rows) == 0 {
			t.Fatal("neither rows nor an error")
		}
		for _, r := range rows {
			if !(r.Seconds > 0) || !(r.Batch >= 1) || r.GPUs() < 1 || math.IsInf(r.Seconds, 0) {
				t.Fatalf("%+v", r)
			}
		}
		_, _ = readProgress(strings.NewReader(text), 10)
	})
}

func FuzzReadGavel(f *testing.F) {
	f.Add(`{"k80":{"('LM (batch size 5)', 1)":{"null":2.5},"('LM (batch size 5)', 2)":{"null":4}}}`)
	f.Add(`{"v100":{"('LM (batch size 5)', 99999999999999999999)":{"null":"x"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		curves, err := readGavel(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, c := range curves {
			if c.Batch < 1 || len(c.GPUs) < 2 || len(c.GPUs) != len(c.PerSecond) || !slices.IsSorted(c.GPUs) || c.GPUs[0] < 1 || !(slices.Min(c.PerSecond) > 0) {
				t.Fatalf("%+v", c)
			}
		}
	})
}

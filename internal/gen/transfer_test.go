package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
)

// bounds are limits near the current results, with slack for the random draw: a change that exceeds them must be
// justified.
type bounds struct{ median, low, high float64 }

// judge evaluates one hidden entry in stride of the cases that have floors, by case and source.
func judge(t *testing.T, entries []history.Entry, stride int, floors map[string]map[string]bounds) {
	t.Helper()
	var list []hiding
	for i, h := range hidings(entries, 1) {
		if _, asked := floors[h.kind]; asked && i%stride == 0 {
			list = append(list, h)
		}
	}
	var text strings.Builder
	rows := tabulate(leaveOut(entries, list, transfer.Options{}))
	writeTable(&text, rows)
	t.Log("\n" + text.String())
	for _, r := range rows {
		if f, ok := floors[r.kind][r.source]; ok && (r.median > f.median || r.coverage < f.low || r.coverage > f.high) {
			t.Errorf("%s, %s: median %.3f, coverage %.3f, want at most %.3f and %.2f…%.2f", r.kind, r.source, r.median, r.coverage, f.median, f.low, f.high)
		}
	}
}

func TestPublishedTables(t *testing.T) {
	if _, err := os.Stat(published); err != nil {
		t.Skip("the published tables are not beside this checkout")
	}
	all, err := history.LoadPublished(published)
	if err != nil {
		t.Fatal(err)
	}
	var some []history.Entry // one in eight rows of the tables with thousands of rows, to save time
	for _, e := range all {
		if s := sourceOf(&e); s != "sia" && s != "pollux" || hashID(e.ID)%8 == 0 {
			some = append(some, e)
		}
	}
	judge(t, some, 3, map[string]map[string]bounds{
		interpolation: {"all": {0.05, 0.88, 1}, "elasticflow": {0.04, 0.85, 1}, "gavel": {0.06, 0.70, 1}, "pollux": {0.05, 0.90, 1}, "sia": {0.06, 0.88, 1}, "mlperf-v4.1": {0.08, 0.80, 1}, "mlperf-v5.0": {0.07, 0.85, 1}},
		extrapolation: {"all": {0.10, 0.82, 1}, "elasticflow": {0.12, 0.85, 1}, "gavel": {0.27, 0.75, 1}, "sia": {0.22, 0.72, 1}, "mlperf-v4.1": {0.11, 0.75, 1}, "mlperf-v5.0": {0.10, 0.75, 1}},
		newDevice:     {"all": {0.22, 0.87, 1}, "gavel": {0.21, 0.70, 1}, "pollux": {0.85, 0.75, 1}, "sia": {0.46, 0.80, 1}, "mlperf-v4.1": {0.18, 0.85, 1}, "mlperf-v5.0": {0.13, 0.85, 1}},
		profiled:      {"all": {0.22, 0.85, 1}, "gavel": {0.30, 0.85, 1}, "sia": {0.22, 0.75, 1}},
	})
}

func TestMeasurementsInTheBinary(t *testing.T) {
	entries := history.Published()
	if len(entries) == 0 {
		t.Skip("no measurements in the binary")
	}
	judge(t, entries, 2, map[string]map[string]bounds{
		interpolation: {"all": {0.06, 0.90, 1}, "elasticflow": {0.03, 0.90, 1}, "gavel": {0.06, 0.90, 1}, "pollux": {0.07, 0.90, 1}, "mlperf": {0.07, 0.85, 1}},
		extrapolation: {"all": {0.11, 0.83, 1}, "elasticflow": {0.06, 0.85, 1}, "gavel": {0.17, 0.80, 1}, "pollux": {0.18, 0.60, 1}, "mlperf": {0.11, 0.80, 1}},
		newDevice:     {"all": {0.20, 0.85, 1}, "gavel": {0.34, 0.85, 1}, "pollux": {0.53, 0.75, 1}, "mlperf": {0.08, 0.78, 1}},
		profiled:      {"all": {0.22, 0.88, 1}, "gavel": {0.22, 0.80, 1}, "pollux": {0.18, 0.85, 1}},
	})
}

// TestOwnMeasurements requires the accuracy and the width for jobs of a user's own after two measurements, and that a
// third one makes no kind of question worse in the mean.
func TestOwnMeasurements(t *testing.T) {
	entries := history.Published()
	if len(entries) == 0 {
		t.Skip("no measurements in the binary")
	}
	outcomes := leaveOut(entries, ownHidings(entries, 1), transfer.Options{})
	var text strings.Builder
	rows := tabulate(outcomes)
	writeTable(&text, rows)
	t.Log("\n" + text.String())
	mean := map[string]float64{} // absolute log error, by kind
	for _, o := range outcomes {
		mean[o.kind] += math.Abs(math.Log(o.answer.P50 / o.truth))
	}
	for kind, most := range map[string]struct{ median, wide float64 }{"batch": {0.15, 2.5}, "GPU count": {0.12, 2.2}, "GPU type": {0.25, 6}} {
		if two, three := mean[ownKind(kind, 2)], mean[ownKind(kind, 3)]; !(two > 0) || three > two {
			t.Errorf("%s: summed error %.2f after two measurements, %.2f after three", kind, two, three)
		}
		for _, r := range rows {
			if r.kind == ownKind(kind, 2) && r.source == "all" && (r.median > most.median || r.wide > most.wide || r.coverage < 0.85 || r.silent > 0) {
				t.Errorf("%s: %+v", r.kind, r)
			}
		}
	}
}

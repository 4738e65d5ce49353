package main

import (
	"os"
	"strings"
	"testing"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/measured"
)

// bounds are what is reached, with slack for the draw: a change that falls behind must say why.
type bounds struct{ median, low, high float64 }

func judge(t *testing.T, entries []history.Entry, stride int, floors map[string]bounds) {
	t.Helper()
	var list []hiding
	for i, h := range hidings(entries, 1) {
		if _, asked := floors[h.kind]; asked && i%stride == 0 {
			list = append(list, h)
		}
	}
	var text strings.Builder
	rows := tabulate(leaveOut(entries, list))
	write(&text, rows)
	t.Log("\n" + text.String())
	for _, r := range rows {
		if f := floors[r.kind]; r.source == "all" && (r.median > f.median || r.coverage < f.low || r.coverage > f.high) {
			t.Errorf("%s: median %.3f, coverage %.3f, want at most %.3f and %.2f…%.2f", r.kind, r.median, r.coverage, f.median, f.low, f.high)
		}
	}
}

func TestPublishedTables(t *testing.T) {
	const data = "../../../../../shared/data"
	if _, err := os.Stat(data); err != nil {
		t.Skip("the published tables are not beside this checkout")
	}
	all, err := measured.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	var some []history.Entry // one in eight of the tables with thousands of rows, for time
	for _, e := range all {
		if s := source(&e); s != "sia" && s != "pollux" || hash(e.ID)%8 == 0 {
			some = append(some, e)
		}
	}
	judge(t, some, 5, map[string]bounds{
		interpolation: {median: 0.08, low: 0.82, high: 0.98},
		extrapolation: {median: 0.10, low: 0.80, high: 1},
	})
}

func TestMeasurementsInTheBinary(t *testing.T) {
	entries := measured.Embedded()
	if len(entries) == 0 {
		t.Skip("no measurements in the binary")
	}
	judge(t, entries, 5, map[string]bounds{
		interpolation: {median: 0.08, low: 0.80, high: 1},
		extrapolation: {median: 0.15, low: 0.75, high: 1},
	})
}

func TestWilson(t *testing.T) {
	// Brown, Cai and DasGupta 2001: 9 of 10.
	if lo, hi := wilson(9, 10); lo < 0.595 || lo > 0.597 || hi < 0.981 || hi > 0.983 {
		t.Errorf("%.4f…%.4f", lo, hi)
	}
}

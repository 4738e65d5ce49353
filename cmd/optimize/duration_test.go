package main

import (
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/run"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "2h30m": 150 * time.Minute, "90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "0": 0, "5d": 5 * day, "0.5d": 12 * time.Hour,
		"1d12h": 36 * time.Hour, "1d12h30m15s": 36*time.Hour + 30*time.Minute + 15*time.Second, "5 d 00 h": 5 * day, "1\u00a0h\u00a005\u00a0m": 65 * time.Minute, "21 m 45 s": 21*time.Minute + 45*time.Second,
		"-3h": -3 * time.Hour, "-1d": -day, "-1d12h": -36 * time.Hour, "0d5m": 5 * time.Minute,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "d", "5dd", "5d3", "1h5d", "1d-3h", "--3h", "1e999", "nan", "inf", "1e10", "200000d", "5w", "3 h apart"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

// TestDaysAreUnderstood checks that every duration flag accepts days and reports an invalid duration exactly once.
func TestDaysAreUnderstood(t *testing.T) {
	w := newWorld(t)
	w.epochLog("one.csv", 1, 12, 40)
	for _, text := range []string{"5d", "5 d 00 h"} {
		code, out, errs := w.run("predict", "--like", "one.csv", "--gpu", "T4", "--gpus", "1", "--deadline", text)
		if code != run.CodeDone || !strings.Contains(strings.ReplaceAll(out, "\u00a0", " "), "deadline 5 d 00 h") {
			t.Errorf("%s: exit %d, %s%s", text, code, out, errs)
		}
	}
	for _, args := range [][]string{
		{"predict", "--like", "one.csv", "--deadline", "5w"}, {"predict", "--like", "one.csv", "--budget", "much"}, {"analyze", "one.csv", "--deadline", "5w"},
		{"runs", "stop", "x", "--grace", "5w"},
	} {
		code, _, errs := w.run(args...)
		if code != run.CodeUsage || strings.Count(errs, "want ") != 1 || strings.Contains(errs, ";") {
			t.Errorf("%q: exit %d, %s; want one refusal", args, code, errs)
		}
	}
	if code, _, errs := w.run("runs", "stop", "x", "--grace", "1d"); code == run.CodeDone || strings.Contains(errs, "grace") {
		t.Errorf("exit %d, %s: want the day to be understood", code, errs)
	}
}

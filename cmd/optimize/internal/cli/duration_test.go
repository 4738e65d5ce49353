package cli

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "2h30m": 150 * time.Minute, "90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "0": 0, "5d": 5 * day, "0.5d": 12 * time.Hour,
		"1d12h": 36 * time.Hour, "1d12h30m15s": 36*time.Hour + 30*time.Minute + 15*time.Second, "5 d 00 h": 5 * day, "1\u00a0h\u00a005\u00a0m": 65 * time.Minute, "21 m 45 s": 21*time.Minute + 45*time.Second,
		"-3h": -3 * time.Hour, "-1d": -day, "-1d12h": -36 * time.Hour, "0d5m": 5 * time.Minute,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "d", "5dd", "5d3", "1h5d", "1d-3h", "--3h", "1e999", "nan", "inf", "1e10", "200000d", "5w", "3 h apart"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

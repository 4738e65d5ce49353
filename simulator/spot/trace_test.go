package spot_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/spot"
)

func TestReadTraceRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON": `[`, "no gap": `{"data":[1,0]}`, "no data": `{"metadata":{"gap_seconds":1}}`, "more": `{"metadata":{"gap_seconds":1},"data":[1,0]}{}`,
		"never up": `{"metadata":{"gap_seconds":1},"data":[0,0]}`, "negative": `{"metadata":{"gap_seconds":1},"data":[1,-1]}`, "cut gzip": "\x1f\x8b\x08",
	} {
		if _, err := capacity.ReadTrace(strings.NewReader(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestLoad loads files and folders, combines the traces to a market, and checks the errors for missing and broken
// files.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := capacity.Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := capacity.Load(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("b.json", `{"metadata":{"gap_seconds":10},"data":[4,3,4,4]}`)
	write("a/c.json", `{"metadata":{"gap_seconds":10},"data":[1,0],"prices":[0.1,0.2]}`)
	write("notes.txt", "x")
	got, err := capacity.Load(dir)
	if err != nil || len(got) != 2 || got[0].Name != "a/c" || got[1].Name != "b" || !slices.Equal(got[1].Up, []bool{true, false, true, true}) || got[1].TickS != 10 {
		t.Fatalf("%+v, %v", got, err)
	}
	one, err := capacity.Load(filepath.Join(dir, "b.json"))
	if err != nil || len(one) != 1 || one[0].Name != "b" {
		t.Fatalf("%+v, %v", one, err)
	}
	m, err := spot.NewMarket("both", got...)
	if err != nil || m.Ticks() != 2 || len(m.Zones) != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	got[1].TickS = 20
	if _, err := spot.NewMarket("both", got...); err == nil || !strings.Contains(err.Error(), "b of 20 s") {
		t.Error(err)
	}
	write("broken.json", "{")
	if _, err := capacity.Load(dir); err == nil || !strings.Contains(err.Error(), "broken.json") {
		t.Error(err)
	}
}

func TestGenerateHasItsMeans(t *testing.T) {
	a := spot.Availability{UpS: 7200, DownS: 3600}
	m, err := spot.Generate(a, 300, 400_000, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range m.Zones {
		trace := capacity.Trace{TickS: 300, Up: z.Up}
		up, away, share, ok := trace.Means()
		if !ok || math.Abs(up/a.UpS-1) > 0.03 || math.Abs(away/a.DownS-1) > 0.03 || math.Abs(share-2./3) > 0.01 {
			t.Errorf("%s: up %v s, away %v s, share %v, %v", z.Name, up, away, share, ok)
		}
	}
	one, err := spot.Generate(a, 300, 400_000, 1, 5)
	if err != nil || string(bits(one.Zones[0].Up)) != string(bits(m.Zones[0].Up)) || string(bits(m.Zones[1].Up)) == string(bits(m.Zones[0].Up)) {
		t.Errorf("a zone depends on the others, %v", err)
	}
	for _, bad := range []spot.Availability{{100, 7200}, {7200, 100}, {math.Inf(1), 7200}, {math.NaN(), 1}} {
		if _, err := spot.Generate(bad, 300, 10, 1, 0); err == nil {
			t.Errorf("%+v: accepted", bad)
		}
	}
	if _, err := spot.Generate(a, 300, 0, 1, 0); err == nil {
		t.Error("no ticks: accepted")
	}
}

func bits(up []bool) []byte {
	out := make([]byte, len(up))
	for i, v := range up {
		if v {
			out[i] = 1
		}
	}
	return out
}

func FuzzReadTrace(f *testing.F) {
	f.Add(`{"metadata":{"gap_seconds":10},"data":[4,3,0,4]}`)
	f.Add(`{"metadata":{"gap_seconds":1e-300},"data":[1,0,1]}`)
	f.Add(`{"metadata":{"gap_seconds":600},"data":[1,0,1e308],"prices":[0]} `)
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := capacity.ReadTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		if _, _, share, _ := trace.Means(); !(share > 0 && share <= 1+1e-9) || len(trace.Up) < 2 || !(trace.TickS > 0) {
			t.Fatalf("%+v", trace)
		}
		m, err := spot.NewMarket("fuzz", trace)
		if err != nil {
			t.Fatal(err)
		}
		j := capacity.Job{WorkS: 10 * trace.TickS, DeadlineS: 15 * trace.TickS, SpotUSDHour: 1, OnDemandUSDHour: 2}
		got, err := spot.Run(capacity.Uniform, j, m, 0)
		if err == nil && got.Missed {
			t.Fatalf("%+v", got)
		}
	})
}

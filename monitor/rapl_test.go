package monitor

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// zones writes a tree of power zones: folder to name, energy in µJ.
func writeZones(t *testing.T, root string, zones map[string][2]string) {
	t.Helper()
	for dir, z := range zones {
		dir = filepath.Join(root, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"name": z[0], "energy_uj": z[1], "max_energy_range_uj": "262143328850"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRAPL reads two packages over an overflow, a reset, a long gap, and a counter that cannot be read for a while.
func TestRAPL(t *testing.T) {
	root, at := t.TempDir(), time.Unix(1000, 0)
	sampler := &Sampler{Collectors: []Collector{&RAPL{Root: root}}}
	step := func(seconds float64, first, second string, want float64, wantErr bool) {
		t.Helper()
		writeZones(t, root, map[string][2]string{"intel-rapl:0": {"package-0", first}, "intel-rapl:1": {"package-1", second},
			"intel-rapl:0:0": {"core", "77"}, "intel-rapl:2": {"psys", "99000000"}, "intel-rapl-mmio:0": {"package-0", first}})
		at = at.Add(time.Duration(seconds * 1e9))
		s, errs := sampler.Sample(t.Context(), at)
		if (len(errs) > 0) != wantErr {
			t.Errorf("after %g s: %v", seconds, errs)
		}
		if got := s.Host.CPUEnergyJ; math.Abs(got-want) > 1e-6 && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("after %g s: %g J, want %g", seconds, got, want)
		}
	}
	step(0, "262143000000", "1000000", 0, false)
	step(1, "262143300000", "3500000", 2.8, false)
	step(1, "971150", "3500000", 3.8, false) // overflow: 28850 + 971150 µJ
	step(1, "971150", "100", 3.8, true)      // reset of the second: 262 kJ in a second are impossible
	step(1, "1971150", "1000100", 5.8, false)
	step(1, "text", "1000100", math.NaN(), true)
	step(1, "1971150", "", math.NaN(), true)
	step(1, "3971150", "2000100", 8.8, false) // the counters continued
	step(3600, "9971150", "2000100", 8.8, true)
	step(1, "9971151", "2000100", 8.800001, false)
	step(1, "99999999999999999999999", "2000100", math.NaN(), true)
	step(1, "262143328851", "2000100", 8.800001, true)
}

// TestRAPLAbsent checks that a machine without counters has no data and that an unreadable counter is an error.
func TestRAPLAbsent(t *testing.T) {
	root := t.TempDir()
	s := NoSample(time.Now())
	if err := (&RAPL{Root: filepath.Join(root, "none")}).Collect(t.Context(), &s); !errors.Is(err, ErrNoData) || !math.IsNaN(s.Host.CPUEnergyJ) {
		t.Errorf("%v, %g J", err, s.Host.CPUEnergyJ)
	}
	writeZones(t, root, map[string][2]string{"intel-rapl:0": {"package-0", "5"}})
	if err := os.Remove(filepath.Join(root, "intel-rapl:0", "energy_uj")); err != nil {
		t.Fatal(err)
	}
	r := &RAPL{Root: root}
	for range 2 {
		if err := r.Collect(t.Context(), &s); err == nil || errors.Is(err, ErrNoData) || !math.IsNaN(s.Host.CPUEnergyJ) {
			t.Errorf("%v, %g J", err, s.Host.CPUEnergyJ)
		}
	}
}

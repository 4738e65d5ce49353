package colocate

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/place"
)

// A known interval: mean 10, standard deviation 1 of 3 values, t(0.95, 2) = 2.92.
func TestEstimate(t *testing.T) {
	e := estimate([]float64{9, 10, 11})
	if math.Abs(e.Mean-10) > 1e-12 || math.Abs(e.Half()-2.91999/math.Sqrt(3)) > 1e-4 {
		t.Errorf("%+v", e)
	}
	if e := estimate([]float64{7}); e.Mean != 7 || !math.IsNaN(e.Lo) || !math.IsNaN(e.Half()) {
		t.Errorf("of one value: %+v", e)
	}
	if e := estimate(nil); !math.IsNaN(e.Mean) {
		t.Errorf("of nothing: %+v", e)
	}
}

// A disturbance that slows the pattern and the containers alone by the same factor cancels in all measures.
func TestCycleCancelsDisturbance(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		slow := rapid.Float64Range(0.1, 1).Draw(r, "slow")
		alone := &reading{Ops: 100 * slow, CPU: 1, Wall: 1, Free: 1}
		both := &reading{Ops: 40 * slow, CPU: 0.5, Wall: 1, Free: 0.5}
		c := newCycle([]*reading{both, nil}, []*reading{alone, nil}, []*reading{alone, nil}, 0, 0)
		if math.Abs(c.RPS[0]-0.4) > 1e-9 || math.Abs(c.CPU[0]-0.8) > 1e-9 || math.Abs(c.Wall[0]-0.4) > 1e-9 || !math.IsNaN(c.RPS[1]) {
			r.Errorf("%+v", c)
		}
	})
}

// The throughput of a node of its own: half of the CPU went to others, of which nothing remains in rps.
func TestCycleExcludesForeignTime(t *testing.T) {
	alone := &reading{Ops: 50, CPU: 0.5, Wall: 1, Free: 1} // half the CPU was foreign
	both := &reading{Ops: 33, CPU: 0.33, Wall: 1, Free: 0.5}
	c := newCycle([]*reading{both}, []*reading{alone}, []*reading{alone}, 0.5, 0)
	if math.Abs(c.RPS[0]-0.5) > 1e-9 || math.Abs(c.CPU[0]-1) > 1e-9 || math.Abs(c.Wall[0]-0.66) > 1e-9 {
		t.Errorf("%+v", c)
	}
	still := &reading{Ops: 0, CPU: 0, Wall: 1, Free: 0.5}
	if c := newCycle([]*reading{still}, []*reading{alone}, []*reading{alone}, 0, 0); c.RPS[0] != 0 || !math.IsNaN(c.CPU[0]) {
		t.Errorf("a program that completed nothing: %+v", c)
	}
}

func cycles(foreign float64, rps ...float64) []cycle {
	var out []cycle
	for _, v := range rps {
		out = append(out, cycle{RPS: []float64{v}, CPU: []float64{1}, Wall: []float64{v}, Alone: []float64{10}, Foreign: foreign})
	}
	return out
}

// The stop rule: three cycles at least, an interval within 5 % of the mean, disturbed cycles only if there are no others.
func TestNewRowFlags(t *testing.T) {
	one := []uint8{1}
	l := Limits{}.withDefaults()
	for name, c := range map[string]struct {
		cycles          []cycle
		wide, disturbed bool
		used            int
	}{
		"two equal cycles":             {cycles(0, 0.5, 0.5), true, false, 2},
		"three equal cycles":           {cycles(0, 0.5, 0.5, 0.5), false, false, 3},
		"three scattered cycles":       {cycles(0, 0.4, 0.5, 0.6), true, false, 3},
		"nothing completed":            {cycles(0, 0, 0, 0), false, false, 3},
		"all disturbed":                {cycles(0.6, 0.5, 0.5, 0.5), false, true, 3},
		"disturbed ones are left out":  {append(cycles(0, 0.5, 0.5, 0.5), cycles(0.9, 0.1, 0.2)...), false, false, 3},
		"too few are left undisturbed": {append(cycles(0, 0.5, 0.5), cycles(0.9, 0.5)...), false, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRow(one, c.cycles, l)
			if r.Wide != c.wide || r.Disturbed != c.disturbed || r.Cycles != c.used {
				t.Errorf("wide %v, disturbed %v, %d cycles: %+v", r.Wide, r.Disturbed, r.Cycles, r)
			}
		})
	}
}

// The row that is written is the row that is read, and package place reads the same throughputs.
func TestRowsRoundTrip(t *testing.T) {
	apps := []string{"redis", "rps_", "x.1"}[:2]
	apps[1] = "cpu-2"
	rows := []Row{singleRow(2, 0), singleRow(2, 1), {
		Counts: []uint8{1, 2}, RPS: []Estimate{{0.5, 0.4, 0.6}, {0.25, 0.2, 0.3}}, CPU: []Estimate{{1, 0.9, 1.1}, {0.0005, 0, 0.001}},
		Wall: []Estimate{{0.3, 0.2, 0.4}, none}, Alone: []float64{1234.5, 2}, Cycles: 7, Foreign: 0.25, Steal: 0.01, Wide: true, Disturbed: true}}
	var b bytes.Buffer
	if err := WriteRows(&b, apps, rows); err != nil {
		t.Fatal(err)
	}
	first := b.String()
	got, err := ReadRows(strings.NewReader(first), apps)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := WriteRows(&again, apps, got); err != nil || again.String() != first {
		t.Errorf("%v\n%s\n%s", err, first, again.String())
	}
	if r := got[2]; !r.Wide || !r.Disturbed || r.Cycles != 7 || r.RPS[1].Mean != 0.25 || !math.IsNaN(r.Wall[1].Mean) {
		t.Errorf("%+v", r)
	}
	path := t.TempDir() + "/table.csv"
	write(t, path, first)
	s, err := place.ReadSamples(path)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Profiled || !slices.Equal(s.Apps, apps) || s.RPS[2][0] != 0.5 || s.RPS[2][1] != 0.25 {
		t.Errorf("%+v", s)
	}
}

func TestReadRowsRefuses(t *testing.T) {
	var b bytes.Buffer
	if err := WriteRows(&b, []string{"a"}, []Row{singleRow(1, 0)}); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	for want, text := range map[string]string{
		"head":                    "",
		"no column cycles":        "n_a,rps_a\n1,1\n",
		"an app z":                strings.ReplaceAll(good, "_a", "_z"),
		`line 2: n_a "x"`:         strings.Replace(good, "\n1,", "\nx,", 1),
		`line 2: n_a "1.5"`:       strings.Replace(good, "\n1,", "\n1.5,", 1),
		`line 2: rps_a "-1"`:      strings.Replace(good, "1.0000", "-1", 1),
		"line 2: rps_a is empty":  strings.Replace(good, "1.0000", "", 1),
		"wrong number of fields":  good + "1,2\n",
		`line 2: cycles "0.5": w`: strings.Replace(good, ",0,,,definition", ",0.5,,,definition", 1),
	} {
		if _, err := ReadRows(strings.NewReader(text), []string{"a"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func FuzzReadRows(f *testing.F) {
	var b bytes.Buffer
	WriteRows(&b, []string{"a", "b"}, []Row{singleRow(2, 0), singleRow(2, 1)})
	f.Add(b.String())
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := ReadRows(strings.NewReader(text), []string{"a", "b"})
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteRows(&out, []string{"a", "b"}, rows); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRows(&out, []string{"a", "b"}); err != nil {
			t.Errorf("what was written is not read: %v", err)
		}
	})
}

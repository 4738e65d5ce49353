package workload

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const smallJSON = `{
	"v100": {
		"('CycleGAN', 1)": {"null": 4.5, "('A (batch size 16)', 1)": [2.5, 7.25], "('CycleGAN', 1)": [1, 1]},
		"('A (batch size 16)', 1)": {"null": 10, "('CycleGAN', 1)": [7.25, 2.5]},
		"('A (batch size 16)', 4)": {"null": 30.125}
	},
	"k80": {"A3C": {"null": 0}, "('CycleGAN', 1)": {"('A3C', 1)": [0.0, 0.0]}}
}`

func TestReadThroughputs(t *testing.T) {
	for form, text := range map[string]string{"plain": smallJSON, "gzip": zipped(smallJSON)} {
		table, err := readThroughputs(strings.NewReader(text))
		if err != nil {
			t.Fatal(form, err)
		}
		if got := fmt.Sprint(table.Devices(), table.Types(), table.Counts()); got != "[k80 v100] [CycleGAN A (batch size 16) A3C] [1 4]" {
			t.Errorf("devices, types and counts: got %s", got)
		}
		alone := map[string][2]float64{ // rate; 1 if measured
			"v100 CycleGAN 1": {4.5, 1}, "v100 A (batch size 16) 4": {30.125, 1}, "v100 CycleGAN 4": {0, 0}, "v100 A3C 1": {0, 0},
			"k80 A3C 1": {0, 1}, "k80 CycleGAN 1": {0, 0}, "h100 A3C 1": {0, 0}, "v100 B 1": {0, 0}, "v100 CycleGAN 2": {0, 0},
		}
		for what, want := range alone {
			f := strings.Fields(what)
			var gpus int
			fmt.Sscan(f[len(f)-1], &gpus)
			device, job := f[0], strings.Join(f[1:len(f)-1], " ")
			if got, measured := table.Alone(device, job, gpus), table.Measured(device, job, gpus); got != want[0] || measured != (want[1] == 1) {
				t.Errorf("%s: got %v, measured %v, want %v", what, got, measured, want)
			}
		}
		type pair struct {
			ra, rb float64
			ok     bool
		}
		beside := func(device, a, b string, gpus int) pair {
			ra, rb, ok := table.Beside(device, a, b, gpus)
			return pair{ra, rb, ok}
		}
		pairs := map[string]struct{ got, want pair }{
			"as listed":                  {beside("v100", "CycleGAN", "A (batch size 16)", 1), pair{2.5, 7.25, true}},
			"the other way round":        {beside("v100", "A (batch size 16)", "CycleGAN", 1), pair{7.25, 2.5, true}},
			"with itself":                {beside("v100", "CycleGAN", "CycleGAN", 1), pair{1, 1, true}},
			"does not fit":               {beside("k80", "CycleGAN", "A3C", 1), pair{0, 0, true}},
			"listed in one direction":    {beside("k80", "A3C", "CycleGAN", 1), pair{0, 0, true}},
			"not listed":                 {beside("v100", "A (batch size 16)", "A (batch size 16)", 1), pair{}},
			"not on so many":             {beside("v100", "A (batch size 16)", "CycleGAN", 4), pair{}},
			"a type that is not known":   {beside("v100", "CycleGAN", "B", 1), pair{}},
			"a device that is not known": {beside("h100", "CycleGAN", "CycleGAN", 1), pair{}},
		}
		for name, p := range pairs {
			if p.got != p.want {
				t.Errorf("a pair %s: got %+v, want %+v", name, p.got, p.want)
			}
		}
	}
}

func TestThroughputsThatAreRefused(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"nothing":                  {"", "unexpected EOF"},
		"no rate":                  {"{}", "no rate in it"},
		"a list":                   {"[]", "where an object was expected"},
		"cut off":                  {smallJSON[:200], "unexpected EOF"},
		"more than a table":        {smallJSON + "{}", "something follows"},
		"a rate of words":          {`{"v100":{"('A', 1)":{"null":"fast"}}}`, "A on v100 alone"},
		"a rate below 0":           {`{"v100":{"('A', 1)":{"null":-1}}}`, "A on 1 v100: steps per second of -1"},
		"no device":                {`{"":{"('A', 1)":{"null":1}}}`, "a name is missing"},
		"no name":                  {`{"v100":{"":{"null":1}}}`, "a name is missing"},
		"0 devices":                {`{"v100":{"('A', 0)":{"null":1}}}`, "0 devices, want at least 1"},
		"three rates of a pair":    {`{"v100":{"('A', 1)":{"('B', 1)":[1,2,3]}}}`, "3 rates, want 2"},
		"a pair on unequal counts": {`{"v100":{"('A', 1)":{"('B', 2)":[1,2]}}}`, "the same number of devices"},
		"twice with other rates":   {`{"v100":{"('A', 1)":{"null":1},"A":{"null":2}}}`, "listed twice, with 1 and 2 steps/s"},
		"directions that differ":   {`{"v100":{"('A', 1)":{"('B', 1)":[1,2]},"('B', 1)":{"('A', 1)":[3,1]}}}`, "B beside A on 1 v100: listed twice"},
		"a name with a newline":    {`{"v100":{"('A\nB', 1)":{"null":1}}}`, "control characters"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readThroughputs(strings.NewReader(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
		})
	}
	var wide []Rate
	for i := range 1100 {
		wide = append(wide, Rate{Device: fmt.Sprint("d", i), Job: fmt.Sprint("j", i), GPUs: 1, PerSecond: 1})
	}
	if _, err := NewThroughputs(wide); err == nil || !strings.Contains(err.Error(), "at most 1048576 combinations") {
		t.Errorf("1100 × 1100: got %v", err)
	}
}

func TestRequireNamesEverythingAtOnce(t *testing.T) {
	jobs := []Job{{Type: "GPT", GPUs: 1}, {Type: "A3C", GPUs: 1}, {Type: "A3C", GPUs: 3}, {Type: "GPT", GPUs: 1}, {Type: "ResNet-50 (batch size 128)", GPUs: 8}}
	tests := map[string]struct {
		devices []string
		want    string
	}{
		"two devices":      {[]string{"k80", "v100"}, `the throughput table has no rate on k80, v100 for: "A3C" on 3; "GPT" on 1`},
		"too small a one":  {[]string{"k80"}, `the throughput table has no rate on k80 for: "A3C" on 3; "GPT" on 1; "ResNet-50 (batch size 128)" on 8`},
		"an unknown one":   {[]string{"v100", "h100"}, `device type "h100" (it has k80, k80_unconsolidated, p100,`},
		"nothing unusual":  {[]string{"p100"}, ""},
		"nothing to do at": {nil, `for: "A3C" on 1;`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			some := jobs
			if test.want == "" {
				some = jobs[1:2]
			}
			err := GavelTable().Require(some, test.devices)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestTableKeepsEveryRate checks for random tables that every rate can be looked up, pairs in both directions, and
// that a written table is read unchanged.
func TestTableKeepsEveryRate(t *testing.T) {
	name := rapid.StringMatching(`[a-z][a-z ()0-9]{0,6}[a-z)]`)
	rate := rapid.Float64Range(0, 1e6)
	rapid.Check(t, func(t *rapid.T) {
		type place struct {
			device, job, other string
			gpus               int
		}
		seen := map[place]bool{}
		var rates []Rate
		names := rapid.SliceOfNDistinct(name, 1, 4, rapid.ID).Draw(t, "names")
		pick := rapid.SampledFrom(names)
		for range rapid.IntRange(1, 12).Draw(t, "rates") {
			r := Rate{Device: pick.Draw(t, "device"), Job: pick.Draw(t, "job"), GPUs: rapid.IntRange(1, 3).Draw(t, "GPUs"), PerSecond: rate.Draw(t, "rate")}
			if rapid.Bool().Draw(t, "pair") {
				r.Other, r.OtherRate = pick.Draw(t, "other"), rate.Draw(t, "other rate")
			}
			if seen[place{r.Device, r.Job, r.Other, r.GPUs}] || seen[place{r.Device, r.Other, r.Job, r.GPUs}] {
				continue
			}
			seen[place{r.Device, r.Job, r.Other, r.GPUs}] = true
			rates = append(rates, r)
		}
		table, err := NewThroughputs(rates)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rates {
			if r.Other == "" {
				if got := table.Alone(r.Device, r.Job, r.GPUs); got != r.PerSecond || !table.Measured(r.Device, r.Job, r.GPUs) {
					t.Fatalf("%+v: got %v", r, got)
				}
				continue
			}
			if a, b, ok := table.Beside(r.Device, r.Job, r.Other, r.GPUs); a != r.PerSecond || b != r.OtherRate || !ok {
				t.Fatalf("%+v: got %v, %v, %v", r, a, b, ok)
			}
			if a, b, _ := table.Beside(r.Device, r.Other, r.Job, r.GPUs); r.Other != r.Job && (a != r.OtherRate || b != r.PerSecond) {
				t.Fatalf("%+v: got %v, %v the other way round", r, a, b)
			}
		}
		var first, second bytes.Buffer
		if err := table.WriteTable(&first, "a head"); err != nil {
			t.Fatal(err)
		}
		back, err := readTable(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := back.WriteTable(&second, "a head"); err != nil || first.String() != second.String() {
			t.Fatalf("%v, written:\n%s\nread and written again:\n%s", err, &first, &second)
		}
		if !slices.Equal(table.Rates(), back.Rates()) || len(back.Rates()) != len(rates) {
			t.Fatalf("got %+v\nwant %+v", back.Rates(), rates)
		}
	})
}

func TestTablesThatAreRefused(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"no such type":       {"type a\non d 1\n1 5\n", `line 3: "1" is not the number of one of 1 types`},
		"a type twice":       {"type a\ntype a\n", `line 2: type "a" is there twice`},
		"no rate":            {"type a\non d 1\n0\n", "line 3: want a type and its rate"},
		"blanks":             {"\v\n", "line 1: want a type and its rate"},
		"a pair of one rate": {"type a\non d 1\n0 5 0:1\n", `line 3: "0:1": want type:rate:rate`},
		"words":              {"type a\non d 1\n0 fast\n", "line 3"},
		"no device":          {"type a\n0 5\n", "a name is missing"},
		"no count":           {"type a\non d\n0 5\n", "line 2"},
		"not a number":       {"type a\non d 1\n0 NaN\n", "want numbers from 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := readTable(strings.NewReader(test.text)); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
		})
	}
}

func FuzzReadThroughputs(f *testing.F) {
	f.Add(smallJSON)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := readThroughputs(strings.NewReader(text))
		if err != nil {
			return
		}
		checkTable(t, table)
	})
}

func FuzzReadTable(f *testing.F) {
	f.Add("# head\ntype a\ntype b\non v100 1\n0 5 1:2:3\n1 - 1:4:4\non k80 2\n1 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := readTable(strings.NewReader(text))
		if err != nil {
			return
		}
		checkTable(t, table)
	})
}

// checkTable checks that rates are not negative, that a pair is the same in both directions, and that a written table
// is read unchanged.
func checkTable(t *testing.T, table *Throughputs) {
	for _, r := range table.Rates() {
		if r.Other != "" && r.Other != r.Job {
			if b, a, ok := table.Beside(r.Device, r.Other, r.Job, r.GPUs); a != r.PerSecond || b != r.OtherRate || !ok {
				t.Errorf("%+v is %v, %v the other way round", r, b, a)
			}
		}
		if !(r.PerSecond >= 0) || math.IsInf(r.PerSecond, 1) {
			t.Errorf("%+v", r)
		}
	}
	var b bytes.Buffer
	if err := table.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	back, err := readTable(&b)
	if err != nil || !slices.Equal(back.Rates(), table.Rates()) {
		t.Errorf("written and read again: %v", err)
	}
}

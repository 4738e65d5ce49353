package resources

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func testHost(gpus int) Host {
	h := Host{CPUs: 8, Memory: 32}
	for i := range 8 {
		h.CPUIDs = append(h.CPUIDs, i)
	}
	for i := range gpus {
		h.GPUs = append(h.GPUs, GPU{Index: i, UUID: "GPU-" + string(rune('a'+i)), Memory: 40})
	}
	return h
}

func TestDefaultLimits(t *testing.T) {
	cases := map[string]struct {
		h       Host
		usesGPU bool
		want    Limits
	}{
		"CPU job on a GPU machine":  {h: testHost(2), want: Limits{CPUs: Range{1, 8}, MemoryMin: 1, MemoryMax: 30.25}},
		"GPU job":                   {h: testHost(2), usesGPU: true, want: Limits{GPUs: Range{1, 2}, CPUs: Range{1, 8}, MemoryMin: 1, MemoryMax: 30.25}},
		"GPU job without a GPU":     {h: testHost(0), usesGPU: true, want: Limits{CPUs: Range{1, 8}, MemoryMin: 1, MemoryMax: 30.25}},
		"half a CPU, half a GiB":    {h: Host{CPUs: 0.5, Memory: 0.5}, want: Limits{CPUs: Range{1, 1}, MemoryMin: 0.475, MemoryMax: 0.475}},
		"fraction of CPUs":          {h: Host{CPUs: 3.9, Memory: 4}, want: Limits{CPUs: Range{1, 3}, MemoryMin: 1, MemoryMax: 3.75}},
		"large machine keeps 2 GiB": {h: Host{CPUs: 96, Memory: 1024}, want: Limits{CPUs: Range{1, 96}, MemoryMin: 1, MemoryMax: 1022}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.h.DefaultLimits(c.usesGPU)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if err := got.Validate(c.h); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestParseRange(t *testing.T) {
	cases := map[string]struct {
		in, says string
		within   Range
		want     Range
	}{
		"both":            {in: "2:6", within: Range{1, 8}, want: Range{2, 6}},
		"one":             {in: "4", within: Range{1, 8}, want: Range{4, 4}},
		"from":            {in: "4:", within: Range{1, 8}, want: Range{4, 8}},
		"up to":           {in: ":4", within: Range{1, 8}, want: Range{1, 4}},
		"spaces":          {in: " 2 : 6 ", within: Range{1, 8}, want: Range{2, 6}},
		"zero GPUs":       {in: "0", want: Range{0, 0}},
		"beyond the host": {in: "1:64", within: Range{1, 8}, want: Range{1, 64}}, // reported by Validate
		"fraction":        {in: "1.5:4", says: `"1.5" is not a whole number`},
		"negative":        {in: "-1:4", says: "negative"},
		"reversed":        {in: "6:2", says: "empty"},
		"empty":           {in: "", says: "write A:B"},
		"colon":           {in: ":", says: "write A:B"},
		"word":            {in: "all", says: "not a number"},
		"huge":            {in: "99999999999999999999", says: "too large"},
		"three parts":     {in: "1:2:3", says: "not a number"},
		"no upper end":    {in: "32:", says: "upper end is needed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRange(c.in, c.within)
			checkSaid(t, err, c.says)
			if err == nil && got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func checkSaid(t *testing.T, err error, says string) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Errorf("error %v", err)
	case says != "" && err == nil:
		t.Errorf("accepted, want an error with %q", says)
	case says != "" && !strings.Contains(err.Error(), says):
		t.Errorf("error %q, want %q in it", err, says)
	}
}

func TestParseMemoryRange(t *testing.T) {
	cases := map[string]struct {
		in, says string
		lo, hi   GiB
	}{
		"both":      {in: "2:6.5", lo: 2, hi: 6.5},
		"one":       {in: "4", lo: 4, hi: 4},
		"from":      {in: "4:", lo: 4, hi: 30},
		"up to":     {in: ":4", lo: 1, hi: 4},
		"units":     {in: "512M:16GiB", lo: 0.5, hi: 16},
		"mib":       {in: "256 mib:1g", lo: 0.25, hi: 1},
		"zero":      {in: "0:4", says: "no memory"},
		"negative":  {in: "-1:4", says: "negative"},
		"not real":  {in: "nan:4", says: "not an amount"},
		"infinite":  {in: "1:inf", says: "too large"},
		"other":     {in: "4kB", says: "not an amount"},
		"reversed":  {in: "8:2", says: "empty"},
		"unit only": {in: "GiB:2", says: "not an amount"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			lo, hi, err := parseMemoryRange(c.in, 1, 30)
			checkSaid(t, err, c.says)
			if err == nil && (lo != c.lo || hi != c.hi) {
				t.Errorf("got %v to %v, want %v to %v", lo, hi, c.lo, c.hi)
			}
		})
	}
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"1:2", "4", "4:", ":4", "1.5", "-1:2", "::", "+3:0x5", "512M:16GiB", "1e3:1e9", "NaN:inf"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseRange(s, Range{1, 8}); err == nil && (r.Min < 0 || r.Min > r.Max) {
			t.Fatalf("%q gives %+v", s, r)
		}
		if lo, hi, err := parseMemoryRange(s, 1, 8); err == nil && !(lo > 0 && lo <= hi && hi <= 1<<30) {
			t.Fatalf("%q gives %v to %v", s, lo, hi)
		}
	})
}

func TestLimitsBeyondTheHost(t *testing.T) {
	l := Limits{GPUs: Range{1, 8}, CPUs: Range{0, 64}, MemoryMin: 8, MemoryMax: 64, BatchSize: Range{0, 5}}
	err := l.Validate(testHost(2))
	for _, says := range []string{"GPUs: up to 8 requested, this machine has 2", "CPUs: the least is 0", "up to 64 GiB requested, this machine has 32 GiB", "batch size"} {
		checkSaid(t, err, says)
	}
	checkSaid(t, Limits{GPUs: Range{1, 8}, CPUs: Range{1, 1}, MemoryMax: 1}.Validate(Host{Described: "big one", CPUs: 1, Memory: 1}), "big one has 0")
	checkSaid(t, Limits{CPUs: Range{1, 1}, MemoryMin: GiB(math.NaN()), MemoryMax: 1}.Validate(testHost(0)), "no range of amounts")
}

func TestFault28_ImpossibleAllocations(t *testing.T) {
	l := Limits{GPUs: Range{0, 2}, CPUs: Range{1, 6}, MemoryMin: 1, MemoryMax: 16, BatchSize: Range{16, 512}}
	ok := Allocation{GPUs: 2, GPUIDs: []string{"GPU-a", "GPU-b"}, CPUs: 4, Memory: 8, BatchSize: 64}
	if err := l.Check(ok, testHost(2)); err != nil {
		t.Fatalf("a good allocation is refused: %v", err)
	}
	cases := map[string]struct {
		change func(a *Allocation)
		says   []string
	}{
		"too many GPUs":          {func(a *Allocation) { a.GPUs, a.GPUIDs = 3, nil }, []string{"GPUs: 3 given, this machine has 2"}},
		"negative GPUs":          {func(a *Allocation) { a.GPUs, a.GPUIDs = -1, nil }, []string{"GPUs: -1 is negative"}},
		"no CPUs":                {func(a *Allocation) { a.CPUs = 0 }, []string{"CPUs: 0 given, at least 1"}},
		"negative CPUs":          {func(a *Allocation) { a.CPUs = -4 }, []string{"CPUs: -4 is negative"}},
		"CPUs above the host":    {func(a *Allocation) { a.CPUs = 9 }, []string{"this machine has 8"}},
		"CPUs above the limits":  {func(a *Allocation) { a.CPUs = 7 }, []string{"outside the limits 1 to 6"}},
		"no memory":              {func(a *Allocation) { a.Memory = 0 }, []string{"memory: none given"}},
		"negative memory":        {func(a *Allocation) { a.Memory = -2 }, []string{"negative"}},
		"memory not a number":    {func(a *Allocation) { a.Memory = GiB(math.NaN()) }, []string{"not an amount"}},
		"memory above the host":  {func(a *Allocation) { a.Memory = 33 }, []string{"this machine has 32 GiB"}},
		"memory above the limit": {func(a *Allocation) { a.Memory = 17 }, []string{"outside the limits 1 to 16"}},
		"device twice":           {func(a *Allocation) { a.GPUIDs[1] = "GPU-a" }, []string{"GPU-a is named twice"}},
		"device vanished":        {func(a *Allocation) { a.GPUIDs[1] = "GPU-x" }, []string{"GPU-x is not (or no longer) there"}},
		"fewer devices named":    {func(a *Allocation) { a.GPUIDs = a.GPUIDs[:1] }, []string{"2 given, 1 devices named"}},
		"batch size":             {func(a *Allocation) { a.BatchSize = 8 }, []string{"batch size: 8 is outside the limits 16 to 512"}},
		"workers":                {func(a *Allocation) { a.NumWorkers = -1 }, []string{"workers: -1 is negative"}},
		"threads":                {func(a *Allocation) { a.Threads = -1 }, []string{"threads: -1 is negative"}},
		"all at once": {func(a *Allocation) { *a = Allocation{GPUs: -1, CPUs: -1, Memory: -1, BatchSize: -1} },
			[]string{"GPUs: -1", "CPUs: -1", "memory: -1", "batch size: -1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := ok
			a.GPUIDs = append([]string{}, ok.GPUIDs...)
			c.change(&a)
			err := l.Check(a, testHost(2))
			for _, says := range c.says {
				checkSaid(t, err, says)
			}
		})
	}
}

func drawLimits(t *rapid.T) Limits {
	r := func(name string, lo, hi int) Range {
		a, b := rapid.IntRange(lo, hi).Draw(t, name), rapid.IntRange(lo, hi).Draw(t, name)
		return Range{min(a, b), max(a, b)}
	}
	m := r("memory", 1, 64)
	l := Limits{GPUs: r("gpus", 0, 8), CPUs: r("cpus", 1, 64), MemoryMin: GiB(m.Min) / 2, MemoryMax: GiB(m.Max) / 2}
	if rapid.Bool().Draw(t, "batches") {
		l.BatchSize = r("batch", 1, 512)
	}
	return l
}

func drawAllocation(t *rapid.T) Allocation {
	return Allocation{
		GPUs: rapid.IntRange(-4, 12).Draw(t, "GPUs"), CPUs: rapid.IntRange(-4, 80).Draw(t, "CPUs"),
		Memory:    GiB(rapid.Float64Range(-4, 80).Draw(t, "memory")),
		BatchSize: rapid.IntRange(-1, 1024).Draw(t, "batch"), NumWorkers: rapid.IntRange(-2, 8).Draw(t, "workers"),
	}
}

// Any allocation, once clipped, passes the check of a machine as large as the limits.
func TestClippedAllocationsPassTheCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, a := drawLimits(t), drawAllocation(t)
		if l.BatchSize == (Range{}) {
			a.BatchSize = max(0, a.BatchSize)
		}
		h := Host{CPUs: 64, Memory: 64, GPUs: testHost(8).GPUs}
		got := l.Clip(a)
		if err := l.Check(got, h); err != nil {
			t.Fatalf("%+v clipped to %+v: %v", a, got, err)
		}
		if again := l.Clip(got); !again.Same(got) {
			t.Fatalf("clipping twice gives %+v, then %+v", got, again)
		}
	})
}

// TestRestrict checks that ranges replace the limits, and that all problems are reported with their flags.
func TestRestrict(t *testing.T) {
	limits := Limits{GPUs: Range{1, 4}, CPUs: Range{1, 16}, MemoryMin: 1, MemoryMax: 32}
	got := limits
	if err := got.Restrict(Ranges{GPUs: "2", CPUs: "4:", Memory: ":8"}); err != nil {
		t.Fatal(err)
	}
	if want := (Limits{GPUs: Range{2, 2}, CPUs: Range{4, 16}, MemoryMin: 1, MemoryMax: 8}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = limits
	err := got.Restrict(Ranges{GPUs: "x", CPUs: "5:2", Memory: "much", BatchSize: "8:"})
	if err == nil || got != limits {
		t.Fatalf("%+v, %v: invalid ranges changed the limits", got, err)
	}
	for _, flag := range []string{"--gpus:", "--cpus:", "--memory:", "--batch-size:"} {
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("no problem of %s in %q", flag, err)
		}
	}
}

// Validate returns all contradictions within the limits and all limits that exceed the host, joined.
func (l Limits) Validate(h Host) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	ranges := []struct {
		name  string
		r     Range
		least int
		has   int
	}{{"GPUs", l.GPUs, 0, len(h.GPUs)}, {"CPUs", l.CPUs, 1, h.wholeCPUs()}}
	for _, c := range ranges {
		switch {
		case c.r.Min < c.least:
			bad("%s: the least is %d, must be %d or more", c.name, c.r.Min, c.least)
		case c.r.Min > c.r.Max:
			bad("%s: from %d to %d is empty", c.name, c.r.Min, c.r.Max)
		case c.r.Max > c.has:
			bad("%s: up to %d requested, %s has %d", c.name, c.r.Max, h.name(), c.has)
		}
	}
	switch lo, hi := float64(l.MemoryMin), float64(l.MemoryMax); {
	case !(lo >= 0) || !(hi > 0) || math.IsInf(hi, 0):
		bad("memory: from %v to %v GiB is no range of amounts", lo, hi)
	case lo > hi:
		bad("memory: from %.4g to %.4g GiB is empty", lo, hi)
	case l.MemoryMax > h.Memory:
		bad("memory: up to %.4g GiB requested, %s has %.4g GiB", hi, h.name(), float64(h.Memory))
	}
	if b := l.BatchSize; b != (Range{}) && (b.Min < 1 || b.Min > b.Max) {
		bad("batch size: from %d to %d is no range of sizes", b.Min, b.Max)
	}
	return errors.Join(errs...)
}

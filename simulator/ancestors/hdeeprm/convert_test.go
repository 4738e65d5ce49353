package hdeeprm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"trainopt/simulator/platform"
	"trainopt/simulator/workload/swf"
)

// The expected draws are those of NumPy 1.24.2 after numpy.random.seed(seed): alternating calls of
// numpy.random.choice(numpy.arange(0.05, 1.3, 0.05), p=…) and numpy.random.choice(numpy.arange(4, 25, 4)).
func TestNumpyDraws(t *testing.T) {
	for seed, want := range map[uint32]string{
		0:          "[0.5 24] [1.1500000000000001 16] [0.5 8] [0.6000000000000001 12] [0.35000000000000003 4] [1.2500000000000002 12]",
		2009:       "[0.05 12] [1.2500000000000002 24] [0.6500000000000001 24] [0.45 24] [1.2500000000000002 4] [0.25 20]",
		20091995:   "[0.3 8] [0.9500000000000001 12] [0.2 4] [0.35000000000000003 8] [0.5 24] [0.2 20]",
		4294967295: "[0.05 20] [0.5 4] [1 8] [0.15000000000000002 16] [0.55 16] [0.7500000000000001 24]",
	} {
		d := newNumpyDraws(seed)
		var got []string
		for range 6 {
			got = append(got, fmt.Sprint([]any{d.share(), d.bandwidth()}))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("seed %d: got  %s\nwant %s", seed, strings.Join(got, " "), want)
		}
	}
	d, hash := newNumpyDraws(1), uint32(0)
	for range 20000 {
		u := d.share()
		hash = hash*31 + uint32(math.Round(u*20))*32 + uint32(d.bandwidth())
	}
	if hash != 1844315440 {
		t.Errorf("20,000 draws: got %d, want 1844315440", hash)
	}
}

// Jobs use 0.5265 of their requested time on average, and a fifth of them exceed it.
func TestLawOfShares(t *testing.T) {
	d := newNumpyDraws(7)
	const n = 200_000
	sum, over, bandwidth := 0.0, 0, 0
	for range n {
		u := d.share()
		sum += u
		if u > 1.01 {
			over++
		}
		bandwidth += d.bandwidth()
	}
	if mean := sum / n; math.Abs(mean-0.5265) > 0.004 {
		t.Errorf("mean share %v, want 0.5265", mean)
	}
	if share := float64(over) / n; math.Abs(share-0.20) > 0.004 {
		t.Errorf("%v take more than they ask for, want 0.20", share)
	}
	if mean := float64(bandwidth) / n; math.Abs(mean-14) > 0.1 {
		t.Errorf("mean bandwidth %v, want 14", mean)
	}
}

func convertText(text string, o ConvertOptions) (*converted, error) {
	r, err := swf.NewReader(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return Convert(r, o)
}

// line formats a job of a trace, with the requested processors, seconds and KB, and the used KB.
func line(number, submit, procs, seconds, kb, used any) string {
	return fmt.Sprintf("%v %v -1 10 4 -1 %v %v %v %v 1 1 1 -1 -1 -1 -1 -1\n", number, submit, used, procs, seconds, kb)
}

func TestConvert(t *testing.T) {
	text := "; MaxProcs: 8\n" + line(1, 100, 4, 60, 1999, -1) + line(2, -1, 4, 60, 1, -1) + line(3, 110, -1, 60, 1, -1) + line(4, 110, 4, -1, 1, -1) +
		line(5, 110, 4, 60, -1, -1) + line(6, 120.9, 2, 30.5, -1, 5000) + line(7, 130, 0, 30, 1, -1) + line(8, 130, 1, 0, 1, -1) + line(9, 140, 1, 5, 1, -1)
	c, err := convertText(text, ConvertOptions{Seed: 2009, Reference: 10, Resources: 8, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Resources, c.Jobs); got != "8 [{0 0 4 60_1_12 0 map[]} {1 20 2 30_5_24 0 map[]}]" {
		t.Errorf("got %s", got)
	}
	p, q := c.Profiles["60_1_12"], c.Profiles["30_5_24"] // used shares 0.05 and 1.25, see TestNumpyDraws
	if p.Type != homogeneous || p.CPU[0] != 30e9 || p.RequestOps != 600e9 || p.RequestTime != 60 || p.Memory != 1 || p.Bandwidth != 12 || q.CPU[0] != 375e9 {
		t.Errorf("got %+v and %+v", p, q)
	}
	all, err := convertText(text, ConvertOptions{Reference: 10})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(len(all.Jobs), all.Dropped); got != "3 map[no memory asked for or used:1 no number of processors asked for:2 no submission time:1 no time asked for:2]" {
		t.Errorf("got %s", got)
	}
}

// The errors of HDeepRM, with Compat and corrected.
func TestConvertCompat(t *testing.T) {
	var text string
	for i, submit := range []int{0, 7, 9} {
		text += line(i+1, submit, 1, 60, 1000, -1)
	}
	for range 60 {
		text += line(9, 20, 1, 60, 1000, -1)
	}
	text += line(10, 30, 1, 0, 1000, -1)
	for compat, want := range map[bool]string{true: "[0 0 2]", false: "[0 7 9]"} {
		c, err := convertText(text, ConvertOptions{Reference: 1, Compat: compat})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint([]float64{c.Jobs[0].Submit, c.Jobs[1].Submit, c.Jobs[2].Submit}); got != want {
			t.Errorf("compat %v: submitted at %s, want %s", compat, got, want)
		}
		ops := map[float64]map[float64]bool{}
		for _, j := range c.Jobs {
			p := c.Profiles[j.Profile]
			if ops[p.Bandwidth] == nil {
				ops[p.Bandwidth] = map[float64]bool{}
			}
			if p.RequestTime > 0 {
				ops[p.Bandwidth][p.CPU[0]] = true
			}
		}
		for bandwidth, different := range ops {
			if compat && len(different) > 1 || !compat && len(different) < 2 {
				t.Errorf("compat %v: jobs with %v GB/s have %d kinds of work", compat, bandwidth, len(different))
			}
		}
		if jobs := map[bool]int{true: 64, false: 63}[compat]; len(c.Jobs) != jobs {
			t.Errorf("compat %v: %d jobs, want %d", compat, len(c.Jobs), jobs)
		}
	}
}

func TestConvertWithMistakes(t *testing.T) {
	if _, err := convertText(line(1, 1, 1, 1, 1, 1), ConvertOptions{Jobs: -1}); err == nil || !strings.Contains(err.Error(), "reference speed") || !strings.Contains(err.Error(), "-1 jobs") {
		t.Errorf("got %v, want both mistakes", err)
	}
	if _, err := convertText(line(1, 1, -1, -1, -1, -1), ConvertOptions{Reference: 1}); !errors.Is(err, swf.ErrNoJobs) {
		t.Errorf("a trace as Lublin's model makes it: got %v", err)
	}
	if _, err := convertText("1 2 3\n", ConvertOptions{Reference: 1}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a short line: got %v", err)
	}
	if _, err := convertText(line(1, 9, 1, 1, 1, 1)+line(2, 3, 1, 1, 1, 1), ConvertOptions{Reference: 1, Compat: true}); err == nil || !strings.Contains(err.Error(), "job 1 was submitted 6 s before the first") {
		t.Errorf("out of order: got %v", err)
	}
}

// The trace mini is converted as by HDeepRM, bit for bit.
func TestConvertMini(t *testing.T) {
	f, err := os.Open(published(t, "workloads/mini.swf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := swf.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := platform.Example("mini")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Convert(r, ConvertOptions{Seed: 20091995, Jobs: 400, Reference: tree.Reference, Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	var hash, ops uint64
	submitted := 0.0
	for _, j := range c.Jobs {
		p := c.Profiles[j.Profile]
		ops += uint64(p.CPU[0])
		hash = hash*31 + uint64(p.CPU[0])
		submitted += j.Submit
	}
	if got := fmt.Sprint(len(c.Jobs), len(c.Profiles), ops, submitted, hash); got != "400 348 12770367987692134 7.5786881e+07 2472382415085824368" {
		t.Errorf("jobs, profiles, operations, submissions, hash: got %s", got)
	}
	last := c.Jobs[399]
	if last.Submit != 376825 || last.Resources != 15 || last.Profile != "60_100_20" {
		t.Errorf("the last job is %+v", last)
	}
	jobs, err := c.Convert(SpeedOptions{Reference: tree.Reference})
	if err != nil {
		t.Fatal(err)
	}
	// numpy.percentile(…, 99) of requested times, cores, memory and bandwidth
	if got := LimitsOf(jobs.Jobs); got != (Limits{41621.399999999965, 32, 2000, 24}) {
		t.Errorf("limits: got %+v", got)
	}
}

func TestCustomize(t *testing.T) {
	w, err := ReadWorkload(strings.NewReader(`{"jobs": [], "profiles": {
		"a": {"type": "parallel_homogeneous", "cpu": 5, "com": 0, "req_time": 2, "mem": 1},
		"b": {"type": "parallel_homogeneous", "cpu": 5, "com": 0},
		"c": {"type": "delay", "delay": 3}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := customize(w, 4); err != nil {
		t.Fatal(err)
	}
	if a, b := w.Profiles["a"], w.Profiles["b"]; a.CPU[0] != 8e9 || a.RequestOps != 8e9 || a.Memory != 1 || b.CPU[0] != 5 {
		t.Errorf("got %+v and %+v", a, b)
	}
	w.Profiles["d"] = batsimProfile{Type: homogeneous}
	if err := customize(w, 4); err == nil || !strings.Contains(err.Error(), `profile "d"`) {
		t.Errorf("a profile without work: got %v", err)
	}
	if err := customize(w, 0); err == nil {
		t.Error("a speed of 0 was taken")
	}
}

// HDeepRM's converter in Python with NumPy 1.24.2 converts 13,900 to 14,700 jobs of this trace per second of CPU time
// on two cores of an Intel Xeon; this implementation about 280,000.
func BenchmarkConvert(b *testing.B) {
	var text strings.Builder
	const jobs = 20_000
	for i := range jobs {
		text.WriteString(line(i+1, 10*i, 1+i%32, 60*(1+i%997), 100_000*(1+7*i%20), -1))
	}
	b.ReportAllocs()
	for b.Loop() {
		if c, err := convertText(text.String(), ConvertOptions{Seed: 1, Reference: 11}); err != nil || len(c.Jobs) != jobs {
			b.Fatal(err)
		}
	}
	b.ReportMetric(jobs*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

package slurm

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func recorded(t *testing.T, name string) []Job {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	jobs, err := ReadAccounting(f)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func ids(jobs []Job) (out []string) {
	for _, j := range jobs {
		out = append(out, j.ID+" "+j.State)
	}
	return out
}

func of(t *testing.T, jobs []Job, id string) *Job {
	t.Helper()
	for i := range jobs {
		if jobs[i].ID == id {
			return &jobs[i]
		}
	}
	t.Fatalf("no job %s among %v", id, ids(jobs))
	return nil
}

// orMinusOne returns a number, −1 if it is unknown.
func orMinusOne(p *float64) float64 {
	if p == nil {
		return -1
	}
	return *p
}

// TestReadAccountingVersions reads the columns as old and new versions of Slurm write them.
func TestReadAccountingVersions(t *testing.T) {
	for name, want := range map[string]struct {
		jobs  []string
		mem   float64 // requested by job 101, GiB
		peak  float64 // of job 101, GiB
		cpu   float64 // seconds
		limit time.Duration
		gpus  int
		kind  string
	}{
		"sacct-20.11.txt": {[]string{"101 COMPLETED", "102 CANCELLED"}, 32, 6, 3.5*3600 + 2, 4 * time.Hour, 2, "v100"},
		"sacct-22.05.txt": {[]string{"101 NODE_FAIL", "101 COMPLETED", "102_1 COMPLETED", "102_2 OUT_OF_MEMORY", "102_[3-9%2] PENDING", "103+0 COMPLETED", "103+1 COMPLETED"},
			16, 4, 0, 26*time.Hour + 3*time.Minute, 1, "a100"},
		"sacct-25.05.txt": {[]string{"101 COMPLETED", "104 TIMEOUT", "105 RUNNING"}, 120, 50, 5400.123, 0, 4, ""},
	} {
		jobs := recorded(t, name)
		if got := ids(jobs); !slices.Equal(got, want.jobs) {
			t.Errorf("%s: jobs %v, want %v", name, got, want.jobs)
			continue
		}
		j := of(t, jobs, "101")
		if got := j.ReqTRES["mem"]; got != want.mem {
			t.Errorf("%s: %g GiB requested, want %g", name, got, want.mem)
		}
		if j.State == "COMPLETED" {
			if got := orMinusOne(j.PeakGiB()); got != want.peak {
				t.Errorf("%s: peak %g GiB, want %g", name, got, want.peak)
			}
			if got := orMinusOne(j.CPUSecs()); math.Abs(got-want.cpu) > 1e-6 {
				t.Errorf("%s: CPU time %g s, want %g", name, got, want.cpu)
			}
		}
		if limit := j.Limit; (limit == nil) != (want.limit == 0) || limit != nil && *limit != want.limit {
			t.Errorf("%s: limit %v, want %v", name, limit, want.limit)
		}
		if n, kind := j.GPUs(); n != want.gpus || kind != want.kind {
			t.Errorf("%s: %d GPUs of type %q, want %d of %q", name, n, kind, want.gpus, want.kind)
		}
	}
}

// TestReadAccountingLives: a requeued job has two lives, each with its own steps.
func TestReadAccountingLives(t *testing.T) {
	jobs := recorded(t, "sacct-22.05.txt")
	first, second := jobs[0], jobs[1]
	if len(first.Steps) != 1 || len(second.Steps) != 3 {
		t.Fatalf("%d and %d steps, want 1 and 3", len(first.Steps), len(second.Steps))
	}
	if !first.Ended() || first.End.Sub(first.Start) != 600*time.Second || first.Nodes[0] != "n0" {
		t.Errorf("first life: %+v", first)
	}
	if got := orMinusOne(first.PeakGiB()); got != -1 {
		t.Errorf("the killed life has a peak of %g GiB, want none", got)
	}
	// Its TotalCPU is 0; the last sample is in TRESUsageInTot.
	if got := orMinusOne(first.CPUSecs()); got != 300 {
		t.Errorf("CPU time of the killed life: %g s, want 300", got)
	}
	if !slices.Equal(second.Nodes, []string{"n1", "n3", "m07"}) || second.NodeCount != 3 {
		t.Errorf("nodes %v", second.Nodes)
	}
	if p := orMinusOne(second.PeakGiB()); p != 3.5 {
		t.Errorf("peak %g GiB, want that of step 0, 3.5", p)
	}
}

// TestReadAccountingRecorded reads the output of sacct 22.05.8: a task of an array, a job without a sample, and the two
// lives of a requeued job with two tasks on two nodes.
func TestReadAccountingRecorded(t *testing.T) {
	jobs := recorded(t, "sacct-22.05-recorded.txt")
	if got := ids(jobs); !slices.Equal(got, []string{"1_1 COMPLETED", "7 COMPLETED", "8 REQUEUED", "8 CANCELLED"}) {
		t.Fatal(got)
	}
	if n, kind := jobs[0].GPUs(); n != 1 || kind != "v100" || jobs[0].RawID != "2" || math.Abs(orMinusOne(jobs[0].PeakGiB())-127664./(1<<20)) > 1e-9 || orMinusOne(jobs[0].CPUSecs()) != .479 {
		t.Errorf("%+v", jobs[0])
	}
	if j := jobs[1]; j.PeakGiB() != nil || j.Elapsed == nil || *j.Elapsed != 0 || *j.Limit != 163*time.Minute {
		t.Errorf("%+v", j)
	}
	for i, j := range jobs[2:] {
		s := j.Steps[1]
		if !j.Ended() || j.Name != "a|b" || len(j.Nodes) != 2 || s.Name != "0" || s.Tasks != 2 || s.NodeCount != 2 || j.ReqTRES["mem"] != 200./1024 || j.CancelledBy != []string{"", "0"}[i] {
			t.Errorf("life %d: %+v", i+1, j)
		}
	}
}

// TestReadAccountingArrays: tasks of an array are jobs of their own, and pending ones have run nowhere.
func TestReadAccountingArrays(t *testing.T) {
	jobs := recorded(t, "sacct-22.05.txt")
	if j := of(t, jobs, "102_2"); j.RawID != "102" || j.Name != "sweep|lr=0.1" || j.Signal != 125 || j.ExitCode != 0 {
		t.Errorf("%+v", j)
	}
	p := of(t, jobs, "102_[3-9%2]")
	if !p.Start.IsZero() || p.Ended() || p.AllocTRES != nil || p.CPUSecs() != nil || p.Nodes != nil || p.Reason != "JobArrayTaskLimit" {
		t.Errorf("pending: %+v", p)
	}
}

// TestNoDataIsNotZero: what is absent, unknown or one of Slurm's marks is nil.
func TestNoDataIsNotZero(t *testing.T) {
	jobs, err := ReadAccounting(strings.NewReader("State|JobID|MaxRSS|TRESUsageInTot|ConsumedEnergyRaw|End\n" +
		"COMPLETED|7||||2026-01-01T00:00:00\n" +
		"COMPLETED|7.batch|0|cpu=00:00:00,mem=0,gres/gpumem=16E,gres/gpuutil=18446744073709551614|0|Unknown\n"))
	if err != nil || len(jobs) != 1 || len(jobs[0].Steps) != 1 {
		t.Fatal(jobs, err)
	}
	j := jobs[0]
	if j.Elapsed != nil || j.Limit != nil || j.PeakGiB() != nil || j.CPUSecs() != nil || j.Joules() != nil || j.ReqTRES != nil || j.AllocTRES != nil || !j.Start.IsZero() {
		t.Errorf("%+v", j)
	}
	if use := j.Steps[0].UsageTot; !slices.Equal(slices.Sorted(maps.Keys(use)), []string{"cpu", "mem"}) {
		t.Errorf("usage %v", use)
	}
}

// TestBadLines: they are counted with their numbers, and the others are read.
func TestBadLines(t *testing.T) {
	text := "JobID|JobName|State|Elapsed|MaxRSS|End\r\n" +
		"1|a|COMPLETED|01:00:00||2026-01-01T01:00:00\r\n" +
		"1.batch|batch|COMPLETED|soon|1G|2026-01-01T01:00:00\r\n" +
		"2|a|b|COMPLETED|01:00:00||2026-01-01T01:00:00\n" +
		"3|a|COMPLETED\n" +
		"4.0|a|COMPLETED|01:00:00|1G|2026-01-01T01:00:00\n" +
		"5|a|COMPLETED|01:00:00||yesterday\n" +
		"total|a|COMPLETED|01:00:00||2026-01-01T01:00:00\n" +
		"\n" +
		"JobID|State|JobName\n" +
		"6|CANCELLED by 1000|x|y\n"
	jobs, err := ReadAccounting(strings.NewReader(text))
	var bad *BadLines
	if !errors.As(err, &bad) || bad.Count != 6 {
		t.Fatalf("%v, want 6 bad lines", err)
	}
	for i, want := range []string{"line 3: elapsed", "line 4: 7 columns, want 6", "line 5: 3 columns, want 6", "line 6: step 4.0", "line 7: end"} {
		if !strings.HasPrefix(bad.First[i], want) {
			t.Errorf("%q, want %q", bad.First[i], want)
		}
	}
	if got := ids(jobs); !slices.Equal(got, []string{"1 COMPLETED", "6 CANCELLED"}) || jobs[1].CancelledBy != "1000" || jobs[1].Name != "x|y" {
		t.Errorf("%v %+v", got, jobs)
	}
}

func TestReadAccountingRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "empty",
		"123|COMPLETED|0:0\n":              "line 1 is no header",
		"JobID           State\n--- ---\n": "line 1 is no header",
	} {
		if jobs, err := ReadAccounting(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) || jobs != nil {
			t.Errorf("%q: %v, %v; want %q", text, jobs, err, want)
		}
	}
}

func TestTimes(t *testing.T) {
	want := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, text := range []string{"2026-03-01T12:00:00Z", "2026-03-01T13:00:00+0100", "2026-03-01T07:00:00-05:00", "1772366400", "2026-03-01T12:00:00"} {
		jobs, err := ReadAccounting(strings.NewReader("JobID|State|Start\n1|RUNNING|" + text + "\n"))
		if err != nil || !jobs[0].Start.Equal(want) {
			t.Errorf("%s: %v, %v", text, jobs, err)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1-02:03:04": 26*time.Hour + 3*time.Minute + 4*time.Second, "00:00.123": 123 * time.Millisecond, "10:00": 10 * time.Minute,
		"02:03:04": 2*time.Hour + 3*time.Minute + 4*time.Second, "2-00": 48 * time.Hour, "2-01:30": 49*time.Hour + 30*time.Minute, "00:00:00": 0,
		"36:59:59": 36*time.Hour + 59*time.Minute + 59*time.Second, "365-00:00:00": 365 * 24 * time.Hour,
	} {
		if d, err := parseDuration(text); err != nil || d == nil || *d != want {
			t.Errorf("%s: %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "5", ":", "1:2:3:4", "x", "-1:00", "1--02:00:00", "1e9:00", "NaN:00", "99999-00:00:00", "+1:00"} {
		if d, err := parseDuration(text); err == nil {
			t.Errorf("%q is read as %v", text, d)
		}
	}
	for _, text := range []string{"UNLIMITED", "Partition_Limit"} {
		if d, err := parseDuration(text); d != nil || err != nil {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
}

func TestParseTRES(t *testing.T) {
	got, err := parseTRES("billing=8,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=4000M,node=1,fs/disk=2K", mebibyte)
	want := map[string]float64{"billing": 8, "cpu": 4, "gres/gpu:a100": 2, "gres/gpu": 2, "mem": 3.90625, "node": 1, "fs/disk": 2048}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	got, err = parseTRES("cpu=00:56:24,energy=0,gres/gpumem=21794M,gres/gpuutil=396,mem=10737418240,pages=3", oneByte)
	want = map[string]float64{"cpu": 3384, "energy": 0, "gres/gpumem": 21794. / 1024, "gres/gpuutil": 396, "mem": 10, "pages": 3}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, text := range []string{"cpu", "=4", "mem=x", "cpu=-1", "cpu=1,,mem=1G", "mem=1Q", "cpu=NaN", "cpu=Inf"} {
		if m, err := parseTRES(text, mebibyte); err == nil {
			t.Errorf("%q is read as %v", text, m)
		}
	}
}

func TestGPUs(t *testing.T) {
	for text, want := range map[string]struct {
		n    int
		kind string
	}{
		"": {}, "cpu=4": {}, "gres/gpu=3": {3, ""}, "gres/gpu=2,gres/gpu:a100=2": {2, "a100"}, "gres/gpu:h100=4": {4, "h100"},
		"gres/gpu:a100=2,gres/gpu:v100=1": {3, ""}, "gres/gpumem=80G,gres/gpuutil=5": {}, "gres/gpu=4,gres/gpu:1g.10gb=0": {4, ""},
	} {
		m, err := parseTRES(text, mebibyte)
		if err != nil {
			t.Fatal(err)
		}
		if n, kind := gpusOf(m); n != want.n || kind != want.kind {
			t.Errorf("%q: %d of %q, want %d of %q", text, n, kind, want.n, want.kind)
		}
	}
}

func TestExpandHosts(t *testing.T) {
	for list, want := range map[string]string{
		"": "", "n1": "n1", "n[0-3,7],m1": "n0 n1 n2 n3 n7 m1", "n[08-11]": "n08 n09 n10 n11", "r[1-2]n[3,5].x": "r1n3.x r1n5.x r2n3.x r2n5.x", "a,b-1,c": "a b-1 c",
	} {
		got, err := expandHosts(list)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v; want %s", list, got, err, want)
		}
	}
	for _, list := range []string{",", "a,", ",a", "a,,b", "n[1-2", "n]1", "n[2-1]", "n[x]", "n[]", "n[1[2]]", "n[0-999999999]", "r[1-999]n[1-999]"} {
		if got, err := expandHosts(list); err == nil {
			t.Errorf("%q is read as %d names", list, len(got))
		}
	}
}

func FuzzReadAccounting(f *testing.F) {
	for _, name := range []string{"sacct-20.11.txt", "sacct-22.05.txt", "sacct-22.05-recorded.txt", "sacct-25.05.txt"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("JobID|State|NodeList|ReqMem\n1|RUNNING|n[0-3],m|4Gc\n1.0||x|\n")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := ReadAccounting(strings.NewReader(text))
		if bad := (*BadLines)(nil); errors.As(err, &bad) && (bad.Count < 1 || len(bad.First) == 0) {
			t.Errorf("%+v", bad)
		}
		for i := range jobs {
			j := &jobs[i]
			if j.ID == "" || j.Elapsed != nil && *j.Elapsed < 0 || j.Limit != nil && *j.Limit < 0 || j.NodeCount < 0 {
				t.Errorf("%+v", j)
			}
			if p := j.PeakGiB(); p != nil && !(*p > 0) {
				t.Errorf("peak %g", *p)
			}
			if s := j.CPUSecs(); s != nil && !(*s >= 0) {
				t.Errorf("CPU time %g s", *s)
			}
			j.GPUs()
		}
	})
}

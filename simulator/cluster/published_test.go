package cluster_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/cluster"
	"trainopt/simulator/platform"
	"trainopt/simulator/workload"
)

// published is the directory of the reference runs of the original Gavel and its traces.
const published = "../../../shared/data/gavel"

// reference is one run of the original.
type reference struct {
	Args struct {
		Policy, Cluster, Trace string
		Seed                   int64
		NumTotalJobs           int `json:"num_total_jobs"`
	}
	MakespanS   float64            `json:"makespan"`
	Utilization float64            `json:"utilization"`
	LeasePct    float64            `json:"lease_ext_pct"`
	JCTs        map[string]float64 `json:"jcts"`
}

func loadReference(t *testing.T, name string) reference {
	t.Helper()
	f, err := os.Open(filepath.Join(published, "expected", name))
	if err != nil {
		t.Skipf("reference runs of Gavel are not here: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.NewDecoder(z).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// gavelDevices returns the given numbers of K80, P100 and V100, each in a server of its own, at the prices of Gavel's
// simulator. Types with a count of 0 are omitted.
func gavelDevices(k80, p100, v100 int) []schedule.DeviceType {
	var out []schedule.DeviceType
	for _, d := range []schedule.DeviceType{
		{Name: "k80", Count: k80, PerServer: 1, USDHour: 0.135, Watts: 300},
		{Name: "p100", Count: p100, PerServer: 1, USDHour: 0.43, Watts: 250},
		{Name: "v100", Count: v100, PerServer: 1, USDHour: 0.74, Watts: 300},
	} {
		if d.Count > 0 {
			out = append(out, d)
		}
	}
	return out
}

// devicesOf parses "8:16:24", Gavel's notation for V100, P100, K80.
func devicesOf(t *testing.T, counts string) []schedule.DeviceType {
	t.Helper()
	n := strings.Split(counts, ":")
	c, err := platform.Parse("v100="+n[0]+",p100="+n[1]+",k80="+n[2], nil)
	if err != nil {
		t.Fatal(err)
	}
	prices, err := platform.Prices("gavel")
	if err != nil {
		t.Fatal(err)
	}
	c.Price(prices)
	return cluster.Devices(c)
}

func trace(t *testing.T, name string) []workload.Job {
	t.Helper()
	tr, err := workload.LoadTrace(filepath.Join(published, "traces/physical_cluster", name+".gz"), "gavel")
	if err != nil {
		t.Skipf("traces of Gavel are not here: %v", err)
	}
	return tr.Jobs
}

func run(t *testing.T, c cluster.Config) *cluster.Result {
	t.Helper()
	r, err := cluster.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryJobEndsWhenItDoesInGavel(t *testing.T) {
	for _, name := range []string{
		"small_test_2-0-4_fifo_perf", "small_test_2-0-4_isolated", "minimize_makespan_8-16-24_isolated",
		"static100_single_allox", "static100_single_fifo_packed", "static100_single_gandiva",
	} {
		t.Run(name, func(t *testing.T) {
			want := loadReference(t, name+".json.gz")
			c := cluster.Config{Devices: devicesOf(t, want.Args.Cluster), Policy: want.Args.Policy, Seed: want.Args.Seed, Compat: true}
			if want.Args.Trace != "" {
				c.Jobs = trace(t, want.Args.Trace)
			} else {
				c.Generate, c.Total = &workload.Options{Seed: want.Args.Seed}, want.Args.NumTotalJobs
			}
			got := run(t, c)
			if len(got.Jobs) != len(want.JCTs) {
				t.Errorf("%d jobs ended, want %d", len(got.Jobs), len(want.JCTs))
			}
			wrong := 0
			for _, j := range got.Jobs {
				if w := want.JCTs[strconv.Itoa(j.ID)]; !(math.Abs(float64(j.JCTS)-w) <= 0.001) {
					if wrong++; wrong <= 5 {
						t.Errorf("job %d took %.4f s, want %.4f", j.ID, j.JCTS, w)
					}
				}
			}
			if wrong > 5 {
				t.Errorf("and %d others", wrong-5)
			}
			near(t, "makespan", float64(got.MakespanS), want.MakespanS, 0.001)
			near(t, "utilization", float64(got.Utilization), want.Utilization, 1e-9)
			near(t, "lease extensions, %", 100*float64(got.LeaseExtensions), want.LeasePct, 1e-9)
		})
	}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

package cluster

import (
	"context"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule"
	"trainopt/simulator/workload"
)

// siaFiles contains Sia's profiles and workloads, which have no licence: for evaluation only.
const siaFiles = "../../../shared/data/sia-profiles"

// siaPublished contains the mean completion times of the paper's table 3, in hours: Sia, Pollux, and Gavel with tuned
// jobs.
var siaPublished = map[string][3]float64{"philly": {0.6, 1.0, 1.9}, "saturn": {0.7, 1.0, 2.5}, "newtrace": {0.7, 1.5, 11.3}}

// siaPolicies are the policies under comparison, by their names in the output.
var siaPolicies = map[string]string{
	"sia": "sia", "sia, at most twice as many": "sia_exploring", "elasticflow": "elasticflow",
	"fifo_perf": "fifo_perf", "srtf": "srtf", "tiresias": "tiresias", "themis": "themis",
}

// siaConfig returns Sia's heterogeneous cluster of 64 devices. A restart takes 50 s, the value of the paper for
// cifar10, the most frequent model.
func siaConfig(t *testing.T, table *workload.Throughputs, file string) Config {
	t.Helper()
	tr, err := workload.LoadTrace(file, "")
	if err != nil {
		t.Fatal(err)
	}
	// No profile of yolov3 is published.
	jobs := slices.DeleteFunc(tr.Jobs, func(j workload.Job) bool { return strings.HasPrefix(j.Type, "yolov3") })
	if err := workload.Complete(jobs, table, "t4"); err != nil {
		t.Fatal(err)
	}
	c := Config{Jobs: jobs, Throughputs: table, Interval: 60, Preemption: schedule.Preemption{Seconds: 50}}
	for _, d := range []schedule.DeviceType{{Name: "a100", Count: 16, PerServer: 8}, {Name: "rtx2080ti", Count: 24, PerServer: 8}, {Name: "t4", Count: 24, PerServer: 4}} {
		d.USDHour, d.Watts = math.NaN(), math.NaN()
		c.Devices = append(c.Devices, d)
	}
	return c
}

// On its own profiles, workloads and cluster, Sia has shorter mean completion times than policies that assign the
// requested devices, and close to the published ones. All policies choose the best batch size for the number of
// devices, so jobs with requested numbers are better off than the tuned jobs of the paper. The simplifications of
// these runs are described at workload.loadSiaProfiles, siaConfig and sia. The first workload of each kind is run; with -long,
// all of them.
func TestSiaOnItsOwnWorkloads(t *testing.T) {
	table, err := workload.LoadThroughputs(siaFiles)
	if err != nil {
		t.Skipf("Sia's profiles are not here: %v", err)
	}
	for kind, published := range siaPublished {
		t.Run(kind, func(t *testing.T) {
			files, _ := filepath.Glob(filepath.Join(siaFiles, "workloads", kind, "workload-*.csv.gz"))
			if len(files) == 0 {
				t.Skip("Sia's workloads are not here")
			}
			if f := flag.Lookup("long"); f == nil || f.Value.String() != "true" {
				files = files[:1]
			}
			mean := map[string]float64{}
			var lines []string
			for name, policy := range siaPolicies {
				sum := make([]float64, 5)
				for _, file := range files {
					c := siaConfig(t, table, file)
					c.Policy = policy
					r, err := Run(context.Background(), c)
					if err != nil {
						t.Fatal(err)
					}
					jobs := page.Exact(len(r.Jobs))
					for k, v := range []page.Exact{r.MeanJCTS, r.P99JCTS, r.MakespanS, r.Utilization * r.MakespanS * 64 / jobs, page.Exact(r.Pauses) / jobs * 3600} {
						sum[k] += float64(v) / 3600 / float64(len(files))
					}
				}
				mean[name] = sum[0]
				lines = append(lines, fmt.Sprintf("%-28s mean %6.3f h, p99 %6.2f h, makespan %6.2f h, %5.2f device-hours and %4.1f restarts a job", name, sum[0], sum[1], sum[2], sum[3], sum[4]))
			}
			slices.Sort(lines)
			t.Logf("%d workloads; published means: Sia %v h, Pollux %v h, Gavel with tuned jobs %v h\n%s", len(files), published[0], published[1], published[2], strings.Join(lines, "\n"))
			for _, other := range []string{"fifo_perf", "tiresias", "themis"} {
				if mean["sia"] >= mean[other] {
					t.Errorf("mean %.3f h with sia, %.3f h with %s", mean["sia"], mean[other], other)
				}
			}
		})
	}
}

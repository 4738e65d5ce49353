package cluster_test

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/cluster"
	"trainopt/simulator/workload"
)

// elasticFlowFiles contains the traces and measurements of ElasticFlow (ASPLOS 2023), Apache-2.0.
const elasticFlowFiles = "../../../shared/data/elasticflow"

// elasticFlowTable reads the measurements of a device type: one file per model, iterations per second by batch size
// and number of devices.
func elasticFlowTable(t *testing.T, device string) *workload.Throughputs {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(elasticFlowFiles, "throughputs_"+device, "*.csv.gz"))
	if len(files) == 0 {
		t.Skip("measurements of ElasticFlow are not here")
	}
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var rates []workload.Rate
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(z).ReadAll()
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		model := strings.TrimSuffix(filepath.Base(file), ".csv.gz")
		for _, row := range rows[1:] {
			for k, v := range row[1:] {
				if v == "" || !(number(v) > 0) { // nan: it did not fit into memory
					continue
				}
				rates = append(rates, workload.Rate{
					Device: strings.ToLower(device), Job: workload.WithBatch(model, int(number(row[0]))), GPUs: int(number(rows[0][k+1])), PerSecond: number(v),
				})
			}
		}
	}
	table, err := workload.NewThroughputs(rates)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// earliestDeadline assigns the requested devices to jobs in order of deadlines.
type earliestDeadline struct{}

func (earliestDeadline) Traits() schedule.Traits {
	return schedule.Traits{Name: "EarliestDeadline", FixedOrder: true, OnlyShares: true}
}

func (earliestDeadline) Decide(s *schedule.Snapshot) (a schedule.Allocation, err error) {
	order := make([]int, len(s.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Jobs[a].Deadline, s.Jobs[b].Deadline) })
	free := s.Devices[0].Count
	for _, i := range order {
		if g := s.Jobs[i].GPUs; g <= free {
			free -= g
			a.Entries = append(a.Entries, schedule.Entry{A: i, B: -1, X: []float64{1}})
		}
	}
	return a, nil
}

// On the traces and measurements published with it, ElasticFlow meets more deadlines than policies that assign the
// requested devices in order of deadline or arrival. The paper's ratios for these traces are not in its repository;
// on its own clusters it reports 1.46 to 7.65 times as many met deadlines as other policies.
func TestElasticFlowOnItsOwnTraces(t *testing.T) {
	for name, c := range map[string]struct {
		trace, device string
		devices       int
	}{
		"A100, 16": {"philly_103959", "A100", 16},
		"A100, 32": {"philly_103959", "A100", 32},
		"T4, 64":   {"elasticVpollux_e", "T4", 64},
		"T4, 128":  {"elasticVpollux_e", "T4", 128},
	} {
		t.Run(name, func(t *testing.T) {
			table := elasticFlowTable(t, c.device)
			tr, err := workload.LoadTrace(filepath.Join(elasticFlowFiles, c.trace+".csv.gz"), "")
			if err != nil {
				t.Skipf("traces of ElasticFlow are not here: %v", err)
			}
			device := strings.ToLower(c.device)
			if err := workload.Complete(tr.Jobs, table, device); err != nil {
				t.Fatal(err)
			}
			ratio := map[string]float64{}
			for _, policy := range []string{"elasticflow", "earliest deadline", "fifo_perf", "srtf", "tiresias", "themis"} {
				config := cluster.Config{
					Devices: []schedule.DeviceType{{Name: device, Count: c.devices, PerServer: 4, USDHour: math.NaN(), Watts: math.NaN()}},
					Jobs:    tr.Jobs, Throughputs: table, Policy: policy,
				}
				if policy == "earliest deadline" {
					config.Custom = earliestDeadline{}
				}
				r := run(t, config)
				kept := 0
				for _, j := range r.Jobs {
					if float64(j.ArrivalS+j.JCTS) <= float64(j.DeadlineS)+1e-6 {
						kept++
					}
				}
				ratio[policy] = float64(kept) / float64(len(r.Jobs))
				t.Logf("%s: %d of %d deadlines kept, %.3f", policy, kept, len(r.Jobs), ratio[policy])
			}
			for policy, other := range ratio {
				if policy != "elasticflow" && other >= ratio["elasticflow"] {
					t.Errorf("%s keeps %.3f of the deadlines, elasticflow %.3f", policy, other, ratio["elasticflow"])
				}
			}
		})
	}
}

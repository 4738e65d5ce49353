package workload

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/internal/regular"
)

// published returns the path of a file of the published data; it skips the test if the file does not exist.
func published(t *testing.T, path string) string {
	t.Helper()
	full := filepath.Join("../../../shared/data", path)
	if _, err := os.Stat(full); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	return full
}

func TestEmbeddedTable(t *testing.T) {
	table := GavelTable()
	if len(gavelTable) > 120_000 {
		t.Errorf("the embedded table has %d bytes, want at most 120,000", len(gavelTable))
	}
	if got := fmt.Sprint(table.Devices(), len(table.Types()), table.Counts()); got != "[k80 k80_unconsolidated p100 p100_unconsolidated v100 v100_unconsolidated] 26 [1 2 4 8]" {
		t.Errorf("got %s", got)
	}
	for _, template := range Templates {
		if !slices.Contains(table.Types(), template.Type) {
			t.Errorf("the table lacks template %s", template.Type)
		}
	}
	if v, p := table.Alone("v100", "Recommendation (batch size 512)", 1), table.Alone("p100", "Recommendation (batch size 512)", 1); !(p > v && v > 0) {
		t.Errorf("Recommendation: %v steps/s on a V100, %v on a P100, want the P100 ahead", v, p)
	}
	if r := table.Alone("k80", "ResNet-50 (batch size 128)", 8); r != 0 || !table.Measured("k80", "ResNet-50 (batch size 128)", 8) {
		t.Errorf("ResNet-50 128 on 8 K80: got %v, want 0, measured", r)
	}
}

// Numbers of job types × device counts and of pairs in the published files.
func TestPublishedThroughputs(t *testing.T) {
	for path, want := range map[string][2]int{
		"gavel/simulation_throughputs.json.gz":       {492, 5415},
		"gavel/physical_cluster_throughputs.json.gz": {492, 5415},
		"gavel/oracle_throughputs.json.gz":           {78, 1053},
		"shockwave/tacc_throughputs.json.gz":         {492, 5415},
		"shockwave/wisr_throughputs.json.gz":         {492, 5415},
	} {
		t.Run(path, func(t *testing.T) {
			table, err := LoadThroughputs(published(t, path))
			if err != nil {
				t.Fatal(err)
			}
			var got [2]int
			for _, r := range table.Rates() {
				if r.Other == "" {
					got[0]++
				} else {
					got[1]++
				}
			}
			if got != want {
				t.Errorf("%d rates alone and %d pairs, want %v", got[0], got[1], want)
			}
		})
	}
}

// Contents of the published traces: jobs, rows, jobs with a deadline, and omitted rows.
func TestPublishedTraces(t *testing.T) {
	tests := map[string]struct {
		format          string
		jobs, deadlines int
		dropped         string
	}{
		"gavel/traces/physical_cluster/max_min_fairness.trace.gz":                                    {"gavel", 96, 0, "[]"},
		"gavel/traces/physical_cluster/minimize_makespan.trace.gz":                                   {"gavel", 100, 0, "[]"},
		"gavel/traces/msr/seed0/103959.trace.gz":                                                     {"gavel-msr", 986, 0, "[]"},
		"shockwave/traces/120_0.2_5_100_40_25_0_0.5_0.5_0.6_0.3_0.09_0.01_multigpu_dynamic.trace.gz": {"shockwave", 120, 0, "[]"},
		"philly/philly.csv.gz":                              {"philly", 82247, 0, "[{empty row 1 82249}]"},
		"philly-slo/trace_job_Philly_SLO.csv.gz":            {"philly-slo", 30735, 30735, "[{GPUs below 1 205 190}]"},
		"philly-slo/trace_job_Philly_MIX1.csv.gz":           {"philly-slo", 30756, 21600, "[{GPUs below 1 184 197}]"},
		"philly-slo/trace_job_Philly_MIX2.csv.gz":           {"philly-slo", 30746, 27621, "[{GPUs below 1 194 226}]"},
		"elasticflow/philly_103959.csv.gz":                  {"elasticflow", 876, 876, "[]"},
		"elasticflow/elasticVpollux_e.csv.gz":               {"elasticflow", 195, 195, "[]"},
		"elasticflow/resnet_cifar_trace.csv.gz":             {"elasticflow", 5, 5, "[]"},
		"sia-profiles/workloads/philly/workload-1.csv.gz":   {"sia", 160, 0, "[]"},
		"sia-profiles/workloads/newtrace/workload-5.csv.gz": {"sia", 960, 0, "[]"},
	}
	for path, test := range tests {
		t.Run(path, func(t *testing.T) {
			tr, err := LoadTrace(published(t, path), "")
			if err != nil {
				t.Fatal(err)
			}
			deadlines := 0
			for _, j := range tr.Jobs {
				if !math.IsNaN(j.Deadline) {
					deadlines++
				}
			}
			if tr.Format != test.format || len(tr.Jobs) != test.jobs || deadlines != test.deadlines || fmt.Sprint(tr.Dropped) != test.dropped {
				t.Errorf("got %s with %d jobs, %d deadlines, dropped %v; want %+v", tr.Format, len(tr.Jobs), deadlines, tr.Dropped, test)
			}
		})
	}
}

// Gavel's own files are reproduced byte by byte, except for ResNet-50 jobs whose command has another number of data
// loaders.
func TestPublishedGavelTraceIsWrittenAsItWas(t *testing.T) {
	packed, err := os.ReadFile(published(t, "gavel/traces/physical_cluster/max_min_fairness.trace.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := regular.Gunzip(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var original bytes.Buffer
	if _, err := original.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	tr, err := readTrace(bytes.NewReader(original.Bytes()), "f", "")
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if err := writeTrace(&written, tr, "gavel"); err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(original.String(), "-j 2 ", "-j 8 "); written.String() != want {
		compareLines(t, written.String(), want)
	}
}

package pretrain

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"trainopt/internal/stat"
	"trainopt/resources"
)

// measuredData is the location of the published tables relative to a checkout.
const measuredData = "../../../shared/data"

func needData(t *testing.T, part string) string {
	t.Helper()
	dir := filepath.Join(measuredData, part)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no measured tables here: %v", err)
	}
	return dir
}

// Known rows, calculated by hand from the files.
func TestLoadKnownRows(t *testing.T) {
	needData(t, "pollux-profiles")
	needData(t, "sia-profiles")
	kinds, err := Load(measuredData)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		a       resources.Allocation
		samples float64
		want    float64
	}{
		// Placement 2, 64 per GPU: 0.0654734 s per step; a sample at the reference batch of 128 has efficiency 1.
		"cifar10/t4": {resources.Allocation{GPUs: 2, BatchSize: 128}, 128, 0.06547343730926514},
		// 12 samples in 0.9215157 s.
		"bert/t4": {resources.Allocation{GPUs: 1}, 1200, 92.15156733989716},
		// 8.76 steps of 16 per second on two K80: 100 such steps.
		"resnet18-16/k80": {resources.Allocation{GPUs: 2}, 1600, 100 / 8.758230831811566},
	} {
		k := kindNamed(t, kinds, name)
		if u := k.WorkloadOf(c.samples).UnitSeconds(c.a); math.Abs(u/c.want-1) > 1e-9 || !k.Measured {
			t.Errorf("%s at %v: %v s, want %v", name, c.a, u, c.want)
		}
	}
	sia := 0
	for _, k := range kinds {
		if k.Licence != "none" {
			continue
		}
		sia++
		if !k.HeldOut || !(k.Workload().UnitSeconds(resources.Allocation{GPUs: k.MaxGPUs}) > 0) {
			t.Errorf("%s: held out %v, %v s a unit on all %d GPUs", k.Name, k.HeldOut, k.Workload().UnitSeconds(resources.Allocation{GPUs: k.MaxGPUs}), k.MaxGPUs)
		}
		if _, ok, err := gpuRates(k.GPU, false); !ok || err != nil {
			t.Errorf("%s: no price for a %s: %v", k.Name, k.GPU, err)
		}
	}
	if sia != 20 {
		t.Errorf("%d Sia kinds, want 5 models on 4 machines", sia)
	}
	d := mustDraw(t, GeneratorOptions{Set: heldOutSet, Kinds: kinds, Mix: Mix{Measured: 1}, Seed: 1})
	for i := range 50 {
		if j := d.At(i); !j.Measured || !(j.Outcome(j.Baseline).Seconds > 0) {
			t.Errorf("%s: measured %v", j.Name, j.Measured)
		}
	}
	// The embedded kinds agree with the tables under the same names.
	for _, k := range Embedded() {
		m := kindNamed(t, kinds, k.Name)
		if m.MaxGPUs != k.MaxGPUs || m.DefaultBatch != k.DefaultBatch || m.GPU != k.GPU || m.HeldOut != k.HeldOut || m.Irregular != k.Irregular {
			t.Errorf("%s: embedded %+v, table %+v", k.Name, k, m)
		}
	}
}

func TestLoadNothing(t *testing.T) {
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestLoadNamesTheBrokenFile checks that errors name the file, the line and the invalid value.
func TestLoadNamesTheBrokenFile(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"no column":    {"placements.csv", "placement,step_time\n1,2\n", `no column "local_bsz"`},
		"short row":    {"placements.csv", "placement,local_bsz,step_time\n1,2\n", "line 2"},
		"letters":      {"placements.csv", "placement,local_bsz,step_time\n1,32,fast\n", `line 2: step_time "fast"`},
		"not a place":  {"placements.csv", "placement,local_bsz,step_time\n10,32,1\n", `line 2: placement "10"`},
		"no batch":     {"placements.csv", "placement,local_bsz,step_time\n1,0,1\n", `line 2: local_bsz "0"`},
		"not a number": {"placements.csv", "placement,local_bsz,step_time\n1,32,NaN\n", `line 2: step_time "NaN"`},
		"no rows":      {"placements.csv", "placement,local_bsz,step_time\n1,32,-1\n", "no row"},
		"empty":        {"placements.csv", "", "header"},
		"no progress":  {"validation-20.csv", "progress,iteration\n0,5\n", "last line"},
		"cut":          {"validation-20.csv", "progress,iteration\n", "no rows"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pollux-profiles", "bert")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			files := map[string]string{
				"placements.csv":    "placement,local_bsz,step_time\n1,20,1\n2,20,1.1\n",
				"validation-20.csv": "progress,iteration\n100,100\n",
			}
			files[c.file] = c.text
			for f, text := range files {
				if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Load(filepath.Dir(filepath.Dir(dir)))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) {
				t.Errorf("got %v, want %q in %s", err, c.want, c.file)
			}
		})
	}
}

// TestLoadOwnFolder: a folder of tables beside those of the artefact is a kind of job too, of its own source.
func TestLoadOwnFolder(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "pollux-profiles", "own")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for f, text := range map[string]string{"placements.csv": "placement,local_bsz,step_time\n1,20,1\n2,20,0.6\n", "validation-20.csv": "progress,iteration\n100,100\n",
		"../README.md": "no table"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kinds, err := Load(top)
	if err != nil || len(kinds) != 1 || kinds[0].Name != "own/t4" || !strings.Contains(kinds[0].Source, dir) {
		t.Errorf("%+v, %v; want the kind own/t4 from %s", kinds, err, dir)
	}
}

// Linear in logarithms between measured batches, NaN outside.
func TestBatchCurve(t *testing.T) {
	var c batchCurve
	c.add(40, 4)
	c.add(10, 1)
	c.add(10, 99)
	for batch, want := range map[float64]float64{10: 1, 20: 2, 40: 4} {
		if got := c.at(batch); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v: %v, want %v", batch, got, want)
		}
	}
	for _, batch := range []float64{0, 9.99, 40.01, math.NaN()} {
		if got := c.at(batch); !math.IsNaN(got) {
			t.Errorf("at %v: %v, want NaN", batch, got)
		}
	}
}

// The quantiles of noise.go are those of the published series.
func TestNoiseQuantiles(t *testing.T) {
	dir := needData(t, "alibaba-pai-2020")
	var unit, memory []float64
	for job := 1; job <= 4; job++ {
		for _, series := range workerSeries(t, filepath.Join(dir, fmt.Sprintf("job_%d_norm.csv.gz", job))) {
			var x []float64
			for i := 0; i+5 <= len(series); i += 5 {
				x = append(x, math.Log((series[i]+series[i+1]+series[i+2]+series[i+3]+series[i+4])/5))
			}
			sd, lag := moments(x)
			unit, memory = append(unit, sd), append(memory, lag)
		}
	}
	if len(unit) != 40 {
		t.Fatalf("%d workers, want 40", len(unit))
	}
	slices.Sort(unit)
	slices.Sort(memory)
	for i, level := range noiseLevels {
		if u, m := stat.Quantile(unit, level), stat.Quantile(memory, level); math.Abs(u-noiseUnit[i]) > 1e-4 || math.Abs(m-noiseMemory[i]) > 1e-3 {
			t.Errorf("quantile %v: %.4f and %.3f, noise.go has %v and %v", level, u, m, noiseUnit[i], noiseMemory[i])
		}
	}
}

// workerSeries returns the time series of each worker in a file of the Alibaba data, in order of time.
func workerSeries(t *testing.T, name string) [][]float64 {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	type at struct{ time, value float64 }
	workers := make([][]at, 10)
	for _, r := range rows[1:] {
		w, _ := strconv.Atoi(r[1])
		time, _ := strconv.ParseFloat(r[3], 64)
		value, _ := strconv.ParseFloat(r[4], 64)
		workers[w] = append(workers[w], at{time, value})
	}
	var out [][]float64
	for _, w := range workers {
		slices.SortStableFunc(w, func(a, b at) int { return int(a.time - b.time) })
		var x []float64
		for _, v := range w {
			x = append(x, v.value)
		}
		out = append(out, x)
	}
	return out
}

func moments(x []float64) (sd, lag float64) {
	var mean, square float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for i, v := range x {
		square += (v - mean) * (v - mean)
		if i > 0 {
			lag += (v - mean) * (x[i-1] - mean)
		}
	}
	return math.Sqrt(square / float64(len(x))), lag / square
}

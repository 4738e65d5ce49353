package history

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/monitor/trainlog"
)

// told is a generated training with the result that Read must return.
type told struct {
	rows    [][]string
	seconds float64
	cost    float64
	peak    float64
	configs map[string]bool
}

// drawTraining generates a training that counts epochs, time and money up and occasionally changes its allocation.
func drawTraining(t *rapid.T, model string) told {
	d := told{configs: map[string]bool{}}
	gpus, batch := 1, 32
	for epoch := range rapid.IntRange(1, 25).Draw(t, "epochs") {
		if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
			gpus, batch = rapid.IntRange(0, 4).Draw(t, "gpus"), 32*rapid.IntRange(1, 2).Draw(t, "batch")
		}
		took := rapid.Float64Range(0.5, 50).Draw(t, "took")
		d.seconds += took
		d.cost += took * float64(gpus+1) / 3600
		memory := rapid.Float64Range(0.1, 64).Draw(t, "memory")
		d.peak = math.Max(d.peak, memory)
		d.configs[fmt.Sprint(gpus, batch)] = true
		d.rows = append(d.rows, []string{model, fmt.Sprint(epoch + 1), fmt.Sprint(gpus), fmt.Sprint(batch), fmt.Sprint(took), fmt.Sprint(d.seconds), fmt.Sprint(d.cost), fmt.Sprint(memory)})
	}
	return d
}

// TestTotals requires, for any sequence of trainings in a file, that each entry has its own totals, that segments
// add up to the whole, and that the result depends neither on the name of the file nor on the order of the columns.
func TestTotals(t *testing.T) {
	header := []string{"model_name", "epoch", "gpu_count", "batch_size", "epoch_time", "time_so_far", "cost_so_far", "memory_used_gb"}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "order")
		var plain, turned strings.Builder
		row := func(fields []string) {
			fmt.Fprintln(&plain, strings.Join(fields, ","))
			var other []string
			for _, i := range order {
				other = append(other, fields[i])
			}
			fmt.Fprintln(&turned, strings.Join(other, "\t"))
		}
		row(header)
		var want []told
		for i := range rapid.IntRange(1, 4).Draw(t, "trainings") {
			want = append(want, drawTraining(t, fmt.Sprintf("m%d", i)))
			for _, r := range want[i].rows {
				row(r)
			}
		}
		log, other := mustRead(t, filepath.Join(dir, "a.csv"), plain.String()), mustRead(t, filepath.Join(dir, "b.csv"), turned.String())
		var wholes []Entry
		parts := map[string][]Entry{}
		for i, e := range log.Entries {
			if o := other.Entries[i]; o.ID != e.ID || show(&o) != show(&e) {
				t.Fatalf("with the columns in another order\n%s\nis\n%s", show(&e), show(&o))
			}
			if e.Parent == "" {
				wholes = append(wholes, e)
			} else {
				parts[e.Parent] = append(parts[e.Parent], e)
			}
		}
		if len(wholes) != len(want) {
			t.Fatalf("%d trainings, want %d", len(wholes), len(want))
		}
		for i, e := range wholes {
			w, n := want[i], len(parts[e.ID])
			if !near(e.Seconds, w.seconds) || !near(e.CostUSD, w.cost) || e.PeakMemoryGiB != w.peak || e.Rows != len(w.rows) || e.Units != float64(len(w.rows)) || e.Restarts != 0 {
				t.Fatalf("%s\nwant %d rows, %g s, %g USD, %g GiB", show(&e), len(w.rows), w.seconds, w.cost, w.peak)
			}
			if len(w.configs) > 1 && n != len(w.configs) || len(w.configs) == 1 && n != 0 {
				t.Fatalf("%d stretches, want those of %v", n, w.configs)
			}
			if n == 0 && (math.IsNaN(e.UnitTime) || e.UnitTime < 0.5 || e.UnitTime > 50) {
				t.Fatalf("seconds of a unit %g", e.UnitTime)
			}
			seconds, cost := 0.0, 0.0
			for _, p := range parts[e.ID] {
				seconds, cost = seconds+p.Seconds, cost+p.CostUSD
			}
			if n > 0 && (!near(seconds, e.Seconds) || !near(cost, e.CostUSD)) {
				t.Fatalf("stretches of %g s and %g USD, the whole of %g and %g", seconds, cost, e.Seconds, e.CostUSD)
			}
		}
	})
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

func mustRead(t *rapid.T, path, text string) trainingLog {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := ReadLog(path, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestSteady requires that the unit time lies among the measured ones, that memory is bounded, that the estimate is
// close to the truth for a long log, and that pauses do not affect it.
func TestSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, pauses := rapid.IntRange(4, 20000).Draw(t, "n"), rapid.IntRange(0, 2).Draw(t, "pauses")
		var s samples
		sum := 0.0
		for i := range n {
			v := 1 + 0.1*math.Sin(float64(i))
			if s.add(v); i > 0 {
				sum += v
			}
		}
		for i := range pauses {
			s.add(math.Pow(1000, float64(i+1)))
		}
		mean, spread, count := s.steady()
		if len(s.kept) > maxKept || mean < 0.9 || mean > 1.1 || math.Abs(mean-sum/float64(n-1)) > 0.02 || !(spread < 0.2) {
			t.Fatalf("%d of %d kept, mean %g of %g, spread %g", len(s.kept), n, mean, sum/float64(n-1), spread)
		}
		if count > float64(n-1+pauses) || count < 0.99*float64(n-1) {
			t.Fatalf("the mean of %g of %d", count, n-1)
		}
	})
}

// TestSample requires that the estimate of a segment that slows down represents all of it, not its beginning.
func TestSample(t *testing.T) {
	var s samples
	for i := range 50001 {
		s.add(1 + float64(i)/50000)
	}
	if mean, _, count := s.steady(); math.Abs(mean-1.5) > 0.03 || count != 50000 {
		t.Errorf("mean %g of %g values from 1 to 2", mean, count)
	}
}

// FuzzRead reads arbitrary bytes: Read must not panic, must be repeatable, its counts must add up, and it must return
// no number that no row contains.
func FuzzRead(f *testing.F) {
	for _, folder := range []string{"../../monitor/trainlog/testdata/formats/*", "testdata/*.csv"} {
		files, _ := filepath.Glob(folder)
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	for _, s := range []string{"epoch,epoch_time,gpu_count\n1,9,1\n2,5,1\n3,4,2\n1,9,2\n", "model_name,epoch,time_so_far,cost_so_far\na,1,10,1\nb,1,10,1\na,2,1e308,1e308\na,3,1,1\n",
		"timestamp,step,batch_size,cpu_percent\n1751364000,1,8,900\n1,2,0,5\n9e18,3,1e300,5\n", "epoch;epoch_time\n1;0,5\n2;1e-300\n3;1e308\n4;1e308\n5;1e308\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		path := filepath.Join(t.TempDir(), "a.csv")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		log, err := ReadLog(path, LogOptions{})
		again, err2 := ReadLog(path, LogOptions{})
		if fmt.Sprint(err) != fmt.Sprint(err2) || fmt.Sprint(shown(log)) != fmt.Sprint(shown(again)) {
			t.Fatalf("read twice:\n%v %v\n%v %v", err, shown(log), err2, shown(again))
		}
		if err != nil {
			if len(log.Entries) > 0 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%d entries and %v", len(log.Entries), err)
			}
			return
		}
		check(t, log)
		says := map[trainlog.Column]bool{}
		trainlog.Scan(path, trainlog.TailOptions{}, func(r *trainlog.Row) error {
			for c := trainlog.Column(0); c < trainlog.NumColumns; c++ {
				_, ok := r.Value(c)
				says[c] = says[c] || ok
			}
			return nil
		})
		for _, e := range log.Entries {
			for _, text := range []string{e.Job.Model, e.Job.Dataset, e.Observed.GPU} {
				if _, err := json.Marshal(text); err != nil {
					t.Fatal(err)
				}
			}
			for name, c := range map[string]struct {
				v  float64
				of []trainlog.Column
			}{"cost": {e.CostUSD, []trainlog.Column{trainlog.CostSoFar}}, "memory": {e.PeakMemoryGiB, []trainlog.Column{trainlog.MemoryUsed}}, "GPU memory": {e.GPUMemoryGiB, []trainlog.Column{trainlog.GPUMemoryUsed}},
				"CPUs": {e.Observed.CPUs, []trainlog.Column{trainlog.CPUCount}}, "batch": {e.Observed.Batch, []trainlog.Column{trainlog.BatchSize}}, "CPU use": {e.CPUUtil, []trainlog.Column{trainlog.CPUPercent}},
				"loss": {e.TrainLoss, []trainlog.Column{trainlog.TrainLoss}}, "accuracy": {e.TestAccuracy, []trainlog.Column{trainlog.TestAccuracy}}, "parameters": {e.Job.Params, []trainlog.Column{trainlog.ModelParams}},
				"samples": {e.Job.DataCount, []trainlog.Column{trainlog.DataCount}}, "throughput": {e.Throughput, []trainlog.Column{trainlog.Throughput, trainlog.BatchSize, trainlog.DataCount}},
				"energy": {v: e.EnergyJoules}, "start-up": {v: e.Startup}, "host memory": {v: e.Observed.MemoryGiB}, "GPUs asked for": {v: e.Requested.GPUs}} {
				if !math.IsNaN(c.v) && !slices.ContainsFunc(c.of, func(c trainlog.Column) bool { return says[c] }) {
					t.Fatalf("%s is %g, which no row says", name, c.v)
				}
			}
		}
		for _, o := range logObservations(log, onEightCPUs) {
			if len(o.UnitSeconds) == 0 || o.UnitSamples < 0 {
				t.Fatalf("observation %+v", o)
			}
		}
	})
}

package trial

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const tablesDir = "../../../shared/data/zeus-nsdi23"

var loaded = sync.OnceValues(func() ([]*RecurringJob, error) { return Load(tablesDir) })

// tables returns the jobs of the measured tables, the same in every test; it skips the test where the tables are not available.
func tables(t testing.TB) []*RecurringJob {
	t.Helper()
	jobs, err := loaded()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the Zeus tables are not at hand (%s)", tablesDir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func percent(v, of float64) float64 { return 100 * (v/of - 1) }

// TestPotential compares the lowest energy by exhaustive search with the default, in percent, as known from the
// tables.
func TestPotential(t *testing.T) {
	want := map[string]float64{
		"cifar100/shufflenetv2 on v100": -74.7, "imagenet/resnet50 on v100": -23.8, "librispeech/deepspeech2 on v100": -42.8,
		"movielens-1m/ncf on v100": -66.6, "sentiment140/bert_base_uncased on v100": -26.4, "squad/bert_base_uncased on v100": -27.6,
		"cifar100/shufflenetv2 on a40": -72.2, "imagenet/resnet50 on a40": -19.4, "librispeech/deepspeech2 on a40": -66.3,
		"movielens-1m/ncf on a40": -61.2, "sentiment140/bert_base_uncased on a40": -20.6, "squad/bert_base_uncased on a40": -21.4,
		"cifar100/shufflenetv2 on p100": -71.2, "movielens-1m/ncf on p100": -70.3,
	}
	seen := 0
	for _, j := range tables(t) {
		w, ok := want[j.Name()]
		if !ok {
			continue
		}
		seen++
		_, own := j.Expected(j.Default)
		_, least := j.Expected(j.Optimum(1))
		if got := percent(least, own); math.Abs(got-w) > 0.05+1e-9 {
			t.Errorf("%s: %.2f %% by %+v, want %.1f", j.Name(), got, j.Optimum(1), w)
		}
	}
	if seen != len(want) {
		t.Errorf("%d of %d jobs found", seen, len(want))
	}
}

// TestHoles checks that unmeasured pairs of batch size and power limit are no settings, that all others are, and that every
// policy plays around them. Two limits of batch 512 are cheap.
func TestHoles(t *testing.T) {
	const train = "dataset,network,batch_size,optimizer,target_metric,target_epoch\n"
	const power = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n"
	for name, c := range map[string]struct {
		missing  string // pairs "batch limit"
		settings int    // 0: no job
		defaultW float64
		optimum  jobSetting
	}{
		"complete":                  {"", 9, 200, jobSetting{512, 150}},
		"one pair":                  {"512 150", 8, 200, jobSetting{512, 100}},
		"a limit for two batches":   {"1024 150,2048 150", 7, 200, jobSetting{512, 150}},
		"the default's greatest":    {"1024 200", 8, 150, jobSetting{512, 150}},
		"most of a batch":           {"512 100,512 150,2048 200", 6, 200, jobSetting{1024, 100}},
		"all of a batch":            {"512 100,512 150,512 200", 6, 200, jobSetting{1024, 100}},
		"no limit of all batches":   {"512 150,512 200,1024 100,1024 150,2048 100,2048 200", 3, 200, jobSetting{512, 100}},
		"without the default batch": {"1024 100,1024 150,1024 200", 0, 0, jobSetting{}},
		"nothing":                   {"512 100,512 150,512 200,1024 100,1024 150,1024 200,2048 100,2048 150,2048 200", 0, 0, jobSetting{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, runs, rows := t.TempDir(), train, power
			for _, batch := range []string{"512", "1024", "2048"} {
				runs += "cifar100,shufflenetv2," + batch + ",adadelta,0.6,30\n"
				for _, limit := range []string{"100", "150", "200"} {
					watts := map[string]string{"512 100": "60", "512 150": "50"}[batch+" "+limit]
					if watts == "" {
						watts = "8" + limit[:1]
					}
					if strings.Contains(","+c.missing+",", ","+batch+" "+limit+",") {
						if watts = "nan"; limit == "150" {
							continue // no row at all
						}
					}
					rows += "cifar100,shufflenetv2," + batch + ",adadelta," + limit + ",10," + watts + "\n"
				}
			}
			for file, text := range map[string]string{"summary_train.csv": runs, "summary_power_v100.csv": rows} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			jobs, err := Load(dir)
			if c.settings == 0 {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v, %v", jobs, err)
				}
				return
			}
			if err != nil || len(jobs) != 1 {
				t.Fatalf("%d jobs, %v", len(jobs), err)
			}
			j := jobs[0]
			if len(j.Settings()) != c.settings || j.Default != (jobSetting{1024, c.defaultW}) || j.Optimum(1) != c.optimum {
				t.Errorf("settings %v, default %+v, optimum %+v; want %+v", j.Settings(), j.Default, j.Optimum(1), c)
			}
			for name, p := range policies {
				for seed := range uint64(20) {
					out, err := playJob(j, p, recurringOptions{Eta: 1, Seed: seed})
					if err != nil || !(out.Joules > 0) || !slices.Contains(j.Settings(), out.Settled) {
						t.Errorf("%s: %v J, settled on %+v, %v", name, out.Joules, out.Settled, err)
					}
				}
			}
		})
	}
}

// TestLoadNothing checks that a missing folder is reported as fs.ErrNotExist.
func TestLoadNothing(t *testing.T) {
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "summary_train") {
		t.Errorf("error %v", err)
	}
}

// FuzzParseTable checks that rows have the requested number of columns or an error is returned.
func FuzzParseTable(f *testing.F) {
	for _, s := range []string{"", "a,b\n1,2\n", "b,c,a\n1,2,3\n", "a,b\n1\n", "a,a\n\"1,2\n", "x,y\n1,2\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := parseTable(strings.NewReader(text), []string{"a", "b"})
		for _, r := range rows {
			if len(r) != 2 {
				t.Errorf("row %q", r)
			}
		}
		if err == nil && !strings.Contains(text, "a") {
			t.Errorf("no error without the columns")
		}
	})
}

package trial

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/internal/regular"
	"trainopt/internal/stat"
)

// kind is one of the six trainings of the Zeus evaluation (table 1 of the paper; targets and defaults from its
// artefact).
type kind struct {
	dataset, network, optimizer string
	target                      float64 // validation metric to reach
	batch                       int     // default
}

// kinds lists the trainings of the evaluation, without the GPU.
var kinds = []kind{
	{"cifar100", "shufflenetv2", "adadelta", 0.6, 1024},
	{"imagenet", "resnet50", "adadelta", 0.65, 256},
	{"librispeech", "deepspeech2", "adamw", 40, 192}, // word error rate: an upper bound
	{"movielens-1m", "ncf", "adam", 0.41, 1024},
	{"sentiment140", "bert_base_uncased", "adamw", 0.84, 128},
	{"squad", "bert_base_uncased", "adamw", 84, 32},
}

// gpus lists the GPUs of the power tables, in the order in which jobs are listed.
var gpus = []string{"v100", "a40", "rtx6000", "p100"}

// Load reads the tables summary_train.csv and summary_power_<gpu>.csv (or .csv.gz) of the Zeus artefact from a folder.
// It returns one job for every training on every GPU whose table exists and contains the default batch size; the batch
// sizes are those with both power measurements and training runs. The error wraps fs.ErrNotExist if the folder
// contains no such tables.
func Load(dir string) ([]*RecurringJob, error) {
	runs, err := readTable(dir, "summary_train", "dataset", "network", "batch_size", "optimizer", "target_metric", "target_epoch")
	if err != nil {
		return nil, err
	}
	var jobs []*RecurringJob
	for _, gpu := range gpus {
		power, err := readTable(dir, "summary_power_"+gpu, "dataset", "network", "batch_size", "optimizer", "power_limit", "time_per_epoch", "average_power")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, k := range kinds {
			j, err := k.job(gpu, runs, power)
			if err != nil {
				return nil, fmt.Errorf("read %s of %s/%s: %w", dir, k.dataset, k.network, err)
			}
			if slices.Contains(j.Batches, k.batch) {
				jobs = append(jobs, j)
			}
		}
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("read %s: no job with its default batch size: %w", dir, fs.ErrNotExist)
	}
	return jobs, nil
}

// table is a truth made of measurements.
type table struct {
	epochs map[int][]float64 // by batch size: epochs to the target of each run, NaN if it was not reached
	power  map[jobSetting][2]float64
}

// epoch implements truth with the measured values; NaN for a setting that was not measured.
func (t *table) epoch(s jobSetting) (seconds, watts float64) {
	v, ok := t.power[s]
	if !ok {
		return math.NaN(), math.NaN()
	}
	return v[0], v[1]
}

// draw implements truth: one of the measured runs, with equal probability.
func (t *table) draw(batch int, rng *rand.Rand) float64 {
	runs := t.epochs[batch]
	return runs[rng.IntN(len(runs))]
}

// mean implements truth: the mean of the measured runs, NaN if one of them did not reach the target.
func (t *table) mean(batch int) float64 {
	return stat.Mean(t.epochs[batch])
}

// row is one line of a table, with its columns in the requested order.
type row []string

// is reports whether a row is of this training.
func (k kind) is(r row) bool { return r[0] == k.dataset && r[1] == k.network && r[3] == k.optimizer }

// job builds the job of a training on one GPU. runs and power are the rows of the two tables. Pairs of batch size and
// power limit that were not measured are no settings of the job.
func (k kind) job(gpu string, runs, power []row) (*RecurringJob, error) {
	j := &RecurringJob{Dataset: k.dataset, Network: k.network, GPU: gpu}
	t := &table{map[int][]float64{}, map[jobSetting][2]float64{}}
	for _, r := range runs {
		batch, target, epoch, err := numbers3(r[2], r[4], r[5])
		if err != nil {
			return nil, err
		}
		if k.is(r) && epoch > j.MaxEpochs {
			j.MaxEpochs = epoch
		}
		if k.is(r) && target == k.target {
			t.epochs[int(batch)] = append(t.epochs[int(batch)], epoch)
		}
	}
	for _, r := range power {
		if !k.is(r) || unmeasured(r[5]) || unmeasured(r[6]) {
			continue
		}
		batch, limit, seconds, err := numbers3(r[2], r[4], r[5])
		if err != nil {
			return nil, err
		}
		watts, err := strconv.ParseFloat(r[6], 64)
		if err != nil || !(watts > 0 && seconds > 0 && limit > 0) {
			return nil, fmt.Errorf("power row %q: want positive numbers", strings.Join(r, ","))
		}
		if len(t.epochs[int(batch)]) == 0 {
			continue
		}
		t.power[jobSetting{int(batch), limit}] = [2]float64{seconds, watts}
		j.Batches, j.Limits = append(j.Batches, int(batch)), append(j.Limits, limit)
	}
	slices.Sort(j.Batches)
	slices.Sort(j.Limits)
	j.Batches, j.Limits = slices.Compact(j.Batches), slices.Compact(j.Limits)
	j.truth = t
	for _, s := range j.Settings() {
		if s.Batch == k.batch {
			j.Default = s // the last one has the greatest measured limit
		}
	}
	return j, nil
}

// unmeasured reports whether a field of a power table has no value.
func unmeasured(field string) bool {
	return strings.TrimSpace(field) == "" || strings.EqualFold(strings.TrimSpace(field), "nan")
}

// numbers3 parses three numbers.
func numbers3(a, b, c string) (x, y, z float64, err error) {
	for i, s := range []string{a, b, c} {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, 0, 0, err
		}
		*[]*float64{&x, &y, &z}[i] = v
	}
	return x, y, z, nil
}

// readTable reads the named columns of dir/name.csv or .csv.gz.
func readTable(dir, name string, columns ...string) ([]row, error) {
	f, err := os.Open(filepath.Join(dir, name+".csv.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.Open(filepath.Join(dir, name+".csv"))
	}
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	in, err := regular.Gunzip(f)
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", f.Name(), err)
	}
	rows, err := parseTable(in, columns)
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", f.Name(), err)
	}
	return rows, nil
}

// parseTable selects columns by the names in the first line.
func parseTable(in io.Reader, columns []string) ([]row, error) {
	var out []row
	err := regular.EachRow(csv.NewReader(in), columns, func(v []string) error { out = append(out, v); return nil })
	return out, err
}

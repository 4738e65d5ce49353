package trainlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"trainopt/internal/regular"
)

// A run in a file store of MLflow: the directory STORE/EXPERIMENT/RUN with meta.yaml, a file per metric (lines of time in
// ms, value and step) and a file per parameter. System metrics have a step of their own and are joined by time.

// isMLflowRun reports whether a directory is a run of a file store.
func isMLflowRun(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "metrics"))
	return err == nil && info.IsDir() && isFile(filepath.Join(dir, "meta.yaml"))
}

// isDeleted reports whether a run was deleted: MLflow keeps its files until they are collected.
func isDeleted(dir string) bool {
	meta, err := regular.ReadFile(filepath.Join(dir, "meta.yaml"), 1<<20)
	return err == nil && slices.Contains(strings.Split(string(meta), "\n"), "lifecycle_stage: deleted")
}

const maxMetricsBytes = 256 << 20 // of all metric files of a run

// mlflowPoint is one value of a metric.
type mlflowPoint struct {
	at, value float64 // ms since 1970
	step      int64
}

// mlflowRun is a run as read.
type mlflowRun struct {
	*tracker
	out     sink
	started float64 // ms since 1970; NaN if unknown
	metrics map[string][]mlflowPoint
	system  map[string][]mlflowPoint // by name of the column, in order of time
	read    int64
}

// readMLflow reads a run.
func readMLflow(dir string, o *parseOptions, out sink) (read, behind int64, err error) {
	r := mlflowRun{tracker: newTracker(o), out: out, started: math.NaN(), metrics: map[string][]mlflowPoint{}, system: map[string][]mlflowPoint{}}
	if data, err := regular.ReadFile(filepath.Join(dir, "meta.yaml"), 1<<20); err == nil {
		var meta struct {
			Start *float64 `yaml:"start_time"`
		}
		if yaml.Unmarshal(data, &meta) == nil && meta.Start != nil {
			r.started = *meta.Start
		}
	}
	if err := r.params(filepath.Join(dir, "params")); err != nil {
		return r.read, 0, err
	}
	root := filepath.Join(dir, "metrics")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return r.metric(path, filepath.ToSlash(name))
	})
	if err != nil {
		return r.read, 0, pathless(err)
	}
	r.rows()
	return r.read, 0, nil
}

// params takes the parameters as configuration.
func (r *mlflowRun) params(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pathless(err)
	}
	config := map[string]any{}
	for _, e := range entries {
		if data, err := regular.ReadFile(filepath.Join(dir, e.Name()), 64<<10); err == nil {
			config[e.Name()] = strings.TrimSpace(string(data))
		}
	}
	r.configure(config)
	return nil
}

// systemColumn returns the column of a system metric; empty if it is not used.
func systemColumn(name string) string {
	rest, _ := strings.CutPrefix(name, "system/")
	if rest == "cpu_utilization_percentage" {
		return CPUPercent.String()
	}
	if gpu, ok := strings.CutSuffix(rest, "_utilization_percentage"); ok {
		if index, ok := strings.CutPrefix(gpu, "gpu_"); ok {
			return gpuUtilPrefix + index
		}
	}
	return ""
}

// metric reads the file of a metric, if it is one of the known columns.
func (r *mlflowRun) metric(path, name string) error {
	into, key := r.metrics, name
	if strings.HasPrefix(name, "system/") {
		into, key = r.system, systemColumn(name)
	}
	if key == "" || r.fields.opts.resolve(key).kind == toNowhere {
		return nil
	}
	f, err := regular.Open(path, maxMetricsBytes-r.read)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		r.read += int64(len(lines.Bytes())) + 1
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		p, err := parsePoint(fields)
		if err != nil {
			r.out.bad(n, fmt.Sprintf("metric %s: %v", name, err))
			continue
		}
		into[key] = append(into[key], p)
	}
	return lines.Err()
}

// parsePoint parses the fields of a line of a metric: time, value and step; further fields are ignored.
func parsePoint(fields []string) (p mlflowPoint, err error) {
	if len(fields) < 2 {
		return p, fmt.Errorf("%d fields, want 3", len(fields))
	}
	if p.at, err = strconv.ParseFloat(fields[0], 64); err == nil {
		p.value, err = strconv.ParseFloat(fields[1], 64)
	}
	if len(fields) > 2 && err == nil {
		p.step, err = strconv.ParseInt(fields[2], 10, 64)
	}
	if err != nil {
		return p, errors.New("want time, value and step")
	}
	return p, nil
}

// mlflowRow collects the values of one step.
type mlflowRow struct {
	at     float64
	values map[string]any
}

// rows passes on one row for each step, or for each position if all values have the same step.
func (r *mlflowRun) rows() {
	steps, points := map[int64]bool{}, 0
	for _, list := range r.metrics {
		points = max(points, len(list))
		for _, p := range list {
			steps[p.step] = true
		}
	}
	counted := len(steps) > 1 || points <= 1
	rows := map[int64]*mlflowRow{}
	for name, list := range r.metrics {
		for i, p := range list {
			key := p.step
			if !counted {
				key = int64(i)
			}
			if rows[key] == nil {
				rows[key] = &mlflowRow{values: map[string]any{}}
			}
			rows[key].at = max(rows[key].at, p.at)
			rows[key].values[name] = json.Number(numberText(p.value))
		}
	}
	for _, list := range r.system {
		sort.Slice(list, func(i, j int) bool { return list[i].at < list[j].at })
	}
	keys := make([]int64, 0, len(rows))
	for key := range rows {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	position := r.position(keys)
	for i, key := range keys {
		if r.out.batchFull() {
			return
		}
		r.pass(rows[key], key, i+1, position, counted)
	}
}

// position returns the column that the steps of a run count: epochs, if they run to the total number of epochs and no
// metric contains them, otherwise steps.
func (r *mlflowRun) position(keys []int64) string {
	total, known := r.config.Value(TotalEpochs)
	for name := range r.metrics {
		if t := r.fields.opts.resolve(name); t.kind == toColumn && (t.column == Epoch || t.column == Step) {
			return Step.String()
		}
	}
	if len(keys) == 0 || !known {
		return Step.String()
	}
	first, last := float64(keys[0]), float64(keys[len(keys)-1])
	if (first == 0 || first == 1) && last-first < total {
		return Epoch.String()
	}
	return Step.String()
}

// pass completes a row and passes it on.
func (r *mlflowRun) pass(row *mlflowRow, key int64, n int, position string, counted bool) {
	if _, said := row.values[position]; counted && !said {
		row.values[position] = json.Number(strconv.FormatInt(key, 10))
	}
	if seconds := (row.at - r.started) / 1000; seconds >= 0 {
		row.values[TimeSoFar.String()] = json.Number(numberText(seconds))
	}
	for name, list := range r.system {
		if i := sort.Search(len(list), func(i int) bool { return list[i].at > row.at }); i > 0 {
			row.values[name] = json.Number(numberText(list[i-1].value))
		}
	}
	r.tracker.row(row.values, n, time.UnixMilli(int64(row.at)), r.out)
}

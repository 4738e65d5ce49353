package history

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// loadGavel reads the isolated rates. The batch size in a job's name is that of one GPU, and a rate is the sum of the
// steps per second over the GPUs, so samples/s are rate × batch. The reader leaves out jobs measured on a single
// number of GPUs (Recommendation), jobs without a batch size (A3C, CycleGAN) and rates of 0 (out of memory).
func loadGavel(dir string) ([]Entry, error) {
	dir = filepath.Join(dir, "gavel")
	file := filepath.Join(dir, "simulation_throughputs.json")
	models, err := LoadGavelCurves(dir)
	if err != nil {
		return nil, present(err)
	}
	var points []measurement
	for _, m := range models {
		_, gpu, _ := strings.Cut(m.Name, "/")
		for i, n := range m.GPUs {
			points = append(points, measurement{
				id:  fmt.Sprintf("gavel/%s/%s/%dx1/b%d", m.Family, gpu, n, m.Batch),
				gpu: m.GPU, gpus: n, nodes: 1, batch: float64(n * m.Batch), throughput: m.PerSecond[i] * float64(m.Batch),
			})
		}
	}
	return entriesOf(file, points)
}

// GavelCurve has the iterations per second of a training at a few numbers of GPUs and one batch per GPU.
type GavelCurve struct {
	Name   string `json:"name"`   // "resnet18-16/k80"
	Family string `json:"family"` // the model, "resnet18"
	GPU    string `json:"gpu"`
	Batch  int    `json:"batch_per_gpu"`
	// GPUs are ascending; PerSecond are the steps of one GPU per second, summed over the GPUs.
	GPUs      []int     `json:"gpus"`
	PerSecond []float64 `json:"per_second"`
}

// LoadGavelCurves reads dir/simulation_throughputs.json or its .gz, sorted by name. The error wraps fs.ErrNotExist for a
// missing table.
func LoadGavelCurves(dir string) ([]GavelCurve, error) {
	return readTable(filepath.Join(dir, "simulation_throughputs.json"), readGavel)
}

// gavelGPUs lists the worker types of the Gavel tables in which all GPUs of a job were measured in one machine.
var gavelGPUs = []struct{ worker, gpu, short string }{
	{"k80", "K80", "k80"}, {"p100", "P100", "p100"}, {"v100", "V100 16GB", "v100"},
}

// gavelJob matches a key such as "('ResNet-18 (batch size 16)', 2)": model, batch size, number of GPUs.
var gavelJob = regexp.MustCompile(`^\('([A-Za-z0-9-]+) \(batch size ([0-9]+)\)', ([0-9]+)\)$`)

// readGavel reads a throughput table of Gavel (OSDI 2020): for each worker type, job type and number of GPUs, the
// steps per second without co-located job ("null"). It skips job types that were measured on one number of GPUs only
// or have no batch size in their name, and rates of 0 (out of memory).
func readGavel(r io.Reader) ([]GavelCurve, error) {
	var table map[string]map[string]map[string]json.RawMessage
	if err := json.NewDecoder(r).Decode(&table); err != nil {
		return nil, fmt.Errorf("read Gavel throughputs: %w", err)
	}
	var out []GavelCurve
	for _, g := range gavelGPUs {
		models := map[string]*GavelCurve{}
		for job, with := range table[g.worker] {
			m := gavelJob.FindStringSubmatch(job)
			if m == nil || with["null"] == nil {
				continue
			}
			batch, err1 := strconv.Atoi(m[2])
			gpus, err2 := strconv.Atoi(m[3])
			var rate float64
			err3 := json.Unmarshal(with["null"], &rate)
			if err1 != nil || err2 != nil || err3 != nil || batch < 1 || gpus < 1 {
				return nil, fmt.Errorf("read Gavel throughputs: %s on %s: want a batch, GPUs from 1 and a rate, got %q", job, g.worker, string(with["null"]))
			}
			if !(rate > 0) {
				continue
			}
			family := strings.ToLower(strings.ReplaceAll(m[1], "-", ""))
			name := fmt.Sprintf("%s-%d/%s", family, batch, g.short)
			if models[name] == nil {
				models[name] = &GavelCurve{Name: name, Family: family, GPU: g.gpu, Batch: batch}
			}
			models[name].add(gpus, rate)
		}
		for _, m := range models {
			if len(m.GPUs) >= 2 {
				out = append(out, *m)
			}
		}
	}
	slices.SortFunc(out, func(a, b GavelCurve) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// add inserts a measurement, keeping the numbers of GPUs ascending; a duplicate is ignored.
func (c *GavelCurve) add(gpus int, rate float64) {
	i, found := slices.BinarySearch(c.GPUs, gpus)
	if found {
		return
	}
	c.GPUs = slices.Insert(c.GPUs, i, gpus)
	c.PerSecond = slices.Insert(c.PerSecond, i, rate)
}

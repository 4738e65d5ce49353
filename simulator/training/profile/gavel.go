package profile

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gavelGPUs lists the worker types of the Gavel tables in which all GPUs of a job were measured in one machine.
var gavelGPUs = []struct{ worker, gpu, short string }{
	{"k80", "K80", "k80"}, {"p100", "P100", "p100"}, {"v100", "V100 16GB", "v100"},
}

// gavelJob matches a key such as "('ResNet-18 (batch size 16)', 2)": model, batch size, number of GPUs.
var gavelJob = regexp.MustCompile(`^\('([A-Za-z0-9-]+) \(batch size ([0-9]+)\)', ([0-9]+)\)$`)

// ReadGavel reads a throughput table of Gavel (OSDI 2020): for each worker type, job type and number of GPUs, the
// steps per second without co-located job ("null"). It skips job types that were measured on one number of GPUs only
// or have no batch size in their name, and rates of 0 (out of memory). Origin is left empty.
func ReadGavel(r io.Reader) ([]CountModel, error) {
	var table map[string]map[string]map[string]json.RawMessage
	if err := json.NewDecoder(r).Decode(&table); err != nil {
		return nil, fmt.Errorf("read Gavel throughputs: %w", err)
	}
	var out []CountModel
	for _, g := range gavelGPUs {
		models := map[string]*CountModel{}
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
				models[name] = &CountModel{Name: name, Family: family, GPU: g.gpu, Batch: batch}
			}
			models[name].add(gpus, rate)
		}
		for _, m := range models {
			if len(m.GPUs) >= 2 {
				out = append(out, *m)
			}
		}
	}
	slices.SortFunc(out, func(a, b CountModel) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// add inserts a measurement, keeping the numbers of GPUs ascending; a duplicate is ignored.
func (c *CountModel) add(gpus int, rate float64) {
	i, found := slices.BinarySearch(c.GPUs, gpus)
	if found {
		return
	}
	c.GPUs = slices.Insert(c.GPUs, i, gpus)
	c.PerSecond = slices.Insert(c.PerSecond, i, rate)
}

// LoadGavel reads dir/simulation_throughputs.json or its .gz.
func LoadGavel(dir string) ([]CountModel, error) {
	f, err := open(dir + "/simulation_throughputs.json")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadGavel(f)
}

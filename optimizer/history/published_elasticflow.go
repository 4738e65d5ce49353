package history

import (
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"trainopt/internal/regular"
)

// elasticFlowClusters lists the folders of the tables.
var elasticFlowClusters = []struct {
	folder, name, gpu string
	perNode           int
}{
	{"throughputs_A100", "a100", "A100 40GB", 8},
	{"throughputs_T4", "t4", "T4", 4},
}

// loadElasticFlow reads iterations per second by total batch size and number of GPUs, with whole nodes filled in
// turn.
func loadElasticFlow(dir string) ([]Entry, error) {
	var all []Entry
	for _, c := range elasticFlowClusters {
		names, err := filepath.Glob(filepath.Join(dir, "elasticflow", c.folder, "*.csv*"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			model, _, _ := strings.Cut(filepath.Base(name), ".")
			points, err := readTable(name, func(r io.Reader) ([]measurement, error) {
				return readElasticFlow(r, "elasticflow/"+model+"/"+c.name, c.gpu, c.perNode)
			})
			if err != nil {
				return nil, err
			}
			entries, err := entriesOf(name, points)
			if err != nil {
				return nil, err
			}
			all = append(all, entries...)
		}
	}
	return all, nil
}

// elasticFlowGPUs lists the columns of the tables.
var elasticFlowGPUs = []string{"1", "2", "4", "8", "16", "32", "64"}

// readElasticFlow reads one table. Empty cells, "nan" and 0 were not measured.
func readElasticFlow(r io.Reader, prefix, gpu string, perNode int) ([]measurement, error) {
	var out []measurement
	err := regular.EachRow(csv.NewReader(r), append([]string{"global_batch_size"}, elasticFlowGPUs...), func(v []string) error {
		batch, err := parseWhole(v[0])
		if err != nil {
			return fmt.Errorf("global_batch_size %w", err)
		}
		for i, column := range elasticFlowGPUs {
			cell := strings.TrimSpace(v[i+1])
			if cell == "" || cell == "nan" {
				continue
			}
			rate, err := parseNumber(cell)
			if err != nil || rate < 0 {
				return fmt.Errorf("rate on %s GPUs %q, want iterations per second", column, cell)
			}
			if rate == 0 {
				continue
			}
			gpus, err := parseWhole(column)
			if err != nil {
				return err
			}
			out = append(out, measurement{id: fmt.Sprintf("%s/%d/g%d", prefix, gpus, batch), gpu: gpu, gpus: gpus,
				nodes: (gpus + perNode - 1) / perNode, batch: float64(batch), throughput: rate * float64(batch)})
		}
		return nil
	})
	return out, err
}

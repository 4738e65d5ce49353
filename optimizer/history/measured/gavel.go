package measured

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"trainopt/optimizer/history"
	"trainopt/simulator/training/profile"
)

// loadGavel reads the isolated rates. The batch size in a job's name is that of one GPU, and a rate is the sum of the
// steps per second over the GPUs, so samples/s are rate × batch. The reader leaves out jobs measured on a single
// number of GPUs (Recommendation), jobs without a batch size (A3C, CycleGAN) and rates of 0 (out of memory).
func loadGavel(dir string) ([]history.Entry, error) {
	dir = filepath.Join(dir, "gavel")
	file := filepath.Join(dir, "simulation_throughputs.json")
	models, err := profile.LoadGavel(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var points []point
	for _, m := range models {
		_, gpu, _ := strings.Cut(m.Name, "/")
		for i, n := range m.GPUs {
			points = append(points, point{
				id:  fmt.Sprintf("gavel/%s/%s/%dx1/b%d", m.Family, gpu, n, m.Batch),
				gpu: m.GPU, gpus: n, nodes: 1, batch: float64(n * m.Batch), throughput: m.PerSecond[i] * float64(m.Batch),
			})
		}
	}
	return entriesOf(file, points)
}

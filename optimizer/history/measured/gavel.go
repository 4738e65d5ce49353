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

// loadGavel reads the isolated rates. The batch in a job's name is that of one GPU, and a rate is the sum over the GPUs of
// their steps per second, so samples/s are rate × batch. Jobs measured on one number of GPUs only (Recommendation), those
// without a batch (A3C, CycleGAN) and rates of 0 (did not fit in memory) are left out by the reader.
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

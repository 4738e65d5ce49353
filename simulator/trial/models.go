package trial

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// modelsJSON holds the fitted models. It is written by
//
//	go test ./simulator/trial -run TestModels -update
//
//go:embed models.json
var modelsJSON []byte

// modelsFile is the content of models.json.
type modelsFile struct {
	Source string      `json:"source"`
	Jobs   []fittedJob `json:"jobs"`
}

// fittedJob is one job of models.json.
type fittedJob struct {
	Dataset   string     `json:"dataset"`
	Network   string     `json:"network"`
	GPU       string     `json:"gpu"`
	Limits    []float64  `json:"limits_watts"`
	Default   jobSetting `json:"default"`
	MaxEpochs float64    `json:"max_epochs"`
	model
}

// Fitted returns the jobs of the embedded models: those of Load, with errors of a few percent in
// time and energy (TestModels).
func Fitted() ([]*RecurringJob, error) { return readModels(modelsJSON) }

// readModels parses and validates the content of a models.json.
func readModels(data []byte) ([]*RecurringJob, error) {
	var file modelsFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("read fitted models: %w", err)
	}
	var jobs []*RecurringJob
	for i, f := range file.Jobs {
		j, err := f.job()
		if err != nil {
			return nil, fmt.Errorf("read fitted models: job %d: %w", i+1, err)
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// job validates a fitted model and returns its job.
func (f fittedJob) job() (*RecurringJob, error) {
	m := f.model
	j := &RecurringJob{Dataset: f.Dataset, Network: f.Network, GPU: f.GPU, Limits: f.Limits, Default: f.Default, MaxEpochs: f.MaxEpochs, truth: &m}
	for _, b := range f.Batches {
		j.Batches = append(j.Batches, b.Batch)
		if !(b.Reached >= 0 && b.Reached <= 1 && b.LogSpread >= 0) || math.Abs(b.LogEpochs) > 100 || b.LogSpread > 10 {
			return nil, fmt.Errorf("%s: epochs of batch %d make no sense: %+v", j.Name(), b.Batch, b)
		}
	}
	switch {
	case !ascending(j.Batches) || !ascending(j.Limits) || len(j.Batches) == 0 || len(j.Limits) == 0 || j.Batches[0] < 1 || !(j.Limits[0] > 0):
		return nil, fmt.Errorf("%s: batch sizes %v and limits %v must ascend from more than 0", j.Name(), j.Batches, j.Limits)
	case !slices.Contains(j.Settings(), j.Default):
		return nil, fmt.Errorf("%s: the default %+v is not among the settings", j.Name(), j.Default)
	case !(j.MaxEpochs > 0):
		return nil, fmt.Errorf("%s: %g epochs at most", j.Name(), j.MaxEpochs)
	case m.at(j.Default.Batch).Reached < 1:
		return nil, fmt.Errorf("%s: the default does not always reach the target", j.Name())
	}
	for _, s := range j.Settings() {
		if seconds, joules := j.Epoch(s); !(seconds > 0 && joules > 0) || math.IsInf(seconds, 0) || math.IsInf(joules, 0) {
			return nil, fmt.Errorf("%s: an epoch at %+v takes %g s and %g J", j.Name(), s, seconds, joules)
		}
	}
	return j, nil
}

// ascending reports whether the values are strictly ascending.
func ascending[T int | float64](v []T) bool {
	for i := 1; i < len(v); i++ {
		if !(v[i-1] < v[i]) {
			return false
		}
	}
	return true
}

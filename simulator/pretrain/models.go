package pretrain

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"trainopt/optimizer/history"
	"trainopt/resources"
)

// Models is the content of models.json: everything embedded, with its origin.
type Models struct {
	Schema int          `json:"schema"` // 1
	Made   string       `json:"made"`   // generating command
	Steps  []StepModel  `json:"steps"`
	Counts []CountModel `json:"counts"`
}

// Origin identifies the source of numbers.
type Origin struct {
	Source  string `json:"source"`
	Commit  string `json:"commit"`
	Licence string `json:"licence"`
	Fitted  string `json:"fitted"` // date, YYYY-MM-DD
}

// FitError is the error of a fit: absolute values of relative errors.
type FitError struct {
	Points int     `json:"points"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// StepModel is a kind with a fitted curve of the step time and a fitted gradient noise scale.
type StepModel struct {
	Origin
	Name         string    `json:"name"`
	Family       string    `json:"family"`
	GPU          string    `json:"gpu"`
	GPUsPerNode  int       `json:"gpus_per_node"`
	MaxGPUs      int       `json:"max_gpus"`
	DefaultBatch int       `json:"default_batch"`
	Batch        [2]int    `json:"batch_per_gpu"`
	TotalBatch   [2]int    `json:"batch_total"`
	WorkSamples  float64   `json:"work_samples"`
	Curve        StepCurve `json:"step_seconds"`
	Error        FitError  `json:"step_error"`
	// NoiseScale is φ in samples, ReferenceBatch is M0.
	NoiseScale      float64  `json:"noise_scale"`
	ReferenceBatch  float64  `json:"reference_batch"`
	EfficiencyError FitError `json:"efficiency_error"`
}

// CountModel is a kind whose iterations per second were measured at a few numbers of GPUs.
type CountModel struct {
	Origin
	history.GavelCurve
}

//go:embed models.json
var modelsJSON []byte

var embeddedKinds = sync.OnceValues(func() ([]Kind, error) { return ParseModels(modelsJSON) })

// Embedded returns the fitted kinds in a new slice, sorted by name. It panics if the embedded file is invalid, which a
// test excludes.
func Embedded() []Kind {
	kinds, err := embeddedKinds()
	if err != nil {
		panic(fmt.Sprintf("profile: the embedded models: %v", err))
	}
	return slices.Clone(kinds)
}

// ParseModels parses and validates the content of a models.json.
func ParseModels(data []byte) ([]Kind, error) {
	var m Models
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("read fitted models: %w", err)
	}
	if m.Schema != 1 {
		return nil, fmt.Errorf("read fitted models: schema %d, want 1", m.Schema)
	}
	var out []Kind
	for _, s := range m.Steps {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("read fitted models: %s: %w", s.Name, err)
		}
		out = append(out, s.kind())
	}
	for _, c := range m.Counts {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("read fitted models: %s: %w", c.Name, err)
		}
		out = append(out, c.kind())
	}
	return sortKinds(out)
}

// check returns an error if a parameter of the model is not positive.
func (s StepModel) check() error {
	if s.DefaultBatch < 1 || s.MaxGPUs < 1 || !(s.NoiseScale > 0) || !(s.ReferenceBatch > 0) || !(s.Curve.Seconds(1, 1, float64(s.DefaultBatch)) > 0) {
		return fmt.Errorf("batch %d, GPUs %d, noise scale %g, reference batch %g or the curve is not positive", s.DefaultBatch, s.MaxGPUs, s.NoiseScale, s.ReferenceBatch)
	}
	return nil
}

func (s StepModel) kind() Kind {
	k := Kind{
		Name: s.Name, Family: s.Family, Source: s.Source + " @ " + s.Commit, Licence: s.Licence,
		GPU: s.GPU, GPUsPerNode: s.GPUsPerNode, MaxGPUs: s.MaxGPUs, DefaultBatch: s.DefaultBatch,
		Batch: resources.Range{Min: s.Batch[0], Max: s.Batch[1]}, TotalBatch: resources.Range{Min: s.TotalBatch[0], Max: s.TotalBatch[1]},
		WorkSamples: s.WorkSamples, HeldOut: heldOut[s.Family],
		step: fittedSteps{s.Curve, s.GPUsPerNode, noiseScale{s.NoiseScale, s.ReferenceBatch}},
	}
	k.Restart, k.Parameters = restartOf(s.Family), parameters[s.Family]
	return k
}

// check returns an error unless GPUs and rates match, are positive and at least two.
func (c CountModel) check() error {
	if c.Batch < 1 || len(c.GPUs) < 2 || len(c.GPUs) != len(c.PerSecond) || !slices.IsSorted(c.GPUs) || c.GPUs[0] < 1 {
		return fmt.Errorf("batch %d, %d numbers of GPUs (ascending, 2 at least) and %d rates do not fit", c.Batch, len(c.GPUs), len(c.PerSecond))
	}
	for _, r := range c.PerSecond {
		if !(r > 0) {
			return fmt.Errorf("rate %g is not positive", r)
		}
	}
	return nil
}

// kind returns the kind of the model. It is Irregular if any doubling of the GPUs changes the rate by an implausible
// factor.
func (c CountModel) kind() Kind {
	rate := batchCurve{value: c.PerSecond}
	for _, n := range c.GPUs {
		rate.batch = append(rate.batch, float64(n))
	}
	k := Kind{
		Name: c.Name, Family: c.Family, Source: c.Source + " @ " + c.Commit, Licence: c.Licence,
		GPU: c.GPU, MaxGPUs: c.GPUs[len(c.GPUs)-1], DefaultBatch: c.Batch, HeldOut: heldOut[c.Family],
		step: countedSteps{rate},
	}
	k.Restart, k.Parameters = restartOf(c.Family), parameters[c.Family]
	for i := 1; i < len(c.GPUs); i++ {
		if c.GPUs[i] == 2*c.GPUs[i-1] {
			r := c.PerSecond[i] / c.PerSecond[i-1]
			k.Irregular = k.Irregular || r > 2.2 || r < 0.8
		}
	}
	return k
}

// sortKinds sorts kinds by name; a duplicate name is an error.
func sortKinds(kinds []Kind) ([]Kind, error) {
	slices.SortFunc(kinds, func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(kinds); i++ {
		if kinds[i].Name == kinds[i-1].Name {
			return nil, fmt.Errorf("kind %q occurs twice", kinds[i].Name)
		}
	}
	return kinds, nil
}

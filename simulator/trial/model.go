package trial

import (
	"math"
	"math/rand/v2"
	"slices"
)

// model is a fitted truth. At batch size b and power limit w the GPU demands demand(b) watts. The power drawn and the
// slow-down depend on the ratio r = demand(b) / w alone, through five parameters shared by all batch sizes of a job:
//
//	watts   = demand(b) · (1 + (r/Cap)^CapSharp)^(-1/CapSharp)        // at most about Cap·w
//	seconds = seconds(b) · (1 + (r/Knee)^KneeSharp)^(Slope/KneeSharp) // ∝ r^Slope when starved
//
// Each batch size has five parameters of its own: no smooth function of the batch size fits within a few percent,
// because the kernels change with the shape of a batch.
type model struct {
	Throttle throttle   `json:"throttle"`
	Batches  []perBatch `json:"batches"`
}

// throttle contains the five parameters shared by all batch sizes of a job.
type throttle struct {
	Cap       float64 `json:"cap"`
	CapSharp  float64 `json:"cap_sharp"`
	Knee      float64 `json:"knee"`
	KneeSharp float64 `json:"knee_sharp"`
	Slope     float64 `json:"slope"`
}

// perBatch contains the five parameters of one batch size.
type perBatch struct {
	Batch   int     `json:"batch"`
	Seconds float64 `json:"epoch_seconds"` // at unlimited power
	Watts   float64 `json:"demand_watts"`
	// LogEpochs and LogSpread are the mean and standard deviation of the logarithm of the epochs to the target, over
	// the runs that reached it. Reached is the share of those runs; if it is 0, LogEpochs and LogSpread are 0 too.
	LogEpochs float64 `json:"log_epochs"`
	LogSpread float64 `json:"log_spread"`
	Reached   float64 `json:"reached"`
}

// draw returns the power drawn relative to the demand, at the ratio r of demand to limit.
func (t throttle) draw(r float64) float64 {
	return math.Pow(1+math.Pow(r/t.Cap, t.CapSharp), -1/t.CapSharp)
}

// slow returns the seconds relative to unlimited power, at the ratio r of demand to limit.
func (t throttle) slow(r float64) float64 {
	return math.Pow(1+math.Pow(r/t.Knee, t.KneeSharp), t.Slope/t.KneeSharp)
}

// at returns the parameters of a batch size, nil if the model does not contain it.
func (m *model) at(batch int) *perBatch {
	i := slices.IndexFunc(m.Batches, func(b perBatch) bool { return b.Batch == batch })
	if i < 0 {
		return nil
	}
	return &m.Batches[i]
}

// epoch implements truth; NaN for an unknown batch size or a limit that is not positive.
func (m *model) epoch(s jobSetting) (seconds, watts float64) {
	b := m.at(s.Batch)
	if b == nil || !(s.Watts > 0) {
		return math.NaN(), math.NaN()
	}
	r := b.Watts / s.Watts
	return b.Seconds * m.Throttle.slow(r), b.Watts * m.Throttle.draw(r)
}

// draw implements truth: a log-normal number of epochs with probability Reached, else NaN.
func (m *model) draw(batch int, rng *rand.Rand) float64 {
	b, luck, z := m.at(batch), rng.Float64(), rng.NormFloat64()
	if luck >= b.Reached {
		return math.NaN()
	}
	return math.Exp(b.LogEpochs + b.LogSpread*z)
}

// mean implements truth: the mean of the log-normal distribution, NaN if Reached is below 1.
func (m *model) mean(batch int) float64 {
	b := m.at(batch)
	if b == nil || b.Reached < 1 {
		return math.NaN()
	}
	return math.Exp(b.LogEpochs + b.LogSpread*b.LogSpread/2)
}

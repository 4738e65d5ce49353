package profile

import (
	"math"

	"trainopt/resources"
	"trainopt/simulator/training"
)

// Kind is one kind of training job on one kind of GPU, as it was measured.
type Kind struct {
	Name    string // "cifar10/t4"; unique in the answer of one call
	Family  string // the model trained, "cifar10": kinds of one family resemble each other
	Source  string // who measured it, with commit
	Licence string // SPDX, or "none" for tables that carry no licence
	// Measured is true when the tables themselves answer, false when a curve fitted to them does.
	Measured bool

	GPU         string // model name as package cost knows it, "T4"
	GPUsPerNode int    // 0: all in one node
	MaxGPUs     int    // most GPUs that were measured
	// DefaultBatch is samples per GPU and step when nobody chooses; Batch the allowed range per GPU (memory), TotalBatch
	// that over all GPUs (quality); zero ranges leave DefaultBatch as the only choice.
	DefaultBatch      int
	Batch, TotalBatch resources.Range
	// WorkSamples is the whole training to its target metric at full statistical worth, 0 unknown.
	WorkSamples float64
	// Restart is seconds of checkpoint, exit, start and warm-up; RestartKnown says that it was measured for this model.
	Restart      float64
	RestartKnown bool
	// HeldOut kinds are never used to train an agent.
	HeldOut bool
	// Irregular kinds change their throughput by more than 2.2 times, or less than 0.8 times, for twice the GPUs:
	// numbers from different machines, and not the scaling of one.
	Irregular bool

	step stepTimer
}

// stepTimer knows the throughput of a kind.
type stepTimer interface {
	// seconds is the time of one step of all GPUs at a batch per GPU; NaN where nothing is known.
	seconds(gpus int, perGPU float64) float64
	// efficiency is the worth of a sample at a total batch relative to one at the reference batch; NaN unknown.
	efficiency(total float64) float64
}

// UnitSamples is the size of the unit of Workload: a thousand steps of one GPU at the default batch.
func (k Kind) UnitSamples() float64 { return 1000 * float64(k.DefaultBatch) }

// Workload is the truth with units of UnitSamples.
func (k Kind) Workload() training.Workload { return k.WorkloadOf(k.UnitSamples()) }

// WorkloadOf is the truth with units of the given number of samples, more than 0.
func (k Kind) WorkloadOf(unitSamples float64) training.Workload {
	return kindWorkload{kind: k, samples: unitSamples}
}

type kindWorkload struct {
	kind    Kind
	samples float64
}

// UnitSeconds is samples / (throughput × efficiency). The total batch is Allocation.BatchSize, or the default per GPU on
// every GPU (weak scaling) when that is 0. NaN without a GPU, above MaxGPUs, outside the allowed batch and where the
// tables say nothing. CPUs and memory do not matter.
func (w kindWorkload) UnitSeconds(a resources.Allocation) float64 {
	k := &w.kind
	if a.GPUs < 1 || a.GPUs > k.MaxGPUs {
		return math.NaN()
	}
	total := float64(a.BatchSize)
	if a.BatchSize == 0 {
		total = float64(a.GPUs * k.DefaultBatch)
	}
	per := total / float64(a.GPUs)
	if !within(per, k.Batch, k.DefaultBatch) || k.TotalBatch.Max > 0 && !within(total, k.TotalBatch, 0) {
		return math.NaN()
	}
	t := w.samples / total * k.step.seconds(a.GPUs, per) / k.step.efficiency(total)
	if !(t > 0) || math.IsInf(t, 0) {
		return math.NaN()
	}
	return t
}

// Watts is unknown: none of these tables measured power.
func (w kindWorkload) Watts(resources.Allocation) float64 { return math.NaN() }

func within(x float64, r resources.Range, only int) bool {
	if r.Max == 0 {
		return math.Abs(x-float64(only)) < 1e-9
	}
	return x >= float64(r.Min)-1e-9 && x <= float64(r.Max)+1e-9
}

// heldOut are the families kept from training, about a third of the embedded kinds.
var heldOut = map[string]bool{"bert": true, "imagenet": true, "transformer": true}

// restarts are seconds to checkpoint and restart one model, measured for Sia (SOSP 2023) and written down as rescale_time in
// its published simulator (siasosp23/artifacts, sia-simulator/applications.py, commit 37c68be). Its section 4 gives 25–250 s.
var restarts = map[string]float64{"cifar10": 50, "deepspeech2": 25, "bert": 120, "yolov3": 80, "imagenet": 250, "ncf": 15}

// similar names the family of restarts whose model and framework come closest.
var similar = map[string]string{"resnet18": "cifar10", "resnet50": "imagenet"}

// otherRestart is what the same simulator takes for a model that it has not measured.
const otherRestart = 30

func restartOf(family string) (seconds float64, known bool) {
	if s, ok := restarts[family]; ok {
		return s, true
	}
	if s, ok := restarts[similar[family]]; ok {
		return s, false
	}
	return otherRestart, false
}

package pretrain

import (
	"cmp"
	"math"

	"trainopt/resources"
	"trainopt/simulator/training"
)

// Kind is one kind of training job on one kind of GPU, as measured.
type Kind struct {
	Name    string // "cifar10/t4"; unique within the result of one call
	Family  string // the trained model, "cifar10"; kinds of one family resemble each other
	Source  string // origin of the measurements, with commit
	Licence string // SPDX, or "none" for tables without licence
	// Measured is true if the truth is the tables themselves, false if it is a curve fitted to them.
	Measured bool

	GPU         string // model name as in package cost, "T4"
	GPUsPerNode int    // 0: all in one node
	MaxGPUs     int    // largest measured number of GPUs
	// DefaultBatch is the samples per GPU and step by default. Batch is the allowed range per GPU (memory), TotalBatch
	// the allowed range over all GPUs (quality); zero ranges allow DefaultBatch only.
	DefaultBatch      int
	Batch, TotalBatch resources.Range
	// WorkSamples is the number of samples of the whole training to its target metric at full statistical efficiency,
	// 0 if unknown.
	WorkSamples float64
	// Restart is the seconds of checkpoint, exit, start and warm-up.
	Restart float64
	// Parameters is the number of trained parameters, 0 if unknown.
	Parameters float64
	// HeldOut kinds are never used to train an agent.
	HeldOut bool
	// Irregular kinds change their throughput by a factor above 2.2 or below 0.8 for twice the GPUs: their numbers
	// come from different machines and do not show the scaling of one.
	Irregular bool

	step stepTimer
}

// stepTimer is the throughput of a kind.
type stepTimer interface {
	// seconds returns the time of one step of all GPUs at a batch per GPU; NaN without data.
	seconds(gpus int, perGPU float64) float64
	// efficiency returns the efficiency of a sample at a total batch relative to the reference batch; NaN if unknown.
	efficiency(total float64) float64
}

// UnitSamples returns the size of the unit of Workload: a thousand steps of one GPU at the default batch.
func (k Kind) UnitSamples() float64 { return 1000 * float64(k.DefaultBatch) }

// Workload returns the truth with units of UnitSamples.
func (k Kind) Workload() training.Workload { return k.WorkloadOf(k.UnitSamples()) }

// stepsOf returns the number of steps that the given number of samples takes at a total batch, 0 for the default per GPU.
func (k Kind) stepsOf(samples float64, a resources.Allocation) float64 {
	total := float64(a.BatchSize)
	if a.BatchSize == 0 {
		total = float64(a.GPUs * k.DefaultBatch)
	}
	return samples / total / k.step.efficiency(total)
}

// WorkloadOf returns the truth with units of the given number of samples, which must be positive.
func (k Kind) WorkloadOf(unitSamples float64) training.Workload {
	return kindWorkload{kind: k, samples: unitSamples}
}

// kindWorkload is the Workload of a kind with units of a number of samples.
type kindWorkload struct {
	kind    Kind
	samples float64
}

// UnitSeconds returns samples / (throughput × efficiency). The total batch is Allocation.BatchSize or, if that is 0,
// the default per GPU on every GPU (weak scaling). It returns NaN without a GPU, above MaxGPUs, outside the allowed
// batch, and where the tables contain no data. CPUs and memory have no effect.
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

// Watts returns NaN: none of these tables measured power.
func (w kindWorkload) Watts(resources.Allocation) float64 { return math.NaN() }

// within reports whether x is in the range or, for a zero range, equal to only.
func within(x float64, r resources.Range, only int) bool {
	if r.Max == 0 {
		return math.Abs(x-float64(only)) < 1e-9
	}
	return x >= float64(r.Min)-1e-9 && x <= float64(r.Max)+1e-9
}

// heldOut lists the families excluded from training, about a third of the embedded kinds.
var heldOut = map[string]bool{"bert": true, "imagenet": true, "transformer": true}

// restarts are the seconds to checkpoint and restart one model, measured for Sia (SOSP 2023) and recorded as
// rescale_time in its published simulator (siasosp23/artifacts, sia-simulator/applications.py, commit 37c68be).
// Section 4 of the paper states 25–250 s.
var restarts = map[string]float64{"cifar10": 50, "deepspeech2": 25, "bert": 120, "yolov3": 80, "imagenet": 250, "ncf": 15}

// parameters are the numbers of trained parameters of models whose source is certain: BERT base 110 million (Devlin et al. 2019),
// ResNet-50 25.6, ResNet-18 for CIFAR-10 11.2 (both after He et al. 2016), YOLOv3 61.9 (Redmon and Farhadi 2018).
var parameters = map[string]float64{"bert": 110e6, "imagenet": 25.6e6, "resnet50": 25.6e6, "cifar10": 11.2e6, "resnet18": 11.2e6, "yolov3": 61.9e6}

// similar maps a family to the family of restarts with the most similar model and framework.
var similar = map[string]string{"resnet18": "cifar10", "resnet50": "imagenet"}

// otherRestart is the value of the same simulator for models without a measurement.
const otherRestart = 30

// restartOf returns the restart time of a family, of a similar one, or of others.
func restartOf(family string) float64 {
	return cmp.Or(restarts[family], restarts[similar[family]], otherRestart)
}

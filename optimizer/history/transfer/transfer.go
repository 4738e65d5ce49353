// Package transfer predicts how a training goes where it never ran, from measurements of it and of others that resemble it.
package transfer

import (
	"errors"

	"trainopt/optimizer/history"
	"trainopt/sla"
)

// ErrNoBasis says that nothing measured resembles what is asked.
var ErrNoBasis = errors.New("no basis")

// Quantity is what is predicted.
type Quantity string

const (
	Throughput Quantity = "throughput"      // samples/s, steady state
	UnitRate   Quantity = "unit_rate"       // units of the job's own log per second, of the same training only
	Trainings  Quantity = "trainings"       // whole trainings to their target per second (entries that know Seconds and not the throughput)
	HostMemory Quantity = "host_memory_gib" // peak
	GPUMemory  Quantity = "gpu_memory_gib"  // peak of one GPU
)

// Options tune a model; the zero value is useful.
type Options struct {
	// Widen gives the factor on the log-width of intervals for a model family that past predictions ask for; nil is 1.
	Widen func(family string) float64
}

// Query is a training and where it would run.
type Query struct {
	Job    history.Job
	Config history.Config
}

// Ground is one group of measurements that a prediction rests on.
type Ground struct {
	Source     string // where they were measured
	Job        history.Job
	Entries    []string // ids
	Measured   string   // in words: "1, 2, 4 GPUs of T4, batch 64…512"
	Similarity float64  // 0…1: the correlation that the model gives it with what is asked
	Weight     float64  // 0…1: its share in the answer
}

// Estimate is a predicted quantity with what it rests on.
type Estimate struct {
	Value sla.Interval
	Basis []Ground // the weightiest first
	Prior float64  // 0…1: the share of the answer that rests on no measurement of a similar training
	// Extrapolates lists, in words, where the question leaves what was measured; empty inside.
	Extrapolates []string
}

// Model predicts. It does not change and may be used by several goroutines.
type Model struct{}

// New learns from entries, in any order.
func New(entries []history.Entry, o Options) *Model { return &Model{} }

// Predict predicts a quantity. The error wraps ErrNoBasis when nothing measured resembles the question.
func (m *Model) Predict(q Query, what Quantity) (Estimate, error) { return Estimate{}, ErrNoBasis }

package predict

import (
	"errors"
	"fmt"
	"math"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// Predictor foretells a quantity of a training that never ran there; [transfer.Model] is one. It is asked by several goroutines
// at once. An error that wraps
// [transfer.ErrNoBasis] says that nothing measured resembles the question.
type Predictor interface {
	Predict(transfer.Query, transfer.Quantity) (transfer.Estimate, error)
}

// Learner makes a predictor from measurements. It is called again with an imagined measurement added, to see what measuring
// would bring.
type Learner func([]history.Entry) Predictor

// Market is how a machine of a cloud is paid for.
type Market string

const (
	OnDemand Market = "on demand"
	Spot     Market = "spot"
	// Owned is a machine at hand, at the rates that are given for it.
	Owned Market = "own rates"
)

// Machine is somewhere the job can run.
type Machine struct {
	// Offer is what the machine has, and what it costs where Rates is nil. Of a machine at hand its GPUMemory may be 0, unknown.
	Offer cost.Offer
	// Rates are the prices of a machine at hand, whose parts are paid for; nil: the whole machine at the offer's prices.
	Rates *cost.Rates
	// Divide also weighs 1, 2, 4 … of its GPUs (of its CPUs, for a job without GPUs), not only all of them.
	Divide bool
}

// Unbounded is the upper end of a range that has none.
const Unbounded = math.MaxInt32

// Question is what is asked. Unknown numbers are NaN, as in [history.NewEntry]; the zero value of the rest is useful.
type Question struct {
	Subject string      // what is asked about, in words: "run 20261120-093000-ab12", "train.py"
	Job     history.Job // Epochs is what is asked for, whatever earlier runs did
	// Same are ids of entries that are known to be of this very training, besides those with the hash of its script.
	Same  []string
	Batch float64 // samples per step over all GPUs, held whatever their number; NaN: not given
	// CPUOnly says that the job uses no GPU: machines without are weighed, else those with.
	CPUOnly bool
	// GPUs and CPUs bound what may be used, over all machines of a job; the zero Range is no bound.
	GPUs, CPUs resources.Range
	// Arch is the architecture that machines without GPUs must have, "amd64" or "arm64"; "" any.
	Arch string
	// OneGPU says that nothing in the script spreads work over several GPUs.
	OneGPU bool
	// Resumable says whether the job goes on after an interruption; nil: not known.
	Resumable *bool

	Deadline   time.Duration // 0: none
	Budget     cost.USD      // 0: none
	Preference plan.Preference
	Machines   []Machine
	Market     Market // of the machines of clouds; the choice is made among these. "" is on demand
	Top        int    // how many of the cheapest machines are listed; 0 means 5
	Notes      []string
}

// Validate reports every problem of a question, joined.
func (q *Question) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, v := range []struct {
		name  string
		value float64
	}{{"params", q.Job.Params}, {"layers", q.Job.Layers}, {"data-count", q.Job.DataCount}, {"data-size", q.Job.DataSizeMB}, {"epochs", q.Job.Epochs}, {"batch", q.Batch}} {
		if !math.IsNaN(v.value) && (v.value <= 0 || math.IsInf(v.value, 0)) {
			wrong("%s %g: want a number above 0", v.name, v.value)
		}
	}
	if q.Deadline < 0 {
		wrong("deadline %s is negative", q.Deadline)
	}
	if b := float64(q.Budget); !(b >= 0) || math.IsInf(b, 0) {
		wrong("budget %g USD: want a number from 0 on", b)
	}
	if q.Top < 0 {
		wrong("top %d is negative", q.Top)
	}
	if q.CPUOnly && q.GPUs.Min > 0 {
		wrong("at least %d GPUs are asked for, and the job uses none", q.GPUs.Min)
	}
	return errors.Join(problems...)
}

func (q *Question) market() Market {
	if q.Market == "" {
		return OnDemand
	}
	return q.Market
}

func (q *Question) top() int {
	if q.Top == 0 {
		return 5
	}
	return q.Top
}

func (q *Question) limits() limits { return limits{q.Deadline.Seconds(), float64(q.Budget)} }

// limits are the agreed limits, 0 none.
type limits struct{ seconds, usd float64 }

func (l limits) any() bool { return l.seconds > 0 || l.usd > 0 }

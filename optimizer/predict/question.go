package predict

import (
	"cmp"
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

// Predictor predicts a quantity of a training on a configuration on which it never ran; [transfer.Model] is one. It
// must be safe for concurrent use. An error that wraps [transfer.ErrNoBasis] means that no measurement resembles the
// query.
type Predictor interface {
	Predict(transfer.Query, transfer.Quantity) (transfer.Estimate, error)
}

// learner fits a predictor to measurements. Ask calls it again with a hypothetical measurement to estimate the value
// of measuring.
type learner func([]history.Entry) Predictor

// market is the way in which a cloud machine is paid for.
type market string

const (
	marketOnDemand market = "on demand"
	Spot           market = "spot"
	// marketOwned is a local machine with given rates.
	marketOwned market = "own rates"
)

// machine is a machine that can run the job.
type machine struct {
	// Offer contains the resources of the machine, and its prices when Rates is nil. GPUMemory of a local machine may
	// be 0, unknown.
	Offer cost.Offer
	// Rates are the prices of a local machine, charged for the parts in use; nil charges the whole machine at the
	// offer's prices.
	Rates *cost.Rates
	// Divide admits 1, 2, 4 … of its GPUs (of its CPUs, for a job without GPUs) in addition to all of them.
	Divide bool
}

// Unbounded is the upper end of an unbounded range.
const Unbounded = math.MaxInt32

// Question is the input of a prediction. Unknown numbers are NaN, as in [history.NewEntry]; the zero value of the
// other fields is useful.
type Question struct {
	Subject string      // display name of the training: "run 20261120-093000-ab12", "train.py"
	Job     history.Job // Epochs is the requested number, independent of earlier runs
	// Same contains ids of entries known to be of this training, in addition to those with the hash of its script.
	Same  []string
	Batch float64 // samples per step over all GPUs, independent of their number; NaN: not given
	// CPUOnly reports that the job uses no GPU. It selects machines without GPUs; otherwise only those with GPUs are
	// considered.
	CPUOnly bool
	// GPUs and CPUs are bounds over all machines of a job; the zero Range is no bound.
	GPUs, CPUs resources.Range
	// Arch is the required architecture of machines without GPUs, "amd64" or "arm64"; "" means any.
	Arch string
	// OneGPU reports that the script does not distribute work over several GPUs.
	OneGPU bool
	// Resumable reports whether the job resumes after an interruption; nil means unknown.
	Resumable *bool
	// StopSignal is the signal on which the script saves a checkpoint and exits, "SIGUSR1" or "SIGTERM"; "" if it handles
	// none, or this is not known.
	StopSignal string

	Deadline   time.Duration // 0: none
	Budget     cost.USD      // 0: none
	Preference plan.Preference
	Machines   []machine
	Market     market    // of cloud machines, among which the option is chosen; "" means on demand
	Today      time.Time // day of the question, for the age of prices; zero: no age is given
	Top        int       // length of the lists of cheapest options; 0 means 5
	Notes      []string
}

// Validate returns every problem of a question, joined.
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
		wrong("at least %d GPUs are requested, and the job uses none", q.GPUs.Min)
	}
	return errors.Join(problems...)
}

func (q *Question) market() market { return cmp.Or(q.Market, marketOnDemand) }

func (q *Question) top() int { return cmp.Or(q.Top, 5) }

func (q *Question) limits() limits { return limits{q.Deadline.Seconds(), float64(q.Budget)} }

// limits are the deadline in seconds and the budget in USD, 0 for none.
type limits struct{ seconds, usd float64 }

func (l limits) any() bool { return l.seconds > 0 || l.usd > 0 }

package observe

import (
	"fmt"
	"slices"
	"time"

	"trainopt/monitor/trainlog"
)

// extent is the progress contained in a source.
type extent struct {
	rows          int
	epoch, epochs float64 // completed epochs and their total; 0 if unknown
	step, steps   float64
	results       bool // a row contained a loss, an accuracy, a time or a total
}

// resultColumns are the columns of a training log other than its position; a table of data has none of them.
var resultColumns = append([]trainlog.Column{trainlog.EpochTime, trainlog.TimeSoFar, trainlog.Throughput, trainlog.TotalEpochs,
	trainlog.TotalSteps}, lossColumns...)

// lossColumns are the columns of what the training has learned.
var lossColumns = []trainlog.Column{trainlog.TrainLoss, trainlog.TestLoss, trainlog.TrainAccuracy, trainlog.TestAccuracy}

func (p *extent) add(rows []trainlog.Row) {
	p.rows += len(rows)
	for i := range rows {
		r := &rows[i]
		raise(&p.epoch, r, trainlog.Epoch)
		raise(&p.epochs, r, trainlog.TotalEpochs)
		raise(&p.step, r, trainlog.Step)
		raise(&p.steps, r, trainlog.TotalSteps)
		p.results = p.results || hasAny(r, resultColumns)
	}
}

func raise(to *float64, r *trainlog.Row, c trainlog.Column) {
	if v, ok := r.Value(c); ok {
		*to = max(*to, v)
	}
}

func hasAny(r *trainlog.Row, columns []trainlog.Column) bool {
	return slices.ContainsFunc(columns, func(c trainlog.Column) bool { _, ok := r.Value(c); return ok })
}

// advances reports whether the source contains a position of the training.
func (p extent) advances() bool { return p.epoch > 0 || p.step > 0 || p.epochs > 0 || p.steps > 0 }

// Plausibility bounds of a training log.
const (
	bareRate    = 100.0 // epochs or steps per second of a table without results
	bareAtLeast = 1000.0
	aheadFactor = 10.0 // ratio by which a log may be ahead of the output
)

// rejectReason returns why a discovered file is not the log of this training; empty if it may be. output is the
// progress printed by the training, took its run time.
func rejectReason(file, output extent, took time.Duration) string {
	most := max(file.epoch, file.step)
	switch {
	case output.epochs > 0 && file.epoch > output.epochs+1:
		return fmt.Sprintf("it has epoch %g, the output has %g in total", file.epoch, output.epochs)
	case output.epoch > 0 && file.epoch > aheadFactor*(output.epoch+1):
		return fmt.Sprintf("it has epoch %g, the output %g", file.epoch, output.epoch)
	case !file.results && output.advances():
		return "it has no result of a training, and the output tells the progress"
	case !file.results && most > bareAtLeast && most > bareRate*max(took.Seconds(), 1):
		return fmt.Sprintf("it has no result of a training and %g rows of progress in %.3g s", most, took.Seconds())
	}
	return ""
}

// stalled reports whether a source has stopped growing while the output advances.
func stalled(file, output extent) bool { return file.epoch > 0 && output.epoch > 2*file.epoch+2 }

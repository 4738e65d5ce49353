package observe

import (
	"encoding/json"
	"math"
	"time"

	"trainopt/monitor/trainlog"
)

// maxLine is the largest accepted length of a line in bytes; lines of the module are below 8 KiB.
const maxLine = 64 << 10

// line is one line of a process's file, in the format of the module. Absent numbers are nil.
type line struct {
	Event string  `json:"event"`
	Mono  float64 `json:"mono"` // CLOCK_MONOTONIC, s
	Time  float64 `json:"time"` // Unix, s
	PID   int     `json:"pid"`

	// start
	Boot string `json:"boot"`
	// training, some of them also in the others
	Training      int    `json:"training"`
	Framework     string `json:"framework"`
	Unit          string `json:"unit"`
	Rank          int    `json:"rank"`
	World         int    `json:"world"`
	CanSave       bool   `json:"can_save"`
	CanStop       bool   `json:"can_stop"`
	CanSetThreads bool   `json:"can_set_threads"`
	// progress
	Step          *float64 `json:"step"`
	TotalSteps    *float64 `json:"total_steps"`
	LoopSteps     *float64 `json:"loop_steps"`
	EndsEarly     bool     `json:"ends_early"`
	Loops         int      `json:"loops"`
	TrainingsLeft int      `json:"trainings_left"`
	Epoch         *float64 `json:"epoch"`
	TotalEpochs   *float64 `json:"total_epochs"`
	Samples       *float64 `json:"samples"`
	BatchSize     *float64 `json:"batch_size"`
	DataCount     *float64 `json:"data_count"`
	TrainLoss     *float64 `json:"train_loss"`
	TestLoss      *float64 `json:"test_loss"`
	TrainAccuracy *float64 `json:"train_accuracy"`
	TestAccuracy  *float64 `json:"test_accuracy"`
	GPUMemory     *float64 `json:"gpu_memory_used_gb"`
	StepSeconds   *float64 `json:"step_seconds"`
	Reached       float64  `json:"reached"` // CLOCK_MONOTONIC, s
	Stepping      float64  `json:"stepping"`
	Waiting       float64  `json:"waiting"`
	Optimizing    *float64 `json:"optimizing"`
	Saving        float64  `json:"saving"`
	Closing       float64  `json:"closing"`
	Beside        int      `json:"beside"`
	GradientBytes float64  `json:"gradient_bytes"`
	Threads       *float64 `json:"threads"`
	Workers       *float64 `json:"workers"`
	Stream        bool     `json:"stream"`
	// checkpoint, answer and failure
	Path          string   `json:"path"`
	Kind          string   `json:"kind"`
	Weights       bool     `json:"weights"`
	Seconds       float64  `json:"seconds"`
	ID            int      `json:"id"`
	Op            op       `json:"op"`
	OK            bool     `json:"ok"`
	Stopped       bool     `json:"stopped"`
	Before        int      `json:"before"`
	Tried         int      `json:"tried"`
	SecondsBefore *float64 `json:"seconds_before"`
	SecondsTried  *float64 `json:"seconds_tried"`
	SecondsAfter  *float64 `json:"seconds_after"`
	GivenUp       bool     `json:"given_up"`
	Hook          string   `json:"hook"`
	Reason        string   `json:"reason"`

	number int // of the line in its file, from 1
}

// decode parses one line; ok is false for a line that the module cannot have written.
func decode(text []byte, pid int) (l line, ok bool) {
	if json.Unmarshal(text, &l) != nil || l.Event == "" || l.PID != pid {
		return line{}, false
	}
	return l, l.Mono > 0 && l.Mono < maxSeconds && l.Time >= 0 && l.Time < 1e11 && l.Rank >= 0 && l.World >= 0
}

// maxSeconds is the largest plausible monotonic time or duration: 100 years.
const maxSeconds = 100 * 365 * 24 * 3600

// duration converts seconds to a Duration, implausible values to 0.
func duration(seconds float64) time.Duration {
	if !(seconds > 0 && seconds < maxSeconds) {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// value returns a number of the line, NaN if absent.
func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// row converts a line of progress, read at now, to a row of a training log.
func (l *line) row(now time.Time) trainlog.Row {
	r := trainlog.Row{Line: l.number, At: now, Stamp: time.Unix(0, int64(l.Time*1e9))}
	for c, v := range map[trainlog.Column]*float64{
		trainlog.Step: l.Step, trainlog.TotalSteps: l.TotalSteps, trainlog.Epoch: l.Epoch, trainlog.TotalEpochs: l.TotalEpochs,
		trainlog.BatchSize: l.BatchSize, trainlog.DataCount: l.DataCount, trainlog.TrainLoss: l.TrainLoss, trainlog.TestLoss: l.TestLoss,
		trainlog.TrainAccuracy: l.TrainAccuracy, trainlog.TestAccuracy: l.TestAccuracy, trainlog.GPUMemoryUsed: l.GPUMemory,
	} {
		if v != nil && (*v >= 0 || c == trainlog.TrainLoss || c == trainlog.TestLoss) {
			r.Set(c, *v)
		}
	}
	if s, b := value(l.StepSeconds), value(l.BatchSize); s > 0 && b > 0 {
		r.Set(trainlog.Throughput, b/s)
	}
	return r
}

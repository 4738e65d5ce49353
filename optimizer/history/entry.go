package history

import (
	"math"
	"time"

	"trainopt/cost"
	"trainopt/sla"
)

// Kind says where an entry comes from.
type Kind string

const (
	Run   Kind = "run"   // a whole run of ours
	Probe Kind = "probe" // one timed stretch at one allocation of a run of ours
	Log   Kind = "log"   // an imported training log, or its stretch at one allocation
	Table Kind = "table" // a published measurement
)

// Job says what is trained, by what tells one training from another. "" and NaN are unknown.
type Job struct {
	Script       string // path or name
	ScriptSHA256 string
	Framework    string // "pytorch"
	Model        string // "resnet50", as the log or the script says it
	Family       string // "resnet": models that resemble each other
	Dataset      string
	Params       float64 // trained parameters, count
	Layers       float64 // count
	DataCount    float64 // samples in one epoch
	DataSizeMB   float64 // MB
	Epochs       float64 // of the whole training
}

// Config says on what a training ran and how wide. "", 0 nodes and NaN are unknown; 0 GPUs is none.
type Config struct {
	GPU       string  // model as package cost names it ("A100 40GB"); "" when there is none or it is unknown
	GPUs      float64 // NaN unknown
	Nodes     int     // 0 unknown
	CPUs      float64 // logical CPUs
	MemoryGiB float64 // host memory
	Batch     float64 // samples per step over all GPUs
	Machine   string  // "aws:p4d.24xlarge", or another name of the host; "" unknown
}

// Forecast is what was predicted for the whole run before it ran.
type Forecast struct {
	Seconds    sla.Interval
	CostUSD    sla.Interval
	Throughput sla.Interval // samples/s
	Planner    string
}

// Entry is one record of the runs database: what was trained, on what was asked for and what was observed, how it went and
// what it cost. NaN and "" are unknown; unknown is never 0.
type Entry struct {
	// ID is unique: the run id; "RUN/probe-2"; for a log the SHA-256 of what it holds and the number of the stretch.
	ID     string
	Parent string // the run that a probe belongs to
	Kind   Kind
	Source string    // where it was read: the run directory, the log's path, the publication
	At     time.Time // start, as far as known; zero unknown

	Job       Job
	Requested Config // of a run: the allocation that was planned
	Observed  Config // what it really ran on, as far as was seen

	State  string // run.json's: done, failed, stopped; "" for a log, whose end is not known
	Reason string // run.json's exit reason

	Seconds    float64 // whole run, wall clock, first start to end
	Units      float64 // work done, in Unit
	Unit       string  // "epoch", "step"; "" unknown
	Rows, Bad  int     // of the training log: taken, skipped
	Restarts   int
	UnitTime   float64 // mean seconds of a unit in steady state, warm-up left out
	UnitSpread float64 // relative standard deviation of one unit around it
	UnitCount  float64 // how many units UnitTime is the mean of
	Throughput float64 // samples/s in steady state
	Startup    float64 // seconds from launch to the first work
	Restart    float64 // mean seconds of one restart

	PeakMemoryGiB float64 // of the job, host
	GPUMemoryGiB  float64 // peak of the fullest GPU
	GPUUtil       float64 // mean, %
	CPUUtil       float64 // of the allocated CPUs, mean, %
	EnergyJoules  float64
	TrainLoss     float64 // last
	TestAccuracy  float64 // last, as the script writes it

	CostUSD float64
	Rates   cost.Rates // the prices used, with source and date; the zero value when none were

	// Predicted is what was foretold of a run, nil when nothing was.
	Predicted *Forecast
}

// NewEntry is an entry of which nothing is known.
func NewEntry(kind Kind, id string) Entry {
	n := math.NaN()
	none := Config{GPUs: n, CPUs: n, MemoryGiB: n, Batch: n}
	return Entry{ID: id, Kind: kind, Job: Job{Params: n, Layers: n, DataCount: n, DataSizeMB: n, Epochs: n}, Requested: none, Observed: none,
		Seconds: n, Units: n, UnitTime: n, UnitSpread: n, UnitCount: n, Throughput: n, Startup: n, Restart: n,
		PeakMemoryGiB: n, GPUMemoryGiB: n, GPUUtil: n, CPUUtil: n, EnergyJoules: n, TrainLoss: n, TestAccuracy: n, CostUSD: n}
}

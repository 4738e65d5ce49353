package history

import (
	"math"
	"time"

	"trainopt/cost"
	"trainopt/sla"
)

// Kind is the origin of an entry.
type Kind string

const (
	Run   Kind = "run"   // a supervised run
	Probe Kind = "probe" // one timed segment of a run at one allocation
	Log   Kind = "log"   // an imported training log, or its segment at one allocation
	Table Kind = "table" // a published measurement
)

// Job identifies the training. "" and NaN are unknown.
type Job struct {
	Script       string // path or name
	ScriptSHA256 string
	Framework    string // "pytorch"
	Model        string // "resnet50", as named by the log or the script
	Family       string // "resnet": group of similar models
	Dataset      string
	Params       float64 // trained parameters, count
	Layers       float64 // count
	DataCount    float64 // samples in one epoch
	DataSizeMB   float64 // MB
	Epochs       float64 // of the whole training
}

// Config is the hardware of a training, the sums over all machines, and its batch size. "", 0 nodes and NaN are unknown; 0 GPUs
// means none.
type Config struct {
	GPU       string  // model as named by package cost ("A100 40GB"); "" if there is no GPU or its model is unknown
	GPUs      float64 // NaN unknown
	Nodes     int     // 0 unknown
	CPUs      float64 // logical CPUs
	MemoryGiB float64 // host memory
	Batch     float64 // samples per step over all GPUs
	Machine   string  // "aws:p4d.24xlarge", or another name of the host; "" unknown
}

// forecast is the prediction for the whole run, made before it started.
type forecast struct {
	Seconds    sla.Interval
	CostUSD    sla.Interval
	Throughput sla.Interval // samples/s
	Planner    string
	// Widen is the factor that multiplied the log widths of the model's intervals; 0 if unknown.
	Widen float64
}

// Entry is one record of the runs database: the training, the requested and the observed configuration, the
// measurements and the cost. NaN and "" are unknown; unknown is never 0.
type Entry struct {
	// ID is unique: the run id; "RUN/probe-2"; for a log the SHA-256 of its content and the number of the segment.
	ID     string
	Parent string // run of a probe, or log of a segment
	Kind   Kind
	Source string    // origin: the run directory, the path of the log, the publication
	At     time.Time // start; zero unknown

	Job       Job
	Requested Config // for a run: the planned allocation
	Observed  Config // the configuration actually used, as far as it was observed

	State  string // from run.json: done, failed, stopped; "" for a log, whose end is unknown
	Reason string // exit reason from run.json

	Seconds    float64 // whole run, wall clock, first start to end
	Units      float64 // work done, in Unit
	Unit       string  // "epoch", "step"; "" unknown
	Rows, Bad  int     // rows of the training log: accepted, skipped
	Restarts   int
	UnitTime   float64 // mean seconds per unit in steady state, without warm-up
	UnitSpread float64 // relative standard deviation of a single unit
	UnitCount  float64 // number of units that UnitTime averages
	Throughput float64 // samples/s in steady state
	Startup    float64 // seconds from launch to the first work
	Restart    float64 // mean seconds of one restart

	PeakMemoryGiB float64 // of the job, host
	GPUMemoryGiB  float64 // peak of the fullest GPU
	GPUUtil       float64 // mean, %
	CPUUtil       float64 // of the allocated CPUs, mean, %; NaN if other programs used some of them
	EnergyJoules  float64
	TrainLoss     float64 // last
	TestAccuracy  float64 // last, in the script's unit

	CostUSD float64
	Rates   cost.Rates // prices used, Instance that of one machine, with source and date; the zero value if unknown

	// Predicted is the prediction recorded for a run; nil if none exists.
	Predicted *forecast
}

// NewEntry returns an entry whose values are all unknown.
func NewEntry(kind Kind, id string) Entry {
	n := math.NaN()
	none := Config{GPUs: n, CPUs: n, MemoryGiB: n, Batch: n}
	return Entry{ID: id, Kind: kind, Job: Job{Params: n, Layers: n, DataCount: n, DataSizeMB: n, Epochs: n}, Requested: none, Observed: none,
		Seconds: n, Units: n, UnitTime: n, UnitSpread: n, UnitCount: n, Throughput: n, Startup: n, Restart: n,
		PeakMemoryGiB: n, GPUMemoryGiB: n, GPUUtil: n, CPUUtil: n, EnergyJoules: n, TrainLoss: n, TestAccuracy: n, CostUSD: n}
}

package journal

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// Schema is the version of Record; it changes only if a field changes its meaning or is removed.
const Schema = 1

// Number is a measured or derived number; NaN and infinities are written as null, others with nine
// significant digits.
type Number float64

// Unknown is the Number that is written as null.
func Unknown() Number { return Number(math.NaN()) }

// Known reports whether n is a number: neither NaN nor infinite.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes null for an unknown number.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	f, _ := strconv.ParseFloat(strconv.FormatFloat(float64(n), 'g', 9, 64), 64)
	return json.Marshal(f)
}

// UnmarshalJSON reads null as unknown.
func (n *Number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = Unknown()
		return nil
	}
	var f float64
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	*n = Number(f)
	return nil
}

// State is the state of a run.
type State string

const (
	Planned State = "planned"
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
	Stopped State = "stopped"
)

// Record is the content of run.json. Times are in seconds, money in USD, memory in GiB, utilization in percent.
type Record struct {
	Schema       int             `json:"schema"`
	RunID        string          `json:"run_id"`
	Name         string          `json:"name"`
	Command      []string        `json:"command"`
	Dir          string          `json:"dir"` // working directory of the job
	Script       Script          `json:"script"`
	StartedAt    time.Time       `json:"started_at"`
	FinishedAt   *time.Time      `json:"finished_at"`
	State        State           `json:"state"`
	Exit         *Exit           `json:"exit"`
	ExitCode     *int            `json:"exit_code"` // exit code of optimize; null while running
	Host         Host            `json:"host"`
	SLA          SLA             `json:"sla"`
	Prices       Prices          `json:"prices"`
	Preference   plan.Preference `json:"preference"`
	Seed         int64           `json:"seed"`
	Handed       Handed          `json:"handed"`   // settings passed to the script in addition to its allocation
	Measured     []Probe         `json:"measured"` // every timed segment, probes included
	Overheads    Overheads       `json:"overheads"`
	Probes       []Probe         `json:"probes"`
	Plan         *Plan           `json:"plan"`
	Prior        *Prior          `json:"prior,omitempty"` // knowledge from before the run; nil if none
	Model        *Model          `json:"model"`           // the performance model and its leave-one-out check
	Enforced     []string        `json:"enforced"`        // the enforced and unenforced parts of the allocation
	Actions      []Action        `json:"actions"`
	CriticResets []CriticReset   `json:"critic_resets"`
	// PreferenceChanges are the requests for another preference during the run, with the answers.
	PreferenceChanges []PreferenceChange `json:"preference_changes,omitempty"`
	Outcome           Outcome            `json:"outcome"`
	Checkpoint        *Checkpoint        `json:"checkpoint"` // the newest known one; null if none is known
	Baseline          *Baseline          `json:"baseline"`   // the baseline, measured by the first probe
	Comparison        Comparison         `json:"comparison"`
	Waste             Waste              `json:"waste_usd"`
	Training          Training           `json:"training"` // model information and last values read from the log
	Log               Log                `json:"log"`
	Warnings          []string           `json:"warnings"`
	// Starts are the predicted starts at the places of an engine, the one asked for first; none for a run on this machine.
	Starts []Start `json:"starts,omitempty"`
	// Batch is the Slurm job that contained agent and training; nil outside one.
	Batch *resources.BatchJob `json:"batch_job,omitempty"`
	// Stretches are the jobs of the engine that carried the run, oldest first; none for a run on this machine.
	Stretches []engine.Stretch `json:"stretches,omitempty"`
	// SiteProbes are the measurements on other kinds of nodes of the engine; none for a run without them.
	SiteProbes []SiteProbe `json:"site_probes,omitempty"`
	// Altered reports that run.json was changed by another program after it was written.
	Altered bool `json:"-"`
	// Spot is the use of spot capacity and machines on demand; nil for a run that did not choose between them.
	Spot *Spot `json:"spot,omitempty"`
	// Power is the use of the power limit of the GPUs; nil for a run that was not allowed to change it.
	Power *Power `json:"power_limit,omitempty"`
}

// Power is the power limit of the GPUs of a run, in W of each device.
type Power struct {
	Allowed      string        `json:"allowed"`       // range, as given
	OwnW         *int          `json:"own_w"`         // before the run; null if unknown or different on the devices
	SetW         *int          `json:"set_w"`         // the latest one of the run; null if none was set
	Reason       string        `json:"reason"`        // of the latest one, or why none was set
	BudgetJoules *float64      `json:"budget_joules"` // of the GPUs; null without an energy budget
	Measured     []PowerSample `json:"measured"`
	Restored     *bool         `json:"restored"` // null while the job runs, or if no limit could be set
}

// PowerSample is the measured pace and power of the job at one power limit.
type PowerSample struct {
	LimitW         int     `json:"limit_w"`
	Unit           string  `json:"unit"` // step, or the unit of the run
	SecondsPerUnit float64 `json:"seconds_per_unit"`
	Watts          float64 `json:"watts"` // mean of all GPUs together
	JoulesPerUnit  float64 `json:"joules_per_unit"`
}

// SiteProbe is a measurement of the training on another kind of node of its engine, by a short job beside the run. One
// without ID is that of a kind of node which the run has left. Unknown times are zero.
type SiteProbe struct {
	Place       engine.Kind          `json:"place"`
	Allocation  resources.Allocation `json:"allocation"`
	Key         string               `json:"key,omitempty"`
	ID          string               `json:"id,omitempty"` // of the engine's job
	Submitted   time.Time            `json:"submitted"`
	Started     time.Time            `json:"started"`
	Ended       time.Time            `json:"ended"`
	Confirmed   bool                 `json:"confirmed"` // the times are those of the engine's accounting
	USDHour     Number               `json:"usd_per_hour"`
	CostUSD     Number               `json:"cost_usd"`
	Unit        string               `json:"unit,omitempty"` // of work
	UnitSeconds []Number             `json:"unit_seconds"`   // each measured unit of work
	Outcome     string               `json:"outcome"`        // measured, or why nothing was; empty while it is in progress
}

// Spot is the use of spot capacity and machines on demand by a run. The costs of its stretches, and CorrectedUSD, add up
// to the cost of the run.
type Spot struct {
	Stretches    []SpotStretch `json:"stretches"`
	CorrectedUSD Number        `json:"corrected_usd"` // by accounts of an engine that came after the charge
	Taken        int           `json:"taken_away"`    // machines that were taken away
	ChangeoverS  Number        `json:"changeover_s"`  // larger of the median measured restart and start-up
	AloneUSD     Number        `json:"on_demand_usd"` // cost of the work of a finished run on demand alone, at its measured pace, start-up and end
	SavingPct    Number        `json:"saving_pct"`    // of AloneUSD
	// ExpectedSavingPct is the saving that the first plan expected; unknown if decisions needed no plan.
	ExpectedSavingPct Number `json:"expected_saving_pct"`
}

// SpotStretch is a period on one machine, in seconds from the start of the run.
type SpotStretch struct {
	Machine string `json:"machine"` // spot|on-demand
	Offer   string `json:"offer"`
	FromS   Number `json:"from_s"`
	ToS     Number `json:"to_s"`
	USDHour Number `json:"usd_per_hour"`
	CostUSD Number `json:"cost_usd"`
}

// Start is the predicted start of a job at a place of an engine, and what follows from it. Times are seconds from the
// prediction.
type Start struct {
	Place     engine.Place  `json:"place"`
	Wait      sla.Interval  `json:"wait_s"`
	ByLimits  Number        `json:"wait_by_limits_s"` // if every job used up its time limit, as the engine itself plans
	Ahead     int           `json:"jobs_ahead"`
	Observed  int           `json:"observed_jobs"` // whose run lengths the prediction is based on
	HourlyUSD Number        `json:"usd_per_hour"`
	End       *sla.Interval `json:"end_s"` // of the whole run; nil if its run time there is not predicted
	CostUSD   *sla.Interval `json:"cost_usd"`
	// DeadlineMet is the probability that the run ends before the deadline; unknown without a deadline or an end.
	DeadlineMet Number `json:"deadline_met"`
}

// Handed contains the settings that the user passed to the script through optimize; runs that differ in it did
// different work.
type Handed struct {
	Epochs  int    `json:"epochs"`  // 0: the script's own
	Dataset string `json:"dataset"` // path; empty: the script's own
	// Threads are the thread variables that the user set, "OMP_NUM_THREADS=2 MKL_NUM_THREADS=2"; empty: none.
	Threads string `json:"threads,omitempty"`
}

// Script is the result of the inspection of the script.
type Script struct {
	Path      string  `json:"path"`
	SHA256    string  `json:"sha256"`
	Framework *string `json:"framework"`
	Model     *string `json:"model"`
	Dataset   *string `json:"dataset"`
	UsesGPU   *bool   `json:"uses_gpu"`
	Resumable *bool   `json:"resumable"`
	// Resumes is the argument by which the script continues from a checkpoint of its own, with its origin:
	// "--resume={path} (option --resume in line 6, loaded in line 14)"; "" without one.
	Resumes string `json:"resumes,omitempty"`
	// Arguments are those that set the knobs of the script, by knob, in the form of Resumes.
	Arguments map[string]string `json:"arguments,omitempty"`
	Evidence  map[string]string `json:"evidence,omitempty"` // finding → "line 12: text"; "length" → the total before the run, with its source
	Likeness  string            `json:"likeness,omitempty"` // for comparing the text with later versions (inspect.CompareLikeness)
	// FilesDigest is a hash of the modules and configuration files of the script (inspect.Command.FilesDigest).
	FilesDigest string `json:"files_digest,omitempty"`
}

// Exit is the end of the run, whose reason may be a limit or the user; a launch.Exit is the end of one launch. Code is the
// training's exit code, null if it died of a signal.
type Exit struct {
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
	Reason string  `json:"reason"` // exited|killed|oom|budget|deadline|allocation|lease|reclaimed|user|cancelled|start-failed|lost
	Detail string  `json:"detail,omitempty"`
}

// Checkpoint is the newest checkpoint of the job, and the work that would be lost if the job ended now.
type Checkpoint struct {
	Path        string `json:"path"`  // empty if only the time is known
	AtS         Number `json:"at_s"`  // seconds from the start of the run
	Units       Number `json:"units"` // progress in it, in units of Training.Unit
	RiskSeconds Number `json:"at_risk_s"`
	RiskUnits   Number `json:"at_risk_units"`
}

// Probe is one measurement at one allocation.
type Probe struct {
	Allocation     resources.Allocation `json:"allocation"`
	Rows           int                  `json:"rows"`
	Seconds        Number               `json:"seconds"`
	Throughput     Number               `json:"throughput"`      // in ThroughputUnit
	ThroughputUnit string               `json:"throughput_unit"` // samples/s, steps/s or epochs/s; empty: samples/s
	CostUSD        Number               `json:"cost_usd"`
	PeakMemoryGiB  Number               `json:"peak_memory_gib"`
	Units          float64              `json:"units,omitempty"` // of work between its first and its last row; absent: not known
	UnitSeconds    []Number             `json:"unit_seconds"`    // seconds per unit of work in each of the newest timed blocks
	UnitSamples    Number               `json:"unit_samples"`
	CPUUtil        Number               `json:"cpu_util"`
	TakenCPUs      float64              `json:"taken_cpus,omitempty"` // mean number of the allocated CPUs that other programs used
	GPUUtil        Number               `json:"gpu_util"`
	Used           perf.Utilization     `json:"used,omitzero"`
	InJob          bool                 `json:"in_job"`   // true if its work was kept (resumable job)
	LiveCut        bool                 `json:"live_cut"` // on fewer CPUs than its processes were launched with: not a measurement of a launch at Allocation
}

// Overheads contains the measured seconds of each start and of each restart, and of the end.
type Overheads struct {
	StartupSeconds []Number `json:"startup_seconds"`           // launch to the first unit of work, less that unit
	RestartSeconds []Number `json:"restart_seconds"`           // request for a checkpoint to work resumed
	ClosingSeconds *Number  `json:"closing_seconds,omitempty"` // last unit of work to the exit of a finished run; absent: not known
}

// Prediction is the prediction of the whole run, made at AtS. A run of unknown total has none.
type Prediction struct {
	AtS        Number       `json:"at_s"` // when it was made: with the run's first plan
	Seconds    sla.Interval `json:"seconds"`
	CostUSD    sla.Interval `json:"cost_usd"`
	Throughput sla.Interval `json:"throughput"`
	// QueueSeconds is the time of waiting for places until AtS, which Seconds includes; nil if AtS is 0, and in the records of
	// earlier versions.
	QueueSeconds *float64 `json:"queue_seconds,omitempty"`
}

// Prior is the knowledge about a training before this run measured it.
type Prior struct {
	Words       string               `json:"words"` // description: runs and logs, and the relative half-width of UnitSeconds
	Runs        []string             `json:"runs"`  // ids
	Allocation  resources.Allocation `json:"allocation"`
	UnitSeconds sla.Interval         `json:"unit_seconds"` // predicted seconds per unit of work at Allocation
	Unit        string               `json:"unit"`         // epoch|step; empty: unknown
	Spread      Number               `json:"spread"`       // relative half-width of the 90 % interval of UnitSeconds
	Prediction  *Prediction          `json:"prediction"`   // of the whole run; null without a known total
	// Startup and Restart are seconds, MemoryGiB the peak of the job, predicted from other trainings; null if nothing
	// similar was measured, or if runs of this script measured them.
	Startup   *sla.Interval `json:"startup_s"`
	Restart   *sla.Interval `json:"restart_s"`
	MemoryGiB *sla.Interval `json:"memory_gib"`
	Dropped   []string      `json:"dropped"` // sources contradicted by this run's measurements, with the reason
}

// Model describes the performance model.
type Model struct {
	Form    string            `json:"form"`   // e.g. "amdahl", "pollux"
	Params  map[string]Number `json:"params"` // by name, with unit in the name
	Checks  []Check           `json:"leave_one_out"`
	Ignored []string          `json:"ignored"` // knobs with no measured effect
	Basis   string            `json:"basis"`   // description of the measurements used
}

// Widen returns the factor by which the widths of the model's intervals are multiplied, on log scale; 0 if unknown.
func (m *Model) Widen() float64 {
	if m == nil {
		return 0
	}
	if w, ok := m.Params["widen"]; ok && w.Known() {
		return float64(w)
	}
	return 0
}

// Check is one leave-one-out prediction, seconds per unit of work.
type Check struct {
	Allocation resources.Allocation `json:"allocation"`
	Predicted  sla.Interval         `json:"predicted"`
	Measured   Number               `json:"measured"`
}

// Action is one change of allocation, or the recommendation of one.
type Action struct {
	AtS         Number               `json:"at_s"`
	Action      int                  `json:"action"` // index in the space of 27 actions, -1 if the change is not a single step
	Description string               `json:"description"`
	From        resources.Allocation `json:"from"`
	To          resources.Allocation `json:"to"`
	Reason      string               `json:"reason"`
	Applied     string               `json:"applied"` // live|restart|recommended
}

// CriticReset is one renewal of the critics of a learning planner.
type CriticReset struct {
	AtS     Number `json:"at_s"`
	Policy  string `json:"policy"`
	Trigger string `json:"trigger"`
}

// PreferenceChange is a request for another preference during the run.
type PreferenceChange struct {
	AtS     Number          `json:"at_s"`
	From    plan.Preference `json:"from"`
	To      plan.Preference `json:"to"`
	Changed bool            `json:"changed"` // the allocation changed
	Answer  string          `json:"answer"`  // the reason
}

// Outcome contains the measurements of the whole run.
type Outcome struct {
	Seconds         Number `json:"seconds"`          // from start to end of the run
	ActiveSeconds   Number `json:"active_seconds"`   // time in which a process of the job was alive
	OverheadSeconds Number `json:"overhead_seconds"` // restarts: checkpoint, exit, start, until work resumed
	CostUSD         Number `json:"cost_usd"`
	ProbeCostUSD    Number `json:"probe_cost_usd"`
	Rows            int    `json:"rows"`
	Epochs          Number `json:"epochs"`
	Steps           Number `json:"steps"`           // for a job that counts steps instead of epochs
	Throughput      Number `json:"throughput"`      // in ThroughputUnit
	ThroughputUnit  string `json:"throughput_unit"` // samples/s, steps/s or epochs/s, also of Prediction and Baseline; empty: samples/s
	GPUUtil         Number `json:"gpu_util"`
	CPUUtil         Number `json:"cpu_util"`
	// GrantedCPUs is the number of CPUs that the job had by the quota of its container, if that is not a whole number: those of
	// CPUUtil, in place of the allocated ones; absent otherwise.
	GrantedCPUs float64 `json:"granted_cpus,omitempty"`
	// TakenCPUs is the mean number of the allocated CPUs that other programs used; absent if none.
	TakenCPUs     float64 `json:"taken_cpus,omitempty"`
	PeakMemoryGiB Number  `json:"peak_memory_gib"`
	Restarts      int     `json:"restarts"`
	EnergyJoules  Number  `json:"energy_joules"` // of the GPUs
	// CPUEnergyJoules is the energy of the machine's processors during the run, of other programs too; nil where the
	// counters cannot be read.
	CPUEnergyJoules *float64 `json:"cpu_energy_joules,omitempty"`
	// QueueSeconds is the time of waiting for places on an engine, included in Seconds and not charged; nil for a run on
	// this machine.
	QueueSeconds *float64 `json:"queue_seconds,omitempty"`
	// FromUnits is the part of Epochs or Steps that was done before the run, which its training continued by itself; absent if
	// none.
	FromUnits float64 `json:"from_units,omitempty"`
}

// RealisedSeconds returns the time with which the prediction of the run is compared: Outcome.Seconds less the waits for places
// that the prediction does not include. Without a prediction, none is included.
func (r *Record) RealisedSeconds() Number {
	o := &r.Outcome
	if o.QueueSeconds == nil {
		return o.Seconds
	}
	waited := *o.QueueSeconds
	if p := r.Plan; p != nil && p.Prediction != nil && p.Prediction.AtS > 0 {
		included := waited // by an earlier version: jobs are predicted once they run
		if q := p.Prediction.QueueSeconds; q != nil {
			included = *q
		}
		waited -= included
	}
	return o.Seconds - Number(max(0, waited))
}

// contendedCPUs is the number of allocated CPUs used by other programs from which on the utilization does not show how many
// CPUs the training needs.
const contendedCPUs = 0.25

// Contended reports whether other programs used so much of the allocated CPUs that the utilization understates what the
// training needs.
func (o *Outcome) Contended() bool { return o.TakenCPUs >= contendedCPUs }

// Contended is the same for one measurement.
func (p *Probe) Contended() bool { return p.TakenCPUs >= contendedCPUs }

// NeededCPUs returns the CPUs of an allocation that the training used, or may have used if other programs had not.
func (o *Outcome) NeededCPUs(allocated int) float64 {
	return float64(o.CPUUtil)/100*cmp.Or(o.GrantedCPUs, float64(allocated)) + o.TakenCPUs
}

// Baseline contains the time and cost of the baseline for the same work, projected from its measured pace, after the same
// waits for places.
type Baseline struct {
	Allocation resources.Allocation `json:"allocation"`
	Seconds    sla.Interval         `json:"seconds"`
	CostUSD    sla.Interval         `json:"cost_usd"`
	Throughput sla.Interval         `json:"throughput"`
	Compliance Number               `json:"compliance"`
}

// Comparison compares a finished run with its baseline for the same work; positive means more. The numbers are null
// unless the allocations differ and both sides were measured in this run.
type Comparison struct {
	Against             *string       `json:"against"`
	Basis               string        `json:"basis"` // this-run|same|earlier|disturbed|unsteady, empty if the baseline was not measured; numbers only for this-run
	SecondsChangePct    Number        `json:"seconds_change_pct"`
	CostChangePct       Number        `json:"cost_change_pct"`
	ThroughputChangePct Number        `json:"throughput_change_pct"`
	ComplianceChangePct Number        `json:"compliance_change_pct"`
	Quality             string        `json:"quality"`                     // excellent|good|unchanged|questionable|bad|undecided: total cost against time
	SecondsChange       *sla.Interval `json:"seconds_change_interval_pct"` // with the uncertainty of the baseline
	CostChange          *sla.Interval `json:"cost_change_interval_pct"`
}

// Waste contains wasted money by cause, USD.
type Waste struct {
	Idle            Number `json:"idle"`
	InputBound      Number `json:"input_bound"`
	OverProvisioned Number `json:"over_provisioned"`
	Restarts        Number `json:"restarts"`
	Failed          Number `json:"failed"`
}

// Training contains the information in the log about the job.
type Training struct {
	Model         *string `json:"model"`
	ModelParams   Number  `json:"model_params"`
	ModelLayers   Number  `json:"model_layers"`
	Dataset       *string `json:"dataset"`
	DataCount     Number  `json:"data_count"`
	DataSizeMB    Number  `json:"data_size_mb"`
	BatchSize     Number  `json:"batch_size"`
	TotalUnits    Number  `json:"total_units"`
	Unit          string  `json:"unit"` // epoch|step
	TrainLoss     Number  `json:"train_loss"`
	TrainAccuracy Number  `json:"train_accuracy"`
	TestLoss      Number  `json:"test_loss"`
	TestAccuracy  Number  `json:"test_accuracy"`
	// StepShares divides the time between steps as the observer measured it; nil without an observer.
	StepShares *StepShares `json:"step_shares,omitempty"`
}

// StepShares are shares of the time between steps, 0 to 1: waiting for data, in the optimizer, saving checkpoints. The rest
// is the model's own work.
type StepShares struct {
	DataWait  Number `json:"data_wait"`
	Optimizer Number `json:"optimizer"`
	Saving    Number `json:"saving"`
}

// Log describes the source of the training rows.
type Log struct {
	Path    string   `json:"path"`
	Format  string   `json:"format"`
	Rows    int      `json:"rows"`
	BadRows int      `json:"bad_rows"`
	Bad     []string `json:"bad,omitempty"` // the first few, "line 41: 3 fields, want 7"
}

// SamplesPerSecond returns the measured throughput if it counts samples, otherwise an unknown number.
func (o *Outcome) SamplesPerSecond() Number { return inSamples(o.Throughput, o.ThroughputUnit) }

// SamplesPerSecond returns the measured throughput if it counts samples, otherwise an unknown number.
func (p *Probe) SamplesPerSecond() Number { return inSamples(p.Throughput, p.ThroughputUnit) }

// Observations returns the measurements of the run with at least one timed unit of work, for fitting a model.
func (r *Record) Observations() []perf.Observation {
	var out []perf.Observation
	for _, m := range r.Measured {
		o := perf.Observation{Allocation: m.Allocation, PeakMemoryGiB: float64(m.PeakMemoryGiB), LiveCut: m.LiveCut, Used: m.Used}
		for _, u := range m.UnitSeconds {
			if u.Known() && u > 0 {
				o.UnitSeconds = append(o.UnitSeconds, float64(u))
			}
		}
		if m.UnitSamples.Known() {
			o.UnitSamples = float64(m.UnitSamples)
		}
		if len(o.UnitSeconds) > 0 {
			out = append(out, o)
		}
	}
	return out
}

func inSamples(n Number, unit string) Number {
	if unit != "" && unit != SamplesPerSecond {
		return Unknown()
	}
	return n
}

// SamplesPerSecond is the usual unit of a throughput.
const SamplesPerSecond = "samples/s"

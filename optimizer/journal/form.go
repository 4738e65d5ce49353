package journal

import (
	"encoding/json"
	"math"
	"reflect"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// The parts of a record that contain a type of another package: the type itself for the program, and the form of
// run.json on disk. Elsewhere (state file, output of other commands) these types have other JSON forms.

// Host is the machine of the run. A record does not contain the CPU ids and, of the GPUs, neither indices nor drivers.
type Host struct{ resources.Host }

// Prices contains the rates of the run, without the assumption behind them. A price that the record does not contain is
// unknown (NaN), not 0.
type Prices struct{ cost.Rates }

// SLA contains the limits of a run and their verdicts. Only a finished run meets a limit.
type SLA struct {
	sla.Spec
	Hash       string // of the limits, which do not change during a run
	Verdicts   []sla.Verdict
	Compliance Number // share of the limits with data that are met, 0…1
}

// Plan is the latest decision for the whole job. A record contains neither the paces per unit of work nor the details of
// a learning agent, and the prediction of the run instead of the chosen candidate.
type Plan struct {
	plan.Plan
	AtS        Number
	Prediction *Prediction
	// Interrupted says what ended the validity of the prediction: the run was "resumed", or its training "restarted" in it; empty: nothing.
	Interrupted string
}

type hostForm struct {
	CPUs      float64   `json:"cpus"`
	CPUModel  string    `json:"cpu_model,omitempty"`
	MemoryGiB Number    `json:"memory_gib"`
	GPUs      []gpuForm `json:"gpus"`
	Described string    `json:"described,omitempty"`
	Nodes     int       `json:"nodes,omitempty"`
	Notes     []string  `json:"notes,omitempty"`
}

type gpuForm struct {
	UUID      string `json:"uuid"`
	Name      string `json:"name"`
	MemoryGiB Number `json:"memory_gib"`
}

type pricesForm struct {
	GPUHour      Number  `json:"gpu_hour"`
	CPUHour      Number  `json:"cpu_hour"`
	GiBHour      Number  `json:"gib_hour"`
	InstanceHour Number  `json:"instance_hour"`
	CPUQuota     float64 `json:"cpu_quota,omitempty"`
	Source       string  `json:"source"`
	Dated        string  `json:"dated"`
}

type slaForm struct {
	DeadlineS     Number        `json:"deadline_s"`
	BudgetUSD     Number        `json:"budget_usd"`
	MinThroughput Number        `json:"min_throughput"`
	MaxMemoryGiB  Number        `json:"max_memory_gib"`
	MinGPUUtil    Number        `json:"min_gpu_util"`
	MinCPUUtil    Number        `json:"min_cpu_util"`
	Hash          string        `json:"hash"`
	Verdicts      []sla.Verdict `json:"verdicts"`
	Compliance    Number        `json:"compliance"`
}

type planForm struct {
	Allocation  resources.Allocation `json:"allocation"`
	Planner     string               `json:"planner"`
	Reason      string               `json:"reason"`
	Binding     string               `json:"binding"`
	AtS         Number               `json:"at_s"`
	Prediction  *Prediction          `json:"prediction"`
	Candidates  []plan.Candidate     `json:"candidates"`
	Options     []plan.Option        `json:"options"`
	Interrupted string               `json:"interrupted,omitempty"`
}

// formed contains the types that encode themselves by a form.
var formed = map[reflect.Type]bool{reflect.TypeFor[Host](): true, reflect.TypeFor[Prices](): true, reflect.TypeFor[SLA](): true, reflect.TypeFor[Plan](): true}

// written encodes the form of a part of a record.
func written[F any](form F) ([]byte, error) {
	return json.Marshal(tidy(reflect.ValueOf(form)).Interface())
}

// read decodes the form of a part of a record; what the text lacks is unknown.
func read[F any](data []byte) (F, error) {
	form := Blank[F]()
	err := json.Unmarshal(data, &form)
	return form, err
}

// orZero returns n, or 0 for a limit that is not set.
func orZero(n Number) float64 {
	if n.Known() {
		return float64(n)
	}
	return 0
}

// MarshalJSON writes an unknown memory size as null.
func (h Host) MarshalJSON() ([]byte, error) {
	form := hostForm{CPUs: h.CPUs, CPUModel: h.CPUModel, MemoryGiB: Number(h.Memory), Described: h.Described, Nodes: h.Nodes, Notes: h.Notes}
	for _, g := range h.GPUs {
		form.GPUs = append(form.GPUs, gpuForm{UUID: g.UUID, Name: g.Name, MemoryGiB: Number(g.Memory)})
	}
	return written(form)
}

// UnmarshalJSON decodes the form of MarshalJSON.
func (h *Host) UnmarshalJSON(data []byte) error {
	form, err := read[hostForm](data)
	*h = Host{resources.Host{CPUs: form.CPUs, CPUModel: form.CPUModel, Memory: resources.GiB(form.MemoryGiB), GPUs: []resources.GPU{}, Described: form.Described, Nodes: form.Nodes, Notes: form.Notes}}
	for _, g := range form.GPUs {
		h.GPUs = append(h.GPUs, resources.GPU{UUID: g.UUID, Name: g.Name, Memory: resources.GiB(g.MemoryGiB)})
	}
	return err
}

// MarshalJSON writes unknown prices, and instance_hour where the unit prices apply, as null.
func (p Prices) MarshalJSON() ([]byte, error) {
	return written(pricesForm{GPUHour: Number(p.GPUHour), CPUHour: Number(p.CPUHour), GiBHour: Number(p.GiBHour),
		InstanceHour: p.instanceHour(), CPUQuota: p.CPUQuota, Source: p.Source, Dated: p.Dated})
}

// instanceHour returns the hourly price of the whole machine; unknown if the unit prices apply.
func (p Prices) instanceHour() Number {
	if p.Instance > 0 {
		return Number(p.Instance)
	}
	return Unknown()
}

// UnmarshalJSON decodes the form of MarshalJSON.
func (p *Prices) UnmarshalJSON(data []byte) error {
	p.clear()
	return json.Unmarshal(data, &p.Rates) // null keeps a price unknown
}

// LimitOf returns the limit of an objective; unknown if it is not set.
func (s SLA) LimitOf(o sla.Objective) Number {
	if limit, _, _, agreed := s.Limit(o); agreed {
		return Number(limit)
	}
	return Unknown()
}

// MarshalJSON writes limits that are not set as null.
func (s SLA) MarshalJSON() ([]byte, error) {
	return written(slaForm{DeadlineS: s.LimitOf(sla.Time), BudgetUSD: s.LimitOf(sla.Cost), MinThroughput: s.LimitOf(sla.Throughput),
		MaxMemoryGiB: s.LimitOf(sla.Memory), MinGPUUtil: s.LimitOf(sla.GPUUtil), MinCPUUtil: s.LimitOf(sla.CPUUtil),
		Hash: s.Hash, Verdicts: s.Verdicts, Compliance: s.Compliance})
}

// UnmarshalJSON decodes the form of MarshalJSON.
func (s *SLA) UnmarshalJSON(data []byte) error {
	form, err := read[slaForm](data)
	deadline := math.Round(orZero(form.DeadlineS) * float64(time.Second))
	*s = SLA{Spec: sla.Spec{TimeMax: time.Duration(min(deadline, 1<<62)), CostMaxUSD: orZero(form.BudgetUSD), ThroughputMin: orZero(form.MinThroughput),
		MemoryMaxGiB: orZero(form.MaxMemoryGiB), GPUUtilMinPct: orZero(form.MinGPUUtil), CPUUtilMinPct: orZero(form.MinCPUUtil)},
		Hash: form.Hash, Verdicts: form.Verdicts, Compliance: form.Compliance}
	return err
}

// MarshalJSON writes the decision with its time and prediction.
func (p Plan) MarshalJSON() ([]byte, error) {
	return written(planForm{Allocation: p.Allocation, Planner: p.Planner, Reason: p.Reason, Binding: p.Binding, AtS: p.AtS, Prediction: p.Prediction,
		Candidates: p.Candidates, Options: p.Options, Interrupted: p.Interrupted})
}

// UnmarshalJSON decodes the form of MarshalJSON.
func (p *Plan) UnmarshalJSON(data []byte) error {
	var form planForm
	err := json.Unmarshal(data, &form)
	*p = Plan{Plan: plan.Plan{Allocation: form.Allocation, Planner: form.Planner, Reason: form.Reason, Binding: form.Binding,
		Candidates: form.Candidates, Options: form.Options}, AtS: form.AtS, Prediction: form.Prediction, Interrupted: form.Interrupted}
	return err
}

// clear makes every number unknown and every list empty.
func (h *Host) clear() {
	*h = Host{resources.Host{Memory: resources.GiB(math.NaN()), GPUs: []resources.GPU{}}}
}

func (p *Prices) clear() {
	unknown := cost.USD(math.NaN())
	*p = Prices{cost.Rates{GPUHour: unknown, CPUHour: unknown, GiBHour: unknown}}
}

func (s *SLA) clear() { *s = SLA{Verdicts: []sla.Verdict{}, Compliance: Unknown()} }

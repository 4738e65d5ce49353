package predict

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// schemaVersion is the version of the JSON format. Times are in seconds, money in USD, memory in GiB. Unknown numbers
// and intervals are null. Lists are never null.
//
//	schema, subject
//	job{script, framework, model, family, dataset, params, layers, data_count, data_size_mb, epochs, batch}
//	work{quantity: "throughput|unit_rate|trainings", unit, amount{p5,p50,p95}, words}
//	startup_s{p5,p50,p95}
//	limits{deadline_s, budget_usd}, preference{time, cost, resource}, market: "on demand|spot"
//	feasible, nearest                          nearest: what would be feasible, as text; "" where the choice is
//	chosen                                     option; null when nothing fits
//	options[{gpu, gpus, nodes, cpus, batch, machine, market: "on demand|spot|own rates", usd_per_hour, prices_dated,
//	    seconds{p5,p50,p95}, cost_usd{…}, paid_hours{…}, interruption_usd, throughput{…}, units_per_s{…}, peak_memory_gib{…},
//	    peak_gpu_memory_gib{…}, resource, fit: "fits|does not fit|not checked", lacks, chance, feasible, on_front, chosen}]
//	on_demand[], spot[]                        positions in options of the cheapest that fit
//	interruptions{per_hour, restart_s, lost_s, away_s, resumable, assumed}
//	basis[{weight, similarity, source, model, dataset, entries[], measured, words}], prior, extrapolates[]
//	uncertainty{work, rate, startup, probe{gpu, gpus, cpus, seconds{…}}}
//	changes[{kind: "probe|deadline|budget|market|epochs|batch", option, seconds{…}, cost_usd{…}, words}]
//	notes[]
//
// GPUs and CPUs are per node; cpus is null when determined by the machine.
const schemaVersion = 1

// spread is the JSON format of an interval.
type spread struct {
	P5  page.Number `json:"p5"`
	P50 page.Number `json:"p50"`
	P95 page.Number `json:"p95"`
}

func spreadOf(i sla.Interval) *spread {
	if !known(i) {
		return nil
	}
	return &spread{page.Number(i.P5), page.Number(i.P50), page.Number(i.P95)}
}

// optionForm is the JSON format of an option.
type optionForm struct {
	GPU          *string     `json:"gpu"`
	GPUs         int         `json:"gpus"`
	Nodes        int         `json:"nodes"`
	CPUs         page.Number `json:"cpus"`
	Batch        page.Number `json:"batch"`
	Machine      string      `json:"machine"`
	Market       market      `json:"market"`
	USDPerHour   page.Number `json:"usd_per_hour"`
	Dated        *string     `json:"prices_dated"`
	AgeDays      *int        `json:"age_days"`
	Stale        bool        `json:"stale"`
	Seconds      *spread     `json:"seconds"`
	CostUSD      *spread     `json:"cost_usd"`
	PaidHours    *spread     `json:"paid_hours"`
	Interruption page.Number `json:"interruption_usd"`
	Throughput   *spread     `json:"throughput"`
	UnitsPerS    *spread     `json:"units_per_s"`
	PeakMemory   *spread     `json:"peak_memory_gib"`
	PeakGPU      *spread     `json:"peak_gpu_memory_gib"`
	Resource     page.Number `json:"resource"`
	Fit          fitKind     `json:"fit"`
	Lacks        string      `json:"lacks"`
	Chance       page.Number `json:"chance"`
	Feasible     bool        `json:"feasible"`
	OnFront      bool        `json:"on_front"`
	Chosen       bool        `json:"chosen"`
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (a *answer) optionForm(o *option) optionForm {
	c := &a.Configurations[o.Config]
	cpus := math.NaN()
	if c.GPUs == 0 {
		cpus = float64(c.CPUs)
	}
	f := optionForm{GPU: textOrNull(c.GPU), GPUs: c.GPUs, Nodes: c.Nodes, CPUs: page.Number(cpus), Batch: page.Number(c.Batch), Machine: o.Machine, Market: o.Market,
		USDPerHour: page.Number(o.Hourly), Dated: textOrNull(o.dated()), Seconds: spreadOf(o.Seconds), CostUSD: spreadOf(o.CostUSD), PaidHours: spreadOf(o.PaidHours),
		Interruption: page.Number(o.Interruption), Throughput: spreadOf(c.Throughput), UnitsPerS: spreadOf(c.Rate.Value), PeakMemory: spreadOf(c.HostPeak),
		PeakGPU: spreadOf(c.GPUPeak), Resource: page.Number(o.Resource), Fit: o.Fit, Lacks: o.Lacks, Chance: page.Number(o.Chance), Feasible: o.Feasible, OnFront: o.OnFront, Chosen: o.Chosen}
	if days, stale, ok := cost.PriceAge(o.dated(), a.Question.Today); ok {
		f.AgeDays, f.Stale = &days, stale
	}
	return f
}

// dated returns the date of the price.
func (o *option) dated() string {
	if o.Market == Spot {
		return o.Offer.SpotDated
	}
	return o.Offer.Dated
}

// object is a JSON object; encoding/json sorts its keys.
type object map[string]any

// renderJSON writes the format described at [Schema].
func renderJSON(w io.Writer, a *answer) error {
	q, j, i := a.Question, a.Question.Job, a.Interruptions
	options := []optionForm{}
	for k := range a.Options {
		options = append(options, a.optionForm(&a.Options[k]))
	}
	var chosen any
	basis, prior, extrapolates := []object{}, math.NaN(), []string{}
	if c := a.chosenConfiguration(); c != nil {
		chosen, prior, extrapolates = options[a.Chosen], c.Rate.Prior, append(extrapolates, c.Rate.Extrapolates...)
	}
	for k := range a.Basis {
		g := &a.Basis[k]
		basis = append(basis, object{"weight": page.Number(g.Weight), "similarity": page.Number(g.Similarity), "source": g.Source, "model": textOrNull(g.Job.Model),
			"dataset": textOrNull(g.Job.Dataset), "entries": append([]string{}, g.Entries...), "measured": g.Measured, "words": g.words()})
	}
	changes := []object{}
	for _, c := range a.Changes {
		changes = append(changes, object{"kind": c.Kind, "option": c.Option, "seconds": spreadOf(c.Seconds), "cost_usd": spreadOf(c.CostUSD), "words": c.Words})
	}
	data, err := json.MarshalIndent(object{
		"schema": schemaVersion, "subject": q.subject(), "job": jobForm(j, q.Batch),
		"work":      object{"quantity": a.Work.Quantity, "unit": a.Work.Unit, "amount": spreadOf(a.Work.Amount), "words": a.Work.Words},
		"startup_s": spreadOf(a.Startup),
		"limits":    object{"deadline_s": limit(q.Deadline.Seconds()), "budget_usd": limit(float64(q.Budget))}, "preference": q.Preference, "market": q.market(),
		"feasible": a.Feasible, "nearest": a.Nearest, "chosen": chosen, "options": options,
		"on_demand": append([]int{}, a.OnDemand...), "spot": append([]int{}, a.SpotCapacity...),
		"interruptions": object{"per_hour": page.Number(i.PerHour), "restart_s": page.Number(i.RestartHours * 3600), "lost_s": page.Number(i.LostHours * 3600),
			"away_s": page.Number(i.AwayHours * 3600), "resumable": q.Resumable, "assumed": i.Assumed},
		"basis": basis, "prior": page.Number(prior), "extrapolates": extrapolates, "uncertainty": a.uncertaintyForm(), "changes": changes, "notes": append([]string{}, a.Notes...),
	}, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, page.PlainBlanks(string(data))+"\n")
	return err
}

func jobForm(j history.Job, batch float64) object {
	return object{"script": textOrNull(j.Script), "framework": textOrNull(j.Framework), "model": textOrNull(j.Model), "family": textOrNull(j.Family), "dataset": textOrNull(j.Dataset),
		"params": page.Number(j.Params), "layers": page.Number(j.Layers), "data_count": page.Number(j.DataCount), "data_size_mb": page.Number(j.DataSizeMB), "epochs": page.Number(j.Epochs), "batch": page.Number(batch)}
}

// limit returns null for 0, no limit.
func limit(v float64) page.Number {
	if v <= 0 {
		return page.Number(math.NaN())
	}
	return page.Number(v)
}

func (a *answer) uncertaintyForm() any {
	u := a.Uncertainty
	if u == nil {
		return nil
	}
	form := object{"work": page.Number(u.Work), "rate": page.Number(u.Rate), "startup": page.Number(u.Startup), "probe": nil}
	if p := u.Probe; p != nil {
		form["probe"] = object{"gpu": textOrNull(p.Configuration.GPU), "gpus": p.Configuration.GPUs, "cpus": p.Configuration.CPUs, "seconds": spreadOf(p.Seconds)}
	}
	return form
}

// lines returns one row per option; unknown values are blank.
func (a *answer) lines() [][]string {
	head := []string{"gpu", "gpus", "nodes", "cpus", "batch", "machine", "market", "usd_per_hour", "prices_dated"}
	spreads := []string{"seconds", "cost_usd", "paid_hours", "throughput", "units_per_s", "peak_memory_gib", "peak_gpu_memory_gib"}
	for _, name := range spreads {
		head = append(head, name+"_p5", name+"_p50", name+"_p95")
	}
	rows := [][]string{append(head, "interruption_usd", "resource", "fit", "lacks", "chance", "feasible", "on_front", "chosen")}
	cell := func(n page.Number) string { return page.CSVCell(float64(n), 9) }
	yes := func(b bool) string { return map[bool]string{true: "1", false: "0"}[b] }
	for i := range a.Options {
		o := a.optionForm(&a.Options[i])
		row := []string{a.Configurations[a.Options[i].Config].GPU, strconv.Itoa(o.GPUs), strconv.Itoa(o.Nodes), cell(o.CPUs), cell(o.Batch), page.Clean(o.Machine), string(o.Market),
			cell(o.USDPerHour), a.Options[i].dated()}
		for _, s := range []*spread{o.Seconds, o.CostUSD, o.PaidHours, o.Throughput, o.UnitsPerS, o.PeakMemory, o.PeakGPU} {
			if s == nil {
				row = append(row, "", "", "")
				continue
			}
			row = append(row, cell(s.P5), cell(s.P50), cell(s.P95))
		}
		rows = append(rows, append(row, cell(o.Interruption), cell(o.Resource), string(o.Fit), strings.ReplaceAll(o.Lacks, "\n", " "), cell(o.Chance), yes(o.Feasible), yes(o.OnFront), yes(o.Chosen)))
	}
	return rows
}

package analysis

// sizing compares what batch jobs requested with what they used, from the accounting of Slurm: CPU time, memory,
// GPUs and time limits by user and name of the job, what they cost, the part of it that was held without use, and the
// requests that would have sufficed.
//
// Only recorded values are evaluated. A site that records no memory or no GPU utilization yields "no data" there, never
// 0, and neither a waste nor a recommendation. It reads no file and makes no changes.
//
//	jobs, err := slurm.ReadAccounting(file)
//	err = analysis.NewSizing(jobs, analysis.SizingOptions{}).Render(os.Stdout, "text")

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/report/page"
)

// schema is the version of the JSON format.
const schema = 1

// SizingOptions configures a report. The zero value prices every job at the default rates of its GPUs.
type SizingOptions struct {
	// Rates price every job; nil means [cost.Default].
	Rates *cost.Rates
	// User selects the jobs of one user; "" means all.
	User string
	// Bad is the number of lines of the accounting that could not be read, FirstBad the first few of them.
	Bad      int
	FirstBad []string
}

// summary describes one measurement per run.
type summary struct {
	Median page.Number `json:"median"`
	Max    page.Number `json:"max"`
	Of     int         `json:"of"` // runs with the measurement
}

func summarizeJobs(values []float64) summary {
	s := summarize(values)
	return summary{Median: s.Median, Max: s.Max, Of: s.Runs}
}

// usedShare is the used part of what was held, 0…1, over all runs where both are recorded.
type usedShare struct {
	Value page.Number `json:"value"`
	Of    int         `json:"of"` // runs
}

// resourceHours are amounts held, of runs whose allocation is recorded.
type resourceHours struct {
	CPU page.Number `json:"cpu"`
	GPU page.Number `json:"gpu"`
	GiB page.Number `json:"gib"`
}

// unusedCost is the price, in USD, of what was held and measured to be unused. Its parts overlap with Failed: they do not add
// up. Unknown without a measurement.
type unusedCost struct {
	CPU    page.Number `json:"cpu"`
	Memory page.Number `json:"memory"`
	GPU    page.Number `json:"gpu"`
	// Failed is the whole cost of runs that failed, ran out of memory or lost their node; TimedOut that of those that
	// reached their time limit, which may have saved a checkpoint.
	Failed   page.Number `json:"failed"`
	TimedOut page.Number `json:"timed_out"`
}

// jobAllocation is what the latest run of a group held.
type jobAllocation struct {
	Nodes     int         `json:"nodes"`
	CPUs      page.Number `json:"cpus"` // of all nodes
	GPUs      page.Number `json:"gpus"` // of all nodes
	GPUType   string      `json:"gpu_type"`
	MemoryGiB page.Number `json:"memory_gib_per_node"`
	LimitS    page.Number `json:"limit_s"`
	tasks     int         // of its largest step
}

// jobGroup contains the jobs of one user with one name. Tasks of an array and components of a heterogeneous job, whose
// name they follow as in train+1, are jobs of their own, and the steps of a job are joined. A run is one life of a job, from a start to its end.
type jobGroup struct {
	User    string `json:"user"`
	Name    string `json:"name"`
	Jobs    int    `json:"jobs"` // that started
	Runs    int    `json:"runs"` // starts of these jobs, several for a requeued one
	Running int    `json:"running"`
	Waiting int    `json:"waiting"` // that never started, or wait again
	// States counts the runs that ended, by Slurm's word.
	States  map[string]int `json:"states"`
	Request jobAllocation  `json:"request"`
	WaitS   summary        `json:"wait_s"`    // from eligible to start
	Elapsed summary        `json:"elapsed_s"` // of completed runs
	// CPU is the CPU time over the CPU time held; CPUs the mean number in use of each run.
	CPU  usedShare `json:"cpu_efficiency"`
	CPUs summary   `json:"cpus_used"`
	// PeakGiB is the largest use of memory on one node, Memory its part of what was held there.
	PeakGiB summary `json:"peak_memory_gib_per_node"`
	Memory  summary `json:"memory_efficiency"`
	// GPU is the utilization that the site recorded, GPUMemory the peak of the task that used most.
	GPU       usedShare      `json:"gpu_utilization"`
	GPUMemory summary        `json:"peak_gpu_memory_gib"`
	Hours     resourceHours  `json:"hours"`
	CostUSD   page.Number    `json:"cost_usd"`
	Unpriced  int            `json:"unpriced"` // runs without a recorded allocation or time
	Waste     unusedCost     `json:"waste_usd"`
	Advice    recommendation `json:"recommendation"`

	lives []life
}

// priceUse is a set of rates and the number of runs priced by it.
type priceUse struct {
	cost.Rates
	Default bool `json:"default"` // not given by the user
	Runs    int  `json:"runs"`
}

// sizing is the evaluation of an accounting.
type sizing struct {
	Schema int         `json:"schema"`
	From   *time.Time  `json:"from"` // first start
	To     *time.Time  `json:"to"`   // last end
	Total  *jobGroup   `json:"total"`
	Groups []*jobGroup `json:"groups"`
	Prices []priceUse  `json:"prices"`
	Notes  []string    `json:"notes"`
}

// NewSizing evaluates lives of jobs in the order of the accounting. A life that is listed again, as in overlapping files,
// replaces its earlier state. The cost is O(n log n) in the number of lives and steps.
func NewSizing(jobs []slurm.Job, o SizingOptions) *sizing {
	r := &sizing{Schema: schema, Groups: []*jobGroup{}, Prices: []priceUse{}, Notes: []string{}}
	jobs, repeated := distinct(jobs)
	type key struct{ user, name string }
	groups := map[key]*jobGroup{}
	all := &jobGroup{Advice: recommendation{Lines: []option{}, Withheld: []string{}}}
	prices := map[cost.Rates]*priceUse{}
	for i := range jobs {
		j := &jobs[i]
		if o.User != "" && j.User != o.User {
			continue
		}
		k := key{page.Clean(j.User), page.Clean(j.Name + j.Component())}
		if groups[k] == nil {
			groups[k] = &jobGroup{User: k.user, Name: k.name}
			r.Groups = append(r.Groups, groups[k])
		}
		l := newLife(j)
		if rates, ok := l.price(o.Rates); ok {
			if prices[rates] == nil {
				prices[rates] = &priceUse{Rates: rates, Default: o.Rates == nil}
			}
			prices[rates].Runs++
		}
		groups[k].lives = append(groups[k].lives, l)
		all.lives = append(all.lives, l)
		r.span(j)
	}
	for _, g := range append(r.Groups, all) {
		g.evaluate()
	}
	all.Request = noRequest
	r.Total = all
	slices.SortStableFunc(r.Groups, func(a, b *jobGroup) int {
		return cmp.Or(cmp.Compare(b.CostUSD, a.CostUSD), cmp.Compare(b.Hours.CPU, a.Hours.CPU), strings.Compare(a.User, b.User), strings.Compare(a.Name, b.Name))
	})
	for _, g := range r.Groups {
		g.Advice = g.recommend()
	}
	for _, p := range prices {
		r.Prices = append(r.Prices, *p)
	}
	slices.SortFunc(r.Prices, func(a, b priceUse) int { return cmp.Or(b.Runs-a.Runs, strings.Compare(a.Source, b.Source)) })
	r.remark(repeated, o)
	return r
}

// distinct drops the earlier states of lives that are listed again, and returns their number.
func distinct(jobs []slurm.Job) (out []slurm.Job, repeated int) {
	type key struct {
		id            string
		submit, start time.Time
	}
	at := map[key]int{}
	for _, j := range jobs {
		k := key{cmp.Or(j.RawID, j.ID), j.Submit, j.Start}
		if j.Start.IsZero() {
			k.id = j.ID // the pending tasks of an array have the number of their last task
		}
		if i, ok := at[k]; ok && !(j.Submit.IsZero() && j.Start.IsZero()) {
			out[i] = j
			repeated++
			continue
		}
		at[k] = len(out)
		out = append(out, j)
	}
	return out, repeated
}

// span extends the time that the report covers.
func (r *sizing) span(j *slurm.Job) {
	if !j.Start.IsZero() && (r.From == nil || j.Start.Before(*r.From)) {
		r.From = &j.Start
	}
	if !j.End.IsZero() && !j.Start.IsZero() && (r.To == nil || j.End.After(*r.To)) {
		r.To = &j.End
	}
}

// failedStates lists the states of lives whose work is lost unless a checkpoint was saved.
var failedStates = []string{"BOOT_FAIL", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}

// evaluate sums over the lives of a group.
func (g *jobGroup) evaluate() {
	g.States = map[string]int{}
	jobs := map[string]bool{}
	var waits, elapsed, cpus, peaks, memory, gpuMemory []float64
	var cpuUsed, cpuHeld, gpuUsed, gpuHeld float64
	hours := struct{ cpu, gpu, gib, usd sum }{}
	waste := struct{ cpu, memory, gpu, failed, timedOut sum }{}
	var latest *life
	for i := range g.lives {
		l := &g.lives[i]
		if !l.job.Ran() {
			if !l.job.Over() {
				g.Waiting++
			}
			continue
		}
		jobs[cmp.Or(l.job.RawID, l.job.ID)] = true
		g.Runs++
		if l.job.Over() {
			g.States[l.job.State]++
		} else {
			g.Running++
		}
		if latest == nil || !l.job.Start.Before(latest.job.Start) {
			latest = l
		}
		if e := l.job.Eligible; !e.IsZero() && !l.job.Start.Before(e) {
			waits = append(waits, l.job.Start.Sub(e).Seconds())
		}
		if l.completed() {
			elapsed = append(elapsed, l.seconds)
		}
		if l.seconds > 0 && page.Known(l.cpuSecs) && page.Known(l.cpus) {
			cpus = append(cpus, l.cpuSecs/l.seconds)
			cpuUsed, cpuHeld = cpuUsed+l.cpuSecs, cpuHeld+l.cpus*l.seconds
			g.CPU.Of++
		}
		if page.Known(l.peakGiB) {
			peaks = append(peaks, l.peakGiB)
			if l.nodeGiB > 0 {
				memory = append(memory, l.peakGiB/l.nodeGiB)
			}
		}
		if page.Known(l.gpuUtil) && l.seconds > 0 {
			gpuUsed, gpuHeld = gpuUsed+l.gpuUtil*l.gpus*l.seconds, gpuHeld+l.gpus*l.seconds
			g.GPU.Of++
		}
		if page.Known(l.gpuGiB) {
			gpuMemory = append(gpuMemory, l.gpuGiB)
		}
		hours.cpu.add(l.cpus * l.seconds / 3600)
		hours.gpu.add(l.gpus * l.seconds / 3600)
		hours.gib.add(l.nodeGiB * l.nodes * l.seconds / 3600)
		hours.usd.add(l.usd)
		if !page.Known(l.usd) {
			g.Unpriced++
		}
		waste.cpu.add(l.unused(float64(l.split.CPU), l.cpuSecs/(l.cpus*l.seconds)))
		waste.memory.add(l.unused(float64(l.split.Memory), l.peakGiB/l.nodeGiB))
		waste.gpu.add(l.unused(float64(l.split.GPU), l.gpuUtil))
		if slices.Contains(failedStates, l.job.State) {
			waste.failed.add(l.usd)
		}
		if l.job.State == "TIMEOUT" {
			waste.timedOut.add(l.usd)
		}
	}
	g.Jobs = len(jobs)
	g.WaitS, g.Elapsed, g.CPUs, g.PeakGiB = summarizeJobs(waits), summarizeJobs(elapsed), summarizeJobs(cpus), summarizeJobs(peaks)
	g.Memory, g.GPUMemory = summarizeJobs(memory), summarizeJobs(gpuMemory)
	g.CPU.Value, g.GPU.Value = page.Number(cpuUsed/cpuHeld), page.Number(gpuUsed/gpuHeld)
	g.Hours = resourceHours{hours.cpu.value(), hours.gpu.value(), hours.gib.value()}
	g.CostUSD = hours.usd.value()
	g.Waste = unusedCost{waste.cpu.value(), waste.memory.value(), waste.gpu.value(), waste.failed.value(), waste.timedOut.value()}
	g.Request = noRequest
	if latest != nil {
		g.Request = latest.request()
	}
}

// noRequest is the request of a group that never ran.
var noRequest = jobAllocation{CPUs: page.Number(math.NaN()), GPUs: page.Number(math.NaN()), MemoryGiB: page.Number(math.NaN()), LimitS: page.Number(math.NaN())}

// sum adds known values; it is unknown without any.
type sum struct {
	total float64
	n     int
}

func (s *sum) add(v float64) {
	if page.Known(v) {
		s.total, s.n = s.total+v, s.n+1
	}
}

func (s *sum) value() page.Number {
	if s.n == 0 {
		return page.Number(math.NaN())
	}
	return page.Number(s.total)
}

// remark adds notes on omissions and assumptions.
func (r *sizing) remark(repeated int, o SizingOptions) {
	note := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if o.Bad > 0 {
		note("%s of the accounting could not be read, first: %s", page.Plural(o.Bad, "line"), page.Clean(strings.Join(o.FirstBad[:min(1, len(o.FirstBad))], "")))
	}
	if repeated > 0 {
		note("%s listed more than once: the last line counts", page.Plural(repeated, "run"))
	}
	var noMemory, noGPU, emptyGPU, several int
	for i := range r.Total.lives {
		l := &r.Total.lives[i]
		if !l.job.Ran() || !l.job.Over() {
			continue
		}
		if !page.Known(l.peakGiB) {
			noMemory++
		}
		if l.gpus > 0 && !page.Known(l.gpuUtil) {
			noGPU++
		}
		if l.emptyGPU {
			emptyGPU++
		}
		if l.tasksPerNode > 1 {
			several++
		}
	}
	if noMemory > 0 {
		note("no memory is recorded of %s: shorter than the site's sampling interval, or JobAcctGatherType is not set", page.Plural(noMemory, "ended run"))
	}
	if noGPU > 0 {
		note("no GPU utilization is recorded of %s: sites record it with AccountingStorageTRES=gres/gpuutil,gres/gpumem", page.Plural(noGPU, "ended run"))
	}
	if emptyGPU > 0 {
		note("%s recorded 0 as both utilization and memory of the GPUs, as Slurm does where it cannot measure them: taken as no data", page.Plural(emptyGPU, "run"))
	}
	if several > 0 {
		note("%s ran several tasks on a node: memory is that of the largest task times the tasks, an upper bound", page.Plural(several, "run"))
	}
	if r.Total.GPU.Of > 0 {
		note("the GPU utilization is what Slurm recorded at the end of each step; depending on its version a sample, not a mean")
	}
	if r.Total.Unpriced > 0 {
		note("%s without a price: the accounting lacks their allocation or time", page.Plural(r.Total.Unpriced, "run"))
	}
	for _, p := range r.Prices {
		if p.Assumed != "" {
			note("price assumed: %s", page.Clean(p.Assumed))
		}
	}
}

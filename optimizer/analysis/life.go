package analysis

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
)

// life is one life of a job with derived values; NaN when not recorded.
type life struct {
	job          *slurm.Job
	seconds      float64
	nodes        float64
	cpus, gpus   float64 // of all nodes
	gpuType      string
	nodeGiB      float64 // memory held on each node
	cpuSecs      float64
	peakGiB      float64 // largest use of memory on one node
	tasksPerNode int     // of the step that used most
	gpuUtil      float64 // of all GPUs, 0…1
	gpuGiB       float64 // peak of the task that used most
	emptyGPU     bool    // utilization and memory are recorded as 0

	usd   float64
	split cost.Split // of usd
}

// newLife derives the values of a life, except its price.
func newLife(j *slurm.Job) life {
	nan := math.NaN()
	l := life{job: j, seconds: nan, nodes: 1, cpus: nan, gpus: nan, nodeGiB: nan, cpuSecs: nan, gpuUtil: nan, gpuGiB: nan, usd: nan}
	switch {
	case j.Elapsed != nil:
		l.seconds = j.Elapsed.Seconds()
	case j.Ended() && !j.Start.IsZero():
		l.seconds = max(0, j.End.Sub(j.Start).Seconds())
	}
	if j.NodeCount > 0 {
		l.nodes = float64(j.NodeCount)
	}
	if cpus, ok := j.AllocTRES["cpu"]; ok {
		l.cpus = cpus
	}
	if len(j.AllocTRES) > 1 { // cpu alone is of AllocCPUS, which does not exclude GPUs
		gpus, kind := j.GPUs()
		l.gpus, l.gpuType = float64(gpus), kind
	}
	if mem, ok := j.AllocTRES["mem"]; ok {
		l.nodeGiB = mem / l.nodes
	} else if mem, ok := j.ReqTRES["mem"]; ok && mem > 0 {
		l.nodeGiB = mem / max(1, j.ReqTRES["node"])
	}
	if s := j.CPUSecs(); s != nil && j.Over() {
		l.cpuSecs = *s
	}
	l.peakGiB, l.tasksPerNode = nodePeak(j)
	l.readGPUs()
	return l
}

// completed reports whether the life ended with exit code 0, with a recorded length.
func (l *life) completed() bool { return l.job.State == "COMPLETED" && l.seconds > 0 }

// nodePeak returns the largest use of memory on one node: the sum over the steps that ran at the same time, each with
// the peak of its largest task times the tasks on a node. It is an upper bound if there are several steps or tasks;
// NaN without a record.
func nodePeak(j *slurm.Job) (gib float64, tasksPerNode int) {
	type change struct {
		at  time.Time
		gib float64
	}
	var changes []change
	most := 0.0
	for i := range j.Steps {
		s := &j.Steps[i]
		if s.MaxRSSGiB == nil {
			continue
		}
		tasks := max(1, int(math.Ceil(float64(s.Tasks)/float64(max(1, s.NodeCount)))))
		use := *s.MaxRSSGiB * float64(tasks)
		if use > most {
			most, tasksPerNode = use, tasks
		}
		from, to := s.Start, s.End
		if from.IsZero() {
			from = j.Start
		}
		if to.IsZero() {
			to = j.End
		}
		if !to.After(from) {
			to = from.Add(time.Second)
		}
		changes = append(changes, change{from, use}, change{to, -use})
	}
	if len(changes) == 0 {
		return math.NaN(), 0
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.gib, b.gib)) })
	now, peak := 0.0, most
	for _, c := range changes {
		now += c.gib
		peak = max(peak, now)
	}
	return peak, tasksPerNode
}

// readGPUs sets the GPU utilization, the mean over the life of what its steps recorded, and the GPU memory.
func (l *life) readGPUs() {
	if !(l.gpus > 0) || !(l.seconds > 0) {
		return
	}
	used, recorded, zeros := 0.0, false, false
	for i := range l.job.Steps {
		s := &l.job.Steps[i]
		util, ok := s.UsageTot["gres/gpuutil"]
		if !ok {
			continue
		}
		memory := max(s.UsageMax["gres/gpumem"], s.UsageTot["gres/gpumem"])
		if util == 0 && memory == 0 {
			zeros = true
			continue
		}
		seconds := l.seconds
		if s.Elapsed != nil {
			seconds = min(seconds, s.Elapsed.Seconds())
		}
		used, recorded = used+util/100*seconds, true
		if memory > 0 && !(l.gpuGiB >= memory) {
			l.gpuGiB = memory
		}
	}
	l.emptyGPU = zeros && !recorded
	if share := used / (l.gpus * l.seconds); recorded && share <= 1.05 { // more is no utilization
		l.gpuUtil = min(1, share)
	}
}

// migSlice matches a MIG profile in the name of a GPU type.
var migSlice = regexp.MustCompile(`[1-7]g\.\d+gb`)

// defaultRates returns the default rates for a GPU type of Slurm.
func defaultRates(gpus float64, gpuType string) cost.Rates {
	switch {
	case gpus == 0:
		gpuType = ""
	case gpuType == "":
		gpuType = "of a type that is not recorded"
	default:
		if slice := migSlice.FindString(gpuType); slice != "" {
			gpuType = strings.Trim(strings.Replace(gpuType, slice, "", 1), "_-. ") + " MIG " + slice
		}
	}
	return cost.Default(gpuType)
}

// price sets usd and split. It returns the rates, or false if the life did not run or its allocation or time is not
// recorded. Memory that is not recorded is not charged.
func (l *life) price(given *cost.Rates) (cost.Rates, bool) {
	if l.job.Start.IsZero() || !page.Known(l.cpus) || !page.Known(l.gpus) || !page.Known(l.seconds) {
		return cost.Rates{}, false
	}
	var rates cost.Rates
	if given != nil {
		rates = *given
	} else {
		rates = defaultRates(l.gpus, l.gpuType)
	}
	machines := 1.0
	if rates.Instance > 0 { // the price of one machine, for the part of the job on it
		machines = l.nodes
	}
	a := resources.Allocation{GPUs: int(math.Round(l.gpus / machines)), CPUs: int(math.Round(l.cpus / machines))}
	if page.Known(l.nodeGiB) {
		a.Memory = resources.GiB(l.nodeGiB * l.nodes / machines)
	}
	times := cost.USD(l.seconds / 3600 * machines)
	s := rates.HourlySplit(a)
	l.split = cost.Split{GPU: s.GPU * times, CPU: s.CPU * times, Memory: s.Memory * times, Rest: s.Rest * times}
	l.usd = float64(l.split.Sum())
	return rates, true
}

// unused returns the part of an amount of money that was held without use; NaN if the used share or the price is not
// known.
func (l *life) unused(usd, share float64) float64 {
	if !page.Known(l.usd) || !page.Known(share) {
		return math.NaN()
	}
	return usd * max(0, 1-share)
}

// request returns what the life held.
func (l *life) request() jobAllocation {
	r := jobAllocation{Nodes: int(l.nodes), CPUs: page.Number(l.cpus), GPUs: page.Number(l.gpus), GPUType: l.gpuType, MemoryGiB: page.Number(l.nodeGiB), LimitS: page.Number(math.NaN()), tasks: 1}
	if l.job.Limit != nil {
		r.LimitS = page.Number(l.job.Limit.Seconds())
	}
	for i := range l.job.Steps {
		if s := &l.job.Steps[i]; s.Name != "extern" {
			r.tasks = max(r.tasks, s.Tasks)
		}
	}
	return r
}

package analysis

import (
	"fmt"
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/report/page"
)

const (
	// minRuns is the number of completed runs below which nothing is recommended.
	minRuns = 5
	// memoryMargin covers peaks between two samples, which Slurm takes every 30 s by default.
	memoryMargin = 1.20
	// cpuMargin covers use above the mean of a run.
	cpuMargin = 1.25
	// The time limit is the timeQuantile of completed runs times timeMargin, unless more than mostTimeouts of the runs
	// reached their limit: the time that those need is not known.
	timeQuantile = 0.95
	timeMargin   = 1.25
	mostTimeouts = 0.05
)

// recommendation contains the requests that would have sufficed.
type recommendation struct {
	Lines []option `json:"lines"`
	// Withheld names the requests that are not recommended, with the reason.
	Withheld []string `json:"withheld"`
}

// option is one recommended option of sbatch.
type option struct {
	Option string `json:"option"` // "--mem=12G"
	Reason string `json:"reason"`
	// Lowers and Raises tell a change from the latest request; both are false if it stays, or is not known.
	Lowers bool `json:"lowers"`
	Raises bool `json:"raises"`
}

// recommend returns the recommended requests of an evaluated group.
func (g *jobGroup) recommend() recommendation {
	r := recommendation{Lines: []option{}, Withheld: []string{}}
	if completed := len(g.of(func(l *life) float64 { return l.seconds })); completed < minRuns {
		r.Withheld = append(r.Withheld, fmt.Sprintf("all requests: %s, at least %d are required", page.Plural(completed, "completed run"), minRuns))
		return r
	}
	for _, of := range []func() (option, string){g.memoryLine, g.cpuLine, g.timeLine} {
		if line, withheld := of(); withheld != "" {
			r.Withheld = append(r.Withheld, withheld)
		} else {
			r.Lines = append(r.Lines, line)
		}
	}
	return r
}

// of returns the known values of the completed runs, ascending.
func (g *jobGroup) of(value func(*life) float64) []float64 {
	var out []float64
	for i := range g.lives {
		if l := &g.lives[i]; l.completed() && page.Known(value(l)) {
			out = append(out, value(l))
		}
	}
	slices.Sort(out)
	return out
}

// memoryLine recommends the memory per node: the largest peak of any run, or what a run that ran out of memory held,
// with the margin.
func (g *jobGroup) memoryLine() (line option, withheld string) {
	if n := len(g.of(func(l *life) float64 { return l.peakGiB })); n < minRuns {
		return line, fmt.Sprintf("memory: %s with a recorded peak, at least %d are required", page.Plural(n, "completed run"), minRuns)
	}
	peak, why := float64(g.PeakGiB.Max), "peak of "+page.Plural(g.PeakGiB.Of, "run")
	for i := range g.lives {
		l := &g.lives[i]
		if l.job.State == "OUT_OF_MEMORY" && l.nodeGiB >= peak {
			peak, why = l.nodeGiB, "held by a run that ran out of memory"
		}
	}
	text, gib := memoryOption(peak * memoryMargin)
	line = option{Option: text, Reason: fmt.Sprintf("%s a node, %s, plus %s", page.GiB(peak), why, page.Share(memoryMargin-1))}
	return line.against(gib, float64(g.Request.MemoryGiB), page.GiB), ""
}

// memoryOption formats memory per node, rounded up: to 64 MiB below 1 GiB, to 256 MiB below 4 GiB, else to whole GiB.
func memoryOption(gib float64) (text string, rounded float64) {
	step := 1.0
	switch {
	case gib <= 1:
		step = 1. / 16
	case gib <= 4:
		step = 1. / 4
	}
	if rounded = math.Ceil(gib/step-1e-9) * step; rounded == math.Trunc(rounded) {
		return fmt.Sprintf("--mem=%.0fG", rounded), rounded
	}
	return fmt.Sprintf("--mem=%.0fM", rounded*1024), rounded
}

// cpuLine recommends the CPUs per task: the largest mean use of a completed run with the margin, at most what is held.
func (g *jobGroup) cpuLine() (line option, withheld string) {
	used := g.of(func(l *life) float64 { return l.cpuSecs / l.seconds })
	if len(used) < minRuns {
		return line, fmt.Sprintf("CPUs: %s with recorded CPU time, at least %d are required", page.Plural(len(used), "completed run"), minRuns)
	}
	held, most, tasks := float64(g.Request.CPUs), used[len(used)-1], float64(g.Request.tasks)
	perTask := max(1, math.Ceil(most*cpuMargin/tasks-1e-9))
	line = option{Reason: fmt.Sprintf("at most %s CPUs in use on average over each of %s, plus %s", page.Significant(most), page.Plural(len(used), "run"), page.Share(cpuMargin-1))}
	if tasks > 1 {
		line.Reason += fmt.Sprintf(", for %.0f tasks", tasks)
	}
	if page.Known(held) && perTask*tasks > held {
		perTask = max(1, math.Floor(held/tasks))
		line.Reason += ", but not more than allocated: whether more would be used is not known"
	}
	line.Option = fmt.Sprintf("--cpus-per-task=%.0f", perTask)
	return line.against(perTask*tasks, held, page.Count), ""
}

// timeLine recommends the time limit.
func (g *jobGroup) timeLine() (line option, withheld string) {
	elapsed := g.of(func(l *life) float64 { return l.seconds })
	if n := g.States["TIMEOUT"]; float64(n) > mostTimeouts*float64(n+len(elapsed)) {
		return line, fmt.Sprintf("time: %d of %s reached the time limit, and the time they need is not known", n, page.Plural(n+len(elapsed), "run"))
	}
	quantile := stat.Quantile(elapsed, timeQuantile)
	seconds := roundTime(quantile * timeMargin)
	longer := stat.Count(elapsed, func(s float64) bool { return s > seconds })
	line = option{Option: "--time=" + slurmTime(seconds), Reason: fmt.Sprintf("%s of %s took at most %s, plus %s",
		page.Share(timeQuantile), page.Plural(len(elapsed), "run"), page.Duration(quantile), page.Share(timeMargin-1))}
	if longer > 0 {
		line.Reason += fmt.Sprintf("; %d took longer than this limit", longer)
	}
	return line.against(seconds, float64(g.Request.LimitS), page.Duration), ""
}

// roundTime rounds seconds up: to 5 minutes below 6 hours, to 30 minutes below 2 days, else to hours.
func roundTime(seconds float64) float64 {
	step := 3600.
	switch {
	case seconds <= 6*3600:
		step = 300
	case seconds <= 48*3600:
		step = 1800
	}
	return max(step, math.Ceil(seconds/step-1e-9)*step)
}

// slurmTime formats whole seconds as Slurm does: 02:30:00, 1-06:00:00.
func slurmTime(seconds float64) string {
	s := int64(seconds)
	clock := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		return fmt.Sprintf("%d-%s", days, clock)
	}
	return clock
}

// against compares a line with the latest request.
func (l option) against(recommended, requested float64, format func(float64) string) option {
	if !page.Known(requested) {
		return l
	}
	l.Lowers, l.Raises = recommended < requested*0.999, recommended > requested*1.001
	l.Reason += "; requested " + format(requested)
	return l
}

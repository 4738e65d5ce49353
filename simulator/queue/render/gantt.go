package render

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/simulator/queue"
)

// Size of the Gantt chart in SVG units, and rows and columns of its aggregated form.
const (
	ganttWidth, ganttHeight = 860.0, 320.0
	ganttLeft, ganttRight   = 62.0, 20.0
	ganttTop, ganttBottom   = 12.0, 44.0
	ganttBoxes              = 4000 // maximum number of boxes; beyond it, shares are drawn
	ganttRows, ganttColumns = 60, 160
)

// box is a rectangle: cores from … to−1 over an interval of time.
type box struct {
	job      int
	from, to int
	at, end  float64
}

// boxes returns the jobs on their cores. If processors are not numbered, jobs are assigned the lowest free ones in
// the order of their starts.
func boxes(r *queue.Result) []box {
	var out []box
	numbered := true
	for i := range r.Jobs {
		o := &r.Jobs[i]
		if !known(o.Start) || !known(o.End) || !(o.End > o.Start) {
			continue
		}
		if o.Cores == nil {
			numbered = false
			break
		}
		for k := 0; k < len(o.Cores); {
			n := k + 1
			for n < len(o.Cores) && o.Cores[n] == o.Cores[n-1]+1 {
				n++
			}
			out = append(out, box{i, int(o.Cores[k]), int(o.Cores[n-1]) + 1, o.Start, o.End})
			k = n
		}
	}
	if numbered {
		return out
	}
	return numberedBoxes(r)
}

// stretch is a range of processors, from … to−1, that is free since a time.
type stretch struct {
	from, to int
	since    float64
}

// numberedBoxes assigns jobs the lowest free processors. It keeps the processors as stretches with the time since
// which they are free, and splits and merges these in the order of starts. O(jobs × stretches).
func numberedBoxes(r *queue.Result) []box {
	var order []int
	for i := range r.Jobs {
		if o := &r.Jobs[i]; known(o.Start) && known(o.End) && o.End > o.Start {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := r.Jobs[a].Start, r.Jobs[b].Start
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	rows := []stretch{{0, r.Procs, math.Inf(-1)}}
	var out []box
	for _, i := range order {
		o := &r.Jobs[i]
		want := o.Job.Procs
		var next []stretch
		for _, s := range rows {
			if want == 0 || s.since > o.Start {
				next = append(next, s)
				continue
			}
			n := min(want, s.to-s.from)
			out = append(out, box{i, s.from, s.from + n, o.Start, o.End})
			next = append(next, stretch{s.from, s.from + n, o.End})
			if s.from+n < s.to {
				next = append(next, stretch{s.from + n, s.to, s.since})
			}
			want -= n
		}
		rows = merged(next)
	}
	return out
}

// merged joins adjacent stretches of equal time, which bounds their number by the number of running jobs.
func merged(all []stretch) []stretch {
	out := all[:0:0]
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].to == s.from && out[n-1].since == s.since {
			out[n-1].to = s.to
			continue
		}
		out = append(out, s)
	}
	return out
}

// gantt returns an SVG of jobs on cores over time and a note that explains it: a rectangle per job, or for many jobs
// the busy share of groups of cores. It returns "" if nothing ran.
func gantt(r *queue.Result) (svg, note string) {
	first, last := extent(r)
	all := boxes(r)
	if len(all) == 0 || !(last > first) {
		return "", ""
	}
	x := func(t float64) float64 {
		return ganttLeft + (t-first)/(last-first)*(ganttWidth-ganttLeft-ganttRight)
	}
	y := func(core float64) float64 {
		return ganttTop + core/float64(r.Procs)*(ganttHeight-ganttTop-ganttBottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="Jobs on cores over time">`+"\n", ganttWidth, ganttHeight)
	if len(all) <= ganttBoxes {
		note = "each job a box of its color: the cores that it had, over time; its name is shown when pointed at"
		for _, q := range all {
			o := &r.Jobs[q.job]
			fmt.Fprintf(&b, `<rect class="g%d" x="%.2f" y="%.2f" width="%.2f" height="%.2f"><title>job %s: %d processors, %s</title></rect>`+"\n", q.job%8+1, x(q.at), y(float64(q.from)),
				math.Max(0.3, x(q.end)-x(q.at)), math.Max(0.3, y(float64(q.to))-y(float64(q.from))), escaped(o.Job.Label()), o.Job.Procs, span(o.End-o.Start))
		}
	} else {
		note = "too many jobs for boxes: the darker, the more of a group of cores runs something at a time"
		density(&b, r, all, first, last, x, y)
	}
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		core := math.Round(share * float64(r.Procs))
		fmt.Fprintf(&b, `<text class="tick" x="%g" y="%.1f" dx="-6" dy="4" text-anchor="end">%g</text>`+"\n", ganttLeft, y(core), core)
	}
	for _, t := range hourTicks((last - first) / 3600) {
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%g" dy="16" text-anchor="middle">%g</text>`+"\n", x(first+3600*t), ganttHeight-ganttBottom, t)
	}
	fmt.Fprintf(&b, `<text class="tick" x="%g" y="%g" dy="-6" text-anchor="end">hours</text><text class="tick" x="%g" y="%g" dy="-6">cores ↓</text></svg>`, ganttWidth-ganttRight, ganttHeight, ganttLeft, ganttHeight)
	return b.String(), note
}

// density draws the busy share of groups of cores over time, as the opacity of cells in a grid of at most ganttRows ×
// ganttColumns; shares below 0.5 % are omitted.
func density(b *strings.Builder, r *queue.Result, all []box, first, last float64, x, y func(float64) float64) {
	rows := min(ganttRows, r.Procs)
	used := make([][]float64, rows)
	for i := range used {
		used[i] = make([]float64, ganttColumns)
	}
	width, height := (last-first)/ganttColumns, float64(r.Procs)/float64(rows)
	for _, q := range all {
		for i := int(float64(q.from) / height); i < rows && float64(i)*height < float64(q.to); i++ {
			cores := math.Min(float64(q.to), float64(i+1)*height) - math.Max(float64(q.from), float64(i)*height)
			for k := int((q.at - first) / width); k < ganttColumns && first+float64(k)*width < q.end; k++ {
				at := first + float64(k)*width
				used[i][k] += cores * (math.Min(q.end, at+width) - math.Max(q.at, at)) / (width * height)
			}
		}
	}
	for i := range used {
		for k, share := range used[i] {
			if share < 0.005 {
				continue
			}
			fmt.Fprintf(b, `<rect class="g1" x="%.2f" y="%.2f" width="%.2f" height="%.2f" opacity="%.2f"/>`+"\n", x(first+float64(k)*width), y(float64(i)*height),
				x(first+float64(k+1)*width)-x(first+float64(k)*width)+0.2, y(float64(i+1)*height)-y(float64(i)*height)+0.2, math.Min(1, share))
		}
	}
}

// hourTicks returns at most seven round numbers from 0 to most.
func hourTicks(most float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(most/3)))
	for _, k := range []float64{1, 2, 5, 10} {
		if most/(k*step) <= 6 {
			step *= k
			break
		}
	}
	var out []float64
	for v := 0.0; v <= most*(1+1e-9) && len(out) < 8; v += step {
		out = append(out, math.Round(v/step)*step)
	}
	return out
}

func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

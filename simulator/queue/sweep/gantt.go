package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/queue"
)

const (
	ganttBoxes              = 4000 // maximum number of boxes; beyond it, shares are drawn
	ganttRows, ganttColumns = 60, 160
	ganttShades             = 10
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
		if !page.Known(o.Start) || !page.Known(o.End) || !(o.End > o.Start) {
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
		if o := &r.Jobs[i]; page.Known(o.Start) && page.Known(o.End) && o.End > o.Start {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Jobs[a].Start, r.Jobs[b].Start) })
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

// gantt draws the jobs on cores over time: a box per job, or for many jobs the busy share of groups of cores; ok is
// false if nothing ran.
func gantt(r *queue.Result) (p page.Picture, ok bool) {
	first, last := extent(r)
	all := boxes(r)
	if len(all) == 0 || !(last > first) {
		return p, false
	}
	p = page.Picture{Title: "Jobs on cores", Note: "each job a box of its color: the cores that it had, over time; its name is shown when pointed at"}
	if len(all) > ganttBoxes {
		p.Note = "too many jobs for boxes: the darker, the more of a group of cores runs something at a time"
	}
	return p.Draw(fmt.Sprintf("%d jobs on %d cores over %s", len(r.Jobs), r.Procs, span(last-first)), func(drawing *page.Drawing) {
		hours := (last - first) / 3600
		d := ganttDrawing{Drawing: drawing,
			x: page.NewScale([]float64{0, hours}, 7, true, false), y: page.NewScale([]float64{0, float64(r.Procs)}, 4, true, false), first: first}
		d.x.Max, d.y.Max = hours, float64(r.Procs)
		d.x.Ticks = slices.DeleteFunc(d.x.Ticks, func(t float64) bool { return t > hours })
		d.Fit(d.x, d.y)
		d.y.From, d.y.To = d.y.To, d.y.From // the first core is at the top
		d.Axes(d.x, d.y, "hours", "cores ↓")
		if len(all) <= ganttBoxes {
			d.boxes(r, all)
		} else {
			d.density(r, all, last)
		}
	}), true
}

// ganttDrawing is a drawing of cores over hours since first, a time in s.
type ganttDrawing struct {
	*page.Drawing
	x, y  *page.Scale
	first float64
}

// at returns the coordinate of a time.
func (d ganttDrawing) at(time float64) float64 { return d.x.At((time - d.first) / 3600) }

// boxes draws each job.
func (d ganttDrawing) boxes(r *queue.Result, all []box) {
	for _, q := range all {
		o := &r.Jobs[q.job]
		left, top := d.at(q.at), d.y.At(float64(q.from))
		d.F(`<rect class="cell %s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"><title>job %s: %d processors, %s</title></rect>`, page.Class(q.job), left, top,
			math.Max(0.3, d.at(q.end)-left), math.Max(0.3, d.y.At(float64(q.to))-top), page.Esc(o.Job.Label()), o.Job.Procs, span(o.End-o.Start))
	}
}

// density draws the busy share of groups of cores over time, as the opacity of cells in a grid of at most ganttRows ×
// ganttColumns; shares below 0.5 % are omitted.
func (d ganttDrawing) density(r *queue.Result, all []box, last float64) {
	rows := min(ganttRows, r.Procs)
	used := make([][]float64, rows)
	for i := range used {
		used[i] = make([]float64, ganttColumns)
	}
	width, height := (last-d.first)/ganttColumns, float64(r.Procs)/float64(rows)
	for _, q := range all {
		for i := int(float64(q.from) / height); i < rows && float64(i)*height < float64(q.to); i++ {
			cores := math.Min(float64(q.to), float64(i+1)*height) - math.Max(float64(q.from), float64(i)*height)
			for k := int((q.at - d.first) / width); k < ganttColumns && d.first+float64(k)*width < q.end; k++ {
				at := d.first + float64(k)*width
				used[i][k] += cores * (math.Min(q.end, at+width) - math.Max(q.at, at)) / (width * height)
			}
		}
	}
	wide, high := page.Px(d.at(d.first+width)-d.at(d.first)+.2), page.Px(d.y.At(height)-d.y.At(0)+.2)
	cell := "h" + wide + "v" + high + "h-" + wide + "z"
	var shades [ganttShades + 1]strings.Builder
	for i := range used {
		for k, share := range used[i] {
			if share >= 0.005 {
				shade := &shades[min(ganttShades, int(math.Ceil(share*ganttShades)))]
				fmt.Fprintf(shade, "M%s %s%s", page.Px(d.at(d.first+float64(k)*width)), page.Px(d.y.At(float64(i)*height)), cell)
			}
		}
	}
	for i := range shades {
		if shades[i].Len() > 0 {
			d.F(`<path class="cell s1" opacity="%.1f" d="%s"/>`, float64(i)/ganttShades, shades[i].String())
		}
	}
}

package render

import (
	"cmp"
	"io"
	"slices"

	"trainopt/simulator/evaluate"
	"trainopt/simulator/queue"
)

// slowest is how many jobs a page lists.
const slowest = 15

func page(w io.Writer, r *Run) error {
	p := evaluate.Page{Title: r.title(), Subtitle: r.subtitle(), Facts: r.facts(), Notes: r.notes()}
	p.Charts = charts(r)
	var jobs []*queue.Outcome
	for i := range r.Jobs {
		if ended(&r.Jobs[i]) {
			jobs = append(jobs, &r.Jobs[i])
		}
	}
	slices.SortStableFunc(jobs, func(a, b *queue.Outcome) int { return cmp.Compare(b.BoundedSlowdown(), a.BoundedSlowdown()) })
	t := evaluate.Table{Title: "The jobs that were slowed down most", Head: []string{"job", "processors", "submitted", "waited", "ran", "bounded slowdown"}}
	for _, o := range jobs[:min(slowest, len(jobs))] {
		t.Lines = append(t.Lines, []string{o.Job.Label(), cell(float64(o.Job.Procs)), span(o.Job.Submit), span(o.Wait()), span(o.End - o.Start), figure(o.BoundedSlowdown())})
	}
	if len(t.Lines) > 0 {
		p.Tables = append(p.Tables, t)
	}
	return p.Write(w)
}

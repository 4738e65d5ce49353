package render

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"trainopt/simulator/experiment"
	"trainopt/simulator/queue"
)

// slowest is the maximum number of jobs listed on a page.
const slowest = 15

// page writes an HTML page: the facts, charts, the jobs of largest bounded slowdown and the actions of agents. The
// Gantt chart is inserted before the first section, because experiment.Page has no place for an SVG.
func page(w io.Writer, r *Run) error {
	p := experiment.Page{Title: r.title(), Subtitle: r.subtitle(), Facts: r.cards(), Notes: r.notes()}
	p.Charts = charts(r)
	var jobs []*queue.Outcome
	for i := range r.Jobs {
		if ended(&r.Jobs[i]) {
			jobs = append(jobs, &r.Jobs[i])
		}
	}
	slices.SortStableFunc(jobs, func(a, b *queue.Outcome) int { return cmp.Compare(b.BoundedSlowdown(), a.BoundedSlowdown()) })
	t := experiment.Table{Title: "The jobs that were slowed down most", Head: []string{"job", "processors", "submitted", "waited", "ran", "bounded slowdown"}}
	for _, o := range jobs[:min(slowest, len(jobs))] {
		t.Lines = append(t.Lines, []string{o.Job.Label(), cell(float64(o.Job.Procs)), span(o.Job.Submit), span(o.Wait()), span(o.End - o.Start), figure(o.BoundedSlowdown())})
	}
	if len(t.Lines) > 0 {
		p.Tables = append(p.Tables, t)
	}
	p.Tables = append(p.Tables, learned(r)...)
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return err
	}
	out := b.Bytes()
	if picture, note := gantt(r.Result); picture != "" {
		section := ganttStyle + "<section>\n<h3>Jobs on cores</h3>\n<p class=\"sub\">" + note + "</p>\n<figure>" + picture + "</figure>\n</section>\n"
		out = bytes.Replace(out, []byte("<section>"), []byte(section+"<section>"), 1) // before the first chart
	}
	_, err := w.Write(out)
	return err
}

// ganttStyle assigns the line colors of charts to boxes.
const ganttStyle = `<style>
svg .g1 { fill: var(--s1); } svg .g2 { fill: var(--s2); } svg .g3 { fill: var(--s3); } svg .g4 { fill: var(--s4); }
svg .g5 { fill: var(--s5); } svg .g6 { fill: var(--s6); } svg .g7 { fill: var(--s7); } svg .g8 { fill: var(--s8); }
svg rect { stroke: var(--card); stroke-width: .3; } svg rect[opacity] { stroke: none; }
</style>
`

// learned returns a table of the actions that an agent took in the first and in the last run.
func learned(r *Run) []experiment.Table {
	if len(r.Learned) == 0 || len(r.Learned[0].Actions) == 0 {
		return nil
	}
	t := experiment.Table{Title: "What the agent did", Head: []string{"action", "first run", "last run"}}
	share := func(run int, action int) string {
		n := 0
		all := r.Learned[run].Actions
		for _, a := range all {
			if a == action {
				n++
			}
		}
		return fmt.Sprintf("%d of %d", n, len(all))
	}
	for i, name := range r.Actions {
		t.Lines = append(t.Lines, []string{name, share(0, i), share(len(r.Learned)-1, i)})
	}
	return []experiment.Table{t}
}

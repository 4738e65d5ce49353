package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/report/page"
	"trainopt/simulator/queue"
)

// slowest is the maximum number of jobs listed on a page.
const slowest = 15

// pictured returns the document of a run with a Gantt chart, charts over time, the jobs of largest bounded slowdown and
// the actions of agents.
func (r *RunView) pictured() page.Document {
	d := r.document()
	d.Title = "Simulated batch queue: " + d.Title
	d.Sections[0].Blocks[0].Intro = "The slowdown of a job is its turnaround (wait and run) by its run time; the bounded slowdown takes run times below 10 s as 10 s."
	blocks := d.Sections[0].Blocks
	if p, ok := gantt(r.Result); ok {
		blocks = append(blocks, page.Block{Wide: &p})
	}
	blocks = append(blocks, page.Block{Pictures: page.Pictures(charts(r))})
	var jobs []*queue.Outcome
	for i := range r.Jobs {
		if r.Jobs[i].Ran() {
			jobs = append(jobs, &r.Jobs[i])
		}
	}
	slices.SortStableFunc(jobs, func(a, b *queue.Outcome) int { return cmp.Compare(b.BoundedSlowdown(), a.BoundedSlowdown()) })
	var lines [][]string
	for _, o := range jobs[:min(slowest, len(jobs))] {
		lines = append(lines, []string{o.Job.Label(), cell(float64(o.Job.Procs)), span(o.Job.Submit), span(o.Wait()), span(o.End - o.Start), figure(o.BoundedSlowdown())})
	}
	if len(lines) > 0 {
		blocks = append(blocks, page.Block{Caption: "Jobs with the largest slowdown",
			Table: page.Grid([]string{"job", "processors", "submitted", "waited", "ran", "bounded slowdown"}, lines)})
	}
	if g := learned(r); g != nil {
		blocks = append(blocks, page.Block{Caption: "What the agent did", Table: g})
	}
	d.Sections[0].Blocks = blocks
	return d
}

// learned returns a table of the actions that an agent took in the first and in the last run; nil without any.
func learned(r *RunView) *page.Table {
	if len(r.Learned) == 0 || len(r.Learned[0].Actions) == 0 {
		return nil
	}
	share := func(run int, action int) string {
		all := r.Learned[run].Actions
		n := stat.Count(all, func(a int) bool { return a == action })
		return fmt.Sprintf("%d of %d", n, len(all))
	}
	var lines [][]string
	for i, name := range r.Actions {
		lines = append(lines, []string{name, share(0, i), share(len(r.Learned)-1, i)})
	}
	return page.Grid([]string{"action", "first run", "last run"}, lines)
}

package rlscheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
)

// jobsOf are jobs by submission, processors, run time and request.
func jobsOf(tb testing.TB, rows [][4]int) []order.Job {
	tb.Helper()
	var jobs []order.Job
	for i, r := range rows {
		jobs = append(jobs, order.Job{
			ID: i + 1, Submit: float64(r[0]), Procs: r[1], Run: float64(r[2]), Request: float64(r[3]), Deadline: math.NaN(),
		})
	}
	return jobs
}

func first(e *Episode) {
	for w := e.Waiting(); len(w) > 0; w = e.Waiting() {
		e.Start(w[0])
	}
}

func TestEpisode(t *testing.T) {
	for name, c := range map[string]struct {
		procs    int
		backfill bool
		jobs     [][4]int
		want     string
	}{
		"one after another": {4, false, [][4]int{{0, 4, 10, 10}, {1, 4, 10, 10}, {2, 1, 1, 1}}, "[0 10 20]"},
		// The third ends by its request, strictly, before the second could start.
		"a short one overtakes":        {4, true, [][4]int{{0, 3, 10, 10}, {1, 4, 10, 10}, {2, 1, 7, 7}}, "[0 10 2]"},
		"not when it ends at the time": {4, true, [][4]int{{0, 3, 10, 10}, {1, 4, 10, 10}, {2, 1, 8, 8}}, "[0 10 20]"},
		// True EASY would let it go: the second leaves one processor that it does not need.
		"not on extra processors":           {4, true, [][4]int{{0, 3, 10, 10}, {1, 3, 10, 10}, {2, 1, 30, 30}}, "[0 10 10]"},
		"the clock goes on when none waits": {4, false, [][4]int{{5, 1, 1, 1}, {100, 4, 1, 1}}, "[5 100]"},
		"larger than the machine":           {4, true, [][4]int{{0, 5, 1, 1}, {1, 4, 1, 1}, {2, 9, 1, 1}}, "[NaN 1 NaN]"},
		"no jobs":                           {4, true, nil, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEpisode(jobsOf(t, c.jobs), c.procs, c.backfill)
			for range 2 {
				first(e)
				if got := fmt.Sprint(e.Starts()); got != c.want {
					t.Errorf("starts %s, want %s", got, c.want)
				}
				if e.Started() != len(c.jobs) {
					t.Errorf("%d of %d jobs left the queue", e.Started(), len(c.jobs))
				}
				e.reset()
			}
		})
	}
}

func TestStartOfNobodyChangesNothing(t *testing.T) {
	e := NewEpisode(jobsOf(t, [][4]int{{0, 1, 5, 5}, {9, 1, 5, 5}}), 1, false)
	for _, job := range []int{-1, 1, 7} {
		e.Start(job)
	}
	if e.Started() != 0 || e.Now() != 0 || !slices.Equal(e.Waiting(), []int{0}) {
		t.Errorf("%d started, clock %v, waiting %v", e.Started(), e.Now(), e.Waiting())
	}
}

func draw(t *rapid.T) (jobs []order.Job, procs int) {
	procs = rapid.IntRange(1, 8).Draw(t, "procs")
	at := 0
	for i := range rapid.IntRange(0, 40).Draw(t, "jobs") {
		at += rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "gap")
		request := rapid.IntRange(1, 12).Draw(t, "request")
		jobs = append(jobs, order.Job{
			ID: i + 1, Submit: float64(at), Procs: rapid.IntRange(1, procs).Draw(t, "size"),
			Run: float64(rapid.IntRange(1, 14).Draw(t, "run")), Request: float64(request), Deadline: math.NaN(),
		})
	}
	return jobs, procs
}

// Episode and the reference agree in every start, with many events at the same times.
func TestEpisodeIsTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, procs := draw(t)
		for _, name := range []string{"fcfs", "wfp3", "unicep", "sjf", "f1", "smallest"} {
			for _, published := range []bool{false, true} {
				for _, backfill := range []bool{false, true} {
					h := Heuristic{Order: order.Orders[name]}
					if published {
						h.Order = h.Published()
					}
					r := reference{jobs: jobs, h: h, free: procs, clock: 0, start: make([]float64, len(jobs))}
					r.play(backfill)
					e := NewEpisode(jobs, procs, backfill)
					play(e, h.Player(jobs))
					for i, start := range e.Starts() {
						if start != r.start[i] {
							t.Fatalf("%s, published %v, backfilling %v: job %d starts at %v, want %v", name, published, backfill, i, start, r.start[i])
						}
					}
				}
			}
		}
	})
}

// reference is the loop of RLScheduler's simulator line by line, with lists that are sorted in place where the original sorts them,
// which decides between equals.
type reference struct {
	jobs    []order.Job // by submission; none larger than the machine
	h       Heuristic
	free    int
	clock   float64
	arrived int
	waiting []int
	running []int
	start   []float64
}

func (r *reference) end(i int) float64      { return r.start[i] + r.jobs[i].Run }
func (r *reference) expected(i int) float64 { return r.start[i] + r.jobs[i].Request }

func (r *reference) play(backfill bool) {
	for {
		if len(r.waiting) == 0 {
			if !r.advance() {
				return
			}
			continue
		}
		slices.SortStableFunc(r.waiting, func(a, b int) int { return cmp.Or(cmp.Compare(r.score(a), r.score(b)), cmp.Compare(a, b)) })
		chosen := r.waiting[0]
		if r.jobs[chosen].Procs > r.free {
			r.wait(chosen, backfill)
		}
		r.begin(chosen)
	}
}

func (r *reference) score(i int) float64 {
	if r.h.Aging {
		return r.h.Score(&r.jobs[i], r.clock-r.jobs[i].Submit)
	}
	return r.h.Score(&r.jobs[i], 0)
}

func (r *reference) begin(i int) {
	r.start[i] = r.clock
	r.free -= r.jobs[i].Procs
	r.running = append(r.running, i)
	r.waiting = slices.DeleteFunc(r.waiting, func(w int) bool { return w == i })
}

// wait lets time pass until the chosen job fits. With backfilling, waiting jobs start before it, in order of submission, that by their
// requests end before it could start by the requests of the jobs that ran when it was chosen.
func (r *reference) wait(chosen int, backfill bool) {
	shadow := r.clock
	if backfill {
		slices.SortStableFunc(r.running, func(a, b int) int { return cmp.Compare(r.expected(a), r.expected(b)) })
		free := r.free
		for _, i := range r.running {
			free += r.jobs[i].Procs
			shadow = r.expected(i)
			if free >= r.jobs[chosen].Procs {
				break
			}
		}
	}
	for r.jobs[chosen].Procs > r.free {
		if backfill {
			slices.SortStableFunc(r.waiting, func(a, b int) int { return cmp.Compare(r.jobs[a].Submit, r.jobs[b].Submit) })
			for _, i := range slices.Clone(r.waiting) {
				if r.jobs[i].Procs <= r.free && r.clock+r.jobs[i].Request < shadow {
					r.begin(i)
				}
			}
		}
		r.advance()
	}
}

// advance processes one event, submissions first; false when none is left.
func (r *reference) advance() bool {
	slices.SortStableFunc(r.running, func(a, b int) int { return cmp.Compare(r.end(a), r.end(b)) })
	if r.arrived < len(r.jobs) && (len(r.running) == 0 || r.jobs[r.arrived].Submit <= r.end(r.running[0])) {
		r.clock = max(r.clock, r.jobs[r.arrived].Submit)
		r.waiting = append(r.waiting, r.arrived)
		r.arrived++
		return true
	}
	if len(r.running) == 0 {
		return false
	}
	i := r.running[0]
	r.running = r.running[1:]
	r.clock = max(r.clock, r.end(i))
	r.free += r.jobs[i].Procs
	return true
}

func clone(e *Episode) *Episode {
	c := new(Episode)
	c.copyFrom(e)
	return c
}

func TestCopiesAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, procs := draw(t)
		e := NewEpisode(jobs, procs, rapid.Bool().Draw(t, "backfill"))
		steps := rapid.IntRange(0, 20).Draw(t, "steps")
		for i := 0; i < steps && len(e.Waiting()) > 0; i++ {
			e.Start(rapid.SampledFrom(e.Waiting()).Draw(t, "next"))
		}
		before := fmt.Sprint(e.Starts(), e.Waiting(), e.Now(), e.free, measure(e))
		c := clone(e)
		first(c)
		if after := fmt.Sprint(e.Starts(), e.Waiting(), e.Now(), e.free, measure(e)); after != before {
			t.Fatalf("playing the copy changed the original from\n%s to\n%s", before, after)
		}
		first(e)
		if a, b := fmt.Sprint(e.Starts(), measure(e)), fmt.Sprint(c.Starts(), measure(c)); a != b {
			t.Fatalf("the same steps lead to %s and to %s", a, b)
		}
	})
}

func TestStepsDoNotAllocate(t *testing.T) {
	var rows [][4]int
	for i := range 400 {
		rows = append(rows, [4]int{i, 1 + i*7%8, 1 + i*13%50, 1 + i*13%50 + i%3})
	}
	e := NewEpisode(jobsOf(t, rows), 8, true)
	first(e) // grows to its largest size
	e.reset()
	c := clone(e)
	first(c)
	if n := testing.AllocsPerRun(20, func() {
		c.copyFrom(e)
		first(c)
	}); n != 0 {
		t.Errorf("%v allocations a run, want none", n)
	}
}

func TestRead(t *testing.T) {
	const header = "; MaxNodes: 8\n; MaxProcs: 16\n"
	for name, c := range map[string]struct{ text, want string }{
		"defaults":   {header + "2 5 -1 -3 2 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n1 4 -1 7 2 -1 -1 -1 9 -1 1 3 -1 -1 -1 -1 -1 -1\n", "[{1 4 2 7 9} {2 5 4 10 -3}]"},
		"dropped":    {header + "1 5 -1 0 2 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n2 5 -1 9 -1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n", "[]"},
		"too large":  {header + "1 5 -1 9 17 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n", "job 1 wants 17 processors of 16"},
		"no machine": {"1 5 -1 9 17 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n", "want the size of a machine"},
	} {
		t.Run(name, func(t *testing.T) {
			trace, err := readTrace(strings.NewReader(c.text))
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			type row struct {
				ID           int
				Submit       float64
				Procs        int
				Run, Request float64
			}
			got := []row{}
			for _, j := range trace.Jobs {
				got = append(got, row{j.ID, j.Submit, j.Procs, j.Run, j.Request})
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

// Jobs have nodes whole: two of three processors each take a node of four.
func TestNodesAreWhole(t *testing.T) {
	trace := &Trace{Jobs: jobsOf(t, [][4]int{{0, 3, 10, 10}, {0, 3, 10, 10}, {0, 1, 10, 10}}), Procs: 8, Nodes: 2}
	e := trace.Episode(0, 3, false)
	first(e)
	if got := fmt.Sprint(e.Starts()); got != "[0 0 10]" {
		t.Errorf("starts %s, want [0 0 10]", got)
	}
}

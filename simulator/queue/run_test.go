package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

// job returns a job on the given number of processors.
func job(id int, submit float64, procs int, run, request float64) order.Job {
	return order.Job{ID: id, Submit: submit, Procs: procs, Run: run, Request: request, Deadline: math.NaN()}
}

func run(tb interface {
	Helper()
	Fatal(...any)
}, c queue.Config) *queue.Result {
	tb.Helper()
	r, err := queue.Run(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func starts(r *queue.Result) string {
	var s []float64
	for i := range r.Jobs {
		s = append(s, r.Jobs[i].Start)
	}
	return fmt.Sprint(s)
}

func TestBackfills(t *testing.T) {
	// On four processors: the second waits for the whole machine.
	blocked := []order.Job{job(1, 0, 3, 10, 10), job(2, 1, 4, 10, 10), job(3, 2, 1, 8, 8), job(4, 3, 1, 5, 5)}
	// The second leaves one processor free.
	extra := []order.Job{job(1, 0, 3, 10, 10), job(2, 1, 3, 10, 10), job(3, 2, 1, 30, 30)}
	// EASY starts the fourth before the third, which then waits longer; conservative backfilling does not.
	third := []order.Job{job(1, 0, 2, 10, 10), job(2, 1, 3, 10, 10), job(3, 2, 2, 10, 10), job(4, 3, 1, 30, 30)}
	// The first ends long before its request.
	early := []order.Job{job(1, 0, 4, 2, 100), job(2, 1, 4, 5, 5), job(3, 1, 1, 5, 5)}
	// The first exceeds its request: EASY expects it to end at any time and starts no job of positive length before
	// the second.
	late := []order.Job{job(1, 0, 3, 20, 5), job(2, 1, 4, 5, 5), job(3, 6, 1, 3, 3)}
	// The first ends early and leaves exactly the processors that the third needs before the second.
	hole := []order.Job{job(1, 0, 4, 7, 10), job(2, 1, 4, 5, 5), job(3, 2, 4, 3, 3)}
	for name, c := range map[string]struct {
		jobs            []order.Job
		order, backfill string
		want            string
	}{
		"a hole that fits exactly":  {hole, "sjf", "conservative", "[0 10 7]"},
		"none":                      {blocked, "", "", "[0 10 20 20]"},
		"easy until the time":       {blocked, "", "easy", "[0 10 2 20]"},
		"easy on extra processors":  {extra, "", "easy", "[0 10 2]"},
		"rlscheduler without":       {extra, "", "rlscheduler", "[0 10 10]"},
		"easy delays the third":     {third, "", "easy", "[0 10 20 3]"},
		"conservative delays none":  {third, "", "conservative", "[0 10 20 3]"},
		"conservative compresses":   {early, "", "conservative", "[0 2 7]"},
		"a late job, easy":          {late, "", "easy", "[0 20 25]"},
		"a late job, conservative":  {late, "", "conservative", "[0 20 6]"},
		"shortest first, none":      {blocked, "sjf", "none", "[0 15 2 10]"},
		"simultaneous, lower ID":    {[]order.Job{job(2, 0, 4, 5, 5), job(1, 0, 4, 5, 5)}, "", "none", "[5 0]"},
		"ends come before arrivals": {[]order.Job{job(1, 0, 4, 5, 5), job(2, 5, 4, 5, 5)}, "", "easy", "[0 5]"},
		"no time at all":            {[]order.Job{job(1, 3, 4, 0, 0), job(2, 3, 4, 0, 1), job(3, 3, 4, 2, 0)}, "", "conservative", "[3 3 3]"},
		"nothing":                   {nil, "", "easy", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := starts(run(t, queue.Config{Procs: 4, Jobs: c.jobs, Order: c.order, Backfill: c.backfill})); got != c.want {
				t.Errorf("starts %s, want %s", got, c.want)
			}
		})
	}
}

func TestStates(t *testing.T) {
	limited := job(1, 0, 1, 10, 5)
	limited.Limit = 5
	within := job(2, 0, 1, 5, 5)
	within.Limit = 5
	r := run(t, queue.Config{Procs: 2, Jobs: []order.Job{limited, within, job(3, 1, 3, 1, 1), job(4, 2, 2, 1, 1)}, Backfill: "easy"})
	var got []string
	for i := range r.Jobs {
		o := &r.Jobs[i]
		got = append(got, fmt.Sprintf("%d %v-%v", o.State, o.Start, o.End))
	}
	want := []string{
		fmt.Sprintf("%d 0-5", queue.Killed), fmt.Sprintf("%d 0-5", queue.Completed), fmt.Sprintf("%d NaN-NaN", queue.Rejected),
		fmt.Sprintf("%d 5-6", queue.Completed),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	s := r.Summary()
	if s.Killed != 1 || s.Completed != 2 || s.Rejected != 1 || s.Unfinished != 0 || s.Jobs != 4 {
		t.Errorf("summary %+v", s)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var jobs []order.Job
	for i := range 20000 {
		jobs = append(jobs, job(i+1, float64(i), 1, 1, 1))
	}
	for _, backfill := range []string{"easy", "rlscheduler"} {
		r, err := queue.Run(ctx, queue.Config{Procs: 1, Jobs: jobs, Backfill: backfill, Progress: func(done, total int) {
			if done > 5000 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) || r == nil || r.Summary().Completed == 20000 || r.Summary().Unfinished == 0 {
			t.Errorf("%s: got %v", backfill, err)
		}
	}
}

func TestValidateNamesAllThatIsWrong(t *testing.T) {
	bad := []order.Job{job(7, -1, 0, math.NaN(), math.Inf(1)), {ID: 8, Name: "w0!8", Procs: 1, Limit: -1}}
	for range 12 {
		bad = append(bad, job(9, 0, 0, 0, 0))
	}
	_, err := queue.Run(context.Background(), queue.Config{Jobs: bad, Order: "fastest", Backfill: "all"})
	for _, want := range []string{
		"a machine of 0 processors", `order "fastest"`, `backfilling "all"`, "job 7 (number 1", "0 processors, want", "submission at -1 s",
		"run time NaN s", "requested time +Inf s", "job w0!8 (number 2", "limit -1 s", "and 4 jobs more",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

func drawJobs(t *rapid.T, exact bool) (jobs []order.Job, procs int) {
	procs = rapid.IntRange(1, 8).Draw(t, "procs")
	at := 0
	for i := range rapid.IntRange(1, 25).Draw(t, "jobs") {
		at += rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "gap")
		took := rapid.IntRange(1, 12).Draw(t, "run")
		asked := took
		if !exact {
			asked += rapid.SampledFrom([]int{0, 0, 1, 10}).Draw(t, "more")
		}
		jobs = append(jobs, job(i+1, float64(at), rapid.IntRange(1, procs+1).Draw(t, "size"), float64(took), float64(asked)))
	}
	return jobs, procs
}

// Every order and backfilling algorithm yields the starts of the reference simulator in naive_test.go.
func TestAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, procs := drawJobs(t, false)
		for i := range jobs { // some are killed at their limit, some exceed their request
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				jobs[i].Limit = math.Max(1, jobs[i].Run-2)
			case 1:
				jobs[i].Request = math.Max(1, jobs[i].Run-3)
			}
		}
		name := rapid.SampledFrom(order.OrderNames()).Draw(t, "order")
		for _, backfill := range []string{"none", "easy", "conservative"} {
			if backfill == "conservative" && slices.ContainsFunc(jobs, func(j order.Job) bool { return j.Limit == 0 && j.Run > j.Request }) {
				continue
			}
			c := queue.Config{Procs: procs, Jobs: jobs, Order: name, Backfill: backfill}
			r := run(t, c)
			for i, want := range simulateNaively(c, order.Orders[name].Score) {
				if !same(want, r.Jobs[i].Start) {
					t.Fatalf("%s, %s: job %d starts at %v, naively at %d", name, backfill, i, r.Jobs[i].Start, want)
				}
			}
		}
	})
}

// Invariants of all orders and backfilling algorithms, also as published.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, procs := drawJobs(t, false)
		for i := range jobs {
			if rapid.IntRange(0, 3).Draw(t, "late") == 0 {
				jobs[i].Request = 1
			}
		}
		c := queue.Config{
			Procs: procs, Jobs: jobs, Order: rapid.SampledFrom(order.OrderNames()).Draw(t, "order"),
			Backfill: rapid.SampledFrom(queue.Backfills()).Draw(t, "backfill"), AsPublished: rapid.Bool().Draw(t, "published"),
		}
		r := run(t, c)
		work := 0.0
		for i := range r.Jobs {
			o := &r.Jobs[i]
			if jobs[i].Procs > procs {
				if o.State != queue.Rejected {
					t.Fatalf("job %d of %d processors: state %d", i, jobs[i].Procs, o.State)
				}
				continue
			}
			if o.State != queue.Completed || o.Start < jobs[i].Submit || o.End != o.Start+jobs[i].Run {
				t.Fatalf("job %d: state %d, submitted %v, ran %v to %v, takes %v", i, o.State, jobs[i].Submit, o.Start, o.End, jobs[i].Run)
			}
			work += jobs[i].Run * float64(jobs[i].Procs)
			used := 0 // at a start, when usage is maximal
			for k := range r.Jobs {
				if p := &r.Jobs[k]; p.Start <= o.Start && o.Start < p.End {
					used += jobs[k].Procs
				}
			}
			if used > procs {
				t.Fatalf("%d of %d processors in use at %v s", used, procs, o.Start)
			}
		}
		if s := r.Summary(); s.Completed > 0 && math.Abs(s.Utilization*s.Span*float64(procs)-work) > 1e-6 {
			t.Fatalf("%v processor seconds of work were put in, %v came out", work, s.Utilization*s.Span*float64(procs))
		}
		if again := run(t, c); starts(again) != starts(r) {
			t.Fatal("the same simulation twice gives two results")
		}
	})
}

// With exact estimates and first come, first served, EASY starts no job later than the reservation computed when it
// became the head: the time at which the jobs running then left enough processors.
func TestEasyKeepsTheReservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, procs := drawJobs(t, true)
		r := run(t, queue.Config{Procs: procs, Jobs: jobs, Backfill: "easy"})
		headSince := 0.0
		for i := range r.Jobs {
			o := &r.Jobs[i]
			if o.State == queue.Rejected {
				continue
			}
			since := math.Max(headSince, jobs[i].Submit) // all earlier jobs have started
			headSince = math.Max(headSince, o.Start)
			var ends []float64
			used := 0
			for k := range r.Jobs {
				// Later jobs that start at this instant were admitted after the reservation was made.
				if p := &r.Jobs[k]; k < i && p.Start <= since && since < p.End || k > i && p.Start < since && since < p.End {
					used += jobs[k].Procs
					ends = append(ends, p.End)
				}
			}
			at := since
			slices.Sort(ends)
			for _, end := range ends {
				if used+jobs[i].Procs <= procs {
					break
				}
				at = end
				used = 0
				for k := range r.Jobs {
					if p := &r.Jobs[k]; (k < i && p.Start <= since || k > i && p.Start < since) && end < p.End {
						used += jobs[k].Procs
					}
				}
			}
			if o.Start > at {
				t.Fatalf("job %d was first in the queue at %v, reserved for %v, started at %v", i, since, at, o.Start)
			}
		}
	})
}

// With exact estimates, the start of a job by conservative backfilling does not depend on later jobs.
func TestConservativeDelaysNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, procs := drawJobs(t, true)
		n := rapid.IntRange(1, len(jobs)).Draw(t, "first")
		some := run(t, queue.Config{Procs: procs, Jobs: jobs[:n], Backfill: "conservative"})
		all := run(t, queue.Config{Procs: procs, Jobs: jobs, Backfill: "conservative"})
		for i := range n {
			if some.Jobs[i].State != queue.Rejected && some.Jobs[i].Start != all.Jobs[i].Start {
				t.Fatalf("job %d starts at %v, with %d more jobs behind it at %v", i, some.Jobs[i].Start, len(jobs)-n, all.Jobs[i].Start)
			}
		}
	})
}

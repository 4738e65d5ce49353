package queue

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/rlscheduler"
)

// Run simulates the jobs until the last has ended. A job larger than the machine is Rejected at submission; one that runs for longer
// than its Limit is Killed there. At equal times ends precede submissions, and both precede starts.
//
// When ctx ends, Run returns the result so far with the error of ctx: running jobs are Running, waiting jobs Waiting.
//
// Cost: that of order.Scheduler for each event.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("simulate a queue: %w", err)
	}
	s := newSimulation(&c)
	err := s.run(ctx)
	if err != nil {
		err = fmt.Errorf("simulate a queue: stopped at %v s with %d of %d jobs ended: %w", s.now, s.done, len(s.tasks), err)
	}
	if c.Progress != nil {
		c.Progress(s.done, len(s.tasks))
	}
	return s.result, err
}

// task is a job of the simulation; tasks are in the order of submission.
type task struct {
	submit, run float64 // run is cut at the limit
	job         int32   // index in the workload
}

// simulation drives an order.Scheduler with the submissions and ends of a workload. Job numbers of the scheduler are task indices.
type simulation struct {
	config *Config
	result *Result
	tasks  []task

	now     float64
	arrived int // tasks[:arrived] were submitted
	done    int // tasks that ended or were rejected
	ends    schedule.Events[int32]
}

func newSimulation(c *Config) *simulation {
	s := &simulation{config: c, tasks: make([]task, len(c.Jobs))}
	s.result = &Result{Jobs: make([]Outcome, len(c.Jobs)), Procs: c.Procs, Energy: math.NaN()}
	sorted := true
	for i := range c.Jobs {
		j := &c.Jobs[i]
		s.result.Jobs[i] = Outcome{Job: j, Start: math.NaN(), End: math.NaN()}
		s.tasks[i] = task{submit: j.Submit, run: runTime(j), job: int32(i)}
		sorted = sorted && (i == 0 || cmp.Or(cmp.Compare(c.Jobs[i-1].Submit, j.Submit), cmp.Compare(c.Jobs[i-1].ID, j.ID)) <= 0)
	}
	if !sorted {
		slices.SortStableFunc(s.tasks, func(a, b task) int {
			return cmp.Or(cmp.Compare(a.submit, b.submit), cmp.Compare(c.Jobs[a.job].ID, c.Jobs[b.job].ID))
		})
	}
	return s
}

func runTime(j *order.Job) float64 {
	if j.Limit > 0 {
		return min(j.Run, j.Limit)
	}
	return j.Run
}

func (s *simulation) run(ctx context.Context) error {
	if s.config.Backfill == rlschedulerBackfill {
		return s.runPublished(ctx)
	}
	scheduler, err := order.New(s.config.Procs, s.config.order(), s.config.Backfill)
	if err != nil {
		return err
	}
	scheduler.Reserve(len(s.tasks))
	return s.runEvents(ctx, scheduler)
}

// runEvents is the event loop. It checks ctx and reports progress every few thousand events.
func (s *simulation) runEvents(ctx context.Context, scheduler *order.Scheduler) error {
	for turn := 0; ; turn++ {
		if turn%4096 == 0 {
			if err := s.checkCancelled(ctx); err != nil {
				return err
			}
		}
		next, ok := s.ends.Peek()
		if s.arrived < len(s.tasks) && (!ok || s.tasks[s.arrived].submit < next) {
			next, ok = s.tasks[s.arrived].submit, true
		}
		if !ok {
			return nil
		}
		s.now = next
		for at, some := s.ends.Peek(); some && at == next; at, some = s.ends.Peek() {
			_, t := s.ends.Pop()
			scheduler.End(next, t)
			s.end(t)
		}
		for s.arrived < len(s.tasks) && s.tasks[s.arrived].submit == next {
			k := &s.tasks[s.arrived]
			s.arrived++
			s.result.Events++
			if _, fits := scheduler.Submit(next, s.result.Jobs[k.job].Job); !fits {
				s.result.Jobs[k.job].State = Rejected
				s.done++
			}
		}
		for _, t := range scheduler.Decide(next) {
			k := &s.tasks[t]
			o := &s.result.Jobs[k.job]
			o.Start, o.State = next, Running
			s.ends.Push(next+k.run, t)
		}
	}
}

func (s *simulation) checkCancelled(ctx context.Context) error {
	if s.config.Progress != nil {
		s.config.Progress(s.done, len(s.tasks))
	}
	return ctx.Err()
}

func (s *simulation) end(t int32) {
	s.done++
	s.result.Events++
	o := &s.result.Jobs[s.tasks[t].job]
	o.End, o.State = s.now, Completed
	if limit := o.Job.Limit; limit > 0 && o.Job.Run > limit {
		o.State = Killed
	}
}

// runPublished plays the jobs in the simulator of RLScheduler, with its backfilling.
func (s *simulation) runPublished(ctx context.Context) error {
	var jobs []order.Job
	var of []int32 // index in the workload
	for _, k := range s.tasks {
		j := s.config.Jobs[k.job]
		s.result.Events++
		if j.Procs > s.config.Procs {
			s.result.Jobs[k.job].State = Rejected
			s.done++
			continue
		}
		j.Request, j.Run = j.Estimate(), k.run
		jobs, of = append(jobs, j), append(of, k.job)
	}
	rejected := s.done
	e := rlscheduler.NewEpisode(jobs, s.config.Procs, true)
	turn := 0
	heuristic := rlscheduler.Heuristic{Order: s.config.order()}
	err := e.Drive(heuristic.Player(jobs), func() error {
		s.now, s.done = e.Now(), rejected+e.Ended()
		if turn++; turn%4096 == 1 {
			return s.checkCancelled(ctx)
		}
		return nil
	})
	for i, start := range e.Starts() {
		if math.IsNaN(start) {
			continue
		}
		r := &s.result.Jobs[of[i]]
		r.Start, r.State = start, Running
		if end := start + jobs[i].Run; err == nil || end <= e.Now() {
			r.End, r.State = end, Completed
			s.result.Events++
			if limit := r.Job.Limit; limit > 0 && r.Job.Run > limit {
				r.State = Killed
			}
		}
	}
	if err == nil {
		s.done = len(s.tasks)
	}
	return err
}

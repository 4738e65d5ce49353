package batsim

import (
	"fmt"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

// ordered is an order.Scheduler behind the protocol: it starts jobs on the lowest free processors. Job numbers of the scheduler are
// those of the session, since both count submissions. Cost: that of order.Scheduler, and O(cores) a start.
type ordered struct {
	session   *session
	jobs      []order.Job
	scheduler *order.Scheduler
	busy      []bool // by processor
	lowest    []int32
}

var _ decider = (*ordered)(nil)

func newOrdered(s *session) (decider, error) {
	procs := s.ground.tree.Cores
	scheduler, err := order.New(procs, order.Orders[s.options.order()], s.options.Backfill)
	if err != nil {
		return nil, err
	}
	return &ordered{session: s, scheduler: scheduler, busy: make([]bool, procs)}, nil
}

func (o *ordered) extend(jobs []order.Job) { o.jobs = jobs }

func (o *ordered) decide(now float64, events []queue.Event, _ int) error {
	for _, e := range events {
		switch e.Kind {
		case queue.Ended, queue.Stopped:
			o.scheduler.End(now, e.Job)
			for _, c := range o.session.fate[e.Job].Cores {
				o.busy[c] = false
			}
		case queue.Submitted:
			id, fits := o.scheduler.Submit(now, &o.jobs[e.Job])
			if id != e.Job {
				return fmt.Errorf("decide: job %s is submission %d, want %d", o.jobs[e.Job].Label(), e.Job, id)
			}
			if fits {
				continue
			}
			if err := o.session.Reject(e.Job); err != nil {
				return err
			}
		}
	}
	for _, id := range o.scheduler.Decide(now) {
		if err := o.start(id); err != nil {
			return err
		}
	}
	return nil
}

func (o *ordered) start(id int32) error {
	want := o.jobs[id].Procs
	o.lowest = o.lowest[:0]
	for c, busy := range o.busy {
		if len(o.lowest) == want {
			break
		}
		if !busy {
			o.busy[c] = true
			o.lowest = append(o.lowest, int32(c))
		}
	}
	return o.session.Start(id, o.lowest)
}

func (o *ordered) finish() error {
	if n := o.scheduler.Waiting(); n > 0 {
		return fmt.Errorf("decide: the simulation ended while %d jobs waited", n)
	}
	return nil
}

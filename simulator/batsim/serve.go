package batsim

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
)

// ServeOptions say how a decision process decides. The zero value is first come, first served on plain processors.
type ServeOptions struct {
	Talk

	// Order is one of order.Orders, by which jobs are started on the lowest free processors, whatever they need of memory and
	// bandwidth; "" is fcfs. Backfill is one of order.Backfills; "" is none.
	Order, Backfill string

	// Pairs has HDeepRM's process decide instead, by these settings, and Agent choose among their actions; nil is always the first
	// of them. Limits are what observations are relative to; zero ones are 1 each, which is right for agents that do not look.
	Pairs  *hdeeprm.Settings
	Agent  hdeeprm.Decider
	Limits hdeeprm.Limits

	// Tree is the machine of which the other side simulates the cores: its core number i is the resource whose name ends in i, where
	// names are one text and the numbers from 0, and else the resource in place i by number. Nil: all resources are alike, or as
	// different in power as watt_per_state says, each is a node of its own, and their states are left alone.
	Tree *platform.Tree

	// Listening is told the address at which a simulator may connect; nil: nobody is.
	Listening func(net.Addr)
}

// Serve is a decision process: it listens at an endpoint ("tcp://*:28000", port 0 is any), and decides for the first simulator that
// asks until that ends. The result is what became of the jobs, as far as it was told: energy is unknown. When it fails, the result
// is as far as it went, nil when nothing began.
func Serve(ctx context.Context, endpoint string, o ServeOptions) (*queue.Result, error) {
	s := &session{options: o, index: map[string]int32{}, more: 1}
	if err := o.validate(); err != nil {
		return nil, err
	}
	network, addr, err := address(endpoint, true)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", endpoint, err)
	}
	defer listener.Close()
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	if o.Listening != nil {
		o.Listening(listener.Addr())
	}
	w, request, err := accept(ctx, listener, &o.Talk)
	if err != nil {
		return nil, err
	}
	defer w.conn.Close()
	listener.Close()
	hangUp := context.AfterFunc(ctx, func() { w.conn.Close() })
	defer hangUp()
	err = s.talk(ctx, w, request)
	if s.decider == nil {
		return nil, err
	}
	return s.result(), err
}

func (o *ServeOptions) validate() error {
	if o.Pairs != nil {
		if o.Order != "" || o.Backfill != "" && o.Backfill != "none" {
			return fmt.Errorf("decide: either pairs of policies or the order %q with backfilling %q, not both", o.Order, o.Backfill)
		}
		return o.Pairs.Validate()
	}
	if _, ok := order.Orders[o.Order]; !ok && o.Order != "" {
		return fmt.Errorf("decide: no order is called %q: there are %s", o.Order, strings.Join(order.OrderNames(), ", "))
	}
	if o.Backfill != "" && !slices.Contains(order.Backfills(), o.Backfill) {
		return fmt.Errorf("decide: backfilling %q: want one of %s over the protocol", o.Backfill, strings.Join(order.Backfills(), ", "))
	}
	return nil
}

// decider says what is to be done, by the commands of a session.
type decider interface {
	// extend is called before an event names a job that is new; jobs are those before it, and more.
	extend(jobs []queue.Job)
	// decide hears what happened. more is 0 when no job will be submitted any more.
	decide(now float64, events []cores.Event, more int) error
	// finish is an error when jobs still wait, after the last event.
	finish() error
}

// session is one simulation of which a decision process hears. It is the hdeeprm.Machinery of what decides.
type session struct {
	options ServeOptions
	decider decider
	ground  ground
	known   profiles
	unknown bool // events of types that are not known are expected

	now     float64
	more    int
	over    bool
	jobs    []queue.Job
	ids     []string
	index   map[string]int32
	fate    []queue.Outcome
	events  []cores.Event
	answer  []Event
	count   int
	grouped int
	changes int
}

// talk answers requests until the simulation ends.
func (s *session) talk(ctx context.Context, w *wire, request []byte) error {
	idle := s.options.idle()
	for {
		reply, err := s.reply(request)
		if err != nil {
			return err
		}
		if err := w.send(reply); err != nil {
			return explain(ctx, err, idle, fmt.Sprintf("answer the simulator at %v s", s.now))
		}
		if s.over {
			return s.decider.finish()
		}
		if request, err = w.receive(); err != nil {
			return explain(ctx, err, idle, fmt.Sprintf("hear of the simulator after %v s", s.now))
		}
	}
}

// reply is the answer to a request, both as they are sent.
func (s *session) reply(request []byte) ([]byte, error) {
	if err := s.options.record(request); err != nil {
		return nil, err
	}
	m, err := Parse(request)
	if err != nil {
		return nil, fmt.Errorf("hear of the simulator: %w", peerError("%w", err))
	}
	if s.decider != nil && m.Now < s.now {
		return nil, fmt.Errorf("hear of the simulator: %w", peerError("it goes back in time, from %v s to %v s", s.now, m.Now))
	}
	s.now, s.events, s.answer = m.Now, s.events[:0], nil
	for i := range m.Events {
		if err := s.hear(&m.Events[i]); err != nil {
			return nil, fmt.Errorf("hear of the simulator: %w", peerError("%w", err))
		}
	}
	s.count += len(m.Events)
	if s.decider == nil {
		return nil, fmt.Errorf("hear of the simulator: %w", peerError("its first message does not have %s", SimulationBegins))
	}
	if !s.over {
		s.decider.extend(s.jobs)
		if err := s.decider.decide(s.now, s.events, s.more); err != nil {
			return nil, err
		}
	}
	answer := Message{Now: s.now, Events: s.answer}
	b, err := answer.encode()
	if err == nil {
		err = s.options.record(b)
	}
	return b, err
}

// hear takes in one event.
func (s *session) hear(e *Event) error {
	if s.decider == nil && e.Type != SimulationBegins {
		return fmt.Errorf("%s before %s", e.Type, SimulationBegins)
	}
	if s.over {
		return fmt.Errorf("%s after %s", e.Type, SimulationEnds)
	}
	switch e.Type {
	case SimulationBegins:
		return s.begin(e)
	case SimulationEnds:
		s.over = true
	case JobSubmitted:
		return s.submitted(e)
	case JobCompleted:
		return s.completed(e)
	case JobKilled:
		return s.killed(e)
	case StateChanged:
		s.events = append(s.events, cores.Event{Kind: cores.Changed, Job: -1})
	case RequestedCall:
		s.events = append(s.events, cores.Event{Kind: cores.Woken, Job: -1})
	case Notify:
		return s.notified(e)
	case Answer:
	case Query:
		var d queryData
		if err := e.decode(&d); err != nil {
			return err
		}
		return fmt.Errorf("%s of %s is not supported", e.Type, strings.Join(sortedKeys(d.Requests), ", "))
	default:
		if !s.unknown {
			s.options.warn("an event of type %q at %v s was passed over", e.Type, e.Timestamp)
		}
	}
	return nil
}

func (s *session) begin(e *Event) error {
	if s.decider != nil {
		return fmt.Errorf("%s twice", e.Type)
	}
	var d beginsData
	if err := e.decode(&d); err != nil {
		return err
	}
	var err error
	if s.ground, err = match(&d, s.options.Tree); err != nil {
		return err
	}
	var redis struct{ Enabled bool }
	if raw, ok := d.Config["redis"]; ok {
		_ = (&Event{Data: raw}).decode(&redis)
	}
	if redis.Enabled || d.flag("redis-enabled", "redis_enabled") {
		return fmt.Errorf("jobs are in Redis (redis-enabled), which is not supported")
	}
	s.unknown = d.flag("forward-unknown-events", "forward_unknown_events")
	s.known = newProfiles(&d, s.ground.tree.Reference, &s.options.Talk)
	if s.options.Pairs != nil {
		s.decider, err = newPairs(s)
	} else {
		s.decider, err = newOrdered(s)
	}
	return err
}

func (s *session) submitted(e *Event) error {
	var d submittedData
	if err := e.decode(&d); err != nil {
		return err
	}
	if _, twice := s.index[d.ID]; twice || d.ID == "" {
		return fmt.Errorf("%s at %v s: the job_id %q is there already, or none", e.Type, e.Timestamp, d.ID)
	}
	j, err := s.known.job(&d, e.Timestamp)
	if err != nil {
		return fmt.Errorf("%s at %v s: job %q: %w", e.Type, e.Timestamp, d.ID, err)
	}
	number := int32(len(s.jobs))
	j.ID, j.Name = int(number), d.ID
	s.jobs, s.ids, s.index[d.ID] = append(s.jobs, j), append(s.ids, d.ID), number
	s.fate = append(s.fate, queue.Outcome{State: queue.Waiting, Start: math.NaN(), End: math.NaN()})
	s.events = append(s.events, cores.Event{Kind: cores.Submitted, Job: number})
	return nil
}

func (s *session) completed(e *Event) error {
	var d completedData
	if err := e.decode(&d); err != nil {
		return err
	}
	state := queue.Killed
	if d.State == stateNames[queue.Completed] || d.State == "" {
		state = queue.Completed
	}
	return s.ended(e, d.ID, state, cores.Ended)
}

// killed is the answer to commands that this side never gives; jobs that stopped by it are heard of before, or now.
func (s *session) killed(e *Event) error {
	var d killedData
	if err := e.decode(&d); err != nil {
		return err
	}
	for _, id := range d.IDs {
		if j, ok := s.index[id]; ok && s.fate[j].State == queue.Running {
			if err := s.ended(e, id, queue.Killed, cores.Stopped); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *session) ended(e *Event, id string, state queue.State, kind cores.Kind) error {
	j, ok := s.index[id]
	if !ok || s.fate[j].State != queue.Running {
		return fmt.Errorf("%s at %v s: job %q does not run", e.Type, e.Timestamp, id)
	}
	s.fate[j].State, s.fate[j].End = state, e.Timestamp
	s.events = append(s.events, cores.Event{Kind: kind, Job: j})
	return nil
}

func (s *session) notified(e *Event) error {
	var d notifyData
	if err := e.decode(&d); err != nil {
		return err
	}
	switch d.Type {
	case noMore:
		s.more = 0
	case "no_more_external_event_to_occur":
	case "event_machine_unavailable", "event_machine_available":
		return fmt.Errorf("%s %s: machines that come and go are not supported", e.Type, d.Type)
	default:
		if !s.unknown {
			s.options.warn("%s %q at %v s was passed over", e.Type, d.Type, e.Timestamp)
		}
	}
	return nil
}

// Start has a job executed.
func (s *session) Start(job int32, on []int32) error {
	o := &s.fate[job]
	o.State, o.Start, o.Cores = queue.Running, s.now, slices.Clone(on)
	s.answer = append(s.answer, event(s.now, ExecuteJob, executeData{ID: s.ids[job], Cores: loose(s.ground.format(on))}))
	return nil
}

// SetState has the states of cores set, where the other side knows of states.
func (s *session) SetState(of []int32, state uint8) error {
	if !s.ground.states || len(of) == 0 {
		return nil
	}
	s.grouped, s.changes = s.grouped+1, s.changes+len(of)
	s.answer = append(s.answer, event(s.now, SetState, stateData{loose(s.ground.format(of)), loose('0' + rune(state))}))
	return nil
}

// Reject gives a job up.
func (s *session) Reject(job int32) error {
	s.fate[job].State = queue.Rejected
	s.answer = append(s.answer, event(s.now, RejectJob, jobIDData{ID: s.ids[job]}))
	return nil
}

func (s *session) result() *queue.Result {
	r := &queue.Result{Jobs: s.fate, Procs: s.ground.tree.Cores, Events: s.count, Energy: math.NaN(), Switches: s.changes, GroupedSwitches: s.grouped}
	for i := range r.Jobs {
		r.Jobs[i].Job = &s.jobs[i]
	}
	return r
}

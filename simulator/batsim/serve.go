package batsim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// ServeOptions are the options of a decision process. The zero value is first come, first served on equal processors.
type ServeOptions struct {
	Conversation

	// Order is one of order.Orders, by which jobs start on the lowest free processors; memory and bandwidth are
	// ignored. "" means fcfs. Backfill is none or easy; "" means none.
	Order, Backfill string

	// Pairs, if not nil, selects HDeepRM's process with these settings instead; Agent selects among its actions, nil
	// always the first. Limits are the bounds that normalise observations; a zero value means 1 each, which is
	// suitable for agents that ignore observations.
	Pairs  *hdeeprm.Settings
	Agent  func(observation []float32) int
	Limits hdeeprm.Limits

	// Tree is the machine whose cores the peer simulates. If the resource names consist of a common prefix and the
	// numbers from 0, core i is the resource whose name ends in i; otherwise core i is the i-th resource by number.
	// nil means that each resource is a node of its own, with its power by watt_per_state, and that states are not
	// set.
	Tree *platform.Tree

	// Listening is called with the address of the listener; nil means no call.
	Listening func(net.Addr)
}

// Serve runs a decision process: it listens at an endpoint ("tcp://*:28000"; port 0 selects a free port) and decides
// for the first simulator that connects, until that simulation ends. It returns the outcomes reported by the
// simulator; energy is unknown. On failure the result is partial, or nil if no simulation began.
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
	w, request, err := accept(ctx, listener, &o.Conversation)
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

func (o *ServeOptions) order() string { return cmp.Or(o.Order, "fcfs") }

func (o *ServeOptions) validate() error {
	if o.Pairs != nil {
		if o.Order != "" || o.Backfill != "" && o.Backfill != "none" {
			return fmt.Errorf("decide: either pairs of policies or the order %q with backfilling %q, not both", o.Order, o.Backfill)
		}
		return o.Pairs.Validate()
	}
	if _, err := order.Parse(o.order()); err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	if o.Backfill != "" && !slices.Contains(order.Backfills(), o.Backfill) {
		return fmt.Errorf("decide: backfilling %q: want one of %s over the protocol", o.Backfill, strings.Join(order.Backfills(), ", "))
	}
	return nil
}

// decider makes the decisions, by the commands of a session.
type decider interface {
	// extend is called before an event refers to a new job; jobs are the previous ones and the new ones.
	extend(jobs []order.Job)
	// decide processes events. more is 0 when no further job will be submitted.
	decide(now float64, events []queue.Event, more int) error
	// finish is called after the last event; it returns an error if jobs still wait.
	finish() error
}

// session is one simulation of the peer. It executes the commands of an hdeeprm decider.
type session struct {
	options ServeOptions
	decider decider
	ground  resourceMap
	known   profiles
	unknown bool // events of unknown types are expected

	now     float64
	more    int
	over    bool
	jobs    []order.Job
	ids     []string
	index   map[string]int32
	fate    []queue.Outcome
	events  []queue.Event
	answer  []event
	count   int
	grouped int
	changes int
}

// talk answers requests until the simulation ends.
func (s *session) talk(ctx context.Context, w *zmtpConn, request []byte) error {
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

// reply returns the encoded reply to an encoded request: it parses and processes the events, lets the decider append
// commands, and encodes them. Both messages are recorded. The errors of invalid messages wrap errPeer.
func (s *session) reply(request []byte) ([]byte, error) {
	if err := s.options.record(request); err != nil {
		return nil, err
	}
	m, err := parseMessage(request)
	if err != nil {
		return nil, fmt.Errorf("hear of the simulator: %w", peerError("%w", err))
	}
	if s.decider != nil && m.Now < s.now {
		return nil, fmt.Errorf("hear of the simulator: %w", peerError("it goes back in time, from %v s to %v s", s.now, m.Now))
	}
	s.now, s.events, s.answer = m.Now, s.events[:0], nil
	for i := range m.Events {
		if err := s.handleEvent(&m.Events[i]); err != nil {
			return nil, fmt.Errorf("hear of the simulator: %w", peerError("%w", err))
		}
	}
	s.count += len(m.Events)
	if s.decider == nil {
		return nil, fmt.Errorf("hear of the simulator: %w", peerError("its first message does not have %s", typeSimulationBegins))
	}
	if !s.over {
		s.decider.extend(s.jobs)
		if err := s.decider.decide(s.now, s.events, s.more); err != nil {
			return nil, err
		}
	}
	answer := message{Now: s.now, Events: s.answer}
	b, err := answer.encode()
	if err == nil {
		err = s.options.record(b)
	}
	return b, err
}

// handleEvent processes one event. Before the decider exists, only SIMULATION_BEGINS is valid, and none after
// SIMULATION_ENDS. Events of unknown types are ignored, with a warning unless the simulator announced them.
func (s *session) handleEvent(e *event) error {
	if s.decider == nil && e.Type != typeSimulationBegins {
		return fmt.Errorf("%s before %s", e.Type, typeSimulationBegins)
	}
	if s.over {
		return fmt.Errorf("%s after %s", e.Type, typeSimulationEnds)
	}
	switch e.Type {
	case typeSimulationBegins:
		return s.begin(e)
	case typeSimulationEnds:
		s.over = true
	case typeJobSubmitted:
		return s.submitted(e)
	case typeJobCompleted:
		return s.completed(e)
	case typeJobKilled:
		return s.killed(e)
	case typeStateChanged:
		s.events = append(s.events, queue.Event{Kind: queue.Changed, Job: -1})
	case typeRequestedCall:
		s.events = append(s.events, queue.Event{Kind: queue.Woken, Job: -1})
	case typeNotify:
		return s.notified(e)
	case typeAnswer:
	case typeQuery:
		var d queryData
		if err := e.decode(&d); err != nil {
			return err
		}
		return fmt.Errorf("%s of %s is not supported", e.Type, strings.Join(slices.Sorted(maps.Keys(d.Requests)), ", "))
	default:
		if !s.unknown {
			s.options.warn("an event of type %q at %v s was passed over", e.Type, e.Timestamp)
		}
	}
	return nil
}

// begin processes SIMULATION_BEGINS: it maps the machine, reads the profiles and creates the decider.
func (s *session) begin(e *event) error {
	if s.decider != nil {
		return fmt.Errorf("%s twice", e.Type)
	}
	var d beginsData
	if err := e.decode(&d); err != nil {
		return err
	}
	var err error
	if s.ground, err = mapResources(&d, s.options.Tree); err != nil {
		return err
	}
	var redis struct{ Enabled bool }
	if raw, ok := d.Config["redis"]; ok {
		_ = (&event{Data: raw}).decode(&redis)
	}
	if redis.Enabled || d.flag("redis-enabled", "redis_enabled") {
		return fmt.Errorf("jobs are in Redis (redis-enabled), which is not supported")
	}
	s.unknown = d.flag("forward-unknown-events", "forward_unknown_events")
	s.known = newProfiles(&d, s.ground.tree.Reference, &s.options.Conversation)
	if s.options.Pairs != nil {
		s.decider, err = newPairs(s)
	} else {
		s.decider, err = newOrdered(s)
	}
	return err
}

// submitted adds a job.
func (s *session) submitted(e *event) error {
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
	s.events = append(s.events, queue.Event{Kind: queue.Submitted, Job: number})
	return nil
}

func (s *session) completed(e *event) error {
	var d completedData
	if err := e.decode(&d); err != nil {
		return err
	}
	state := queue.Killed
	if d.State == stateNames[queue.Completed] || d.State == "" {
		state = queue.Completed
	}
	return s.ended(e, d.ID, state, queue.Ended)
}

// killed processes the acknowledgement of kills, a command that this side never sends. Jobs still running are marked
// as killed.
func (s *session) killed(e *event) error {
	var d killedData
	if err := e.decode(&d); err != nil {
		return err
	}
	for _, id := range d.IDs {
		if j, ok := s.index[id]; ok && s.fate[j].State == queue.Running {
			if err := s.ended(e, id, queue.Killed, queue.Stopped); err != nil {
				return err
			}
		}
	}
	return nil
}

// ended records the end of a running job.
func (s *session) ended(e *event, id string, state queue.State, kind queue.Kind) error {
	j, ok := s.index[id]
	if !ok || s.fate[j].State != queue.Running {
		return fmt.Errorf("%s at %v s: job %q does not run", e.Type, e.Timestamp, id)
	}
	s.fate[j].State, s.fate[j].End = state, e.Timestamp
	s.events = append(s.events, queue.Event{Kind: kind, Job: j})
	return nil
}

// notified processes a NOTIFY. Changes of machine availability are not supported.
func (s *session) notified(e *event) error {
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

// Start appends the command that executes a job.
func (s *session) Start(job int32, on []int32) error {
	o := &s.fate[job]
	o.State, o.Start, o.Cores = queue.Running, s.now, slices.Clone(on)
	s.answer = append(s.answer, newEvent(s.now, typeExecuteJob, executeData{ID: s.ids[job], Cores: looseString(s.ground.format(on))}))
	return nil
}

// SetState appends the command that sets the states of cores, if the peer supports states.
func (s *session) SetState(of []int32, state uint8) error {
	if !s.ground.states || len(of) == 0 {
		return nil
	}
	s.grouped, s.changes = s.grouped+1, s.changes+len(of)
	s.answer = append(s.answer, newEvent(s.now, typeSetState, stateData{looseString(s.ground.format(of)), looseString('0' + rune(state))}))
	return nil
}

// Reject appends the command that rejects a job.
func (s *session) Reject(job int32) error {
	s.fate[job].State = queue.Rejected
	s.answer = append(s.answer, newEvent(s.now, typeRejectJob, jobIDData{ID: s.ids[job]}))
	return nil
}

func (s *session) result() *queue.Result {
	r := &queue.Result{Jobs: s.fate, Procs: s.ground.tree.Cores, Events: s.count, Energy: math.NaN(), Switches: s.changes, GroupedSwitches: s.grouped}
	for i := range r.Jobs {
		r.Jobs[i].Job = &s.jobs[i]
	}
	return r
}

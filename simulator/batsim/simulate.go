package batsim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// SimulateOptions are the options of a simulator. The zero value is valid.
type SimulateOptions struct {
	Conversation

	// Name is the name of the workload, which precedes "!" in job names; "" means "w0". Names that contain "!" are
	// not changed.
	Name string
	// ForwardProfiles sends each profile with its jobs instead of all profiles at the beginning.
	ForwardProfiles bool
	// RoundPower rounds the power of a core in each state to 1 mW, as in the platform files that HDeepRM writes for
	// Batsim.
	RoundPower bool
	// Progress is called with the number of ended jobs after each of them; nil means no reports.
	Progress func(done, total int)
}

// Simulate runs a simulator: it connects to a decision process at an endpoint, which may start later, and simulates
// the jobs on the tree by its decisions, as Batsim would. The events of one instant form one message; changed states
// are acknowledged by a further message at the same instant; a decision that takes time (now of the reply is later)
// takes effect at that time.
//
// For a decision process that sets no states, which holds for all but HDeepRM's, the simulator sets them: serving
// cores run at full speed, or at 75 % if the bandwidth of their processor is oversubscribed, and idle cores sleep.
// Memory is then not checked.
//
// The simulation ends when all jobs have ended: later calls requested by CALL_ME_LATER are not made.
//
// Jobs cannot be registered (REGISTER_JOB), and one core runs one job; commands beyond these limits end the
// simulation with an error that names them. On failure the result is partial, or nil if no simulation began. The jobs
// must not be modified.
func Simulate(ctx context.Context, endpoint string, tree *platform.Tree, jobs []order.Job, o SimulateOptions) (*queue.Result, error) {
	h, err := newHost(tree, jobs, o)
	if err != nil {
		return nil, err
	}
	w, err := dial(ctx, endpoint, o.idle())
	if err != nil {
		return nil, err
	}
	defer w.conn.Close()
	stop := context.AfterFunc(ctx, func() { w.conn.Close() })
	defer stop()
	h.ask = func(request []byte) ([]byte, error) {
		doing := fmt.Sprintf("ask the decision process at %v s", h.simulation.Now())
		if err := w.send(request); err != nil {
			return nil, explain(ctx, err, o.idle(), doing)
		}
		reply, err := w.receive()
		if err != nil {
			return nil, explain(ctx, err, o.idle(), doing)
		}
		return reply, nil
	}
	err = h.run()
	return h.simulation.Result(), err
}

// host is one simulation controlled by a decision process.
type host struct {
	options    SimulateOptions
	tree       *platform.Tree
	jobs       []order.Job
	simulation *queue.Simulation
	ask        func(request []byte) (reply []byte, err error)

	ids     []string // by job, with the workload
	index   map[string]int32
	text    []json.RawMessage          // by job
	profile []string                   // by job
	kinds   map[string]json.RawMessage // profiles by name

	// machine determines the states while the peer sets none; it becomes nil when the peer does.
	machine *queue.Machine

	outbox  []event
	held    []event   // commands with a future timestamp
	calls   []float64 // requested times of calls, ascending
	busy    float64   // end of the peer's present decision, s
	changes []stateData
	kills   []killedData
	killed  map[int32]bool
	soon    bool // an event will follow at this instant
	left    int  // jobs that have not ended
	noted   bool // noMore was sent
	last    float64
	still   int // consecutive requests at one instant
}

// maxRequestsPerInstant is the maximum number of requests at one instant; beyond it, the simulation ends with an error.
const maxRequestsPerInstant = 10_000

func newHost(tree *platform.Tree, jobs []order.Job, o SimulateOptions) (*host, error) {
	simulation, err := queue.NewSimulation(tree, jobs)
	if err != nil {
		return nil, err
	}
	if o.RoundPower {
		simulation.RoundPower()
	}
	o.Name = cmp.Or(o.Name, "w0")
	h := &host{options: o, tree: tree, jobs: jobs, simulation: simulation, machine: queue.NewMachine(tree), index: map[string]int32{},
		killed: map[int32]bool{}, left: len(jobs), busy: math.Inf(-1), last: math.Inf(-1)}
	return h, h.describe()
}

// describe prepares the JSON of the jobs and profiles. It encodes the workload as a Batsim file and extracts the
// objects of its jobs, whose IDs it completes by the name of the workload. Job names must be unique and exist in the
// workload.
func (h *host) describe() error {
	w := hdeeprm.FromJobs(h.jobs, h.tree.Cores)
	var b bytes.Buffer
	if err := w.Write(&b, 3); err != nil {
		return err
	}
	var file struct {
		Jobs     []json.RawMessage          `json:"jobs"`
		Profiles map[string]json.RawMessage `json:"profiles"`
	}
	if err := json.Unmarshal(b.Bytes(), &file); err != nil {
		return fmt.Errorf("simulate a workload: %w", err)
	}
	h.kinds = file.Profiles
	place := make(map[string]int, len(w.Jobs))
	for i := range w.Jobs {
		place[w.Jobs[i].ID] = i
	}
	for i := range h.jobs {
		j := &h.jobs[i]
		name := j.Label()
		id := name
		if !strings.Contains(id, "!") {
			id = h.options.Name + "!" + name
		}
		at, ok := place[name]
		if _, twice := h.index[id]; twice || !ok {
			return fmt.Errorf("simulate a workload: job %q is there twice, or not in the workload", name)
		}
		var fields map[string]json.RawMessage
		err := json.Unmarshal(file.Jobs[at], &fields)
		if err == nil {
			if fields["id"], err = json.Marshal(id); err == nil { // Batsim writes the full name here too
				file.Jobs[at], err = json.Marshal(fields)
			}
		}
		if err != nil {
			return fmt.Errorf("simulate a workload: job %q: %w", name, err)
		}
		h.ids, h.index[id] = append(h.ids, id), int32(i)
		h.text, h.profile = append(h.text, file.Jobs[at]), append(h.profile, w.Jobs[at].Profile)
	}
	return nil
}

// run is the main loop: it advances the simulation, executes due commands, and exchanges messages when there are
// events and the peer is not busy. It ends by SIMULATION_ENDS unless the conversation itself failed.
func (h *host) run() error {
	s := h.simulation
	h.enqueue(h.begins())
	h.announceNoMoreJobs()
	err := h.converse()
	for err == nil && (h.left > 0 || h.soon || len(h.outbox) > 0) && s.Next() {
		h.soon = false
		h.collectEvents()
		if err = h.executeDue(); err == nil && s.Now() >= h.busy && len(h.outbox) > 0 {
			err = h.converse()
		}
		if err == nil {
			err = h.applyStates()
		}
	}
	if err == nil {
		if err = s.Err(); err == nil && h.left > 0 {
			err = peerError("nothing happens any more, but %d jobs have not ended: the decision process leaves them waiting", h.left)
		}
		if err != nil {
			err = fmt.Errorf("simulate at %v s: %w", s.Now(), err)
		}
	}
	if err != nil && (errors.Is(err, errConversation) || !errors.Is(err, errPeer) && s.Err() == nil) {
		return err // the peer cannot be reached
	}
	h.outbox = nil
	h.enqueue(newEvent(s.Now(), typeSimulationEnds, emptyData{}))
	if _, last := h.exchange(); err == nil {
		err = last
	}
	return err
}

// say appends an event to the next message.
func (h *host) enqueue(e event) { h.outbox = append(h.outbox, e) }

// announceNoMoreJobs announces, once, that no further job will be submitted.
func (h *host) announceNoMoreJobs() {
	if !h.noted && h.simulation.Arrivals() == 0 {
		h.noted = true
		h.enqueue(newEvent(h.simulation.Now(), typeNotify, notifyData{noMore}))
	}
}

// begins returns the SIMULATION_BEGINS event: the resources with their powers by state, the configuration, and the
// profiles unless they are forwarded with the jobs.
func (h *host) begins() event {
	d := map[string]any{
		"nb_resources": h.tree.Cores, "nb_compute_resources": h.tree.Cores, "nb_storage_resources": 0,
		"allow_compute_sharing": false, "allow_storage_sharing": false,
		"allow_time_sharing_on_compute": false, "allow_time_sharing_on_storage": false,
		"config": map[string]any{
			"redis-enabled": false, "redis-hostname": "127.0.0.1", "redis-port": 6379, "redis-prefix": "default",
			"profiles-forwarded-on-submission": h.options.ForwardProfiles, "dynamic-jobs-enabled": false, "dynamic-jobs-acknowledged": false,
			"profile-reuse-enabled": false, "forward-unknown-events": false,
		},
		"storage_resources": []any{},
		"workloads":         map[string]string{h.options.Name: ""},
		"profiles":          map[string]any{h.options.Name: h.kinds},
	}
	if h.options.ForwardProfiles {
		d["profiles"] = map[string]any{h.options.Name: map[string]any{}}
	}
	list := make([]resource, h.tree.Cores)
	for i := range list {
		p := h.tree.Processors[h.tree.ProcessorOf[i]]
		// watt_per_state lists idle and full power per state, here equal: the four states of package cores.
		watts := func(share float64) string {
			w := strconv.FormatFloat(share*p.Watts, 'f', 3, 64)
			return w + ":" + w
		}
		list[i] = resource{ID: int32(i), Name: "cor_" + strconv.Itoa(i), State: "idle",
			Properties: map[string]any{"watt_per_state": strings.Join([]string{watts(1), watts(1), watts(0.25), watts(0.05)}, ", ")}}
	}
	d["compute_resources"] = list
	return newEvent(h.simulation.Now(), typeSimulationBegins, d)
}

// collectEvents appends the events of this instant to the next message: ends, submissions and state changes from the
// simulation, then acknowledgements of kills, due calls, and the notice that all jobs were submitted.
func (h *host) collectEvents() {
	s := h.simulation
	now := s.Now()
	for _, e := range s.Events() {
		switch e.Kind {
		case queue.Ended, queue.Stopped:
			h.ended(e)
		case queue.Submitted:
			d := submittedData{ID: h.ids[e.Job], Job: h.text[e.Job]}
			if h.options.ForwardProfiles {
				d.Profile = h.kinds[h.profile[e.Job]]
			}
			h.enqueue(newEvent(now, typeJobSubmitted, d))
		case queue.Changed:
			for _, d := range h.changes {
				h.enqueue(newEvent(now, typeStateChanged, d))
			}
			h.changes = h.changes[:0]
		}
	}
	for _, d := range h.kills {
		h.enqueue(newEvent(now, typeJobKilled, d))
	}
	h.kills = h.kills[:0]
	for len(h.calls) > 0 && h.calls[0] <= now {
		h.calls = h.calls[1:]
		h.enqueue(newEvent(now, typeRequestedCall, emptyData{}))
	}
	h.announceNoMoreJobs()
}

// ended appends the completion of a job and releases its cores.
func (h *host) ended(e queue.Event) {
	o := h.simulation.Outcome(e.Job)
	d := completedData{ID: h.ids[e.Job], State: stateNames[o.State], Cores: hdeeprm.FormatIntervals(o.Cores)}
	if h.killed[e.Job] {
		d.State = stateKilled
		delete(h.killed, e.Job)
	}
	if o.State == queue.Killed {
		d.ReturnCode = -1
	}
	h.left--
	if h.machine != nil {
		bare := h.jobs[e.Job]
		bare.Memory = 0
		h.machine.Release(&bare, o.Cores)
	}
	h.enqueue(newEvent(h.simulation.Now(), typeJobCompleted, d))
	if h.options.Progress != nil {
		h.options.Progress(len(h.jobs)-h.left, len(h.jobs))
	}
}

// applyStates sets the states, while the peer does not.
func (h *host) applyStates() (err error) {
	if h.machine == nil {
		return nil
	}
	h.machine.Changes(func(state uint8, of []int32) {
		if e := h.simulation.SetState(of, state); e != nil && err == nil {
			err = e
		}
	})
	return err
}

// errConversation is matched by errors after which no message can be sent.
var errConversation = errors.New("conversation")

// conversationError is an error of the conversation; it matches errConversation.
type conversationError struct{ error }

func (conversationError) Is(target error) bool { return target == errConversation }
func (b conversationError) Unwrap() error      { return b.error }

// exchange sends the outbox and receives the reply. A reply in the past is an error.
func (h *host) exchange() (*message, error) {
	now := h.simulation.Now()
	request := message{Now: now, Events: h.outbox}
	b, err := request.encode()
	h.outbox = h.outbox[:0]
	if err == nil {
		err = h.options.record(b)
	}
	if err != nil {
		return nil, conversationError{err}
	}
	reply, err := h.ask(b)
	if err != nil {
		return nil, conversationError{err}
	}
	if err := h.options.record(reply); err != nil {
		return nil, conversationError{err}
	}
	m, err := parseMessage(reply)
	switch {
	case err != nil:
	case m.Now < now:
		err = fmt.Errorf("it answers at %v s: it goes back in time", m.Now)
	case len(m.Events) > 0 && m.Events[0].Timestamp < now:
		err = fmt.Errorf("%s is of %v s: it goes back in time", m.Events[0].Type, m.Events[0].Timestamp)
	}
	if err != nil {
		return nil, fmt.Errorf("hear of the decision process at %v s: %w", now, peerError("%w", err))
	}
	return m, nil
}

// converse exchanges messages and executes the commands of the reply; those with a future timestamp are held and
// executed when due.
func (h *host) converse() error {
	now := h.simulation.Now()
	// Count the requests at one instant to detect a peer that never lets time advance.
	if h.still++; now > h.last {
		h.last, h.still = now, 0
	}
	if h.still > maxRequestsPerInstant {
		return fmt.Errorf("simulate at %v s: %w", now, peerError("time stands still since %d requests", h.still))
	}
	m, err := h.exchange()
	if err != nil {
		return err
	}
	for _, e := range m.Events {
		if e.Type == typeSetState {
			h.machine = nil
		}
		if e.Timestamp > now {
			if err := h.simulation.Wake(e.Timestamp); err != nil {
				return err
			}
		}
	}
	h.held = append(h.held, m.Events...)
	if m.Now > now {
		h.busy = m.Now
		if err := h.simulation.Wake(m.Now); err != nil {
			return err
		}
	}
	return h.executeDue()
}

// executeDue executes the held commands that are due.
func (h *host) executeDue() error {
	done := 0
	for ; done < len(h.held) && h.held[done].Timestamp <= h.simulation.Now(); done++ {
		e := &h.held[done]
		if err := h.command(e); err != nil {
			return fmt.Errorf("%s at %v s: %w", e.Type, e.Timestamp, peerError("%w", err))
		}
	}
	h.held = append(h.held[:0], h.held[done:]...)
	return nil
}

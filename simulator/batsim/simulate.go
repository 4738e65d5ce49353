package batsim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
	"trainopt/simulator/workload/batsim"
)

// SimulateOptions say how a simulator presents itself. The zero value is of use.
type SimulateOptions struct {
	Talk

	// Workload is that of which the jobs were made (batsim.Workload.Convert), so that the other side sees all its fields; nil is
	// batsim.FromJobs of them. A job's name there is its Name, else its ID.
	Workload *batsim.Workload
	// Name is that of the workload, before the "!" in the names of jobs; "" is "w0". Jobs that have a "!" in their name keep it.
	Name string
	// ForwardProfiles sends the profile of each job with it, not all of them at the beginning.
	ForwardProfiles bool
	// ForwardUnknown passes over commands of types that are not known, with a warning, where else they end the simulation.
	ForwardUnknown bool
	// RoundPower rounds the power of a core in each state to 1 mW, as in the platform files that HDeepRM writes for Batsim.
	RoundPower bool
	// Metadata is told what SET_JOB_METADATA attaches to a job; nil: nobody is.
	Metadata func(job *queue.Job, text string)
	// Progress is told after each message how many jobs have ended; nil: nobody is.
	Progress func(done, total int)
}

// Simulate is a simulator: it connects to a decision process at an endpoint, which may come a little later, and simulates the jobs on
// the tree as that decides, as Batsim would: what happens at one instant is one message, states that were set are acknowledged by
// another one at the same instant, and a decision that takes time (now of the reply is later) takes effect then.
//
// A decision process that sets no states, like all but HDeepRM's, has them set for it: cores that serve are at full speed or, where
// more bandwidth is asked of their processor than it has, at 75 %, and idle ones sleep. Memory is then not looked at.
//
// The simulation is over when all jobs have ended: calls asked for later than that (CALL_ME_LATER) are not made.
//
// Jobs cannot be registered (REGISTER_JOB), and one core runs one job; commands beyond that end the simulation in an error that names
// them. When it fails, the result is as far as it went, nil when nothing began. The jobs must stay as they are.
func Simulate(ctx context.Context, endpoint string, tree *platform.Tree, jobs []queue.Job, o SimulateOptions) (*queue.Result, error) {
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

// host is one simulation that is driven from elsewhere.
type host struct {
	options    SimulateOptions
	tree       *platform.Tree
	jobs       []queue.Job
	simulation *cores.Simulation
	ask        func(request []byte) (reply []byte, err error)

	ids     []string // of each job, with its workload
	index   map[string]int32
	text    []json.RawMessage          // of each job
	profile []string                   // of each job
	kinds   map[string]json.RawMessage // profiles

	// machine sets the states while the other side sets none; nil from when it does.
	machine *cores.Machine

	outbox  []Event
	held    []Event   // commands of a time that has not come
	calls   []float64 // that were asked for, ascending
	busy    float64   // until when the other side decides
	changes []stateData
	kills   []killedData
	killed  map[int32]bool
	soon    bool // something will happen at this very instant
	left    int  // jobs that have not ended
	noted   bool // that no job will come any more
	last    float64
	still   int // requests in a row at one instant
}

// patience is after how many requests at one instant a decision process is given up.
const patience = 10_000

func newHost(tree *platform.Tree, jobs []queue.Job, o SimulateOptions) (*host, error) {
	simulation, err := cores.NewSimulation(tree, jobs)
	if err != nil {
		return nil, err
	}
	if o.RoundPower {
		simulation.RoundPower()
	}
	if o.Name == "" {
		o.Name = "w0"
	}
	h := &host{options: o, tree: tree, jobs: jobs, simulation: simulation, machine: cores.NewMachine(tree), index: map[string]int32{},
		killed: map[int32]bool{}, left: len(jobs), busy: math.Inf(-1), last: math.Inf(-1)}
	return h, h.describe()
}

// describe is what is said of the jobs.
func (h *host) describe() error {
	w := h.options.Workload
	if w == nil {
		w = batsim.FromJobs(h.jobs, h.tree.Cores)
	}
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
		name := j.Name
		if name == "" {
			name = strconv.Itoa(j.ID)
		}
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
			if fields["id"], err = json.Marshal(id); err == nil { // Batsim writes the whole name there too
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

// run is the whole conversation.
func (h *host) run() error {
	s := h.simulation
	h.say(h.begins())
	h.note()
	err := h.converse()
	for err == nil && (h.left > 0 || h.soon || len(h.outbox) > 0) && s.Next() {
		h.soon = false
		h.hear()
		if err = h.perform(); err == nil && s.Now() >= h.busy && len(h.outbox) > 0 {
			err = h.converse()
		}
		if err == nil {
			err = h.pace()
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
	if err != nil && (errors.Is(err, errConversation) || !errors.Is(err, ErrPeer) && s.Err() == nil) {
		return err // nobody is there to be told
	}
	h.outbox = nil
	h.say(event(s.Now(), SimulationEnds, nothing{}))
	if last := h.farewell(); err == nil {
		err = last
	}
	return err
}

// say has an event in the next message.
func (h *host) say(e Event) { h.outbox = append(h.outbox, e) }

// note says once that no job will be submitted any more.
func (h *host) note() {
	if !h.noted && h.simulation.Arrivals() == 0 {
		h.noted = true
		h.say(event(h.simulation.Now(), Notify, notifyData{noMore}))
	}
}

// begins is the first event.
func (h *host) begins() Event {
	d := map[string]any{
		"nb_resources": h.tree.Cores, "nb_compute_resources": h.tree.Cores, "nb_storage_resources": 0,
		"allow_compute_sharing": false, "allow_storage_sharing": false,
		"allow_time_sharing_on_compute": false, "allow_time_sharing_on_storage": false,
		"config": map[string]any{
			"redis-enabled": false, "redis-hostname": "127.0.0.1", "redis-port": 6379, "redis-prefix": "default",
			"profiles-forwarded-on-submission": h.options.ForwardProfiles, "dynamic-jobs-enabled": false, "dynamic-jobs-acknowledged": false,
			"profile-reuse-enabled": false, "forward-unknown-events": h.options.ForwardUnknown,
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
		watts := func(share float64) string {
			w := strconv.FormatFloat(share*p.Watts, 'f', 3, 64)
			return w + ":" + w
		}
		list[i] = resource{ID: int32(i), Name: "cor_" + strconv.Itoa(i), State: "idle",
			Properties: map[string]any{"watt_per_state": strings.Join([]string{watts(1), watts(1), watts(0.25), watts(0.05)}, ", ")}}
	}
	d["compute_resources"] = list
	return event(h.simulation.Now(), SimulationBegins, d)
}

// hear puts what happened at this instant into the next message.
func (h *host) hear() {
	s := h.simulation
	now := s.Now()
	for _, e := range s.Events() {
		switch e.Kind {
		case cores.Ended, cores.Stopped:
			h.ended(e)
		case cores.Submitted:
			d := submittedData{ID: h.ids[e.Job], Job: h.text[e.Job]}
			if h.options.ForwardProfiles {
				d.Profile = h.kinds[h.profile[e.Job]]
			}
			h.say(event(now, JobSubmitted, d))
		case cores.Changed:
			for _, d := range h.changes {
				h.say(event(now, StateChanged, d))
			}
			h.changes = h.changes[:0]
		}
	}
	for _, d := range h.kills {
		h.say(event(now, JobKilled, d))
	}
	h.kills = h.kills[:0]
	for len(h.calls) > 0 && h.calls[0] <= now {
		h.calls = h.calls[1:]
		h.say(event(now, RequestedCall, nothing{}))
	}
	h.note()
}

func (h *host) ended(e cores.Event) {
	o := h.simulation.Outcome(e.Job)
	d := completedData{ID: h.ids[e.Job], State: stateNames[o.State], Cores: batsim.FormatIntervals(o.Cores)}
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
	h.say(event(h.simulation.Now(), JobCompleted, d))
	if h.options.Progress != nil {
		h.options.Progress(len(h.jobs)-h.left, len(h.jobs))
	}
}

// pace sets the states that the other side does not set.
func (h *host) pace() (err error) {
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

// errConversation is in errors after which nothing can be said any more.
var errConversation = errors.New("conversation")

type broken struct{ error }

func (broken) Is(target error) bool { return target == errConversation }
func (b broken) Unwrap() error      { return b.error }

// exchange sends what is in the outbox, and reads the reply.
func (h *host) exchange() (*Message, error) {
	now := h.simulation.Now()
	request := Message{Now: now, Events: h.outbox}
	b, err := request.encode()
	h.outbox = h.outbox[:0]
	if err == nil {
		err = h.options.record(b)
	}
	if err != nil {
		return nil, broken{err}
	}
	reply, err := h.ask(b)
	if err != nil {
		return nil, broken{err}
	}
	if err := h.options.record(reply); err != nil {
		return nil, broken{err}
	}
	m, err := Parse(reply)
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

// converse asks, and does what the answer says, now or when its time comes.
func (h *host) converse() error {
	now := h.simulation.Now()
	if h.still++; now > h.last {
		h.last, h.still = now, 0
	}
	if h.still > patience {
		return fmt.Errorf("simulate at %v s: %w", now, peerError("time stands still since %d requests", h.still))
	}
	m, err := h.exchange()
	if err != nil {
		return err
	}
	for _, e := range m.Events {
		if e.Type == SetState {
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
	return h.perform()
}

// farewell says that the simulation is over.
func (h *host) farewell() error {
	_, err := h.exchange()
	return err
}

// perform does the commands whose time has come.
func (h *host) perform() error {
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

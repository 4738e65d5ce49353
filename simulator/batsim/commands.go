package batsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue"
)

// commands is the registry of the commands of a decision process, by event type.
var commands = map[string]func(*host, *event) error{
	typeExecuteJob:      with((*host).execute),
	typeRejectJob:       with((*host).reject),
	typeKillJob:         with((*host).kill),
	typeCallMeLater:     with((*host).callLater),
	typeSetState:        with((*host).setState),
	typeSetJobMetadata:  with((*host).attach),
	typeChangeJobState:  with((*host).changeState),
	typeQuery:           with((*host).answer),
	typeNotify:          (*host).notified,
	typeAnswer:          func(*host, *event) error { return nil }, // no query was sent
	typeRegisterJob:     func(*host, *event) error { return errDynamic },
	typeRegisterProfile: func(*host, *event) error { return errDynamic },
}

var errDynamic = errors.New("jobs cannot be registered here, as dynamic-jobs-enabled said")

// command executes one command. Unknown types are an error.
func (h *host) command(e *event) error {
	do, ok := commands[e.Type]
	if !ok {
		return errors.New("there is no such command")
	}
	return do(h, e)
}

// with adapts a command to the event from whose data it takes its arguments.
func with[D any](do func(*host, *D) error) func(*host, *event) error {
	return func(h *host, e *event) error {
		var d D
		if err := e.decode(&d); err != nil {
			return err
		}
		return do(h, &d)
	}
}

// job returns the index of the job with the given ID, with or without the name of the workload.
func (h *host) job(id string) (int32, error) {
	if j, ok := h.index[id]; ok {
		return j, nil
	}
	if j, ok := h.index[h.options.Name+"!"+id]; ok {
		return j, nil
	}
	return 0, fmt.Errorf("there is no job %q", id)
}

// execute starts a job on the given resources. While the peer sets no states, the job is also placed on machine,
// without its memory, so that pace can set them.
func (h *host) execute(d *executeData) error {
	j, err := h.job(d.ID)
	if err != nil {
		return err
	}
	switch {
	case len(d.Additional) > 0:
		return errors.New("additional_io_job is not supported")
	case len(d.StorageMapping) > 0:
		return errors.New("storage_mapping is not supported")
	}
	for rank, where := range d.Mapping {
		if rank != string(where) {
			return errors.New("a mapping that puts several ranks on one resource, or in another order, is not supported")
		}
	}
	on, err := hdeeprm.ParseIntervals(string(d.Cores))
	if err != nil {
		return err
	}
	if err := h.simulation.Start(j, on); err != nil {
		return err
	}
	if h.machine == nil {
		return nil
	}
	bare := h.jobs[j]
	bare.Memory = 0
	if _, fit := h.machine.TryPlace(j, &bare, &fixedChooser{cores: on}, nil); fit != queue.Fits {
		return fmt.Errorf("job %q does not fit", d.ID) // unreachable: its cores are free
	}
	return nil
}

// fixedChooser is a chooser that takes the given cores.
type fixedChooser struct{ cores []int32 }

func (t *fixedChooser) Start(*queue.Machine, *order.Job) {}

func (t *fixedChooser) Next(*queue.Machine, *order.Job, int) (int32, int) {
	if len(t.cores) == 0 {
		return -1, 0
	}
	c := t.cores[0]
	t.cores = t.cores[1:]
	return c, 1
}

func (h *host) reject(d *jobIDData) error {
	j, err := h.job(d.ID)
	if err != nil {
		return err
	}
	if err := h.simulation.Reject(j); err != nil {
		return err
	}
	h.left--
	return nil
}

// kill stops jobs and queues one acknowledgement with their progress. Jobs that have ended already are acknowledged
// too; waiting and rejected ones are an error.
func (h *host) kill(d *killedData) error {
	ack := killedData{IDs: d.IDs, Progress: map[string]progress{}}
	for _, id := range d.IDs {
		j, err := h.job(id)
		if err != nil {
			return err
		}
		switch h.simulation.Outcome(j).State {
		case queue.Running:
			ack.Progress[h.ids[j]] = progress{h.profile[j], 1 - h.simulation.Left(j)}
			if err := h.simulation.Kill(j); err != nil {
				return err
			}
			h.killed[j] = true
		case queue.Waiting, queue.Rejected:
			return fmt.Errorf("job %q was never executed", id)
		}
	}
	h.kills = append(h.kills, ack)
	return h.stepAgain()
}

// stepAgain schedules a further step at this instant, so that the outbox is sent.
func (h *host) stepAgain() error {
	h.soon = true
	return h.simulation.Wake(h.simulation.Now())
}

// callLater schedules a REQUESTED_CALL; times in the past are an error.
func (h *host) callLater(d *callData) error {
	if d.At == nil {
		return errors.New("want a timestamp in its data")
	}
	at := *d.At
	if at < h.simulation.Now() || math.IsInf(at, 1) {
		return fmt.Errorf("it asks for a call at %v s, which is over", at)
	}
	i, _ := slices.BinarySearch(h.calls, at)
	h.calls = slices.Insert(h.calls, i, at)
	return h.simulation.Wake(at)
}

// setState sets the states of resources; the acknowledgement repeats the set and the state in a normalised form.
func (h *host) setState(d *stateData) error {
	of, err := hdeeprm.ParseIntervals(string(d.Resources))
	if err != nil {
		return err
	}
	state, err := strconv.ParseUint(string(d.State), 10, 8)
	if err != nil {
		return fmt.Errorf("state %q: want a number", d.State)
	}
	if err := h.simulation.SetState(of, uint8(state)); err != nil {
		return err
	}
	d.Resources, d.State = looseString(hdeeprm.FormatIntervals(of)), looseString(strconv.FormatUint(state, 10))
	h.changes = append(h.changes, *d)
	if len(of) == 0 { // the simulation produces no event, but an acknowledgement is due
		return h.stepAgain()
	}
	h.soon = true
	return nil
}

// attach accepts metadata of a job, which a simulation has no use for.
func (h *host) attach(d *jobIDData) error {
	_, err := h.job(d.ID)
	return err
}

// changeState supports the transitions that other commands also perform: rejection and kill.
func (h *host) changeState(d *jobIDData) error {
	j, err := h.job(d.ID)
	if err != nil {
		return err
	}
	switch was := h.simulation.Outcome(j).State; {
	case d.State == stateNames[was]:
		return nil
	case d.State == stateNames[queue.Rejected] && was == queue.Waiting:
		return h.reject(d)
	case d.State == stateKilled && was == queue.Running:
		h.killed[j], h.soon = true, true
		return h.simulation.Kill(j)
	default:
		return fmt.Errorf("job %q is %s: it cannot become %q; only SUBMITTED to REJECTED and RUNNING to %s can be", d.ID, stateNames[was], d.State, stateKilled)
	}
}

// answer responds to a QUERY; only consumed_energy is supported.
func (h *host) answer(d *queryData) error {
	answers := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(d.Requests)) {
		if name != "consumed_energy" {
			return fmt.Errorf("there is no answer to %q, only to consumed_energy", name)
		}
		answers[name] = strconv.AppendFloat(nil, h.simulation.Energy(), 'g', -1, 64)
	}
	h.enqueue(newEvent(h.simulation.Now(), typeAnswer, answers))
	return h.stepAgain()
}

// notified accepts the end of registrations, and ignores other notices with a warning.
func (h *host) notified(e *event) error {
	var d notifyData
	if err := e.decode(&d); err != nil {
		return err
	}
	if d.Type != "registration_finished" && d.Type != "continue_registration" {
		h.options.warn("%s %q at %v s was passed over", e.Type, d.Type, e.Timestamp)
	}
	return nil
}

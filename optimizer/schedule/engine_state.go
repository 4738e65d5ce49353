package schedule

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// savedEngine is the form of an engine in State. Times that may be infinite are pointers; nil is infinite.
type savedEngine struct {
	Now        float64         `json:"now"`
	Decided    *float64        `json:"decided"`
	RoundStart float64         `json:"round_start"`
	RoundEnd   *float64        `json:"round_end"`
	Changed    bool            `json:"changed"`
	Arrived    bool            `json:"arrived"`
	Shared     bool            `json:"shared"`
	Leases     Leases          `json:"leases"`
	Round      int             `json:"round"`
	Jobs       []savedJob      `json:"jobs"`
	Runnables  []savedRunnable `json:"runnables"`
	Running    []int           `json:"running"` // indices into Runnables, in order of their starts
	Pending    int             `json:"pending,omitempty"`
	Until      *float64        `json:"pending_until,omitempty"`
	Urgent     bool            `json:"urgent,omitempty"`
	Unassigned bool            `json:"unassigned,omitempty"`
}

type savedJob struct {
	Number  int     `json:"number"`
	Last    slot    `json:"last"`
	Stopped float64 `json:"stopped"`
	Started bool    `json:"started"`
	Ended   bool    `json:"ended,omitempty"`
}

type savedRunnable struct {
	A       int       `json:"a"`
	B       int       `json:"b"` // -1: none
	GPUs    int       `json:"gpus"`
	Slot    slot      `json:"slot"`
	Spread  bool      `json:"spread,omitempty"`
	Shares  []float64 `json:"shares"`
	Deficit []float64 `json:"deficit"`
	Counted int       `json:"counted"`
	Asked   bool      `json:"asked,omitempty"`
	Sized   bool      `json:"sized,omitempty"`
	Refused *refusal  `json:"refused,omitempty"`
}

// refusal is the time since which a runnable was chosen but fitted on no server, and the last such type.
type refusal struct {
	Since float64 `json:"since"`
	On    int     `json:"on"`
}

// State encodes the state of the engine between two calls. Its options, and the exported fields of its jobs, are not
// part of it. The world must not be an Updater, whose policy decides from earlier decisions.
func (e *Engine) State() ([]byte, error) {
	finite := func(v float64) *float64 {
		if math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	s := savedEngine{Now: e.now, Decided: finite(e.decided), RoundStart: e.roundStart, RoundEnd: finite(e.roundEnd), Changed: e.changed,
		Arrived: e.arrived, Shared: e.shared, Leases: e.leases, Round: e.chooser.round,
		Pending: e.pending, Until: finite(e.pendingUntil), Urgent: e.urgent, Unassigned: e.unassigned}
	for _, j := range e.jobs {
		s.Jobs = append(s.Jobs, savedJob{j.Number, j.last, j.stopped, j.started, j.ended})
	}
	index := map[*Runnable]int{}
	for i, r := range e.list {
		index[r] = i
		v := savedRunnable{r.A.Number, numberOf(r.B), r.GPUs, r.slot, r.Spread, r.shares, r.deficit, r.counted, r.asked, r.sized, nil}
		if r.refusedOn >= 0 {
			v.Refused = &refusal{r.refused, r.refusedOn}
		}
		s.Runnables = append(s.Runnables, v)
	}
	for _, r := range e.running.all() {
		s.Running = append(s.Running, index[r])
	}
	return json.Marshal(s)
}

// Restore replaces the state of a new engine with the same device types. A lease on devices that are absent, or no longer
// exist, since a type has fewer, is dropped. job returns the job of a number, which State contained; nil is an error.
func (e *Engine) Restore(state []byte, job func(number int) *ActiveJob) error {
	var s savedEngine
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("restore round engine: %w", err)
	}
	infinite := func(v *float64, otherwise float64) float64 {
		if v == nil {
			return otherwise
		}
		return *v
	}
	e.now, e.decided, e.roundStart, e.roundEnd = s.Now, infinite(s.Decided, math.Inf(-1)), s.RoundStart, infinite(s.RoundEnd, math.Inf(1))
	e.changed, e.arrived, e.shared, e.leases, e.chooser.round = s.Changed, s.Arrived, s.Shared, s.Leases, s.Round
	e.pending, e.pendingUntil, e.urgent, e.unassigned = s.Pending, infinite(s.Until, math.Inf(1)), s.Urgent, s.Unassigned
	jobs := map[int]*ActiveJob{}
	for _, v := range s.Jobs {
		j := job(v.Number)
		if j == nil || len(j.Rate) != len(e.Devices) {
			return fmt.Errorf("restore round engine: job %d is unknown, or has rates for other devices", v.Number)
		}
		if !e.numbers(v.Last) {
			v.Last = slot{Device: -1}
		}
		j.last, j.stopped, j.started, j.ended = v.Last, v.Stopped, v.Started, v.Ended
		jobs[v.Number] = j
		e.jobs = append(e.jobs, j)
		if e.active++; v.Ended {
			e.active--
			e.gone++
		}
	}
	for _, v := range s.Runnables {
		if err := e.restoreRunnable(v, jobs); err != nil {
			return fmt.Errorf("restore round engine: %w", err)
		}
	}
	for _, i := range s.Running {
		if i < 0 || i >= len(e.list) || s.Runnables[i].Slot.Device < 0 {
			return fmt.Errorf("restore round engine: lease %d of %d is invalid", i, len(e.list))
		}
		if e.list[i].Device >= 0 {
			e.running.add(e.list[i])
		}
	}
	return nil
}

// numbers reports whether all devices of a slot exist, be they absent; true for no devices.
func (e *Engine) numbers(s slot) bool {
	return s.Device < 0 || s.Device < len(e.types) && !slices.ContainsFunc(s.Where, func(g int32) bool { return g < 0 || int(g) >= len(e.types[s.Device].taken) })
}

func (e *Engine) restoreRunnable(v savedRunnable, jobs map[int]*ActiveJob) error {
	types := len(e.Devices)
	a, b := jobs[v.A], jobs[v.B]
	if a == nil || v.B >= 0 && b == nil || len(v.Shares) != types || len(v.Deficit) != types || v.Slot.Device >= types {
		return fmt.Errorf("lease of jobs %d and %d: unknown jobs or devices", v.A, v.B)
	}
	r := e.runnable(a, b)
	r.GPUs, r.Spread, r.counted, r.asked, r.sized = v.GPUs, v.Spread, v.Counted, v.Asked, v.Sized
	if v.Refused != nil {
		r.refused, r.refusedOn = v.Refused.Since, v.Refused.On
	}
	copy(r.shares, v.Shares)
	copy(r.deficit, v.Deficit)
	if r.sized {
		r.RateA = make([]float64, types)
		e.rate(r)
		r.best = e.bestRate(r)
	}
	if r.slot = v.Slot; r.Device < 0 {
		return nil
	}
	if known := e.numbers(r.slot); !known || slices.ContainsFunc(r.Where, func(g int32) bool { return e.types[r.Device].absent[g] }) {
		for _, j := range []*ActiveJob{a, b} {
			if known && j != nil { // once they are present, it continues there if they are free
				j.last = slot{r.Device, slices.Clone(r.Where)}
			}
		}
		r.slot = slot{Device: -1}
		return nil
	}
	for _, g := range r.Where {
		free := &e.types[r.Device]
		if free.taken[g] {
			return fmt.Errorf("lease of jobs %d and %d: device %d of type %s has two leases", v.A, v.B, g, e.Devices[r.Device].Name)
		}
		free.take(int(g))
	}
	a.runs = r
	if b != nil {
		b.runs = r
	}
	return nil
}

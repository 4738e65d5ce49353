package rlscheduler

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"trainopt/internal/regular"
	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/workload/swf"
)

// Trace is a workload as RLScheduler loads it.
type Trace struct {
	Jobs  []order.Job // by number; Submit is the trace's own time, which the scores F1 to F4 contain
	Procs int         // MaxProcs of the header, or MaxNodes
	Nodes int         // MaxNodes, or MaxProcs; jobs have nodes whole
}

// Load reads a trace in the Standard Workload Format, plain or compressed.
func Load(path string) (*Trace, error) {
	f, err := regular.Open(path, regular.Data)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	return t, nil
}

// Read is Load from a stream. RLScheduler takes nearly everything: processors are the larger of those requested and allocated, a
// requested time of −1 is the run time, a negative run time is 10 s; jobs of no run time are left out, and here also what has no
// processors or fits no float. Jobs larger than the machine are an error, for its simulator would wait for ever.
func Read(r io.Reader) (*Trace, error) {
	in, err := swf.NewReader(r)
	if err != nil {
		return nil, err
	}
	t := new(Trace)
	var rec swf.Record
	for {
		err := in.Read(&rec)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if j, ok := job(&rec); ok {
			t.Jobs = append(t.Jobs, j)
		}
	}
	if err := t.size(in.Header()); err != nil {
		return nil, err
	}
	slices.SortStableFunc(t.Jobs, func(a, b order.Job) int { return a.ID - b.ID })
	for i := range t.Jobs {
		if j := &t.Jobs[i]; j.Procs > t.Procs {
			return nil, fmt.Errorf("job %d wants %d processors of %d", j.ID, j.Procs, t.Procs)
		}
	}
	return t, nil
}

func job(rec *swf.Record) (order.Job, bool) {
	run, request, procs := rec[swf.Run], rec[swf.RequestedTime], rec.Processors()
	if run < 0 {
		run = 10
	}
	if request == -1 {
		request = run
	}
	if run == 0 || !(procs >= 1 && procs <= math.MaxInt32) || math.Abs(rec[swf.Number]) > 1<<53 {
		return order.Job{}, false
	}
	memory := rec[swf.RequestedMemory]
	return order.Job{
		ID: int(rec[swf.Number]), Submit: rec[swf.Submit], Procs: int(procs), Run: run, Request: request, Memory: max(memory, 0) / 1000,
		User: whole(rec[swf.User]), Group: whole(rec[swf.Group]), Executable: whole(rec[swf.Executable]), Deadline: math.NaN(),
	}, true
}

func whole(v float64) int {
	if !(v >= 0 && v <= 1<<53) {
		return -1
	}
	return int(v)
}

func (t *Trace) size(h swf.Header) error {
	procs, _ := h.Number("MaxProcs")
	nodes, _ := h.Number("MaxNodes")
	if procs < 1 {
		procs = nodes
	}
	if nodes < 1 {
		nodes = procs
	}
	if !(procs >= 1 && procs <= math.MaxInt32) || nodes > procs {
		return fmt.Errorf("the header says MaxProcs %q and MaxNodes %q, want the size of a machine",
			strings.TrimSpace(h.Text("MaxProcs")), strings.TrimSpace(h.Text("MaxNodes")))
	}
	t.Procs, t.Nodes = int(procs), int(nodes)
	return nil
}

// Episode starts one over length jobs from number start on (from 0); fewer where the trace ends.
func (t *Trace) Episode(start, length int, backfill bool) *Episode {
	start = min(max(start, 0), len(t.Jobs))
	return newEpisode(t.Jobs[start:min(start+max(length, 0), len(t.Jobs))], t.Procs, t.Nodes, backfill)
}

// Starts1024 and Starts256 are where the sequences of the published evaluation begin, of 1,024 and of 256 jobs: ten draws from
// the trace's first 10,000 jobs with seed 1, the same for every trace.
var (
	Starts1024 = []int{1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085}
	Starts256  = []int{9405, 8400, 1988, 8082, 1946, 6317, 9678, 9036, 1356, 6645}
)

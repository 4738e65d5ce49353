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

// Trace is a workload as loaded by RLScheduler.
type Trace struct {
	Jobs  []order.Job // by ID; Submit is the time of the trace, which enters the scores F1 to F4
	Procs int         // MaxProcs of the header, or MaxNodes
	Nodes int         // MaxNodes, or MaxProcs; nodes are allocated whole
	// Omitted is the number of records without run time or processors.
	Omitted int
}

// Load reads a trace in the Standard Workload Format, plain or compressed.
func Load(path string) (*Trace, error) {
	f, err := regular.Open(path, regular.Data)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := readTrace(f)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	return t, nil
}

// readTrace reads a trace from a stream. As in RLScheduler, nearly every record is accepted: processors are the larger of
// those requested and allocated, a requested time of −1 is replaced by the run time, and then a negative run time by 10 s;
// jobs of zero run time are omitted. In addition, jobs without processors or with numbers out of range are omitted,
// and jobs larger than the machine are an error, for which RLScheduler's simulator would never terminate.
func readTrace(r io.Reader) (*Trace, error) {
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
		} else {
			t.Omitted++
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

// job converts a record. The second result is false if the record is to be omitted.
func job(rec *swf.Record) (order.Job, bool) {
	run, request, procs := rec[swf.Run], rec[swf.RequestedTime], rec.Processors()
	if request == -1 {
		request = run
	}
	if run < 0 {
		run = 10
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

// whole returns v as an integer, −1 if it is negative or out of range.
func whole(v float64) int {
	if !(v >= 0 && v <= 1<<53) {
		return -1
	}
	return int(v)
}

// size sets the size of the machine from the header.
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

// Episode begins an episode of length jobs from index start on, fewer at the end of the trace.
func (t *Trace) Episode(start, length int, backfill bool) *Episode {
	start = min(max(start, 0), len(t.Jobs))
	return newEpisode(t.Jobs[start:min(start+max(length, 0), len(t.Jobs))], t.Procs, t.Nodes, backfill)
}

// Starts1024 are the starts of the published evaluation's sequences of 1,024 jobs: ten draws from the first 10,000 jobs
// of a trace with seed 1, equal for every trace.
var Starts1024 = []int{1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085}

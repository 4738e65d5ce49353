package swf

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"trainopt/internal/regular"
	"trainopt/optimizer/schedule/order"
)

// Options select and adjust the jobs of a trace. The zero value is strict.
type Options struct {
	// Procs is the size of the machine; 0 means the value of the header (MaxProcs, else MaxNodes).
	Procs int
	// KeepSubmit keeps the submission times; otherwise the first used job is submitted at 0.
	KeepSubmit bool
	// SkipDamaged counts invalid lines and a truncated end as dropped; otherwise they are errors.
	SkipDamaged bool
}

// Validate joins all problems.
func (o Options) Validate() error {
	var errs []error
	if o.Procs < 0 || o.Procs > maxProcs {
		errs = append(errs, fmt.Errorf("a machine of %d processors: want 0 (as the header says) to %d", o.Procs, maxProcs))
	}
	return errors.Join(errs...)
}

// Reasons for dropping a line of a trace.
const (
	Damaged     = "line is not a job"
	CutOff      = "file is cut off"
	noNumber    = "no job number"
	sameNumber  = "job number seen before"
	noSubmit    = "no submission time"
	noRun       = "no run time"
	noProcs     = "no processors"
	tooLarge    = "larger than the machine"
	partOfJob   = "part of a job (status 2 to 4)"
	outOfBounds = "number out of bounds"
)

// Adjustments of used jobs.
const (
	noEstimate = "no requested time: the run time taken"
	notInOrder = "not in the order of submission: sorted"
)

// problemCount is a number of jobs and the line of the first.
type problemCount struct {
	Jobs, Line int
}

// Trace is a workload ready for simulation, with an account of dropped and adjusted jobs.
type Trace struct {
	// Jobs are ordered by submission and number. Memory is the requested, else the used memory per processor in MB
	// (1000 KB), 0 if both are unknown; Deadline is NaN.
	Jobs   []order.Job
	Procs  int // of the machine
	Header Header

	Dropped  map[string]problemCount // jobs by reason; every job read is in Jobs or here, except those after the First
	Adjusted map[string]problemCount // jobs by adjustment
}

// Summary returns the account in one line; "" if nothing was dropped or adjusted.
func (t *Trace) Summary() string {
	var parts []string
	for _, m := range []struct {
		what  string
		count map[string]problemCount
	}{{"dropped", t.Dropped}, {"changed", t.Adjusted}} {
		for _, reason := range slices.Sorted(maps.Keys(m.count)) {
			c := m.count[reason]
			parts = append(parts, fmt.Sprintf("%s %d: %s (first in line %d)", m.what, c.Jobs, reason, c.Line))
		}
	}
	return strings.Join(parts, "; ")
}

// Errors of valid traces that cannot be used.
var (
	ErrNoJobs = errors.New("no job can be used")
	ErrNoSize = errors.New("the header names neither MaxProcs nor MaxNodes: the number of processors must be given")
)

// Load reads and cleans the trace in a file, plain or gzip.
func Load(path string, o Options) (*Trace, error) {
	f, err := regular.Open(path, regular.Data)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	t, err := cleanLog(r, o)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, err)
	}
	return t, nil
}

// cleanLog returns the jobs that a simulation can use: those with a number, a submission time, a run time and processors,
// without duplicates, jobs larger than the machine, and parts of other jobs. O(n), and O(n log n) if they are not in
// order.
func cleanLog(r *Reader, o Options) (*Trace, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := cleaner{o: o, t: &Trace{Dropped: map[string]problemCount{}, Adjusted: map[string]problemCount{}}}
	if err := c.readAll(r); err != nil {
		return nil, err
	}
	t := c.t
	t.Header = r.Header()
	if len(t.Jobs) == 0 {
		if why := t.Summary(); why != "" {
			return nil, fmt.Errorf("%w: %s", ErrNoJobs, why)
		}
		return nil, ErrNoJobs
	}
	t.Procs = c.procs
	if c.unsorted > 0 {
		slices.SortStableFunc(t.Jobs, func(a, b order.Job) int {
			return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
		})
	}
	if !o.KeepSubmit {
		first := t.Jobs[0].Submit
		for i := range t.Jobs {
			t.Jobs[i].Submit -= first
		}
	}
	return t, nil
}

// cleaner is the state of Clean.
type cleaner struct {
	o        Options
	t        *Trace
	procs    int
	unsorted int
	seen     map[int]struct{} // numbers, from the first that does not ascend
}

// readAll reads records until the end or an error that is not excused. At the first, the header, with the size of the machine, is complete.
func (c *cleaner) readAll(r *Reader) error {
	var rec Record
	for {
		err := r.Read(&rec)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			switch err := c.excuse(err, r.Line()); err {
			case nil:
				continue
			case errCutOff:
				return nil
			default:
				return err
			}
		}
		if c.procs == 0 {
			if c.procs = c.o.Procs; c.procs == 0 {
				c.procs = r.Header().Procs()
			}
			if c.procs == 0 {
				return ErrNoSize
			}
		}
		c.add(&rec, r.Line())
	}
}

// errCutOff is the tolerated end of a truncated file.
var errCutOff = errors.New(CutOff)

// excuse counts a reading error as dropped if SkipDamaged is set, else returns it.
func (c *cleaner) excuse(err error, line int) error {
	var damaged *LineError
	switch {
	case !c.o.SkipDamaged:
		return err
	case errors.As(err, &damaged):
		drop(c.t.Dropped, Damaged, line)
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		drop(c.t.Dropped, CutOff, line)
		return errCutOff
	}
	return err
}

// drop counts a job for a reason of dropping or adjusting.
func drop(m map[string]problemCount, reason string, line int) {
	k, ok := m[reason]
	if !ok {
		k.Line = line
	}
	k.Jobs++
	m[reason] = k
}

// add appends the job of a record, or counts the reason for dropping it.
func (c *cleaner) add(rec *Record, line int) {
	procs := rec.Processors()
	if reason := c.unfit(rec, procs); reason != "" {
		drop(c.t.Dropped, reason, line)
		return
	}
	id := int(rec[Number])
	if c.twice(id) {
		drop(c.t.Dropped, sameNumber, line)
		return
	}
	j := order.Job{
		ID: id, Submit: rec[Submit], Procs: int(math.Ceil(procs)), Run: rec[Run], Request: rec[RequestedTime],
		User: count(rec[User]), Group: count(rec[Group]), Executable: count(rec[Executable]), Deadline: math.NaN(),
	}
	if kb := rec[RequestedMemory]; kb > 0 {
		j.Memory = kb / 1000
	} else if kb := rec[Memory]; kb > 0 {
		j.Memory = kb / 1000
	}
	if j.Request <= 0 {
		drop(c.t.Adjusted, noEstimate, line)
		j.Request = j.Run
	}
	if n := len(c.t.Jobs); n > 0 {
		last := &c.t.Jobs[n-1]
		if j.Submit < last.Submit || j.Submit == last.Submit && j.ID < last.ID {
			drop(c.t.Adjusted, notInOrder, line)
			c.unsorted++
		}
	}
	c.t.Jobs = append(c.t.Jobs, j)
}

// unfit returns the reason that makes a record unusable, "" if none.
func (c *cleaner) unfit(rec *Record, procs float64) string {
	switch {
	case rec[Number] < 0:
		return noNumber
	case rec[Submit] < 0:
		return noSubmit
	case rec[Run] <= 0:
		return noRun
	case procs <= 0:
		return noProcs
	case rec[status] >= 2 && rec[status] <= 4:
		return partOfJob
	case rec[Number] > 1<<53 || rec[Submit] > maxSeconds || rec[Run] > maxSeconds || rec[RequestedTime] > maxSeconds:
		return outOfBounds
	case procs > float64(c.procs):
		return tooLarge
	}
	return ""
}

// twice reports whether a job with this number is already used. While numbers ascend, no set is needed.
func (c *cleaner) twice(id int) bool {
	jobs := c.t.Jobs
	if c.seen == nil {
		if len(jobs) == 0 || id > jobs[len(jobs)-1].ID {
			return false
		}
		c.seen = make(map[int]struct{}, 2*len(jobs))
		for i := range jobs {
			c.seen[jobs[i].ID] = struct{}{}
		}
	}
	if _, ok := c.seen[id]; ok {
		return true
	}
	c.seen[id] = struct{}{}
	return false
}

// count returns a non-negative integer, −1 for any other value.
func count(v float64) int {
	if !(v >= 0 && v <= 1<<53) {
		return -1
	}
	return int(v)
}

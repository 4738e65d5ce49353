package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"trainopt/internal/regular"
)

// Trace is the content of a trace file. The jobs ascend by arrival.
type Trace struct {
	Format string
	Jobs   []Job
	// Start is the date of time 0; zero if the file contains no dates.
	Start time.Time
	Rows  int // of the file, without its header
	// Dropped contains the rows that are not among Jobs, by reason.
	Dropped []dropped
	// Notes describe modifications of and assumptions about the jobs, one sentence each.
	Notes []string
}

// dropped is the number of rows of a trace that were omitted for one reason.
type dropped struct {
	Reason string
	Rows   int
	Line   int // of the first row
}

// Warnings returns the information on the trace for users: omitted rows by reason, and Notes.
func (t *Trace) Warnings() []string {
	var out []string
	for _, d := range t.Dropped {
		out = append(out, fmt.Sprintf("%d of %d rows left out: %s, first on line %d", d.Rows, t.Rows, d.Reason, d.Line))
	}
	return append(out, t.Notes...)
}

// Upper bounds of the numbers of a trace; larger values are considered corrupt.
const (
	maxSeconds = 1e10 // 300 years
	maxSteps   = 1e15
	maxGPUs    = 1_000_000
	maxJobs    = 10_000_000
)

// readTrace reads jobs, plain or gzip. format is one of Formats, or "" to detect it from the contents. name is the
// file name, used in errors.
//
// For formats written by programs for simulators (gavel, gavel-msr, shockwave, jobs), the first invalid row is an
// error with its line. Logs of real clusters contain errors: their invalid rows are omitted and counted by reason in
// Dropped. Gavel's and Shockwave's formats require ascending arrivals; others are sorted, which is recorded in Notes.
func readTrace(r io.Reader, name, format string) (*Trace, error) {
	t, err := parseTrace(r, format)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	return t, nil
}

// LoadTrace reads the file at path; see readTrace.
func LoadTrace(path, format string) (*Trace, error) {
	f, err := regular.Open(path, regular.Data)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	defer f.Close()
	return readTrace(f, path, format)
}

// parseTrace decompresses the input, detects the format and reads all rows.
func parseTrace(r io.Reader, format string) (*Trace, error) {
	r, err := regular.Gunzip(r)
	if err != nil {
		return nil, err
	}
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := firstLine(b)
	if err != nil {
		return nil, err
	}
	l, err := chooseLayout(head, format)
	if err != nil {
		return nil, err
	}
	in := &intake{layout: l, reasons: map[string]*dropped{}, ids: map[int]int{}, trace: &Trace{Format: l.name}}
	if err := l.each(b, in.row); err != nil {
		return nil, err
	}
	if len(in.trace.Jobs) == 0 {
		return nil, fmt.Errorf("no job in %d rows%s", in.trace.Rows, in.mostDropped())
	}
	in.finish()
	return in.trace, nil
}

// firstLine returns the first non-blank line without consuming it.
func firstLine(b *bufio.Reader) (string, error) {
	head, err := b.Peek(1 << 16)
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return "", err
	}
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	if len(bytes.TrimSpace(line)) == 0 {
		return "", errors.New("it is empty")
	}
	return strings.TrimRight(string(line), "\r"), nil
}

// intake collects rows and records the omitted ones.
type intake struct {
	layout   *layout
	trace    *Trace
	reasons  map[string]*dropped
	ids      map[int]int // line of each id
	unsorted int         // number of jobs that arrive before their predecessor
}

// row processes one row; an error ends the reading.
func (in *intake) row(r *row) error {
	in.trace.Rows++
	if r.empty() {
		return in.drop(r, "empty row")
	}
	if r.problem != "" {
		return in.refuse(r, r.problem)
	}
	j := Job{Weight: 1, Arrival: math.NaN(), Steps: math.NaN(), Seconds: math.NaN(), SLO: math.NaN(), Deadline: math.NaN()}
	in.layout.read(r, &j)
	setDeadline(&j)
	problem := r.problem
	if problem == "" {
		problem = problemOf(&j)
	}
	if first, twice := in.ids[j.ID]; problem == "" && in.layout.ids && twice {
		problem = "duplicate id"
		if in.layout.strict {
			return fmt.Errorf("line %d: duplicate id %d, first on line %d", r.line, j.ID, first)
		}
	}
	if problem != "" {
		return in.refuse(r, problem)
	}
	return in.take(r, j)
}

// take appends a valid job, checking or counting the order of arrivals.
func (in *intake) take(r *row, j Job) error {
	t := in.trace
	if n := len(t.Jobs); n > 0 && j.Arrival < t.Jobs[n-1].Arrival {
		if in.layout.ordered {
			return fmt.Errorf("line %d: arrives at %v s, before the job above it at %v s; this format demands ascending arrivals", r.line, j.Arrival, t.Jobs[n-1].Arrival)
		}
		in.unsorted++
	}
	if len(t.Jobs) == maxJobs {
		return fmt.Errorf("line %d: more than %d jobs", r.line, maxJobs)
	}
	if in.layout.ids {
		in.ids[j.ID] = r.line
	} else {
		j.ID = len(t.Jobs)
	}
	t.Jobs = append(t.Jobs, j)
	return nil
}

// refuse handles an invalid row: an error in strict formats, otherwise the row is dropped.
func (in *intake) refuse(r *row, problem string) error {
	if in.layout.strict {
		return fmt.Errorf("line %d: %s", r.line, problem)
	}
	return in.drop(r, problem)
}

// drop counts an omitted row by reason.
func (in *intake) drop(r *row, reason string) error {
	d := in.reasons[reason]
	if d == nil {
		d = &dropped{Reason: reason, Line: r.line}
		in.reasons[reason] = d
	}
	d.Rows++
	return nil
}

// mostDropped describes the most frequent reason, for an error about a trace without jobs.
func (in *intake) mostDropped() string {
	most := dropped{}
	for _, d := range in.reasons {
		if d.Rows > most.Rows || d.Rows == most.Rows && d.Line < most.Line {
			most = *d
		}
	}
	if most.Rows == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of them: %s, first on line %d", most.Rows, most.Reason, most.Line)
}

// finish sorts the jobs and converts arrivals and deadlines to seconds from the start.
func (in *intake) finish() {
	t := in.trace
	for _, d := range in.reasons {
		t.Dropped = append(t.Dropped, *d)
	}
	slices.SortFunc(t.Dropped, func(a, b dropped) int { return strings.Compare(a.Reason, b.Reason) })
	if in.unsorted > 0 {
		slices.SortStableFunc(t.Jobs, func(a, b Job) int {
			switch {
			case a.Arrival < b.Arrival:
				return -1
			case a.Arrival > b.Arrival:
				return 1
			}
			return 0
		})
		t.Notes = append(t.Notes, fmt.Sprintf("sorted by arrival, since %d of %d rows arrived before the row above them", in.unsorted, t.Rows))
		if !in.layout.ids {
			for i := range t.Jobs {
				t.Jobs[i].ID = i
			}
		}
	}
	first := t.Jobs[0].Arrival
	if in.layout.dated {
		t.Start = time.Unix(int64(first), 0).UTC()
	}
	if in.layout.fromFirst && first != 0 {
		for i := range t.Jobs {
			t.Jobs[i].Arrival -= first
			t.Jobs[i].Deadline -= first
		}
		if !in.layout.dated {
			t.Notes = append(t.Notes, fmt.Sprintf("the first job arrives at %v s: times count from there", first))
		}
	}
	t.Notes = append(t.Notes, in.layout.notes...)
}

// setDeadline derives the deadline from the SLO if the trace contains no time.
func setDeadline(j *Job) {
	if math.IsNaN(j.Deadline) {
		j.Deadline = j.Arrival + float64(j.SLO*j.Seconds)
	}
}

// problemOf returns the reason that makes a job invalid, "" if none. Reasons are counted, so they contain no numbers of
// the job.
func problemOf(j *Job) string {
	switch {
	case j.ID < 0:
		return "id below 0"
	case math.IsNaN(j.Arrival):
		return "no arrival"
	case j.Arrival < 0:
		return "arrival below 0"
	case j.GPUs < 1:
		return "GPUs below 1"
	case j.Seconds <= 0:
		return "duration not above 0"
	case j.Steps <= 0:
		return "steps not above 0"
	case !(j.Weight > 0):
		return "priority weight not above 0"
	case j.SLO <= 0:
		return "SLO not above 0"
	case j.Deadline <= j.Arrival:
		return "deadline not after the arrival"
	case j.Arrival > maxSeconds || j.Seconds > maxSeconds || j.Deadline > maxSeconds || j.Steps > maxSteps || j.GPUs > maxGPUs ||
		j.Weight > maxSteps || j.SLO > maxSteps || j.Steps < 1/maxSteps || j.Seconds < 1/maxSteps:
		return "absurd number"
	}
	return ""
}

// Complete fills in values missing in a trace: steps from the duration or the duration from steps, by the throughput
// of the job on the reference device type, and the deadline from the SLO. Jobs with both values are unchanged; those
// with neither are whole trainings if the table contains their steps. The error lists every job type whose throughput
// is required but missing, and jobs with neither value.
func Complete(jobs []Job, table *Throughputs, reference string) error {
	var incomplete []Job
	for i, j := range jobs {
		steps, seconds := !math.IsNaN(j.Steps), !math.IsNaN(j.Seconds)
		if work := table.Work(j.Type); !steps && !seconds && !math.IsNaN(work) {
			jobs[i].Steps, steps = work, true
		}
		if !steps && !seconds {
			return fmt.Errorf("job %d (%s): neither its steps nor its duration are known", j.ID, j.Type)
		}
		if !steps || !seconds {
			incomplete = append(incomplete, j)
		}
	}
	if err := table.Require(incomplete, []string{reference}); err != nil {
		return fmt.Errorf("work out steps and durations: %w", err)
	}
	for i := range jobs {
		j := &jobs[i]
		switch rate := table.Alone(reference, j.Type, j.GPUs); {
		case math.IsNaN(j.Steps):
			j.Steps = j.Seconds * rate
		case math.IsNaN(j.Seconds):
			j.Seconds = j.Steps / rate
		}
		setDeadline(j)
		if problem := problemOf(j); problem != "" {
			return fmt.Errorf("work out steps and durations: job %d (%s): %s", j.ID, j.Type, problem)
		}
	}
	return nil
}

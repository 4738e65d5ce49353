package slurm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AccountingFields are the columns of sacct to request; all versions since 20.11 have them. JobName is the last,
// since a name may contain the separator.
const AccountingFields = "JobID,JobIDRaw,User,Account,Partition,State,Reason,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw," +
	"NNodes,NodeList,AllocCPUS,ReqMem,ReqTRES,AllocTRES,NTasks,TotalCPU,MaxRSS,TRESUsageInMax,TRESUsageInTot,ConsumedEnergyRaw,JobName"

// Job is one life of a job in the accounting database: a job that was requeued has one for each start. Times are zero,
// pointers and maps nil where nothing is recorded, which differs from 0.
type Job struct {
	ID    string // as displayed: 123, task 123_4 of an array, its pending tasks 123_[5-9%3], component 123+0
	RawID string // the number of its own: that of 123_4 may be 127
	Name  string
	User  string
	// Account and Partition are those of the job; a pending job may name several partitions.
	Account, Partition string
	State              string // such as COMPLETED; CANCELLED without the user
	Reason             string // why it waited last
	CancelledBy        string // user id in "CANCELLED by 1000"
	// ExitCode and Signal are 0 until the end, as in the output of sacct.
	ExitCode, Signal             int
	Submit, Eligible, Start, End time.Time
	Elapsed                      *time.Duration
	Limit                        *time.Duration // nil also without a limit, or with that of the partition
	Nodes                        []string
	NodeCount                    int // 0: not recorded
	// ReqTRES and AllocTRES contain resources by name: cpu, node, gres/gpu and gres/gpu:a100 as numbers, mem in GiB, of
	// all nodes. ReqMem supplies mem, and AllocCPUS cpu, where the lists lack it.
	ReqTRES, AllocTRES map[string]float64
	Steps              []Step

	cpuSecs, joules *float64
}

// Step is a step of a job: its batch script, one srun, or extern, which contains what belongs to no other step.
type Step struct {
	Name       string // batch, extern, interactive, 0, 1 …
	State      string
	Start, End time.Time
	Elapsed    *time.Duration
	Tasks      int // 0: not recorded
	NodeCount  int // 0: not recorded
	// MaxRSSGiB is the peak memory of the task that used most, as sampled; sacct's 0 is a step without a sample.
	MaxRSSGiB *float64
	CPUSecs   *float64 // of all tasks
	// UsageMax contains the maximum over the tasks, UsageTot the sum: cpu in seconds, mem and gres/gpumem in GiB,
	// gres/gpuutil in percent of one GPU.
	UsageMax, UsageTot map[string]float64
	Joules             *float64 // sacct's 0 is a site without measurement
}

// BadLines reports lines that could not be read and were skipped.
type BadLines struct {
	Count int
	First []string // the first few, with their line numbers
}

// Error describes the first bad line.
func (b *BadLines) Error() string {
	if b.Count == 1 {
		return "read Slurm accounting: 1 bad line skipped: " + b.First[0]
	}
	return fmt.Sprintf("read Slurm accounting: %d bad lines skipped, first: %s", b.Count, b.First[0])
}

// longestLine bounds a line of the accounting, in bytes.
const longestLine = 4 << 20

// ReadAccounting reads the output of sacct --duplicates --parsable2 --format=… with its header. Columns are found by
// name in any order; absent ones are not recorded. A repeated header, as in joined files, applies from its line on.
// Times without
// a zone are read as UTC: call sacct with TZ=UTC. The jobs are valid also with an error of type *BadLines. O(n) in the
// size of the text.
func ReadAccounting(r io.Reader) ([]Job, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	a := accounting{last: map[string]int{}}
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(strings.TrimPrefix(lines.Text(), "\ufeff"), "\r")
		if strings.TrimSpace(line) == "" || a.header(line) {
			continue
		}
		if a.columns == nil {
			if !lines.Scan() && lines.Err() != nil { // the line is a part of one
				break
			}
			return nil, fmt.Errorf("read Slurm accounting: line %d is no header with the columns JobID and State: run sacct with --parsable2 and without --noheader", n)
		}
		if err := a.add(line); err != nil {
			a.bad.Count++
			if len(a.bad.First) < 5 {
				a.bad.First = append(a.bad.First, fmt.Sprintf("line %d: %s", n, err))
			}
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return a.jobs, fmt.Errorf("read Slurm accounting: a line is longer than %d bytes: this is no output of sacct", longestLine)
	}
	if err := lines.Err(); err != nil {
		return a.jobs, fmt.Errorf("read Slurm accounting: %w", err)
	}
	if a.columns == nil {
		return nil, errors.New("read Slurm accounting: the text is empty, without even a header")
	}
	if a.bad.Count > 0 {
		return a.jobs, &a.bad
	}
	return a.jobs, nil
}

// accounting is the state of ReadAccounting.
type accounting struct {
	columns map[string]int // lower-case name to position
	width   int
	jobs    []Job
	last    map[string]int // id to the position of its latest life
	bad     BadLines
}

// header accepts a line with the names of the columns.
func (a *accounting) header(line string) bool {
	names := strings.Split(line, "|")
	at := map[string]int{}
	for i, name := range names {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			at[name] = i
		}
	}
	if _, id := at["jobid"]; !id {
		return false
	}
	if _, state := at["state"]; !state {
		return false
	}
	a.columns, a.width = at, len(names)
	return true
}

// add reads a line that describes a job or a step.
func (a *accounting) add(line string) error {
	cells := strings.SplitN(line, "|", a.width)
	if len(cells) < a.width {
		return fmt.Errorf("%d columns, want %d", len(cells), a.width)
	}
	// Only a name in the last column may contain the separator.
	if last := cells[a.width-1]; strings.Contains(last, "|") && a.columns["jobname"] != a.width-1 {
		return fmt.Errorf("%d columns, want %d", a.width+strings.Count(last, "|"), a.width)
	}
	c := &row{cells: cells, columns: a.columns}
	id := c.text("jobid")
	if id == "" || id[0] < '0' || id[0] > '9' {
		return fmt.Errorf("JobID %q is not an id of a job", id)
	}
	base, step, isStep := strings.Cut(id, ".")
	if !isStep {
		j := c.job(id)
		if err := c.problem(); err != nil {
			return err
		}
		a.last[id] = len(a.jobs)
		a.jobs = append(a.jobs, j)
		return nil
	}
	at, ok := a.last[base]
	if !ok {
		return fmt.Errorf("step %s of a job that is not among the lines before", id)
	}
	s := c.step(step)
	if err := c.problem(); err != nil {
		return err
	}
	a.jobs[at].Steps = append(a.jobs[at].Steps, s)
	return nil
}

// row is a line by columns. Its methods return zero values for absent and unknown cells, and collect errors.
type row struct {
	cells   []string
	columns map[string]int
	errs    []error
}

// problem returns the first error of the row.
func (c *row) problem() error {
	if len(c.errs) == 0 {
		return nil
	}
	return c.errs[0]
}

// fail records an error of a column unless err is nil.
func (c *row) fail(column string, err error) {
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("%s: %w", column, err))
	}
}

// text returns a cell, "" if it is absent or unknown.
func (c *row) text(column string) string {
	at, ok := c.columns[column]
	if !ok {
		return ""
	}
	return known(c.cells[at])
}

// job reads the columns of a job.
func (c *row) job(id string) Job {
	j := Job{ID: id, RawID: c.text("jobidraw"), User: c.text("user"), Account: c.text("account"), Partition: c.text("partition"), Reason: c.text("reason")}
	if at, ok := c.columns["jobname"]; ok {
		j.Name = strings.TrimSpace(c.cells[at])
	}
	j.State, j.CancelledBy, _ = strings.Cut(c.text("state"), " by ")
	j.ExitCode, j.Signal = c.exit()
	j.Submit, j.Eligible, j.Start, j.End = c.time("submit"), c.time("eligible"), c.time("start"), c.time("end")
	j.Elapsed = c.elapsed()
	if j.Limit = c.duration("timelimit"); j.Limit == nil {
		j.Limit = c.raw("timelimitraw", time.Minute)
	}
	j.NodeCount = c.count("nnodes")
	nodes, err := expandHosts(c.text("nodelist"))
	c.fail("NodeList", err)
	j.Nodes = nodes
	j.ReqTRES, j.AllocTRES = c.tres("reqtres", mebibyte), c.tres("alloctres", mebibyte)
	complete := func(into *map[string]float64, name string, value float64) {
		if _, ok := (*into)[name]; ok || value <= 0 {
			return
		}
		if *into == nil {
			*into = map[string]float64{}
		}
		(*into)[name] = value
	}
	complete(&j.AllocTRES, "cpu", float64(c.count("alloccpus")))
	if j.NodeCount == 0 {
		j.NodeCount = whole(j.AllocTRES["node"])
	}
	complete(&j.ReqTRES, "mem", c.requestedGiB(&j))
	j.cpuSecs, j.joules = c.cpuSeconds(), c.joules()
	return j
}

// step reads the columns of a step.
func (c *row) step(name string) Step {
	s := Step{Name: name, Start: c.time("start"), End: c.time("end"), Elapsed: c.elapsed(), Tasks: c.count("ntasks"), NodeCount: c.count("nnodes"),
		CPUSecs: c.cpuSeconds(), UsageMax: c.tres("tresusageinmax", oneByte), UsageTot: c.tres("tresusageintot", oneByte), Joules: c.joules()}
	s.State, _, _ = strings.Cut(c.text("state"), " by ")
	if text := c.text("maxrss"); text != "" {
		gib, err := parseSize(text, oneByte)
		c.fail("MaxRSS", err)
		if gib > 0 {
			s.MaxRSSGiB = &gib
		}
	}
	return s
}

// exit reads "75:0", the code and the signal.
func (c *row) exit() (code, signal int) {
	text := c.text("exitcode")
	if text == "" {
		return 0, 0
	}
	first, second, ok := strings.Cut(text, ":")
	code, err := strconv.Atoi(first)
	signal, err2 := strconv.Atoi(second)
	if !ok || err != nil || err2 != nil {
		c.fail("ExitCode", fmt.Errorf("%q: want CODE:SIGNAL", text))
		return 0, 0
	}
	return code, signal
}

// count reads a count, 0 if unknown.
func (c *row) count(column string) int {
	text := c.text(column)
	if text == "" {
		return 0
	}
	n, err := parseCount(text)
	if err == nil && n > math.MaxInt32 {
		err = fmt.Errorf("%q is no count", text)
	}
	c.fail(column, err)
	return int(n)
}

// elapsed reads the time that a job or step ran.
func (c *row) elapsed() *time.Duration {
	if d := c.duration("elapsed"); d != nil {
		return d
	}
	return c.raw("elapsedraw", time.Second)
}

// duration reads a column such as 1-02:03:04.
func (c *row) duration(column string) *time.Duration {
	text := c.text(column)
	if text == "" {
		return nil
	}
	d, err := parseDuration(text)
	c.fail(column, err)
	return d
}

// cpuSeconds reads the time of all CPUs, which may be long.
func (c *row) cpuSeconds() *float64 {
	text := c.text("totalcpu")
	if text == "" {
		return nil
	}
	s, err := parseSeconds(text)
	c.fail("totalcpu", err)
	return s
}

// raw reads a duration written as a whole number of units.
func (c *row) raw(column string, unit time.Duration) *time.Duration {
	text := c.text(column)
	if text == "" || noLimit(text) {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > int64(longest/unit) {
		c.fail(column, fmt.Errorf("%q is no number of %s", text, unit))
		return nil
	}
	d := time.Duration(n) * unit
	return &d
}

// time reads a point in time, zero if unknown.
func (c *row) time(column string) time.Time {
	t, err := parseTime(c.text(column))
	c.fail(column, err)
	return t
}

// tres reads a list of resources; plain is the GiB of an amount of memory without a unit.
func (c *row) tres(column string, plain float64) map[string]float64 {
	m, err := parseTRES(c.text(column), plain)
	c.fail(column, err)
	return m
}

// requestedGiB reads ReqMem, the memory of all nodes. Versions before 21.08 append c (per CPU) or n (per node).
func (c *row) requestedGiB(j *Job) float64 {
	text := c.text("reqmem")
	if text == "" {
		return 0
	}
	times := 1.0
	switch text[len(text)-1] {
	case 'c':
		times, text = j.AllocTRES["cpu"], text[:len(text)-1]
	case 'n':
		times, text = float64(j.NodeCount), text[:len(text)-1]
	}
	gib, err := parseSize(text, mebibyte)
	c.fail("ReqMem", err)
	return gib * times
}

// joules reads the energy; 0 marks a site that does not measure it.
func (c *row) joules() *float64 {
	text := c.text("consumedenergyraw")
	if text == "" {
		return nil
	}
	n, err := parseCount(text)
	c.fail("ConsumedEnergyRaw", err)
	if n == 0 || n >= sentinel {
		return nil
	}
	return &n
}

// ended contains the states of a life that is over.
var ended = []string{"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
	"RECONFIG_FAIL", "REQUEUED", "REVOKED", "TIMEOUT"}

// Over reports whether the life is over by its state, and Ended whether its end is recorded too.
func (j *Job) Over() bool  { return slices.Contains(ended, j.State) }
func (j *Job) Ended() bool { return j.Over() && !j.End.IsZero() }

// Ran reports whether the life held resources, also where its start is not recorded. A job that was cancelled while it
// waited has its end as its start, and no nodes.
func (j *Job) Ran() bool {
	switch {
	case j.State == "PENDING":
		return false
	case j.Elapsed != nil && *j.Elapsed > 0:
		return true
	case j.Over() && j.Elapsed != nil && len(j.Nodes) == 0:
		return false
	}
	return !j.Start.IsZero() || slices.Contains([]string{"COMPLETED", "COMPLETING", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "RUNNING", "SUSPENDED", "TIMEOUT"}, j.State)
}

// Component returns the component of a heterogeneous job, such as "+1" of 123+1; "" for any other job.
func (j *Job) Component() string {
	if i := strings.IndexByte(j.ID, '+'); i >= 0 {
		return j.ID[i:]
	}
	return ""
}

// CPUSecs returns the CPU time of all steps in seconds, or else that of the job; nil if none is recorded.
func (j *Job) CPUSecs() *float64 {
	sum, recorded := 0.0, false
	for i := range j.Steps {
		s := &j.Steps[i]
		used := s.UsageTot["cpu"] // the last sample, all that is known of a step that was killed
		if s.CPUSecs != nil {
			used = max(used, *s.CPUSecs)
		}
		recorded = recorded || used > 0 || s.MaxRSSGiB != nil
		sum += used
	}
	if recorded {
		return &sum
	}
	if j.cpuSecs != nil && *j.cpuSecs > 0 {
		return j.cpuSecs
	}
	return nil
}

// PeakGiB returns the largest MaxRSSGiB of the steps, nil if none is recorded.
func (j *Job) PeakGiB() *float64 {
	var peak *float64
	for i := range j.Steps {
		if m := j.Steps[i].MaxRSSGiB; m != nil && (peak == nil || *m > *peak) {
			peak = m
		}
	}
	return peak
}

// Joules returns the energy of the job, nil if it was not measured.
func (j *Job) Joules() *float64 {
	if j.joules != nil {
		return j.joules
	}
	var sum *float64
	for i := range j.Steps {
		if e := j.Steps[i].Joules; e != nil {
			if sum == nil {
				sum = new(float64)
			}
			*sum += *e
		}
	}
	return sum
}

// GPUs returns the number of GPUs allocated on all nodes, and their type if the site records it; "" also for several
// types. Sites that do not list gres/gpu in AccountingStorageTRES record none.
func (j *Job) GPUs() (n int, kind string) {
	return gpusOf(j.AllocTRES)
}

// gpusOf returns the number of GPUs in a list of resources and their type.
func gpusOf(tres map[string]float64) (n int, kind string) {
	typed, kinds := 0, 0
	for name, count := range tres {
		if of, ok := strings.CutPrefix(name, "gres/gpu:"); ok && count > 0 {
			typed, kind, kinds = typed+whole(count), of, kinds+1
		}
	}
	if kinds > 1 {
		kind = ""
	}
	return max(typed, whole(tres["gres/gpu"])), kind
}

package hdeeprm

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/simulator/workload/swf"
)

// ConvertOptions are the options of converting a trace to a workload of HDeepRM.
type ConvertOptions struct {
	Seed uint32 // seed of NumPy's generator
	// Jobs is the maximum number of converted jobs, from the beginning of the trace; 0 means all.
	Jobs int
	// Resources is written into the workload (nb_res) and has no effect.
	Resources int
	// Reference is the speed to which requested times refer, GFLOPS; see platform.Tree.Reference.
	Reference float64
	// Compat reproduces errors of HDeepRM:
	//
	//   - Jobs with equal requested time, memory and bandwidth all have the work drawn for the first of them;
	//     corrected, each has its own.
	//   - If the first job is submitted at 0, the time origin is taken from the next job, which may put both at 0;
	//     corrected, the origin is the first submission.
	//   - Jobs with a requested time of 0 are accepted; corrected, they are dropped.
	Compat bool
}

// Validate returns all problems joined.
func (o *ConvertOptions) Validate() error {
	var problems []error
	if !(o.Reference >= 1e-3) || o.Reference > 1e9 {
		problems = append(problems, fmt.Errorf("a reference speed of %v GFLOPS: want at least 0.001", o.Reference))
	}
	if o.Jobs < 0 || o.Resources < 0 {
		problems = append(problems, fmt.Errorf("%d jobs for %d resources: want 0 or more", o.Jobs, o.Resources))
	}
	return errors.Join(problems...)
}

// converted is the workload converted from a trace.
type converted struct {
	*BatsimWorkload
	Dropped map[string]int // number of dropped jobs by reason
	Damage  error          // error of the first damaged record, with its line; nil if none
}

// Convert reads a trace in the Standard Workload Format as HDeepRM does. It accepts jobs with a submission time,
// requested cores, requested time, and requested (or used) memory; fields are truncated to integers. A core executes
// reference · u · requested time operations, where u is drawn from a distribution of users' overestimates, and
// requires a bandwidth drawn from 4 to 24 GB/s; the random numbers equal those of NumPy's legacy generator bit for
// bit. Jobs have no limit. Invalid lines and a truncated file are counted in Dropped, the first with its line in
// Damage; with Compat they are errors. O(n). A trace without usable jobs returns swf.ErrNoJobs.
func Convert(r *swf.Reader, o ConvertOptions) (*converted, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("convert trace: %w", err)
	}
	c := &converter{ConvertOptions: o, draws: newNumpyDraws(o.Seed), first: map[string]float64{}, out: &converted{
		BatsimWorkload: &BatsimWorkload{Resources: o.Resources, Profiles: map[string]batsimProfile{}}, Dropped: map[string]int{}}}
	var record swf.Record
read:
	for o.Jobs == 0 || len(c.out.Jobs) < o.Jobs {
		err := r.Read(&record)
		if err == io.EOF {
			break
		}
		var damaged *swf.LineError
		switch cut := errors.Is(err, io.ErrUnexpectedEOF); {
		case err == nil:
		case o.Compat || !cut && !errors.As(err, &damaged):
			return nil, fmt.Errorf("convert trace: %w", err)
		default:
			if c.out.Damage == nil {
				c.out.Damage = err
			}
			if cut {
				c.out.Dropped[swf.CutOff]++
				break read
			}
			c.out.Dropped[swf.Damaged]++
			continue
		}
		if reason := c.take(&record); reason != "" {
			c.out.Dropped[reason]++
		}
	}
	if len(c.out.Jobs) == 0 {
		var why []string
		for _, reason := range slices.Sorted(maps.Keys(c.out.Dropped)) {
			why = append(why, fmt.Sprintf("%d: %s", c.out.Dropped[reason], reason))
		}
		if why == nil {
			return c.out, fmt.Errorf("convert trace: %w: none found", swf.ErrNoJobs)
		}
		if c.out.Damage != nil {
			why = append(why, fmt.Sprintf("the first damage in %v", c.out.Damage))
		}
		return c.out, fmt.Errorf("convert trace: %w: dropped %s", swf.ErrNoJobs, strings.Join(why, ", "))
	}
	return c.out, c.rebase()
}

// converter is the state of a conversion.
type converter struct {
	ConvertOptions
	draws numpyDraws
	out   *converted
	first map[string]float64 // operations of the first job, by profile name
}

// take converts a record to a job, or returns the reason for dropping it. Used share and bandwidth are drawn only for
// accepted records, in this order.
func (c *converter) take(record *swf.Record) (dropped string) {
	whole := func(field int) float64 { return math.Trunc(record[field]) }
	memory := whole(swf.RequestedMemory)
	if memory < 0 {
		memory = whole(swf.Memory)
	}
	submit, procs, seconds := whole(swf.Submit), whole(swf.Requested), whole(swf.RequestedTime)
	switch {
	case submit < 0:
		return "no submission time"
	case procs < 1 || procs > math.MaxInt32:
		return "no number of processors asked for"
	case seconds < 0 || seconds == 0 && !c.Compat:
		return "no time asked for"
	case memory < 0:
		return "no memory asked for or used"
	case max(submit, seconds, memory) > 1e15:
		return "a number too large to be true"
	}
	used, bandwidth := c.draws.share(), c.draws.bandwidth()
	p := batsimProfile{Type: homogeneous, Com: []float64{0}, RequestTime: seconds, Memory: math.Trunc(memory / 1000),
		Bandwidth: float64(bandwidth), RequestOps: math.Trunc(c.Reference * seconds * 1e9)}
	p.CPU = []float64{math.Trunc(c.Reference * used * seconds * 1e9)}
	c.out.Jobs = append(c.out.Jobs, BatsimJob{ID: strconv.Itoa(len(c.out.Jobs)), Submit: submit, Resources: int(procs), Profile: c.profile(p)})
	return ""
}

// profile returns the name of a profile and registers it. As in HDeepRM, the name consists of the requests; without
// Compat, profiles that differ only in work are distinguished by the used share of the requested time, in percent.
func (c *converter) profile(p batsimProfile) string {
	name := fmt.Sprintf("%.0f_%.0f_%.0f", p.RequestTime, p.Memory, p.Bandwidth)
	ops, known := c.first[name]
	if !known {
		c.first[name] = p.CPU[0]
		c.out.Profiles[name] = p
	}
	if c.Compat || !known || ops == p.CPU[0] {
		return name
	}
	name = fmt.Sprintf("%s_%.0f", name, 100*p.CPU[0]/p.RequestOps)
	c.out.Profiles[name] = p
	return name
}

// rebase shifts the submission times so that the trace begins at 0.
func (c *converter) rebase() error {
	jobs := c.out.Jobs
	origin := jobs[0].Submit
	if !c.Compat {
		for _, j := range jobs {
			origin = min(origin, j.Submit)
		}
	}
	for i := range jobs {
		if c.Compat && origin == 0 {
			origin = jobs[i].Submit
		}
		if jobs[i].Submit -= origin; jobs[i].Submit < 0 {
			return fmt.Errorf("convert trace: job %d was submitted %v s before the first", i, -jobs[i].Submit)
		}
	}
	return nil
}

// customize sets the work of every profile to the requested work, reference · requested time, as HDeepRM does with
// custom workloads (hdeeprm-launch -cw). Profiles without a requested time keep their work. The errors identify
// profiles that have neither.
func customize(w *BatsimWorkload, reference float64) error {
	if !(reference > 0) || reference > 1e9 {
		return fmt.Errorf("customize workload: a reference speed of %v GFLOPS: want more than 0", reference)
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(w.Profiles)) {
		p := w.Profiles[name]
		if p.Type != homogeneous {
			continue
		}
		switch {
		case p.RequestTime > 0:
			p.CPU = []float64{reference * p.RequestTime * 1e9}
			p.RequestOps = p.CPU[0]
			w.Profiles[name] = p
		case len(p.CPU) == 0 || p.CPU[0] == 0:
			problems = append(problems, fmt.Errorf("customize workload: profile %q: neither req_time nor operations (cpu)", name))
		}
	}
	return errors.Join(problems...)
}

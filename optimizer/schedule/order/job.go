package order

import (
	"errors"
	"fmt"
	"strconv"
)

// Job is one batch job. Fields that its workload does not define are −1 where noted, else 0.
type Job struct {
	ID     int
	Name   string  // name in the workload ("w0!17"); "" is the ID
	Submit float64 // s
	Procs  int     // processors (cores) held simultaneously, at least 1
	Run    float64 // run time on identical processors, s
	// Request is the run time requested by the user, s; at least 1 where the workload has no better estimate than Run.
	Request float64
	// Limit is the run time at which the job is killed, s; 0 means none.
	Limit float64

	// Per core, on a platform.Tree:
	Ops        float64 // operations executed
	RequestOps float64 // operations requested
	Memory     float64 // MB
	Bandwidth  float64 // GB/s

	User, Group, Executable int     // −1 unknown
	Deadline                float64 // absolute, s; NaN none
}

// Label returns the name of the job, or its ID where it has none.
func (j *Job) Label() string {
	if j.Name != "" {
		return j.Name
	}
	return strconv.Itoa(j.ID)
}

// Estimate returns the expected run time in seconds: the request, or the run time where there is no request, cut at the limit.
func (j *Job) Estimate() float64 {
	e := j.Request
	if e <= 0 {
		e = j.Run
	}
	if j.Limit > 0 {
		e = min(e, j.Limit)
	}
	return e
}

// maxTime bounds all times of a job, s: sums below it keep microsecond resolution in a float64.
const maxTime = 1e12

// Validate reports all problems of the job.
func (j *Job) Validate() error {
	if j.Procs >= 1 && valid(j.Submit) && valid(j.Run) && valid(j.Request) && valid(j.Limit) {
		return nil
	}
	var errs []error
	if j.Procs < 1 {
		errs = append(errs, fmt.Errorf("%d processors, want 1 or more", j.Procs))
	}
	for _, t := range []struct {
		what string
		s    float64
	}{{"submission at", j.Submit}, {"run time", j.Run}, {"requested time", j.Request}, {"limit", j.Limit}} {
		if !valid(t.s) {
			errs = append(errs, fmt.Errorf("%s %v s, want 0 to %g", t.what, t.s, maxTime))
		}
	}
	return errors.Join(errs...)
}

func valid(seconds float64) bool { return seconds >= 0 && seconds <= maxTime }

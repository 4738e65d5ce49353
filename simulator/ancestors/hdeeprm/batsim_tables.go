package hdeeprm

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

// jobColumns are the columns of jobs.csv in version 3.
var jobColumns = []string{"job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
	"success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time", "stretch",
	"allocated_resources", "consumed_energy", "metadata"}

// WriteJobs writes the table of jobs as Batsim's version 3 does (out_jobs.csv): times in s and energy in J with six
// decimals, −1 for no limit and for the energy, which is unknown. Rejected and unfinished jobs have no times; the states of
// the latter are SUBMITTED and RUNNING. profile returns the name of a job's profile; nil means "".
func WriteJobs(w io.Writer, r *queue.Result, profile func(*order.Job) string) error {
	b := bufio.NewWriter(w)
	b.WriteString(strings.Join(jobColumns, ",") + "\n")
	for i := range r.Jobs {
		b.WriteString(strings.Join(jobFields(&r.Jobs[i], profile), ",") + "\n")
	}
	return b.Flush()
}

// jobFields returns the fields of one job in the order of jobColumns.
func jobFields(out *queue.Outcome, profileOf func(*order.Job) string) []string {
	j := out.Job
	name, workload := j.Name, "w0"
	name = cmp.Or(name, strconv.Itoa(j.ID))
	if before, after, ok := strings.Cut(name, "!"); ok {
		workload, name = cmp.Or(before, workload), after
	}
	limit, profile := -1.0, ""
	if j.Limit > 0 {
		limit = j.Limit
	}
	if profileOf != nil {
		profile = profileOf(j)
	}
	success := "0"
	if out.State == queue.Completed {
		success = "1"
	}
	row := []string{quoted(name), quoted(workload), quoted(profile), decimals(j.Submit), strconv.Itoa(j.Procs), decimals(limit),
		success, finalState[out.State], "", "", "", "", "", "", "", "", `""`}
	if out.Ran() {
		stretch := 1.0
		if out.End > out.Start {
			stretch = out.Slowdown()
		}
		for i, v := range []float64{out.Start, out.End - out.Start, out.End, out.Wait(), out.Turnaround(), stretch} {
			row[8+i] = decimals(v)
		}
		row[14], row[15] = FormatIntervals(out.Cores), decimals(-1)
	}
	return row
}

var finalState = map[queue.State]string{queue.Waiting: "SUBMITTED", queue.Running: "RUNNING",
	queue.Completed: "COMPLETED_SUCCESSFULLY", queue.Killed: "COMPLETED_WALLTIME_REACHED", queue.Rejected: "REJECTED"}

func decimals(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }

// quoted quotes a field of a table if necessary.
func quoted(s string) string {
	if strings.ContainsAny(s, ",\"\r\n") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

// scheduleColumn is one value of the schedule table: an int, a float64, or the version string.
type scheduleColumn struct {
	Name  string
	Value any
}

// text returns the value in the format of the table.
func (c scheduleColumn) text() string {
	switch v := c.Value.(type) {
	case float64:
		return decimals(v)
	case string:
		return quoted(v)
	default:
		return fmt.Sprint(v)
	}
}

// scheduleSummary returns Batsim's summary of a simulation, in the order of its table. Slowdown is turnaround by run time
// without a bound (1 for jobs of 0 s); means are over all jobs, including unfinished ones; killed jobs are all that
// ended without success. Energy is −1 if unknown. Computing and idle times are totals over all cores, from 0 to the
// last end. wallS is the wall-clock time of the simulation, s.
func scheduleSummary(r *queue.Result, wallS float64) []scheduleColumn {
	s := sum(r)
	n := float64(max(len(r.Jobs), 1))
	joules := r.Energy
	if math.IsNaN(joules) {
		joules = -1
	}
	return []scheduleColumn{
		{"batsim_version", "trainopt"},
		{"consumed_joules", joules},
		{"makespan", s.last},
		{"max_slowdown", s.max[0]},
		{"max_turnaround_time", s.max[1]},
		{"max_waiting_time", s.max[2]},
		{"mean_slowdown", s.total[0] / n},
		{"mean_turnaround_time", s.total[1] / n},
		{"mean_waiting_time", s.total[2] / n},
		{"nb_computing_machines", r.Procs},
		{"nb_grouped_switches", r.GroupedSwitches},
		{"nb_jobs", len(r.Jobs)},
		{"nb_jobs_finished", s.completed + s.killed},
		{"nb_jobs_killed", s.killed},
		{"nb_jobs_rejected", s.rejected},
		{"nb_jobs_success", s.completed},
		{"nb_machine_switches", r.Switches},
		{"scheduling_time", 0.0},
		{"simulation_time", wallS},
		{"success_rate", float64(s.completed) / n},
		{"time_computing", s.busy},
		{"time_idle", max(0, float64(r.Procs)*s.last-s.busy)},
		{"time_sleeping", 0.0},
		{"time_switching_off", 0.0},
		{"time_switching_on", 0.0},
		{"time_unavailable", 0.0},
	}
}

// sums contains counts, totals and maxima over all jobs of a result.
type sums struct {
	completed, killed, rejected int
	last, busy                  float64    // last end, s; busy s over all cores
	max, total                  [3]float64 // of slowdown, turnaround, wait
}

// sum accumulates the counts, times and ratios of all jobs.
func sum(r *queue.Result) sums {
	var s sums
	for i := range r.Jobs {
		out := &r.Jobs[i]
		switch out.State {
		case queue.Completed:
			s.completed++
		case queue.Killed:
			s.killed++
		case queue.Rejected:
			s.rejected++
		}
		if !out.Ran() {
			continue
		}
		slowdown := 1.0
		if out.End > out.Start {
			slowdown = out.Slowdown()
		}
		for k, v := range [3]float64{slowdown, out.Turnaround(), out.Wait()} {
			s.max[k] = max(s.max[k], v)
			s.total[k] += v
		}
		s.last = max(s.last, out.End)
		s.busy += (out.End - out.Start) * float64(out.Job.Procs)
	}
	return s
}

// WriteSchedule writes Schedule as version 3 does (out_schedule.csv): a line of names and a line of values.
func WriteSchedule(w io.Writer, r *queue.Result, wallS float64) error {
	var names, values []string
	for _, c := range scheduleSummary(r, wallS) {
		names, values = append(names, c.Name), append(values, c.text())
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", strings.Join(names, ","), strings.Join(values, ","))
	return err
}

package share

import (
	"errors"
	"fmt"
	"slices"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/solve"
)

// alloX assigns single-device jobs to devices so that the mean completion time is minimal without further arrivals
// (Le et al., "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020, as implemented by Gavel): a minimum-cost
// assignment of jobs to (device, position from the end), where position k counts the processing time k times. Running
// jobs do not move. O(jobs³ · devices).
type alloX struct {
	alpha float64     // share of the waiting jobs, oldest first, that are considered
	held  map[int]int // device type by job ID
}

func newAlloX(o Options) schedule.Policy {
	p := &alloX{alpha: 1, held: map[int]int{}}
	if o.Alpha != nil {
		p.alpha = *o.Alpha
	}
	return p
}

// Traits returns those of Gavel's AlloX_Perf.
func (*alloX) Traits() schedule.Traits { return schedule.Traits{Name: "AlloX_Perf", FixedOrder: true} }

// Decide assigns one device type at full share to every job that runs now.
func (p *alloX) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	free, _ := freeDevices(s)
	held := make(map[int]int, len(p.held))
	var placed []fullShare
	var waiting []int
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.GPUs != 1 {
			return schedule.Allocation{}, fmt.Errorf("job %d asks for %d devices: AlloX is for jobs on a single device", j.ID, j.GPUs)
		}
		if d, ok := p.held[j.ID]; ok && free[d] > 0 { // unless devices have gone
			held[j.ID] = d
			placed = append(placed, fullShare{i, -1, d})
			free[d]--
		} else {
			waiting = append(waiting, i)
		}
	}
	var devices []int // type of each free device
	for d, n := range free {
		for range n {
			devices = append(devices, d)
		}
	}
	// Alpha limits the waiting jobs to the oldest, but never below the number of free devices.
	oldest := max(int(p.alpha*float64(len(waiting))), len(devices))
	first, err := firstOnEach(s, waiting[:min(oldest, len(waiting))], devices)
	if err != nil {
		return schedule.Allocation{}, err
	}
	for g, i := range first {
		if i >= 0 {
			held[s.Jobs[i].ID] = devices[g]
			placed = append(placed, fullShare{i, -1, devices[g]})
		}
	}
	keepAbsent(s, held, p.held)
	p.held = held
	return fullShares(s, placed), nil
}

// State implements schedule.Stateful.
func (p *alloX) State() []any { return []any{&p.held} }

// slowestRate is the rate assumed on a device type on which a job does not run.
const slowestRate = 1e-10

// maxAssignment limits the size of the cost matrix (half a gigabyte). In larger problems, only as many positions of
// each device, counted from the end, are considered as fit.
const maxAssignment = 1 << 26

// firstOnEach returns the job that runs first on each device; −1: none.
func firstOnEach(s *schedule.Snapshot, jobs, devices []int) ([]int, error) {
	first := slices.Repeat([]int{-1}, len(devices))
	if len(jobs) == 0 || len(devices) == 0 {
		return first, nil
	}
	n, m := len(devices), len(jobs)
	positions := min(m, max(maxAssignment/(n*m), (m+n-1)/n))
	cost := make([][]float64, m)
	all := make([]float64, m*n*positions)
	alone := make([]float64, n)
	for r, i := range jobs {
		j := &s.Jobs[i]
		for g, d := range devices {
			rate := j.Rate[d]
			if rate == 0 {
				rate = slowestRate
			}
			alone[g] = j.Remaining / rate
		}
		// Cost: k times the processing time plus the time waited so far.
		row := all[r*n*positions : (r+1)*n*positions]
		for k := range positions {
			for g, t := range alone {
				row[k*n+g] = float64(float64(k+1)*t) + (s.Now - j.Arrival)
			}
		}
		cost[r] = row
	}
	// The job in the last position from the end runs first.
	columns := solve.Assign(cost)
	if columns == nil {
		return nil, errors.New("the assignment of jobs to devices has no solution")
	}
	earliest := make([]int, n)
	for r, c := range columns {
		g, k := c%n, c/n+1 // position counted from the end
		if k > earliest[g] {
			earliest[g], first[g] = k, jobs[r]
		}
	}
	return first, nil
}

package rounds

import (
	"errors"
	"fmt"

	"trainopt/optimizer/schedule/solve"
)

// alloX gives single-device jobs to devices so that the mean completion time is least if nobody else comes (Le et al., "AlloX:
// Compute Allocation in Hybrid Clusters", EuroSys 2020, as Gavel implements it): a minimum-cost assignment of jobs to (device,
// position from the end) where a job in position k counts k times its processing time. A job that has started stays where it
// is. O(jobs³ · devices).
type alloX struct {
	alpha float64     // share of the waiting jobs, oldest first, that are looked at
	held  map[int]int // device type by job ID
}

var _ Described = (*alloX)(nil)

func newAlloX(o PolicyOptions) Policy {
	p := &alloX{alpha: 1, held: map[int]int{}}
	if o.Alpha != nil {
		p.alpha = *o.Alpha
	}
	return p
}

// Traits are those of Gavel's AlloX_Perf.
func (*alloX) Traits() Traits { return Traits{Name: "AlloX_Perf", FixedOrder: true} }

// Decide gives every job that is to run now one device type for all its time.
func (p *alloX) Decide(s *Snapshot) (Allocation, error) {
	free, _ := freeDevices(s)
	held := make(map[int]int, len(p.held))
	var placed []whole
	var waiting []int
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.GPUs != 1 {
			return Allocation{}, fmt.Errorf("job %d asks for %d devices: AlloX is for jobs on a single device", j.ID, j.GPUs)
		}
		if d, ok := p.held[j.ID]; ok {
			held[j.ID] = d
			placed = append(placed, whole{i, -1, d})
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
	oldest := max(int(p.alpha*float64(len(waiting))), len(devices))
	first, err := firstOnEach(s, waiting[:min(oldest, len(waiting))], devices)
	if err != nil {
		return Allocation{}, err
	}
	for g, i := range first {
		if i >= 0 {
			held[s.Jobs[i].ID] = devices[g]
			placed = append(placed, whole{i, -1, devices[g]})
		}
	}
	p.held = held
	return wholeShares(s, placed), nil
}

// slowestRate stands for a device type on which a job does not run.
const slowestRate = 1e-10

// maxAssignment bounds the entries of the cost matrix (half a gigabyte). Above, as many positions of each device are looked at
// as it allows, which are the last ones to run.
const maxAssignment = 1 << 26

// firstOnEach is the job that runs first on each device, −1 for none.
func firstOnEach(s *Snapshot, jobs, devices []int) ([]int, error) {
	first := make([]int, len(devices))
	for g := range first {
		first[g] = -1
	}
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
		row := all[r*n*positions : (r+1)*n*positions]
		for k := range positions {
			for g, t := range alone {
				row[k*n+g] = float64(float64(k+1)*t) + (s.Now - j.Arrival)
			}
		}
		cost[r] = row
	}
	columns := solve.Assign(cost)
	if columns == nil {
		return nil, errors.New("the assignment of jobs to devices has no solution")
	}
	earliest := make([]int, n)
	for r, c := range columns {
		g, k := c%n, c/n+1 // counted from the end
		if k > earliest[g] {
			earliest[g], first[g] = k, jobs[r]
		}
	}
	return first, nil
}

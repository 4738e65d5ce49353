package share

import (
	"cmp"
	"slices"

	"trainopt/optimizer/schedule"
)

// elasticFlow meets deadlines with the minimum number of devices and assigns the remaining devices where they help
// most (Gu et al., "ElasticFlow: An elastic serverless training platform for distributed deep learning", ASPLOS 2023,
// sections 4.2 and 4.3). An arriving job is admitted if it and all jobs admitted before can meet their deadlines. Its
// minimum satisfactory share is the smallest number of devices with which it does, given the devices that jobs with
// earlier deadlines leave. The remaining devices are assigned by doubling the number of devices of the job whose
// device-time grows least. Jobs that are not admitted, which the paper rejects, and jobs without deadline receive
// devices after all others; admission is tried again at each decision. Simplification: a share starts immediately and
// is constant until the job ends, whereas the paper fills time slots individually, so fewer jobs are admitted
// simultaneously.
//
// It uses deadlines, throughputs by number of devices and remaining steps. Numbers of devices are powers of two. O(n²
// · types · log devices).
type elasticFlow struct{ admitted map[int]bool }

func newElasticFlow(Options) schedule.Policy { return &elasticFlow{map[int]bool{}} }

// Traits sets OnlyShares: jobs without devices wait.
func (*elasticFlow) Traits() schedule.Traits {
	return schedule.Traits{Name: "ElasticFlow", FixedOrder: true, OnlyShares: true}
}

// Decide decides shares and, if the snapshot has rates by number of devices, these numbers.
func (p *elasticFlow) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	if s.SizedRate == nil {
		return p.decide(s, rigid(s)), nil
	}
	return p.decide(s, elastic(s)), nil
}

// State implements schedule.Stateful.
func (p *elasticFlow) State() []any { return []any{&p.admitted} }

// size is a device type and number of devices on which a job can run.
type size struct {
	Device, GPUs int
	Rate         float64 // steps/s
}

// rigid returns the sizes of each job with the number of devices that it requests.
func rigid(s *schedule.Snapshot) [][]size {
	out := make([][]size, len(s.Jobs))
	for i := range s.Jobs {
		for d, r := range s.Jobs[i].Rate {
			if r > 0 && s.Devices[d].Count >= s.Jobs[i].GPUs {
				out[i] = append(out[i], size{d, s.Jobs[i].GPUs, r})
			}
		}
	}
	return out
}

// elastic returns the sizes of each job in ascending number of devices (powers of two), the fastest type first.
func elastic(s *schedule.Snapshot) [][]size {
	out := make([][]size, len(s.Jobs))
	most := 0
	for d := range s.Devices {
		most = max(most, s.Devices[d].Count)
	}
	for i := range s.Jobs {
		for g := 1; g <= most; g *= 2 {
			from := len(out[i])
			for d := range s.Devices {
				if r := s.SizedRate(s.Jobs[i].Job, d, g); r > 0 && s.Devices[d].Count >= g {
					out[i] = append(out[i], size{d, g, r})
				}
			}
			slices.SortStableFunc(out[i][from:], func(a, b size) int { return cmp.Compare(b.Rate, a.Rate) })
		}
	}
	return out
}

// decide admits jobs, plans the minimum shares of admitted jobs with deadlines, and distributes the remaining
// devices.
func (p *elasticFlow) decide(s *schedule.Snapshot, sizes [][]size) schedule.Allocation {
	for i := range sizes {
		for k := range sizes[i] {
			sizes[i][k].Rate = restRate(s, &s.Jobs[i], sizes[i][k])
		}
	}
	var timed []int
	for i := range s.Jobs {
		if s.Jobs[i].Deadline > s.Now && p.admitted[s.Jobs[i].ID] {
			timed = append(timed, i)
		}
	}
	// Admission in order of arrival.
	for i := range s.Jobs {
		id := s.Jobs[i].ID
		if p.admitted[id] || !(s.Jobs[i].Deadline > s.Now) {
			continue
		}
		with := append(slices.Clone(timed), i)
		if _, ok := minimumShares(s, sizes, with); ok {
			timed = with
			p.admitted[id] = true
		}
	}
	// Minimum satisfactory shares.
	plan, _ := minimumShares(s, sizes, timed)
	free, _ := freeDevices(s)
	held := make([]*size, len(s.Jobs))
	for i, z := range plan {
		if z != nil && z.GPUs <= free[z.Device] {
			free[z.Device] -= z.GPUs
			held[i] = z
		}
	}
	giveRest(s, sizes, held, free)
	return sizedShares(s, held)
}

// minimumShares plans jobs in order of deadlines, each with the smallest number of devices with which it meets its
// deadline when it starts now, among those that stay free until then. Jobs that cannot meet their deadlines receive
// nothing; ok reports that no such job exists.
func minimumShares(s *schedule.Snapshot, sizes [][]size, jobs []int) (plan []*size, ok bool) {
	order := slices.Clone(jobs)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Jobs[a].Deadline, s.Jobs[b].Deadline) })
	plan = make([]*size, len(s.Jobs))
	used := make([]int, len(s.Devices)) // now: all shares start now, so more devices are free later
	ok = true
	for _, i := range order {
		j := &s.Jobs[i]
		for k := range sizes[i] {
			z := &sizes[i][k]
			if s.Now+j.Remaining/z.Rate <= j.Deadline && used[z.Device]+z.GPUs <= s.Devices[z.Device].Count {
				plan[i] = z
				used[z.Device] += z.GPUs
				break
			}
		}
		ok = ok && plan[i] != nil
	}
	return plan, ok
}

// giveRest assigns free devices first to jobs without any, in ascending order of remaining device-time, and then to
// the job whose device-time grows least.
func giveRest(s *schedule.Snapshot, sizes [][]size, held []*size, free []int) {
	for {
		best, most := -1, 0.0
		var take *size
		for i := range s.Jobs {
			for k := range sizes[i] {
				z := &sizes[i][k]
				if gain := gainOf(s, i, held[i], z, free); gain > most {
					best, most, take = i, gain, z
				}
			}
		}
		if best < 0 {
			return
		}
		if h := held[best]; h != nil {
			free[h.Device] += h.GPUs
		}
		free[take.Device] -= take.GPUs
		held[best] = take
	}
}

// gainOf returns the gain of a job from another size; 0 if the devices are not free or the job would not be faster.
// The first devices of a job rank above additional devices of any other.
func gainOf(s *schedule.Snapshot, i int, h, z *size, free []int) float64 {
	room := free[z.Device]
	if h == nil {
		if z.GPUs > room {
			return 0
		}
		return 1e6 + z.Rate/s.Jobs[i].Remaining/float64(z.GPUs)
	}
	if h.Device == z.Device {
		room += h.GPUs
	}
	if z.GPUs > room || z.Rate <= h.Rate*(1+1e-9) || z.GPUs < h.GPUs {
		return 0
	}
	return z.Rate / h.Rate * float64(h.GPUs) / float64(z.GPUs)
}

// sizedShares returns full shares of the devices held by jobs, with their numbers.
func sizedShares(s *schedule.Snapshot, held []*size) schedule.Allocation {
	placed, gpus := make([]fullShare, 0, len(held)), make([]int, 0, len(held))
	for i, z := range held {
		if z != nil {
			placed = append(placed, fullShare{i, -1, z.Device})
			gpus = append(gpus, z.GPUs)
		}
	}
	a := fullShares(s, placed)
	a.GPUs = gpus
	return a
}

package rounds

import (
	"cmp"
	"slices"
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

var (
	_ Described = (*elasticFlow)(nil)
	_ Elastic   = (*elasticFlow)(nil)
)

func newElasticFlow(PolicyOptions) Policy { return &elasticFlow{map[int]bool{}} }

// Traits sets OnlyShares: jobs without devices wait.
func (*elasticFlow) Traits() Traits {
	return Traits{Name: "ElasticFlow", FixedOrder: true, OnlyShares: true}
}

// Decide keeps the number of devices that jobs request.
func (p *elasticFlow) Decide(s *Snapshot) (Allocation, error) {
	a, _ := p.decide(s, rigid(s))
	return a, nil
}

// DecideSizes decides shares and numbers of devices.
func (p *elasticFlow) DecideSizes(s *Snapshot, rate SizedRate) (Allocation, []int, error) {
	a, gpus := p.decide(s, elastic(s, rate))
	return a, gpus, nil
}

// size is a device type and number of devices on which a job can run.
type size struct {
	device, gpus int
	rate         float64 // steps/s
}

// rigid returns the sizes of each job with the number of devices that it requests.
func rigid(s *Snapshot) [][]size {
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
func elastic(s *Snapshot, rate SizedRate) [][]size {
	out := make([][]size, len(s.Jobs))
	most := 0
	for d := range s.Devices {
		most = max(most, s.Devices[d].Count)
	}
	for i := range s.Jobs {
		for g := 1; g <= most; g *= 2 {
			from := len(out[i])
			for d := range s.Devices {
				if r := rate(s.Jobs[i].Job, d, g); r > 0 && s.Devices[d].Count >= g {
					out[i] = append(out[i], size{d, g, r})
				}
			}
			slices.SortStableFunc(out[i][from:], func(a, b size) int { return cmp.Compare(b.rate, a.rate) })
		}
	}
	return out
}

// decide admits jobs, plans the minimum shares of admitted jobs with deadlines, and distributes the remaining
// devices.
func (p *elasticFlow) decide(s *Snapshot, sizes [][]size) (Allocation, []int) {
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
		if z != nil && z.gpus <= free[z.device] {
			free[z.device] -= z.gpus
			held[i] = z
		}
	}
	giveRest(s, sizes, held, free)
	return sizedShares(s, held)
}

// minimumShares plans jobs in order of deadlines, each with the smallest number of devices with which it meets its
// deadline when it starts now, among those that stay free until then. Jobs that cannot meet their deadlines receive
// nothing; ok reports that no such job exists.
func minimumShares(s *Snapshot, sizes [][]size, jobs []int) (plan []*size, ok bool) {
	order := slices.Clone(jobs)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Jobs[a].Deadline, s.Jobs[b].Deadline) })
	plan = make([]*size, len(s.Jobs))
	used := make([]int, len(s.Devices)) // now: all shares start now, so more devices are free later
	ok = true
	for _, i := range order {
		j := &s.Jobs[i]
		for k := range sizes[i] {
			z := &sizes[i][k]
			if s.Now+j.Remaining/z.rate <= j.Deadline && used[z.device]+z.gpus <= s.Devices[z.device].Count {
				plan[i] = z
				used[z.device] += z.gpus
				break
			}
		}
		ok = ok && plan[i] != nil
	}
	return plan, ok
}

// giveRest assigns free devices first to jobs without any, in ascending order of remaining device-time, and then to
// the job whose device-time grows least.
func giveRest(s *Snapshot, sizes [][]size, held []*size, free []int) {
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
			free[h.device] += h.gpus
		}
		free[take.device] -= take.gpus
		held[best] = take
	}
}

// gainOf returns the gain of a job from another size; 0 if the devices are not free or the job would not be faster.
// The first devices of a job rank above additional devices of any other.
func gainOf(s *Snapshot, i int, h, z *size, free []int) float64 {
	room := free[z.device]
	if h == nil {
		if z.gpus > room {
			return 0
		}
		return 1e6 + z.rate/s.Jobs[i].Remaining/float64(z.gpus)
	}
	if h.device == z.device {
		room += h.gpus
	}
	if z.gpus > room || z.rate <= h.rate*(1+1e-9) || z.gpus < h.gpus {
		return 0
	}
	return z.rate / h.rate * float64(h.gpus) / float64(z.gpus)
}

// sizedShares returns full shares of the devices held by jobs, and their numbers.
func sizedShares(s *Snapshot, held []*size) (Allocation, []int) {
	var placed []whole
	var gpus []int
	for i, z := range held {
		if z != nil {
			placed = append(placed, whole{i, -1, z.device})
			gpus = append(gpus, z.gpus)
		}
	}
	return wholeShares(s, placed), gpus
}

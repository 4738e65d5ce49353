package rounds

import (
	"cmp"
	"slices"
)

// elasticFlow meets deadlines with as few devices as are enough, and gives the rest to whom they help most (Gu et al., "ElasticFlow: An
// elastic serverless training platform for distributed deep learning", ASPLOS 2023, sections 4.2 and 4.3). A job that arrives is admitted
// if it and all that were admitted before can be in time; the least number of devices with which it is, in what those with
// earlier deadlines leave, is its minimum satisfactory share. What is left now goes, by doublings, to the job whose device-time grows
// least for it. Jobs that are not admitted, which the paper turns away, and jobs without deadline get devices after all others, and
// are tried again at each decision. Simplified: a share begins now and is the same until the job ends, where the paper fills
// time slots one by one, so that fewer jobs are admitted at once.
//
// It knows deadlines, rates by number of devices and the steps that are left. Numbers of devices are powers of two.
// O(n² · types · log devices).
type elasticFlow struct{ admitted map[int]bool }

var (
	_ Described = (*elasticFlow)(nil)
	_ Elastic   = (*elasticFlow)(nil)
)

func newElasticFlow(PolicyOptions) Policy { return &elasticFlow{map[int]bool{}} }

// Traits say that who has no device waits.
func (*elasticFlow) Traits() Traits {
	return Traits{Name: "ElasticFlow", FixedOrder: true, OnlyShares: true}
}

// Decide decides for jobs that run on as many devices as they ask for.
func (p *elasticFlow) Decide(s *Snapshot) (Allocation, error) {
	a, _ := p.decide(s, rigid(s))
	return a, nil
}

// DecideSizes decides shares and numbers of devices.
func (p *elasticFlow) DecideSizes(s *Snapshot, rate SizedRate) (Allocation, []int, error) {
	a, gpus := p.decide(s, elastic(s, rate))
	return a, gpus, nil
}

// size is a number of devices of a type on which a job runs.
type size struct {
	device, gpus int
	rate         float64 // steps/s
}

// rigid are the sizes by job when each runs on as many devices as it asks for.
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

// elastic are the sizes by job, by number of devices and then the fastest first; numbers are powers of two.
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

func (p *elasticFlow) decide(s *Snapshot, sizes [][]size) (Allocation, []int) {
	var timed []int
	for i := range s.Jobs {
		if s.Jobs[i].Deadline > s.Now && p.admitted[s.Jobs[i].ID] {
			timed = append(timed, i)
		}
	}
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

// minimumShares plans jobs in the order of deadlines, each with the fewest devices with which it is in time from now on, of what is
// free until its deadline. Jobs that cannot be in time get nothing; ok says that there is none.
func minimumShares(s *Snapshot, sizes [][]size, jobs []int) (plan []*size, ok bool) {
	order := slices.Clone(jobs)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Jobs[a].Deadline, s.Jobs[b].Deadline) })
	plan = make([]*size, len(s.Jobs))
	used := make([]int, len(s.Devices)) // now: all shares begin now, and later there is only more room
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

// giveRest gives free devices to those who have none, the shortest rest first, and then to whose device-time grows least by it.
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

// gainOf is what a job gains by another size; 0 when there is no room or it would not be faster. The first devices of a job count more
// than any others of another.
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

// sizedShares are all the time of the devices that jobs hold.
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

package share

import (
	"maps"
	"slices"

	"trainopt/optimizer/schedule"
)

// fifo assigns whole devices to jobs in order of arrival, each on a random type among those with enough free devices,
// until the job ends: first come, first served, without distinction of device types. The first job that fits on no
// type blocks those behind it. O(jobs · types).
type fifo struct {
	random Random
	held   map[int]int // device type by job ID
}

func newFIFO(o Options) schedule.Policy {
	if o.Compat {
		return &publishedFIFO{random: o.random(), held: map[int]holding{}}
	}
	return &fifo{random: o.random(), held: map[int]int{}}
}

// Traits returns those of Gavel's FIFO.
func (*fifo) Traits() schedule.Traits { return schedule.Traits{Name: "FIFO", OnlyShares: true} }

// Decide assigns one device type at full share to every job that fits.
func (p *fifo) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	free, _ := freeDevices(s)
	held := make(map[int]int, len(p.held))
	var placed []fullShare
	// Running jobs keep their type, unless a job has grown, or devices have gone, so that they do not fit any more.
	for i := range s.Jobs {
		if d, ok := p.held[s.Jobs[i].ID]; ok && s.Jobs[i].GPUs <= free[d] {
			held[s.Jobs[i].ID] = d
			placed = append(placed, fullShare{i, -1, d})
			free[d] -= s.Jobs[i].GPUs
		}
	}
	keepAbsent(s, held, p.held)
	p.held = held
	// Waiting jobs draw one of the types with enough free devices.
	var room []int
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if _, ok := held[j.ID]; ok {
			continue
		}
		room = room[:0]
		for d, n := range free {
			if n >= j.GPUs && j.Rate[d] > 0 {
				room = append(room, d)
			}
		}
		if len(room) == 0 {
			break
		}
		d := room[p.random.IntN(len(room))]
		held[j.ID] = d
		placed = append(placed, fullShare{i, -1, d})
		free[d] -= j.GPUs
	}
	return fullShares(s, placed), nil
}

// State implements schedule.Stateful.
func (p *fifo) State() []any { return []any{&p.held} }

// publishedFIFO is Gavel's FIFO as published. The device type is drawn at random, but the job is assigned the last
// type in alphabetical order that remains in the list, even if it lacks free devices; and when a type has exactly
// none left, the drawn type is removed from the list instead. When many jobs wait simultaneously, most of them end up
// permanently on one type.
type publishedFIFO struct {
	random Random
	held   map[int]holding // by job ID
}

// holding is the device type and number of devices of a running job.
type holding struct{ device, gpus int }

// Traits returns those of Gavel's FIFO, whose shares may exceed the devices.
func (*publishedFIFO) Traits() schedule.Traits {
	return schedule.Traits{Name: "FIFO", OnlyShares: true, Overcommits: true}
}

// Decide assigns one device type at full share to jobs.
func (p *publishedFIFO) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	index := make(map[int]int, len(s.Jobs)) // by ID
	var queue []int
	for i := range s.Jobs {
		index[s.Jobs[i].ID] = i
		if _, ok := p.held[s.Jobs[i].ID]; !ok {
			queue = append(queue, i)
		}
	}
	free, _ := freeDevices(s)
	queue = p.replace(s, index, queue, free)
	p.fill(s, queue, free)
	var placed []fullShare
	for i := range s.Jobs {
		if h, ok := p.held[s.Jobs[i].ID]; ok {
			placed = append(placed, fullShare{i, -1, h.device})
		}
	}
	return fullShares(s, placed), nil
}

// replace assigns the device type of each ended job to the head of the queue, if the head runs on that type and fits
// the devices left by jobs with lower IDs.
func (p *publishedFIFO) replace(s *schedule.Snapshot, index map[int]int, queue, free []int) []int {
	for _, id := range slices.Sorted(maps.Keys(p.held)) {
		h := p.held[id]
		if _, running := index[id]; running {
			free[h.device] -= h.gpus
			continue
		}
		if len(queue) > 0 {
			head := &s.Jobs[queue[0]]
			if head.GPUs <= free[h.device] && head.Rate[h.device] > 0 {
				queue = queue[1:]
				p.held[head.ID] = holding{h.device, head.GPUs}
				free[h.device] -= head.GPUs
			}
		}
		delete(p.held, id)
	}
	return queue
}

// fill assigns device types to the queue until no type has enough free devices for its head.
func (p *publishedFIFO) fill(s *schedule.Snapshot, queue, free []int) {
	var types []int
	for d, n := range free {
		if n > 0 {
			types = append(types, d)
		}
	}
	for len(queue) > 0 && len(types) > 0 {
		j := &s.Jobs[queue[0]]
		queue = queue[1:]
		var room []int // indices into types
		for i, d := range types {
			if free[d] >= j.GPUs {
				room = append(room, i)
			}
		}
		if len(room) == 0 {
			return
		}
		drawn := room[p.random.IntN(len(room))]
		last := types[len(types)-1]
		if j.Rate[last] <= 0 {
			continue
		}
		p.held[j.ID] = holding{last, j.GPUs}
		free[last] -= j.GPUs
		if free[last] == 0 {
			types = slices.Delete(types, drawn, drawn+1)
		}
	}
}

// fifoPerf assigns whole devices to jobs in order of arrival, each on its fastest type among those with enough free
// devices (Gavel, section 4.4 "FIFO"). The first job that fits on no type blocks those behind it. O(jobs · types).
type fifoPerf struct{}

// Traits returns those of Gavel's FIFO_Perf.
func (fifoPerf) Traits() schedule.Traits {
	return schedule.Traits{Name: "FIFO_Perf", FixedOrder: true, OnlyShares: true}
}

// Decide assigns one device type at full share to every job that fits.
func (fifoPerf) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	placed, _ := placeInOrder(withRestarts(s))
	return fullShares(s, placed), nil
}

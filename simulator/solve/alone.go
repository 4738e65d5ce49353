package solve

import "math"

// alone is the program of a Sharing without pairs, and where its groups and columns come from.
type alone struct {
	*program
	groupOf []int     // by job; −1: not in the program
	kinds   []int     // the kinds that have devices
	unit    []float64 // by group: what its rates were divided by
	member  []int     // by group: a job of it
}

// groupAlone makes one group of all jobs that are equal in rates, scale and every one of keys (nil slices are skipped).
// Jobs that skip says true of are left out. The rates of a group are divided by the largest, capacities are 1.
func groupAlone(s *Sharing, skip func(i int) bool, gain [][]float64, keys ...[]float64) *alone {
	a := &alone{program: &program{}, groupOf: make([]int, len(s.Rate))}
	for j, d := range s.Devices {
		if d > 0 {
			a.kinds = append(a.kinds, j)
			a.capacity = append(a.capacity, 1)
		}
	}
	seen := newJobTable(len(s.Rate), len(a.kinds)*2+1+len(keys))
	numbers := make([]float64, 0, 16)
	for i, rate := range s.Rate {
		if skip(i) || len(a.kinds) == 0 {
			a.groupOf[i] = -1
			continue
		}
		numbers = append(numbers[:0], s.Scale[i])
		for _, j := range a.kinds {
			numbers = append(numbers, rate[j])
			if gain != nil {
				numbers = append(numbers, gain[i][j])
			}
		}
		for _, k := range keys {
			if k != nil {
				numbers = append(numbers, k[i])
			}
		}
		g, known := seen.find(numbers, len(a.count))
		a.groupOf[i] = g
		if known {
			a.count[g]++
			continue
		}
		a.add(s, i, gain)
	}
	return a
}

func (a *alone) add(s *Sharing, i int, gain [][]float64) {
	a.addGroup(1)
	unit := 0.0
	for _, j := range a.kinds {
		unit = max(unit, s.Rate[i][j])
	}
	if unit == 0 {
		unit = 1
	}
	a.unit = append(a.unit, unit)
	a.member = append(a.member, i)
	for c, j := range a.kinds {
		v := 0.0
		if gain != nil {
			v = gain[i][j]
		}
		a.addColumn(c, s.Rate[i][j]/unit, s.Scale[i]/s.Devices[j], v)
	}
}

// shares are the shares by job and kind of a point of the program.
func (a *alone) shares(s *Sharing, x []float64) [][]float64 {
	J := len(s.Devices)
	flat := make([]float64, len(s.Rate)*J)
	out := make([][]float64, len(s.Rate))
	for i := range out {
		out[i] = flat[i*J : (i+1)*J : (i+1)*J]
		if g := a.groupOf[i]; g >= 0 {
			for c, j := range a.kinds {
				out[i][j] = x[a.start[g]+c]
			}
		}
	}
	return out
}

// best is the largest rate of a job on kinds that have devices.
func (s *Sharing) best(i int) float64 {
	most := 0.0
	for j, r := range s.Rate[i] {
		if s.Devices[j] > 0 {
			most = max(most, r)
		}
	}
	return most
}

// jobTable finds lists of numbers that were seen before, by their bits.
type jobTable struct {
	width   int
	slots   []int32 // index+1 into numbers
	numbers []float64
	group   []int32
}

func newJobTable(n, width int) *jobTable {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return &jobTable{width: width, slots: make([]int32, size), numbers: make([]float64, 0, min(n, 256)*width)}
}

// find returns what was stored for these numbers, or stores fresh.
func (t *jobTable) find(numbers []float64, fresh int) (group int, known bool) {
	width := len(numbers)
	h := uint64(1469598103934665603)
	for _, v := range numbers {
		h = (h ^ math.Float64bits(v)) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	mask := uint64(len(t.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		e := int(t.slots[at])
		if e == 0 {
			t.numbers = append(t.numbers, numbers...)
			t.group = append(t.group, int32(fresh))
			t.slots[at] = int32(len(t.group))
			return fresh, false
		}
		if equalNumbers(t.numbers[(e-1)*width:e*width], numbers) {
			return int(t.group[e-1]), true
		}
	}
}

func equalNumbers(a, b []float64) bool {
	for i, v := range a {
		if v != b[i] {
			return false
		}
	}
	return true
}

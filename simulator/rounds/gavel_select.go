package rounds

// selection chooses what runs in a round: by priority (share due over share received), then by deficit, then by share, each
// entry that still fits onto the devices that are left and whose jobs are not chosen yet.
type selection struct {
	chosen [][]*entry // by device type
	round  int
	free   int // devices left of the type that is being filled
	left   int // jobs that are not chosen yet
	// everyone says that every entry with a share was chosen.
	everyone bool
	heap     []candidate
}

// candidate is an entry with what it is ordered by.
type candidate struct {
	priority, deficit, share float64
	entry                    *entry
}

// before is a total order: it is that of a stable sort.
func (c *candidate) before(o *candidate) bool {
	switch {
	case c.priority != o.priority:
		return c.priority > o.priority
	case c.deficit != o.deficit:
		return c.deficit > o.deficit
	case c.share != o.share:
		return c.share > o.share
	}
	return c.entry.turn < o.entry.turn
}

func (s *selection) init(devices []DeviceType) { s.chosen = make([][]*entry, len(devices)) }

func (s *selection) start(round, jobs int) { s.round, s.left, s.everyone = round, jobs, true }

// noTime stands for an infinite priority: a share, and nothing received.
const noTime = 1e9

// fill chooses among those with a share of a device type with so many devices. total is the time that all entries received there.
func (s *selection) fill(device, free int, total float64, sharing []*entry) {
	s.free, s.chosen[device] = free, s.chosen[device][:0]
	h := s.heap[:0]
	for _, e := range sharing {
		share := e.x[device]
		if share == 0 || !e.runs(device) {
			continue
		}
		if e.chosen(s.round) {
			s.everyone = false
			continue
		}
		priority := share * noTime
		if total != 0 && e.got[device]/total > 0 {
			priority = share / (e.got[device] / total)
		}
		h = append(h, candidate{priority, e.deficit[device], share, e})
	}
	s.heap = h
	s.take(device)
}

// fillUp chooses among those without a share for the devices that are left.
func (s *selection) fillUp(device int, entries []*entry) {
	if s.free == 0 || s.left == 0 {
		return
	}
	h := s.heap[:0]
	for _, e := range entries {
		if e.x[device] == 0 && !e.chosen(s.round) && e.runs(device) {
			h = append(h, candidate{deficit: e.deficit[device], entry: e})
		}
	}
	s.heap = h
	s.take(device)
}

// take chooses from the heap, first to last, until nothing is left to be had.
func (s *selection) take(device int) {
	h := s.heap
	for i := len(h)/2 - 1; i >= 0; i-- {
		down(h, i)
	}
	for len(h) > 0 && s.free > 0 && s.left > 0 {
		e := h[0].entry
		h[0] = h[len(h)-1]
		h = h[:len(h)-1]
		down(h, 0)
		if e.gpus > s.free || e.chosen(s.round) {
			s.everyone = false
			continue
		}
		s.free -= e.gpus
		s.left--
		if e.b != nil {
			s.left--
		}
		e.choose(s.round)
		s.chosen[device] = append(s.chosen[device], e)
	}
	s.everyone = s.everyone && len(h) == 0
}

// down restores a heap whose first is at i.
func down(h []candidate, i int) {
	for {
		first := 2*i + 1
		if first >= len(h) {
			return
		}
		if second := first + 1; second < len(h) && h[second].before(&h[first]) {
			first = second
		}
		if !h[first].before(&h[i]) {
			return
		}
		h[i], h[first] = h[first], h[i]
		i = first
	}
}

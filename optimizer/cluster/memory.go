package cluster

import (
	"cmp"
	"fmt"

	"trainopt/optimizer/run"
)

// memory is the largest memory that was measured of a job, GiB; 0: not measured.
type memory struct {
	Host   float64 `json:"host_gib,omitempty"`
	Device float64 `json:"device_gib,omitempty"` // on the fullest of its devices
}

const (
	fullMemory    = 0.95 // share of a memory from which it is about to run out
	notableMemory = 1.1  // increase of a measured memory from which policies decide again
	aloneReadings = 3    // of a device without another job, before one counts as that of the job
)

// memory returns what was measured of a job, or else of one of the same command.
func (j *learned) memory() memory {
	if j.Memory == (memory{}) && j.like != nil {
		return j.like.Memory
	}
	return j.Memory
}

// fits reports whether the memory of two jobs fits together: on devices, if that of a device is known, and into the memory of
// the machine that belongs to the devices. What is not known fits.
func (l *learner) fits(i, j *learned, device, gpus int) bool {
	x, y := i.memory(), j.memory()
	host, own := fullMemory*l.hostGiB[device]*float64(gpus), fullMemory*l.deviceGiB[device]
	return (host == 0 || x.Host+y.Host <= host) && (own == 0 || x.Device+y.Device <= own)
}

// noteMemory takes the memory of a job, and separates it from another one on the same devices before that runs out.
func (s *server) noteMemory(l *live, st *run.Status) {
	d := s.scheduler.typeOf(l.Device)
	if d < 0 {
		return
	}
	used, total := 0.0, 0.0
	for _, g := range st.Devices {
		if g.TotalGiB > 0 && g.MemoryGiB/g.TotalGiB >= used/max(total, 1e-9) {
			used, total = g.MemoryGiB, g.TotalGiB
		}
	}
	s.rates.deviceGiB[d] = max(s.rates.deviceGiB[d], total)
	before := l.Memory
	if l.resident = 0; st.MemoryGiB > 0 {
		l.resident = st.MemoryGiB
		l.Memory.Host = max(l.Memory.Host, l.resident)
	}
	other := s.jobs[l.Beside]
	if other == nil {
		if l.unshared++; l.unshared >= aloneReadings {
			l.Memory.Device = max(l.Memory.Device, used)
		}
		if l.Memory.Host > notableMemory*before.Host || l.Memory.Device > notableMemory*before.Device {
			s.rates.jobs[l.ID].version++
			s.scheduler.Changed(s.now(), l.ID)
		}
		return
	}
	l.unshared = 0
	host := s.rates.hostGiB[d] * float64(len(l.Where))
	switch both := l.resident + other.resident; {
	case used > fullMemory*total:
		first, last := inOrder(l, other)
		first.Memory.Device = cmp.Or(first.Memory.Device, max(used-last.Memory.Device, used/2))
		last.Memory.Device = max(last.Memory.Device, used-first.Memory.Device)
		s.separate(l, other, fmt.Sprintf("%.3g of %.3g GiB of a device are used", used, total))
	case host > 0 && l.resident > 0 && other.resident > 0 && both > fullMemory*host:
		s.separate(l, other, fmt.Sprintf("they use %.3g of %.3g GiB that belong to the devices", both, host))
	}
}

// inOrder returns the job that has had the devices for longer first.
func inOrder(a, b *live) (first, last *live) {
	if b.held.Before(a.held) {
		return b, a
	}
	return a, b
}

// separate takes the devices from the job that has come last, since memory is about to run out. They do not fit together any
// more by what was measured.
func (s *server) separate(a, b *live, why string) {
	first, last := inOrder(a, b)
	if last.State == Stopping || first.State == Stopping {
		return
	}
	why = fmt.Sprintf("memory is about to run out beside job %d: %s", first.ID, why)
	s.Message(fmt.Sprintf("job %d (%s): %s", last.ID, last.Name, why))
	if last.Keeps == nil || !*last.Keeps { // it starts again from the beginning
		last.Apart = true
	}
	s.rates.outdate(s.rates.jobs[first.ID])
	s.rates.outdate(s.rates.jobs[last.ID])
	s.dirty[first.ID], s.dirty[last.ID] = true, true
	s.scheduler.part(s.now(), last.ID)
	if s.scheduler.StopJob(s.now(), last.ID, why) != nil {
		s.leave(last)
	}
}

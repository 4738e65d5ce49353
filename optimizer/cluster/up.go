package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// settledReadings is the number of successive readings with fewer devices after which they count as lost: a controller
// that has just been restarted may not have heard of all of its nodes yet.
const settledReadings = 3

// watchDevices reads how many devices are up, several times a round, until ctx ends.
func (s *server) watchDevices(ctx context.Context) {
	tick := time.NewTicker(min(max(s.Round/4, time.Second), 20*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		up, err := s.Site.Up(limited)
		cancel()
		if err != nil { // the controller does not answer: nothing is known of the nodes
			continue
		}
		select {
		case s.up <- up:
		case <-ctx.Done():
			return
		}
	}
}

// beginUp takes the numbers of devices that are up when the server starts. If none is, or that is unknown, all count as up.
func (s *server) beginUp() {
	limited, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	up, err := s.Site.Up(limited)
	have := counts(s.rates.devices)
	if err != nil || len(up) != len(have) || slices.Equal(up, have) || slices.Max(up) == 0 {
		return
	}
	s.setCounts(up)
	s.noteUp(have)
}

// takeUp takes the numbers of devices that are up. Jobs on devices that were lost move to others.
func (s *server) takeUp(up []int) {
	have := counts(s.rates.devices)
	if len(up) != len(have) || slices.Equal(up, have) {
		s.missing = 0
		return
	}
	fewer, total := false, 0
	for d, n := range up {
		fewer = fewer || n < have[d]
		total += n
	}
	if s.missing++; fewer && s.missing < settledReadings || total == 0 { // without any device, jobs wait where they are
		return
	}
	s.missing = 0
	if err := s.recount(up); err != nil {
		s.Message(fmt.Sprintf("devices: %v", err))
	}
}

// recount continues with other numbers of devices. Leases on devices that no longer exist are dropped.
func (s *server) recount(up []int) error {
	state, err := s.scheduler.State()
	if err != nil {
		return err
	}
	have := counts(s.rates.devices)
	var jobs []*Job
	var specs []*Spec
	for _, l := range s.sortedJobs() {
		jobs, specs = append(jobs, l.Job), append(specs, l.spec)
	}
	s.setCounts(up)
	next, err := s.restored(s.scheduler.Policy, state, jobs, specs)
	if err != nil {
		s.setCounts(have)
		return err
	}
	next.halted = s.scheduler.halted
	next.stale = true
	next.engine.Replan()
	s.scheduler = next
	s.noteUp(have)
	s.admitNew() // what had too few devices before
	return s.saveInfo()
}

// setCounts sets the numbers of devices.
func (s *server) setCounts(numbers []int) {
	s.rates.devices = slices.Clone(s.rates.devices)
	for d, n := range numbers {
		s.rates.devices[d].Count = n
	}
	for _, j := range s.rates.jobs { // policies remember what a kind of job can run on
		j.version++
	}
}

// noteUp records that other numbers of devices are up than before.
func (s *server) noteUp(before []int) {
	devices := s.present()
	var changed []string
	s.info.Down = map[string]int{}
	for d, n := range counts(s.rates.devices) {
		if lost := s.info.Devices[d].Count - n; lost > 0 {
			s.info.Down[devices[d].Name] = lost
		}
		if n != before[d] {
			changed = append(changed, fmt.Sprintf("%d %s instead of %d", n, devices[d].Name, before[d]))
		}
	}
	s.record(s.now(), Event{Kind: EventDevices, Devices: devices, Reason: strings.Join(changed, ", ")})
	s.Message("devices up: " + strings.Join(changed, ", "))
}

// present returns the devices with the numbers that are up.
func (s *server) present() []Device {
	devices := slices.Clone(s.Site.Devices())
	for d := range devices {
		devices[d].Count = s.rates.devices[d].Count
	}
	return devices
}

// lost reports whether a job holds devices that do not exist any more.
func (s *server) lost(l *live) bool {
	d := s.scheduler.typeOf(l.Device)
	return d < 0 || slices.ContainsFunc(l.Where, func(g int32) bool { return int(g) >= s.rates.devices[d].Count })
}

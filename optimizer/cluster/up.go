package cluster

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
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

// beginUp takes what is up when the server starts. If no device is, or that is unknown, all count as up.
func (s *server) beginUp() {
	limited, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	up, err := s.Site.Up(limited)
	have := counts(s.rates.devices)
	if s.out = s.devicesOut(); s.out != nil {
		s.setAbsent(s.out)
		s.noteUp(have)
		have = counts(s.rates.devices)
	}
	up = s.without(up)
	s.read = have
	if err != nil || len(up.devices) != len(have) || slices.Equal(up.devices, have) || slices.Max(up.devices) == 0 {
		return
	}
	s.setAbsent(s.absentOf(up))
	s.read = up.devices
	s.noteUp(have)
}

// takeUp takes what is up. Jobs on devices that were lost move to others.
func (s *server) takeUp(up presence) {
	up = s.without(up)
	if len(up.devices) != len(s.rates.devices) {
		s.missing = 0
		return
	}
	fewer := false
	for d, n := range s.read {
		fewer = fewer || up.devices[d] < n
	}
	if s.missing++; fewer && s.missing < settledReadings || slices.Max(up.devices) == 0 { // without any device, jobs wait where they are
		return
	}
	s.missing = 0
	if absent := s.absentOf(up); !slices.EqualFunc(absent, s.absent, slices.Equal) {
		if err := s.recount(absent); err != nil {
			s.Message(fmt.Sprintf("devices: %v", err))
			return
		}
	}
	s.read = up.devices
}

// recount continues with other absent devices. Leases on these are dropped.
func (s *server) recount(absent [][]int32) error {
	state, err := s.scheduler.State()
	if err != nil {
		return err
	}
	have, before := counts(s.rates.devices), s.absent
	var jobs []*Job
	var specs []*Spec
	for _, l := range s.sortedJobs() {
		jobs, specs = append(jobs, l.Job), append(specs, l.spec)
	}
	s.setAbsent(absent)
	next, err := s.restored(s.scheduler.Policy, state, jobs, specs)
	if err != nil {
		s.setAbsent(before)
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

// setAbsent sets the devices that are absent.
func (s *server) setAbsent(absent [][]int32) {
	s.absent = absent
	s.rates.devices = slices.Clone(s.rates.devices)
	for d, all := range s.Site.Devices() {
		s.rates.devices[d].Count = all.Count
		if absent != nil {
			s.rates.devices[d].Count -= len(absent[d])
		}
	}
	for _, j := range s.rates.jobs { // policies remember what a kind of job can run on
		j.version++
	}
}

// absentOf returns the numbers of the devices that count as absent, by type; nil: none. The engine chooses the nodes of jobs, and
// numbers of devices only count them: jobs on nodes that are down lose their leases, and those on other nodes keep theirs. A job that
// must not be interrupted keeps the devices of its node, on which it may run on, until it ends.
func (s *server) absentOf(up presence) [][]int32 {
	all := s.Site.Devices()
	out, some := make([][]int32, len(all)), false
	for d, t := range all {
		missing := t.Count - up.devices[d]
		if missing <= 0 {
			continue
		}
		before, held := make([]bool, t.Count), make([]holding, t.Count)
		if s.absent != nil {
			for _, g := range s.absent[d] {
				before[g] = true
			}
		}
		for _, l := range s.jobs {
			if !l.State.holds() || l.Device != t.Name {
				continue
			}
			for i, h := range s.holdingsOf(l, up.down) {
				switch g := l.Where[i]; {
				case int(g) >= t.Count || held[g] == bound || h == queues && before[g]:
				case h == bound || held[g] == unheld || h < held[g]:
					held[g] = h
				}
			}
		}
		missing -= stat.Count(held, func(h holding) bool { return h == bound })
		out[d] = chooseAbsent(held, before, max(t.PerServer, 1), missing)
		some = some || len(out[d]) > 0
	}
	if !some {
		return nil
	}
	return out
}

// holding says by what kind of job a device is held, in the order in which they lose it.
type holding int

const (
	onDownNode holding = iota - 1
	unheld
	queues // in the engine
	runs
	bound // on a node that is down, and must not be interrupted
)

// holdingsOf returns how a job holds each of its devices if some nodes are down: the first ones count those on its nodes that are.
func (s *server) holdingsOf(l *live, down []string) []holding {
	if l.Queued {
		return slices.Repeat([]holding{queues}, len(l.Where))
	}
	on := s.Site.On(filepath.Join(journal.RunsDir(s.StateDir), l.Run), false)
	lost := len(l.Where) * stat.Count(on, func(node string) bool { return slices.Contains(down, node) }) / max(len(on), 1)
	h := onDownNode
	if l.State != Stopping && (l.Keeps == nil || !*l.Keeps) {
		h = bound
	}
	return append(slices.Repeat([]holding{h}, lost), slices.Repeat([]holding{runs}, len(l.Where)-lost)...)
}

// chooseAbsent returns which devices of a type count as absent, given who holds them and which do already. Those of the same kind
// are on whole servers as far as possible.
func chooseAbsent(held []holding, before []bool, perServer, missing int) (absent []int32) {
	type tally struct{ first, kept, lost, before int } // of a server
	var servers []tally
	for g, h := range held {
		if g%perServer == 0 {
			servers = append(servers, tally{first: g})
		}
		on := &servers[len(servers)-1]
		switch h {
		case onDownNode, bound:
			on.lost++
		case queues, runs:
			on.kept++
		}
		if before[g] {
			on.before++
		}
	}
	slices.SortFunc(servers, func(a, b tally) int {
		return cmp.Or(a.kept-b.kept, b.lost-a.lost, b.before-a.before, b.first-a.first)
	})
	for h := onDownNode; h <= runs; h++ {
		for _, on := range servers {
			for g := min(on.first+perServer, len(held)) - 1; g >= on.first && len(absent) < missing; g-- {
				if held[g] == h {
					absent = append(absent, int32(g))
				}
			}
		}
	}
	slices.Sort(absent)
	return absent
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
	if len(changed) == 0 { // of other nodes
		return
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

// lost reports whether a job holds devices that are absent, or do not exist any more.
func (s *server) lost(l *live) bool {
	d := s.scheduler.typeOf(l.Device)
	return d < 0 || !s.scheduler.present(d, l.Where)
}

package cluster

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
)

// fault is a device of this machine, or a node, on which a job has failed soon. It is left out for a time, in which that job starts
// elsewhere: if it works on another place of the type, this one is at fault, and if it fails there too, the job is.
type fault struct {
	Place  string  `json:"place"`  // "a100:3", or the name of a node
	Device string  `json:"device"` // type
	Number int32   `json:"number"` // of the device; −1: a node
	Job    int     `json:"job"`    // that failed there last
	Jobs   int     `json:"jobs"`   // that failed there in a row, those of one script in a row as one while the place is not proven to be at fault
	Until  float64 `json:"until"`  // Unix seconds
	Proven bool    `json:"proven,omitempty"`
}

const (
	// failedSoon is the time in seconds on its devices within which a life fails soon, if it has done no unit of work.
	failedSoon = 300
	// suspectRounds and provenRounds are the rounds for which a place is left out, the first time.
	suspectRounds, provenRounds = 1, 4
	// mostDoubled limits how often that time is doubled, once for each further job.
	mostDoubled = 5
)

// rounds returns a number of rounds in seconds, doubled for each further job.
func (s *server) rounds(n float64, jobs int) float64 {
	return n * s.Round.Seconds() * math.Exp2(float64(min(jobs-1, mostDoubled)))
}

// placesOf returns where the present life of a job is, or the last one was; none: unknown.
func (s *server) placesOf(l *live) (at []fault) {
	if s.Site.Name() == "local" {
		for i, id := range deviceIDs(l.Device, l.Where) {
			at = append(at, fault{Place: id, Device: l.Device, Number: l.Where[i]})
		}
		return at
	}
	for _, node := range s.Site.On(filepath.Join(journal.RunsDir(s.StateDir), l.Run), true) {
		at = append(at, fault{Place: node, Device: l.Device, Number: -1})
	}
	return at
}

// startsElsewhere reports whether a job whose life has ended with an error starts once more, elsewhere: if it has failed soon, its
// devices may be at fault.
func (s *server) startsElsewhere(l *live, r run.Result) bool {
	if r.Code != run.CodeTraining && r.Code != run.CodeOurs || l.worked || l.shared || l.Attained-l.before > failedSoon*float64(len(l.Where)) ||
		errors.Is(r.Err, errPanicked) || errors.Is(r.Err, run.ErrNotResumable) {
		return false
	}
	if s.Site.Name() == "local" && errors.As(r.Err, new(*launch.StartError)) { // it has used no device of this machine
		return false
	}
	at := s.placesOf(l)
	if l.FailedOn != nil || len(at) == 0 {
		if len(at) > 0 && !slices.ContainsFunc(at, func(f fault) bool { return slices.Contains(l.FailedOn, f.Place) }) {
			s.acquit(l.ID)
		}
		return false
	}
	if !s.runsWithout(l, at) {
		return false
	}
	before := slices.Clone(s.info.Faults)
	var names []string
	for _, f := range at {
		i := slices.IndexFunc(s.info.Faults, func(o fault) bool { return o.Place == f.Place })
		if i < 0 {
			i = len(s.info.Faults)
			s.info.Faults = append(s.info.Faults, f)
		}
		known := &s.info.Faults[i]
		if known.Jobs == 0 || known.Proven || !s.sameScript(known.Job, l) { // a script may simply be broken, and many jobs may train it
			known.Jobs++
		}
		known.Job = l.ID
		known.Proven, known.Until = false, s.now()+s.rounds(suspectRounds, known.Jobs)
		names = append(names, f.Place)
	}
	if err := s.leaveOut(); err != nil {
		s.info.Faults = before
		s.Message(err.Error())
		return false
	}
	l.FailedOn = names
	return true
}

// sameScript reports whether a job is another one, or another life of one, that trains the script of an earlier job.
func (s *server) sameScript(earlier int, l *live) bool {
	j := s.rates.jobs[earlier]
	return earlier == l.ID || j != nil && j.spec.Config.Train == l.spec.Config.Train && j.spec.Config.Dir == l.spec.Config.Dir
}

// runsWithout reports whether a job can run without some places.
func (s *server) runsWithout(l *live, at []fault) bool {
	if slices.ContainsFunc(at, func(f fault) bool { return s.scheduler.typeOf(f.Device) < 0 }) {
		return false
	}
	out := slices.Concat(at, slices.DeleteFunc(s.suspects(), func(f fault) bool {
		return slices.ContainsFunc(at, func(o fault) bool { return o.Place == f.Place })
	})) // also those that the last reading of the engine contains
	least := max(l.spec.Min, 1)
	for d, t := range s.Site.Devices() {
		left := min(s.rates.devices[d].Count-devicesAt(t, at), t.Count-devicesAt(t, out))
		if rate, _ := s.rates.Alone(l.ID, d, least); left >= least && rate > 0 {
			return true
		}
	}
	return false
}

// devicesAt returns the number of devices of a type at some places.
func devicesAt(t Device, at []fault) (n int) {
	for _, f := range at {
		switch {
		case f.Device != t.Name:
		case f.Number < 0:
			n += max(t.PerServer, 1)
		default:
			n++
		}
	}
	return n
}

// acquit takes back the places on which a job has failed that fails elsewhere too.
func (s *server) acquit(job int) {
	s.info.Faults = slices.DeleteFunc(s.info.Faults, func(f fault) bool { return f.Job == job && !f.Proven })
	if err := s.leaveOut(); err != nil {
		s.Message(err.Error())
	}
}

// noteWorks takes that a job works: its devices are in order, and those of the same type on which it has failed before are not. Of
// another type nothing is known then: it may lack what this job needs, such as memory.
func (s *server) noteWorks(l *live) {
	if len(s.info.Faults) == 0 {
		l.FailedOn = nil
		return
	}
	at := s.placesOf(l)
	if len(at) == 0 {
		return
	}
	s.info.Faults = slices.DeleteFunc(s.info.Faults, func(f fault) bool {
		return slices.ContainsFunc(at, func(o fault) bool { return o.Place == f.Place }) || f.Job == l.ID && f.Device != l.Device && !f.Proven
	})
	var proven []string
	until := 0.0
	for i := range s.info.Faults {
		if f := &s.info.Faults[i]; f.Device == l.Device && slices.Contains(l.FailedOn, f.Place) {
			f.Proven, f.Until = true, s.now()+s.rounds(provenRounds, f.Jobs)
			proven, until = append(proven, f.Place), max(until, f.Until)
		}
	}
	l.FailedOn = nil
	if err := s.leaveOut(); err != nil {
		s.Message(err.Error())
	}
	if proven == nil {
		return
	}
	why := fmt.Sprintf("%s: job %d failed there before its first unit of work, and works elsewhere: left out until %s", strings.Join(proven, ", "), l.ID,
		fromUnix(until+s.clock.skew()).Local().Format(time.TimeOnly))
	s.record(s.now(), Event{Kind: EventDevices, Devices: s.present(), Reason: why})
	s.Message(why)
}

// leaveOut leaves out the devices at fault, takes back those whose time has passed, and stores both.
func (s *server) leaveOut() error {
	out := s.devicesOut()
	if !slices.EqualFunc(out, s.out, slices.Equal) {
		absent, some := make([][]int32, len(s.Site.Devices())), false
		for d := range absent {
			if s.absent != nil {
				absent[d] = slices.Clone(s.absent[d])
			}
			if s.out != nil {
				absent[d] = slices.DeleteFunc(absent[d], func(g int32) bool { return slices.Contains(s.out[d], g) })
			}
			if out != nil {
				absent[d] = append(absent[d], out[d]...)
			}
			slices.Sort(absent[d])
			absent[d] = slices.Compact(absent[d])
			some = some || len(absent[d]) > 0
		}
		if !some {
			absent = nil
		}
		if err := s.recount(absent); !slices.EqualFunc(s.absent, absent, slices.Equal) {
			return fmt.Errorf("devices: %w", err)
		}
		s.out = out
	}
	s.wrote(s.saveInfo())
	return nil
}

// takeBack takes back what was left out for its time.
func (s *server) takeBack() {
	now := s.now()
	s.info.Faults = slices.DeleteFunc(s.info.Faults, func(f fault) bool { return now > f.Until+s.rounds(1, mostDoubled+1) })
	if slices.EqualFunc(s.devicesOut(), s.out, slices.Equal) {
		return
	}
	if err := s.leaveOut(); err != nil {
		s.Message(err.Error())
	}
}

// devicesOut returns the numbers of the devices that are left out, by type; nil: none.
func (s *server) devicesOut() (out [][]int32) {
	devices := s.Site.Devices()
	for _, f := range s.info.Faults {
		d := slices.IndexFunc(devices, func(t Device) bool { return t.Name == f.Device })
		if f.Number < 0 || f.Until <= s.now() || d < 0 || int(f.Number) >= devices[d].Count {
			continue
		}
		if out == nil {
			out = make([][]int32, len(devices))
		}
		out[d] = append(out[d], f.Number)
		slices.Sort(out[d])
	}
	return out
}

// suspects returns the nodes that are left out.
func (s *server) suspects() (out []fault) {
	for _, f := range s.info.Faults {
		if f.Number < 0 && f.Until > s.now() {
			out = append(out, f)
		}
	}
	return out
}

// nodesOut returns the nodes that are left out for a job with n devices of a type; none if the type has too few others, without which
// an engine would refuse the job. Until the next readings of the engine, the nodes count as up.
func (s *server) nodesOut(device string, n int) (names []string) {
	out := s.suspects()
	for _, t := range s.Site.Devices() {
		if t.Name == device && t.Count-devicesAt(t, out) < n {
			return nil
		}
	}
	for _, f := range out {
		names = append(names, f.Place)
	}
	return names
}

// without returns what is up without the nodes that are left out: of these, there is what jobs hold that run on them.
func (s *server) without(up presence) presence {
	devices := s.Site.Devices()
	if len(up.devices) != len(devices) {
		return up
	}
	up.devices = slices.Clone(up.devices)
	for _, f := range s.suspects() {
		d := slices.IndexFunc(devices, func(t Device) bool { return t.Name == f.Device })
		if d < 0 || slices.Contains(up.down, f.Place) {
			continue
		}
		free := max(devices[d].PerServer, 1)
		for _, l := range s.jobs {
			if l.State.holds() && l.Device == f.Device {
				on := s.Site.On(filepath.Join(journal.RunsDir(s.StateDir), l.Run), false)
				free -= len(l.Where) * stat.Count(on, func(node string) bool { return node == f.Place }) / max(len(on), 1)
			}
		}
		up.devices[d] = max(0, up.devices[d]-max(0, free))
	}
	return up
}

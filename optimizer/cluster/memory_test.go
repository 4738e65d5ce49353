package cluster

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/run"
)

// memoryServer returns a server with a device a of 4 GiB of the machine, and two jobs that share it, of which the second
// came last. It also returns what the server reports.
func memoryServer(t *testing.T) (*server, *strings.Builder) {
	t.Helper()
	devices := []Device{{Name: "a", Count: 1, PerServer: 1, MemoryGiB: 4}}
	said := &strings.Builder{}
	s := &server{Config: Config{StateDir: t.TempDir(), Message: func(line string) { said.WriteString(line + "\n") }}, jobs: map[int]*live{}, dirty: map[int]bool{}, rates: newLearner(devices, 60)}
	s.Agent.Clock = run.SystemClock{}
	s.clock = newClock(s.Agent.Clock)
	if err := makeDirs(s.StateDir); err != nil {
		t.Fatal(err)
	}
	log, err := openEventLog(eventsPath(s.StateDir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.close() })
	s.log = log
	if s.scheduler, err = newScheduler(s.options("fifo_packed"), s.now()); err != nil {
		t.Fatal(err)
	}
	keeps := true
	for id := 1; id <= 2; id++ {
		j := &Job{ID: id, Name: "x", Total: 100, Device: "a", Where: []int32{0}, Keeps: &keeps}
		spec := &Spec{Min: 1, Config: run.Config{Train: string(rune('w' + id))}}
		s.rates.enter(j, spec, "")
		if err := s.scheduler.Admit(s.now(), j, spec); err != nil {
			t.Fatal(err)
		}
		j.State, j.Beside = Running, 3-id
		s.jobs[id] = &live{Job: j, spec: spec, held: time.Unix(int64(id), 0)}
		s.rates.observe(id, "a", 1, 10, 3)
	}
	return s, said
}

// TestSeparateByMemory: the job that came last leaves a device before memory runs out, and does not share it again. One that
// keeps no work starts alone from the beginning.
func TestSeparateByMemory(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		host   [2]float64
		device [2]float64 // used, total
		pinned bool
		leaves bool
		why    string
	}{
		"fits":             {[2]float64{1.8, 1.9}, [2]float64{10, 16}, false, false, ""},
		"host memory":      {[2]float64{2, 1.9}, [2]float64{nan, nan}, false, true, "3.9 of 4 GiB that belong"},
		"one is not known": {[2]float64{3.9, nan}, [2]float64{nan, nan}, false, false, ""},
		"device":           {[2]float64{1, 1}, [2]float64{15.5, 16}, false, true, "15.5 of 16 GiB of a device"},
		"keeps no work":    {[2]float64{1, 1}, [2]float64{15.5, 16}, true, true, "15.5 of 16 GiB of a device"},
	} {
		t.Run(name, func(t *testing.T) {
			s, said := memoryServer(t)
			if c.pinned {
				s.jobs[2].Keeps = nil
			}
			for id := 1; id <= 2; id++ {
				s.noteMemory(s.jobs[id], &run.Status{MemoryGiB: c.host[id-1], Devices: []run.DeviceUse{{ID: "a:0", MemoryGiB: c.device[0], TotalGiB: c.device[1]}}})
			}
			if got := s.jobs[2].State == Stopping; got != c.leaves || s.jobs[1].State != Running {
				t.Errorf("states %s and %s, want the second to leave: %v", s.jobs[1].State, s.jobs[2].State, c.leaves)
			}
			if !strings.Contains(said.String(), c.why) || c.why == "" && said.Len() > 0 {
				t.Errorf("message %q, want %q", said, c.why)
			}
			s.jobs[2].State = Waiting
			if ra, _ := s.rates.Pair(1, 2, 0); (ra > 0) == c.leaves && name != "one is not known" {
				t.Errorf("rate beside the other %g after %s", ra, name)
			}
			if s.jobs[2].Apart != c.pinned {
				t.Errorf("apart %v, want %v", s.jobs[2].Apart, c.pinned)
			}
		})
	}
}

// TestMemoryAlone: what a device has in use is that of a job once it has been alone for some readings; jobs of the same
// command have it before they run, and two that do not fit are not paired.
func TestMemoryAlone(t *testing.T) {
	s, _ := memoryServer(t)
	for id, gib := range map[int]float64{1: 9, 2: 8} {
		l := s.jobs[id]
		l.Beside = 0
		for n := range aloneReadings {
			if l.Memory.Device != 0 {
				t.Errorf("job %d: %g GiB after %d readings", id, l.Memory.Device, n)
			}
			s.noteMemory(l, &run.Status{MemoryGiB: 1, Devices: []run.DeviceUse{{MemoryGiB: 1, TotalGiB: 16}, {MemoryGiB: gib, TotalGiB: 16}}})
		}
		if l.Memory != (memory{1, gib}) {
			t.Errorf("job %d: %+v, want %g GiB on its fullest device", id, l.Memory, gib)
		}
	}
	if ra, rb := s.rates.Pair(1, 2, 0); ra != 0 || rb != 0 {
		t.Errorf("9 and 8 of 16 GiB: rates %g and %g, want none", ra, rb)
	}
	s.rates.enter(&Job{ID: 3, Total: 100}, s.jobs[2].spec, "")
	if ra, _ := s.rates.Pair(1, 3, 0); ra != 0 {
		t.Errorf("beside a job of the same command: rate %g, want none", ra)
	}
	s.rates.deviceGiB[0] = 24
	if ra, rb := s.rates.Pair(1, 2, 0); ra <= 0 || rb <= 0 {
		t.Errorf("9 and 8 of 24 GiB: rates %g and %g", ra, rb)
	}
}

// TestCancelIsStored: a cancellation is part of the job, so that it outlives the server, and applies to a job that the server
// does not admit, since it drains.
func TestCancelIsStored(t *testing.T) {
	s, _ := memoryServer(t)
	s.damaged, s.statuses = map[int]bool{}, map[int]observation{}
	for range 3 {
		if _, err := Submit(s.StateDir, Spec{Submitted: time.Now(), Min: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range s.jobs {
		l.interrupts = make(chan os.Signal, 1)
	}
	s.draining = true
	for _, id := range []int{1, 3, 3} {
		if err := Cancel(s.StateDir, id); err != nil {
			t.Fatal(err)
		}
	}
	s.takeSpool()
	if again, _, _ := readRequests(s.StateDir); len(again) > 0 {
		t.Errorf("%d requests twice", len(again))
	}
	for id, want := range map[int]Job{1: {State: Stopping, Cancelled: true}, 2: {State: Running}, 3: {State: Cancelled}} {
		if j, _, err := ReadJob(s.StateDir, id); err != nil || j.State != want.State || j.Cancelled != want.Cancelled {
			t.Errorf("job %d: %+v, %v, want %s, cancelled %v", id, j, err, want.State, want.Cancelled)
		}
	}
	s.draining = false
	if s.admitNew(); s.jobs[3] != nil {
		t.Error("the cancelled job is admitted")
	}
	events, _, err := ReadEvents(s.StateDir, 0)
	ends := 0
	for _, e := range events {
		if e.Kind == EventEnd && e.Job == 3 && e.State == Cancelled {
			ends++
		}
	}
	if err != nil || ends != 1 {
		t.Errorf("%d ends of job 3, %v, want 1", ends, err)
	}
}

// TestVacated: a job whose training exited while no server ran has waited since, and has not used its devices.
func TestVacated(t *testing.T) {
	s, _ := memoryServer(t)
	j := s.jobs[1].Job
	now := j.Counted + 100
	for range 2 { // at its adoption, and when its agent has seen the end
		s.scheduler.vacate(now, 1, now-60)
	}
	if s.scheduler.Left(now, 1, "lease"); math.Abs(j.WaitS-60) > 1e-3 || math.Abs(j.Attained-40) > 1e-3 || j.State != Waiting {
		t.Errorf("%s, waited %g s, used devices for %g s: want waiting, 60, 40", j.State, j.WaitS, j.Attained)
	}
}

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"trainopt/internal/regular"
)

// record appends to the event log. A full disk must not stop the jobs.
func (s *server) record(now float64, e Event) {
	e.Time = now
	if l := s.jobs[e.Job]; l != nil {
		switch e.Kind {
		case EventStart:
			if p := l.expected; p != nil {
				s.experience.saw(*p, now)
				e.Expected, l.expected = &p.shown, nil
			}
		case EventLeft:
			e.Exited = l.exited
		case EventEnd:
			e.Launches, e.Exited = l.launches, l.exited
		}
	}
	if e.Kind == EventEnd {
		_ = os.Remove(lifePath(s.StateDir, e.Job)) // nothing is left to restore
	}
	s.wrote(s.log.add(e))
	if e.Job > 0 {
		s.dirty[e.Job] = true
	}
}

func (s *server) saveInfo() error {
	s.info.Policy, s.info.Draining = s.scheduler.Policy, s.draining
	s.info.MoveS = s.scheduler.engine.Preemption.Seconds
	return writeJSON(dirOf(s.StateDir, "server.json"), s.info)
}

// wrote takes the result of writing files. What could not be written is written again at the next step.
func (s *server) wrote(err error) {
	if err != nil && !s.unsaved {
		s.Message(err.Error() + "; trying again until it can be written")
	}
	s.unsaved = s.unsaved || err != nil
}

// save writes what has changed: jobs before the state, which refers to them.
func (s *server) save() {
	again := s.unsaved
	s.unsaved = false
	err := s.log.flush()
	for id := range s.dirty {
		if err != nil {
			break
		}
		if j := s.rates.jobs[id]; j != nil {
			err = writeJSON(filepath.Join(jobDir(s.StateDir, id), "job.json"), j.Job)
		}
		if err == nil {
			delete(s.dirty, id)
		}
	}
	if err == nil {
		var state []byte
		if state, err = s.scheduler.State(); err == nil {
			err = regular.WriteFile(dirOf(s.StateDir, "state.json"), 0o600, state)
		}
	}
	switch {
	case err == nil && again:
		s.Message("the state is written again")
	case err != nil:
		s.unsaved = again // reported once
		s.wrote(fmt.Errorf("save state: %w", err))
	}
}

// leastSpace is the free space of the disk, in bytes, below which it counts as full.
const leastSpace = 1 << 20

// diskFull reports whether the disk of a directory is full; false where that is unknown.
func diskFull(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && uint64(st.Bavail)*uint64(st.Bsize) < leastSpace
}

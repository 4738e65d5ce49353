package cluster

import (
	"crypto/rand"
	"errors"
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
	s.noteRefusal(err)
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
	return syscall.Statfs(dir, &st) == nil && isFull(st)
}

// isFull reports whether a file system has no space. How many files it has room for does not count: some state 0, and have room.
// That none can be created is seen by a refusal.
func isFull(st syscall.Statfs_t) bool { return uint64(st.Bavail)*uint64(st.Bsize) < leastSpace }

// trialPause is the time in seconds between two trials whether files can be written again.
const trialPause = 10

// checkSpace finds out whether the disk is full. After a refusal, a quota may be used up, of which the file system states nothing: it
// counts as full until a trial succeeds.
func (s *server) checkSpace() {
	if s.refused && s.now() >= s.tried+trialPause {
		s.refused, s.tried = s.trial() != nil, s.now()
	}
	full := s.refused || diskFull(s.StateDir)
	if full == s.full {
		return
	}
	s.full = full
	s.Message(map[bool]string{true: "the disk of the state directory is full, or its quota is used up: no job is started, stopped or moved until there is space", false: "the disk has space again"}[full])
}

// noteRefusal takes an error of writing files, or of starting a job.
func (s *server) noteRefusal(err error) {
	if !s.refused && noSpace(err) {
		s.refused, s.tried = true, s.now()
	}
}

// noSpace reports whether an operation has failed for want of disk space, or of quota.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// lacksSpace reports whether a life has failed while there was no disk space, which its error need not tell.
func (s *server) lacksSpace(err error) bool {
	s.noteRefusal(err)
	if s.full || s.refused || diskFull(s.StateDir) {
		return true
	}
	s.noteRefusal(s.trial())
	return s.refused
}

// trial writes a file of leastSpace beside those of the server, and removes it.
func (s *server) trial() error {
	f, err := os.CreateTemp(dirOf(s.StateDir), ".trial.*")
	if err != nil {
		return err
	}
	data := make([]byte, leastSpace)
	_, _ = rand.Read(data) // never fails; a file system may compress other data
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

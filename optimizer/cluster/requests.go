package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
)

// takeSpool carries out the requests of the spool. They are removed once what they have changed is stored: if the server is
// killed before, the next one carries them out.
func (s *server) takeSpool() {
	requests, paths, errs := readRequests(s.StateDir)
	submitted := slices.ContainsFunc(requests, func(r request) bool { return r.Op == opSubmit })
	if now := s.now(); submitted || now > s.scanned+scanPeriod { // a submission may have been killed before its request
		s.scanned = now
		s.admitNew()
	}
	for _, r := range requests {
		switch r.Op {
		case opCancel:
			s.cancel(r.Job)
		case opPolicy:
			if s.Stated && r.Policy != s.Policy {
				s.Message(fmt.Sprintf("policy %s, as the server was started, not %s as requested before", s.Policy, r.Policy))
				continue
			}
			if err := s.scheduler.SetPolicy(s.now(), r.Policy); err != nil {
				s.Message(err.Error())
				continue
			}
			s.Message("policy " + r.Policy)
			s.experience = experience{}
			for _, l := range s.jobs {
				l.expected = nil
			}
		case opDrain:
			s.draining, s.saving = true, s.saving || r.Save
			s.record(s.now(), Event{Kind: EventDrain, Save: r.Save})
			if r.Save {
				s.scheduler.Halt()
			}
			s.Message("draining: no more jobs are admitted")
		}
		if r.Op == opPolicy || r.Op == opDrain {
			if err := s.saveInfo(); err != nil {
				s.Message(err.Error())
			}
		}
	}
	s.Stated = false
	if len(requests) > 0 {
		s.save()
	}
	for _, path := range paths {
		errs = append(errs, os.Remove(path))
	}
	if err := errors.Join(errs...); err != nil {
		s.Message(fmt.Sprintf("requests: %v", err))
	}
}

const scanPeriod = 5 // seconds between searches for jobs without a request

// admitNew admits the jobs that were submitted since the last call.
func (s *server) admitNew() {
	if s.draining {
		return
	}
	ids, err := jobIDs(s.StateDir)
	if err != nil {
		s.Message(err.Error())
		return
	}
	for _, id := range ids {
		if s.rates.jobs[id] != nil && (s.jobs[id] != nil || s.rates.jobs[id].Counted > 0) {
			continue
		}
		j, spec, err := ReadJob(s.StateDir, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			if !s.damaged[id] {
				s.Message(err.Error())
			}
			s.damaged[id] = true
			continue
		}
		s.admit(j, spec)
	}
}

func (s *server) admit(j *Job, spec *Spec) {
	at := s.clock.at(unix(spec.Submitted))
	if spec.BootID != "" && spec.BootID == s.info.BootID { // the clock may have been set since
		at = min(s.info.BootedAt+spec.Uptime, s.now())
	}
	spec.Submitted = fromUnix(at)
	j.Submitted, j.Counted, j.Since = spec.Submitted, at, time.Time{}
	if e := spec.Config.Epochs; e > 0 {
		j.Total, j.Unit = float64(e), "epoch"
	} else if n := spec.Config.Steps; n > 0 {
		j.Total, j.Unit = float64(n), "step"
	}
	err := spec.fit(&s.info)
	s.rates.add(j, spec)
	s.dirty[j.ID] = true
	if err == nil {
		if err = s.scheduler.Admit(s.now(), j, spec); err != nil && len(s.info.Down) > 0 { // until they are up again
			j.Counted, j.Reason = 0, "too few devices are up"
			return
		}
	}
	if err != nil {
		s.endUnserved(j, Failed, err.Error())
		return
	}
	s.jobs[j.ID] = &live{Job: j, spec: spec, moving: math.NaN()}
	s.Message(fmt.Sprintf("job %d (%s): admitted", j.ID, j.Name))
}

// endUnserved ends a job that the scheduler does not have.
func (s *server) endUnserved(j *Job, state State, reason string) {
	now := time.Now().UTC()
	j.State, j.Reason, j.Since, j.Ended = state, reason, now, now
	s.record(s.now(), Event{Kind: EventEnd, Job: j.ID, State: state, Reason: reason})
	s.Message(ended(j))
}

// cancel ends a job for good, also one that the server has not admitted, since it drains or has too few devices.
func (s *server) cancel(id int) {
	l := s.jobs[id]
	if l == nil {
		known := s.rates.jobs[id]
		if j, spec, err := ReadJob(s.StateDir, id); err == nil && j.State == Waiting && (known == nil || !known.State.Ended()) {
			j.Counted = unix(spec.Submitted) // it is known: no search finds it again
			s.rates.add(j, spec)
			s.endUnserved(j, Cancelled, "")
		}
		return
	}
	if l.Cancelled {
		return
	}
	s.record(s.now(), Event{Kind: EventCancel, Job: id})
	l.Cancelled = true
	if l.interrupts == nil {
		s.end(l, Cancelled, "")
		return
	}
	s.scheduler.StopJob(s.now(), id, "cancelled")
	s.leave(l)
}

// cancelMarked cancels the jobs whose runs a user stops by optimize runs stop, which signals the process of their agents;
// false if there are none.
func (s *server) cancelMarked() (any bool) {
	for _, l := range s.sortedJobs() {
		if l.interrupts != nil && run.AskedToStop(filepath.Join(journal.RunsDir(s.StateDir), l.Run)) {
			any = true
			s.cancel(l.ID)
		}
	}
	return any
}

// endLate ends waiting jobs whose deadline has passed. The agents of the others watch their deadlines.
func (s *server) endLate() {
	for _, l := range s.jobs {
		if d := l.spec.Config.SLA.TimeMax; d > 0 && l.interrupts == nil && s.now()-unix(l.spec.Submitted) > d.Seconds() {
			s.end(l, Stopped, "its deadline passed while it waited")
		}
	}
}

// end ends a job for good. If its run was stopped to continue, no agent of it is left to send the message about its end.
func (s *server) end(l *live, state State, reason string) {
	s.scheduler.End(s.now(), l.ID, state, reason)
	s.dirty[l.ID] = true
	delete(s.jobs, l.ID)
	s.Message(ended(l.Job))
	if len(l.spec.Config.Notify) == 0 || l.Run == "" {
		return
	}
	agent, dir, told := s.Agent, filepath.Join(journal.RunsDir(s.StateDir), l.Run), journal.Stopped
	agent.View = &view{server: s, job: l.ID, stretch: l.Stretch, dir: jobDir(s.StateDir, l.ID)}
	if state == Failed {
		told = journal.Failed
	}
	s.telling.Go(func() { agent.TellEnd(dir, told, cmp.Or(reason, string(state))) })
}

// ended says how a job has ended.
func ended(j *Job) string {
	text := fmt.Sprintf("job %d (%s): %s", j.ID, j.Name, j.State)
	if j.Reason != "" {
		text += ": " + j.Reason
	}
	return text
}

package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
)

// begin starts the agent of a life: of a new run, of the next stretch of a run or, to adopt it, of one whose job may
// still run.
func (s *server) begin(l *live, adopt bool) {
	l.worked, l.use, l.shared = adopt && l.State != Starting, use{}, l.Beside != 0
	l.resident, l.unshared = 0, 0
	l.held, l.before = time.Now(), l.Attained
	if adopt && !l.Since.IsZero() {
		l.held = l.Since
		l.before -= (s.now() - unix(l.Since)) * float64(len(l.Where))
	}
	if l.Keeps == nil {
		s.scheduler.Keeps(l.ID, nil)
	}
	device, where := s.scheduler.typeOf(l.Device), l.Where
	if device < 0 || slices.ContainsFunc(where, func(g int32) bool { return int(g) >= s.Site.Devices()[device].Count }) {
		device, where = 0, nil // adopted from a server with other devices
	}
	packs, hold := s.scheduler.policy.Traits().Packs, ""
	if packs {
		digest := sha256.Sum256([]byte(places(l.Job))) // the jobs on these devices run in one directory of allocations
		hold = dirOf(s.StateDir, "allocations", fmt.Sprintf("%x", digest[:8]))
	}
	place := s.Site.Place(l.spec.Config, device, where, hold, s.nodesOut(l.Device, len(where)))
	if place.Site != nil && !adopt && s.scheduler.Queue(s.now(), l.ID, true, s.info.Engine) { // until its agent sees it start
		s.dirty[l.ID] = true
	}
	cfg, lease := place.Config, place.Lease
	// The scheduler decides the allocation: the agent neither probes nor moves.
	cfg.Name, cfg.StateDir, cfg.Planner, cfg.Samples, cfg.Requeue, cfg.Divided = l.Name, s.StateDir, "static", -1, false, true
	if cfg.SLA.CostMaxUSD > 0 {
		cfg.SLA.CostMaxUSD = max(cfg.SLA.CostMaxUSD-l.EarlierUSD, 1e-9)
	}
	l.lease = leaseFile{N: l.lease.N, Epoch: l.Stretch, Device: l.Device, GPUs: len(l.Where)}
	until := s.leaseEnd(l)
	s.writeLease(l, until)
	lease.Devices = deviceIDs(l.Device, l.Where)
	lease.Submitted, lease.Until, lease.RunID, lease.Partner = fromUnix(unix(l.spec.Submitted)+s.clock.skew()), l.until.get, l.Run, l.partner.get
	if !adopt {
		l.Sole = !packs && s.Site.Name() != "local"
	}
	lease.Environ = append(lease.Environ, "OPTIMIZER_LEASE="+filepath.Join(jobDir(s.StateDir, l.ID), "lease.json"),
		fmt.Sprintf("OPTIMIZER_STRETCH=%d", l.Stretch), "OPTIMIZER_DEVICE="+l.Device, "OPTIMIZER_DEVICES="+strings.Join(lease.Devices, ","))
	if err := writeJSON(lifePath(s.StateDir, l.ID), begun{l.Job, l.spec}); err != nil {
		s.noteRefusal(err)
		s.Message(fmt.Sprintf("job %d (%s): %v", l.ID, l.Name, err))
	}
	agent := s.Agent
	agent.Lease = &lease
	if place.Site != nil {
		agent.Site = place.Site
	}
	life := life{dir: filepath.Join(journal.RunsDir(s.StateDir), l.Run), adopt: adopt, moved: l.last != l.Device, stop: l.panics >= mostPanics}
	l.last = l.Device
	agent.View = &view{server: s, job: l.ID, stretch: l.Stretch, dir: jobDir(s.StateDir, l.ID)}
	l.interrupts = make(chan os.Signal, 8)
	interrupts, id, stretch := l.interrupts, l.ID, l.Stretch
	go func() {
		s.results <- result{id, stretch, life.run(agent, cfg, interrupts)}
	}()
}

// adopt begins the agent of a life whose last agent has died.
func (s *server) adopt(l *live) {
	s.begin(l, true)
	if l.State == Stopping {
		l.interrupts <- run.Preempt
	}
}

// errPanicked reports an agent that has panicked, which must not stop the other jobs. Its job runs on, and another agent
// takes over, as after the death of a server.
var errPanicked = errors.New("its agent panicked")

// mostPanics is the number of panics after which the last agent of a job stops it.
const mostPanics = 3

// life is a stretch of a run that an agent carries.
type life struct {
	dir   string // of the run
	adopt bool   // its job may still run
	moved bool   // the run was on another type of device before, or that is unknown
	stop  bool   // its agents panic
}

// run runs the stretch until its end.
func (f life) run(agent run.Agent, cfg run.Config, interrupts <-chan os.Signal) (res run.Result) {
	dir := f.dir
	defer func() {
		if x := recover(); x != nil {
			agent.View.Event(run.Problem, fmt.Sprintf("%v: %v\n%s", errPanicked, x, debug.Stack()))
			what, _, _ := strings.Cut(fmt.Sprint(x), "\n") // the stack of another goroutine follows
			res = run.Result{Dir: dir, Code: run.CodeOurs, Err: fmt.Errorf("%w: %s", errPanicked, what)}
		}
	}()
	if f.stop {
		_, err := agent.StopRun(context.Background(), dir, cfg.WithDefaults().Grace)
		return run.Result{Dir: dir, Code: run.CodeOurs, Err: errors.Join(fmt.Errorf("%w %d times", errPanicked, mostPanics), err)}
	}
	if !journal.HasState(dir) { // it is written before the first job is started: its agent, if any, died before that
		if err := journal.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return run.Result{Code: run.CodeOurs, Err: err}
		}
		return agent.Run(context.Background(), cfg, interrupts)
	}
	rec, err := journal.ReadRecord(dir)
	ended := err == nil && rec.State != journal.Running
	if f.adopt && ended && rec.ExitCode != nil {
		return run.Result{Record: rec, Dir: dir, Code: run.Code(*rec.ExitCode)} // its agent completed it
	}
	change := run.Change{Config: &cfg}
	if f.moved && ended && cfg.Engine != "" && cfg.Engine != "local" {
		change.Engine, change.EngineArgs, change.BillingHour = cfg.Engine, cfg.EngineArgs, cfg.BillingHour
	}
	res = agent.Resume(context.Background(), dir, change, interrupts)
	if errors.As(res.Err, new(*journal.Damage)) { // its job must not run on devices that count as free
		_, _ = agent.StopRun(context.Background(), dir, cfg.WithDefaults().Grace)
	}
	return res
}

// leaseEnd returns the end of a new lease by the wall clock, as the processes of the job read it; nil for a job that may not be interrupted, or of which that is not known.
func (s *server) leaseEnd(l *live) *float64 {
	if l.Keeps == nil || !*l.Keeps {
		return nil
	}
	until := unix(s.clock.Now()) + s.Round.Seconds()
	return &until
}

// writeLease replaces the lease of a job. Its agent passes the end, with the grace, to the supervisor of the job.
func (s *server) writeLease(l *live, until *float64) {
	l.lease.Schema, l.lease.N, l.lease.Until, l.lease.At, l.lease.Grace = schema, l.lease.N+1, until, unix(s.clock.Now()), s.Round.Seconds()/2
	if err := writeJSON(filepath.Join(jobDir(s.StateDir, l.ID), "lease.json"), l.lease); err != nil && !s.full {
		s.noteRefusal(err)
		s.Message(fmt.Sprintf("job %d (%s): %v", l.ID, l.Name, err))
	}
	switch {
	case until == nil:
		l.until.set(time.Time{})
	case *until > 0:
		l.until.set(fromUnix(*until + l.lease.Grace))
	}
}

// renew extends the leases of the jobs that stay, at the half of each.
func (s *server) renew() {
	for _, l := range s.jobs {
		if l.interrupts == nil || l.State == Stopping {
			continue
		}
		end := s.leaseEnd(l)
		if end == nil && l.lease.Until == nil {
			continue
		}
		if end == nil || l.lease.Until == nil || s.clock.renewable(*l.lease.Until, s.Round.Seconds()) {
			s.writeLease(l, end)
		}
	}
}

// takeStatuses takes what the agents have seen since the last call.
func (s *server) takeStatuses() {
	s.mu.Lock()
	taken := s.statuses
	s.statuses = map[int]observation{}
	s.mu.Unlock()
	for id, o := range taken {
		if l := s.jobs[id]; l != nil && l.Stretch == o.stretch && l.interrupts != nil {
			s.observe(l, &o.Status)
		}
	}
}

// observe takes what an agent has seen of its job.
func (s *server) observe(l *live, st *run.Status) {
	now := s.now()
	before := *l.Job
	l.saves = st.Saves
	keepsWork := st.KeepsWork && (!l.Unsaved || st.Checkpoint != nil)
	keeps := keepsWork && (st.Saves || !s.sharesDirectory(l))
	s.measure(l, st)
	l.use.take(now, st)
	s.noteMemory(l, st)
	l.Finish = nil
	if st.Finish != nil && !math.IsNaN(st.Finish.P50) {
		end := func(v float64) time.Time {
			return st.Now.Add(time.Duration((v - st.Elapsed.Seconds()) * float64(time.Second))).UTC()
		}
		l.Finish = &[3]time.Time{end(st.Finish.P5), end(st.Finish.P50), end(st.Finish.P95)}
	}
	if l.Keeps == nil || *l.Keeps != keeps {
		if keepsWork && !keeps {
			s.Message(fmt.Sprintf("job %d (%s): is not preempted: other jobs write checkpoints to %s too", l.ID, l.Name, l.spec.Config.Dir))
		}
		s.scheduler.Keeps(l.ID, &keeps)
		s.record(now, Event{Kind: EventPin, Job: l.ID, Save: keeps})
	}
	queued := strings.HasPrefix(st.Phase, "waiting: ")
	if l.State != Stopping && s.scheduler.Queue(now, l.ID, queued, s.info.Engine) {
		s.dirty[l.ID] = true
	}
	if queued && l.State != Stopping && s.lost(l) && !keeps { // it holds a place in a queue only
		s.scheduler.StopJob(now, l.ID, "its node is down")
		s.leave(l)
	}
	if s.noteWork(l, st) && l.Total != before.Total {
		s.scheduler.Changed(now, l.ID)
	}
	if l.Done != before.Done || l.CostUSD-l.stored > min(0.01, l.stored/100) {
		s.dirty[l.ID], l.stored = true, l.CostUSD
	}
}

// sharesDirectory reports whether another job may write checkpoints below the working directory of a job, so that it is not
// known whose they are.
func (s *server) sharesDirectory(l *live) bool {
	for _, o := range s.jobs {
		if o != l && !o.saves && o.Stretch > 0 && o.spec.Config.Dir == l.spec.Config.Dir {
			return true
		}
	}
	return false
}

// noteWork takes progress and cost.
func (s *server) noteWork(l *live, st *run.Status) bool {
	l.CostUSD = l.EarlierUSD + float64(st.Spent)
	if st.Unit == "" {
		return false
	}
	l.Unit, l.Job.Done = st.Unit, st.Done
	if st.Total > 0 {
		l.Total = st.Total
	}
	return true
}

// measure takes the pace of the present life.
func (s *server) measure(l *live, st *run.Status) {
	now := s.now()
	p := st.Pace
	if !(p.UnitSeconds > 0) {
		return
	}
	if !l.worked && !math.IsNaN(p.Startup) {
		l.worked = true
		s.scheduler.Worked(now, l.ID, p.Startup, l.moving, st.Prepared.Seconds())
		l.moving = math.NaN()
		s.noteWorks(l)
	}
	e := Event{Kind: EventRate, Job: l.ID, Stretch: l.Stretch, Device: l.Device, GPUs: len(l.Where), Seen: 1 / p.UnitSeconds, Blocks: p.Blocks,
		Done: st.Done, Total: st.Total, Unit: st.Unit, With: l.Beside}
	first, changed := false, false
	switch with := s.jobs[l.Beside]; {
	case p.Partner != s.partner(l): // measured before the other job came, worked or left
	case with == nil:
		first, changed = s.rates.observe(l.ID, l.Device, len(l.Where), e.Seen, p.Blocks)
	case with.worked:
		changed = s.rates.observePair(l.ID, with.ID, l.Device, len(l.Where), e.Seen, p.Blocks)
	}
	if !changed {
		return
	}
	if first {
		at := slices.IndexFunc(l.Rates, func(r Rate) bool { return r.Device == l.Device && r.GPUs == len(l.Where) })
		e.Predicted = l.Rates[at].Predicted
	}
	s.record(now, e)
	s.scheduler.Changed(now, l.ID)
}

// takeResult handles the end of a life.
func (s *server) takeResult(r result) {
	l := s.jobs[r.job]
	if l == nil || l.Stretch != r.stretch {
		return
	}
	s.takeStatuses()
	if errors.Is(r.Err, errPanicked) && l.panics < mostPanics {
		l.panics++
		s.Message(fmt.Sprintf("job %d (%s): %v: another one takes over; agent.log of the job has the details", l.ID, l.Name, r.Err))
		s.adopt(l)
		return
	}
	now := s.now()
	again := l.Again
	l.interrupts, l.Finish, l.Again = nil, nil, false
	reason := "exit"
	l.exited = 0
	if exit := launch.LastExit(r.Dir); !exit.IsZero() {
		l.exited = s.clock.at(unix(exit))
	}
	if l.exited > now-lateNotice || l.exited < unix(l.Since) && l.State != Stopping {
		l.exited = 0
	}
	if rec := r.Record; rec != nil {
		s.noteOutcome(l, rec)
		l.CheckpointBytes = cmp.Or(checkpointBytes(r.Dir, l.spec.Config.Dir, rec.Checkpoint), l.CheckpointBytes)
		l.launches = rec.Outcome.Restarts + 1
		if rec.Exit != nil {
			reason = rec.Exit.Reason
		}
	}
	if l.State == Stopping && r.Code == run.CodeTryAgain {
		took := now - unix(l.Asked)
		l.Saves = append(l.Saves, took)
		l.moving = took
	}
	s.dirty[l.ID] = true
	queued := l.Queued // it has not run in this life
	if l.exited > 0 {
		s.scheduler.vacate(now, l.ID, l.exited)
	}
	s.scheduler.Left(now, l.ID, reason)
	why := ""
	if r.Err != nil {
		why = r.Err.Error()
	}
	switch {
	case r.Code == run.CodeDone || r.Code == run.CodeMissed:
		if r.Code == run.CodeMissed {
			why = "limits were missed"
		}
		s.noteWorks(l)
		s.end(l, Done, why)
	case l.Cancelled || r.Code == run.CodeInterrupt || r.Code == run.CodeTerminated:
		s.end(l, Cancelled, "")
	case r.Unsaved: // it was not its fault, and would happen again if a save takes longer than the grace
		if !l.Unsaved && !queued {
			s.Message(fmt.Sprintf("job %d (%s): its devices were taken before it had saved anything: it keeps the next ones until it has", l.ID, l.Name))
		}
		if l.Unsaved = l.Unsaved || !queued; l.Unsaved {
			l.Keeps = nil
		}
		if r.Code != run.CodeTryAgain { // from the beginning
			s.Message(fmt.Sprintf("job %d (%s): starts again from the beginning", l.ID, l.Name))
			l.EarlierUSD, l.Run, l.Job.Done = l.CostUSD, "", 0
		}
	case r.Code == run.CodeTryAgain:
	case r.Code == run.CodeGuard:
		s.end(l, Stopped, reason)
	case l.shared && !l.Apart: // it may have failed for want of what the other job took, such as memory
		l.Apart = true
		s.rates.outdate(s.rates.jobs[l.ID])
		s.scheduler.part(now, l.ID)
		s.Message(fmt.Sprintf("job %d (%s): failed beside another job (%s): it starts again, and runs alone from now on", l.ID, l.Name, cmp.Or(why, reason)))
		l.Job.Reason = "failed beside another job"
	case (l.Apart || again) && errors.Is(r.Err, run.ErrNotResumable) && !r.Exhausted: // it had saved nothing: from the beginning
		l.EarlierUSD, l.Run, l.Job.Done = l.CostUSD, "", 0
	case s.lacksSpace(r.Err): // not a fault of the training: it starts again once there is space
		s.Message(fmt.Sprintf("job %d (%s): ended since the disk is full: %s", l.ID, l.Name, cmp.Or(why, reason)))
		l.Job.Reason, l.Again = "the disk was full", true
	case s.startsElsewhere(l, r.Result):
		s.Message(fmt.Sprintf("job %d (%s): failed on %s before its first unit of work (%s): it starts once more, elsewhere", l.ID, l.Name, strings.Join(l.FailedOn, ", "), cmp.Or(why, reason)))
		l.Job.Reason, l.Again = "failed on "+strings.Join(l.FailedOn, ", "), true
		if l.Job.Done == 0 && (r.Record == nil || r.Record.Checkpoint == nil) { // nothing is lost
			l.EarlierUSD, l.Run = l.CostUSD, ""
		}
	default:
		why = cmp.Or(why, reason)
		s.end(l, Failed, why)
	}
	if code := int(r.Code); l.State.Ended() && r.Code != run.CodeTryAgain { // cancelled: it left its devices first
		l.ExitCode = &code
	}
	if l.State.Ended() && l.exited > 0 { // the time until the notice is not part of the job
		l.Ended, l.WaitS = fromUnix(l.exited), max(0, l.WaitS-(now-l.exited))
	}
	l.exited = 0
}

// lateNotice is the time in seconds after the exit of a training from which its end was noticed late.
const lateNotice = 5

// checkpointBytes returns the size of the newest checkpoint of a run if it is a file, or else of the files in the directory that
// the run gives its training for them, of at most mostParts; 0: unknown.
func checkpointBytes(dir, workingDir string, c *journal.Checkpoint) (bytes int64) {
	if c != nil {
		path := c.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(workingDir, path)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	parts, _ := os.ReadDir(filepath.Join(dir, "checkpoint"))
	for _, part := range parts[:min(len(parts), mostParts)] {
		if info, err := part.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
	}
	return bytes
}

// mostParts is the largest number of files of a checkpoint.
const mostParts = 1000

// noteOutcome takes progress and cost from the record of a run.
func (s *server) noteOutcome(l *live, rec *journal.Record) {
	if v := float64(rec.Outcome.CostUSD); !math.IsNaN(v) {
		l.CostUSD = l.EarlierUSD + v
	}
	done := float64(rec.Outcome.Epochs)
	if rec.Training.Unit == "step" {
		done = float64(rec.Outcome.Steps)
	}
	if !math.IsNaN(done) && rec.Training.Unit != "" {
		l.Unit, l.Job.Done = rec.Training.Unit, done
	}
	if total := float64(rec.Training.TotalUnits); total > 0 {
		l.Total = total
	}
}

// view passes what an agent sees to the server, and writes its messages to the log of the job.
type view struct {
	run.Quiet
	server       *server
	job, stretch int
	dir          string
}

// Event implements run.View.
func (v *view) Event(level run.Level, line string) {
	mark := map[run.Level]string{run.Warning: "warning: ", run.Problem: "problem: "}[level]
	f, err := os.OpenFile(filepath.Join(v.dir, "agent.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%s stretch %d: %s%s\n", time.Now().UTC().Format(time.RFC3339), v.stretch, mark, strings.TrimSpace(line))
}

// Status implements run.View.
func (v *view) Status(st run.Status) {
	v.server.mu.Lock()
	v.server.statuses[v.job] = observation{st, v.stretch}
	v.server.mu.Unlock()
	select {
	case v.server.poke <- struct{}{}:
	default:
	}
}

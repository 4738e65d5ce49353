package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"trainopt/internal/regular"
	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule"
	"trainopt/resources"
)

// Config configures a server.
type Config struct {
	StateDir string
	Site     Site
	Policy   string
	Stated   bool          // Policy prevails over requests for another one that waited for a server
	Round    time.Duration // 0: 6 minutes
	Seed     int64         // of policies that draw random numbers
	// Pairs are rates of a job with the first name beside one with the second, relative to that alone, that were measured
	// elsewhere; nil: none. Measurements of the cluster take over.
	Pairs map[[2]string]float64
	// Shrink reduces the devices of jobs that do not use all of them, if other jobs gain by it.
	Shrink bool
	// Agent is the template of the agents; Lease and View are set for each job.
	Agent run.Agent
	// Message receives what happens, one line each.
	Message func(line string)
	// Ready is called once the state directory is locked, before the jobs of the last server are adopted; nil: nothing.
	Ready func()
}

// Site is where the jobs of a cluster run.
type Site interface {
	// Name is the engine: "local", "slurm".
	Name() string
	// Devices are the device types, sorted by name, with the numbers at the start, also of those that were not up.
	Devices() []Device
	// Up returns what is up now. It may take seconds.
	Up(ctx context.Context) (presence, error)
	// On returns the names of the nodes that hold the latest job of a run, as far as they are known; none if it has ended, unless
	// past asks for those that held it.
	On(runDir string, past bool) []string
	// Place returns how a job runs on devices of a type, by their numbers. hold is a directory that is the same for jobs
	// that may share the devices; empty: it shares them with none. avoid names nodes that it is not to be on.
	Place(cfg run.Config, device int, where []int32, hold string, avoid []string) placement
}

// presence is what is up of the devices of a site.
type presence struct {
	devices []int    // numbers by type; nil: all
	down    []string // names of nodes that are down, or drained, as far as they are known
}

// placement is how an agent runs a job on its devices.
type placement struct {
	Config run.Config
	Lease  run.Lease
	// Site connects the agent to other machines; nil: the job runs on this one.
	Site func(ctx context.Context, cfg run.Config, gpus bool) (run.Site, error)
}

// server is a running scheduler with its jobs.
type server struct {
	Config
	info      Server
	clock     clock
	dir       *journal.Run
	lock      os.FileInfo // of the lock file that this server holds
	scheduler *scheduler
	rates     *learner
	log       *eventLog
	jobs      map[int]*live // that have not ended
	damaged   map[int]bool  // reported once each
	draining  bool
	saving    bool
	dirty     map[int]bool
	scanned   float64   // time of the last search for submitted jobs
	examined  float64   // time of the last examination of what jobs use
	full      bool      // the disk, or its quota
	refused   bool      // a file could not be written for want of space, whatever the file system states, and none could since
	tried     float64   // time of the refusal, or of the last trial since
	unsaved   bool      // files could not be written: the disk is full
	absent    [][]int32 // numbers of the devices by type whose nodes are down; nil: none
	out       [][]int32 // of these, the devices of this machine that are left out, see fault
	read      []int     // numbers of devices by type in the last reading that was believed; nil: none was
	missing   int       // successive readings with fewer devices than that

	predicting  bool                 // a forecast is being made
	predictNext float64              // time of the next one
	starts      map[int][3]time.Time // predicted, of waiting jobs
	forecasts   chan predicted
	experience  experience // with predicted starts under the present policy

	telling sync.WaitGroup // the deliveries of messages about jobs that have ended

	mu       sync.Mutex
	statuses map[int]observation // latest of each job, not yet taken
	poke     chan struct{}
	results  chan result
	up       chan presence
}

// live is a job that has not ended.
type live struct {
	*Job
	spec       *Spec
	interrupts chan os.Signal // of its agent; nil while none runs
	worked     bool           // the present life has done a unit of work
	before     float64        // Attained at the start of the present life
	saves      bool           // it saves on request
	last       string         // device type of the previous life; empty: unknown
	moving     float64        // seconds of the save before this life; NaN: unknown
	lease      leaseFile
	use        use // of its devices, in the present life
	until      guarded[time.Time]
	exited     float64 // Unix seconds at which the present life has ended, if that was noticed late; 0: it was not
	launches   int     // of its training; 0: unknown
	panics     int     // of its agents
	partner    guarded[string]
	shared     bool        // another job has shared its devices in this life
	held       time.Time   // start of this life, or its adoption
	stored     float64     // CostUSD when it was last to be stored
	resident   float64     // GiB of memory that its processes hold; 0: unknown
	unshared   int         // successive readings without another job on its devices
	expected   *prediction // of the start for which it waits; nil: none
}

// guarded is a value shared with the agent of a job.
type guarded[T any] struct {
	mu sync.Mutex
	v  T
}

func (g *guarded[T]) set(v T) {
	g.mu.Lock()
	g.v = v
	g.mu.Unlock()
}

func (g *guarded[T]) get() T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.v
}

type observation struct {
	run.Status
	stretch int
}

type result struct {
	job, stretch int
	run.Result
}

// ErrServed reports that a server runs already for this state directory.
var ErrServed = errors.New("a server runs already")

// Serve schedules the jobs of a state directory until stop is closed, or until it has drained. Jobs that still run then,
// or when the process dies, run on under their leases, and the next server adopts them.
func Serve(cfg Config, stop <-chan os.Signal) error {
	s := &server{Config: cfg, jobs: map[int]*live{}, damaged: map[int]bool{}, dirty: map[int]bool{}, statuses: map[int]observation{}, poke: make(chan struct{}, 1), results: make(chan result), up: make(chan presence), forecasts: make(chan predicted, 1)}
	if err := makeDirs(cfg.StateDir); err != nil {
		return fmt.Errorf("serve cluster: %w", err)
	}
	dir, err := journal.Open(dirOf(cfg.StateDir))
	if err != nil {
		return fmt.Errorf("serve cluster: %w", err)
	}
	unlock, err := dir.Lock()
	var locked *journal.LockedError
	if errors.As(err, &locked) {
		if h := locked.Holder; h != nil {
			return fmt.Errorf("serve cluster: %w for %s: %s", ErrServed, cfg.StateDir, strings.TrimSpace(fmt.Sprintf("process %d %s", h.PID, h.Place())))
		}
		return fmt.Errorf("serve cluster: %w for %s", ErrServed, cfg.StateDir)
	}
	if err != nil {
		return fmt.Errorf("serve cluster: %w", err)
	}
	defer unlock()
	defer dir.ShowLife()()
	defer s.telling.Wait()
	s.dir = dir
	s.lock, _ = dir.LockInfo()
	s.clock = newClock(cfg.Agent.Clock)
	if cfg.Ready != nil {
		cfg.Ready()
	}
	if err := s.open(); err != nil {
		return fmt.Errorf("serve cluster: %w", err)
	}
	defer s.log.close()
	return s.loop(stop)
}

func (s *server) now() float64 { return s.clock.now() }

// open restores the state of the last server, and adopts its jobs.
func (s *server) open() (err error) {
	if s.log, err = openEventLog(eventsPath(s.StateDir)); err != nil {
		return err
	}
	devices := s.Site.Devices()
	s.Round = cmp.Or(s.Round, defaultRound*time.Second)
	s.rates = newLearner(devices, s.Round.Seconds())
	s.rates.table = s.Pairs
	jobs, specs, err := Jobs(s.StateDir)
	var damaged DamagedError
	if err != nil && !errors.As(err, &damaged) {
		return err
	}
	for _, d := range damaged {
		if at := slices.IndexFunc(jobs, func(j Job) bool { return j.ID == d.id }); at >= 0 { // admitNew reports the others
			s.Message(cmp.Or(writeJSON(filepath.Join(jobDir(s.StateDir, d.id), "spec.json"), specs[at]), error(d)).Error())
			s.dirty[d.id] = true
		}
	}
	var known []*Job
	var knownSpecs []*Spec
	for i := range jobs {
		j := &jobs[i]
		_ = specs[i].countDevices(devices) // refused when it was submitted
		s.rates.add(j, &specs[i])          // ended ones too: they tell the ratios of types
		if k := j.Shrink; k != nil && !k.Undone {
			specs[i].Min, specs[i].Max = k.To, k.To
		}
		if !j.State.Ended() && j.Counted > 0 {
			s.clock.wall = max(s.clock.wall, j.Counted, unix(j.Since)) // the clock may have been set back since
			specs[i].Submitted = j.Submitted                           // by the time of the server
			known, knownSpecs = append(known, j), append(knownSpecs, &specs[i])
			s.jobs[j.ID] = &live{Job: j, spec: &specs[i], moving: math.NaN()}
		}
	}
	_ = os.Remove(dirOf(s.StateDir, "starts.json")) // of the last server
	boot := resources.BootID()
	last, _, err := ReadServer(s.StateDir)
	if err == nil && boot != "" && last.BootID == boot && len(known) > 0 {
		s.clock.wall = last.BootedAt + s.clock.monotonic.Seconds() // the clock may have been set while no server ran
	}
	s.info = Server{Schema: schema, BootID: boot, BootedAt: s.clock.wall - s.clock.monotonic.Seconds(), PID: os.Getpid(), Started: time.Now().UTC(), Engine: s.Site.Name(), Policy: s.Policy, RoundS: s.Round.Seconds(), Devices: devices, Faults: last.Faults}
	s.record(s.now(), Event{Kind: EventServe, Policy: s.Policy, Seed: s.Seed, Round: s.Round.Seconds(), Engine: s.Site.Name(), Devices: devices, Restarted: len(known) > 0})
	s.beginUp()
	if err := s.openScheduler(known, knownSpecs); err != nil {
		return err
	}
	if err := s.saveInfo(); err != nil {
		return err
	}
	for _, j := range known {
		if l := s.jobs[j.ID]; l != nil && j.State.holds() {
			s.Message(fmt.Sprintf("job %d (%s): adopting %s on %s", j.ID, j.Name, j.Run, places(j)))
			if exit := launch.LastExit(filepath.Join(journal.RunsDir(s.StateDir), j.Run)); exit.After(j.Since) {
				s.record(s.now(), Event{Kind: EventAdopt, Job: j.ID, Stretch: j.Stretch, GPUs: len(j.Where), Exited: unix(exit)})
				s.scheduler.vacate(s.now(), j.ID, unix(exit))
			}
			s.adopt(l)
		}
	}
	s.admitNew()
	return nil
}

// openScheduler creates the scheduler, from the state of the last server where that fits the devices.
func (s *server) openScheduler(known []*Job, specs []*Spec) error {
	if len(known) == 0 {
		var err error
		s.scheduler, err = newScheduler(s.options(s.Policy), s.now())
		return err
	}
	state, err := regular.ReadFile(dirOf(s.StateDir, "state.json"), maxFile)
	if err == nil {
		if s.scheduler, err = s.restored(s.Policy, state, known, specs); err == nil {
			return nil
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		s.Message(fmt.Sprintf("the leases of the last server do not apply any more (%v): deciding again for all jobs", err))
	}
	if s.scheduler, err = newScheduler(s.options(s.Policy), s.now()); err != nil {
		return err
	}
	for i, j := range known {
		state := j.State
		if err := s.scheduler.Admit(s.now(), j, specs[i]); err != nil {
			s.Message(fmt.Sprintf("job %d (%s): left out: %v", j.ID, j.Name, err)) // until a server has enough devices
			j.Reason, s.dirty[j.ID] = err.Error(), true
			delete(s.jobs, j.ID)
			continue
		}
		if j.State = state; state.holds() {
			s.scheduler.Keeps(j.ID, j.Keeps)
		}
	}
	return nil
}

// restored returns a scheduler for the present devices in a state of State.
func (s *server) restored(policy string, state []byte, jobs []*Job, specs []*Spec) (*scheduler, error) {
	next, err := newScheduler(s.options(policy), s.now())
	if err != nil {
		return nil, err
	}
	return next, next.Restore(state, jobs, specs)
}

func (s *server) options(policy string) options {
	return options{Policy: policy, Seed: s.Seed, Round: s.Round.Seconds(), Rates: s.rates, Log: func(e Event) {
		s.record(e.Time, e)
	}, Clock: s.Agent.Clock.Monotonic, Devices: s.rates.devices, Absent: s.absent}
}

// loop handles events until stop, or until drained.
func (s *server) loop(stop <-chan os.Signal) error {
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("serve cluster: %w", err)
	}
	defer watch.Close()
	if err := watch.Add(dirOf(s.StateDir, "spool")); err != nil {
		return fmt.Errorf("serve cluster: watch %s: %w", dirOf(s.StateDir, "spool"), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go s.watchDevices(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case sig := <-stop:
			if sig == syscall.SIGTERM && s.cancelMarked() { // which optimize runs stop sends
				break
			}
			s.save()
			if n := s.running(); n > 0 {
				s.Message(fmt.Sprintf("stopped: jobs that run on under their leases until %[2]s: %[1]d", n, time.Now().Add(s.Round*3/2).Format(time.TimeOnly)))
			}
			return nil
		case <-watch.Events:
		case err := <-watch.Errors:
			s.Message(err.Error())
		case <-s.poke:
			s.takeStatuses()
		case r := <-s.results:
			s.takeResult(r)
		case now := <-s.up:
			s.takeUp(now)
		case p := <-s.forecasts:
			s.predicting = false
			s.predictNext = s.now() + max(shortestPause, forecastPause*p.took.Seconds())
			if p.policy == s.scheduler.Policy {
				s.takeStarts(p.starts)
			}
		case <-timer.C:
		}
		s.takeSpool()
		s.endLate()
		s.renew()
		s.examine()
		if err := s.step(); err != nil {
			return err
		}
		s.followPartners()
		s.predictStarts()
		if s.draining && len(s.jobs) == 0 || s.saving && s.running() == 0 {
			s.Message("drained")
			return nil
		}
		timer.Reset(s.wait())
	}
}

// wait returns the time until the next thing to do without an event.
func (s *server) wait() time.Duration {
	next := min(s.scheduler.Next()-s.now(), s.Round.Seconds()/4, 5)
	return time.Duration(max(next, 0.01) * float64(time.Second))
}

func (s *server) running() int {
	return stat.Count(s.sortedJobs(), func(l *live) bool { return l.interrupts != nil })
}

// step decides, stores the intention, and carries it out. While the disk is full no job is started, which would fail, or
// stopped, which could not save.
func (s *server) step() error {
	if s.removed() {
		return fmt.Errorf("serve cluster: %s: %w", s.StateDir, errRemoved)
	}
	if s.checkSpace(); s.full {
		return nil
	}
	s.takeBack()
	actions, err := s.scheduler.Step(s.now())
	if err != nil {
		return fmt.Errorf("schedule jobs: %w", err)
	}
	for _, a := range actions {
		if a.Do == schedule.Start {
			l := s.jobs[a.Job]
			l.Run = cmp.Or(l.Run, journal.NewRunID(time.Now(), l.Name))
		}
	}
	if len(actions) > 0 || len(s.dirty) > 0 || s.unsaved {
		s.save()
	}
	for _, a := range actions {
		l := s.jobs[a.Job]
		if a.Do == schedule.Stop {
			s.Message(fmt.Sprintf("job %d (%s): leaves %s", l.ID, l.Name, places(l.Job)))
			s.leave(l)
			continue
		}
		s.Message(fmt.Sprintf("job %d (%s): on %s", l.ID, l.Name, places(l.Job)))
		s.begin(l, false)
	}
	return nil
}

// leave asks a job to save and leave.
func (s *server) leave(l *live) {
	now := 0.0
	s.writeLease(l, &now)
	select {
	case l.interrupts <- run.Preempt:
	default: // no agent runs, or it has more requests than it needs: the loop waits for none
	}
}

// places describes the devices of a job: "a100 0,1".
func places(j *Job) string {
	return strings.TrimSpace(j.Device + " " + strings.ReplaceAll(strings.Trim(fmt.Sprint(j.Where), "[]"), " ", ","))
}

// sortedJobs returns the jobs by id.
func (s *server) sortedJobs() []*live {
	return slices.SortedFunc(maps.Values(s.jobs), func(a, b *live) int { return a.ID - b.ID })
}

package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// Launcher starts jobs as stretches on the nodes of an engine.
type Launcher struct {
	Engine engine.Engine
	// Self is the command that runs this program as a node: Node must be called with the two arguments that follow it.
	// Its path must be the same on every node.
	Self []string
	// Place returns what the engine is asked for to have an allocation.
	Place func(a resources.Allocation) engine.Place
	// Limits returns the engine's limits of the run time at a place: the longest, 0 for none, and that of a job that asks
	// for none, 0 for the longest; nil: there are none.
	Limits func(p engine.Place) (longest, usual time.Duration)
	// Extra contains options of the site, passed through to the engine.
	Extra []string
	// Limit is the limit of the run time in Extra, which prevails; 0: none is there.
	Limit time.Duration
	// Notice is the time between the engine's SIGTERM and its SIGKILL; 0 means 30 s.
	Notice time.Duration
	// Inherited is the environment of this process; the environment of a Command is stored as the difference to it.
	Inherited []string

	times // zero: usual

	mu       sync.Mutex
	prepared map[string]*job // by run directory
	record   sync.Mutex      // guards stretches.json
	leaving  sync.WaitGroup  // withdrawals in progress
}

// times are the intervals of the agent's side.
type times struct {
	poll  time.Duration // between two reads of the node's files, while a change is expected
	beat  time.Duration // between two reads of a job that runs undisturbed
	ask   time.Duration // between two questions to the engine about a job without a living node
	stale time.Duration // age of the node's last state at which its job may be lost
	final time.Duration // wait for the engine's accounting after the end
}

var usual = times{poll: 250 * time.Millisecond, beat: time.Second, ask: 5 * time.Second, stale: 20 * time.Second, final: 15 * time.Second}

const defaultNotice = 30 * time.Second

var _ launch.Launcher = &Launcher{}

func (l *Launcher) pace() times {
	if l.times == (times{}) {
		return usual
	}
	return l.times
}

// Start submits c as the next stretch of the run and returns as soon as the engine has accepted it: the Job implements
// launch.Queued. A place that was prepared is used if c asks for the same. The error is a *launch.StartError.
func (l *Launcher) Start(ctx context.Context, c launch.Command) (launch.Job, error) {
	j, err := l.start(ctx, c)
	if err != nil {
		return nil, &launch.StartError{Args: c.Args, Reason: err.Error(), At: time.Now(), Err: err}
	}
	return j, nil
}

func (l *Launcher) start(ctx context.Context, c launch.Command) (*job, error) {
	dir, err := filepath.Abs(c.RunDir)
	if err != nil {
		return nil, err
	}
	j := l.takePrepared(dir, c)
	if j == nil {
		if j, err = l.reserve(dir, c); err != nil {
			return nil, err
		}
	}
	if err := l.fill(j, c); err != nil {
		j.Withdraw()
		return nil, err
	}
	if j.stretch.ID == "" {
		if err := l.submit(ctx, j, c); err != nil {
			return nil, err
		}
		j.left.Add(1)
		go j.watch()
	}
	return j, nil
}

// Prepare implements launch.Preparer: it submits the next stretch of the run, whose node waits for Start.
func (l *Launcher) Prepare(ctx context.Context, c launch.Command) (launch.Preparation, error) {
	dir, err := filepath.Abs(c.RunDir)
	if err != nil {
		return nil, err
	}
	if old := l.takePrepared(dir, launch.Command{}); old != nil {
		return nil, fmt.Errorf("prepare a place for %s: one is being prepared", dir)
	}
	j, err := l.reserve(dir, c)
	if err != nil {
		return nil, err
	}
	if err := l.submit(ctx, j, c); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.prepared == nil {
		l.prepared = map[string]*job{}
	}
	l.prepared[dir] = j
	l.mu.Unlock()
	j.left.Add(1)
	go j.watch()
	return j, nil
}

// ProbeArg is the hidden first argument with which the program measures a training apart from its files.
const ProbeArg = "__probe"

// Probe submits a job that measures what the directory describes, at an allocation. It is no stretch of a run. It is
// idempotent on key; an error with an id does not occur.
func (l *Launcher) Probe(ctx context.Context, key, dir string, a resources.Allocation, limit time.Duration) (id string, err error) {
	return l.Engine.Submit(ctx, engine.Request{Key: key, Comment: "optimize, a measurement", Argv: []string{l.Self[0], ProbeArg, dir}, Env: l.Inherited, Dir: dir,
		Output: filepath.Join(dir, logFile), Place: l.Place(a), TimeLimit: limit, Extra: withoutLimit(l.Extra)})
}

// withoutLimit removes the limit of the run time from options of the site.
func withoutLimit(options []string) []string {
	return slices.DeleteFunc(slices.Clone(options), func(o string) bool {
		return strings.HasPrefix(o, "--time=") || strings.HasPrefix(o, "-t") || strings.HasPrefix(o, "--time-min=")
	})
}

// takePrepared returns the prepared stretch if c asks for its place and it has not ended; any other is withdrawn.
func (l *Launcher) takePrepared(dir string, c launch.Command) *job {
	l.mu.Lock()
	j := l.prepared[dir]
	delete(l.prepared, dir)
	l.mu.Unlock()
	if j == nil {
		return nil
	}
	if j.hasEnded() || j.hasLeft() || !c.Allocation.Same(j.stretch.Alloc) {
		j.Withdraw()
		return nil
	}
	return j
}

// Words for the state of a stretch before the engine's accounting has one.
const (
	statePrepared = "prepared" // its place is being obtained; it owns nothing yet
	stateRefused  = "refused"  // by the engine
)

// reserve records the next stretch before it is submitted, so that a later agent finds its job by the key.
func (l *Launcher) reserve(dir string, c launch.Command) (*job, error) {
	l.record.Lock()
	defer l.record.Unlock()
	var all stretches
	if err := readJSON(dir, stretchesFile, &all); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	s := engine.Stretch{N: len(all.List) + 1, Engine: l.Engine.Name(), Place: l.Place(c.Allocation), Alloc: c.Allocation, Submitted: time.Now(), State: statePrepared}
	s.Key = fmt.Sprintf("optimize.%s.%d", filepath.Base(dir), s.N)
	own := launch.StretchDir(dir, s.N)
	if err := errors.Join(os.RemoveAll(own), os.MkdirAll(own, 0o700)); err != nil { // one that was not recorded
		return nil, err
	}
	all.Schema, all.List = fileSchema, append(all.List, s)
	if err := writeJSON(dir, stretchesFile, all); err != nil {
		return nil, err
	}
	return l.newJob(dir, s), nil
}

// fill writes what a stretch starts, and makes it the owner of the run.
func (l *Launcher) fill(j *job, c launch.Command) error {
	if err := writeJSON(j.dir, ownerFile, owner{Schema: ownerSchema, Stretch: j.stretch.N}); err != nil {
		return err
	}
	j.mu.Lock()
	j.stretch.State = ""
	j.saveStretch()
	j.mu.Unlock()
	return l.writeSpec(j, c)
}

// submit submits a stretch and records its id.
func (l *Launcher) submit(ctx context.Context, j *job, c launch.Command) error {
	s := &j.stretch
	limit, asked := l.timeLimit(c, s.Place)
	r := engine.Request{Key: s.Key, Comment: "optimize " + filepath.Base(j.dir), Argv: append(slices.Clone(l.Self), j.dir, fmt.Sprint(s.N)), Env: l.Inherited,
		Dir: c.Dir, Output: filepath.Join(j.own, logFile), Place: s.Place, Warn: l.warn(c, limit), Extra: l.Extra}
	if asked {
		r.TimeLimit, r.Unlimited = limit, limit == 0
	}
	id, err := l.engineOf(s).Submit(ctx, r)
	j.mu.Lock()
	defer j.mu.Unlock()
	if s.ID = id; err != nil {
		s.State, s.Ended = stateRefused, time.Now()
	}
	j.saveStretch()
	if err != nil && !errors.Is(err, engine.ErrRefused) { // it may have been accepted nevertheless
		j.Withdraw()
	}
	return err
}

// timeLimit returns the limit of the run time, 0 for none, and whether it is to be asked for: what deadline and budget
// permit, with room for the start, the last checkpoint and the engine's resolution of a minute, at most the longest that
// the place permits. The training is stopped before it by its own limit. Without deadline and budget the limit is the
// longest, for which a job asks only where it would otherwise get less: a request for more than an account or a quality
// of service permits, which is not known here, waits for ever, while a job that asks for nothing gets what they permit. A
// limit of the user prevails.
func (l *Launcher) timeLimit(c launch.Command, p engine.Place) (limit time.Duration, asked bool) {
	if l.Limit > 0 {
		return l.Limit, true
	}
	var usual time.Duration
	if l.Limits != nil {
		limit, usual = l.Limits(p)
	}
	if c.StopAfter <= 0 || p.Hold != "" { // others may stay longer
		return limit, usual > 0 && usual != limit
	}
	need := c.StopAfter + c.Grace + 2*time.Minute
	if limit > 0 {
		need = min(limit, need)
	}
	return need, true
}

// warn returns the time before the engine's time limit at which the supervisor is warned: enough for a save and an exit.
// Without a limit that is known the site may have one, and Slurm may send the warning when it preempts the job.
func (l *Launcher) warn(c launch.Command, limit time.Duration) time.Duration {
	warn := max(l.notice(), c.Grace) + time.Minute
	if limit > 0 {
		warn = min(warn, limit/2)
	}
	return warn
}

func (l *Launcher) notice() time.Duration {
	if l.Notice > 0 {
		return l.Notice
	}
	return defaultNotice
}

// writeSpec stores what a stretch starts. Only the variables that differ from the inherited environment are stored:
// those of the user, which may be secret, reach the job through the engine.
func (l *Launcher) writeSpec(j *job, c launch.Command) error {
	s := spec{Schema: fileSchema, Args: c.Args, Dir: c.Dir, Allocation: c.Allocation, Limits: c.Limits, Grace: c.Grace, StopAfter: c.StopAfter,
		Notice: l.notice(), Interval: time.Second, PTY: c.PTY, Reports: c.Reports, Nodes: l.Place(c.Allocation).Nodes}
	if !c.StopBy.IsZero() {
		s.StopIn = max(time.Until(c.StopBy), time.Millisecond)
	}
	limit, _ := l.timeLimit(c, l.Place(c.Allocation))
	s.Warn = l.warn(c, limit)
	inherited, own := variables(l.Inherited), variables(c.Env)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if value, ok := inherited[name]; deviceVariables[name] && c.Allocation.GPUs > 0 || ok && value == own[name] {
			continue
		}
		s.Env = append(s.Env, name+"="+own[name])
	}
	for _, name := range slices.Sorted(maps.Keys(inherited)) {
		if _, ok := own[name]; !ok {
			s.Unset = append(s.Unset, name)
		}
	}
	return writeJSON(j.own, specFile, s)
}

// deviceVariables are set by the engine for the devices that it has granted.
var deviceVariables = map[string]bool{"CUDA_VISIBLE_DEVICES": true, "NVIDIA_VISIBLE_DEVICES": true, "ROCR_VISIBLE_DEVICES": true, "HIP_VISIBLE_DEVICES": true}

func variables(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		m[name] = value
	}
	return m
}

// Adopt implements launch.Launcher. A stretch whose id was never recorded is found by its key.
func (l *Launcher) Adopt(ctx context.Context, h launch.Handle) (launch.Job, error) {
	list, err := Stretches(h.RunDir)
	if err != nil || h.Stretch < 1 || h.Stretch > len(list) {
		return nil, fmt.Errorf("adopt stretch %d of %s: its record is missing: %w", h.Stretch, h.RunDir, err)
	}
	j := l.newJob(h.RunDir, list[h.Stretch-1])
	if _, err := os.Stat(j.own); err != nil {
		return l.adoptEarlier(ctx, j)
	}
	if j.stretch.ID == "" {
		found, err := j.engine().List(ctx, j.stretch.Key)
		if err != nil {
			return nil, fmt.Errorf("adopt stretch %d of %s: %w", h.Stretch, h.RunDir, err)
		}
		if len(found) > 0 {
			j.stretch.ID = found[0].ID
			j.saveStretch()
		}
	}
	readJSON(j.own, requestFile, &j.want) // without it the numbering starts at 0, below that of the node
	j.want.Schema = fileSchema
	l.WithdrawPrepared(h.RunDir)
	if j.look() { // known at once: an outage of the agent is not counted beyond the end of the job
		j.end()
		return j, nil
	}
	j.left.Add(1)
	go j.watch()
	return j, nil
}

// adoptEarlier returns the stretch of an earlier version of this program, whose files differ, if its job has ended.
func (l *Launcher) adoptEarlier(ctx context.Context, j *job) (launch.Job, error) {
	s := &j.stretch
	if s.Ended.IsZero() {
		found, err := j.engine().List(ctx, s.Key)
		if err == nil && slices.ContainsFunc(found, func(f engine.Status) bool { return f.State != engine.Ended }) {
			err = fmt.Errorf("it was started by an earlier version of this program, whose files differ: cancel %s job %s, then resume", s.Engine, s.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("adopt stretch %d of %s: %w", s.N, j.dir, err)
		}
	}
	j.endWithout("of an earlier version of this program")
	return j, nil
}

// Charged returns an allocation with the memory that is asked for, and charged, with it.
func (l *Launcher) Charged(a resources.Allocation) resources.Allocation {
	a.Memory = l.Place(a).Memory
	return a
}

// Stretches returns the stretches of a run, oldest first.
func (l *Launcher) Stretches(runDir string) ([]engine.Stretch, error) { return Stretches(runDir) }

// WithdrawPrepared gives up the places that a dead agent was obtaining for a run.
func (l *Launcher) WithdrawPrepared(runDir string) {
	list, err := Stretches(runDir)
	if err != nil {
		return
	}
	for _, s := range list {
		if s.State == statePrepared && s.Ended.IsZero() {
			l.newJob(runDir, s).Withdraw()
		}
	}
}

// Release gives up everything that a run has on the engine, before it continues elsewhere: no stretch owns the run any
// more, and the jobs of those without a recorded end are cancelled.
func (l *Launcher) Release(ctx context.Context, runDir string) error {
	list, err := Stretches(runDir)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		if err := writeJSON(runDir, ownerFile, owner{Schema: ownerSchema, Stretch: len(list) + 1}); err != nil {
			return err
		}
	}
	for _, s := range list {
		if s.Ended.IsZero() {
			if err := l.newJob(runDir, s).cancelJob(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Settle waits for withdrawals in progress, until ctx ends.
func (l *Launcher) Settle(ctx context.Context) {
	done := make(chan struct{})
	go func() { l.leaving.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Find implements launch.Launcher: it returns the handle of the latest stretch of a run.
func (l *Launcher) Find(runDir string) (launch.Handle, error) {
	list, err := Stretches(runDir)
	if err != nil {
		return launch.Handle{}, err
	}
	for _, s := range slices.Backward(list) {
		if s.State != statePrepared && s.State != stateRefused {
			return launch.Handle{RunDir: runDir, Engine: s.Engine, EngineID: s.ID, Stretch: s.N}, nil
		}
	}
	return launch.Handle{}, fmt.Errorf("find the stretch of %s: %w", runDir, os.ErrNotExist)
}

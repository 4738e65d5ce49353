package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
	"trainopt/simulator/training"
)

// patience bounds the waits of a test; it expires only if the test fails.
const patience = 2 * time.Minute

// hand is a clock that advances only when the test sets it.
type hand struct {
	mu   sync.Mutex
	mono time.Duration
	wall time.Time
}

func newHand() *hand {
	return &hand{mono: 1000 * time.Hour, wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

func (h *hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wall
}

func (h *hand) Monotonic() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mono
}

// advance advances the clock.
func (h *hand) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mono += d
	h.wall = h.wall.Add(d)
}

// step sets the wall clock, as a user or a time server does.
func (h *hand) step(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wall = h.wall.Add(d)
}

// stage is a machine of four CPUs on which a scripted job runs under a real agent. Job and agent take turns: the agent
// rests while the job advances the clock and writes, then looks at it as often as the job asks, and rests again. While no
// job takes turns, the agent looks every few milliseconds.
type stage struct {
	t     *testing.T
	clock *hand
	cfg   Config
	ticks chan time.Time // of the agent
	turns sync.Mutex     // held while the agent is made to tick
	// play is the job, from its start to its end.
	play func(*actor) launch.Exit
	// onStart is called before each start, with the number of the start from 1.
	onStart    func(n int, c launch.Command)
	startError error // of every start
	// onEvent is called at each event.
	onEvent func(line string)
	// onStatus is called after each tick of the agent.
	onStatus func(Status)

	mu      sync.Mutex
	events  []string            // with their level, "1 text"
	planned *journal.Prediction // of the latest plan
	status  Status
	looks   int           // number of statuses
	looked  chan struct{} // closed at the next status
	actors  []*actor
	saved   int  // the epoch in the job's checkpoint
	timed   bool // the log contains the time of each epoch
	exact   bool // a restart repeats the rows of an epoch exactly

	interrupts chan os.Signal // the signals sent by runWithSignals
}

// newStage creates a run of train.sh on one CPU at $0.001 per second, with the planner that changes nothing.
func newStage(t *testing.T, play func(*actor) launch.Exit) *stage {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.sh"), []byte("#!/bin/sh\nexit 1 # the test plays it\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, clock: newHand(), ticks: make(chan time.Time), looked: make(chan struct{}), play: play, cfg: Config{Train: "train.sh", Dir: dir,
		StateDir: filepath.Join(dir, "state"), CPUs: "1", Planner: "static", Resume: resumableYes, Interval: 50 * time.Millisecond,
		Rates: &cost.Rates{CPUHour: 3.6, Source: "the test", Dated: "2026-03-01"}}}
	go s.lookIdly(t.Context())
	return s
}

// lookIdly makes the agent tick while it is idle and no job takes a turn.
func (s *stage) lookIdly(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		s.turns.Lock()
		looked := s.nextLook()
		select {
		case s.ticks <- time.Time{}:
			select {
			case <-looked:
			case <-ctx.Done():
			}
		default: // it is occupied, or none runs
		}
		s.turns.Unlock()
	}
}

// look makes the agent tick, and returns after that tick. The caller holds turns.
func (s *stage) look() bool {
	looked, over := s.nextLook(), s.t.Context().Done()
	select {
	case s.ticks <- time.Time{}:
	case <-over:
		return false
	}
	select {
	case <-looked:
		return true
	case <-over:
		return false
	}
}

// nextLook returns a channel that is closed when the agent has looked at the job.
func (s *stage) nextLook() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looked
}

// turn lets the job act while the agent rests, and then makes the agent look until ok, which is given the number of
// looks since.
func (s *stage) turn(what string, act func(), ok func(st Status, looks int) bool) bool {
	s.turns.Lock()
	defer s.turns.Unlock()
	act()
	for n, until := 1, time.Now().Add(patience); s.look() && time.Now().Before(until); n++ {
		if st, _ := s.seen(); ok(st, n) {
			return true
		}
		time.Sleep(time.Millisecond) // something else acts, such as the watchdog
	}
	if s.t.Context().Err() == nil {
		s.t.Errorf("the agent did not come to: %s", what)
	}
	return false
}

func (s *stage) agent() Agent {
	return Agent{ticks: s.ticks, Launcher: s, View: s, Clock: s.clock, Speed: func() float64 { return 1 }, Simulate: training.CalibratedEnvironment, Environ: []string{"PATH=" + os.Getenv("PATH")},
		Discover: func(context.Context) (resources.Host, error) {
			return resources.Host{CPUs: 4, CPUIDs: []int{0, 1, 2, 3}, Memory: 16}, nil
		}}
}

func (s *stage) run() Result {
	res := s.agent().Run(s.t.Context(), s.cfg, nil)
	if res.Record == nil {
		s.t.Fatalf("no record; exit %d: %v", res.Code, res.Err)
	}
	return res
}

func (s *stage) resume(dir string, c Change) Result {
	return s.agent().Resume(s.t.Context(), dir, c, nil)
}

// Event, Status, Planned and Finished implement the agent's View.
func (s *stage) Event(level Level, line string) {
	if s.onEvent != nil {
		s.onEvent(line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf("%d %s", level, line))
}

func (s *stage) Status(st Status) {
	s.mu.Lock()
	s.status = st
	s.looks++
	s.mu.Unlock()
	if s.onStatus != nil {
		s.onStatus(st)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.looked)
	s.looked = make(chan struct{})
}

func (s *stage) Planned(rec *journal.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned = cmp.Or(rec.Plan.Prediction, s.planned)
}

func (s *stage) Finished(*journal.Record, string) {}

// save writes a file in the working directory, dated by the stage's clock, and returns its path.
func (s *stage) save(name, text string) string {
	s.t.Helper()
	path, now := filepath.Join(s.cfg.Dir, name), s.clock.Now()
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, now, now)); err != nil {
		s.t.Error(err)
	}
	return path
}

// waitsToRestart lets time pass while the job waits to start again.
func (s *stage) waitsToRestart() {
	s.onStatus = func(st Status) {
		if st.Phase == "waiting to start again" {
			s.clock.advance(500 * time.Millisecond)
		}
	}
}

// said returns the events of at least a level that contain a text.
func (s *stage) said(least Level, text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, e := range s.events {
		if Level(e[0]-'0') >= least && strings.Contains(e, text) {
			out = append(out, e[2:])
		}
	}
	return out
}

// seen returns the last status and the number of statuses.
func (s *stage) seen() (Status, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.looks
}

// wait makes the agent look until its status satisfies ok.
func (s *stage) wait(what string, ok func(Status) bool) bool {
	st, _ := s.seen()
	return ok(st) || s.turn(what, func() {}, func(st Status, _ int) bool { return ok(st) })
}

// started returns the actors so far.
func (s *stage) started() []*actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.actors)
}

// Start and Adopt implement the agent's Launcher.
func (s *stage) Start(_ context.Context, c launch.Command) (launch.Job, error) {
	if s.startError != nil {
		return nil, s.startError
	}
	s.mu.Lock()
	a := &actor{stage: s, n: len(s.actors) + 1, command: c, from: s.clock.Monotonic(),
		asked: make(chan struct{}), stopped: make(chan struct{}), done: make(chan struct{})}
	s.actors = append(s.actors, a)
	s.mu.Unlock()
	if s.onStart != nil {
		s.onStart(a.n, c)
	}
	a.write() // so that the agent's first read finds it
	go func() {
		exit := s.play(a)
		exit.At, exit.Ran = s.clock.Now(), cmp.Or(exit.Ran, s.clock.Monotonic()-a.from) // Ran is set if it is noticed late
		a.exit = exit
		close(a.done)
	}()
	return a, nil
}

func (s *stage) Adopt(_ context.Context, h launch.Handle) (launch.Job, error) {
	for _, a := range s.started() {
		if a.Handle() == h {
			return a, nil
		}
	}
	return nil, fmt.Errorf("adopt %+v: never started", h)
}

func (s *stage) Find(string) (launch.Handle, error) { return launch.Handle{}, fs.ErrNotExist }

// actor is one start of the job.
type actor struct {
	stage   *stage
	n       int
	command launch.Command
	from    time.Duration
	epoch   int // the last finished one

	asked, stopped, done chan struct{}
	exit                 launch.Exit

	mu      sync.Mutex
	asks    int
	stops   []time.Duration // the grace of each stop
	signals []os.Signal     // those sent to its process group
	limit   time.Duration
}

// setting returns a variable of the job's environment.
func (a *actor) setting(name string) string {
	for _, kv := range a.command.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// begin returns the epoch from which the job continues: that of the checkpoint after a restart.
func (a *actor) begin() int {
	if a.setting("OPTIMIZER_RESUME") == "1" {
		a.epoch = a.stage.saved
	}
	return a.epoch
}

// work is one epoch of the given seconds, written to the log and read by the agent. It returns false if the job must
// exit.
func (a *actor) work(total int, seconds float64) bool {
	s := a.stage
	before, _ := s.seen()
	return s.turn(fmt.Sprintf("epoch %d", a.epoch+1), func() {
		a.epoch++
		s.clock.advance(at(seconds))
		n := a.n
		if s.exact {
			n = 1
		}
		row := fmt.Sprintf("%d,%d,100,%g", a.epoch, total, 1/float64(a.epoch*n))
		if s.timed {
			row += fmt.Sprintf(",%g", seconds)
		}
		a.write(row + "\n")
	}, func(st Status, looks int) bool {
		if e := float64(a.epoch); before.Done < e { // the row contains progress
			return a.mustGo() || st.Done >= e
		}
		return a.mustGo() || looks >= 2
	}) && !a.mustGo()
}

// write appends rows to the training log, after its header.
func (a *actor) write(rows ...string) {
	path := a.setting("OPTIMIZER_LOG")
	if a.stage.cfg.Log != "" {
		path = a.stage.cfg.Log
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		a.stage.t.Errorf("write the training log: %v", err)
		return
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() == 0 {
		header := "epoch,total_epochs,data_count,train_loss"
		if a.stage.timed {
			header += ",epoch_time"
		}
		rows = append([]string{header + "\n"}, rows...)
	}
	if _, err := f.WriteString(strings.Join(rows, "")); err != nil {
		a.stage.t.Errorf("write the training log: %v", err)
	}
}

func (a *actor) mustGo() bool {
	select {
	case <-a.asked:
		return true
	case <-a.stopped:
		return true
	default:
		return false
	}
}

// ends of a job.
var (
	finished = launch.Exit{Reason: launch.Exited}
	left     = launch.Exit{Reason: launch.Stopped, Code: 75}
)

func failed(code int) launch.Exit { return launch.Exit{Reason: launch.Exited, Code: code} }

func died(signal string) launch.Exit {
	return launch.Exit{Reason: launch.Killed, Code: -1, Signal: signal, Detail: "died of " + signal}
}

// leave saves and exits as requested.
func (a *actor) leave() launch.Exit {
	select {
	case <-a.stopped:
		a.mu.Lock()
		defer a.mu.Unlock()
		e := died("SIGTERM")
		if slices.Contains(a.stops, 0) {
			e = died("SIGKILL")
		}
		e.Reason = launch.Stopped
		return e
	default:
	}
	a.stage.saved = a.epoch
	return left
}

// resumable plays a training that saves on request and continues from there.
func resumable(total int, seconds float64) func(*actor) launch.Exit {
	return func(a *actor) launch.Exit {
		for a.begin(); a.epoch < total; {
			if !a.work(total, seconds) {
				return a.leave()
			}
		}
		return finished
	}
}

func (a *actor) Handle() launch.Handle {
	return launch.Handle{RunDir: a.command.RunDir, PID: 1 << 30, Start: uint64(a.n)}
}

func (a *actor) Began() time.Duration { return a.from }

func (a *actor) PIDs() ([]int, error) { return nil, nil }

func (a *actor) Enforced() []string { return []string{"nothing is enforced on a stage"} }

func (a *actor) Apply(resources.Allocation) ([]string, error) { return nil, nil }

func (a *actor) SetStopAfter(d time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit = d
	return nil
}

func (a *actor) Checkpoint() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asks++; a.asks == 1 {
		close(a.asked)
	}
	return nil
}

func (a *actor) Signal(s os.Signal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signals = append(a.signals, s)
	return nil
}

// signalled returns the signals sent to the process group of the job.
func (a *actor) signalled() []os.Signal {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.signals)
}

func (a *actor) Stop(_ context.Context, grace time.Duration) (launch.Exit, error) {
	a.mu.Lock()
	if a.stops = append(a.stops, grace); len(a.stops) == 1 {
		close(a.stopped)
	}
	a.mu.Unlock()
	<-a.done
	return a.exit, nil
}

func (a *actor) Done() <-chan struct{} { return a.done }

func (a *actor) Exit() launch.Exit {
	<-a.done
	return a.exit
}

func (a *actor) Close() error { return nil }

// counts returns how often the job was asked to save and to stop.
func (a *actor) counts() (asks, stops int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asks, len(a.stops)
}

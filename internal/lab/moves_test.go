package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/engine/slurm"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/launch/remote"
	"trainopt/resources"
)

// mover moves a training between places as an agent does, more often than one would.
type mover struct {
	*world
	launcher *remote.Launcher
	job      launch.Job
	dir      string // of the run
	random   *rand.Rand
}

// handover is one change of the place.
type handover struct {
	from, to int // stretches
	fault    string
	ended    bool // the engine ended the place from which the training moved, as a controller does that has lost its record
}

// TestMovesBetweenPlaces moves a training to and fro between two places, each of which is obtained while the other is held.
// During half of the moves a daemon, the supervisor of either place or the agent is killed. One process writes at a time and
// no work of more than a unit is lost. Where no fault ends a place itself, there is no moment at which the job holds none: a
// place ends no earlier than the next one has begun, by the accounting.
func TestMovesBetweenPlaces(t *testing.T) {
	m := &mover{world: newWorld(t), random: rand.New(rand.NewPCG(uint64(*seedFlag), 1))}
	for _, kv := range m.Env {
		if name, value, _ := strings.Cut(kv, "="); name == "PATH" || name == "SLURM_CONF" || name == "MYSQL_UNIX_PORT" {
			t.Setenv(name, value)
		}
	}
	m.dir = filepath.Join(m.world.dir, ".optimize", "runs", "moves")
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	m.launcher = m.newLauncher()
	m.start(1)
	m.progress(2)
	var moves []handover
	counts := map[string]int{}
	for i := range *movesFlag {
		h := m.move(i%2 + 2)
		moves = append(moves, h)
		counts[h.fault]++
		t.Logf("move %d, %q: stretch %d to %d at unit %d", i+1, h.fault, h.from, h.to, len(m.units()))
		if m.oneWriter(); t.Failed() {
			return
		}
	}
	if _, err := m.job.Stop(t.Context(), 5*time.Second); err != nil {
		t.Error(err)
	}
	m.launcher.Settle(t.Context())
	m.oneWriter()
	m.noGap(moves)
	t.Logf("%v, %d writers", counts, len(writers(m.units())))
}

func (m *mover) newLauncher() *remote.Launcher {
	return &remote.Launcher{Engine: &slurm.Engine{Folder: filepath.Join(m.world.dir, "cache")}, Self: []string{m.program, "__node"}, Inherited: os.Environ(),
		Place: func(a resources.Allocation) engine.Place {
			return engine.Place{Partition: "gpu", CPUs: a.CPUs, Memory: 0.25}
		}}
}

// command is the training at an allocation of n CPUs.
func (m *mover) command(n int) launch.Command {
	folder := filepath.Join(m.world.dir, "saved")
	env := append(os.Environ(), "OPTIMIZER_CHECKPOINT_DIR="+folder, "OPTIMIZER_LOG="+filepath.Join(m.world.dir, "log.csv"))
	if _, err := os.Stat(filepath.Join(folder, "checkpoint.json")); err == nil {
		env = append(env, "OPTIMIZER_RESUME=1")
	}
	return launch.Command{Args: []string{"python3", filepath.Join(m.world.dir, "training.py"), "1000000", "0.1"}, Dir: m.world.dir, RunDir: m.dir, Env: env,
		Grace: 5 * time.Second, Allocation: resources.Allocation{CPUs: n}, Limits: resources.Limits{CPUs: resources.Range{Min: 1, Max: 4}}}
}

// start starts the training, again while the engine does not answer or ends the place before it is used.
func (m *mover) start(n int) {
	m.Helper()
	m.await("the start", func() bool {
		j, err := m.launcher.Start(m.Context(), m.command(n))
		if errors.Is(err, engine.ErrUnreachable) {
			time.Sleep(time.Second)
			return false
		}
		if err != nil {
			m.Fatal(err)
		}
		m.job = j
		select {
		case <-j.(launch.Queued).Started():
			return true
		case <-j.Done():
			m.Logf("stretch %d ended before it was used: %+v", j.Handle().Stretch, j.Exit())
			return false
		case <-time.After(patience):
			m.Fatalf("stretch %d did not start", j.Handle().Stretch)
		}
		return false
	})
}

// move moves the training to an allocation of n CPUs, with a fault or none at one of three moments.
func (m *mover) move(n int) handover {
	m.Helper()
	h := handover{from: m.job.Handle().Stretch}
	if m.random.IntN(2) == 0 {
		h.fault = []string{"agent", "database", "controller", "slurmd", "supervisor"}[m.random.IntN(5)]
	}
	moment := m.random.IntN(3)
	before := len(writers(m.units()))
	if moment == 0 {
		m.inject(h.fault)
	}
	place := m.prepare(n)
	if moment == 1 {
		m.inject(h.fault)
		if h.fault == "agent" { // the next one gives up what its predecessor was obtaining
			place = m.prepare(n)
		}
	}
	m.job.Checkpoint()
	m.ends(m.job.Done(), "the job that was asked to leave")
	h.ended = slices.Contains([]launch.ExitReason{launch.Preempted, launch.Lost, launch.Cancelled}, m.job.Exit().Reason)
	m.job.Close()
	if moment == 2 && h.fault != "agent" {
		m.inject(h.fault)
	}
	m.start(n)
	if h.to = m.job.Handle().Stretch; place == nil && h.fault == "" {
		m.Errorf("no place was obtained for the move from stretch %d", h.from)
	}
	m.runs(n, "the next writer", func() bool { return len(writers(m.units())) > before })
	from := len(m.units())
	m.runs(n, "progress", func() bool { return len(m.units()) > from+2 })
	return h
}

// runs waits until a condition holds, and starts the training again when the engine ends its place, as an agent does.
func (m *mover) runs(n int, what string, holds func() bool) {
	m.Helper()
	m.await(what, func() bool {
		select {
		case <-m.job.Done():
			m.Logf("stretch %d: %s", m.job.Handle().Stretch, m.job.Exit().Detail)
			m.start(n)
		default:
		}
		return holds()
	})
}

// prepare obtains the place of the next stretch; nil if the present one has ended meanwhile, or the engine has ended it.
func (m *mover) prepare(n int) launch.Preparation {
	m.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(time.Second) {
		place, err := m.launcher.Prepare(m.Context(), m.command(n))
		if err != nil {
			continue
		}
		select {
		case <-place.Ready():
			return place
		case <-place.Done():
		case <-m.job.Done():
			return nil
		case <-time.After(patience):
		}
	}
	return nil
}

func (m *mover) ends(done <-chan struct{}, what string) {
	m.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		m.Fatalf("%s: no end within %v", what, patience)
	}
}

// inject kills a part of the system. Daemons are started again after at most three seconds.
func (m *mover) inject(fault string) {
	m.Helper()
	daemon := map[string]string{"database": "slurmdbd", "controller": "slurmctld", "slurmd": fmt.Sprint("slurmd-n", m.random.IntN(4))}[fault]
	switch {
	case fault == "agent":
		h := m.job.Handle()
		m.job.Close()
		m.launcher = m.newLauncher()
		j, err := m.launcher.Adopt(m.Context(), h)
		if err != nil {
			m.Fatal(err)
		}
		m.job = j
	case fault == "supervisor":
		m.killSupervisor()
	case daemon != "":
		m.Kill(m.T, daemon)
		time.Sleep(time.Duration(m.random.IntN(3000)) * time.Millisecond)
		m.Heal(m.T)
	}
}

// noGap compares the times of the places in the accounting.
func (m *mover) noGap(moves []handover) {
	m.Helper()
	list, err := remote.Stretches(m.dir)
	if err != nil {
		m.Fatal(err)
	}
	var ids []string
	for _, s := range list {
		if s.ID != "" {
			ids = append(ids, s.ID)
		}
	}
	held := map[string]engine.Life{} // by key: a controller that has lost its records assigns numbers again
	m.await("the accounting", func() bool {
		lives, err := (&slurm.Engine{}).Account(context.Background(), ids...)
		known := map[string]bool{}
		for _, l := range lives {
			held[l.Key], known[l.ID] = l, l.Final
		}
		return err == nil && !slices.ContainsFunc(ids, func(id string) bool { return !known[id] })
	})
	whole, longest := 0, time.Duration(0)
	for i, h := range moves {
		// A controller that is killed during the next move may have lost the start of this one's place, and dates it later.
		lost := i+1 < len(moves) && moves[i+1].fault == "controller"
		from, one := held[list[h.from-1].Key]
		to, two := held[list[h.to-1].Key]
		if !one || !two {
			m.Logf("%q: the accounting has lost stretch %d or %d", h.fault, h.from, h.to)
			continue
		}
		gap := to.Started.Sub(from.Ended)
		switch {
		case !h.ended && !lost && slices.Contains([]string{"", "agent", "database"}, h.fault):
			if whole++; gap > 0 {
				m.Errorf("%q: stretch %d ended at %v, stretch %d held its place from %v: none for %v", h.fault, h.from, from.Ended, h.to, to.Started, gap)
			}
		default:
			longest = max(longest, gap)
		}
	}
	m.Logf("no gap in %d of %d moves; with a fault that can end a place itself at most %v", whole, len(moves), longest)
}

package run

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// orphan starts the stage's job and writes the run directory that a killed agent leaves behind.
func orphan(t *testing.T, s *stage, resumable bool) (*journal.Run, *actor) {
	t.Helper()
	dir, err := journal.Create(s.cfg.StateDir, "20260301-120000-train-abcdef")
	if err != nil {
		t.Fatal(err)
	}
	reports := dir.Path("observe/reports-1")
	if err := os.MkdirAll(reports, 0o700); err != nil {
		t.Fatal(err)
	}
	a := resources.Allocation{CPUs: 1, Memory: 1}
	f := facts{Config: s.cfg.WithDefaults(), Argv: []string{"python3", filepath.Join(s.cfg.Dir, "train.py")}, Current: a, Baseline: a,
		Rates: *s.cfg.Rates, Resumable: resumable, Phase: working, Host: resources.Host{CPUs: 4, CPUIDs: []int{0, 1, 2, 3}, Memory: 16}}
	f.Limits = f.Host.DefaultLimits(false)
	f.Progress.Begin(0, a, "run", true)
	f.OwnLog = dir.Path("training.csv")
	meter := new(cost.Meter)
	if err := meter.Start(0, "run", a, f.Rates); err != nil {
		t.Fatal(err)
	}
	job, err := s.Start(t.Context(), launch.Command{RunDir: dir.Dir(),
		Env: []string{"OPTIMIZER_LOG=" + dir.Path("training.csv"), "OPTIMIZE_OBSERVE_DIR=" + reports}})
	if err != nil {
		t.Fatal(err)
	}
	h := job.Handle()
	f.Handle, f.MeterState, f.Monotonic, f.BootID = &h, meter.State(), s.clock.Monotonic(), bootID()
	rec := journal.NewRecord()
	rec.RunID, rec.State, rec.StartedAt, rec.Script.Path = dir.ID(), journal.Running, s.clock.Now(), f.Argv[1]
	if err := dir.SaveState(f); err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteRecord(rec); err != nil {
		t.Fatal(err)
	}
	return dir, s.started()[0]
}

// TestStopRunWithoutAgent: an orphaned job is asked to exit as its agent would have asked it: by the observer if its
// framework saves on request, otherwise by the checkpoint signal, otherwise it is stopped.
func TestStopRunWithoutAgent(t *testing.T) {
	for name, c := range map[string]struct {
		observed, resumable bool
		asks, stops         int
	}{
		"saves by the observer": {observed: true, resumable: true},
		"saves on the signal":   {resumable: true, asks: 1},
		"saves nothing":         {stops: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, nil)
			if c.resumable && !c.observed {
				s.cfg.Resume = resumableYes
			}
			ready, saved := make(chan struct{}), ""
			s.play = func(a *actor) launch.Exit {
				a.begins(map[string]any{"can_save": c.observed, "can_stop": c.observed})
				a.epoch = 3
				a.report(map[string]any{"event": "progress", "training": 1, "step": 3, "total_steps": 9, "step_seconds": 1, "threads": 2})
				close(ready)
				for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
					if q := a.request(); q != nil {
						saved = a.checkpoint()
						a.report(map[string]any{"event": "answer", "id": q["id"], "op": "save_and_stop", "ok": true, "stopped": true, "path": saved, "step": 3, "seconds": 0.1})
						return finished
					}
					if a.mustGo() {
						return a.leave()
					}
				}
				t.Error("the job was not asked to exit")
				return failed(1)
			}
			dir, job := orphan(t, s, c.resumable)
			<-ready
			text, err := s.agent().StopRun(context.Background(), dir.Dir(), patience)
			if err != nil || !strings.Contains(text, "stopped") {
				t.Fatalf("%q, %v", text, err)
			}
			if asks, stops := job.counts(); asks != c.asks || stops != c.stops {
				t.Errorf("asked by signal %d times and stopped %d times, want %d and %d", asks, stops, c.asks, c.stops)
			}
			var f facts
			if _, err := dir.LoadState(&f); err != nil || !f.Ended || f.Asked != saved || c.observed != (saved != "") {
				t.Errorf("state: ended %v, checkpoint %q of %q, %v", f.Ended, f.Asked, saved, err)
			}
			if rec, err := journal.ReadRecord(dir.Dir()); err != nil || rec.State != journal.Stopped || rec.Exit == nil || rec.Exit.Reason != "user" {
				t.Errorf("record %+v, %v", rec, err)
			}
		})
	}
}

// TestStopRunTwice: a stop waits for another one of the same run, and does not take it for the run's agent. The record
// contains what the dead agent has not read.
func TestStopRunTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		a.write("1,9,100,0.5\n", "2,9,100,0.4\n")
		select {
		case <-a.asked:
		case <-a.stopped:
		}
		return a.leave()
	})
	dir, _ := orphan(t, s, true)
	unlock, err := dir.LockFor("runs stop", 0)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		text string
		err  error
	}
	second := make(chan result, 1)
	go func() {
		text, err := s.agent().StopRun(context.Background(), dir.Dir(), patience) // of an agent it would end this process
		second <- result{text, err}
	}()
	select {
	case r := <-second:
		t.Errorf("the stop has not waited: %+v", r)
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	if r := <-second; r.err != nil || !strings.Contains(r.text, "stopped (") {
		t.Errorf("%+v", r)
	}
	if rec, err := journal.ReadRecord(dir.Dir()); err != nil || rec.Outcome.Epochs != 2 || rec.Outcome.Rows != 2 || rec.Waste.Failed != 0 {
		t.Errorf("record %+v, %v; want the two epochs that no agent has read, saved on request", rec.Outcome, err)
	}
}

// TestStopRunThatHasEnded: a job that ended by itself while no agent ran was not stopped by a later request.
func TestStopRunThatHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		exit  launch.Exit
		state journal.State
		text  string
	}{
		"finished": {finished, journal.Done, "had finished"},
		"failed":   {failed(3), journal.Failed, "failed (exit code 3)"},
		"killed":   {launch.Exit{Reason: launch.Killed, Code: -1, Signal: "SIGSEGV"}, journal.Failed, "failed (died of SIGSEGV)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := observedStage(t, nil)
			s.play = func(a *actor) launch.Exit {
				a.begins(nil)
				a.report(map[string]any{"event": "progress", "training": 1, "step": 9, "total_steps": 9, "step_seconds": 1, "threads": 2})
				return c.exit
			}
			dir, job := orphan(t, s, true)
			<-job.Done()
			text, err := s.agent().StopRun(context.Background(), dir.Dir(), patience)
			if err != nil || !strings.Contains(text, c.text) {
				t.Errorf("%q, %v; want %q", text, err, c.text)
			}
			rec, err := journal.ReadRecord(dir.Dir())
			if err != nil || rec.State != c.state || rec.Exit == nil || rec.Exit.Reason != string(c.exit.Reason) {
				t.Errorf("record %+v, %v; want state %s", rec, err, c.state)
			}
			if asks, stops := job.counts(); asks+stops > 0 || len(s.started()) != 1 {
				t.Errorf("asked %d times, stopped %d times, %d launches; want no request and 1 launch", asks, stops, len(s.started()))
			}
		})
	}
}

// TestFindOrphanedRun: an orphaned run is of the same training only if its environment was the same, but for variables of the session
// and of the node. A later life of a Slurm job prefers the run that its earlier one left.
func TestFindOrphanedRun(t *testing.T) {
	const first, second = "SLURM_JOB_ID=12 SLURMD_NODENAME=n0", "SLURM_JOB_ID=12 SLURMD_NODENAME=n1 SLURM_RESTART_COUNT=1"
	for name, c := range map[string]struct {
		left    []string // the environments of the orphaned runs, oldest first
		now     string
		want    int    // of left, from 1; 0: none
		differs string // in a warning
	}{
		"same":              {left: []string{"SEED=1"}, now: "SEED=1", want: 1},
		"another value":     {left: []string{"SEED=1"}, now: "SEED=2", differs: "SEED"},
		"missing":           {left: []string{"SEED=1 RATE=2"}, differs: "RATE, SEED"},
		"an older one":      {left: []string{"SEED=1", "SEED=2"}, now: "SEED=1", want: 1, differs: "SEED"},
		"another session":   {left: []string{"TERM=xterm SSH_TTY=1"}, now: "TERM=dumb", want: 1},
		"another node":      {left: []string{first + " HOSTNAME=n0 CUDA_VISIBLE_DEVICES=0"}, now: second + " HOSTNAME=n1 CUDA_VISIBLE_DEVICES=3", want: 1},
		"another job":       {left: []string{first, "SLURM_JOB_ID=13 SLURMD_NODENAME=n0"}, now: second, want: 1},
		"another task":      {left: []string{"SLURM_JOB_ID=13 SLURMD_NODENAME=n0 SLURM_ARRAY_TASK_ID=4"}, now: second + " SLURM_ARRAY_TASK_ID=3", differs: "SLURM_ARRAY_TASK_ID"},
		"another rank":      {left: []string{first + " SLURM_PROCID=0"}, now: second + " SLURM_PROCID=1", differs: "SLURM_PROCID"},
		"many":              {left: []string{"A=1 B=1 C=1 D=1 E=1 F=1 G=1 H=1 I=1 J=1 K=1 L=1"}, differs: "A, B, C, D, E, F, G, H, I, J, 2 more"},
		"not of the script": {left: []string{"XDG_CURRENT_DESKTOP=KDE MY_SEED=3 SEED=1"}, now: "SEED=1", want: 1},
		"another address":   {left: []string{first + " MASTER_ADDR=n0 SEED=$RANDOM"}, now: second + " MASTER_ADDR=n1 SEED=7", want: 1},
		"without variables": {left: []string{""}, now: "SEED=1", want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, resumable(2, 1))
			agent := func(environ string) Agent {
				a := s.agent()
				a.Environ = append(a.Environ, strings.Fields(environ)...)
				a.Batch = &batchStage{entry: &engine.Entry{State: engine.Running, Restarts: 1}} // each job has been started again
				return a
			}
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, "conf.yaml"), []byte("${SEED} $RATE SLURM_JOB_ID MASTER_ADDR A B C D E F G H I J K L"), 0o600); err != nil {
				t.Fatal(err)
			}
			dirs := []string{""}
			for _, environ := range c.left {
				dir := agent(environ).Run(t.Context(), s.cfg, nil).Dir
				rec, err := journal.ReadRecord(dir)
				if err != nil {
					t.Fatal(err)
				}
				rec.State, rec.FinishedAt, rec.ExitCode, rec.Exit = journal.Running, nil, nil, nil
				if jd, err := journal.Open(dir); err != nil || jd.WriteRecord(rec) != nil {
					t.Fatalf("write the record of %s: %v", dir, err)
				}
				dirs = append(dirs, dir)
				s.clock.advance(time.Minute)
			}
			before := len(s.said(Warning, ""))
			got := agent(c.now).FindOrphanedRun(t.Context(), s.cfg, func(string) error { return nil })
			if got != dirs[c.want] {
				t.Errorf("found %q of %q, want %q", got, dirs[1:], dirs[c.want])
			}
			said := s.said(Warning, "")[before:]
			if warned := len(said) == 1 && strings.Contains(said[0], "differs in "+c.differs+";"); warned != (c.differs != "") || !warned && len(said) > 0 {
				t.Errorf("warnings %q, want that it differs in %q", said, c.differs)
			}
		})
	}
}

// TestOrphanBeyondItsLimits: an orphaned run whose job is lost, and whose limits are used up, cannot be resumed and is orphaned no
// longer, so that the same command starts a new one; with higher limits it continues with the time and money until the end of its job.
func TestOrphanBeyondItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		less, more Change
	}{
		"deadline": {Change{TimeMax: 10 * time.Second}, Change{TimeMax: time.Hour}},
		"budget":   {Change{CostMaxUSD: 0.01}, Change{CostMaxUSD: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				if a.n == 1 {
					a.stage.clock.advance(20 * time.Second)
					a.stage.saved = 2
					a.write("1,4,100,0.5\n", "2,4,100,0.4\n")
					return launch.Exit{Reason: launch.Lost, Code: -1}
				}
				for a.begin(); a.epoch < 4; {
					a.work(4, 10)
				}
				return finished
			})
			s.save("train.py", "")
			dir, job := orphan(t, s, true)
			<-job.Done()
			s.clock.advance(time.Hour)
			res := s.resume(dir.Dir(), c.less)
			if !errors.Is(res.Err, ErrNotResumable) || !res.Exhausted || !strings.Contains(res.Err.Error(), name) || res.Code != CodeUsage || len(s.started()) != 1 {
				t.Errorf("exit %d, %v after %d launches; want %v by the %s after one", res.Code, res.Err, len(s.started()), ErrNotResumable, name)
			}
			rec, err := journal.ReadRecord(dir.Dir())
			if err != nil || rec.State != journal.Failed || rec.Exit == nil || rec.Exit.Reason != "lost" {
				t.Fatalf("record %+v, %v; want it lost", rec, err)
			}
			wantSpent(t, rec, 20)
			s.clock.advance(time.Hour)
			if res = s.resume(dir.Dir(), c.less); !errors.Is(res.Err, ErrNotResumable) || !res.Exhausted {
				t.Errorf("once more: exit %d, %v, limits used up: %t", res.Code, res.Err, res.Exhausted)
			}
			res = s.resume(dir.Dir(), c.more)
			if res.Code != CodeDone || float64(res.Record.Outcome.Epochs) != 4 {
				t.Fatalf("with more: exit %d, %v, %+v", res.Code, res.Err, res.Record)
			}
			wantSpent(t, res.Record, 40)
		})
	}
}

// TestLatestJob: between two jobs, the keeper's record of the previous one is not attributed to the one being
// started.
func TestLatestJob(t *testing.T) {
	dir := t.TempDir()
	started := func(at time.Duration) {
		h := launch.Handle{RunDir: dir, KeeperPID: 1, KeeperStart: uint64(at / clockTick), PID: 1, Start: uint64(at / clockTick)}
		data, err := json.Marshal(map[string]any{"schema": 1, "handle": h, "at": time.Time{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "started.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state := &facts{Monotonic: 100 * time.Second}
	if h := latestJob(launch.Local{}, dir, state); h != nil {
		t.Errorf("a job %+v in an empty run directory", h)
	}
	started(90 * time.Second)
	if h := latestJob(launch.Local{}, dir, state); h != nil {
		t.Errorf("the job before, %+v, is taken for the one that was being started", h)
	}
	started(101 * time.Second)
	if h := latestJob(launch.Local{}, dir, state); h == nil {
		t.Error("the job that was started after the last state was saved is not found")
	}
}

// TestStopRunWithDamagedFiles: the job of a run is stopped even if neither its state nor its record can be read, so that
// the run can be removed; the error reports both.
func TestStopRunWithDamagedFiles(t *testing.T) {
	for name, files := range map[string][]string{"record": {"run.json"}, "state": {"state", "state.prev"}, "both": {"run.json", "state", "state.prev"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, func(a *actor) launch.Exit {
				<-a.stopped
				return a.leave()
			})
			dir, job := orphan(t, s, false)
			for _, f := range files {
				if err := os.WriteFile(dir.Path(f), []byte("{"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			agent := s.agent()
			agent.Launcher = finding{s}
			_, err := agent.StopRun(context.Background(), dir.Dir(), patience)
			if err == nil || !strings.Contains(err.Error(), ": stopped (") || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("error %v, want that the job was stopped and what is damaged", err)
			}
			if _, stops := job.counts(); stops != 1 {
				t.Errorf("stopped %d times, want once", stops)
			}
			if err := journal.Remove(dir.Dir()); err != nil {
				t.Error(err)
			}
		})
	}
}

// finding is a launcher that finds the first job of its stage, as one does by the files of a supervisor.
type finding struct{ *stage }

func (f finding) Find(string) (launch.Handle, error) { return f.started()[0].Handle(), nil }

// TestStopRunAfterAWrite: an orphaned job that is writing a checkpoint is stopped when that is closed, not within the next one at
// the end of the grace.
func TestStopRunAfterAWrite(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(a *actor) launch.Exit {
		select {
		case <-a.stopped:
		case <-time.After(patience):
			t.Error("the job was not stopped after its checkpoint was closed")
		}
		return a.leave()
	})
	s.cfg.Resume = resumableNo
	dir, job := orphan(t, s, false)
	file, err := os.Create(filepath.Join(s.cfg.Dir, "ckpt.pt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if soon := time.Now().Add(time.Hour); os.Chtimes(file.Name(), soon, soon) != nil { // it has always just changed
		t.Fatal("cannot set the time of the checkpoint")
	}
	w := &writer{actor: job, file: file}
	agent := s.agent()
	agent.Launcher = adopting{s, w}
	text, err := agent.StopRun(context.Background(), dir.Dir(), 10*patience)
	if err != nil || !strings.Contains(text, "stopped") {
		t.Fatalf("%q, %v", text, err)
	}
	if asks, stops := job.counts(); asks != 0 || stops != 1 || w.looks < 3 {
		t.Errorf("asked %d times, stopped %d times after %d looks, want a stop alone after the third look", asks, stops, w.looks)
	}
}

// writer is a job with the processes of the test, which closes its checkpoint at the third look at them.
type writer struct {
	*actor
	file  *os.File
	looks int
}

func (w *writer) PIDs() ([]int, error) {
	if w.looks++; w.looks == 3 {
		w.file.Close()
	}
	return []int{os.Getpid()}, nil
}

// adopting is the launcher of a stage that adopts another form of its first job.
type adopting struct {
	*stage
	job launch.Job
}

func (a adopting) Adopt(context.Context, launch.Handle) (launch.Job, error) { return a.job, nil }

package cluster

import (
	"encoding/json"
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

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/run"
)

func TestSubmitFromManyProcesses(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := Submit(dir, Spec{Submitted: time.Now()}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	jobs, specs, err := Jobs(dir)
	if err != nil || len(jobs) != 20 || len(specs) != 20 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	for i, j := range jobs {
		if j.ID != i+1 || j.State != Waiting {
			t.Errorf("job %d has id %d, state %s", i+1, j.ID, j.State)
		}
	}
	requests, _, errs := readRequests(dir)
	if len(requests) != 20 || len(errs) > 0 {
		t.Errorf("%d requests, %v", len(requests), errs)
	}
}

func TestRequestsInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{SetPolicy(dir, "srtf"), Cancel(dir, 7), Drain(dir, true)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dirOf(dir, "spool", "0.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	requests, _, errs := readRequests(dir)
	if len(errs) != 1 || len(requests) != 3 || requests[0].Policy != "srtf" || requests[1].Job != 7 || !requests[2].Save {
		t.Errorf("%+v, %v", requests, errs)
	}
}

// TestInterruptedSubmission checks that a job without its specification, as a crash leaves it, is not a job.
func TestInterruptedSubmission(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(makeDirs(dir), os.Mkdir(jobDir(dir, 3), 0o700)); err != nil {
		t.Fatal(err)
	}
	if jobs, _, err := Jobs(dir); len(jobs) != 0 || err != nil {
		t.Errorf("%v, %v", jobs, err)
	}
	if id, err := Submit(dir, Spec{}); id != 4 || err != nil {
		t.Errorf("next job %d, %v: want 4", id, err)
	}
}

func TestTornEventLog(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := ReadEvents(dir, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a log: %v", err)
	}
	if err := makeDirs(dir); err != nil {
		t.Fatal(err)
	}
	add := func(e Event) {
		l, err := openEventLog(eventsPath(dir))
		if err == nil {
			err = errors.Join(l.add(e), l.close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	took := 0.0
	add(Event{Time: 1, Kind: EventServe, Policy: "srtf", Round: 60})
	add(Event{Time: 2, Kind: EventLeft, Job: 1, Seconds: &took})
	data, err := os.ReadFile(eventsPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range data {
		if err := os.WriteFile(eventsPath(dir), data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		add(Event{Time: 3, Kind: EventDrain})
		events, torn, err := ReadEvents(dir, 0)
		whole := 0
		for _, c := range data[:cut] {
			if c == '\n' {
				whole++
			}
		}
		if n := len(events); err != nil || torn > 1 || n < whole+1 || events[n-1].Kind != EventDrain {
			t.Fatalf("after %d of %d bytes: %d events, %d torn, %v", cut, len(data), len(events), torn, err)
		}
	}
}

// TestStartRecordedTwice: a start that a server recorded before it was killed, and that the next one records again, is one life.
func TestStartRecordedTwice(t *testing.T) {
	dir := t.TempDir()
	if err := makeDirs(dir); err != nil {
		t.Fatal(err)
	}
	l, err := openEventLog(eventsPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range []Event{{Kind: EventServe}, {Kind: EventStart, Job: 1, Stretch: 1}, {Kind: EventLeft, Job: 1, Stretch: 1}, {Kind: EventStart, Job: 1, Stretch: 2}, {Kind: EventStart, Job: 2, Stretch: 2},
		{Kind: EventServe}, {Kind: EventLeft, Job: 1, Stretch: 1}, {Kind: EventStart, Job: 1, Stretch: 2}} {
		e.Time = float64(i + 1)
		err = errors.Join(err, l.add(e))
	}
	events, torn, readErr := ReadEvents(dir, 0)
	if err := errors.Join(err, readErr, l.close()); err != nil || torn != 0 {
		t.Fatalf("%d torn lines, %v", torn, err)
	}
	var times []float64
	for _, e := range events {
		times = append(times, e.Time)
	}
	if want := []float64{1, 2, 3, 5, 6, 7, 8}; !slices.Equal(times, want) {
		t.Errorf("events at %v, want %v: without the first start of the second life", times, want)
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add([]byte(`{"v":1,"t":2,"kind":"start","job":1,"where":[0]}` + "\n{\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := errors.Join(makeDirs(dir), os.WriteFile(eventsPath(dir), data, 0o600)); err != nil {
			t.Fatal(err)
		}
		events, _, err := ReadEvents(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == "" {
				t.Error("an event without a kind")
			}
		}
	})
}

// TestFullDisk checks that a file that cannot be replaced keeps its content.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.json")
	if err := writeJSON(path, Job{ID: 1}); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(filepath.Join(path, "below"), Job{ID: 2}); err == nil {
		t.Error("a file below a file was written")
	}
	var j Job
	if err := readJSON(path, &j); err != nil || j.ID != 1 {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestDamagedJob: a job whose file is damaged is reported, and the others are returned.
func TestDamagedJob(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		if _, err := Submit(dir, Spec{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(jobDir(dir, 2), "spec.json"), []byte(`{"schema":1`), 0o600); err != nil {
		t.Fatal(err)
	}
	jobs, specs, err := Jobs(dir)
	var damaged DamagedError
	if !errors.As(err, &damaged) || len(damaged) != 1 || len(jobs) != 2 || len(specs) != 2 || jobs[0].ID != 1 || jobs[1].ID != 3 {
		t.Errorf("%d jobs, error %v: want jobs 1 and 3, and an error for job 2", len(jobs), err)
	}
	site, err := NewLocal(gpus(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(jobDir(dir, 1)); err != nil { // the damaged one is left: no job is started
		t.Fatal(err)
	}
	if err := os.RemoveAll(jobDir(dir, 3)); err != nil {
		t.Fatal(err)
	}
	reports := 0
	stop := make(chan os.Signal)
	close(stop)
	err = Serve(Config{StateDir: dir, Site: site, Policy: "fifo", Agent: run.Agent{Clock: run.SystemClock{}}, Message: func(line string) {
		if strings.Contains(line, "job 2") {
			reports++
		}
	}}, stop)
	if err != nil || reports != 1 {
		t.Errorf("the server reports the damaged job %d times, want once: %v", reports, err)
	}
}

// TestPreviousStateIsResumed: an agent that is killed while it replaces its state leaves the previous one, from which its run
// continues; only a run without any state is started again.
func TestPreviousStateIsResumed(t *testing.T) {
	for name, want := range map[string]bool{"state.prev": true, "run.json": false} {
		dir := filepath.Join(t.TempDir(), "runs", "1")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		life{dir: dir}.run(run.Agent{Launcher: launch.Local{}}, run.Config{StateDir: t.TempDir()}, nil) // fails: there is nothing to run
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: the directory of the run: %v, want it kept: %v", name, err, want)
		}
	}
}

// TestDamagedEvents: lines with numbers or times that no server can have written are left out and counted; the others are read.
func TestDamagedEvents(t *testing.T) {
	now := float64(time.Now().Unix())
	line := func(at float64, kind, more string) string {
		return fmt.Sprintf(`{"v":1,"t":%.1f,"kind":%q%s}`+"\n", at, kind, more)
	}
	sound := []string{line(now-100, "serve", `,"round_s":5`), line(now-5000, "submit", `,"job":1,"gpus":1`), line(now-99, "start", `,"job":1`), line(now-98, "rate", `,"seen":2`), line(now-97, "left", ""),
		line(now-200, "serve", `,"round_s":5`), line(now-199, "decide", ""), line(now-198, "end", "")} // the clock was set back
	for name, damaged := range map[string]string{
		"negative time": line(-1, "rate", ""), "no time": line(0, "rate", ""), "earlier": line(now-1e6, "rate", ""), "later than the next": line(now+1e6, "left", ""), "future": line(1e12, "end", ""),
		"beyond all": line(1e300, "decide", ""), "negative rate": line(now-98, "rate", `,"seen":-2`), "rate": line(now-98, "rate", `,"seen":1e300`), "short round": line(now-98, "serve", `,"round_s":1e-6`),
		"negative devices": line(now-98, "start", `,"gpus":-1`), "devices": line(now-98, "serve", `,"round_s":5,"devices":[{"name":"a","count":99999999}]`), "later submission": line(now, "submit", `,"job":2`),
	} {
		for at := 3; at <= len(sound); at++ {
			if at == len(sound) && (name == "later than the next" || name == "later submission") || at == 5 {
				continue // nothing contradicts them
			}
			dir := t.TempDir()
			text := strings.Join(slices.Insert(slices.Clone(sound), at, damaged), "")
			if err := errors.Join(makeDirs(dir), os.WriteFile(eventsPath(dir), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			events, torn, err := ReadEvents(dir, 0)
			var b strings.Builder
			for _, e := range events {
				fmt.Fprint(&b, e.Kind, " ")
			}
			if want := "serve submit start rate left serve decide end "; err != nil || torn != 1 || b.String() != want {
				t.Errorf("%s at %d: %d damaged, %s, %v; want %s", name, at, torn, b.String(), err, want)
			}
		}
	}
}

// TestServerThatCannotBeSeen: a server of another machine runs while it renews its state, and a second one is refused, with the name
// of that machine.
func TestServerThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	path, runs := dirOf(dir, "lock"), func(when string, want bool) {
		t.Helper()
		if _, alive, err := ReadServer(dir); alive != want || err != nil {
			t.Errorf("%s: runs %v (%v), want %v", when, alive, err, want)
		}
	}
	stop, served := serveAlone(t, dir, newRehearsal())
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, alive, err := ReadServer(dir); alive && err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no server runs")
		}
	}
	var holder journal.Holder
	if err := readJSON(path, &holder); err != nil {
		t.Fatal(err)
	}
	holder.Host, holder.BootID = "n0", "another"
	foreign, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now() // the next renewal may be late on a busy machine
	if err := errors.Join(os.WriteFile(path, foreign, 0o600), os.Chtimes(dirOf(dir, "state"), now, now)); err != nil {
		t.Fatal(err)
	}
	runs("elsewhere", true)
	_, second := serveAlone(t, dir, newRehearsal())
	if err := <-second; !errors.Is(err, ErrServed) || !strings.HasSuffix(err.Error(), fmt.Sprintf("process %d on n0", os.Getpid())) {
		t.Errorf("a second server: %v, want %v, on n0", err, ErrServed)
	}
	stop <- os.Interrupt
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	runs("after its end", false)
	long := time.Now().Add(-time.Hour)
	if err := errors.Join(os.WriteFile(path, foreign, 0o600), os.Chtimes(dirOf(dir, "state"), long, long)); err != nil {
		t.Fatal(err)
	}
	runs("died long ago", false)
}

// TestStatedPolicy: a policy that a server is started with prevails over a request from before, and later requests over it.
func TestStatedPolicy(t *testing.T) {
	for stated, want := range map[bool]string{true: "fifo_packed", false: "srtf"} {
		s, _ := memoryServer(t)
		s.Policy, s.Stated = "fifo_packed", stated
		for _, request := range [][2]string{{"srtf", want}, {"themis", "themis"}} {
			if err := SetPolicy(s.StateDir, request[0]); err != nil {
				t.Fatal(err)
			}
			if s.takeSpool(); s.scheduler.Policy != request[1] {
				t.Errorf("stated %v: policy %s, want %s", stated, s.scheduler.Policy, request[1])
			}
		}
	}
}

// TestDamagedFilesOfBegunJob: a server that finds a file of a job damaged or removed while its training runs adopts the training: its
// devices are not given to others, no second training starts, and both files are written again.
func TestDamagedFilesOfBegunJob(t *testing.T) {
	write := func(content string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(content), 0o600) }
	}
	for name, damage := range map[string]func(path string) error{
		"truncated": write(`{"schema":1,"id`), "empty": write(""), "binary": write("\x00\xff\x1f"), "of another": write(`{"id":7}`), "removed": os.Remove,
		"unreadable": func(path string) error { return os.Chmod(path, 0) },
	} {
		for _, file := range []string{"job.json", "spec.json"} {
			if name == "unreadable" && os.Getuid() == 0 || name == "of another" && file == "spec.json" {
				continue
			}
			t.Run(name+" "+file, func(t *testing.T) {
				t.Parallel()
				dir, r := t.TempDir(), newRehearsal()
				r.runsOn = func(name string) bool { return name == "held" }
				for _, name := range []string{"held", "other"} {
					cfg := training(t, dir, name)
					if _, err := Submit(cfg.StateDir, Spec{Submitted: time.Now(), Min: 1, Max: 1, Config: cfg}); err != nil {
						t.Fatal(err)
					}
				}
				state := filepath.Join(dir, "state")
				stop, served := serveAlone(t, state, r)
				var begun Job
				awaitJob(t, state, 1, func(j *Job) bool {
					begun = *j
					return j.Run != "" && journal.HasState(filepath.Join(journal.RunsDir(state), j.Run)) && r.started("held") == 1
				})
				stop <- os.Interrupt
				next := filepath.Join(dir, "next") // the agent of the first server, whose process would have ended, still holds the run
				copied := func() error {
					for {
						err := os.CopyFS(next, os.DirFS(state))
						if !errors.Is(err, fs.ErrNotExist) { // a file of the agent was renamed meanwhile
							return err
						}
						if err := os.RemoveAll(next); err != nil {
							return err
						}
					}
				}
				if err := errors.Join(<-served, copied(), damage(filepath.Join(jobDir(next, 1), file))); err != nil {
					t.Fatal(err)
				}
				// The first agent, which is still there, has a job of its own: to prolong one twice ends it.
				run := filepath.Join(journal.RunsDir(state), begun.Run)
				held := r.job("held", run)
				r.mu.Lock()
				first := r.jobs[run]
				r.jobs[run], r.jobs[filepath.Join(journal.RunsDir(next), begun.Run)] = held, held
				r.mu.Unlock()
				if jobs, _, err := Jobs(next); len(jobs) != 2 || err == nil || !strings.Contains(err.Error(), "job 1: ") || !strings.Contains(err.Error(), file) {
					t.Fatalf("%d jobs, %v: want both, and the damaged file named", len(jobs), err)
				}
				stop, served = serveAlone(t, next, r)
				awaitJob(t, next, 1, func(j *Job) bool { return j.Run == begun.Run && j.State.holds() && begun.Stretch == j.Stretch })
				if _, _, err := ReadJob(next, 1); err != nil || r.started("held") != 1 || r.started("other") != 0 {
					t.Errorf("%d and %d starts, %v: want the first job to hold the only device", r.started("held"), r.started("other"), err)
				}
				first.end()
				held.end()
				awaitJob(t, next, 2, func(j *Job) bool { return j.State == Done })
				stop <- os.Interrupt
				if j, _, err := ReadJob(next, 1); errors.Join(err, <-served) != nil || j.State != Done || r.started("held") != 1 {
					t.Errorf("%+v, %v after %d starts", j, err, r.started("held"))
				}
				if _, err := os.Stat(lifePath(next, 1)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the copy of a job that has ended: %v", err)
				}
			})
		}
	}
}

// TestRequestsAfterClockWasSetBack: requests are taken in the order in which they were made.
func TestRequestsAfterClockWasSetBack(t *testing.T) {
	dir := t.TempDir()
	if err := makeDirs(dir); err != nil {
		t.Fatal(err)
	}
	early := fmt.Sprintf("%020d-1.json", time.Now().Add(time.Hour).UnixNano()) // before the clock was set back
	if err := errors.Join(writeJSON(dirOf(dir, "spool", early), request{Op: opPolicy, Policy: "fifo"}), SetPolicy(dir, "srtf"), SetPolicy(dir, "allox")); err != nil {
		t.Fatal(err)
	}
	if requests, _, errs := readRequests(dir); len(errs) > 0 || len(requests) != 3 || requests[0].Policy != "fifo" || requests[1].Policy != "srtf" || requests[2].Policy != "allox" {
		t.Errorf("%+v, %v", requests, errs)
	}
}

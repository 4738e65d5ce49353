package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trainopt/internal/regular"
	"trainopt/optimizer/engine"
)

// fakeEngine executes the tasks of a job in this process, one after another, unless fate says otherwise.
type fakeEngine struct {
	engine.Engine // methods that are not expected
	task          func(ctx context.Context, args []string)
	fate          func(job, task int) string // "": compute; "lost": vanish; "late": wait for the cancellation
	refuse        []error                    // of the next submissions, one each

	mu        sync.Mutex
	requests  []engine.Request
	states    map[string][]engine.Status
	cancelled map[string]context.CancelFunc
	wait      sync.WaitGroup
}

func (f *fakeEngine) Name() string { return "fake" }

func (f *fakeEngine) Submit(_ context.Context, r engine.Request) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.refuse) > 0 {
		err := f.refuse[0]
		f.refuse = f.refuse[1:]
		return "", err
	}
	f.requests = append(f.requests, r)
	job := len(f.requests)
	id := strconv.Itoa(job)
	ctx, cancel := context.WithCancel(context.Background())
	if f.states == nil {
		f.states, f.cancelled = map[string][]engine.Status{}, map[string]context.CancelFunc{}
	}
	f.cancelled[id] = cancel
	f.states[r.Key] = make([]engine.Status, r.Tasks)
	for i := range r.Tasks {
		f.states[r.Key][i] = engine.Status{ID: id, Key: r.Key, State: engine.Running, Raw: "RUNNING"}
		fate := ""
		if f.fate != nil {
			fate = f.fate(job, i)
		}
		f.wait.Go(func() {
			raw := "COMPLETED"
			switch fate {
			case "":
				f.task(ctx, append(r.Argv[1:], strconv.Itoa(i)))
			case "late":
				<-ctx.Done()
				raw = "CANCELLED"
			case "lost":
				raw = "NODE_FAIL"
			}
			f.mu.Lock()
			f.states[r.Key][i].State, f.states[r.Key][i].Raw = engine.Ended, raw
			f.mu.Unlock()
		})
	}
	return id, nil
}

func (f *fakeEngine) List(_ context.Context, keys ...string) ([]engine.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.states[keys[0]]), nil
}

func (f *fakeEngine) Cancel(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelled[id]()
	return nil
}

func (f *fakeEngine) Signal(context.Context, string, syscall.Signal) error { panic("not expected") }

// setup returns a site whose tasks execute command.
func setup(t *testing.T, command func(ctx context.Context) error) (*Array, *fakeEngine) {
	t.Helper()
	f := &fakeEngine{task: func(ctx context.Context, args []string) {
		share, c, err := Open(args)
		if err != nil || len(c.Args) != 1 || c.Args[0] != "compare" {
			t.Errorf("open: %v, %v", c, err)
			return
		}
		if err := command(On(ctx, share)); share.Finished() != errors.Is(err, ErrShare) || err == nil {
			t.Errorf("finished: %v, error: %v", share.Finished(), err)
		}
	}}
	dir := t.TempDir()
	t.Cleanup(f.wait.Wait) // before the directory is removed
	return &Array{Engine: f, Dir: dir, Argv: []string{"optimize"}, Command: Command{Args: []string{"compare"}}, WorkDir: dir,
		times: times{poll: time.Millisecond, ask: 2 * time.Millisecond, gone: 50 * time.Millisecond, stop: time.Minute, exit: time.Minute}}, f
}

type result struct {
	Root float64
	Name string
}

func roots(_ context.Context, k int) (result, error) {
	return result{math.Sqrt(float64(k)), fmt.Sprint(k)}, nil
}

// TestTwoCalls: the second call uses the results of the first, which its tasks read instead of computing them.
func TestTwoCalls(t *testing.T) {
	var mu sync.Mutex
	computed := map[int]int{}
	var sums []float64
	command := func(ctx context.Context) error {
		first, err := Compute(ctx, 100, CellOptions{}, func(ctx context.Context, k int) (result, error) {
			mu.Lock()
			computed[k]++
			mu.Unlock()
			return roots(ctx, k)
		})
		if err != nil {
			return err
		}
		second, err := Compute(ctx, 3, CellOptions{}, func(_ context.Context, k int) (float64, error) {
			sum := 0.0
			for _, r := range first {
				sum += r.Root * float64(k)
			}
			return sum, nil
		})
		if err != nil {
			return err
		}
		sums = nil
		for _, s := range second {
			sums = append(sums, *s)
		}
		return nil
	}
	if err := command(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(sums)
	clear(computed)
	site, f := setup(t, command)
	site.Parallel, site.Extra = 7, []string{"--time=5"}
	if err := command(On(t.Context(), site)); err != nil || !slices.Equal(sums, want) {
		t.Errorf("%v: %v, want %v", err, sums, want)
	}
	for k := range 100 {
		if computed[k] != 1 {
			t.Errorf("cell %d was computed %d times", k, computed[k])
		}
	}
	if len(f.requests) != 2 || f.requests[0].Tasks != maxTasks || f.requests[1].Tasks != 3 || f.requests[0].Parallel != 7 || f.requests[0].Key == f.requests[1].Key || f.requests[0].Extra[0] != "--time=5" {
		t.Errorf("%+v", f.requests)
	}
}

// compute is a command of one call.
func compute(n int, each func(ctx context.Context, k int) (result, error)) func(ctx context.Context) ([]*result, error) {
	return func(ctx context.Context) ([]*result, error) { return Compute(ctx, n, CellOptions{}, each) }
}

func errorOf(command func(ctx context.Context) ([]*result, error)) func(ctx context.Context) error {
	return func(ctx context.Context) error { _, err := command(ctx); return err }
}

func TestLostTasksAreSubmittedAgain(t *testing.T) {
	command := compute(10, roots)
	site, f := setup(t, errorOf(command))
	f.fate = func(job, task int) string {
		if job == 1 && (task == 2 || task == 5) || job == 2 && task == 1 {
			return "lost"
		}
		return ""
	}
	got, err := command(On(t.Context(), site))
	if err != nil {
		t.Fatal(err)
	}
	for k, r := range got {
		if r == nil || r.Root != math.Sqrt(float64(k)) {
			t.Errorf("cell %d: %v", k, r)
		}
	}
	var tasks []int
	for _, r := range f.requests {
		tasks = append(tasks, r.Tasks)
	}
	if !slices.Equal(tasks, []int{10, 2, 1}) {
		t.Errorf("tasks submitted: %v, want 10, then the 2 lost ones, then 1", tasks)
	}
}

func TestLostTasksAreSubmittedAtMostThreeTimes(t *testing.T) {
	command := compute(4, roots)
	site, f := setup(t, errorOf(command))
	f.fate = func(_, task int) string { return map[bool]string{true: "lost"}[task == 0] }
	_, err := command(On(t.Context(), site))
	if err == nil || !strings.Contains(err.Error(), "1 of 4 cells, the first of them 0, were not computed in 3 attempts") || !strings.Contains(err.Error(), "NODE_FAIL") || len(f.requests) != 3 {
		t.Errorf("%d submissions: %v", len(f.requests), err)
	}
}

func TestFailedCellIsNamed(t *testing.T) {
	broken := func(ctx context.Context, k int) (result, error) {
		if k == 3 {
			return result{}, errors.New("policy saf on case 3: no jobs")
		}
		return roots(ctx, k)
	}
	command := compute(6, broken)
	site, f := setup(t, errorOf(command))
	_, err := command(On(t.Context(), site))
	var failed *CellError
	if !errors.As(err, &failed) || failed.Cell != 3 || failed.Text != "policy saf on case 3: no jobs" || !strings.HasSuffix(failed.Output, "output-0.3") || len(f.requests) != 1 {
		t.Errorf("%v", err)
	}
}

func TestInterruptCancelsAndKeepsResults(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	command := compute(5, roots)
	site, f := setup(t, errorOf(command))
	f.fate = func(_, task int) string { return map[bool]string{true: "late"}[task > 1] }
	done := 0
	got, err := Compute(On(ctx, site), 5, CellOptions{Progress: func(int) {
		if done++; done == 2 {
			stop()
		}
	}}, roots)
	if !errors.Is(err, context.Canceled) || got[0] == nil || got[1] == nil || got[2] != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSubmissionIsRepeatedIfTheAnswerIsLost(t *testing.T) {
	command := compute(3, roots)
	site, f := setup(t, errorOf(command))
	f.refuse = []error{engine.ErrUnreachable, engine.ErrUnreachable}
	if _, err := command(On(t.Context(), site)); err != nil || len(f.requests) != 1 {
		t.Errorf("%d submissions: %v", len(f.requests), err)
	}
	site, f = setup(t, errorOf(command))
	f.refuse = []error{engine.ErrRefused}
	if _, err := command(On(t.Context(), site)); !errors.Is(err, engine.ErrRefused) || len(f.requests) != 0 {
		t.Errorf("%d submissions: %v", len(f.requests), err)
	}
}

// TestDifferentCells: a task that finds other cells than the command, because a file has changed, computes none.
func TestDifferentCells(t *testing.T) {
	site, _ := setup(t, nil)
	dir := callDir(site.Dir, 0)
	if err := errors.Join(os.Mkdir(dir, 0o700), regular.WriteJSON(filepath.Join(dir, attemptFile(0)), 0o600, attempt{4, [][]int{{0, 1, 2, 3}}}),
		regular.WriteJSON(filepath.Join(site.Dir, commandFile), 0o600, Command{})); err != nil {
		t.Fatal(err)
	}
	share, _, err := Open([]string{site.Dir, "0", "0", "0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compute(5, roots)(On(t.Context(), share)); err == nil || !strings.Contains(err.Error(), "5 cells here and 4 where it was started") || share.Finished() {
		t.Error(err)
	}
	for _, args := range [][]string{nil, {site.Dir, "0", "0", "x"}, {site.Dir, "0", "0", "-1"}, {filepath.Join(site.Dir, "absent"), "0", "0", "0"}} {
		if _, _, err := Open(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

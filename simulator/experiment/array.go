package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/internal/regular"
	"trainopt/optimizer/engine"
)

// Array is the site of a command whose cells the tasks of an engine's array job compute. The missing cells are dealt to
// the tasks, each of which executes the same command up to its cells (Share), computes them and writes their results to
// a directory that all nodes share. The command that waits reads them and continues as if it had computed them. Tasks
// that are lost, such as those of a node that failed, are submitted again. Calls must not be concurrent.
//
//	site := &Array{Engine: e, Dir: dir, Argv: []string{self, "__share"}, Command: Command{Args: args}}
//	results, err := Compute(On(ctx, site), n, Options{}, compute)
type Array struct {
	Engine engine.Engine
	// Dir is the directory of the sweep: absolute, existing, empty, and on a file system that all nodes share. Its name
	// is part of the names of the jobs.
	Dir     string
	Argv    []string // command that executes Command as a task, to which the arguments of Open are added
	Command Command
	WorkDir string   // of the tasks, absolute
	Env     []string // of the submission
	// Parallel is the number of tasks that may run at the same time; 0: all.
	Parallel int
	Extra    []string // options of the site
	// Log receives what happens to the jobs; nil: nothing.
	Log func(text string)
	// Echo receives the output of the task if there is only one; nil: it is not copied.
	Echo io.Writer

	times // zero: usual
	calls int
}

var _ Site = (*Array)(nil)

// times are the intervals of the wait.
type times struct {
	poll time.Duration // between two reads of the directory
	ask  time.Duration // between two questions to the engine
	gone time.Duration // tasks have ended if the engine lists none for so long
	stop time.Duration // wait for the last results of a job that was cancelled
	exit time.Duration // wait for the exit of tasks whose results are there
}

var usual = times{poll: 500 * time.Millisecond, ask: 5 * time.Second, gone: 12 * time.Second, stop: 40 * time.Second, exit: 5 * time.Second}

const (
	// maxTasks bounds the tasks of a job: the usual limit of a site is 1001.
	maxTasks = 64
	// maxAttempts is the number of times that a cell is submitted.
	maxAttempts = 3
)

// Compute implements Site. When ctx ends, the jobs are cancelled, and the cells that were computed until then are
// taken.
func (a *Array) Compute(ctx context.Context, n int, _ func(ctx context.Context, k int) ([]byte, error), take func(k int, data []byte) error) error {
	if a.times == (times{}) {
		a.times = usual
	}
	c := &call{Array: a, dir: callDir(a.Dir, a.calls), number: a.calls, done: make([]bool, n), take: take}
	a.calls++
	if err := errors.Join(os.Mkdir(c.dir, 0o700), regular.WriteJSON(filepath.Join(a.Dir, commandFile), 0o600, a.Command)); err != nil {
		return fmt.Errorf("prepare the sweep: %w", err)
	}
	for number := range maxAttempts {
		left := missing(c.done)
		if len(left) == 0 {
			return nil
		}
		if number > 0 {
			a.log("%d of %d cells were lost with their tasks (%s): submitting them again", len(left), n, c.ending())
		}
		if err := c.attempt(ctx, number, distribute(left, maxTasks)); err != nil {
			return err
		}
	}
	left := missing(c.done)
	if len(left) == 0 {
		return nil
	}
	output := c.output(left[0])
	return fmt.Errorf("%d of %d cells, the first of them %d, were not computed in %d attempts: %s; output of the last task: %s: %s",
		len(left), n, left[0], maxAttempts, c.ending(), output, strings.Join(strings.Fields(tail(output, 1000)), " "))
}

func (a *Array) log(format string, args ...any) {
	if a.Log != nil {
		a.Log(fmt.Sprintf(format, args...))
	}
}

// call is one call of Compute.
type call struct {
	*Array
	dir    string
	number int
	done   []bool // by cell
	take   func(k int, data []byte) error

	// Of the present attempt:
	id, key string
	at      int
	tasks   [][]int
	states  []engine.Status // as last listed
	running int             // tasks, as last logged; -1: none was logged
	echoed  int64           // bytes of the output
}

// attempt submits the tasks and waits until all their cells are computed or no task is left.
func (c *call) attempt(ctx context.Context, number int, tasks [][]int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := regular.WriteJSON(filepath.Join(c.dir, attemptFile(number)), 0o600, attempt{Cells: len(c.done), Tasks: tasks}); err != nil {
		return fmt.Errorf("prepare the sweep: %w", err)
	}
	c.at, c.tasks, c.states, c.running, c.echoed = number, tasks, nil, -1, 0
	c.key = fmt.Sprintf("optimize.sweep.%s.%d.%d", filepath.Base(c.Dir), c.number, number)
	if err := c.submit(ctx); err != nil {
		return err
	}
	c.log("job %s submitted to %s; tasks: %d, cells: %d", c.id, c.Engine.Name(), len(tasks), len(missing(c.done)))
	err := c.wait(ctx)
	complete := err == nil && len(missing(c.done)) == 0
	if !complete {
		c.cancel()
	}
	switch {
	case ctx.Err() != nil:
		c.settle(c.stop)
		return errors.Join(ctx.Err(), ignoreCells(c.collect()))
	case complete:
		c.settle(c.exit)
	}
	return err
}

// submit submits the tasks. An answer that was lost is asked for again: the job is found by its key.
func (c *call) submit(ctx context.Context) (err error) {
	r := engine.Request{Key: c.key, Comment: "optimize sweep", Argv: append(append([]string{}, c.Argv...), c.Dir, strconv.Itoa(c.number), strconv.Itoa(c.at)),
		Env: c.Env, Dir: c.WorkDir, Output: outputFile(c.dir, c.at), Extra: c.Extra, Tasks: len(c.tasks), Parallel: c.Parallel}
	const tries = 5
	for try := range tries {
		// An interrupt must not leave a job behind whose id is unknown.
		if c.id, err = c.Engine.Submit(context.WithoutCancel(ctx), r); !errors.Is(err, engine.ErrUnreachable) || try == tries-1 {
			return err
		}
		c.log("%v; trying again", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(c.ask):
		}
	}
	return err
}

// wait takes results until all cells are there, a cell has failed, the tasks are gone, or ctx ends.
func (c *call) wait(ctx context.Context) error {
	asked := time.Now()
	var ended time.Time // first answer without a task that may still compute; zero: the latest one has such a task
	for {
		last := !ended.IsZero() && time.Since(ended) > c.gone
		if err := c.collect(); err != nil {
			return err
		}
		if len(missing(c.done)) == 0 || last {
			return nil
		}
		if time.Since(asked) > c.ask {
			states, err := c.Engine.List(ctx, c.key)
			asked = time.Now()
			switch {
			case errors.Is(err, engine.ErrUnreachable): // the condition of the tasks is unknown
				ended = time.Time{}
			case err == nil:
				c.states = states
				if c.report() {
					ended = time.Time{}
				} else if ended.IsZero() {
					ended = time.Now()
				}
			case ctx.Err() == nil:
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.poll):
		}
	}
}

// report logs changes of the number of running tasks and reports whether any may still compute.
func (c *call) report() (alive bool) {
	running, reason := 0, ""
	for _, s := range c.states {
		switch s.State {
		case engine.Running, engine.Ending:
			running++
		case engine.Pending:
			reason = s.Reason
		}
		alive = alive || s.State != engine.Ended
	}
	if alive && running != c.running {
		c.running = running
		text := ""
		if running == 0 && reason != "" {
			text = ", waiting: " + reason
		}
		c.log("job %s: tasks running: %d%s; cells computed: %d of %d", c.id, running, text, len(c.done)-len(missing(c.done)), len(c.done))
	}
	return alive
}

// collect takes the results that were written since the last call. The error is that of the failed cell with the lowest
// number.
func (c *call) collect() error {
	found, err := list(c.dir)
	if err != nil {
		return fmt.Errorf("read the results of the tasks: %w", err)
	}
	for _, k := range found.cells {
		if k >= len(c.done) || c.done[k] {
			continue
		}
		data, err := regular.ReadFile(filepath.Join(c.dir, cellFile+strconv.Itoa(k)), maxFile)
		if err == nil {
			err = c.take(k, data)
		}
		if err != nil {
			return err
		}
		c.done[k] = true
	}
	c.echo()
	if len(found.failed) == 0 {
		return nil
	}
	k := found.failed[0]
	for _, other := range found.failed {
		k = min(k, other)
	}
	data, err := regular.ReadFile(filepath.Join(c.dir, failedFile+strconv.Itoa(k)), maxFile)
	return errors.Join(&CellError{Cell: k, Text: string(data), Output: c.output(k)}, err)
}

// CellError is the failure of a cell in its task.
type CellError struct {
	Cell   int
	Text   string // of the error in the task
	Output string // file with the output of the task
}

// Error returns the text of the error in the task, and the file of its output.
func (e *CellError) Error() string {
	return fmt.Sprintf("%s (output of the task: %s)", e.Text, e.Output)
}

// output returns the output of the task that computes a cell in the present attempt.
func (c *call) output(cell int) string {
	for t, numbers := range c.tasks {
		if slices.Contains(numbers, cell) {
			return fmt.Sprintf("%s.%d", outputFile(c.dir, c.at), t)
		}
	}
	return outputFile(c.dir, c.at)
}

// echo copies new output of a single task.
func (c *call) echo() {
	if c.Echo == nil || len(c.tasks) != 1 {
		return
	}
	f, err := os.Open(outputFile(c.dir, c.at) + ".0")
	if err != nil {
		return
	}
	defer f.Close()
	if _, err := f.Seek(c.echoed, io.SeekStart); err == nil {
		n, _ := io.Copy(c.Echo, f)
		c.echoed += n
	}
}

// ending describes how the tasks of the present attempt have ended.
func (c *call) ending() string {
	var words []string
	count := map[string]int{}
	for _, s := range c.states {
		if count[s.Raw]++; count[s.Raw] == 1 {
			words = append(words, s.Raw)
		}
	}
	for i, w := range words {
		words[i] = fmt.Sprintf("%d %s", count[w], w)
	}
	if len(words) == 0 {
		words = []string{"unknown to " + c.Engine.Name()}
	}
	return "job " + c.id + ": " + strings.Join(words, ", ")
}

// cancel ends the tasks.
func (c *call) cancel() {
	ctx, stop := context.WithTimeout(context.Background(), c.stop)
	defer stop()
	for {
		err := c.Engine.Cancel(ctx, c.id)
		if err == nil {
			return
		}
		if !errors.Is(err, engine.ErrUnreachable) || ctx.Err() != nil {
			c.log("%v: cancel it", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.poll):
		}
	}
}

// settle waits until the tasks that run have written all they can, at most for limit.
func (c *call) settle(limit time.Duration) {
	for from := time.Now(); time.Since(from) < limit; time.Sleep(min(c.poll, 100*time.Millisecond)) {
		found, err := list(c.dir)
		if err != nil {
			return
		}
		settled := true
		for mark := range found.began {
			settled = settled && (found.ended[mark] || !strings.HasPrefix(mark, strconv.Itoa(c.at)+"-"))
		}
		if settled {
			return
		}
	}
}

// ignoreCells omits the failures of cells, which a cancellation may cause.
func ignoreCells(err error) error {
	if failed := (*CellError)(nil); errors.As(err, &failed) {
		return nil
	}
	return err
}

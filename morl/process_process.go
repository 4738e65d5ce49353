package morl

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Adapter is a Python program that serves an environment of MO-Gymnasium, or one of the user.
//
//go:embed adapter.py
var Adapter string

// Limits of what a program may state.
const (
	maxState      = 1 << 20
	maxActions    = 1 << 16
	maxObjectives = 64
	maxLine       = 64 << 20 // bytes of an answer
)

// usualLimit is the number of decisions after which an episode is cut if the program states none.
const usualLimit = 1000

// Options configure the program of an environment.
type Options struct {
	Dir string   // working directory; "": that of this process
	Env []string // environment; nil: that of this process
}

// ProcessEnvironment is an environment in another process. After a failure of the program, Err returns it, and every step
// ends the episode. It is not safe for concurrent use, except for Close.
type ProcessEnvironment struct {
	shape     Shape
	limit     int
	reference []float64 // nil if the program states none

	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  tail
	close   sync.Once
	exited  chan struct{}

	state  []float32
	reward []float32
	steps  int // of the episode
	err    error
}

var _ Environment = (*ProcessEnvironment)(nil)

// answer is any answer of a program.
type answer struct {
	State      json.RawMessage `json:"state"`
	Actions    int             `json:"actions"`
	Objectives []string        `json:"objectives"`
	Limit      int             `json:"limit"`
	Reference  []float64       `json:"reference"`
	Mask       []bool          `json:"mask"`
	Reward     []float32       `json:"reward"`
	Done       *bool           `json:"done"`
	Cut        bool            `json:"cut"`
	Work       *float32        `json:"work"`
	Error      string          `json:"error"`
}

// Start starts a program and asks it for the dimensions of its environment.
func Start(argv []string, o Options) (*ProcessEnvironment, error) {
	if len(argv) == 0 {
		return nil, errors.New("start an environment: no command")
	}
	e := &ProcessEnvironment{command: exec.Command(argv[0], argv[1:]...), limit: usualLimit, exited: make(chan struct{})}
	e.command.Dir, e.command.Env, e.command.Stderr = o.Dir, o.Env, &e.stderr
	e.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if e.in, err = e.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start an environment: %w", err)
	}
	out, err := e.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start an environment: %w", err)
	}
	e.out = bufio.NewReader(out)
	if err := e.command.Start(); err != nil {
		return nil, fmt.Errorf("start an environment: %w", err)
	}
	if err := e.spaces(); err != nil {
		e.Close()
		return nil, fmt.Errorf("start the environment %s: %w", strings.Join(argv, " "), err)
	}
	return e, nil
}

// spaces asks for the dimensions.
func (e *ProcessEnvironment) spaces() error {
	a, err := e.ask(map[string]any{"op": "spaces"})
	if err != nil {
		return err
	}
	var n int
	switch {
	case json.Unmarshal(a.State, &n) != nil || n < 1 || n > maxState:
		return fmt.Errorf("spaces: state %s: want a number from 1 to %d", a.State, maxState)
	case a.Actions < 1 || a.Actions > maxActions:
		return fmt.Errorf("spaces: %d actions: want 1 to %d", a.Actions, maxActions)
	case len(a.Objectives) < 1 || len(a.Objectives) > maxObjectives:
		return fmt.Errorf("spaces: %d objectives: want 1 to %d names", len(a.Objectives), maxObjectives)
	case a.Reference != nil && len(a.Reference) != len(a.Objectives):
		return fmt.Errorf("spaces: a reference of %d numbers: want %d", len(a.Reference), len(a.Objectives))
	case a.Limit < 0:
		return fmt.Errorf("spaces: limit %d: want 1 or more", a.Limit)
	}
	if a.Limit > 0 {
		e.limit = a.Limit
	}
	e.shape = Shape{State: n, Actions: a.Actions, Objectives: a.Objectives}
	e.reference = a.Reference
	e.state, e.reward = make([]float32, n), make([]float32, len(a.Objectives))
	return nil
}

// Shape implements morl.Environment.
func (e *ProcessEnvironment) Shape() Shape { return e.shape }

// Reference returns the reference point for hypervolumes that the program states; nil if it states none.
func (e *ProcessEnvironment) Reference() []float64 { return slices.Clone(e.reference) }

// Err returns the first failure of the program.
func (e *ProcessEnvironment) Err() error { return e.err }

// Close ends the program and everything that it started.
func (e *ProcessEnvironment) Close() {
	e.close.Do(func() {
		e.in.Close()
		// The group is killed at once: an environment has nothing to save.
		_ = syscall.Kill(-e.command.Process.Pid, syscall.SIGKILL)
		_ = e.command.Wait()
		close(e.exited)
	})
	<-e.exited
}

// Reset implements morl.Environment: the program receives a seed drawn from rng.
func (e *ProcessEnvironment) Reset(rng *rand.Rand) Observation {
	e.steps = 0
	a, err := e.ask(map[string]any{"op": "reset", "seed": rng.Uint32()})
	if err == nil {
		err = e.observe(a)
	}
	if err != nil {
		e.fail("reset", err)
		return Observation{State: e.state}
	}
	return Observation{State: e.state, Mask: a.Mask}
}

// Step implements morl.Environment.
func (e *ProcessEnvironment) Step(action int) Outcome {
	e.steps++
	a, err := e.ask(map[string]any{"op": "step", "action": action})
	if err == nil {
		err = e.outcome(a)
	}
	if err != nil {
		e.fail("step", err)
		clear(e.reward)
		return Outcome{Observation: Observation{State: e.state}, Reward: e.reward, Done: true, Work: 1}
	}
	out := Outcome{Observation: Observation{State: e.state, Mask: a.Mask}, Reward: e.reward, Done: *a.Done, Cut: a.Cut && !*a.Done, Work: 1}
	if a.Work != nil {
		out.Work = *a.Work
	}
	if !out.Done && e.steps >= e.limit {
		out.Cut = true
	}
	return out
}

// outcome checks the answer to a step.
func (e *ProcessEnvironment) outcome(a answer) error {
	switch {
	case a.Done == nil:
		return errors.New("done is missing: want true or false")
	case len(a.Reward) != len(e.reward):
		return fmt.Errorf("a reward of %d numbers: want %d", len(a.Reward), len(e.reward))
	case a.Work != nil && !(*a.Work >= 0):
		return fmt.Errorf("work %v: want 0 or more", *a.Work)
	}
	copy(e.reward, a.Reward)
	return e.observe(a)
}

// observe checks and copies the state of an answer.
func (e *ProcessEnvironment) observe(a answer) error {
	var state []float32
	if err := json.Unmarshal(a.State, &state); err != nil || len(state) != len(e.state) {
		return fmt.Errorf("state %.60s: want a list of %d numbers", a.State, len(e.state))
	}
	copy(e.state, state)
	if a.Mask != nil && len(a.Mask) != e.shape.Actions {
		return fmt.Errorf("a mask of %d actions: want %d", len(a.Mask), e.shape.Actions)
	}
	if a.Mask != nil && !slices.Contains(a.Mask, true) && (a.Done == nil || !*a.Done) {
		return errors.New("the mask allows no action")
	}
	return nil
}

// fail records the first failure.
func (e *ProcessEnvironment) fail(what string, err error) {
	if e.err == nil {
		e.err = fmt.Errorf("environment %s: %s: %w", strings.Join(e.command.Args, " "), what, err)
	}
}

// ask sends a request and reads the answer.
func (e *ProcessEnvironment) ask(request map[string]any) (answer, error) {
	if e.err != nil {
		return answer{}, e.err
	}
	line, err := json.Marshal(request)
	if err != nil {
		return answer{}, err
	}
	if _, err := e.in.Write(append(line, '\n')); err != nil {
		return answer{}, e.ended(err)
	}
	line, err = e.line()
	if err != nil {
		return answer{}, e.ended(err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("it answered %q, which is no valid answer: %w", cut(line), err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// line reads one line of at most maxLine bytes.
func (e *ProcessEnvironment) line() ([]byte, error) {
	var line []byte
	for {
		part, err := e.out.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxLine:
			return nil, fmt.Errorf("an answer of more than %d bytes", maxLine)
		}
	}
}

// ended explains the end of the program by the last lines of its error output.
func (e *ProcessEnvironment) ended(err error) error {
	e.Close() // its error output is complete afterwards
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		err = errors.New("the program has ended")
	}
	if text := e.stderr.String(); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

func cut(line []byte) string {
	line = bytes.TrimSpace(line)
	if len(line) > 80 {
		return string(line[:80]) + "…"
	}
	return string(line)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept = append(t.kept, p...); len(t.kept) > 4096 {
		t.kept = slices.Delete(t.kept, 0, len(t.kept)-2048)
	}
	return len(p), nil
}

// String returns the last line, which states the error of a Python program.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	return lines[len(lines)-1]
}

// Return implements morl.Evaluator by simulation. It is NaN after a failure.
func (e *ProcessEnvironment) Return(policy func(state []float32, mask []bool) int, gamma float64) []float64 {
	return simulated(e, policy, gamma)
}

// Worst returns a reference point for an environment that states none: the least discounted return of each objective
// over episodes of uniformly drawn actions and one episode of each action alone (of the first 32), less a tenth of the
// spread. NaN after a failure.
func (e *ProcessEnvironment) Worst(episodes int, gamma float64) []float64 {
	rng := rand.New(rand.NewPCG(2, 0xe7a1))
	least, most := playEpisode(e, e.always(0), gamma, rng), make([]float64, len(e.shape.Objectives))
	copy(most, least)
	for k := 1; k < episodes+min(e.shape.Actions, 32); k++ {
		policy := e.always(k)
		if k >= min(e.shape.Actions, 32) {
			policy = func(_ []float32, mask []bool) int { return allowed(rng.IntN(e.shape.Actions), mask) }
		}
		for i, v := range playEpisode(e, policy, gamma, rng) {
			least[i], most[i] = min(least[i], v), max(most[i], v)
		}
	}
	for i := range least {
		least[i] -= 0.1 * (most[i] - least[i])
	}
	return least
}

// always returns the policy that repeats an action.
func (e *ProcessEnvironment) always(action int) func(state []float32, mask []bool) int {
	return func(_ []float32, mask []bool) int { return allowed(action, mask) }
}

// allowed returns an action, or the next one that the mask allows.
func allowed(action int, mask []bool) int {
	for mask != nil && !mask[action] {
		action = (action + 1) % len(mask)
	}
	return action
}

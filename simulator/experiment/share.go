package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"trainopt/internal/regular"
)

// ErrShare ends the command of a task whose share is computed; the command has no results to write.
var ErrShare = errors.New("the share of this task is computed")

// Share is the site of a task: it computes the cells of the task and writes their results. The calls before that of the
// task are answered from the results that other tasks have written.
type Share struct {
	dir                 string
	call, attempt, task int
	calls               int // of Compute so far
	finished            bool
}

var _ Site = (*Share)(nil)

// Open returns the share of a task and its command, from the arguments that Array has added to the program: directory,
// call, attempt, and the number of the task, which the engine adds.
func Open(args []string) (*Share, Command, error) {
	var c Command
	if len(args) != 4 {
		return nil, c, errors.New("usage: DIRECTORY CALL ATTEMPT TASK")
	}
	s := &Share{dir: args[0]}
	for i, into := range []*int{&s.call, &s.attempt, &s.task} {
		n, err := strconv.Atoi(args[i+1])
		if err != nil || n < 0 {
			return nil, c, fmt.Errorf("%q: want a number from 0", args[i+1])
		}
		*into = n
	}
	if err := regular.ReadJSON(filepath.Join(s.dir, commandFile), maxFile, &c); err != nil {
		return nil, c, fmt.Errorf("the directory of the sweep must be on a file system shared by all nodes: %w", err)
	}
	return s, c, nil
}

// Finished reports whether the share was computed, or a failure of its cells recorded.
func (s *Share) Finished() bool { return s.finished }

// Compute implements Site. For the call of the task it returns ErrShare.
func (s *Share) Compute(ctx context.Context, n int, cell func(ctx context.Context, k int) ([]byte, error), take func(k int, data []byte) error) error {
	dir := callDir(s.dir, s.calls)
	s.calls++
	if s.calls <= s.call {
		for k := range n {
			data, err := regular.ReadFile(filepath.Join(dir, cellFile+strconv.Itoa(k)), maxFile)
			if err == nil {
				err = take(k, data)
			}
			if err != nil {
				return fmt.Errorf("read the results of the earlier part: %w", err)
			}
		}
		return nil
	}
	var a attempt
	if err := regular.ReadJSON(filepath.Join(dir, attemptFile(s.attempt)), maxFile, &a); err != nil {
		return err
	}
	if a.Cells != n || s.task >= len(a.Tasks) {
		return fmt.Errorf("the command has %d cells here and %d where it was started: program, files and flags must be the same on every node", n, a.Cells)
	}
	mark := fmt.Sprintf("%d-%d", s.attempt, s.task)
	if err := regular.WriteFile(filepath.Join(dir, beganFile+mark), 0o600, nil); err != nil {
		return err
	}
	err := each(ctx, a.Tasks[s.task], 0, func(ctx context.Context, k int) (int, error) {
		data, err := cell(ctx, k)
		switch {
		case err == nil:
			return 0, regular.WriteFile(filepath.Join(dir, cellFile+strconv.Itoa(k)), 0o600, data)
		case ctx.Err() != nil:
			return 0, err
		}
		fmt.Fprintln(os.Stderr, err)
		return 0, errors.Join(err, regular.WriteFile(filepath.Join(dir, failedFile+strconv.Itoa(k)), 0o600, []byte(err.Error())))
	}, func(int, int) error { return nil })
	if marked := regular.WriteFile(filepath.Join(dir, endedFile+mark), 0o600, nil); err != nil || marked != nil {
		return errors.Join(err, marked)
	}
	s.finished = true
	return ErrShare
}

// missing returns the numbers 0…n−1 that are not true in done.
func missing(done []bool) []int {
	var out []int
	for k, ok := range done {
		if !ok {
			out = append(out, k)
		}
	}
	return out
}

// distribute deals numbers to at most most tasks in turn, so that neighbours, which often take similarly long, are
// in different tasks.
func distribute(numbers []int, most int) [][]int {
	tasks := make([][]int, min(most, len(numbers)))
	for i, k := range numbers {
		t := i % len(tasks)
		tasks[t] = append(tasks[t], k)
	}
	return slices.Clip(tasks)
}

package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/optimizer/engine"
)

// queueFormat is the value of squeue --Format: columns of unlimited width, each followed by the separator. NAME is the
// last, since a name may contain the separator.
const queueFormat = "JobID:|,State:|,Reason:|,SubmitTime:|,StartTime:|,RestartCnt:|,NodeList:|,Name:|"

// List returns the jobs of the user with the given names, in the order of their numbers. It reads the answer to one
// squeue for all jobs of the user, which all processes of the user on this machine share and which is at most 5 s older
// than the call: 500 runs cause one squeue in 5 s. A job submitted or cancelled in these seconds may therefore be
// absent, or listed in its earlier state. Jobs that have ended are listed until the controller forgets them (MinJobAge,
// by default 5 min).
func (e *Engine) List(ctx context.Context, keys ...string) ([]engine.Status, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	text, err := e.queue(ctx)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	jobs, err := parseQueue(text)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	wanted := make(map[string]bool, len(keys))
	for _, k := range keys {
		wanted[k] = true
	}
	return slices.DeleteFunc(jobs, func(s engine.Status) bool { return !wanted[s.Key] }), nil
}

// queue returns the output of squeue for all jobs of the user. A list of names would not reduce the controller's work,
// since squeue itself selects by name, and could not be shared by processes that follow different runs.
func (e *Engine) queue(ctx context.Context) (string, error) {
	ask := func(ctx context.Context) (string, error) {
		return e.query(ctx, "squeue", "--all", "--user="+user(), "--states=all", "--Format="+queueFormat)
	}
	folder := e.Folder
	if folder == "" && e.Run == nil {
		folder = runtimeFolder()
	}
	if folder == "" {
		return ask(ctx)
	}
	now := e.now
	if now == nil {
		now = time.Now
	}
	return sharedAnswer{path: queueFile(folder), age: queueAge, patience: timeout + 5*time.Second, now: now}.get(ctx, ask)
}

// queueAge is the age from which the shared answer of squeue is renewed.
const queueAge = 5 * time.Second

// parseQueue reads the output of squeue with queueFormat, with the header of each cluster. Columns are found by name,
// and absent ones are unknown. Lines with too few columns, such as the rest of a name with a line break, are skipped.
func parseQueue(text string) ([]engine.Status, error) {
	var jobs []engine.Status
	var at map[string]int
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if header := columns(line); has(header, "JOBID", "STATE", "NAME") {
			at = header
			continue
		}
		if at == nil {
			continue
		}
		cells := strings.SplitN(line, "|", at[""])
		cell := func(name string) string {
			if i, ok := at[name]; ok {
				return known(cells[i])
			}
			return ""
		}
		if len(cells) < at[""] || checkID(cell("JOBID")) != nil {
			continue
		}
		s, err := status(strings.TrimSuffix(cells[at["NAME"]], "|"), cell)
		if err != nil {
			return nil, fmt.Errorf("squeue: job %s: %w", cell("JOBID"), err)
		}
		jobs = append(jobs, s)
	}
	if at == nil {
		return nil, errors.New("squeue: output without the columns JOBID, STATE and NAME")
	}
	slices.SortStableFunc(jobs, func(a, b engine.Status) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return jobs, nil
}

// columns returns the positions of the columns of a header, and under "" their number. A separator at the end of the
// line begins no column.
func columns(line string) map[string]int {
	names := strings.Split(strings.TrimSuffix(line, "|"), "|")
	at := map[string]int{"": len(names)}
	for i, name := range names {
		if name = strings.TrimSpace(name); name != "" {
			at[name] = i
		}
	}
	return at
}

func has(at map[string]int, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { _, ok := at[name]; return !ok })
}

// status converts a line of squeue about the job of a name.
func status(name string, cell func(column string) string) (s engine.Status, err error) {
	s = engine.Status{ID: cell("JOBID"), Key: name, Raw: cell("STATE"), Reason: cell("REASON")}
	s.State = state(s.Raw)
	if s.Nodes, err = expandHosts(cell("NODELIST")); err != nil {
		return s, err
	}
	if s.Submitted, err = parseTime(cell("SUBMIT_TIME")); err != nil {
		return s, err
	}
	start, err := parseTime(cell("START_TIME"))
	if err != nil {
		return s, err
	}
	switch {
	case len(s.Nodes) > 0: // a job that was cancelled while it waited has a start time, but no nodes
		s.Started = start
	case s.State == engine.Pending:
		s.Expected = start
	}
	if text := cell("RESTART_COUNT"); text != "" {
		if s.Restarts, err = strconv.Atoi(text); err != nil || s.Restarts < 0 {
			return s, fmt.Errorf("restart count %q is not a number", text)
		}
	}
	return s, nil
}

// states translates the states of squeue. A job that is suspended, resized or signalled keeps its nodes and processes;
// one that is held or requeued waits.
var states = map[string]engine.State{
	"PENDING": engine.Pending, "REQUEUED": engine.Pending, "REQUEUE_HOLD": engine.Pending, "REQUEUE_FED": engine.Pending,
	"SPECIAL_EXIT": engine.Pending, "CONFIGURING": engine.Pending, "POWER_UP_NODE": engine.Pending, "EXPEDITING": engine.Pending,
	"RUNNING": engine.Running, "SUSPENDED": engine.Running, "STOPPED": engine.Running, "SIGNALING": engine.Running, "RESIZING": engine.Running,
	"COMPLETING": engine.Ending, "STAGE_OUT": engine.Ending,
	"BOOT_FAIL": engine.Ended, "CANCELLED": engine.Ended, "COMPLETED": engine.Ended, "DEADLINE": engine.Ended, "FAILED": engine.Ended,
	"LAUNCH_FAILED": engine.Ended, "NODE_FAIL": engine.Ended, "OUT_OF_MEMORY": engine.Ended, "PREEMPTED": engine.Ended,
	"RECONFIG_FAIL": engine.Ended, "REVOKED": engine.Ended, "TIMEOUT": engine.Ended,
}

// state translates a state of squeue, which may be followed by flags or by the user who cancelled the job.
func state(raw string) engine.State {
	word := raw[:len(raw)-len(strings.TrimLeft(raw, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"))]
	if s, ok := states[word]; ok {
		return s
	}
	return engine.Unknown
}

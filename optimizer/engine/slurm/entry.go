package slurm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"trainopt/optimizer/engine"
)

// entryFormat is the value of squeue --Format for one job.
const entryFormat = "JobID:|,State:|,EndTime:|,RestartCnt:|"

// Lookup returns the view of a job by its number, also of another user. It is nil if the controller does not know the
// job, or no longer: it forgets a job some minutes after its end (MinJobAge).
func (e *Engine) Lookup(ctx context.Context, id string) (*engine.Entry, error) {
	if err := checkID(id); err != nil {
		return nil, fmt.Errorf("look up job: %w", err)
	}
	text, err := e.query(ctx, "squeue", "--all", "--states=all", "--jobs="+id, "--Format="+entryFormat)
	if errors.Is(err, engine.ErrRefused) && hasEnded(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up job %s: %w", id, err)
	}
	entry, err := parseEntry(text, id)
	if err != nil {
		return nil, fmt.Errorf("look up job %s: squeue: %w", id, err)
	}
	return entry, nil
}

// parseEntry reads the output of squeue with entryFormat. The number of an array denotes its last task and all that
// have not started; the task takes precedence.
func parseEntry(text, id string) (*engine.Entry, error) {
	var at map[string]int
	var found *engine.Entry
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if header := columns(line); has(header, "JOBID", "STATE", "END_TIME") {
			at = header
			continue
		}
		cells := strings.Split(line, "|")
		if at == nil || len(cells) < at[""] || known(cells[at["JOBID"]]) != id {
			continue
		}
		s := &engine.Entry{Raw: known(cells[at["STATE"]])}
		s.State = state(s.Raw)
		var err error
		if s.End, err = parseTime(known(cells[at["END_TIME"]])); err != nil {
			return nil, err
		}
		if i, ok := at["RESTART_COUNT"]; ok {
			if text := known(cells[i]); text != "" {
				if s.Restarts, err = strconv.Atoi(text); err != nil || s.Restarts < 0 {
					return nil, fmt.Errorf("restart count %q is not a number", text)
				}
			}
		}
		if found == nil || found.State == engine.Pending {
			found = s
		}
	}
	if at == nil {
		return nil, errors.New("output without the columns JOBID, STATE and END_TIME")
	}
	return found, nil
}

// Requeue returns a running job to the queue: it receives SIGTERM, and starts again from its script.
func (e *Engine) Requeue(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return fmt.Errorf("requeue job: %w", err)
	}
	if _, err := e.query(ctx, "scontrol", "requeue", id); err != nil {
		return fmt.Errorf("requeue job %s: %w", id, err)
	}
	return nil
}

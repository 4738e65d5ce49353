package rlscheduler

import (
	"context"
	"fmt"
	"slices"
)

// Protocol is an evaluation: sequences of Length jobs that begin at the indices Begin, within the first First jobs of
// a trace.
type Protocol struct {
	Begin  []int
	Length int
	First  int
}

// Published1024 is the protocol of the published table; Sequences256 has the sequences for training the agent.
var (
	Published1024 = Protocol{Starts1024, 1024, 10000}
	Sequences256  = Protocol{Starts256, 256, 10000}
)

// Validate returns an error if the trace does not contain the sequences.
func (p Protocol) Validate(t *Trace) error {
	for _, b := range p.Begin {
		if n := min(len(t.Jobs), p.First); b < 0 || p.Length < 1 || b+p.Length > n {
			return fmt.Errorf("sequence of %d jobs from number %d: the trace has %d jobs, of which the first %d are used",
				p.Length, b, len(t.Jobs), n)
		}
	}
	return nil
}

// Reproduce runs heuristics (nil means Published, then Further) on a trace without and with backfilling and returns
// the means over the sequences, comparable with the published table. name is the trace name of the entries. It takes
// 0.3 s on one core.
func Reproduce(ctx context.Context, name string, t *Trace, p Protocol, heuristics []Heuristic) ([]Entry, error) {
	if err := p.Validate(t); err != nil {
		return nil, fmt.Errorf("reproduce the table on %s: %w", name, err)
	}
	if heuristics == nil {
		heuristics = slices.Concat(Published, Further)
	}
	var entries []Entry
	for _, backfill := range []bool{false, true} {
		for _, h := range heuristics {
			f, err := p.Run(ctx, t, backfill, func(e *Episode, first int) { Play(e, t.Jobs[first:first+p.Length], h) })
			if err != nil {
				return entries, err
			}
			entries = append(entries, Entry{name, backfill, h.Name, f, true})
		}
	}
	return entries, nil
}

// Run returns the means over the sequences for any player: play receives each episode at its beginning, with the
// index of its first job in the trace, and starts all its jobs. The trace must contain the sequences.
func (p Protocol) Run(ctx context.Context, t *Trace, backfill bool, play func(e *Episode, first int)) (Figures, error) {
	var f Figures
	n := float64(len(p.Begin))
	for _, b := range p.Begin {
		if err := ctx.Err(); err != nil {
			return Figures{}, err
		}
		e := t.Episode(b, p.Length, backfill)
		play(e, b)
		m := Measure(e)
		f.BoundedSlowdown += m.BoundedSlowdown / n
		f.Utilization += m.Utilization / n
		f.Wait += m.Wait / n
	}
	return f, nil
}

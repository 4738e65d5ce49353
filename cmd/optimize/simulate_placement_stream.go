package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/optimizer/schedule/place"
	"trainopt/optimizer/schedule/place/greedy"
	"trainopt/simulator/ancestors/metis/methods"
)

// arrival is a line of --arrivals: the number of containers of an app that arrive or, if negative, depart.
type arrival struct{ app, containers, line int }

// mostArrivals limits the number of containers per line.
const mostArrivals = 1 << 20

// readArrivals reads lines APP,+1 or APP,-1 and skips a header.
func readArrivals(path string, apps []string) ([]arrival, error) {
	f, err := place.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--arrivals: %w", err)
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.FieldsPerRecord = 2
	in.TrimLeadingSpace = true
	var out []arrival
	for first := true; ; first = false {
		row, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("--arrivals: read %s: %w", path, err)
		}
		line, _ := in.FieldPos(0)
		app := slices.Index(apps, strings.TrimSpace(row[0]))
		n, err := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(row[1]), "−", "-"))
		switch {
		case first && app < 0 && err != nil:
			continue
		case app < 0:
			return nil, fmt.Errorf("--arrivals: %s, line %d: no app %q, want one of %s", path, line, row[0], strings.Join(apps, ", "))
		case err != nil || n == 0 || n > mostArrivals || n < -mostArrivals:
			return nil, fmt.Errorf("--arrivals: %s, line %d: %q: want +1 or -1, or another number of containers", path, line, row[1])
		}
		out = append(out, arrival{app, n, line})
	}
	if out == nil {
		return nil, fmt.Errorf("--arrivals: %s has no lines", path)
	}
	return out, nil
}

// arriving is a stream of arriving and departing containers.
type arriving struct {
	*greedy.Stream
	nodes                       [][]int // nodes of the containers of each app, oldest container first
	came, went, refused, absent int
	moved                       int
}

// event processes the arrivals or departures of a line.
func (a *arriving) event(line arrival) error {
	for range line.containers {
		node, err := a.Arrive(line.app)
		switch {
		case err == nil:
			a.nodes[line.app] = append(a.nodes[line.app], node)
			a.came++
		case errors.Is(err, greedy.ErrFull) || errors.Is(err, place.ErrInfeasible):
			a.refused++
		default:
			return err
		}
	}
	for range -line.containers {
		if len(a.nodes[line.app]) == 0 {
			a.absent++
			continue
		}
		if err := a.Depart(a.nodes[line.app][0], line.app); err != nil {
			return err
		}
		a.nodes[line.app] = a.nodes[line.app][1:]
		a.went++
	}
	return nil
}

// migrate performs at most most moves, each with a gain above its cost.
func (a *arriving) migrate(cost float64, most int) error {
	moves, err := a.Migrate(cost, 1, most)
	for _, m := range moves {
		at := a.nodes[m.App]
		at[slices.Index(at, m.From)] = m.To
		a.moved++
	}
	return err
}

// simulateArrivals replays the lines of --arrivals by the greedy method. Containers that run at the start are part of
// the stream and may depart or migrate.
func (e *env) simulateArrivals(cmd *cobra.Command, f *simulatingPlacement, format string) error {
	for _, name := range []string{"batch", "counts", "min-slo", "seed", "episodes", "model", "zones", "zone-budget", "apart"} {
		if cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s says nothing with --arrivals", name)}
		}
	}
	if cmd.Flags().Changed("method") && f.method != "greedy" {
		return usageError{fmt.Errorf("--method %s: containers that come and go are placed by greedy", f.method)}
	}
	if f.migrate < 0 || !(f.moveCost >= 0) {
		return usageError{fmt.Errorf("--migrate %d, --move-cost %v: want numbers that are not negative", f.migrate, f.moveCost)}
	}
	p, err := f.prepare(e, cmd)
	if err != nil {
		return usageError{err}
	}
	events, err := readArrivals(inDir(e.dir, f.arrivals), p.apps())
	if err != nil {
		return usageError{err}
	}
	problem, told := p.with(make([]int, len(p.apps())))
	known := problem
	if told != nil {
		known = told
	}
	from := e.clock.Monotonic()
	stream, err := greedy.NewStream(known, p.options.Objective, p.options.Limits, true)
	if err != nil {
		return usageError{err}
	}
	s := &arriving{Stream: stream, nodes: make([][]int, len(p.apps()))}
	for n, counts := range problem.Existing {
		for a, k := range counts {
			s.nodes[a] = append(s.nodes[a], slices.Repeat([]int{n}, int(k))...)
		}
	}
	for _, event := range events {
		if err := s.event(event); err != nil {
			return err
		}
		if err := s.migrate(f.moveCost, f.migrate); err != nil {
			return err
		}
	}
	r := s.run(p, len(events))
	r.SolveS = (e.clock.Monotonic() - from).Seconds()
	return e.writePlacement(f, format, r)
}

// run returns the final placement. No containers count as existing because those that ran at the start could depart and
// migrate too.
func (s *arriving) run(p *placing, events int) *methods.Report {
	batch := make([]int, len(s.nodes))
	for a := range s.nodes {
		batch[a] = len(s.nodes[a])
	}
	r := &methods.Report{Method: "greedy", Objective: p.options.Objective, Limits: p.options.Limits, Predictor: p.predictor, Notes: p.notes}
	r.Problem, r.Told = p.with(batch)
	known := r.Problem
	r.Problem.Existing = nil
	if r.Told != nil {
		r.Told.Existing = nil
		known = r.Told
	}
	r.Outcome = &methods.Outcome{Solution: place.Solution{Placement: s.Placement(), Value: math.NaN(), Bound: math.NaN(), Gap: math.NaN()}}
	if w, err := known.Evaluate(r.Placement); err == nil {
		r.Value = r.Objective.Value(w, known.Nodes())
	}
	r.What = batchWords(fmt.Sprintf("after %d lines of arrivals: %d came, %d went, %d moved", events, s.came, s.went, s.moved), p.apps(), r.Problem)
	if s.refused > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d containers were refused: no node had room within the limits", s.refused))
	}
	if s.absent > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d containers were to go that were not there", s.absent))
	}
	return r
}

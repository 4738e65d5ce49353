package metis

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/schedule/place"
)

// arrival is a line of a stream of containers: the number of containers of an app that arrive or, if negative, depart.
type arrival struct{ app, containers int }

// maxArrivals limits the number of containers per line.
const maxArrivals = 1 << 20

// ReadArrivals reads lines APP,+1 or APP,-1 and skips a header.
func ReadArrivals(path string, apps []string) ([]arrival, error) {
	f, err := place.Open(path)
	if err != nil {
		return nil, err
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
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		line, _ := in.FieldPos(0)
		app := slices.Index(apps, strings.TrimSpace(row[0]))
		n, err := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(row[1]), "−", "-"))
		switch {
		case first && app < 0 && err != nil:
			continue
		case app < 0:
			return nil, fmt.Errorf("%s, line %d: no app %q, want one of %s", path, line, row[0], strings.Join(apps, ", "))
		case err != nil || n == 0 || n > maxArrivals || n < -maxArrivals:
			return nil, fmt.Errorf("%s, line %d: %q: want +1 or -1, or another number of containers", path, line, row[1])
		}
		out = append(out, arrival{app, n})
	}
	if out == nil {
		return nil, fmt.Errorf("%s has no lines", path)
	}
	return out, nil
}

// containerStream is a cluster with arriving and departing containers.
type containerStream struct {
	*place.Stream
	nodes                       [][]int // nodes of the containers of each app, oldest container first
	came, went, refused, absent int
	moved                       int
}

// event processes the arrivals or departures of a line.
func (a *containerStream) event(line arrival) error {
	for range line.containers {
		node, err := a.Arrive(line.app)
		switch {
		case err == nil:
			a.nodes[line.app] = append(a.nodes[line.app], node)
			a.came++
		case errors.Is(err, place.ErrFull) || errors.Is(err, place.ErrInfeasible):
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

// migrate performs at most limit moves, each with a gain above its cost.
func (a *containerStream) migrate(cost float64, limit int) error {
	moves, err := a.Migrate(cost, 1, limit)
	for _, m := range moves {
		at := a.nodes[m.App]
		at[slices.Index(at, m.From)] = m.To
		a.moved++
	}
	return err
}

// StreamOptions configures the migration of containers that already run.
type StreamOptions struct {
	Migrations int     // maximum number of moves after each line
	MoveCost   float64 // minimum gain of a move
}

// streamed is the result of a stream: the final placement and counts of its events.
type streamed struct {
	Placement                place.Placement
	Batch                    []int // containers of each app at the end
	Arrived, Departed, Moved int
	Refused, Absent          int // arrivals without room, departures without a container
}

// Stream replays lines with the greedy method. Containers that run at the start are part of the stream and may depart or
// migrate.
func Stream(p *place.Problem, lines []arrival, objective place.Objective, limits place.Limits, o StreamOptions) (*streamed, error) {
	stream, err := place.NewStream(p, objective, limits, true)
	if err != nil {
		return nil, err
	}
	s := &containerStream{Stream: stream, nodes: make([][]int, len(p.Types[0].Table.Apps()))}
	for n, counts := range p.Existing {
		for a, k := range counts {
			s.nodes[a] = append(s.nodes[a], slices.Repeat([]int{n}, int(k))...)
		}
	}
	for _, line := range lines {
		if err := s.event(line); err != nil {
			return nil, err
		}
		if err := s.migrate(o.MoveCost, o.Migrations); err != nil {
			return nil, err
		}
	}
	out := &streamed{Placement: s.Placement(), Arrived: s.came, Departed: s.went, Moved: s.moved, Refused: s.refused, Absent: s.absent}
	for _, nodes := range s.nodes {
		out.Batch = append(out.Batch, len(nodes))
	}
	return out, nil
}

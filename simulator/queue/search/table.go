package search

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/queue/agents"
)

// Player plays the sequences of an rlscheduler.Protocol: it starts all jobs of an episode that begins at the trace's job first.
type Player func(e *rlscheduler.Episode, first int)

// NewPlayer is the Player that searches. One goroutine at a time; what it plays does not depend on what it played before.
func NewPlayer(t *rlscheduler.Trace, o Options) (Player, error) {
	if _, err := New(o); err != nil {
		return nil, err
	}
	return func(e *rlscheduler.Episode, first int) {
		r, err := New(o)
		if err != nil {
			return // not so above
		}
		r.whole(e, t, first)
	}, nil
}

// RulePlayer is the Player of a heuristic.
func RulePlayer(t *rlscheduler.Trace, h rlscheduler.Heuristic) Player {
	return func(e *rlscheduler.Episode, first int) { rlscheduler.Play(e, t.Jobs[first:first+e.Len()], h) }
}

// AgentPlayer is the Player of a learned policy, by the most probable job.
func AgentPlayer(t *rlscheduler.Trace, a *agents.Agent) (Player, error) {
	d, err := a.Decider(t)
	return func(e *rlscheduler.Episode, first int) {
		d.Begin(t, first, e.Len())
		for len(e.Waiting()) > 0 {
			e.Start(d.Next(e, nil))
		}
	}, err
}

// Entrant is a Player with a name for a Table.
type Entrant struct {
	Name string
	Player
}

// Row is what one player reaches.
type Row struct {
	Name            string
	BoundedSlowdown []float64           // of each sequence
	Mean            rlscheduler.Figures // over the sequences
	// Half is half of the 95 % interval of the mean bounded slowdown over sequences (Student's t); NaN of one sequence.
	Half float64
	// Ratio is the geometric mean of the bounded slowdown by that of the first row, sequence by sequence, and From and To its 95 %
	// interval: sequences differ much, so that it says sooner than the means which of two is better.
	Ratio, From, To float64
}

// Table plays all sequences of a protocol by every player and returns a row for each, in order.
func Table(ctx context.Context, t *rlscheduler.Trace, p rlscheduler.Protocol, backfill bool, players []Entrant) ([]Row, error) {
	if err := p.Validate(t); err != nil {
		return nil, fmt.Errorf("table of queue policies: %w", err)
	}
	var rows []Row
	for _, m := range players {
		r := Row{Name: m.Name}
		var err error
		r.Mean, err = p.Run(ctx, t, backfill, func(e *rlscheduler.Episode, first int) {
			m.Player(e, first)
			r.BoundedSlowdown = append(r.BoundedSlowdown, rlscheduler.Measure(e).BoundedSlowdown)
		})
		if err != nil {
			return rows, fmt.Errorf("table of queue policies: %s: %w", m.Name, err)
		}
		_, r.Half = interval(r.BoundedSlowdown)
		base := r.BoundedSlowdown
		if len(rows) > 0 {
			base = rows[0].BoundedSlowdown
		}
		logs := make([]float64, len(base))
		for i, v := range r.BoundedSlowdown {
			logs[i] = math.Log(v / base[i])
		}
		m, half := interval(logs)
		r.Ratio, r.From, r.To = math.Exp(m), math.Exp(m-half), math.Exp(m+half)
		rows = append(rows, r)
	}
	return rows, nil
}

// interval is the mean and half of its 95 % interval.
func interval(v []float64) (mean, half float64) {
	mean, deviation := stat.MeanStdDev(v, nil)
	n := float64(len(v))
	if n < 2 {
		return mean, math.NaN()
	}
	return mean, distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
}

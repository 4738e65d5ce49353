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

// Player starts all jobs of an episode of an rlscheduler.Protocol; first is the index of the episode's first job in
// the trace.
type Player func(e *rlscheduler.Episode, first int)

// NewPlayer returns a Player that uses rollouts. It is not safe for concurrent use. Episodes do not affect each
// other.
func NewPlayer(t *rlscheduler.Trace, o Options) (Player, error) {
	if _, err := New(o); err != nil {
		return nil, err
	}
	return func(e *rlscheduler.Episode, first int) {
		r, err := New(o)
		if err != nil {
			return // unreachable: New returned no error above
		}
		r.whole(e, t, first)
	}, nil
}

// RulePlayer returns the Player of a heuristic.
func RulePlayer(t *rlscheduler.Trace, h rlscheduler.Heuristic) Player {
	return func(e *rlscheduler.Episode, first int) { rlscheduler.Play(e, t.Jobs[first:first+e.Len()], h) }
}

// AgentPlayer returns the Player of a learned policy, which selects the most probable job.
func AgentPlayer(t *rlscheduler.Trace, a *agents.Agent) (Player, error) {
	d, err := a.Decider(t)
	return func(e *rlscheduler.Episode, first int) {
		d.Begin(t, first, e.Len())
		for len(e.Waiting()) > 0 {
			e.Start(d.Next(e, nil))
		}
	}, err
}

// Entrant is a named Player of a Table.
type Entrant struct {
	Name string
	Player
}

// Row is the result of one player.
type Row struct {
	Name            string
	BoundedSlowdown []float64           // by sequence
	Mean            rlscheduler.Figures // mean over the sequences
	// Half is the half-width of the 95 % confidence interval of the mean bounded slowdown over sequences (Student's
	// t); NaN for one sequence.
	Half float64
	// Ratio is the geometric mean over sequences of the bounded slowdown relative to the first row; From and To are
	// its 95 % confidence interval. Because sequences vary widely, the paired ratio separates two players with fewer
	// sequences than the means do.
	Ratio, From, To float64
}

// Table plays all sequences of a protocol with each player and returns one row per player, in order. Ratios compare
// the logarithms of bounded slowdowns, sequence by sequence, with the first row. With an error, it returns the
// complete rows.
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

// interval returns the mean and the half-width of its 95 % confidence interval.
func interval(v []float64) (mean, half float64) {
	mean, deviation := stat.MeanStdDev(v, nil)
	n := float64(len(v))
	if n < 2 {
		return mean, math.NaN()
	}
	return mean, distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
}

package metis

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"trainopt/optimizer/schedule/place"
)

// recipes is the registry of training recipes.
var recipes = map[string]func(context.Context, TrainOptions, *model, func(LearningPoint)) error{
	"original": trainOriginal,
	"improved": trainImproved,
}

// Recipes returns the names of the training recipes, sorted.
func Recipes() []string { return slices.Sorted(maps.Keys(recipes)) }

// Train trains sub-schedulers for 27 nodes. progress, if not nil, is called with each point of the curve. When ctx is
// done, Train returns its error.
func Train(ctx context.Context, o TrainOptions, progress func(LearningPoint)) (m *model, curve []LearningPoint, err error) {
	if err := o.Validate(); err != nil {
		return nil, nil, err
	}
	o = o.withDefaults()
	m = &model{recipe: o.Recipe, apps: slices.Clone(o.Table.Apps()), capacity: o.Table.Capacity(), notes: map[string]string{
		"seed": strconv.FormatUint(o.Seed, 10), "episodes": strconv.Itoa(o.Episodes),
	}}
	report := func(p LearningPoint) {
		p.Seconds = o.Clock().Seconds()
		curve = append(curve, p)
		if progress != nil {
			progress(p)
		}
	}
	if err := recipes[o.Recipe](ctx, o, m, report); err != nil {
		return nil, curve, fmt.Errorf("train placement by the %s recipe: %w", o.Recipe, err)
	}
	return m, curve, nil
}

func trainOriginal(ctx context.Context, o TrainOptions, m *model, report func(LearningPoint)) error {
	m.cells = map[int][]*policy{}
	for _, class := range o.Classes {
		p, err := trainCell(ctx, o, class, report)
		if err != nil {
			return err
		}
		m.cells[class] = p
	}
	return nil
}

// Settings of the improved recipe.
const (
	boardsPerRound  = 64
	boardsPerStep   = 8
	improvedRate    = 0.002
	teacherSoftness = 0.1 // of the teacher's prices, in throughput of a container alone
	teacherSharp    = 3   // factor on the teacher's log probabilities
)

// trainImproved lets a scorer place batches, in alternating rounds greedily and by sampling, and moves its
// distribution in each visited state towards the teacher's (DAgger: Ross, Gordon, Bagnell, AISTATS 2011). The teacher
// uses the prices at which independent nodes would select exactly the batch; it therefore evaluates how much of the
// attainable value a choice forgoes, which provides credit for every step instead of one reward per episode.
// O(lectures × patterns × apps² + episodes × containers × kinds of nodes × parameters).
func trainImproved(ctx context.Context, o TrainOptions, m *model, report func(LearningPoint)) error {
	apps, capacity := len(m.apps), m.capacity
	lectures, err := prepare(ctx, o.Table, o.Lectures, o.Seed, o.Workers, func(rng *rand.Rand, batch []int) {
		drawBatch(batch, 1+rng.IntN(cellNodes*capacity), rng)
	})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(o.Seed, 1<<63))
	s := &scorer{net: newPolicy(scorerInputs(apps), 1, hiddenUnits, rng)}
	learn := newLearner(s.net, improvedRate)
	boards := make([]*board, boardsPerRound)
	for i := range boards {
		boards[i] = &board{}
	}
	rounds := max(1, o.Episodes/boardsPerRound)
	best := math.Inf(-1)
	for round := range rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i, b := range boards {
			l := &lectures[rng.IntN(len(lectures))]
			b.teacher = l.advice
			b.begin(o.Table, cellNodes, l.batch, rand.New(rand.NewPCG(o.Seed, 1<<62+uint64(round*boardsPerRound+i))))
		}
		s.play(boards, round%2 == 0, o.Workers)
		rate := float32(improvedRate * (1 - float64(round)/float64(rounds)))
		learn.lane[0].first.SetRate(rate)
		learn.lane[0].second.SetRate(rate)
		for k := 0; k < len(boards); k += boardsPerStep {
			learn.teach(boards[k:k+boardsPerStep], o.Workers)
		}
		p := LearningPoint{Episode: (round + 1) * boardsPerRound}
		for _, b := range boards {
			p.Value += b.value() / float64(total(b.batch)) / boardsPerRound
		}
		best = max(best, p.Value)
		p.Best = best
		report(p)
	}
	m.scorer = s.net
	return nil
}

// lecture is a batch with the advice of the teacher.
type lecture struct {
	batch  []int
	advice []float32
}

// prepare draws n batches for a cell and computes the teacher's advice for each.
func prepare(ctx context.Context, table *place.Table, n int, seed uint64, workers int, draw func(rng *rand.Rand, batch []int)) ([]lecture, error) {
	out := make([]lecture, n)
	const piece = 8
	parallel((n+piece-1)/piece, workers, func(k int) {
		p := newPricing(table)
		perNode := make([]float64, len(table.Apps()))
		for i := k * piece; i < min(n, (k+1)*piece) && ctx.Err() == nil; i++ {
			b := make([]int, len(perNode))
			draw(rand.New(rand.NewPCG(seed, uint64(i))), b)
			for a, c := range b {
				perNode[a] = float64(c) / cellNodes
			}
			out[i] = lecture{b, p.advice(p.solve(perNode, teacherSoftness), teacherSoftness)}
		}
	})
	return out, ctx.Err()
}

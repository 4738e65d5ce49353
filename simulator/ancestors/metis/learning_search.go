package metis

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl"
)

// episodeOutcome is the result of an episode.
type episodeOutcome struct {
	value   float64 // objective
	cost    float64 // share of containers that violate a soft constraint
	broken  bool    // a hard constraint could not be satisfied: no placement
	pattern []int   // by node
}

// search learns to place one batch and keeps the best placement found.
type search struct {
	tree     *tree
	batch    []int
	rate     float32
	entropy  float32
	start    float64 // initial value to exceed; NaN means the worst of the episodes before the first update
	update   int     // episodes between updates
	demos    int     // number of demonstrations, the first episodes
	replay   bool    // replay good episodes and demonstrations
	episodes int
	budget   float64   // limit of the cost; +Inf means none
	price    *morl.PID // price of the cost; nil without a limit
	finish   func([]*episode) []episodeOutcome
}

// memory holds episodes for replay.
type memory struct {
	steps  [][]*lesson // by episode and level
	reward []float64
}

func (m *memory) add(e *episode, reward float64) {
	steps := make([]*lesson, len(e.steps))
	for l := range e.steps {
		steps[l] = &lesson{x: slices.Clone(e.steps[l].x), action: slices.Clone(e.steps[l].action)}
	}
	m.steps, m.reward = append(m.steps, steps), append(m.reward, reward)
}

// keep retains the first and the last n episodes.
func (m *memory) keep(n int) {
	from := len(m.steps) - n
	m.steps = append(m.steps[:1:1], m.steps[from:]...)
	m.reward = append(m.reward[:1:1], m.reward[from:]...)
}

// replayed and replayedDemos are the maximum numbers of good episodes and of demonstrations replayed per update.
const (
	replayed      = 10
	replayedDemos = 3
	widestFactor  = 1.02  // initial factor by which good episodes may be below the best
	narrowest     = 1.001 // lower bound of this factor
)

// learning is a search in progress.
type learning struct {
	*search
	rng        *rand.Rand
	learners   []*learner
	good, demo memory
	best       float64 // best learned value
	unit       float64 // scale of the objective, about the value of an episode; 1 for the mean throughput
	bestDemo   float64
	width      float64
	found      episodeOutcome
	lambda     float64
	draw       uint64 // seed of the present update's replay
}

// untilUpdate returns the number of episodes until the next update, after done of all episodes. Metis numbers
// episodes from 0 and updates after those whose number is a positive multiple of update, so that the first update
// comes one episode late.
func untilUpdate(done, update, all int) int {
	last := max((done+update-1)/update, 1) * update
	return min(last+1, all) - done
}

// run performs the search: it plays demonstrations first, then episodes of the policies, and learns after each group
// of episodes. The error is that of ctx; the outcome is broken if no episode satisfied all limits.
func (s *search) run(ctx context.Context, seed uint64, workers int, report func(LearningPoint)) (episodeOutcome, error) {
	l := &learning{search: s, rng: rand.New(rand.NewPCG(seed, 1<<63)), best: s.start, bestDemo: s.start, unit: 1, width: widestFactor}
	l.found = episodeOutcome{broken: true, value: math.Inf(-1)}
	policies := s.tree.newPolicies(l.rng)
	for _, p := range policies {
		l.learners = append(l.learners, newLearner(p, s.rate))
	}
	r := rollout{tree: s.tree, policies: policies, record: true, workers: workers}
	pool := make([]*episode, s.update+1)
	for i := range pool {
		pool[i] = &episode{}
	}
	for done := 0; done < s.episodes; {
		if err := ctx.Err(); err != nil {
			return l.found, err
		}
		episodes := pool[:untilUpdate(done, s.update, s.episodes)]
		for i, e := range episodes {
			e.begin(s.tree, s.batch, rand.New(rand.NewPCG(seed, uint64(done+i))))
		}
		r.choose = nil
		if done+len(episodes) <= s.demos { // demonstrations end at an update
			r.choose = demonstrate(s.tree)
		}
		r.run(episodes)
		l.learn(episodes, done, workers, report)
		done += len(episodes)
	}
	return l.found, nil
}

// learn evaluates episodes, of which the first has the given number, and updates the policies. The reward is the
// value relative to the best, less the price of the cost; rewards are normalised over the batch, which includes
// replayed episodes.
func (l *learning) learn(episodes []*episode, first, workers int, report func(LearningPoint)) {
	outcomes := l.finish(episodes)
	if math.IsNaN(l.best) {
		l.begin(outcomes)
	}
	rewards := make([]float64, len(episodes))
	point := LearningPoint{Episode: first + len(episodes)}
	for i, o := range outcomes {
		rewards[i] = o.value - l.best - l.lambda*l.unit*max(0, o.cost)
		point.Value += o.value / float64(len(outcomes))
		point.Cost += o.cost / float64(len(outcomes))
		keeps := !o.broken && o.cost <= l.budget
		if keeps && (l.found.broken || o.value > l.found.value) {
			l.found = o
		}
		l.remember(episodes[i], first+i, o, rewards[i], keeps)
	}
	// The price follows the mean cost of these episodes, and applies from the next ones on.
	if l.price != nil {
		l.lambda = l.price.Update(point.Cost, l.budget)
	}
	point.Best = l.found.value
	for k, learn := range l.learners {
		lessons, all := lessonsOf(episodes, k), slices.Clone(rewards)
		if l.replay {
			lessons, all = l.appendReplay(lessons, all, k)
		}
		normalise(lessons, all)
		learn.update(lessons, l.entropy, workers)
	}
	if last := point.Episode - 1; l.replay && last%100 == 0 && last > 1 && len(l.good.steps) > 2*replayed {
		l.width = max(0.99*l.width, narrowest)
		l.good.keep(replayed)
	}
	report(point)
}

// begin initialises the value to exceed, and its scale, from the first episodes.
func (l *learning) begin(outcomes []episodeOutcome) {
	l.best, l.unit = math.Inf(1), 0
	for _, o := range outcomes {
		l.best = min(l.best, o.value)
		l.unit += math.Abs(o.value) / float64(len(outcomes))
	}
	if l.bestDemo = l.best; l.unit == 0 {
		l.unit = 1
	}
}

// goodThreshold returns the value above which an episode is good: the best divided by the width, or the same distance below
// a negative best.
func (l *learning) goodThreshold() float64 { return l.best - math.Abs(l.best)*(1-1/l.width) }

// remember stores demonstrations and good episodes.
func (l *learning) remember(e *episode, number int, o episodeOutcome, reward float64, keeps bool) {
	switch {
	case !l.replay:
		if keeps {
			l.best = max(l.best, o.value)
		}
	case number < l.demos:
		l.bestDemo = max(l.bestDemo, o.value)
		l.demo.add(e, reward)
	case o.value > l.best:
		enough := l.goodThreshold() // must not decrease
		if l.best, l.width = o.value, widestFactor; l.goodThreshold() < enough {
			l.width = 1 / (1 - (l.best-enough)/math.Abs(l.best))
		}
		l.good = memory{}
		l.good.add(e, reward)
	case o.value > l.goodThreshold():
		l.good.add(e, reward)
	}
}

// appendReplay appends the replayed lessons of a level; the same episodes are replayed at every level.
func (l *learning) appendReplay(lessons []*lesson, rewards []float64, level int) ([]*lesson, []float64) {
	if level == 0 {
		l.draw = l.rng.Uint64()
	}
	rng := rand.New(rand.NewPCG(l.draw, 0))
	add := func(m *memory, most int) {
		pick := rng.Perm(len(m.steps))
		for _, i := range pick[:min(most, len(pick))] {
			lessons, rewards = append(lessons, m.steps[i][level]), append(rewards, m.reward[i])
		}
	}
	add(&l.good, replayed)
	if l.bestDemo > l.best-0.05*math.Abs(l.best) {
		add(&l.demo, replayedDemos)
	}
	return lessons, rewards
}

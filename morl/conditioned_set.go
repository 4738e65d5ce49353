package morl

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"trainopt/morl/network"
	"trainopt/morl/pareto"
)

// paretoConditioned learns policies for the whole Pareto set, with states that need not recur: one network takes the return
// that is still to be earned and the number of decisions for it as inputs, and is trained to repeat the actions of episodes
// that did earn it (Reymond, Bargiacchi, Nowé, Pareto Conditioned Networks, AAMAS 2022). It keeps the episodes nearest to
// the non-dominated ones. Half of the new episodes are the network's, for a return slightly above a kept one, as in the
// paper; the others are variations of a kept episode, with a few actions replaced, inserted or left out, or a random end.
// A return earned once is taken for attainable: the environment should be deterministic.
//
// Policies returns a policy for each kept non-dominated episode: in any state, the network is asked for what the episode
// earned from its nearest state on. A gradient step costs O(batch × parameters), an episode O(maxEpisodes²).
type paretoConditioned struct {
	learner
	actor    *network.Network
	trainer  *network.Trainer
	kept     []*trajectory // non-dominated ones first
	front    int           // number of those
	now      *trajectory   // in progress
	script   []int         // actions of a variation that are still to be taken
	wild     bool          // after the script, random actions instead of the network's
	last     int           // previous random action
	desired  []float64     // return from here on
	horizon  float64       // decisions from here on
	in, x, g []float32
}

// trajectory is an episode.
type trajectory struct {
	States   []float32   `json:"states"`  // decisions × state numbers
	ToGo     [][]float64 `json:"to_go"`   // discounted return from each decision on
	Actions  []int       `json:"actions"` // of each decision
	masks    [][]bool    // of each decision, nil: all allowed
	discount []float64   // of what follows each decision
}

// maxEpisodes is the number of kept episodes, horizonUnit the number of decisions that is 1 in the network's input.
const (
	maxEpisodes = 200
	horizonUnit = 50
)

var _ Agent = (*paretoConditioned)(nil)

// newParetoConditioned returns an untrained agent.
func newParetoConditioned(s Shape, c Config, seed uint64) *paretoConditioned {
	a := &paretoConditioned{learner: newLearner("pcn", s, c, seed), desired: make([]float64, len(s.Objectives))}
	a.actor = network.New(a.config.network(s, s.State+len(s.Objectives)+1, s.Actions), stream(seed, 3))
	a.trainer = network.NewTrainer(a.actor, a.config.Batch, network.Adam{Rate: float32(a.config.Rate), ClipNorm: 10})
	return a
}

// command writes the input of the network: the state, the return to be earned and the decisions for it.
func (a *paretoConditioned) command(in, state []float32, desired []float64, horizon float64) {
	n := copy(in, state)
	for i, v := range desired {
		in[n+i] = float32(v)
		if a.scale != nil {
			in[n+i] /= a.scale[i]
		}
	}
	in[n+len(desired)] = float32(horizon / horizonUnit)
}

// probabilities returns the network's probabilities of the actions.
func (a *paretoConditioned) probabilities(o Observation, desired []float64, horizon float64) []float32 {
	a.in = resize(a.in, a.actor.Inputs)
	a.command(a.in, o.State, desired, horizon)
	a.g = a.actor.Forward(a.g, a.in, 1)
	softmax(a.g, o.Mask)
	return a.g
}

// Act implements Agent: without explore it follows the policy of the kept episode with the best return for w.
func (a *paretoConditioned) Act(o Observation, w []float32, explore bool) int {
	if explore {
		return a.explore(o)
	}
	var best *trajectory
	most := math.Inf(-1)
	for _, e := range a.kept[:a.front] {
		u := 0.0
		for i, v := range e.ToGo[0] {
			u += float64(w[i]) * v
		}
		if u > most {
			best, most = e, u
		}
	}
	if best == nil {
		return max(0, slices.Index(o.Mask, true))
	}
	return a.follow(best, o)
}

// follow returns the network's action for what an episode earned from the state nearest to o on, the last of equals.
func (a *paretoConditioned) follow(e *trajectory, o Observation) int {
	at, least := 0, float32(math.Inf(1))
	for k := range e.ToGo {
		var d float32
		for i, v := range e.States[k*len(o.State) : (k+1)*len(o.State)] {
			d += (v - o.State[i]) * (v - o.State[i])
		}
		if d <= least {
			at, least = k, d
		}
	}
	return argmax(a.probabilities(o, e.ToGo[at], float64(len(e.ToGo)-at)))
}

// Policies returns a policy for each kept non-dominated episode.
func (a *paretoConditioned) Policies() []func(state []float32, mask []bool) int {
	var out []func([]float32, []bool) int
	for _, e := range a.kept[:a.front] {
		out = append(out, func(state []float32, mask []bool) int { return a.follow(e, Observation{state, mask}) })
	}
	return out
}

// explore returns the next action of the episode in progress, which it plans at the start.
func (a *paretoConditioned) explore(o Observation) int {
	if a.now == nil {
		a.now = &trajectory{}
		a.plan()
	}
	if len(a.script) > 0 {
		action := a.script[0]
		if a.script = a.script[1:]; o.Mask == nil || o.Mask[action] {
			return action
		}
	}
	if !a.wild {
		return draw(a.probabilities(o, a.desired, a.horizon), a.acting)
	}
	if a.acting.IntN(3) == 0 || o.Mask != nil && !o.Mask[a.last] { // actions last, so that random ones lead somewhere
		a.last = random(o.Mask, a.shape.Actions, a.acting)
	}
	return a.last
}

// plan decides how the next episode is played: at random during the warm-up, then by the network or as a variation.
func (a *paretoConditioned) plan() {
	a.script, a.wild, a.last = nil, true, a.acting.IntN(a.shape.Actions)
	if a.front == 0 || a.stats.Steps < a.config.Warmup {
		return
	}
	rng := a.acting
	e := a.kept[rng.IntN(a.front)]
	copy(a.desired, e.ToGo[0])
	a.horizon = float64(len(e.Actions))
	if rng.IntN(2) == 0 { // a return above that of the episode, by up to a standard deviation of those kept
		i := rng.IntN(len(a.desired))
		a.desired[i] += rng.Float64() * a.deviation(i)
		a.horizon, a.wild = max(1, a.horizon-2), false
		return
	}
	a.script = slices.Clone(e.Actions)
	if at := rng.IntN(len(a.script)); rng.IntN(4) == 0 {
		a.script = a.script[:at]
		return
	}
	a.wild = false
	for range 1 + rng.IntN(3) {
		at, action, n := rng.IntN(len(a.script)), rng.IntN(a.shape.Actions), 1+rng.IntN(3)
		switch rng.IntN(3) {
		case 0:
			a.script[at] = action
		case 1:
			a.script = slices.Insert(a.script, at, slices.Repeat([]int{action}, n)...)
		case 2:
			if a.script = slices.Delete(a.script, at, min(at+n, len(a.script))); len(a.script) == 0 {
				return
			}
		}
	}
}

// deviation returns the standard deviation of an objective over the kept non-dominated episodes.
func (a *paretoConditioned) deviation(i int) float64 {
	var sum, square float64
	for _, e := range a.kept[:a.front] {
		sum += e.ToGo[0][i]
		square += e.ToGo[0][i] * e.ToGo[0][i]
	}
	n := float64(a.front)
	return math.Sqrt(max(0, square/n-sum*sum/n/n))
}

// Observe records a decision, keeps the episode at its end, and trains when due.
func (a *paretoConditioned) Observe(t transition, _ []float32) {
	if a.now == nil {
		a.now = &trajectory{}
	}
	e, g := a.now, math.Pow(a.config.Gamma, float64(t.Work))
	e.States = append(e.States, t.State...)
	e.Actions = append(e.Actions, t.Action)
	e.masks = append(e.masks, slices.Clone(t.Mask))
	e.discount = append(e.discount, g)
	reward := make([]float64, len(t.Reward))
	for i, r := range t.Reward {
		reward[i] = float64(r)
		a.desired[i] = (a.desired[i] - reward[i]) / g
	}
	e.ToGo = append(e.ToGo, reward)
	a.horizon = max(1, a.horizon-1)
	a.stats.Steps++
	if t.Done || t.Cut {
		for k := len(e.ToGo) - 2; k >= 0; k-- {
			for i := range e.ToGo[k] {
				e.ToGo[k][i] += e.discount[k] * e.ToGo[k+1][i]
			}
		}
		a.keep(e)
		a.now = nil
	}
	if a.front > 0 && a.stats.Steps >= a.config.Warmup && a.stats.Steps%a.config.Every == 0 {
		for range a.config.Updates {
			a.update()
		}
	}
}

// keep adds an episode and removes the one farthest from the non-dominated ones, or of those the most crowded, if there
// are too many. Of episodes with the same return the shorter is kept.
func (a *paretoConditioned) keep(e *trajectory) {
	if i := slices.IndexFunc(a.kept, func(x *trajectory) bool { return slices.Equal(x.ToGo[0], e.ToGo[0]) }); i >= 0 {
		if len(e.Actions) < len(a.kept[i].Actions) {
			a.kept[i] = e
		}
		return
	}
	a.kept = append(a.kept, e)
	points := make([][]float64, len(a.kept))
	for i, x := range a.kept {
		points[i] = x.ToGo[0]
	}
	front := pareto.Front(points)
	slices.Sort(front)
	var all []*trajectory
	for _, i := range front {
		all = append(all, a.kept[i])
	}
	a.front = len(all)
	for i, x := range a.kept {
		if _, is := slices.BinarySearch(front, i); !is {
			all = append(all, x)
		}
	}
	a.kept = all
	a.rescale()
	if len(all) <= maxEpisodes {
		return
	}
	worst, most := -1, math.Inf(-1)
	for i, x := range all {
		least := math.Inf(1)
		for k, y := range all[:a.front] {
			if k != i {
				least = min(least, a.distance(x, y))
			}
		}
		if i < a.front {
			least = -least - 1e9 // only if all are non-dominated
		}
		if least > most {
			worst, most = i, least
		}
	}
	a.kept = slices.Delete(all, worst, worst+1)
	a.front = min(a.front, len(a.kept))
}

// distance returns the squared distance of the returns of two episodes in the network's scale.
func (a *paretoConditioned) distance(x, y *trajectory) (d float64) {
	for i, v := range x.ToGo[0] {
		d += (v - y.ToGo[0][i]) * (v - y.ToGo[0][i]) / float64(a.scale[i]*a.scale[i])
	}
	return d
}

// rescale sets the scale of the returns to powers of two that bound those of the kept non-dominated episodes, unless it is
// given.
func (a *paretoConditioned) rescale() {
	if a.config.Scale != nil {
		return
	}
	a.scale = make([]float32, len(a.desired))
	for i := range a.scale {
		most := 1e-3
		for _, e := range a.kept[:a.front] {
			most = max(most, math.Abs(e.ToGo[0][i]))
		}
		a.scale[i] = float32(math.Exp2(math.Ceil(math.Log2(most))))
	}
}

// update makes one gradient step towards the actions of kept episodes, half of them non-dominated ones.
func (a *paretoConditioned) update() {
	n, width, actions, s := a.config.Batch, a.actor.Inputs, a.shape.Actions, a.shape.State
	a.x = resize(a.x, n*width)
	taken, masks := make([]int, n), make([][]bool, n)
	for k := range n {
		among := len(a.kept)
		if k%2 == 0 {
			among = a.front
		}
		e := a.kept[a.sampler.IntN(among)]
		at := a.sampler.IntN(len(e.Actions))
		a.command(a.x[k*width:(k+1)*width], e.States[at*s:(at+1)*s], e.ToGo[at], float64(len(e.Actions)-at))
		taken[k] = e.Actions[at]
		if len(e.masks) > 0 { // those of a loaded agent are unknown
			masks[k] = e.masks[at]
		}
	}
	grad := slices.Clone(a.trainer.Forward(a.x, n, nil))
	loss := 0.0
	for k := range n {
		row := grad[k*actions : (k+1)*actions]
		softmax(row, masks[k])
		loss -= math.Log(max(1e-30, float64(row[taken[k]]))) / float64(n)
		row[taken[k]]--
		for i := range row {
			row[i] /= float32(n)
		}
	}
	a.trainer.Backward(grad, nil)
	a.trainer.SetRate(a.rate())
	a.trainer.Step()
	a.stats.Updates++
	a.smooth(loss)
}

// Save writes the network and the kept non-dominated episodes.
func (a *paretoConditioned) Save(w io.Writer) error {
	if err := a.save(w, a.actor); err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(a.kept[:a.front]); err != nil {
		return fmt.Errorf("save agent pcn: %w", err)
	}
	return nil
}

// Load restores the output of Save.
func (a *paretoConditioned) Load(r io.Reader) error {
	b := newParetoConditioned(a.shape, a.config, 0)
	if err := b.load(r, b.actor); err != nil {
		return err
	}
	data, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(data, &b.kept)
	}
	if err != nil || data[len(data)-1] != '\n' {
		return fmt.Errorf("load agent pcn: %v: %w", err, ErrCorrupt)
	}
	for i, e := range b.kept {
		ok := e != nil && len(e.Actions) > 0 && len(e.ToGo) == len(e.Actions) && len(e.States) == len(e.Actions)*a.shape.State
		for k := 0; ok && k < len(e.Actions); k++ {
			ok = e.Actions[k] >= 0 && e.Actions[k] < a.shape.Actions && len(e.ToGo[k]) == len(a.shape.Objectives)
		}
		if !ok {
			return fmt.Errorf("load agent pcn: episode %d: %w", i, ErrCorrupt)
		}
	}
	a.actor.CopyFrom(b.actor)
	a.trainer.Forget()
	a.kept, a.front, a.now, a.scale, a.stats = b.kept, len(b.kept), nil, b.scale, b.stats
	return nil
}

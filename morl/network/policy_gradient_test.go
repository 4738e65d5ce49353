package network

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slots is a bandit: rows are in random order, and the one with the largest first feature has a reward. Some are
// masked.
type slots struct {
	rng  *rand.Rand
	left int
	x    []float32
	mask []bool
	best int
}

var slotShape = Shape{Rows: 6, Features: 2}

func (s *slots) Reset(rng *rand.Rand) (Observation, bool) {
	s.rng, s.left = rng, 4
	return s.look(), false
}

func (s *slots) look() Observation {
	n := 2 + s.rng.IntN(5)
	s.x, s.mask, s.best = make([]float32, 2*n), make([]bool, n), -1
	keep := s.rng.IntN(n)
	for i := range n {
		s.x[2*i], s.x[2*i+1] = s.rng.Float32(), s.rng.Float32()
		if s.mask[i] = i == keep || s.rng.IntN(3) > 0; s.mask[i] && (s.best < 0 || s.x[2*i] > s.x[2*s.best]) {
			s.best = i
		}
	}
	return Observation{X: s.x, Mask: s.mask}
}

func (s *slots) Step(a int) (Observation, float64, bool) {
	if !s.mask[a] {
		panic("a masked action")
	}
	reward := 0.0
	if a == s.best {
		reward = 1
	}
	s.left--
	return s.look(), reward, s.left == 0
}

// corridor is a chain of states 0 … 5 with actions left and right: each step costs 0.1, the right end yields 1, the
// left end 0.2; both end the episode. From the start at 2 the optimum is 1 − 0.3 = 0.7, the near end yields 0.2 − 0.2
// = 0.
type corridor struct {
	at, steps int
	x         [6]float32
}

var corridorShape = Shape{Rows: 1, Features: 6, Actions: 3}

func (c *corridor) Reset(*rand.Rand) (Observation, bool) {
	*c = corridor{at: 2}
	return c.look(), false
}

func (c *corridor) look() Observation {
	clear(c.x[:])
	c.x[c.at] = 1
	return Observation{X: c.x[:], Mask: []bool{true, true, false}}
}

func (c *corridor) Step(a int) (Observation, float64, bool) {
	c.at += 2*a - 1
	c.steps++
	reward := -0.1
	switch c.at {
	case 0:
		reward += 0.2
	case 5:
		reward += 1
	}
	return c.look(), reward, c.at == 0 || c.at == 5 || c.steps == 50
}

func newSlots() Environment    { return &slots{} }
func newCorridor() Environment { return &corridor{} }

func gradientMade(t testing.TB, s Shape, c PolicyConfig, seed uint64) *Learner {
	t.Helper()
	l, err := NewLearner(s, c, seed)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func learn(t testing.TB, l *Learner, env func() Environment, updates int) Report {
	t.Helper()
	var r Report
	for range updates {
		var err error
		if r, err = l.Update(env); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// greedy returns the mean return of the most probable actions.
func greedy(l *Learner, env Environment, episodes int) float64 {
	p, sum := l.Policy(), 0.0
	for i := range episodes {
		o, done := env.Reset(rand.New(rand.NewPCG(uint64(i), 99)))
		for !done {
			var r float64
			o, r, done = env.Step(p.Greedy(o))
			sum += r
		}
	}
	return sum / float64(episodes)
}

// TestMethodsFindTheOptimum requires that every method finds the known optimum from several seeds.
func TestMethodsFindTheOptimum(t *testing.T) {
	for name, c := range map[string]struct {
		shape   Shape
		env     func() Environment
		config  PolicyConfig
		updates int
		want    float64
	}{
		"slots, reinforce": {slotShape, newSlots, PolicyConfig{Method: "reinforce", Policy: "kernel", Hidden: []int{16}, Rate: 0.01, Episodes: 32, AcrossEpisodes: true}, 150, 3.7},
		"slots, ppo": {slotShape, newSlots, PolicyConfig{Policy: "kernel", Hidden: []int{16}, Rate: 0.01, Episodes: 64, Gamma: 1e-9,
			Iterations: 10, ValueIterations: 10}, 60, 3.7},
		"corridor, reinforce": {corridorShape, newCorridor, PolicyConfig{Method: "reinforce", Hidden: []int{16}, Rate: 0.01, Episodes: 8, AcrossEpisodes: true, Activation: LeakyReLU}, 200, 0.7},
		"corridor, flat a2c":  {corridorShape, newCorridor, PolicyConfig{Method: "a2c", Hidden: []int{16}, Rate: 0.01, Episodes: 8, AcrossEpisodes: true}, 200, 0.7},
		"corridor, shared a2c": {corridorShape, newCorridor, PolicyConfig{Method: "a2c", Policy: "shared", Hidden: []int{16, 16}, Rate: 0.01, Episodes: 8, AcrossEpisodes: true,
			Activation: LeakyReLU}, 200, 0.7},
		"corridor, ppo": {corridorShape, newCorridor, PolicyConfig{Hidden: []int{16}, Rate: 0.005, Iterations: 10, ValueIterations: 20}, 60, 0.7},
		"corridor, ppo in minibatches": {corridorShape, newCorridor, PolicyConfig{Hidden: []int{16}, Rate: 0.003, Iterations: 4, ValueIterations: 4,
			Minibatch: 32, Activation: Tanh, ScaleReturns: true, ClipNorm: 1}, 60, 0.7},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				l := gradientMade(t, c.shape, c.config, seed)
				learn(t, l, c.env, c.updates)
				if got := greedy(l, c.env(), 200); got < c.want-1e-9 {
					t.Errorf("seed %d: return %v, want %v", seed, got, c.want)
				}
			}
		})
	}
}

// TestGradientsAgainstDifferences compares the gradients with central differences of the losses: float32 networks
// permit two to three digits.
func TestGradientsAgainstDifferences(t *testing.T) {
	for name, c := range map[string]PolicyConfig{
		"kernel": {Policy: "kernel", Hidden: []int{7, 5}, HeadHidden: []int{6}, Activation: Tanh, Entropy: 0.3, Episodes: 6},
		"flat":   {Policy: "flat", Hidden: []int{7, 5}, Activation: Tanh, Entropy: 0.3, Episodes: 6},
	} {
		t.Run(name, func(t *testing.T) {
			shape, env := slotShape, newSlots
			if c.Policy == "flat" {
				shape, env = corridorShape, newCorridor
			}
			shape.Padding = make([]float32, shape.Features)
			shape.Padding[0] = 0.7
			l := gradientMade(t, shape, c, 3)
			shake(l, 0.5)
			b, err := l.collect(env)
			if err != nil {
				t.Fatal(err)
			}
			shake(l, 0.05) // move the ratios away from 1
			advantage, goal := l.estimate(b)
			idx := steps(b.steps())
			compare(t, l, 0, l.layout.policy, func() float64 { return l.policyGradient(b, idx, advantage).loss })
			compare(t, l, l.layout.value, len(l.nets), func() float64 { return l.valueGradient(b, idx, goal).value })
		})
	}
	t.Run("shared", func(t *testing.T) {
		l := gradientMade(t, corridorShape, PolicyConfig{Method: "a2c", Policy: "shared", Hidden: []int{7, 5}, Activation: Tanh}, 3)
		shake(l, 0.5)
		b, err := l.collect(newCorridor)
		if err != nil {
			t.Fatal(err)
		}
		idx, w := steps(b.steps()), []float64{1, -2, 0.5, 3, -1, 2, 0.1, 1}
		compare(t, l, 0, 3, func() float64 {
			return l.over(b, idx, func(p pass, chunk []int, _ int) (j lossSums) {
				dv := make([]float32, len(chunk))
				for k, v := range p.values(b, chunk) {
					j.loss += w[k%8] * float64(v)
					dv[k] = float32(w[k%8])
				}
				logits := p.logits(b, chunk)
				d := make([]float32, len(logits))
				j.loss += b.differentiate(d, logits, make([]float64, len(logits)), chunk, func(i int, logp float64) (float64, float64) {
					return -w[i%8] * logp, -w[i%8]
				}, 0).loss
				p.backward(d, dv)
				return j
			}).loss
		})
	})
}

func shake(l *Learner, by float64) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, n := range l.nets {
		for i := range n.Params() {
			n.Params()[i] += float32(by * rng.NormFloat64())
		}
	}
}

func compare(t *testing.T, l *Learner, from, to int, loss func() float64) {
	t.Helper()
	loss()
	var got []float64
	for _, tr := range l.passes[0].trainers()[from:to] {
		for _, g := range tr.Gradient() {
			got = append(got, float64(g))
		}
	}
	l.forget()
	at, size := 0, 0.0
	for _, n := range l.nets[from:to] {
		for i := range n.Params() {
			const h = 4e-3
			old := n.Params()[i]
			n.Params()[i] = old + h
			up := loss()
			n.Params()[i] = old - h
			down := loss()
			n.Params()[i] = old
			want := (up - down) / (2 * h)
			size += want * want
			if math.Abs(got[at]-want) > 2e-3+0.03*math.Abs(want) {
				t.Errorf("parameter %d: gradient %v, difference %v", at, got[at], want)
			}
			at++
		}
	}
	l.forget()
	if size < 1e-3 {
		t.Errorf("nearly no gradient, %v: nothing was compared", size)
	}
}

// TestKernelHas961Parameters checks the size of RLScheduler's network.
func TestKernelHas961Parameters(t *testing.T) {
	l := gradientMade(t, Shape{Rows: 128, Features: 8}, PolicyConfig{Policy: "kernel"}, 1)
	if n := len(l.Networks()[0].Params()); n != 961 {
		t.Errorf("%d parameters", n)
	}
}

// TestKernelIsEquivariant requires that probabilities follow their rows in any order, are zero where masked, and sum
// to 1.
func TestKernelIsEquivariant(t *testing.T) {
	l := gradientMade(t, Shape{Rows: 20, Features: 3}, PolicyConfig{Policy: "kernel"}, 1)
	shake(l, 0.3)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "rows")
		x := rapid.SliceOfN(rapid.Float32Range(-3, 3), 3*n, 3*n).Draw(t, "x")
		mask := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "mask")
		mask[rapid.IntRange(0, n-1).Draw(t, "allowed")] = true
		before := slices.Clone(l.Policy().Probabilities(Observation{x, mask}))
		order := rapid.Permutation(steps(n)).Draw(t, "order")
		x2, mask2 := make([]float32, 3*n), make([]bool, n)
		for i, j := range order {
			copy(x2[3*i:3*i+3], x[3*j:3*j+3])
			mask2[i] = mask[j]
		}
		sum := 0.0
		for i, p := range l.Policy().Probabilities(Observation{x2, mask2}) {
			if math.Abs(p-before[order[i]]) > 1e-12 {
				t.Fatalf("row %d has probability %v, at its old place %d %v", i, p, order[i], before[order[i]])
			}
			if !mask2[i] && p != 0 {
				t.Fatalf("masked row %d has probability %v", i, p)
			}
			sum += p
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Fatalf("probabilities add up to %v", sum)
		}
		if a, _ := l.Policy().Sample(Observation{x2, mask2}, rand.New(rand.NewPCG(1, uint64(n)))); !mask2[a] {
			t.Fatalf("masked action %d was drawn", a)
		}
		if a := l.Policy().Greedy(Observation{x2, mask2}); !mask2[a] {
			t.Fatalf("masked action %d is best", a)
		}
	})
}

// TestWorkersDoNotMatter requires identical results for any number of workers.
func TestWorkersDoNotMatter(t *testing.T) {
	for _, c := range []PolicyConfig{
		{Policy: "kernel", Episodes: 700, Iterations: 3, ValueIterations: 3},
		{Policy: "kernel", Method: "reinforce", Episodes: 600},
		{Policy: "kernel", Episodes: 50, Iterations: 3, ValueIterations: 3, Minibatch: 64},
	} {
		var want []float32
		for _, c.Workers = range []int{1, 2, 7} {
			l := gradientMade(t, slotShape, c, 4)
			learn(t, l, newSlots, 2)
			var got []float32
			for _, n := range l.Networks() {
				got = append(got, n.Params()...)
			}
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: parameters differ with %d workers", c.Method, c.Workers)
			}
		}
	}
}

func TestGeneralisedAdvantageKnownAnswer(t *testing.T) {
	got := make([]float64, 3)
	generalised(got, []float64{1, 0, 2}, []float64{0.5, 1, -1}, 0.9, 0.5)
	// δ = 1+0.9−0.5, 0−0.9−1, 2+1
	d := []float64{1.4, -1.9, 3}
	want := []float64{d[0] + 0.45*(d[1]+0.45*d[2]), d[1] + 0.45*d[2], d[2]}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("advantages %v, want %v", got, want)
		}
	}
	r := []float64{1, 2, 4}
	discounted(r, slices.Clone(r), 0.5)
	if !slices.Equal(r, []float64{3, 4, 4}) {
		t.Errorf("discounted sums %v", r)
	}
	normalise(r)
	if math.Abs(r[0]+2/math.Sqrt(3)) > 1e-6 || math.Abs(r[1]-1/math.Sqrt(3)) > 1e-6 {
		t.Errorf("normalised %v", r)
	}
	one := []float64{5}
	if normalise(one); one[0] != 5 {
		t.Errorf("a single return became %v", one[0])
	}
}

func TestClippedKnownAnswer(t *testing.T) {
	for name, c := range map[string]struct{ ratio, advantage, loss, slope float64 }{
		"inside":            {1.1, 2, -2.2, -2.2},
		"beyond, good":      {1.5, 2, -2.4, 0},
		"beyond, bad":       {1.5, -2, 3, 3},
		"below, good":       {0.5, 2, -1, -1},
		"below, bad":        {0.5, -2, 1.6, 0},
		"at the old policy": {1, 3, -3, -3},
	} {
		loss, slope := clipped(math.Log(c.ratio), 0, c.advantage, 0.2)
		if math.Abs(loss-c.loss) > 1e-12 || math.Abs(slope-c.slope) > 1e-12 {
			t.Errorf("%s: %v, slope %v; want %v, %v", name, loss, slope, c.loss, c.slope)
		}
	}
}

// TestTargetDivergenceStops requires that PPO stops before the step after the divergence exceeds one and a half times
// the target.
func TestTargetDivergenceStops(t *testing.T) {
	for name, c := range map[string]struct {
		target    float64
		all       bool
		minibatch int
	}{"small": {1e-4, false, 0}, "large": {1e5, true, 0}, "small, minibatches": {1e-4, false, 16}} {
		l := gradientMade(t, slotShape, PolicyConfig{Policy: "kernel", Rate: 0.05, Episodes: 20, Iterations: 20, ValueIterations: 3, TargetKL: c.target,
			Minibatch: c.minibatch}, 1)
		r := learn(t, l, newSlots, 1)
		if all := r.Iterations == 20; all != c.all || all == (r.KL > 1.5*c.target) || r.ValueIteration != 3 {
			t.Errorf("%s: %d iterations of 20, divergence %v; %d of the critic", name, r.Iterations, r.KL, r.ValueIteration)
		}
	}
}

// TestReportedLossesAreMeansOfThePass requires that minibatches do not change the reported losses: at a negligible rate
// the means over a pass equal the values of the whole batch.
func TestReportedLossesAreMeansOfThePass(t *testing.T) {
	report := func(minibatch int) Report {
		l := gradientMade(t, slotShape, PolicyConfig{Policy: "kernel", Rate: 1e-12, ValueRate: 1e-12, Episodes: 20, Iterations: 1, ValueIterations: 1, TargetKL: 1e5,
			Minibatch: minibatch}, 1)
		return learn(t, l, newSlots, 1)
	}
	whole, parts := report(0), report(7)
	for name, v := range map[string][2]float64{"policy": {whole.PolicyLoss, parts.PolicyLoss}, "value": {whole.ValueLoss, parts.ValueLoss},
		"entropy": {whole.Entropy, parts.Entropy}} {
		if math.Abs(v[0]-v[1]) > 1e-5*(1+math.Abs(v[0])) {
			t.Errorf("%s: %v in one batch, %v in minibatches", name, v[0], v[1])
		}
	}
}

// unpaid is a corridor whose last action has no reward.
type unpaid struct{ corridor }

func (u *unpaid) Step(a int) (Observation, float64, bool) {
	o, r, done := u.corridor.Step(a)
	if done {
		r = math.NaN()
	}
	return o, r, done
}

func TestActionsWithoutRewardAreLeftOut(t *testing.T) {
	l := gradientMade(t, corridorShape, PolicyConfig{Method: "reinforce", Episodes: 5}, 1)
	b, err := l.collect(func() Environment { return &unpaid{} })
	if err != nil {
		t.Fatal(err)
	}
	paid, err := l.collect(newCorridor)
	if err != nil {
		t.Fatal(err)
	}
	if b.steps() != paid.steps()-5 || len(b.x) != 6*b.steps() || len(b.mask) != 3*b.steps() || len(b.start) != b.steps()+1 {
		t.Errorf("%d steps, with all rewards %d, of 5 episodes", b.steps(), paid.steps())
	}
	if r := learn(t, l, func() Environment { return &unpaid{} }, 1); !(r.Returns[0] < 1) {
		t.Errorf("return %v", r.Returns)
	}
}

func TestDivergenceIsSaid(t *testing.T) {
	for _, method := range methodNames() {
		l := gradientMade(t, corridorShape, PolicyConfig{Method: method}, 1)
		for _, n := range l.nets { // every weight: a kernel may skip those of inputs that are zero
			for i := range n.Params() {
				n.Params()[i] = float32(math.Inf(1))
			}
		}
		if _, err := l.Update(newCorridor); !errors.Is(err, errDiverged) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

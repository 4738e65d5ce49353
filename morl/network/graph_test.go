package network_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"trainopt/morl/network"
)

// batch is one set of inputs for both graphs and for network.Trainer.
type batch struct {
	c         network.Config
	rows      int
	net       *network.Network
	x         []float32
	actions   []int
	advantage []float32
	target    []float32
}

func newBatch(c network.Config, rows int) *batch {
	rng := rand.New(rand.NewPCG(21, uint64(rows)))
	b := &batch{c: c, rows: rows, net: network.New(c, rng), x: normals(rng, rows*c.Inputs),
		advantage: normals(rng, rows), target: normals(rng, rows*c.Outputs)}
	for range rows {
		b.actions = append(b.actions, rng.IntN(c.Outputs))
	}
	for i := range b.net.Params() { // move outputs and biases away from zero
		b.net.Params()[i] += float32(0.1 * rng.NormFloat64())
	}
	return b
}

func normals(rng *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(rng.NormFloat64())
	}
	return s
}

func as[T Float](s []float32) []T {
	w := make([]T, len(s))
	for i, v := range s {
		w[i] = T(v)
	}
	return w
}

// split separates rows of inputs into states and actions.
func split[T Float](x []T, width, actions int) (states, rest []T) {
	for ; len(x) > 0; x = x[width:] {
		states = append(states, x[:width-actions]...)
		rest = append(rest, x[width-actions:width]...)
	}
	return states, rest
}

// masks returns the masks of the trainer's last Forward.
func masks[T Float](tr *network.Trainer, c network.Config) (all [][]T) {
	for i := range c.Hidden {
		all = append(all, as[T](tr.Mask(nil, i)))
	}
	return all
}

// learner is the common interface of both graphs in the tests, bound to a batch.
type learner[T Float] interface {
	SetMasks([][]T) error
	SetParams([]T) error
	Params() []T
	Load(*network.Network) error
	Gradient() ([]T, error)
	Step() (T, error)
	Close() error
}

const entropy = 0.05

func newActor[T Float](t testing.TB, b *batch, o network.Adam) (learner[T], func() T, func() []T) {
	a, err := NewActor[T](ActorConfig{Config: b.c, Rows: b.rows, Entropy: entropy, Adam: o})
	if err == nil {
		err = a.Load(b.net)
	}
	must(t, err)
	return a, func() T {
			l, err := a.Loss(as[T](b.x), b.actions, as[T](b.advantage))
			must(t, err)
			return l
		}, func() []T {
			p, err := a.Forward(as[T](b.x))
			must(t, err)
			return p
		}
}

func newCritic[T Float](t testing.TB, b *batch, actions int, o network.Adam) (learner[T], func() T, func() []T) {
	c, err := NewCritic[T](CriticConfig{Config: b.c, Actions: actions, Rows: b.rows, Adam: o})
	if err == nil {
		err = c.Load(b.net)
	}
	must(t, err)
	s, a := split(as[T](b.x), b.c.Inputs, actions)
	return c, func() T {
			l, err := c.Loss(s, a, as[T](b.target))
			must(t, err)
			return l
		}, func() []T {
			y, err := c.Forward(s, a)
			must(t, err)
			return y
		}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var cases = map[string]struct {
	c       network.Config
	rows    int
	actor   bool
	actions int
}{
	"actor":                {network.Config{Inputs: 5, Hidden: []int{14, 9}, Outputs: 6}, 7, true, 0},
	"actor, dropout":       {network.Config{Inputs: 21, Hidden: []int{16, 12}, Outputs: 27, Dropout: 0.3}, 8, true, 0},
	"actor, one row":       {network.Config{Inputs: 4, Hidden: []int{8, 8}, Outputs: 3, Dropout: 0.2}, 1, true, 0},
	"critic":               {network.Config{Inputs: 9, Hidden: []int{12, 10}, Outputs: 1}, 7, false, 4},
	"critic, dropout":      {network.Config{Inputs: 48, Hidden: []int{16, 12}, Outputs: 1, Dropout: 0.3}, 8, false, 27},
	"vector critic":        {network.Config{Inputs: 6, Hidden: []int{12, 10}, Outputs: 4, Dropout: 0.1}, 7, false, 0},
	"vector critic, joint": {network.Config{Inputs: 10, Hidden: []int{12, 10}, Outputs: 3}, 5, false, 4},
	"critic, one row":      {network.Config{Inputs: 6, Hidden: []int{7, 5}, Outputs: 1}, 1, false, 2},
}

// build creates the graph of a case, with the masks of a trainer's Forward.
func build[T Float](t testing.TB, name string, o network.Adam) (*batch, learner[T], func() T, func() []T) {
	k := cases[name]
	b := newBatch(k.c, k.rows)
	if k.actor {
		l, loss, out := newActor[T](t, b, o)
		return b, l, loss, out
	}
	l, loss, out := newCritic[T](t, b, k.actions, o)
	return b, l, loss, out
}

func TestGradientsAgainstDifferencesInFloat64(t *testing.T) {
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			b, l, loss, _ := build[float64](t, name, network.Adam{})
			defer l.Close()
			tr := network.NewTrainer(b.net, b.rows, network.Adam{})
			tr.Forward(b.x, b.rows, rand.New(rand.NewPCG(5, 5)))
			must(t, l.SetMasks(masks[float64](tr, k.c)))
			first := loss()
			once, err := l.Gradient()
			must(t, err)
			again := loss()
			gradient, err := l.Gradient()
			must(t, err)
			if first != again || !slices.Equal(once, gradient) {
				t.Fatalf("a second run gives the loss %v after %v, or another gradient", again, first)
			}
			params := l.Params()
			for i := 0; i < len(params); i += 1 + len(params)/150 {
				const h = 1e-5
				old := params[i]
				params[i] = old + h
				must(t, l.SetParams(params))
				up := loss()
				params[i] = old - h
				must(t, l.SetParams(params))
				down := loss()
				params[i] = old
				if want := (up - down) / (2 * h); math.Abs(gradient[i]-want) > 1e-7*(1+math.Abs(want)) {
					t.Fatalf("parameter %d: gradient %v, central difference %v", i, gradient[i], want)
				}
			}
		})
	}
}

// TestTrainerAgrees compares the trainer's float32 with Gorgonia's float64, and the losses with their formulas:
// outputs and gradients to 2e-5, the parameters after 20 steps of Adam at a rate of 1e-3 to 2e-5 (a step is 1e-3; a
// gradient near zero can change its sign).
func TestTrainerAgrees(t *testing.T) {
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			o := network.Adam{Rate: 1e-3, ClipNorm: 0.5}
			b, l, loss, out := build[float64](t, name, o)
			defer l.Close()
			tr := network.NewTrainer(b.net, b.rows, o)
			rng := rand.New(rand.NewPCG(5, 5))
			for step := range 20 {
				var y, d []float32
				if k.actor {
					close32(t, step, "probability", softmax(tr.Forward(b.x, b.rows, nil), k.c.Outputs), out(), 2e-5)
					y = tr.Forward(b.x, b.rows, rng)
					d = policyGradient(b, softmax(y, k.c.Outputs))
				} else {
					close32(t, step, "value", tr.Forward(b.x, b.rows, nil), out(), 2e-5)
					y = tr.Forward(b.x, b.rows, rng)
					for i := range y {
						d = append(d, 2*(y[i]-b.target[i])/float32(len(y)))
					}
				}
				must(t, l.SetMasks(masks[float64](tr, k.c)))
				if got, want := loss(), lossByHand(b, y, k.actor); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
					t.Fatalf("step %d: the graph's loss is %v, by hand %v", step, got, want)
				}
				gradient, err := l.Gradient()
				must(t, err)
				tr.Backward(d, nil)
				close32(t, step, "gradient", tr.Gradient(), gradient, 2e-5)
				want, err := l.Step()
				must(t, err)
				if norm := tr.Step(); math.Abs(float64(norm)-want) > 1e-4*want {
					t.Fatalf("step %d: norm %v, graph %v", step, norm, want)
				}
				close32(t, step, "parameter", b.net.Params(), l.Params(), 2e-5)
			}
		})
	}
}

func close32(t *testing.T, step int, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d numbers of %s, graph %d", len(got), what, len(want))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tolerance*(1+math.Abs(want[i]))) {
			t.Fatalf("step %d: %s %d is %v, graph %v", step, what, i, got[i], want[i])
		}
	}
}

// softmax is derived manually, as in the agents, and so is policyGradient.
func softmax(y []float32, width int) []float32 {
	p := slices.Clone(y)
	for r := 0; r < len(p); r += width {
		row, sum := p[r:r+width], 0.0
		top := slices.Max(row)
		for i, v := range row {
			row[i] = float32(math.Exp(float64(v - top)))
			sum += float64(row[i])
		}
		for i := range row {
			row[i] /= float32(sum)
		}
	}
	return p
}

func lossByHand(b *batch, y []float32, actor bool) (loss float64) {
	if !actor {
		for i, v := range y {
			loss += math.Pow(float64(v-b.target[i]), 2) / float64(len(y))
		}
		return loss
	}
	for i, p := range softmax(y, b.c.Outputs) {
		r, action := i/b.c.Outputs, i%b.c.Outputs
		if action == b.actions[r] {
			loss -= float64(b.advantage[r]) * math.Log(float64(p))
		}
		loss += entropy * float64(p) * math.Log(float64(p))
	}
	return loss / float64(b.rows)
}

func policyGradient(b *batch, p []float32) []float32 {
	d := make([]float32, len(p))
	for r := range b.rows {
		row, h := p[r*b.c.Outputs:(r+1)*b.c.Outputs], 0.0
		for _, v := range row {
			h -= float64(v) * math.Log(float64(v))
		}
		for i, v := range row {
			g := float64(v) * float64(b.advantage[r])
			if i == b.actions[r] {
				g -= float64(b.advantage[r])
			}
			g += entropy * float64(v) * (math.Log(float64(v)) + h)
			d[r*b.c.Outputs+i] = float32(g / float64(b.rows))
		}
	}
	return d
}

// TestFloat32GraphTrainsAndStores requires that a float32 graph, after training and Store, is close to the trainer.
func TestFloat32GraphTrainsAndStores(t *testing.T) {
	b, l, loss, out := build[float32](t, "vector critic", network.Adam{Rate: 1e-2})
	defer l.Close()
	first := loss()
	for range 100 {
		loss()
		_, err := l.Step()
		must(t, err)
	}
	if last := loss(); !(last < first/2) {
		t.Errorf("loss %v after 100 steps, %v before", last, first)
	}
	must(t, l.(*Critic[float32]).Store(b.net))
	for i, v := range b.net.Forward(nil, b.x, b.rows) {
		if w := out()[i]; math.Abs(float64(v-w)) > 1e-5 {
			t.Fatalf("output %d of the stored network %v, of the graph %v", i, v, w)
		}
	}
}

func TestSameBitsEveryRunAndOnTwoCores(t *testing.T) {
	train := func(cores int) []float32 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		_, l, loss, _ := build[float32](t, "actor, dropout", network.Adam{})
		defer l.Close()
		for range 5 {
			loss()
			_, err := l.Step()
			must(t, err)
		}
		return l.Params()
	}
	if !slices.Equal(train(1), train(2)) {
		t.Error("parameters depend on the number of cores")
	}
}

func TestStepMovesOnlyAlongAFiniteGradient(t *testing.T) {
	b, l, loss, _ := build[float32](t, "critic", network.Adam{})
	defer l.Close()
	before := l.Params()
	if norm, err := l.Step(); norm != 0 || err != nil {
		t.Errorf("a step without a loss: %v, %v", norm, err)
	}
	b.target[0] = float32(math.NaN())
	loss()
	if norm, err := l.Step(); norm == norm || err != nil {
		t.Errorf("a step along NaN: norm %v, %v", norm, err)
	}
	if !slices.Equal(before, l.Params()) {
		t.Error("the parameters moved")
	}
	b.target[0] = 1
	if l := loss(); l != l {
		t.Error("a NaN stays behind in the graph")
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]CriticConfig{
		"no outputs":   {Config: network.Config{Inputs: 3}, Rows: 1},
		"tanh":         {Config: network.Config{Inputs: 3, Outputs: 1, Activation: network.Tanh}, Rows: 1},
		"no rows":      {Config: network.Config{Inputs: 3, Outputs: 1}},
		"only actions": {Config: network.Config{Inputs: 3, Outputs: 1}, Actions: 3, Rows: 1},
	} {
		if _, err := NewCritic[float32](c); err == nil {
			t.Errorf("%s: %+v is accepted", name, c)
		}
	}
	b := newBatch(cases["actor"].c, 7)
	a, err := NewActor[float32](ActorConfig{Config: b.c, Rows: 7})
	must(t, err)
	for name, f := range map[string]func() error{
		"short states":   func() error { _, err := a.Forward(b.x[1:]); return err },
		"foreign action": func() error { _, err := a.Loss(b.x, []int{0, 1, 2, 3, 4, 5, 6}, b.advantage); return err },
		"few actions":    func() error { _, err := a.Loss(b.x, b.actions[1:], b.advantage); return err },
		"few masks":      func() error { return a.SetMasks([][]float32{nil}) },
		"narrow mask":    func() error { return a.SetMasks([][]float32{nil, nil}) },
		"short params":   func() error { return a.SetParams(b.x) },
		"other network": func() error {
			return a.Store(network.New(network.Config{Inputs: 1, Outputs: 1}, rand.New(rand.NewPCG(1, 1))))
		},
	} {
		if f() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	a.Close()
	a.Close()
	if _, err := a.Forward(b.x); !errors.Is(err, ErrClosed) {
		t.Errorf("Forward after Close: %v", err)
	}
	if _, err := a.Step(); !errors.Is(err, ErrClosed) {
		t.Errorf("Step after Close: %v", err)
	}
}

// TestCloseReleases requires that 60 graphs that were built, used and closed are freed: each holds some 0.5 MB.
func TestCloseReleases(t *testing.T) {
	if testing.Short() {
		t.Skip("builds 60 graphs")
	}
	b := newBatch(network.Config{Inputs: 21, Hidden: []int{64, 64}, Outputs: 27}, 64)
	use := func() {
		l, loss, out := newActor[float32](t, b, network.Adam{})
		loss()
		out()
		_, err := l.Step()
		must(t, err)
		l.Close()
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	use()
	before := heap()
	for range 60 {
		use()
	}
	if after := heap(); after > before+8<<20 {
		t.Errorf("%d MiB stay after 60 closed graphs", (after-before)>>20)
	}
}

//go:build gorgonia

package network

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// TestGraphGradientAgainstDifferences compares the outputs and gradients of graphs with the float64 reference.
func TestGraphGradientAgainstDifferences(t *testing.T) {
	for name, c := range graphOnly {
		c.Graph = true
		if err := c.Trainable(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Run(name, func(t *testing.T) { checkGradient(t, c, 11) })
	}
}

// TestGraphAgreesWithKernels requires outputs, gradients and parameters within 2e-5 through 50 steps of Adam at a rate
// of 1e-3 from equal weights, with equal masks and with fewer rows than the graph was built for.
func TestGraphAgreesWithKernels(t *testing.T) {
	for name, c := range map[string]Config{
		"linear":        {Inputs: 3, Outputs: 2},
		"relu":          {Inputs: 21, Hidden: []int{64, 64}, Outputs: 27},
		"relu, dropout": {Inputs: 48, Hidden: []int{16, 12}, Outputs: 4, Dropout: 0.3},
		"tanh":          {Inputs: 9, Hidden: []int{12, 10}, Outputs: 3, Dropout: 0.2, Activation: Tanh},
		"leaky":         {Inputs: 9, Hidden: []int{12, 10}, Outputs: 3, Dropout: 0.2, Activation: LeakyReLU},
		"sigmoid, deep": {Inputs: 9, Hidden: []int{64, 64, 32, 16, 8}, Outputs: 3, Activation: Sigmoid},
	} {
		for _, rows := range []int{1, 7, 16} {
			n := moved(c)
			c.Graph = true
			g := moved(c)
			o := Adam{Rate: 1e-3, ClipNorm: 0.5}
			a, b, rng := NewTrainer(n, 16, o), NewTrainer(g, 16, o), rand.New(rand.NewPCG(3, uint64(rows)))
			x, target := normals(rng, rows*c.Inputs), normals(rng, rows*c.Outputs)
			for step := range 50 {
				seed := rng.Uint64()
				y, z := a.Forward(x, rows, rand.New(rand.NewPCG(seed, 1))), b.Forward(x, rows, rand.New(rand.NewPCG(seed, 1)))
				agree(t, name, step, "outputs", y, z)
				d := slices.Clone(y)
				for i := range d {
					d[i] = 2 * (d[i] - target[i]) / float32(len(d))
				}
				a.Backward(d, nil)
				b.Backward(d, nil)
				agree(t, name, step, "gradients", a.Gradient(), b.Gradient())
				a.Step()
				b.Step()
				agree(t, name, step, "parameters", n.Params(), g.Params())
			}
		}
	}
}

func agree(t *testing.T, name string, step int, what string, a, b []float32) {
	t.Helper()
	for i := range a {
		if d := math.Abs(float64(a[i] - b[i])); !(d <= 2e-5*(1+math.Abs(float64(a[i])))) || len(a) != len(b) {
			t.Fatalf("%s, step %d: %d of the %s is %v, of the graph %v", name, step, i, what, a[i], b[i])
		}
	}
}

// TestGraphSameBits requires the same parameters in every run, on one and on two cores.
func TestGraphSameBits(t *testing.T) {
	train := func(cores int) []float32 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		c := graphOnly["recurrent, gelu"]
		c.Graph = true
		return trainSome(c, 5)
	}
	if first := train(1); !slices.Equal(first, train(2)) || !slices.Equal(first, train(1)) {
		t.Error("other parameters")
	}
}

// TestGraphsAreFreed builds 60 graphs, each of some 0.5 MB, without releasing them.
func TestGraphsAreFreed(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	trainSome(Config{Inputs: 21, Hidden: []int{64, 64}, Outputs: 27, Graph: true}, 2)
	before := heap()
	for range 60 {
		trainSome(Config{Inputs: 21, Hidden: []int{64, 64}, Outputs: 27, Graph: true}, 2)
	}
	if after := heap(); after > before+8<<20 {
		t.Errorf("%d MiB stay after 60 graphs", (after-before)>>20)
	}
}

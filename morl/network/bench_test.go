package network

import (
	"math/rand/v2"
	"testing"
)

var defaults = map[string]Config{
	"actor 21-256-256-27": {Inputs: 21, Hidden: []int{256, 256}, Outputs: 27, Dropout: 0.1},
	"critic 48-256-256-1": {Inputs: 48, Hidden: []int{256, 256}, Outputs: 1},
	"critic 21-256-256-4": {Inputs: 21, Hidden: []int{256, 256}, Outputs: 4},
}

func BenchmarkStep(b *testing.B) {
	for name, c := range defaults {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			n := New(c, rng)
			t := NewTrainer(n, 64, Adam{})
			x, d := normals(rng, 64*c.Inputs), normals(rng, 64*c.Outputs)
			b.ReportAllocs()
			for b.Loop() {
				t.Forward(x, 64, rng)
				t.Backward(d, nil)
				t.Step()
			}
		})
	}
}

func BenchmarkInference(b *testing.B) {
	for name, c := range defaults {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			n := New(c, rng)
			x := normals(rng, c.Inputs)
			y := make([]float32, c.Outputs)
			b.ReportAllocs()
			for b.Loop() {
				n.Forward(y, x, 1)
			}
		})
	}
}
func BenchmarkProduct(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, w := normals(rng, 64*256), normals(rng, 256*256)
	y, bias := make([]float32, 64*256), make([]float32, 256)
	b.Run("forward", func(b *testing.B) {
		for b.Loop() {
			affine(y, x, w, bias, 64, 256, 256, true)
		}
		b.ReportMetric(float64(b.N)*2*64*256*256/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	})
	b.Run("weights", func(b *testing.B) {
		for b.Loop() {
			addWeightGradient(w, x, y, nil, 64, 256, 256)
		}
		b.ReportMetric(float64(b.N)*2*64*256*256/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	})
	g := make([]float32, 256*256)
	b.Run("transpose", func(b *testing.B) {
		for b.Loop() {
			transpose(g, w, 256, 256)
		}
	})
	b.Run("adam", func(b *testing.B) {
		p, g, m, v := normals(rng, 77000), normals(rng, 77000), normals(rng, 77000), make([]float32, 77000)
		for b.Loop() {
			adam(p, g, m, v, adamFactors{1, .9, .999, .1, .001, 3e-4, 1, 1e-8, 1e-30, 1e-36})
		}
	})
	b.Run("squares", func(b *testing.B) {
		g := normals(rng, 77000)
		for b.Loop() {
			sumOfSquares(g)
		}
	})
	b.Run("drop", func(b *testing.B) {
		for b.Loop() {
			drop(y, 99, 1<<30, 1.3)
		}
	})
	b.Run("columns", func(b *testing.B) {
		for b.Loop() {
			addColumnSums(bias, y, 64, 256)
		}
	})
	b.Run("relu", func(b *testing.B) {
		for b.Loop() {
			reluBackward(y, x, 1)
		}
	})
}

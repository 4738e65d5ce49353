package network_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"trainopt/morl/network"
)

// The benchmarks compare, for the default networks of the agents: this package, only the matrix products of a step
// (its lower bound), the same network as a Gorgonia graph (with the tag gorgonia), and PyTorch, if python3 has it, on one and on two threads.
//
//	GOMAXPROCS=1 go test -tags gorgonia -run '^$' -bench 'Step|Inference' ./morl/network
//
// best-ns/step is the fastest chunk of steps, which is least disturbed on a busy machine; ns/op is the mean.

var defaults = []struct {
	name string
	c    network.Config
}{
	{"actor-21-256-256-27", network.Config{Inputs: 21, Hidden: []int{256, 256}, Outputs: 27, Dropout: 0.1}},
	{"critic-48-256-256-1", network.Config{Inputs: 48, Hidden: []int{256, 256}, Outputs: 1}},
	{"critic-21-256-256-4", network.Config{Inputs: 21, Hidden: []int{256, 256}, Outputs: 4}},
}

const rows = 64

// best times chunks of f and returns the time per call in the fastest one.
func best(b *testing.B, chunk int, f func()) float64 {
	f()
	least := math.Inf(1)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += chunk {
		start := time.Now()
		for range chunk {
			f()
		}
		least = min(least, float64(time.Since(start).Nanoseconds())/float64(chunk))
	}
	b.ReportMetric(least, "best-ns/step")
	return least
}

func random(rng *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(rng.NormFloat64())
	}
	return s
}

// BenchmarkStep measures forward, backward and Adam on 64 rows.
func BenchmarkStep(b *testing.B) {
	for _, d := range defaults {
		c, rng := d.c, rand.New(rand.NewPCG(1, 2))
		x, dOut := random(rng, rows*c.Inputs), random(rng, rows*c.Outputs)
		for _, c.Graph = range map[bool][]bool{false: {false}, true: {false, true}}[network.Graphs] {
			b.Run(d.name+map[bool]string{false: "/network", true: "/gorgonia"}[c.Graph], func(b *testing.B) {
				t := network.NewTrainer(network.New(c, rng), rows, network.Adam{})
				best(b, 20, func() {
					t.Forward(x, rows, rng)
					t.Backward(dOut, nil)
					t.Step()
				})
			})
		}
		b.Run(d.name+"/products", func(b *testing.B) {
			ns := best(b, 20, network.Products(c, rows))
			b.ReportMetric(network.Flops(c, rows)/ns, "GFLOP/s")
		})
		pytorch(b, d.name, c, "step")
	}
}

// BenchmarkInference measures the outputs for one state, without dropout.
func BenchmarkInference(b *testing.B) {
	for _, d := range defaults {
		c, rng := d.c, rand.New(rand.NewPCG(1, 2))
		x, y, n := random(rng, c.Inputs), make([]float32, c.Outputs), network.New(c, rng)
		b.Run(d.name+"/network", func(b *testing.B) {
			best(b, 500, func() { n.Forward(y, x, 1) })
		})
		pytorch(b, d.name, c, "inference")
	}
}

// pytorch runs PyTorch as a subprocess on one and on two threads, and reports its fastest chunk of about a second.
func pytorch(b *testing.B, name string, c network.Config, what string) {
	for _, threads := range []string{"1", "2"} {
		b.Run(name+"/pytorch-"+threads+"-threads", func(b *testing.B) {
			var out []byte
			var err error
			for _, python := range []string{"python3", "/usr/bin/python3"} { // the first may be a different installation
				out, err = exec.Command(python, "-c", torchScript, what, threads, strconv.Itoa(c.Inputs), strconv.Itoa(c.Hidden[0]),
					strconv.Itoa(c.Outputs), strconv.FormatFloat(float64(c.Dropout), 'g', -1, 32)).Output()
				if err == nil {
					break
				}
			}
			if err != nil {
				b.Skip("no python3 with torch: ", err)
			}
			var ns, flops float64
			if _, err := fmt.Sscan(string(out), &ns, &flops); err != nil {
				b.Fatalf("python3 printed %q: %v", out, err)
			}
			b.ReportMetric(ns, "best-ns/step")
			b.ReportMetric(flops, "GFLOP/s") // of a product 64×256×256: some builds have a slow BLAS
			b.ReportMetric(0, "ns/op")       // the time of the subprocess is meaningless
		})
	}
}

// torchScript prints the fastest of several chunks in nanoseconds per step, and the GFLOP/s of one product. It tries
// both forms of the optimiser for a step, and the module and plain operations for inference.
const torchScript = `
import sys, time, torch
what, threads, inputs, hidden, outputs, drop = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
torch.set_num_threads(threads)
torch.manual_seed(1)
nn, rows = torch.nn, 64
layers = []
for i in (inputs, hidden):
    layers += [nn.Linear(i, hidden), nn.ReLU()] + ([nn.Dropout(drop)] if drop else [])
model = nn.Sequential(*layers, nn.Linear(hidden, outputs))
x, d = torch.randn(rows, inputs), torch.randn(rows, outputs)

def best(f, chunk, seconds=0.8):
    for _ in range(20): f()
    least, end = 1e30, time.perf_counter() + seconds
    while time.perf_counter() < end:
        t = time.perf_counter_ns()
        for _ in range(chunk): f()
        least = min(least, (time.perf_counter_ns() - t) / chunk)
    return least

if what == 'step':
    results = []
    for foreach in (False, True):
        adam = torch.optim.Adam(model.parameters(), lr=3e-4, foreach=foreach)
        def step():
            adam.zero_grad(set_to_none=True)
            model(x).backward(d)
            adam.step()
        results.append(best(step, 20))
    result = min(results)
else:
    model.eval()
    one = x[:1].clone()
    w = [(l.weight.detach().t(), l.bias.detach()) for l in model if isinstance(l, nn.Linear)]
    def bare():
        h = torch.addmm(w[0][1], one, w[0][0]).relu_()
        h = torch.addmm(w[1][1], h, w[1][0]).relu_()
        return torch.addmm(w[2][1], h, w[2][0])
    with torch.inference_mode():
        result = min(best(lambda: model(one), 200), best(bare, 200))
a, w = torch.randn(64, 256), torch.randn(256, 256)
print(result, 2 * 64 * 256 * 256 / best(lambda: a @ w, 20, 0.3))
`

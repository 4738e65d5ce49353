package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
)

var small = Config{Inputs: 5, Hidden: []int{33, 18}, Outputs: 3, Dropout: 0.25}

func made(c Config) *Network { return New(c, rand.New(rand.NewPCG(1, 2))) }

func TestForwardOfARowDependsOnThatRowOnly(t *testing.T) {
	c := Config{Inputs: 21, Hidden: []int{256, 256}, Outputs: 27}
	n, rng := made(c), rand.New(rand.NewPCG(5, 6))
	x := normals(rng, 67*c.Inputs)
	for i := range x {
		if i%3 == 0 {
			x[i] = 0
		}
	}
	all := n.Forward(nil, x, 67)
	kept := NewTrainer(n, 67, Adam{}).Forward(x, 67, nil)
	if !slices.Equal(all, kept) {
		t.Error("Network.Forward and Trainer.Forward differ")
	}
	for _, rows := range []int{1, 2, 3, 5, 8, 13} {
		for r := 0; r+rows <= 67; r += rows {
			got := n.Forward(nil, x[r*21:(r+rows)*21], rows)
			if !slices.Equal(got, all[r*27:(r+rows)*27]) {
				t.Fatalf("rows %d to %d alone give other bits than among 67", r, r+rows)
			}
		}
	}
}

func TestForwardConcurrently(t *testing.T) {
	n, x := made(small), normals(rand.New(rand.NewPCG(5, 6)), 7*5)
	want := n.Forward(nil, x, 7)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if !slices.Equal(n.Forward(nil, x, 7), want) {
					t.Error("a concurrent reader got other outputs")
				}
			}
		})
	}
	wg.Wait()
}

func TestNothingAllocatedInSteadyState(t *testing.T) {
	n, rng := made(small), rand.New(rand.NewPCG(5, 6))
	x, y, d := normals(rng, 50), make([]float32, 30), normals(rng, 30)
	tr := NewTrainer(n, 10, Adam{})
	target := made(small)
	step := func() {
		n.Forward(y, x, 10)
		tr.Forward(x, 10, rng)
		tr.Backward(d, x)
		tr.Step()
		target.Blend(n, 0.01)
	}
	// The race detector randomly drops items of the scratch pool.
	if a := testing.AllocsPerRun(100, step); a > 0 && !raceEnabled {
		t.Errorf("%v allocations a step, want 0", a)
	}
}

// TestAdamKnownAnswer compares steps of Adam with the algorithm in the paper, computed in float64.
func TestAdamKnownAnswer(t *testing.T) {
	n := New(Config{Inputs: 1, Outputs: 1}, rand.New(rand.NewPCG(1, 2)))
	copy(n.Params(), []float32{0.5, -0.25})
	tr := NewTrainer(n, 1, Adam{Rate: 0.1, ClipNorm: 2})
	p, m, v := []float64{0.5, -0.25}, [2]float64{}, [2]float64{}
	for step, g := range [][]float64{{3, 4}, {0.3, -0.1}, {0, 0}} { // the first one has norm 5
		copy(tr.Gradient(), []float32{float32(g[0]), float32(g[1])})
		norm := math.Hypot(g[0], g[1])
		if got := tr.Step(); math.Abs(float64(got)-norm) > 1e-6 {
			t.Errorf("step %d: norm %v, want %v", step, got, norm)
		}
		for i := range p {
			x := g[i] * min(1, 2/max(norm, 1e-9))
			m[i], v[i] = 0.9*m[i]+0.1*x, 0.999*v[i]+0.001*x*x
			p[i] -= 0.1 * m[i] / (1 - math.Pow(0.9, float64(step+1))) / (math.Sqrt(v[i]/(1-math.Pow(0.999, float64(step+1)))) + 1e-8)
			if d := math.Abs(float64(n.Params()[i]) - p[i]); d > 1e-5 {
				t.Errorf("step %d: parameter %d is %v, want %v", step, i, n.Params()[i], p[i])
			}
			if tr.Gradient()[i] != 0 {
				t.Errorf("step %d: the gradient is not cleared", step)
			}
		}
	}
}

func TestGradientThatIsNotFiniteMovesNothing(t *testing.T) {
	for name, bad := range map[string]float32{"NaN": float32(math.NaN()), "infinity": float32(math.Inf(-1))} {
		n := made(small)
		tr := NewTrainer(n, 2, Adam{})
		before := slices.Clone(n.Params())
		tr.Forward(make([]float32, 10), 2, nil)
		tr.Backward([]float32{0, 1, bad, 0, 0, 0}, nil)
		if norm := float64(tr.Step()); !math.IsNaN(norm) && !math.IsInf(norm, 0) {
			t.Errorf("%s: norm %v", name, norm)
		}
		if !slices.Equal(before, n.Params()) || slices.ContainsFunc(tr.Gradient(), func(g float32) bool { return g != 0 }) {
			t.Errorf("%s: moved, or the gradient stays", name)
		}
	}
}

// TestNaNShows requires that ReLU does not hide a NaN in the input.
func TestNaNShows(t *testing.T) {
	for _, l := range levels() {
		with(l, func() {
			for rows := 1; rows < 10; rows++ {
				x := make([]float32, rows*5)
				x[3] = float32(math.NaN())
				if y := made(small).Forward(nil, x, rows); y[0] == y[0] {
					t.Errorf("%v, %d rows: output %v of a NaN input", l, rows, y[0])
				}
			}
		})
	}
}

func TestGradientAccumulatesAndForgets(t *testing.T) {
	n, rng := made(small), rand.New(rand.NewPCG(8, 8))
	tr := NewTrainer(n, 4, Adam{})
	x, d := normals(rng, 20), normals(rng, 12)
	tr.Forward(x, 4, nil)
	tr.Backward(d, nil)
	once := slices.Clone(tr.Gradient())
	tr.Backward(d, nil)
	for i, g := range tr.Gradient() {
		if math.Abs(float64(g-2*once[i])) > 1e-5 {
			t.Fatalf("gradient %d is %v after two passes, %v after one", i, g, once[i])
		}
	}
	tr.Step()
	tr.Forget()
	fresh := NewTrainer(n, 4, Adam{})
	first := slices.Clone(n.Params())
	run := func(tr *Trainer) []float32 {
		copy(n.Params(), first)
		tr.Forward(x, 4, nil)
		tr.Backward(d, nil)
		tr.Step()
		return slices.Clone(n.Params())
	}
	if !slices.Equal(run(tr), run(fresh)) {
		t.Error("a trainer that forgot is not like a new one")
	}
}

func TestBlendAndCopy(t *testing.T) {
	a, b := made(small), New(small, rand.New(rand.NewPCG(9, 9)))
	before := slices.Clone(a.Params())
	a.Blend(b, 0.25)
	for i, p := range a.Params() {
		if want := 0.75*before[i] + 0.25*b.Params()[i]; math.Abs(float64(p-want)) > 1e-6 {
			t.Fatalf("parameter %d is %v, want %v", i, p, want)
		}
	}
	a.Blend(b, 1)
	if !slices.Equal(a.Params(), b.Params()) {
		t.Error("tau 1 does not copy")
	}
	defer func() {
		if recover() == nil {
			t.Error("networks of other sizes were blended")
		}
	}()
	a.Blend(made(Config{Inputs: 5, Hidden: []int{18, 33}, Outputs: 3}), 0.5)
}

func TestSameBytesOnOneAndTwoCores(t *testing.T) {
	c := Config{Inputs: 21, Hidden: []int{256, 256}, Outputs: 27, Dropout: 0.1}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one := slices.Clone(trainSome(c, 5))
	runtime.GOMAXPROCS(2)
	if !slices.Equal(one, trainSome(c, 5)) {
		t.Error("parameters depend on the number of cores")
	}
}

func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]Config{
		"no inputs":    {Outputs: 1},
		"no outputs":   {Inputs: 1},
		"empty hidden": {Inputs: 1, Hidden: []int{3, 0}, Outputs: 1},
		"too large":    {Inputs: 1 << 20, Hidden: []int{1 << 20}, Outputs: 1},
		"overflow":     {Inputs: math.MaxInt, Outputs: math.MaxInt},
		"dropout 1":    {Inputs: 1, Outputs: 1, Dropout: 1},
		"dropout NaN":  {Inputs: 1, Outputs: 1, Dropout: float32(math.NaN())},
		"one step":     {Inputs: 4, Outputs: 1, Recurrent: Recurrent{Units: 2, Steps: 1, Width: 2}},
		"no units":     {Inputs: 4, Outputs: 1, Recurrent: Recurrent{Steps: 2, Width: 2}},
		"no width":     {Inputs: 4, Outputs: 1, Recurrent: Recurrent{Units: 2, Steps: 2}},
		"few inputs":   {Inputs: 4, Outputs: 1, Recurrent: Recurrent{Units: 2, Steps: 3, Width: 2}},
		"many units":   {Inputs: 4, Outputs: 1, Recurrent: Recurrent{Units: 1 << 20, Steps: 2, Width: 2}},
		"activation":   {Inputs: 1, Outputs: 1, Activation: Activation(len(Activations))},
	} {
		if c.Validate() == nil {
			t.Errorf("%s: %v is accepted", name, c)
		}
	}
}

func stored(t testing.TB, n *Network) []byte {
	var b bytes.Buffer
	size, err := n.WriteTo(&b)
	if err != nil || size != int64(b.Len()) {
		t.Fatalf("WriteTo: %d bytes said, %d written, %v", size, b.Len(), err)
	}
	return b.Bytes()
}

func TestFileRoundTrip(t *testing.T) {
	for name, c := range map[string]Config{"linear": {Inputs: 2, Outputs: 3}, "small": small,
		"tanh": {Inputs: 2, Hidden: []int{5}, Outputs: 3, Activation: Tanh}, "leaky": {Inputs: 2, Hidden: []int{5}, Outputs: 3, Activation: LeakyReLU},
		"recurrent": graphOnly["recurrent, gelu"], "recurrent relu": graphOnly["recurrent"],
	} {
		n := made(c)
		b := stored(t, n)
		var back Network
		size, err := back.ReadFrom(io.MultiReader(bytes.NewReader(b), bytes.NewReader([]byte("more"))))
		if err != nil || size != int64(len(b)) {
			t.Fatalf("%s: read %d of %d bytes: %v", name, size, len(b), err)
		}
		if !back.Same(n.Config) || back.Dropout != n.Dropout || !slices.Equal(back.Params(), n.Params()) {
			t.Errorf("%s: another network came back", name)
		}
		x := normals(rand.New(rand.NewPCG(1, 1)), 3*c.Inputs)
		if !slices.Equal(back.Forward(nil, x, 3), n.Forward(nil, x, 3)) {
			t.Errorf("%s: it computes something else", name)
		}
	}
}

func TestFileDamageIsRefusedAndChangesNothing(t *testing.T) {
	for _, a := range []Activation{ReLU, Tanh} {
		checkDamage(t, made(Config{Inputs: 3, Hidden: []int{4}, Outputs: 2, Dropout: 0.5, Activation: a}))
	}
	checkDamage(t, made(Config{Inputs: 5, Hidden: []int{4}, Outputs: 2, Activation: gelu, Recurrent: Recurrent{Units: 2, Steps: 2, Width: 2}}))
	if _, err := made(small).ReadFrom(failing{}); errors.Is(err, errCorrupt) || !errors.Is(err, errFailing) {
		t.Errorf("a reader's own failure came back as %v", err)
	}
}

func checkDamage(t *testing.T, n *Network) {
	good := stored(t, n)
	check := func(what string, at int, b []byte) {
		t.Helper()
		other := made(small)
		before := slices.Clone(other.Params())
		_, err := other.ReadFrom(bytes.NewReader(b))
		if !errors.Is(err, errCorrupt) {
			t.Fatalf("%s at %d: error %v, want ErrCorrupt", what, at, err)
		}
		if !other.Same(small) || !slices.Equal(before, other.Params()) {
			t.Fatalf("%s at %d: the network has changed", what, at)
		}
	}
	for i := range good {
		check("cut off", i, good[:i])
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			check("flipped bit", i, bad)
		}
	}
	n.Params()[5] = float32(math.NaN())
	check("not a number", 5, stored(t, n))
}

var errFailing = errors.New("disk on fire")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFailing }

func FuzzReadFrom(f *testing.F) {
	good := stored(f, made(small))
	f.Add(good)
	f.Add(good[:40])
	f.Add(stored(f, made(Config{Inputs: 1, Outputs: 1})))
	f.Add(stored(f, made(Config{Inputs: 1, Outputs: 1, Activation: Tanh})))
	f.Add(stored(f, made(graphOnly["recurrent, whole"])))
	f.Add([]byte("TRN1\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n Network
		size, err := n.ReadFrom(bytes.NewReader(b))
		if err != nil {
			if n.Params() != nil {
				t.Error("a failed read left parameters")
			}
			return
		}
		if !bytes.Equal(stored(t, &n), b[:size]) {
			t.Error("what was read is written differently")
		}
	})
}

// TestActivationKnownAnswer checks each activation, and that a network without hidden layers applies none.
func TestActivationKnownAnswer(t *testing.T) {
	for a, want := range map[Activation][2]float32{ReLU: {0, 2}, Tanh: {-tanh(2), tanh(2)}, LeakyReLU: {-0.02, 2},
		Sigmoid: {sigmoid(-2), sigmoid(2)}} {
		n := made(Config{Inputs: 1, Hidden: []int{1}, Outputs: 1, Activation: a})
		copy(n.Params(), []float32{1, 0, 1, 0})
		if y := n.Forward(nil, []float32{-2, 2}, 2); y[0] != want[0] || y[1] != want[1] {
			t.Errorf("%v of -2 and 2 is %v, want %v", a, y, want)
		}
	}
}

func TestTanh(t *testing.T) {
	worst, last := 0.0, float32(-1)
	for x := -12.0; x < 12; x += 1.0 / 512 {
		y := tanh(float32(x))
		worst = max(worst, math.Abs(float64(y)-math.Tanh(x)))
		if y < last-2e-7 || y > 1 || y < -1 || y != -tanh(-float32(x)) {
			t.Errorf("tanh %v is %v after %v", x, y, last)
		}
		last = y
	}
	if worst > 4e-7 {
		t.Errorf("it is off by %v", worst)
	}
	if v := tanh(float32(math.NaN())); v == v {
		t.Errorf("of NaN: %v", v)
	}
}

// TestOldFileStaysAsItWas reads and writes a file from before activations, byte for byte.
func TestOldFileStaysAsItWas(t *testing.T) {
	old := []byte("TRN1\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")
	old = binary.LittleEndian.AppendUint32(old, crc32.Checksum(old, castagnoli))
	params := make([]byte, 16)
	old = binary.LittleEndian.AppendUint32(append(old, params...), crc32.Checksum(params, castagnoli))
	var n Network
	if _, err := n.ReadFrom(bytes.NewReader(old)); err != nil || n.Activation != ReLU {
		t.Fatalf("activation %v, %v", n.Activation, err)
	}
	if !bytes.Equal(stored(t, &n), old) {
		t.Error("it is written differently now")
	}
}

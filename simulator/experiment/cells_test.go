package experiment

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestComputeHere(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		n, fails int // the number of the failing cell, -1: none
		workers  int
	}{
		"one worker":   {5, -1, 1},
		"many workers": {50, -1, 8},
		"no cells":     {0, -1, 0},
		"a failure":    {50, 7, 4},
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			got, err := Compute(t.Context(), c.n, CellOptions{Workers: c.workers, Progress: func(int) { told++ }}, func(_ context.Context, k int) (int, error) {
				if k == c.fails {
					return 0, broken
				}
				return k * k, nil
			})
			if c.fails >= 0 {
				if !errors.Is(err, broken) || got[c.fails] != nil || got[0] == nil {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if err != nil || told != c.n {
				t.Errorf("%v, progress %d times, want %d", err, told, c.n)
			}
			for k, v := range got {
				if *v != k*k {
					t.Errorf("cell %d: %d", k, *v)
				}
			}
		})
	}
}

func TestComputeEndsWithContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	got, err := Compute(ctx, 100, CellOptions{Workers: 1}, func(_ context.Context, k int) (int, error) {
		if k == 3 {
			stop()
		}
		return k, nil
	})
	if !errors.Is(err, context.Canceled) || got[3] == nil || got[99] != nil {
		t.Errorf("%v, %v", err, got[:5])
	}
}

// elsewhere computes every cell by the functions of the site, in reverse order.
type elsewhere struct{ cut int }

func (e elsewhere) Compute(ctx context.Context, n int, cell func(context.Context, int) ([]byte, error), take func(int, []byte) error) error {
	for k := n - 1; k >= 0; k-- {
		data, err := cell(ctx, k)
		if err == nil {
			err = take(k, data[:len(data)-e.cut])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestComputeOnSite(t *testing.T) {
	square := func(_ context.Context, k int) (map[string]float64, error) {
		return map[string]float64{"square": float64(k * k)}, nil
	}
	here, _ := Compute(t.Context(), 9, CellOptions{}, square)
	there, err := Compute(On(t.Context(), elsewhere{}), 9, CellOptions{}, square)
	if err != nil || !reflect.DeepEqual(here, there) {
		t.Errorf("%v: %v, want %v", err, there, here)
	}
	if _, err := Compute(On(t.Context(), elsewhere{cut: 1}), 9, CellOptions{}, square); err == nil || !strings.Contains(err.Error(), "cell 8") {
		t.Errorf("%v: want the cell whose result is incomplete", err)
	}
}

type part struct {
	Name    string
	Weights []float64
	Missed  *bool
	Skipped any `cells:"-"`
}

type whole struct {
	part // embedded, of an unexported type
}

type everything struct {
	Bool      bool
	Int       int8
	Uint      uint64
	Float     float32
	Text      string
	Duration  time.Duration
	Time      time.Time
	Parts     []part
	Pair      [2]int32
	By        map[string]map[int]*part
	Nil       []int
	Empty     []int
	NilMap    map[string]int
	EmptyMap  map[string]int
	Recursive *everything
}

func TestEncodeRestoresExactly(t *testing.T) {
	no := false
	in := everything{Bool: true, Int: -128, Uint: math.MaxUint64, Float: -0.1, Text: "ä\x00\xff", Duration: -time.Second, Time: time.Unix(1, 2).UTC(),
		Parts: []part{{Name: "a", Weights: []float64{math.Copysign(0, -1), math.Inf(1), 0.1}, Missed: &no}, {}}, Pair: [2]int32{-1, 1},
		By: map[string]map[int]*part{"x": {1: {Name: "b"}, 2: nil}}, Empty: []int{}, EmptyMap: map[string]int{}, Recursive: &everything{}}
	data, err := encodeResult(in)
	var out everything
	if err == nil {
		err = decodeResult(data, &out)
	}
	if err != nil || !reflect.DeepEqual(in, out) || !math.Signbit(out.Parts[0].Weights[0]) {
		t.Errorf("%v\n got %+v\nwant %+v", err, out, in)
	}
	nan := math.Float64frombits(0x7ff8000000000123)
	data, _ = encodeResult([]float64{nan})
	var floats []float64
	if err := decodeResult(data, &floats); err != nil || math.Float64bits(floats[0]) != math.Float64bits(nan) {
		t.Errorf("%v, %v: want the same NaN", err, floats)
	}
}

func TestEncodeRejectsWhatItWouldLose(t *testing.T) {
	for want, v := range map[string]any{
		"field hidden is not exported": struct{ hidden int }{},
		"field part is not exported":   whole{},
		"interface":                    struct{ V any }{1},
		"func()":                       struct{ F func() }{},
		"chan int":                     make(chan int),
	} {
		if _, err := encodeResult(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", v, err, want)
		}
	}
}

// FuzzDecode: damaged data is an error or another value, never a panic.
func FuzzDecode(f *testing.F) {
	for _, v := range []everything{{}, {Text: "abc", Parts: make([]part, 3), By: map[string]map[int]*part{"x": {1: {}}}, Recursive: &everything{}}} {
		data, err := encodeResult(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v, w everything
		if decodeResult(data, &v) != nil {
			return
		}
		again, err := encodeResult(v)
		if err == nil {
			err = decodeResult(again, &w)
		}
		if err != nil || v.Text != w.Text || len(v.Parts) != len(w.Parts) || len(v.By) != len(w.By) || (v.Recursive == nil) != (w.Recursive == nil) {
			t.Errorf("%v: %+v, then %+v", err, v, w)
		}
	})
}

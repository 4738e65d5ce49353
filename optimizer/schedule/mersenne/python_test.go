package mersenne

import (
	"fmt"
	"slices"
	"testing"
)

// TestVectorsOfPython compares with recorded draws of Python.
func TestVectorsOfPython(t *testing.T) {
	p := NewPython(2)
	for _, want := range []float64{0.9560342718892494, 0.9478274870593494, 0.05655136772680869} {
		if got := p.Random(); got != want {
			t.Errorf("seed 2: got %v, want %v", got, want)
		}
	}
	if bits, choice := p.Bits(5), p.Below(26); bits != 2 || choice != 11 {
		t.Errorf("seed 2: got bits %d and choice %d, want 2 and 11", bits, choice)
	}
	p = NewPython(0)
	var small []int
	for range 10 {
		small = append(small, p.Below(3))
	}
	ten, thirty := make([]int, 10), make([]int, 30)
	for i := range thirty {
		thirty[i] = i
	}
	copy(ten, thirty)
	if got := fmt.Sprint(small, Sample(p, ten, 2), Sample(p, thirty, 2)); got != "[1 1 0 1 2 1 1 1 1 1] [9 3] [16 4]" {
		t.Errorf("seed 0: got %s", got)
	}
	p = NewPython(5)
	for i, want := range []string{"[v100 p100 k80]", "[v100 p100 k80]", "[p100 v100 k80]"} {
		s := []string{"v100", "p100", "k80"}
		if Shuffle(p, s); fmt.Sprint(s) != want {
			t.Errorf("seed 5, shuffle %d: got %v, want %s", i, s, want)
		}
	}
}

func TestSampleLeavesItsSourceAlone(t *testing.T) {
	s := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	before := slices.Clone(s)
	Sample(NewPython(1), s, 5)
	if !slices.Equal(s, before) {
		t.Errorf("the list that was drawn from is now %v", s)
	}
}

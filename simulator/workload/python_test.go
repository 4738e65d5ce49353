package workload

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
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

// script prints draws of every kind for each seed; the test draws the same.
const script = `
import random
for seed in [0, 1, -1, 2, 42, 2**31, 2**32-1, 2**32, 2**40+12345, 2**63-1, -2**63]:
    r = random.Random(seed)
    for i in range(3):
        print(repr(r.random()), repr(r.uniform(1.5, 3)), repr(10**r.uniform(0, 4)))
        print(*[r.getrandbits(k) for k in (1, 5, 31, 32, 33, 53, 63, 64)])
        print(*[r.randrange(n) for n in (1, 2, 3, 26, 1000, 2**31, 2**40)], r.randrange(10, 20))
        s = list(range(i * 300 + 7))
        r.shuffle(s)
        print(*s)
        for n, k in [(5, 5), (21, 2), (22, 2), (100, 5), (84, 6), (86, 6), (300, 21), (400, 22), (2000, 0), (2000, 30)]:
            print(*r.sample(range(n), k))
`

// TestDrawsAreThoseOfPython3 compares draws of every kind with the Python interpreter, for seeds of all sizes and
// signs.
func TestDrawsAreThoseOfPython3(t *testing.T) {
	want := python(t, script)
	var got bytes.Buffer
	for _, seed := range []int64{0, 1, -1, 2, 42, 1 << 31, 1<<32 - 1, 1 << 32, 1<<40 + 12345, 1<<63 - 1, -1 << 63} {
		p := NewPython(seed)
		for i := range 3 {
			fmt.Fprintln(&got, pyFloat(p.Random()), pyFloat(p.Uniform(1.5, 3)), pyFloat(pow10(p.Uniform(0, 4))))
			var numbers []string
			number := func(n any) { numbers = append(numbers, fmt.Sprint(n)) }
			line := func() {
				fmt.Fprintln(&got, strings.Join(numbers, " "))
				numbers = nil
			}
			for _, k := range []int{1, 5, 31, 32, 33, 53, 63, 64} {
				number(p.Bits(k))
			}
			line()
			for _, n := range []int{1, 2, 3, 26, 1000, 1 << 31, 1 << 40} {
				number(p.Below(n))
			}
			number(10 + p.Below(10))
			line()
			s := upTo(i*300 + 7)
			Shuffle(p, s)
			for _, x := range s {
				number(x)
			}
			line()
			for _, nk := range [][2]int{{5, 5}, {21, 2}, {22, 2}, {100, 5}, {84, 6}, {86, 6}, {300, 21}, {400, 22}, {2000, 0}, {2000, 30}} {
				for _, x := range Sample(p, upTo(nk[0]), nk[1]) {
					number(x)
				}
				line()
			}
		}
	}
	compareLines(t, got.String(), want)
}

func TestPowersAreThoseOfPython3(t *testing.T) {
	want := python(t, `
import random
r = random.Random(9)
for i in range(20000): print(repr(10**r.uniform(0, 4)))
`)
	var got bytes.Buffer
	p := NewPython(9)
	for range 20000 {
		fmt.Fprintln(&got, pyFloat(pow10(p.Uniform(0, 4))))
	}
	compareLines(t, got.String(), want)
}

func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// pyFloat implements repr of Python for numbers that are neither very large nor very small.
func pyFloat(x float64) string {
	if x != 0 && x < 1e-4 {
		return fmt.Sprint(x)
	}
	s := decimal(x)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func python(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here to compare with")
	}
	out, err := exec.Command(path, "-c", program).Output()
	if err != nil {
		t.Skipf("python3 does not run here: %v", err)
	}
	return string(out)
}

func compareLines(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(g) != len(w) {
		t.Fatalf("%d lines, Python has %d", len(g), len(w))
	}
	wrong := 0
	for i := range g {
		if g[i] != w[i] {
			if wrong++; wrong <= 3 {
				t.Errorf("line %d:\n   got %.200s\nPython %.200s", i+1, g[i], w[i])
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d lines differ", wrong, len(g))
	}
}

func TestSampleLeavesItsSourceAlone(t *testing.T) {
	s := upTo(10)
	Sample(NewPython(1), s, 5)
	if !slices.Equal(s, upTo(10)) {
		t.Errorf("the list that was drawn from is now %v", s)
	}
}

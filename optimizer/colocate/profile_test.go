package colocate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/place"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fake measures a known truth on a clock of its own: a cycle takes a second.
type fake struct {
	now      time.Duration
	rng      *rand.Rand
	noise    float64
	foreign  float64
	visited  []string
	fails    map[string]int // failures left, by pattern
	interval func()         // called after each cycle; nil: nothing
}

func (f *fake) Measure(ctx context.Context, counts []uint8, enough func(cycle) bool) error {
	f.visited = append(f.visited, fmt.Sprint(counts))
	if f.fails[fmt.Sprint(counts)] > 0 {
		f.fails[fmt.Sprint(counts)]--
		return errors.New("it failed")
	}
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		f.now += time.Second
		c := cycle{Foreign: f.foreign}
		for a := range counts {
			v := truth(counts, a) * (1 + f.noise*(f.rng.Float64()-0.5))
			c.RPS, c.CPU, c.Wall, c.Alone = append(c.RPS, v), append(c.CPU, 1), append(c.Wall, v), append(c.Alone, 100)
		}
		if f.interval != nil {
			f.interval()
		}
		if enough(c) {
			return nil
		}
	}
}

// truth is an additive slowdown in which later apps disturb more.
func truth(counts []uint8, app int) float64 {
	sum := 1.0
	for b, k := range counts {
		n := float64(k)
		if b == app {
			n--
		}
		sum += n * (0.5 + 0.2*float64(b))
	}
	return 1 / max(sum, 1)
}

func profileOf(f *fake, apps, capacity int, share float64) *Profile {
	p := &Profile{Capacity: capacity, Share: share, Seed: 1, Measure: f, Now: func() time.Duration { return f.now }}
	for a := range apps {
		p.Apps = append(p.Apps, fmt.Sprint("app", a))
	}
	return p
}

func TestProfileMeasuresAll(t *testing.T) {
	f := &fake{rng: rand.New(rand.NewPCG(1, 1)), noise: 0.02}
	p := profileOf(f, 4, 3, 0)
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(p.Rows()); n != 34 || p.Patterns() != 34 || p.Missing() != 0 || len(f.visited) != 30 {
		t.Errorf("%d rows of %d patterns, %d missing, %d visits", n, p.Patterns(), p.Missing(), len(f.visited))
	}
	for _, r := range p.Rows() {
		if r.Cycles > 0 && (r.Cycles < leastCycles || r.Wide) {
			t.Errorf("%+v", r)
		}
	}
}

// With 40 % of the patterns: the singles by definition, all pairs, and what is left of the share by uncertainty; the
// table completed from them is that of the truth.
func TestProfileMeasuresPairsFirst(t *testing.T) {
	f := &fake{rng: rand.New(rand.NewPCG(1, 1))}
	p := profileOf(f, 4, 3, 0.5)
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(p.Rows()) != 17 || len(f.visited) != 13 {
		t.Fatalf("%d rows, %d visits", len(p.Rows()), len(f.visited))
	}
	for i, v := range f.visited {
		size := strings.Count(v, "1") + 2*strings.Count(v, "2") + 3*strings.Count(v, "3")
		if pair := i < 10; pair != (size == 2) {
			t.Errorf("visit %d is %s", i+1, v)
		}
	}
}

// The same seed measures the same patterns in the same order, another seed in another.
func TestProfileOrder(t *testing.T) {
	order := func(seed uint64) []string {
		f := &fake{rng: rand.New(rand.NewPCG(1, 1))}
		p := profileOf(f, 3, 4, 0.7)
		p.Seed = seed
		if err := p.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return f.visited
	}
	if !slices.Equal(order(1), order(1)) || slices.Equal(order(1), order(2)) {
		t.Error("the order does not follow the seed")
	}
}

// No cycle is started after the budget, and every pattern is visited once before one is visited again.
func TestProfileBudget(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := &fake{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1)), noise: rapid.Float64Range(0, 2).Draw(r, "noise")}
		p := profileOf(f, 2, 3, 0)
		p.Budget = time.Duration(rapid.IntRange(1, 80).Draw(r, "budget")) * time.Second
		if err := p.Run(context.Background()); err != nil {
			r.Fatal(err)
		}
		if f.now > p.Budget {
			r.Errorf("%v of %v spent", f.now, p.Budget)
		}
		seen := map[string]bool{}
		for _, v := range f.visited {
			if seen[v] && len(seen) < 7 {
				r.Errorf("%s is visited again before all are visited: %v", v, f.visited)
			}
			seen[v] = true
		}
		if len(p.Rows())+p.Missing() != p.Patterns() {
			r.Errorf("%d rows, %d missing of %d", len(p.Rows()), p.Missing(), p.Patterns())
		}
	})
}

// Wide and disturbed patterns are repeated, at most mostCycles times.
func TestProfileRepeats(t *testing.T) {
	f := &fake{rng: rand.New(rand.NewPCG(1, 1)), foreign: 0.9}
	p := profileOf(f, 1, 2, 0)
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := p.Rows()[1]; r.Cycles != mostCycles || !r.Disturbed || r.Wide {
		t.Errorf("%+v", r)
	}
}

// Rows of an earlier profile are not measured again, whatever their quality.
func TestProfileContinues(t *testing.T) {
	f := &fake{rng: rand.New(rand.NewPCG(1, 1)), noise: 1}
	first := profileOf(f, 3, 2, 0)
	first.Budget = 10 * time.Second
	if err := first.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(first.Rows(), func(r Row) bool { return r.Wide }) {
		t.Fatal("no interval is wide")
	}
	had := len(f.visited)
	second := profileOf(f, 3, 2, 0)
	second.Known = first.Rows()
	if err := second.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, v := range f.visited[had:] {
		for _, r := range first.Rows() {
			if v == fmt.Sprint(r.Counts) {
				t.Errorf("%s was measured again", v)
			}
		}
	}
	if second.Missing() != 0 {
		t.Errorf("%d are missing", second.Missing())
	}
	second.Known[0].Counts = []uint8{9, 0, 0}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "a node holds 1 to 2") {
		t.Errorf("a row of another capacity: %v", err)
	}
}

// A visit that fails is repeated later; a program that always fails ends the profile with its error.
func TestProfileFailures(t *testing.T) {
	f := &fake{rng: rand.New(rand.NewPCG(1, 1)), fails: map[string]int{"[2 0]": 1}}
	p := profileOf(f, 2, 2, 0)
	warned := 0
	p.Warn = func(err error) { warned++ }
	if err := p.Run(t.Context()); err != nil || warned != 1 || p.Missing() != 0 {
		t.Errorf("%v, %d warnings, %d missing", err, warned, p.Missing())
	}
	f = &fake{fails: map[string]int{"[2 0]": 9, "[1 1]": 9, "[0 2]": 9}}
	p = profileOf(f, 2, 2, 0)
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "it failed") || len(f.visited) != mostFailures {
		t.Errorf("%v after %d visits", err, len(f.visited))
	}
}

// An interrupt keeps what was measured.
func TestProfileInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	f := &fake{rng: rand.New(rand.NewPCG(1, 1)), interval: func() {
		if n++; n == 8 {
			cancel()
		}
	}}
	p := profileOf(f, 2, 2, 0)
	if err := p.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if len(p.Rows()) != 5 || p.Missing() != 0 { // 2 single, 2 complete, 1 with two cycles
		t.Errorf("%d rows, %d missing", len(p.Rows()), p.Missing())
	}
}

// Only measures exactly the given patterns, single containers among them.
func TestProfileOnly(t *testing.T) {
	f := &fake{rng: rand.New(rand.NewPCG(1, 1))}
	p := profileOf(f, 2, 3, 0)
	p.Only = [][]uint8{{1, 0}, {1, 2}}
	if err := p.Run(t.Context()); err != nil || len(p.Rows()) != 2 || len(f.visited) != 2 {
		t.Errorf("%v: %v", err, f.visited)
	}
}

func TestReplayAndMeanRPS(t *testing.T) {
	f := &fake{rng: rand.New(rand.NewPCG(1, 1)), noise: 0.05}
	all := profileOf(f, 3, 3, 0)
	if err := all.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := profileOf(f, 3, 3, 0.6)
	again.Replay = all.Rows()
	visits := len(f.visited)
	if err := again.Run(t.Context()); err != nil || len(f.visited) != visits || len(again.Rows()) != 12 {
		t.Errorf("%v: %d rows", err, len(again.Rows()))
	}
	rows := all.Rows()
	for _, r := range again.Rows() {
		if !slices.ContainsFunc(rows, func(o Row) bool {
			return slices.Equal(o.Counts, r.Counts) && o.Cycles == r.Cycles && slices.Equal(o.Alone, r.Alone) || r.Cycles == 0
		}) {
			t.Errorf("changed by the replay: %+v", r)
		}
	}
	e := MeanRPS(place.Placement{{1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 1}}, rows)
	want := 0.0
	for _, r := range rows {
		if slices.Equal(r.Counts, []uint8{1, 1, 0}) {
			want = (2*(r.RPS[0].Mean+r.RPS[1].Mean) + 1) / 5
		}
	}
	if !near(e.Mean, want) || !(e.Half() > 0) {
		t.Errorf("%+v, want %v", e, want)
	}
	if e := MeanRPS(place.Placement{{3, 3, 3}}, rows); e.Mean == e.Mean {
		t.Errorf("a pattern without a row: %+v", e)
	}
}

func TestLabel(t *testing.T) {
	if got := Label([]string{"a", "b", "c"}, []uint8{1, 0, 2}); got != "a + 2 c" {
		t.Error(got)
	}
}

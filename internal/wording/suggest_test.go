package wording

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"v100", "V100", 1}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestDistanceIsAMetric(t *testing.T) {
	word := rapid.StringMatching(`[abc]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		ab := Distance(a, b)
		if ab != Distance(b, a) || (ab == 0) != (a == b) || ab > Distance(a, c)+Distance(c, b) || ab > max(len(a), len(b)) {
			t.Fatalf("%q to %q is %d, back %d, by %q %d + %d", a, b, ab, Distance(b, a), c, Distance(a, c), Distance(c, b))
		}
	})
}

func TestNearest(t *testing.T) {
	known := []string{"k80", "p100", "v100", "P10"}
	for _, c := range []struct {
		name string
		n    int
		want []string
	}{{"V10O", 1, []string{"v100"}}, {"p10", 2, []string{"P10", "p100"}}, {"x", 9, []string{"k80", "P10", "p100", "v100"}}} {
		if got := Nearest(c.name, known, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

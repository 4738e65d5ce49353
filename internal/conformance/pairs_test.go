package conformance

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	pairsFlag     = flag.Int("pairs", 0, "pairs of a bare and a wrapped run of each training of TestPairs; 0: skip")
	pairsFileFlag = flag.String("pairs-file", "", "file of pairs to append to; TestPairs judges all pairs in it, so that a benchmark can be measured in several sittings")
)

// paired lists the trainings of the overhead benchmark; each takes 15–25 s at full length on two quiet CPUs.
var paired = []string{"pytorch-loader", "pytorch-steps", "pytorch-transformer", "torchrun", "hf-trainer", "trl-sft", "accelerate", "lightning", "keras",
	"ultralytics", "xgboost", "lightgbm", "stable-baselines3", "scikit-learn", "plain", "threads", "input-bound"}

// Limits of the benchmark: mean overhead of at most 2 %, and at most 5 % for any training.
const (
	meanLimit = 1.02
	eachLimit = 1.05
)

// TestPairs is the overhead benchmark: it alternates bare runs and runs under the optimizer, the latter with default
// settings and no history. It judges wall-clock times and therefore runs on request only, on a quiet machine.
func TestPairs(t *testing.T) {
	if *pairsFlag == 0 && *pairsFileFlag == "" {
		t.Skip("a benchmark: give -pairs N or -pairs-file")
	}
	interpreter(t)
	earlier := readPairs(t)
	var all []series
	for _, name := range paired {
		t.Run(name, func(t *testing.T) {
			s := series{name: name, pairs: earlier[name]}
			for range *pairsFlag {
				p := onePair(t, named(t, name), len(s.pairs)%2 == 1)
				appendPair(t, name, p)
				s.pairs = append(s.pairs, p)
			}
			if len(s.pairs) == 0 {
				t.Skip("no pairs")
			}
			mean, lo, hi := s.ratio()
			t.Logf("\n%s", pairsTable([]series{s}))
			if lo > eachLimit {
				t.Errorf("wrapped/bare %.3f (%.3f–%.3f), want at most %.2f", mean, lo, hi, eachLimit)
			}
			all = append(all, s)
		})
	}
	if len(all) == 0 {
		return
	}
	if mean, lo, hi := overall(all); lo > meanLimit {
		t.Errorf("geometric mean of wrapped/bare %.3f (%.3f–%.3f), want at most %.2f", mean, lo, hi, meanLimit)
	}
	t.Logf("\n%s", pairsTable(all))
	if *updateFlag {
		updateBlock(t, filepath.Join("..", "..", "README.md"), "pairs", pairsTable(all))
	}
}

// recordedPair is one line of the file given by -pairs-file.
type recordedPair struct {
	Training string  `json:"training"`
	Bare     float64 `json:"bare_s"`
	Wrapped  float64 `json:"wrapped_s"`
	Moves    int     `json:"moves"`
	Plan     string  `json:"plan,omitempty"`
}

// readPairs returns the pairs recorded in earlier sessions, by training.
func readPairs(t *testing.T) map[string][]pair {
	t.Helper()
	out := map[string][]pair{}
	if *pairsFileFlag == "" {
		return out
	}
	f, err := os.Open(*pairsFileFlag)
	if errors.Is(err, os.ErrNotExist) {
		return out
	} else if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var r recordedPair
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", *pairsFileFlag, err)
		}
		out[r.Training] = append(out[r.Training], pair{bare: r.Bare, wrapped: r.Wrapped, moves: r.Moves, plan: r.Plan})
	}
}

func appendPair(t *testing.T, name string, p pair) {
	t.Helper()
	if *pairsFileFlag == "" {
		return
	}
	line, err := json.Marshal(recordedPair{Training: name, Bare: p.bare, Wrapped: p.wrapped, Moves: p.moves, Plan: p.plan})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(*pairsFileFlag, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}

func named(t *testing.T, name string) training {
	t.Helper()
	for _, tr := range trainings {
		if tr.name == name {
			return tr
		}
	}
	t.Fatalf("no training %q", name)
	return training{}
}

// onePair runs a training once bare and once wrapped; the caller alternates the order.
func onePair(t *testing.T, tr training, wrappedFirst bool) pair {
	t.Helper()
	length := tr.length(t)
	var p pair
	bare := func() {
		w := newWorkplace(t, tr)
		w.counted = false
		p.bare = w.timed(tr.argv(length))
	}
	wrapped := func() {
		w := newWorkplace(t, tr)
		w.counted = false
		p.wrapped = w.timed(w.wrapped(length))
		r := w.record()
		p.moves = r.moves()
		if r.Plan != nil {
			p.plan = describe(r.Plan.Allocation)
		}
	}
	if wrappedFirst {
		wrapped()
		bare()
	} else {
		bare()
		wrapped()
	}
	fmt.Fprintf(os.Stderr, "%s: bare %.1f s, wrapped %.1f s, %d changes\n", tr.name, p.bare, p.wrapped, p.moves)
	return p
}

func describe(a allocation) string {
	parts := []string{fmt.Sprintf("%g CPUs", a.CPUs)}
	if a.Threads > 0 {
		parts = append(parts, fmt.Sprintf("%d threads", a.Threads))
	}
	if a.Workers > 0 {
		parts = append(parts, fmt.Sprintf("%d workers", a.Workers))
	}
	return strings.Join(parts, ", ")
}

// timed returns the duration in seconds of a command, which must succeed.
func (w *workplace) timed(argv []string) float64 {
	w.t.Helper()
	begin := time.Now()
	if code, output := w.run(argv); code != 0 {
		w.t.Fatalf("%v: exit %d\n%s", argv, code, output)
	}
	return time.Since(begin).Seconds()
}

package spot_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"trainopt/optimizer/schedule/capacity"
	"trainopt/simulator/experiment"
	"trainopt/simulator/spot"
)

func drawn(t *testing.T) *spot.Sweep {
	t.Helper()
	s := &spot.Sweep{Policies: []string{"on-demand", "greedy", "uniform", "optimum", "spot-only"}, Slacks: []float64{1.2, 2},
		Job: capacity.Job{WorkS: 40000, ChangeoverS: 120, SpotUSDHour: 1, OnDemandUSDHour: 3}}
	for seed := range uint64(4) {
		m, err := spot.Generate(spot.Availability{UpS: 7200, DownS: 5400}, 300, 2000, 1, seed)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			s.Cases = append(s.Cases, spot.Case{Market: m, From: 100 * k, Seed: seed, Group: seed})
		}
	}
	return s
}

func rendered(t *testing.T, c *experiment.Comparison, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCompare checks a comparison of two deadlines: shares of the references, feasibility, the optimum as lower bound,
// and the tables.
func TestCompare(t *testing.T) {
	s := drawn(t)
	c, ran, err := s.Compare(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Also) != 2 || c.Also[0].Seeds != 4 || c.Also[0].Cases != 12 || len(ran) != 2*12*5 {
		t.Fatalf("%d deadlines, %d runs", len(c.Also), len(ran))
	}
	for i, one := range c.Also {
		value := func(policy, metric string) float64 { r, _ := one.Row(policy, metric); return float64(r.Mean) }
		if value("on-demand", "cost_share") != 1 || value("optimum", "above_optimum") != 0 || value("uniform", "missed") != 0 || value("greedy", "missed") != 0 {
			t.Errorf("deadline %d: %s", i, rendered(t, one, "text"))
		}
		if o := value("optimum", "cost_share"); o > value("greedy", "cost_share") || o > value("uniform", "cost_share") {
			t.Errorf("deadline %d: the optimum is not the least", i)
		}
		if p, ok := one.Pair("uniform", "greedy", "cost_share"); !ok || p.N != 12 {
			t.Errorf("%+v, %v", p, ok)
		}
	}
	// The closed gap in the table is the ratio of the means.
	r := c.Also[0]
	mean := func(p string) float64 { row, _ := r.Row(p, "cost_usd"); return float64(row.Mean) }
	for from, p := range map[string]string{"": "uniform", "uniform": "greedy", "optimum": ""} {
		table := c.Tables[len(c.Tables)-1]
		if from != "" {
			s.Against = []string{from}
			other, _, err := s.Compare(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			table = other.Tables[len(other.Tables)-1]
		}
		if p == "" {
			if len(table.Lines) != len(s.Policies) || strings.Contains(table.Title, "gap") {
				t.Errorf("gap from %s: %v", from, table)
			}
			continue
		}
		own := cmp.Or(from, "greedy")
		want := 100 * (mean(own) - mean(p)) / (mean(own) - mean("optimum"))
		if text := strings.ReplaceAll(fmt.Sprintf("%.1f %%", want), "-", "−"); !strings.HasPrefix(table.Lines[0][1], text) || table.Lines[0][0] != p || len(table.Lines) != 1 {
			t.Errorf("from %s: %v, want %s", own, table.Lines, text)
		}
	}
	var b bytes.Buffer
	if err := spot.WriteJobs(&b, ran); err != nil {
		t.Fatal(err)
	}
	if rows, err := csv.NewReader(&b).ReadAll(); err != nil || len(rows) != 1+len(ran) || rows[1][2] != "on-demand" {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestSameOnAnyWorkers(t *testing.T) {
	var first string
	for _, workers := range []int{1, 4} {
		s := drawn(t)
		s.Workers = workers
		c, _, err := s.Compare(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got := rendered(t, c, "json"); first == "" {
			first = got
		} else if got != first {
			t.Error("1 and 4 workers differ")
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	s := drawn(t)
	s.Slacks = []float64{1}
	if _, _, err := s.Compare(context.Background()); !errors.Is(err, spot.ErrInfeasible) {
		t.Error(err)
	}
	s.Slacks = nil
	if _, _, err := s.Compare(context.Background()); err == nil {
		t.Error("no deadlines: accepted")
	}
	s = drawn(t)
	s.Policies = []string{"best"}
	if _, _, err := s.Compare(context.Background()); err == nil || !strings.Contains(err.Error(), "best") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if c, _, err := drawn(t).Compare(ctx); c != nil || !errors.Is(err, context.Canceled) {
		t.Error(c, err)
	}
	s = drawn(t)
	ctx, cancel = context.WithCancel(context.Background())
	s.Workers = 1
	s.Progress = func(done, _ int) {
		if done == 14 {
			cancel()
		}
	}
	c, ran, err := s.Compare(ctx)
	if c == nil || !errors.Is(err, context.Canceled) || len(ran)%len(s.Policies) != 0 || len(ran) < 14*5 {
		t.Errorf("%d runs, %v", len(ran), err)
	}
	rendered(t, c, "text")
}

func TestRatio(t *testing.T) {
	if r, lo, hi := spot.Ratio([]float64{1, 1, 1}, []float64{2, 2, 2}); r != 0.5 || lo != 0.5 || hi != 0.5 {
		t.Error(r, lo, hi)
	}
	r, lo, hi := spot.Ratio([]float64{1, 2, 3, 4}, []float64{4, 4, 4, 4})
	if r != 0.625 || !(lo < r && r < hi) || lo < 0.25 || hi > 1 {
		t.Error(r, lo, hi)
	}
	if r, _, _ := spot.Ratio([]float64{1}, []float64{0}); !math.IsNaN(r) {
		t.Error(r)
	}
	if _, lo, _ := spot.Ratio([]float64{1}, []float64{2}); !math.IsNaN(lo) {
		t.Error(lo)
	}
}

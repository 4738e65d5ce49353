package experiment

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"trainopt/optimizer/report/page"
)

// Number is a result. NaN and infinities are unknown and encoded as null, other values with six significant digits.
type Number float64

// MarshalJSON encodes unknown numbers as null.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(n), 'g', 6, 64), 64)
	return json.Marshal(v)
}

// UnmarshalJSON decodes null as NaN.
func (n *Number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	var v float64
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*n = Number(v)
	return nil
}

// Known reports whether the number is finite.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// direction defines which values of a metric are better.
type direction string

// The directions; the empty one leaves good and bad undefined.
const (
	Neither direction = ""
	Lower   direction = "lower"
	Higher  direction = "higher"
)

// Metric describes one number that a trial may return.
type Metric struct {
	Name   string    `json:"metric"`
	Unit   string    `json:"unit,omitempty"` // "s", "USD"; "share" is printed in percent; empty: a plain number
	Better direction `json:"better,omitempty"`
	Means  string    `json:"means,omitempty"` // one sentence: the cases covered and the reference
	// Title is the name in text and HTML; empty means Name with spaces.
	Title string `json:"-"`
	// Change displays the values with their sign: changes from a reference.
	Change bool `json:"-"`
	// Hours displays a metric in seconds as hours in text and HTML.
	Hours bool `json:"-"`
	// Detail metrics explain others: text and HTML show only their means.
	Detail bool `json:"detail,omitempty"`
}

// Row is the result of one policy in one metric, over the N cases in which it has a value.
type Row struct {
	Policy string `json:"policy"`
	Metric string `json:"metric"`
	Mean   Number `json:"mean"`
	Lo     Number `json:"lo"` // 95 % interval of the mean; null with fewer than two seeds
	Hi     Number `json:"hi"`
	N      int    `json:"n"`
	Min    Number `json:"min"` // smallest and largest single case
	Max    Number `json:"max"`
}

// Pair is the difference between two policies over the N cases in which both have a value.
type Pair struct {
	A          string `json:"a"`
	B          string `json:"b"`
	Metric     string `json:"metric"`
	Difference Number `json:"difference"` // mean of A − B
	Lo         Number `json:"lo"`
	Hi         Number `json:"hi"`
	// P is the probability of a mean difference of at least this magnitude, in either direction, under the hypothesis
	// that A and B are equal (sign-flip test over seeds). PHolm is P corrected for all comparisons in the same metric.
	P     Number `json:"p"`
	PHolm Number `json:"p_holm"`
	N     int    `json:"n"`
	// Seeds is the number of seeds among the N cases.
	Seeds int `json:"seeds"`
}

// Comparison is the result of an experiment. Rows are ordered by metric and policy, pairs by metric, a and b.
type Comparison struct {
	Schema  int      `json:"schema"` // 1
	Engine  string   `json:"engine"`
	Title   string   `json:"title,omitempty"`
	Metrics []string `json:"metrics"`
	Rows    []Row    `json:"rows"`
	Paired  []Pair   `json:"paired"`
	WallS   Number   `json:"wall_s"` // set by the caller, which has a clock
	// The fields below explain the numbers above.
	Policies    []string `json:"policies"`
	Against     []string `json:"against"`
	Definitions []Metric `json:"definitions"`
	Seeds       int      `json:"seeds"`
	Cases       int      `json:"cases"`
	Notes       []string `json:"notes,omitempty"`
	// Tables are tables of the caller, shown after the overview.
	Tables []Table `json:"tables,omitempty"`
	// Charts are shown in HTML pages; their numbers are in the rows or in other output of the caller.
	Charts []page.Chart `json:"-"`
	// Pictures follow the charts, each of full width.
	Pictures []page.Picture `json:"-"`
	// Also contains further comparisons with other cases or metrics, shown after this one.
	Also []*Comparison `json:"also,omitempty"`
	// Fold omits Also from the text format.
	Fold bool `json:"-"`
}

// Table is a formatted table: the first column is text, the others are numbers. Every line has as many cells as the
// head.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Lines [][]string `json:"lines"`
}

// Row returns the row of a policy in a metric; ok is false if none exists.
func (c *Comparison) Row(policy, metric string) (Row, bool) {
	for _, r := range c.Rows {
		if r.Policy == policy && r.Metric == metric {
			return r, true
		}
	}
	return Row{}, false
}

// Pair returns the comparison of a with b in a metric, a − b; ok is false if the two were not compared.
func (c *Comparison) Pair(a, b, metric string) (Pair, bool) {
	for _, p := range c.Paired {
		if p.Metric == metric && p.A == a && p.B == b {
			return p, true
		}
	}
	return Pair{}, false
}

// Assemble computes the comparison of values[policy][case][metric]. An absent or NaN metric is unknown; a nil map is a
// case that was not run. O(policies × metrics × (cases + resamples × seeds)).
func Assemble(policies []string, cases []Case, o Options, values [][]map[string]float64) *Comparison {
	o = o.withDefaults(policies)
	c := &Comparison{Schema: 1, Engine: o.Engine, Title: o.Title, Rows: []Row{}, Paired: []Pair{}, Policies: policies, Against: o.Against,
		Definitions: o.Metrics, WallS: Number(math.NaN()), Notes: o.Notes}
	group, seeds := seedsOf(cases, values)
	c.Seeds, c.Cases = seeds, countRun(values)
	rs := newResampler(seeds, o.Resamples, o.Seed)
	column := func(policy int, metric string) []float64 {
		out := make([]float64, len(cases))
		for k := range cases {
			out[k] = math.NaN()
			if v, ok := values[policy][k][metric]; ok && !math.IsInf(v, 0) {
				out[k] = v
			}
		}
		return out
	}
	for _, m := range o.Metrics {
		c.Metrics = append(c.Metrics, m.Name)
		columns := make([][]float64, len(policies))
		for i, p := range policies {
			columns[i] = column(i, m.Name)
			c.Rows = append(c.Rows, rs.row(p, m.Name, columns[i], group))
		}
		c.Paired = append(c.Paired, o.pairs(m.Name, policies, columns, group, rs)...)
	}
	return c
}

// pairs compares every policy with each of o.Against, each pair once.
func (o *Options) pairs(metric string, policies []string, columns [][]float64, group []int, rs *resampler) []Pair {
	var out []Pair
	for i, a := range policies {
		for _, b := range o.Against {
			j := slices.Index(policies, b)
			if j == i || slices.Contains(o.Against, a) && i < j { // two references are compared once
				continue
			}
			out = append(out, rs.pair(a, b, metric, columns[i], columns[j], group, o))
		}
	}
	p := make([]float64, len(out))
	for k := range out {
		p[k] = float64(out[k].P)
	}
	for k, v := range holm(p) {
		out[k].PHolm = Number(v)
	}
	return out
}

// seedsOf numbers the seeds of the cases that were run, in order of appearance; group is -1 for other cases.
func seedsOf(cases []Case, values [][]map[string]float64) (group []int, n int) {
	number := map[uint64]int{}
	group = make([]int, len(cases))
	for k, c := range cases {
		group[k] = -1
		if len(values) > 0 && values[0][k] == nil {
			continue
		}
		if _, ok := number[c.Seed]; !ok {
			number[c.Seed] = len(number)
		}
		group[k] = number[c.Seed]
	}
	return group, len(number)
}

// countRun returns the number of cases that were run.
func countRun(values [][]map[string]float64) int {
	n := 0
	if len(values) > 0 {
		for _, v := range values[0] {
			if v != nil {
				n++
			}
		}
	}
	return n
}

// validate checks the options for the given policies.
func (o *Options) validate(policies []string) error {
	if len(policies) == 0 {
		return fmt.Errorf("compare: no policies")
	}
	for i, p := range policies {
		if slices.Contains(policies[:i], p) {
			return fmt.Errorf("compare: policy %q is named twice", p)
		}
	}
	for _, a := range o.Against {
		if !slices.Contains(policies, a) {
			return fmt.Errorf("compare against %q: it is not among the policies", a)
		}
	}
	return nil
}

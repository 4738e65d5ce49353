package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// coverage returns how often the interval contains the true mean over many experiments with the given seeds and cases
// per seed.
func coverage(t *testing.T, seeds, cases int, draw func(*rand.Rand) (shared, own func() float64), truth float64) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 11))
	const experiments = 1200
	hits := 0
	for e := range experiments {
		shared, own := draw(rng)
		r := newResampler(seeds, 1000, uint64(e))
		var column []float64
		var group []int
		for s := range seeds {
			level := shared()
			for range cases {
				column, group = append(column, level+own()), append(group, s)
			}
		}
		lo, hi := r.interval(r.bySeed(column, group))
		if lo <= truth && truth <= hi {
			hits++
		}
	}
	return float64(hits) / experiments
}

// TestIntervalsCoverTheTruth checks the coverage of the intervals on normal and exponential data with few and many
// seeds, and with dependent cases within a seed.
func TestIntervalsCoverTheTruth(t *testing.T) {
	normal := func(sharedSD, ownSD float64) func(*rand.Rand) (func() float64, func() float64) {
		return func(r *rand.Rand) (func() float64, func() float64) {
			return func() float64 { return sharedSD * r.NormFloat64() }, func() float64 { return 3 + ownSD*r.NormFloat64() }
		}
	}
	skewed := func(r *rand.Rand) (func() float64, func() float64) {
		return func() float64 { return r.ExpFloat64() }, func() float64 { return 0 }
	}
	for name, test := range map[string]struct {
		seeds, cases int
		draw         func(*rand.Rand) (func() float64, func() float64)
		truth        float64
		least, most  float64
	}{
		"normal, 10 seeds":                      {10, 1, normal(0, 1), 3, 0.92, 0.97},
		"normal, 5 seeds":                       {5, 1, normal(0, 1), 3, 0.89, 0.95},
		"normal, 30 seeds":                      {30, 1, normal(0, 1), 3, 0.93, 0.97},
		"a seed's cases are alike, 10 × 8":      {10, 8, normal(1, 0.5), 3, 0.92, 0.97},
		"exponential, 10 seeds: a little short": {10, 1, skewed, 1, 0.89, 0.97},
	} {
		t.Run(name, func(t *testing.T) {
			if got := coverage(t, test.seeds, test.cases, test.draw, test.truth); got < test.least || got > test.most {
				t.Errorf("the 95 %% interval covers the truth in %.1f %%, want %.0f to %.1f %%", 100*got, 100*test.least, 100*test.most)
			}
		})
	}
}

// TestSignFlipKeepsItsLevel checks that differences without effect are called significant in about 5 % of the
// experiments at level 5 %, for exact and random flips and for heavy tails.
func TestSignFlipKeepsItsLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	const experiments = 2000
	for name, test := range map[string]struct {
		n, flips int
		draw     func() float64
	}{
		"normal, exact":                {10, 0, rng.NormFloat64},
		"heavy tails, exact":           {8, 0, func() float64 { return rng.NormFloat64() / (0.05 + math.Abs(rng.NormFloat64())) }},
		"random flips, 20 differences": {20, 400, rng.NormFloat64},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := 0
			for e := range experiments {
				d := make([]float64, test.n)
				for i := range d {
					d[i] = test.draw()
				}
				if signFlip(d, test.flips, uint64(e)) <= 0.05 {
					wrong++
				}
			}
			if share := float64(wrong) / experiments; share > 0.065 || share < 0.02 {
				t.Errorf("alike is called different in %.1f %% at level 5 %%", 100*share)
			}
		})
	}
}

func TestSignFlipKnownAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		d    []float64
		want float64
	}{
		"nothing":                       {nil, 1},
		"zeros":                         {[]float64{0, 0}, 1},
		"all one way, ten":              {[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2.0 / 1024},
		"by hand, three":                {[]float64{3, 2, -1}, 4.0 / 8}, // |±3±2±1| ≥ 4 in 4 of 8
		"a zero changes none":           {[]float64{3, 0, 2, -1}, 4.0 / 8},
		"Fisher's maize (Darwin), cm·8": {[]float64{49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48}, 0.05267}, // Fisher 1935, 1726/32768
	} {
		t.Run(name, func(t *testing.T) {
			if got := signFlip(test.d, 0, 1); math.Abs(got-test.want) > 5e-5 {
				t.Errorf("p = %.6f, want %.6f", got, test.want)
			}
		})
	}
	long := make([]float64, 40)
	for i := range long {
		long[i] = 1
	}
	if got := signFlip(long, 999, 1); got != 1.0/1000 {
		t.Errorf("forty alike with 999 random flips: p = %g, want 0.001", got)
	}
}

func TestHolm(t *testing.T) {
	nan := math.NaN()
	got := holm([]float64{0.01, nan, 0.04, 0.03, 0.005})
	want := []float64{0.03, nan, 0.06, 0.06, 0.02} // Holm 1979: 0.005·4, 0.01·3, 0.03·2, then not decreasing
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 || math.IsNaN(got[i]) != math.IsNaN(want[i]) {
			t.Errorf("Holm[%d] = %g, want %g", i, got[i], want[i])
		}
	}
}

// TestProperties checks invariants: the p-value does not depend on sign and scale, the interval is within the range of
// the data, and Holm does not decrease a p-value.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Float64Range(-5, 5), 1, 12).Draw(t, "differences")
		scale := rapid.Float64Range(0.01, 100).Draw(t, "scale")
		p := signFlip(d, 200, 1)
		scaled, mirrored := make([]float64, len(d)), make([]float64, len(d))
		for i, v := range d {
			scaled[i], mirrored[i] = scale*v, -v
		}
		if p <= 0 || p > 1 || math.Abs(signFlip(mirrored, 200, 1)-p) > 1e-12 || math.Abs(signFlip(scaled, 200, 1)-p) > 1e-9 {
			t.Fatalf("p = %g; mirrored %g, scaled %g", p, signFlip(mirrored, 200, 1), signFlip(scaled, 200, 1))
		}
		group := make([]int, len(d))
		for i := range group {
			group[i] = i % 4
		}
		r := newResampler(4, 300, 9)
		c := r.bySeed(d, group)
		lo, hi := r.interval(c)
		if len(d) >= 4 && (lo > c.mean()+1e-9 || hi < c.mean()-1e-9 || lo > hi || lo < c.lo-1e-9 || hi > c.hi+1e-9) {
			t.Fatalf("interval %g…%g of mean %g in %g…%g", lo, hi, c.mean(), c.lo, c.hi)
		}
		corrected := holm([]float64{p, 0.01, 0.5})
		if corrected[0] < p || corrected[0] > 1 {
			t.Fatalf("Holm lowers %g to %g", p, corrected[0])
		}
	})
}

// runTrial is a trial that returns measurements only.
type runTrial func(ctx context.Context, policy string, k int) (map[string]float64, error)

func run(ctx context.Context, policies []string, cases []Case, o Options, trial runTrial) (*Comparison, error) {
	c, _, err := Run(ctx, policies, cases, o, func(ctx context.Context, policy string, k int) (map[string]float64, struct{}, error) {
		v, err := trial(ctx, policy, k)
		return v, struct{}{}, err
	})
	return c, err
}

// sample compares three policies over seeds × 3 cases: "good" is better than "bad" by one, "odd" has few values.
func sample(seeds int) ([]Case, Options, runTrial) {
	var cases []Case
	for s := range seeds {
		for j := range 3 {
			cases = append(cases, Case{Name: fmt.Sprintf("seed %d, job %d", s, j), Seed: uint64(100 + s)})
		}
	}
	o := Options{Engine: "test", Title: "A <test> | of tables", Resamples: 500, Notes: []string{"made up"}, Against: []string{"bad"}, Metrics: []Metric{
		{Name: "wait_s", Unit: "s", Better: Lower, Means: "mean wait"},
		{Name: "hit", Unit: "share", Better: Higher},
		{Name: "restarts", Detail: true, Means: "how often"},
		{Name: "joules", Means: "nobody knows"},
	}}
	trial := func(_ context.Context, policy string, k int) (map[string]float64, error) {
		rng := rand.New(rand.NewPCG(cases[k].Seed, uint64(k)))
		wait := 10 + rng.NormFloat64()
		switch policy {
		case "good":
			return map[string]float64{"wait_s": wait - 1 - 0.1*rng.Float64(), "hit": 1, "restarts": 2}, nil
		case "odd":
			if k == 0 {
				return map[string]float64{"wait_s": 5}, nil
			}
			return map[string]float64{"wait_s": math.NaN(), "hit": math.Inf(1)}, nil
		}
		return map[string]float64{"wait_s": wait, "hit": float64(k % 2), "restarts": 0}, nil
	}
	return cases, o, trial
}

func TestRunComparesInPairs(t *testing.T) {
	cases, o, trial := sample(10)
	c, err := run(t.Context(), []string{"good", "bad", "odd"}, cases, o, trial)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := c.Pair("good", "bad", "wait_s")
	if !ok || math.Abs(float64(p.Difference)+1.05) > 0.05 || p.Hi > -1 || p.N != 30 || math.Abs(float64(p.P)-2.0/1024) > 1e-9 || p.PHolm < p.P {
		t.Errorf("good − bad = %+v, want about −1.05 with p = 0.002", p)
	}
	r, _ := c.Row("good", "wait_s")
	if float64(r.Hi-r.Lo) < 3*float64(p.Hi-p.Lo) {
		t.Errorf("the paired interval %v is not much shorter than the unpaired one %v", p, r)
	}
	if r, _ := c.Row("odd", "hit"); r.N != 0 || r.Mean.Known() || r.Lo.Known() {
		t.Errorf("no value at all gives %+v, want unknown", r)
	}
	if r, _ := c.Row("odd", "wait_s"); r.N != 1 || r.Mean != 5 || r.Lo.Known() {
		t.Errorf("one value gives %+v, want its mean without an interval", r)
	}
	if _, ok := c.Pair("bad", "bad", "wait_s"); ok || len(c.Paired) != 8 {
		t.Errorf("%d pairs, want 2 policies × 4 metrics against bad", len(c.Paired))
	}
}

func TestSameBytesOnAnyNumberOfCores(t *testing.T) {
	cases, o, trial := sample(6)
	var first []byte
	for _, workers := range []int{1, 2, 7} {
		o.Workers = workers
		c, err := run(t.Context(), []string{"good", "bad", "odd"}, cases, o, trial)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		for _, f := range Formats() {
			if err := c.Render(&b, f); err != nil {
				t.Fatal(err)
			}
		}
		if first == nil {
			first = b.Bytes()
		} else if !bytes.Equal(first, b.Bytes()) {
			t.Errorf("%d workers write other bytes", workers)
		}
	}
}

// TestRunNamesWhoFails checks that errors and panics of a trial name policy and case, and that invalid policies are
// rejected.
func TestRunNamesWhoFails(t *testing.T) {
	cases, o, trial := sample(3)
	broken := errors.New("no such node")
	for name, test := range map[string]struct {
		trial runTrial
		want  string
		is    error
	}{
		"an error": {func(ctx context.Context, p string, k int) (map[string]float64, error) {
			if p == "bad" && k >= 4 {
				return nil, broken
			}
			return trial(ctx, p, k)
		}, "policy bad on seed 1, job 1: no such node", broken},
		"a panic": {func(ctx context.Context, p string, k int) (map[string]float64, error) {
			if k == 8 {
				panic("boom")
			}
			return trial(ctx, p, k)
		}, "policy good on seed 2, job 2: panic: boom", nil},
	} {
		t.Run(name, func(t *testing.T) {
			o.Workers = 1
			c, err := run(t.Context(), []string{"good", "bad"}, cases, o, test.trial)
			if err == nil || c != nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	for name, test := range map[string]struct {
		policies, against []string
		want              string
	}{
		"none":          {nil, nil, "no policies"},
		"twice":         {[]string{"a", "a"}, nil, "named twice"},
		"unknown other": {[]string{"a"}, []string{"b"}, `against "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := run(t.Context(), test.policies, cases, Options{Against: test.against}, trial); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestInterruptKeepsWhatIsComplete(t *testing.T) {
	cases, o, trial := sample(5)
	ctx, cancel := context.WithCancel(t.Context())
	o.Workers = 1
	o.Progress = func(done, _ int) {
		if done == 6 {
			cancel()
		}
	}
	c, err := run(ctx, []string{"good", "bad"}, cases, o, trial)
	if !errors.Is(err, context.Canceled) || c == nil || c.Cases < 6 || c.Cases > 7 || c.Seeds < 2 {
		t.Fatalf("got %v with %v, want what six complete cases of two seeds show", c, err)
	}
	if r, _ := c.Row("good", "wait_s"); r.N != c.Cases {
		t.Errorf("the row rests on %d cases, %d are complete", r.N, c.Cases)
	}
}

// TestFormats checks the content of every format, that HTML is well-formed and self-contained, and that JSON can be
// decoded. Metrics without values are in the files only.
func TestFormats(t *testing.T) {
	cases, o, trial := sample(4)
	c, err := run(t.Context(), []string{"good", "bad", "odd"}, cases, o, trial)
	if err != nil {
		t.Fatal(err)
	}
	again := *c
	again.Title = "a second table"
	c.Also = []*Comparison{&again}
	c.Tables = []Table{{Title: "job by job", Head: []string{"job", "best"}, Lines: [][]string{{"a|b", "−74.7"}}}}
	for format, want := range map[string][]string{
		"text":     {"A <test> | of tables", "12 cases from 4 seeds", "good", "− bad", "100 %", "note: made up", "a second table", "–", "job by job", "a|b  −74.7"},
		"markdown": {`# A &lt;test&gt; \| of tables`, "| good |", "## a second table", "job by job", `| a\|b | −74.7 |`},
		"csv":      {"kind,table,metric,policy", "row,A <test> | of tables,wait_s,good,", "pair,", "a second table"},
		"html":     {"A &lt;test&gt; | of tables", "prefers-color-scheme: dark", "<circle", "a second table", "job by job", ">−74.7</span></td>"},
		"json":     {`"schema": 1`, `"engine": "test"`, `"wall_s": null`, `"p_holm"`, `"also"`, `"head": [`},
	} {
		t.Run(format, func(t *testing.T) {
			var b bytes.Buffer
			if err := c.Render(&b, format); err != nil {
				t.Fatal(err)
			}
			for _, w := range want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("%s lacks %q:\n%.2000s", format, w, b.String())
				}
			}
			if told := strings.Contains(b.String(), "joules"); told != (format == "json" || format == "csv") {
				t.Errorf("a metric in which nobody has a value: shown %v", told)
			}
			switch format {
			case "html":
				d := xml.NewDecoder(strings.NewReader(b.String()))
				d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
				for {
					if _, err := d.Token(); err != nil {
						if err.Error() != "EOF" {
							t.Errorf("the page does not parse: %v", err)
						}
						break
					}
				}
				if strings.Contains(b.String(), "http://") || strings.Contains(b.String(), "https://") || strings.Contains(b.String(), "<script") {
					t.Error("the page needs something from outside")
				}
			case "json":
				var back Comparison
				if err := json.Unmarshal(b.Bytes(), &back); err != nil || len(back.Rows) != len(c.Rows) || back.Rows[0].Mean.Known() == false {
					t.Errorf("JSON does not read back: %v", err)
				}
			}
		})
	}
	if err := c.Render(&bytes.Buffer{}, "pdf"); err == nil || !strings.Contains(err.Error(), "csv, html, json, markdown, text") {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestTextFits checks for any table that no line exceeds the maximum width and that the split loses nothing.
func TestTextFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.StringMatching(`[a-zé−_]{1,18}( [a-z]{1,18}){0,20}`)
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]([a-z_]{0,16}[a-z])?`), 1, 9, rapid.ID)
		policies := names.Draw(t, "policies")
		var metrics []Metric
		for _, n := range names.Draw(t, "metrics") {
			metrics = append(metrics, Metric{Name: n, Unit: rapid.SampledFrom([]string{"", "s", "share"}).Draw(t, "unit"), Means: words.Draw(t, "means"), Detail: rapid.Bool().Draw(t, "detail")})
		}
		o := Options{Title: words.Draw(t, "title"), Metrics: metrics, Against: policies[:min(len(policies), rapid.IntRange(1, 3).Draw(t, "against"))], Notes: []string{words.Draw(t, "note")}, Resamples: 50}
		cases := make([]Case, rapid.IntRange(1, 8).Draw(t, "seeds"))
		for k := range cases {
			cases[k].Seed = uint64(k)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "values"), 1))
		values := make([][]map[string]float64, len(policies))
		for i := range values {
			for range cases {
				v := map[string]float64{}
				for _, m := range metrics {
					v[m.Name] = rng.NormFloat64() * math.Pow(10, 8*rng.Float64()-4)
				}
				values[i] = append(values[i], v)
			}
		}
		c := Assemble(policies, cases, o, values)
		var b bytes.Buffer
		if err := c.Render(&b, "text"); err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(b.String(), "\n") {
			if n := utf8.RuneCountInString(l); n > 100 {
				t.Fatalf("a line of %d characters:\n%s", n, l)
			}
		}
		for _, m := range metrics {
			text, label := strings.Join(strings.Fields(b.String()), " "), strings.Join(strings.Fields(m.Label()), " ")
			if !strings.Contains(text, label) || !strings.Contains(text, m.Means) {
				t.Fatalf("%s is not shown or not explained:\n%s", m.Name, b.String())
			}
		}
	})
}

// TestTooFewSeeds checks that below five seeds text and HTML state that the seeds are too few instead of showing a
// meaningless p; files contain it.
func TestTooFewSeeds(t *testing.T) {
	for seeds, few := range map[int]bool{1: true, 2: true, 4: true, 5: false, 10: false} {
		cases, o, trial := sample(seeds)
		c, err := run(t.Context(), []string{"good", "bad", "odd"}, cases, o, trial)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"text", "markdown", "html"} {
			var b bytes.Buffer
			if err := c.Render(&b, format); err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(b.String()), " ")
			p := strings.Contains(text, "interval p") || strings.Contains(text, "| p |") || strings.Contains(text, ">p</th>")
			if strings.Contains(text, "too few seeds for a test") != few || p == few {
				t.Errorf("%d seeds as %s: column p shown %v:\n%.1500s", seeds, format, p, b.String())
			}
		}
		if p, _ := c.Pair("good", "bad", "wait_s"); !p.P.Known() || p.Seeds != seeds {
			t.Errorf("%d seeds: %+v: p is not in the files", seeds, p)
		}
		if p, _ := c.Pair("odd", "bad", "wait_s"); p.Seeds != 1 || p.probability() != "too few" { // odd has one value
			t.Errorf("%d seeds, but one with a value: %+v is shown as %s", seeds, p, p.probability())
		}
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234.6: "1235", 0.12345: "0.123", -3.14159: "−3.14", 99.95: "100.0", 1e-7: "1e-07", 25e5: "2500000", 1: "1.00"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%g) = %q, want %q", v, got, want)
		}
	}
}

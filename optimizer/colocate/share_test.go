package colocate

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestUndisturbed(t *testing.T) {
	for name, c := range map[string]struct {
		used, demands []float64
		foreign, cpus float64
		want          []float64
	}{
		"nothing foreign":                    {[]float64{0.3, 0.7}, []float64{1, 1}, 0, 1, []float64{0.3, 0.7}},
		"alone beside a foreign program":     {[]float64{0.5}, []float64{1}, 0.5, 1, []float64{1}},
		"two equal programs":                 {[]float64{0.1, 0.2}, []float64{1, 1}, 0.7, 1, []float64{0.5, 0.5}},
		"a service that wants little":        {[]float64{0.3, 0.35}, []float64{0.33, 1}, 0.35, 1, []float64{0.33, 0.67}},
		"foreign programs used idle time":    {[]float64{0.3}, []float64{0.3}, 0.7, 1, []float64{0.3}},
		"foreign time measured a bit higher": {[]float64{0.5, 0.5}, []float64{1, 1}, 0.1, 1, []float64{0.5, 0.5}},
		"two CPUs":                           {[]float64{0.5, 1}, []float64{1, 1}, 0.5, 2, []float64{1, 1}},
	} {
		got := undisturbed(c.used, c.demands, c.foreign, c.cpus)
		for i := range got {
			if !near(got[i], c.want[i]) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
				break
			}
		}
	}
}

// No program gets less than was measured, and no more is given back than was taken.
func TestUndisturbedConserves(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(r, "programs")
		used, demands := make([]float64, n), make([]float64, n)
		sum := 0.0
		for i := range used {
			used[i] = rapid.Float64Range(0, 1).Draw(r, "used") / float64(n)
			demands[i] = rapid.Float64Range(0, 1).Draw(r, "demand")
			sum += used[i]
		}
		foreign := rapid.Float64Range(0, 1-sum).Draw(r, "foreign")
		total := 0.0
		for i, x := range undisturbed(used, demands, foreign, 1) {
			if x < used[i] || x > math.Max(used[i], demands[i])+1e-9 {
				r.Errorf("program %d used %v, demands %v, gets %v", i, used[i], demands[i], x)
			}
			total += x
		}
		if total > sum+foreign+1e-6 {
			r.Errorf("%v is more than %v + %v", total, sum, foreign)
		}
	})
}

func observed(life float64, looks, asleep int, threads ...times) *watch {
	w := &watch{threads: map[int]*thread{}, looks: looks, asleep: asleep}
	from := time.Unix(0, 0)
	for i, t := range threads {
		t.at = from.Add(time.Duration(life * 1e9))
		w.threads[i] = &thread{times{at: from}, t}
	}
	return w
}

func TestDemand(t *testing.T) {
	for name, c := range map[string]struct {
		w    *watch
		want float64
	}{
		"never waits, never sleeps":                 {observed(2, 100, 0, times{run: 2}), 1},
		"waits for nine tenths":                     {observed(2, 100, 0, times{run: 0.2, wait: 1.8}), 1},
		"the last wait is not recorded":             {observed(2, 100, 0, times{run: 0.2, wait: 1.2}), 1},
		"sleeps for half, without others":           {observed(2, 100, 50, times{run: 1}), 0.5},
		"sleeps, and waits as long as it runs":      {observed(3, 100, 33, times{run: 1, wait: 1}), 0.5},
		"client and server take turns":              {observed(2, 100, 0, times{run: 1}, times{run: 1}), 1},
		"the same, both wait":                       {observed(2, 100, 0, times{run: 0.1, wait: 0.9}, times{run: 0.1, wait: 0.9}), 1},
		"two busy threads":                          {observed(2, 100, 0, times{run: 2}, times{run: 2}), 2},
		"two busy threads on one CPU":               {observed(2, 100, 0, times{run: 1, wait: 1}, times{run: 1, wait: 1}), 2},
		"a parent that only waits for its child":    {observed(2, 100, 0, times{}, times{run: 1, wait: 1}), 1},
		"no observations":                           {observed(2, 0, 0), 0},
		"one look at a program that has just begun": {observed(0, 1, 0, times{run: 0.1}), 0},
	} {
		if got := c.w.demand(); math.Abs(got-c.want) > 0.02 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestParseThread(t *testing.T) {
	got, state, ok := parseThread("2000000000 500000000 12\n", []byte("12 (a) b) S 1 2 3"))
	if !ok || got.run != 2 || got.wait != 0.5 || state != 'S' {
		t.Errorf("%+v %c %v", got, state, ok)
	}
	for _, bad := range []string{"", "1", "x y 1"} {
		if _, _, ok := parseThread(bad, []byte("12 (a) S 1")); ok {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestReadCPUTimes(t *testing.T) {
	stat := "cpu  1 2 3 4 5 6 7 8\ncpu0 10 0 10 500 100 0 0 50 0 0\ncpu1 10 0 10 700 0 0 0 0 0 0\nintr 1\n"
	idle, steal, err := readCPUTimes(stat, []int{0})
	if err != nil || idle != 6 || steal != 0.5 {
		t.Errorf("%v %v %v", idle, steal, err)
	}
	if idle, _, _ = readCPUTimes(stat, []int{0, 1}); idle != 13 {
		t.Errorf("%v", idle)
	}
	if _, _, err = readCPUTimes(stat, []int{2}); err == nil {
		t.Error("an absent CPU is accepted")
	}
}

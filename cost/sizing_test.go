package cost

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNeedFits(t *testing.T) {
	nan := math.NaN()
	p4d := Offer{Cloud: "aws", Type: "p4d.24xlarge", GPU: "A100 40GB", GPUs: 8, GPUMemory: 40, CPUs: 96, Memory: 1152, OnDemand: 22}
	trn := Offer{Cloud: "aws", Type: "trn1.2xlarge", GPU: "Trainium", GPUs: 1, GPUMemory: 32, CPUs: 8, Memory: 32, OnDemand: 1.3}
	arm := Offer{Cloud: "aws", Type: "c8g.2xlarge", CPUs: 8, Memory: 16, OnDemand: 0.3}
	tests := map[string]struct {
		need  Need
		offer Offer
		lacks string // "" fits
	}{
		"exactly":                         {Need{GPUs: 8, GPU: "A100 40GB", GPUMemoryGiB: 40 / 1.15, CPUs: 96, MemoryGiB: 1152 / 1.15}, p4d, ""},
		"fewer GPUs than it has":          {Need{GPUs: 1, GPUMemoryGiB: 10, CPUs: 4, MemoryGiB: 10}, p4d, ""},
		"none of its GPUs":                {Need{CPUs: 4, MemoryGiB: 10}, p4d, ""},
		"as NVML names the GPU":           {Need{GPUs: 1, GPU: "NVIDIA A100-SXM4-40GB"}, p4d, ""},
		"nothing known but a GPU":         {Need{GPUs: 1, GPUMemoryGiB: nan, CPUs: nan, MemoryGiB: nan}, p4d, ""},
		"too many GPUs":                   {Need{GPUs: 16}, p4d, "8 GPUs, 16 needed"},
		"an other GPU":                    {Need{GPUs: 1, GPU: "H100"}, p4d, "its GPU is A100 40GB, needed is H100"},
		"GPU memory within the margin":    {Need{GPUs: 1, GPUMemoryGiB: 36}, p4d, "40 GiB per GPU, 41.4 needed"},
		"GPU memory without margin":       {Need{GPUs: 1, GPUMemoryGiB: 36, Margin: -1}, p4d, ""},
		"memory within a larger margin":   {Need{MemoryGiB: 1000, Margin: 0.5}, p4d, "1152 GiB of memory, 1500 needed"},
		"CPUs":                            {Need{CPUs: 96.5}, p4d, "96 CPUs, 96.5 needed"},
		"no GPU at all":                   {Need{GPUs: 1, GPUMemoryGiB: 4}, arm, "0 GPUs, 1 needed"},
		"two at once":                     {Need{CPUs: 9, MemoryGiB: 15}, arm, "8 CPUs, 9 needed; 16 GiB of memory, 17.25 needed"},
		"any GPU is none of its own":      {Need{GPUs: 1}, trn, "Trainium runs only software made for it"},
		"Trainium by name":                {Need{GPUs: 1, GPU: "Trainium"}, trn, ""},
		"arm for any":                     {Need{CPUs: 8}, arm, ""},
		"arm for amd64":                   {Need{CPUs: 8, Arch: "amd64"}, arm, "its CPUs are arm64, needed are amd64"},
		"GPU memory of a job without GPU": {Need{GPUMemoryGiB: 99, CPUs: 1}, p4d, ""},
	}
	for name, test := range tests {
		ok, lacks := test.need.Fits(test.offer)
		if ok != (test.lacks == "") || lacks != test.lacks {
			t.Errorf("%s: %v, lacks %q; want %q", name, ok, lacks, test.lacks)
		}
	}
	if u := (Need{GPUs: 1, GPUMemoryGiB: nan, CPUs: 1, MemoryGiB: nan}).Unchecked(); !slices.Equal(u, []string{"GPU memory", "host memory"}) {
		t.Errorf("unchecked: %q", u)
	}
}

func TestQuoteOffer(t *testing.T) {
	big := Offer{Cloud: "aws", Type: "big", GPU: "A100 40GB", GPUs: 8, GPUMemory: 40, CPUs: 96, Memory: 1152, OnDemand: 22, Spot: 8}
	spot := big
	spot.UseSpot = true
	hours := Spread{8, 10, 14}
	if q, ok := big.Quote(hours, AssumedSpot(0.1, 0.25, true)); !ok || q.Cost != (Spread{176, 220, 308}) || q.Paid != hours || q.Wall != hours || q.Interruption != 0 || q.Interruptions != (Interruptions{}) {
		t.Errorf("on demand, a larger machine paid whole: %t %+v", ok, q)
	}
	q, ok := spot.Quote(hours, AssumedSpot(0.1, 0.25, true))
	paid, wall := q.Interruptions.Expected(10)
	if !ok || !near(USD(q.Cost.P50), USD(8*paid)) || !near(q.Interruption, USD(8*(paid-10))) || q.Wall.P50 != wall || q.Interruptions.Assumed == "" ||
		!(q.Cost.P5 >= 8*8 && q.Cost.P5 < q.Cost.P50 && q.Cost.P95 > q.Cost.P50) || q.Wall.P95 < q.Paid.P95 {
		t.Errorf("spot: %t %+v; want %g hours paid, %g wall", ok, q, paid, wall)
	}
	if q, ok := spot.Quote(hours, Interruptions{PerHour: 500}); ok {
		t.Errorf("a job that never ends on spot capacity was priced: %+v", q)
	}
	for name, h := range map[string]Spread{"0": {0, 1, 2}, "NaN": {1, math.NaN(), 3}, "disordered": {1, 3, 2}, "infinite": {1, 2, math.Inf(1)}} {
		if q, ok := big.Quote(h, Interruptions{}); ok {
			t.Errorf("hours %s were priced: %+v", name, q)
		}
	}
	if _, ok := (Offer{}).Quote(Spread{1, 2, 3}, Interruptions{}); ok {
		t.Error("an offer without a price was priced")
	}
}

// The 90 % interval of a spot quote contains nine of ten simulated jobs whose hours, rate and interruptions are drawn
// from the distributions that it was computed from.
func TestQuoteIntervalsHoldWhatHappens(t *testing.T) {
	offer := Offer{Cloud: "aws", Type: "x", CPUs: 1, Memory: 1, OnDemand: 2, Spot: 1, UseSpot: true}
	tests := map[string]struct {
		hours   Spread
		restart float64
		lost    float64
		resume  bool
	}{
		"a day, resumable":        {Spread{20, 24, 29}, 0.1, 0.25, true},
		"an hour, resumable":      {Spread{0.9, 1, 1.1}, 0.05, 0.1, true},
		"an hour, not resumable":  {Spread{0.9, 1, 1.1}, 0.05, 0.1, false},
		"hours hardly known":      {Spread{2, 6, 18}, 0.1, 0.2, true},
		"a long restart":          {Spread{9, 10, 11}, 0.6, 0.2, true},
		"four hours from scratch": {Spread{3.5, 4, 4.6}, 0.1, 0, false},
	}
	for name, test := range tests {
		i := AssumedSpot(test.restart, test.lost, test.resume)
		q, ok := offer.Quote(test.hours, i)
		if !ok {
			t.Errorf("%s: no quote", name)
			continue
		}
		const n = 4000
		rng := rand.New(rand.NewPCG(3, 5))
		spread := math.Log(test.hours.P95/test.hours.P5) / 2 / z95
		rate := math.Log(i.PerHourHigh/i.PerHourLow) / 2 / 1.2816 // the ends of the range are 10 % and 90 % quantiles
		away := math.Log(i.AwayHigh/i.AwayLow) / 2 / 1.2816
		held, heldWall := 0, 0
		for range n {
			j := i
			j.PerHour *= math.Exp(min(1.5, rate*rng.NormFloat64()))
			j.AwayHours *= math.Exp(away * rng.NormFloat64())
			h := math.Sqrt(test.hours.P5*test.hours.P95) * math.Exp(spread*rng.NormFloat64())
			paid, wall := j.simulate(rng, h)
			if paid >= q.Cost.P5 && paid <= q.Cost.P95 {
				held++
			}
			if wall >= q.Wall.P5 && wall <= q.Wall.P95 {
				heldWall++
			}
		}
		share, shareWall := float64(held)/n, float64(heldWall)/n
		t.Logf("%-24s cost %.3g (%.3g to %.3g) held %.1f %%, wall %.3g (%.3g to %.3g) held %.1f %%", name, q.Cost.P50, q.Cost.P5, q.Cost.P95, 100*share, q.Wall.P50,
			q.Wall.P5, q.Wall.P95, 100*shareWall)
		if share < 0.85 || shareWall < 0.85 {
			t.Errorf("%s: cost held %.1f %%, wall %.1f %% of the time, want about 90", name, 100*share, 100*shareWall)
		}
	}
}

func TestSelect(t *testing.T) {
	c, err := EmbeddedCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		filter Filter
		holds  func(Offer) bool
		least  int // offers
	}{
		"all":                {Filter{}, func(Offer) bool { return true }, 120},
		"one cloud":          {Filter{Clouds: []string{"GCP"}}, func(o Offer) bool { return o.Cloud == "gcp" }, 10},
		"L4 is not L40S":     {Filter{GPU: "l4"}, func(o Offer) bool { return o.GPU == "L4" }, 5},
		"A100 of both sizes": {Filter{GPU: "a100"}, func(o Offer) bool { return strings.HasPrefix(o.GPU, "A100 ") }, 10},
		"as NVML names it":   {Filter{GPU: "NVIDIA A100-SXM4-80GB"}, func(o Offer) bool { return o.GPU == "A100 80GB" }, 3},
		"no GPU":             {Filter{GPU: "none"}, func(o Offer) bool { return o.GPUs == 0 }, 10},
		"part of the type":   {Filter{Type: "NC24ads A100"}, func(o Offer) bool { return o.Type == "Standard_NC24ads_A100_v4" }, 1},
		"large":              {Filter{MinGPUs: 8, MinGPUMemory: 80, MinCPUs: 100, MinMemory: 1000}, func(o Offer) bool { return o.GPUs >= 8 && o.GPUMemory >= 80 && o.CPUs >= 100 && o.Memory >= 1000 }, 4},
		"cheap":              {Filter{MaxHourly: 1}, func(o Offer) bool { return o.OnDemand <= 1 }, 20},
		"cheap spot":         {Filter{MaxHourly: 1, Spot: true}, func(o Offer) bool { return o.UseSpot && o.Spot <= 1 }, 10},
	}
	for name, test := range tests {
		list := c.Select(test.filter)
		if len(list) < test.least {
			t.Errorf("%s: %d offers, want at least %d", name, len(list), test.least)
		}
		for i, o := range list {
			if !test.holds(o) {
				t.Errorf("%s: %s with %d × %q came through", name, o.Name(), o.GPUs, o.GPU)
			}
			if i > 0 && list[i-1].Price() > o.Price() {
				t.Errorf("%s: %s at %g before %s at %g", name, list[i-1].Name(), list[i-1].Price(), o.Name(), o.Price())
			}
		}
	}
	if list := c.Select(Filter{GPU: "abacus"}); len(list) != 0 {
		t.Errorf("an unknown GPU: %d offers", len(list))
	}
}

package cost

import (
	"compress/gzip"
	"encoding/csv"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"trainopt/resources"
)

func near(a, b USD) bool { return math.Abs(float64(a-b)) <= 1e-9*max(1, math.Abs(float64(b))) }

func TestHourlyAndSplit(t *testing.T) {
	units := Rates{GPUHour: 2, CPUHour: 0.1, GiBHour: 0.01}
	whole := units
	whole.Instance = 10
	tests := map[string]struct {
		rates Rates
		a     resources.Allocation
		want  Split
	}{
		"unit prices":                  {units, resources.Allocation{GPUs: 2, CPUs: 10, Memory: 100}, Split{4, 1, 1, 0}},
		"no GPU":                       {units, resources.Allocation{CPUs: 4, Memory: 8}, Split{0, 0.4, 0.08, 0}},
		"nothing":                      {units, resources.Allocation{}, Split{}},
		"negative counts as none":      {units, resources.Allocation{GPUs: -1, CPUs: -1, Memory: -1}, Split{}},
		"whole machine, part of it":    {whole, resources.Allocation{GPUs: 2, CPUs: 10, Memory: 100}, Split{4, 1, 1, 4}},
		"whole machine, nothing":       {whole, resources.Allocation{}, Split{Rest: 10}},
		"whole machine, no unit price": {Rates{Instance: 10}, resources.Allocation{GPUs: 2, CPUs: 10}, Split{Rest: 10}},
		"parts above the price":        {whole, resources.Allocation{GPUs: 8, CPUs: 20, Memory: 200}, Split{8, 1, 1, 0}},
	}
	for name, test := range tests {
		got := test.rates.HourlySplit(test.a)
		if !near(got.GPU, test.want.GPU) || !near(got.CPU, test.want.CPU) || !near(got.Memory, test.want.Memory) || !near(got.Rest, test.want.Rest) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if !near(test.rates.Hourly(test.a), got.Sum()) {
			t.Errorf("%s: hourly %g is not the sum of its parts %g", name, test.rates.Hourly(test.a), got.Sum())
		}
	}
}

// bad prices are rejected: 0, negative, missing, placeholder, stale.
// TestUnknownPrices: an unknown price makes only those amounts unknown that need it.
func TestUnknownPrices(t *testing.T) {
	r := Rates{GPUHour: USD(math.NaN()), CPUHour: 0.5, GiBHour: 0.25}
	if r.Known() || !(Rates{CPUHour: 1}).Known() {
		t.Error("rates with an unknown price are known, or others are not")
	}
	if got := r.Hourly(resources.Allocation{CPUs: 2, Memory: 4}); got != 2 {
		t.Errorf("without GPUs %v, want 2", got)
	}
	if got := r.Hourly(resources.Allocation{GPUs: 1, CPUs: 2, Memory: 4}); !math.IsNaN(float64(got)) {
		t.Errorf("with a GPU of unknown price %v, want NaN", got)
	}
}

func TestBadPricesAreRefused(t *testing.T) {
	good := Rates{GPUHour: 1, CPUHour: 0.03, GiBHour: 0.003, Source: "test", Dated: "2026-07-20"}
	tests := map[string]struct {
		change func(*Rates)
		says   []string
	}{
		"good":            {func(*Rates) {}, nil},
		"GPU price 0":     {func(r *Rates) { r.GPUHour = 0 }, nil},
		"all 0":           {func(r *Rates) { *r = Rates{Source: "x", Dated: "2026-01-01"} }, []string{"all prices are 0"}},
		"negative":        {func(r *Rates) { r.CPUHour = -0.1 }, []string{"cpu_hour -0.1 USD/h is negative"}},
		"not a number":    {func(r *Rates) { r.GiBHour = USD(math.NaN()) }, []string{"gib_hour is not a number"}},
		"infinite":        {func(r *Rates) { r.Instance = USD(math.Inf(1)) }, []string{"instance_hour is infinite"}},
		"sentinel 700":    {func(r *Rates) { r.Instance = 700 }, []string{"not available"}},
		"implausible":     {func(r *Rates) { r.GPUHour = 101 }, []string{"not plausible"}},
		"no date, source": {func(r *Rates) { r.Dated, r.Source = "", "" }, []string{"dated is missing", "source is missing"}},
		"bad date":        {func(r *Rates) { r.Dated = "20.07.2026" }, []string{`"20.07.2026" is not a date`}},
		"everything": {func(r *Rates) { *r = Rates{GPUHour: -1, CPUHour: -1, GiBHour: -1, Instance: -1} },
			[]string{"gpu_hour", "cpu_hour", "gib_hour", "instance_hour", "source", "dated"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := good
			test.change(&r)
			err := r.Validate()
			if (err != nil) != (test.says != nil) {
				t.Fatalf("error %v, want %q", err, test.says)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	day := func(s string) time.Time { d, _ := time.Parse(time.DateOnly, s); return d }
	r := Default("Tesla T4")
	if w := r.Warnings(day("2026-08-01")); len(w) != 0 {
		t.Errorf("fresh prices: %q", w)
	}
	if w := r.Warnings(day("2027-07-20")); len(w) != 1 || !strings.Contains(w[0], "365 days old") {
		t.Errorf("stale prices: %q", w)
	}
	if w := r.Warnings(day("2025-01-01")); len(w) != 1 || !strings.Contains(w[0], "future") {
		t.Errorf("prices of the future: %q", w)
	}
	// The default prices of the ancestor, which overprice a machine by a factor of 80.
	r = Rates{GPUHour: 10, CPUHour: 3, GiBHour: 2, Source: "x", Dated: "2026-07-20"}
	if w := r.Warnings(day("2026-08-01")); len(w) != 2 || r.Validate() != nil {
		t.Errorf("unusual prices: %q, %v", w, r.Validate())
	}
	if w := Default("Radeon Pro V620").Warnings(day("2026-08-01")); len(w) != 1 || !strings.Contains(w[0], "Radeon Pro V620") || !strings.Contains(w[0], "--gpu-hour") {
		t.Errorf("unknown GPU: %q", w)
	}
}

func TestGPUModel(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB": "A100 40GB", "NVIDIA A100 80GB PCIe": "A100 80GB", "NVIDIA A100-SXM4-80GB MIG 1g.10gb": "A100 80GB",
		"Tesla T4": "T4", "NVIDIA L4": "L4", "NVIDIA L40S": "L40S", "NVIDIA A10G": "A10G", "NVIDIA A10": "A10",
		"Tesla V100-SXM2-16GB": "V100 16GB", "Tesla V100-SXM2-32GB": "V100 32GB", "Tesla V100S-PCIE-32GB": "V100 32GB",
		"NVIDIA H100 80GB HBM3": "H100", "NVIDIA H100 NVL": "H100", "NVIDIA H200": "H200", "NVIDIA B200": "B200", "NVIDIA GB200": "GB200",
		"NVIDIA RTX A6000": "A6000", "Quadro RTX 6000": "RTX 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX PRO 6000",
		"NVIDIA GeForce RTX 4090": "RTX 4090", "NVIDIA RTX 5000 Ada Generation": "RTX 5000 Ada", "Quadro RTX 5000": "RTX 5000", "": "",
	} {
		if got := GPUModel(name); got != want {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
	}
	whole, slice := Default("NVIDIA A100-SXM4-40GB"), Default("NVIDIA A100-SXM4-40GB MIG 3g.20gb")
	if !near(slice.GPUHour, round(whole.GPUHour*3/7, 5)) {
		t.Errorf("3 of 7 slices cost %g, the device %g", slice.GPUHour, whole.GPUHour)
	}
}

// The unit prices of every GPU of the AWS table reproduce the price of every machine with it within 15 %; p4d within
// 1 %.
func TestDefaultRatesPriceRealMachines(t *testing.T) {
	offers, err := Offers()
	if err != nil {
		t.Fatal(err)
	}
	worst, worstName, n := 0.0, "", 0
	for _, o := range offers {
		r := Default(o.GPU)
		if err := r.Validate(); err != nil {
			t.Errorf("%s: default rates: %v", o.Name(), err)
		}
		if o.Cloud != "aws" || gpuRates[o.GPU].listed {
			continue
		}
		n++
		e := float64(r.Hourly(resources.Allocation{GPUs: o.GPUs, CPUs: o.CPUs, Memory: o.Memory})/o.OnDemand) - 1
		t.Logf("%-18s %9.4f USD/h, error %+5.1f %%", o.Type, o.OnDemand, 100*e)
		if math.Abs(e) > math.Abs(worst) {
			worst, worstName = e, o.Type
		}
		if math.Abs(e) > 0.15 || (o.Type == "p4d.24xlarge" && math.Abs(e) > 0.01) {
			t.Errorf("%s costs %.4f USD/h; the unit rates are %+.1f %% off", o.Type, o.OnDemand, 100*e)
		}
	}
	if n < 60 {
		t.Errorf("only %d machines were priced", n)
	}
	t.Logf("largest error of %d machines: %s, %+.1f %%", n, worstName, 100*worst)
}

func priceData(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open("../../shared/data/prices/" + name)
	if err != nil {
		t.Skipf("the price lists are not at hand: %v", err)
	}
	defer f.Close()
	var r *csv.Reader
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		r = csv.NewReader(z)
	} else {
		r = csv.NewReader(f)
	}
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

// leastSquares fits price = a·x + b·y in relative error.
func leastSquares(rows [][3]float64) (a, b float64) {
	var xx, xy, yy, x1, y1 float64
	for _, r := range rows {
		x, y := r[0]/r[2], r[1]/r[2]
		xx, xy, yy, x1, y1 = xx+x*x, xy+x*y, yy+y*y, x1+x, y1+y
	}
	det := xx*yy - xy*xy
	return (x1*yy - y1*xy) / det, (y1*xx - x1*xy) / det
}

// The derivation of generalCPUHour, generalGiBHour and gpuRates from the price lists, step by step.
func TestDefaultRatesDerivation(t *testing.T) {
	parse := func(s string) float64 { v, _ := strconv.ParseFloat(s, 64); return v }
	general := regexp.MustCompile(`^[cmr][678]i\.`)
	var hosts [][3]float64
	for _, row := range priceData(t, "aws_ondemand.csv.gz") {
		if name := row[2]; general.MatchString(name) && !strings.Contains(name, "metal") {
			hosts = append(hosts, [3]float64{parse(row[6]), parse(row[7]) / 1024, parse(row[11])})
		}
	}
	cpu, gib := leastSquares(hosts)
	if len(hosts) != 87 || math.Abs(cpu-float64(generalCPUHour)) > 5e-5 || math.Abs(gib-float64(generalGiBHour)) > 5e-6 {
		t.Errorf("general prices from %d sizes: %.5f per CPU, %.6f per GiB; embedded %g, %g", len(hosts), cpu, gib, generalCPUHour, generalGiBHour)
	}
	for _, h := range hosts {
		if e := (float64(generalCPUHour)*h[0]+float64(generalGiBHour)*h[1])/h[2] - 1; math.Abs(e) > 0.071 {
			t.Errorf("a general machine %v is priced %+.1f %% off", h, 100*e)
		}
	}

	// Each GPU model in turn, over the AWS rows of the embedded table (compared with the list in
	// TestOffersAreTheListsFigures).
	host := func(cpus, gib float64) float64 { return float64(generalCPUHour)*cpus + float64(generalGiBHour)*gib }
	offers, err := Offers()
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string][][3]float64{} // GPUs, host price, price
	shapes := map[string]map[string]bool{}
	for _, o := range offers {
		if o.Cloud != "aws" || o.GPU == "" {
			continue
		}
		h := host(float64(o.CPUs), float64(o.Memory))
		sizes[o.GPU] = append(sizes[o.GPU], [3]float64{float64(o.GPUs), h, float64(o.OnDemand)})
		if shapes[o.GPU] == nil {
			shapes[o.GPU] = map[string]bool{}
		}
		shapes[o.GPU][strconv.FormatFloat(h/float64(o.GPUs), 'f', 5, 64)] = true
	}
	for model, embedded := range gpuRates {
		if embedded.listed {
			continue
		}
		var hour, scale float64
		if rows := sizes[model]; len(shapes[model]) >= 3 {
			hour, scale = leastSquares(rows)
		} else {
			var up, down float64
			for _, r := range rows {
				up += r[0] / r[2] * (1 - r[1]/r[2])
				down += r[0] / r[2] * r[0] / r[2]
			}
			hour, scale = up/down, 1
		}
		if math.Abs(hour-float64(embedded.hour)) > 6e-4 || math.Abs(scale-embedded.host) > 6e-4 {
			t.Errorf("%s: %.4f per GPU, host ×%.4f; embedded %g, ×%g", model, hour, scale, embedded.hour, embedded.host)
		}
	}

	rests := map[string][]float64{}
	for _, row := range priceData(t, "cloud-gpus.csv") {
		name, _, _ := strings.Cut(row[1], " (")
		if name == "RTX5000" {
			name = "RTX 5000"
		}
		price, gpus, cpus, ram := parse(row[7]), parse(row[3]), parse(row[5]), parse(row[6])
		if h := host(cpus, ram); gpus > 0 && cpus > 0 && ram > 0 && h <= 0.6*price {
			rests[name] = append(rests[name], (price-h)/gpus)
		}
	}
	for model, embedded := range gpuRates {
		if !embedded.listed {
			continue
		}
		list := rests[model]
		slices.Sort(list)
		if len(list) == 0 {
			t.Errorf("%s is not on the list", model)
			continue
		}
		mid := (list[(len(list)-1)/2] + list[len(list)/2]) / 2
		if math.Abs(mid-float64(embedded.hour)) > 6e-4 {
			t.Errorf("%s: median %.4f of %d offers; embedded %g", model, mid, len(list), embedded.hour)
		}
	}
}

// Every on-demand price of the embedded AWS and Azure rows equals the figure in its list.
func TestOffersAreTheListsFigures(t *testing.T) {
	listed := map[string]float64{}
	for _, row := range priceData(t, "aws_ondemand.csv.gz") {
		listed["aws:"+row[2]], _ = strconv.ParseFloat(row[11], 64)
	}
	for _, row := range priceData(t, "azure_ondemand_n_series.csv.gz") {
		if row[1] == "eastus" {
			listed["azure:"+row[2]], _ = strconv.ParseFloat(row[3], 64)
		}
	}
	offers, err := Offers()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offers {
		if o.Cloud != "aws" && o.Cloud != "azure" {
			continue
		}
		if price := listed[o.Name()]; math.Abs(price/float64(o.OnDemand)-1) > 1e-5 {
			t.Errorf("%s: %g USD/h, the list says %g", o.Name(), o.OnDemand, price)
		}
	}
}

// TestQuotaOfCPUs: an allocation of all whole CPUs of a fractional quota pays for the quota, any other one for its CPUs.
func TestQuotaOfCPUs(t *testing.T) {
	for _, c := range []struct {
		quota float64
		cpus  int
		want  float64 // CPUs
	}{{0, 3, 3}, {0.5, 1, 0.5}, {1.5, 1, 1.5}, {2.5, 1, 1}, {2.5, 2, 2.5}, {2.5, 8, 8}, {0.5, 0, 0}} {
		r := Rates{CPUHour: 2, CPUQuota: c.quota}
		if have := float64(r.Hourly(resources.Allocation{CPUs: c.cpus})); math.Abs(have-2*c.want) > 1e-9 {
			t.Errorf("%d CPUs of a quota of %g: %g USD/h, want %g", c.cpus, c.quota, have, 2*c.want)
		}
	}
}

// TestRatesOfSeveralMachines: the rates of each of several machines are those from which the rates of all were made.
func TestRatesOfSeveralMachines(t *testing.T) {
	one := Rates{GPUHour: 2, CPUHour: 0.5, GiBHour: USD(math.NaN()), Instance: 3, Source: "a list", Dated: "2026-05-01"}
	for _, n := range []int{0, 1, 2, 7} {
		all := one.Times(n)
		if want := 3 * USD(max(1, n)); !near(all.Instance, want) || strings.Contains(all.Source, "each") != (n > 1) {
			t.Errorf("%d machines: %+v, want $%v", n, all, want)
		}
		got := all.Each(n)
		if !near(got.GPUHour, 2) || !near(got.CPUHour, 0.5) || !math.IsNaN(float64(got.GiBHour)) || !near(got.Instance, 3) || got.Source != one.Source || got.Dated != one.Dated {
			t.Errorf("each of %d: %+v, want %+v", n, got, one)
		}
	}
}

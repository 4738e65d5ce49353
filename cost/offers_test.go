package cost

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/resources"
)

// ratesSample is a documented rates file that LoadRates accepts.
const ratesSample = `# Prices in USD. Either the three unit prices, or instance_hour for the whole machine.
gpu_hour: 1.10      # per GPU and hour
cpu_hour: 0.037     # per logical CPU and hour
gib_hour: 0.0036    # per GiB of host memory and hour
# instance_hour: 21.96
source: contract with our provider
dated: 2026-07-01   # the day of the prices
`

func TestEmbeddedOffersAreSound(t *testing.T) {
	offers, err := Offers()
	if err != nil {
		t.Fatal(err)
	}
	if len(offers) < 60 {
		t.Errorf("%d offers", len(offers))
	}
	spot := 0
	for _, o := range offers {
		if o.Dated == "" || o.Source == "" || (o.Spot > 0) != (o.SpotDated != "") {
			t.Errorf("%s: source %q of %q, spot %g of %q", o.Name(), o.Source, o.Dated, o.Spot, o.SpotDated)
		}
		if o.GPU != "" && GPUModel(o.GPU) != o.GPU {
			t.Errorf("%s: GPU %q is not a canonical name", o.Name(), o.GPU)
		}
		whole := resources.Allocation{GPUs: o.GPUs, CPUs: o.CPUs, Memory: o.Memory}
		for _, s := range []bool{false, true} {
			if s && o.Spot == 0 {
				continue
			}
			o.UseSpot = s
			r := o.Rates()
			if err := r.Validate(); err != nil {
				t.Errorf("%s: %v", o.Name(), err)
			}
			units := r
			units.Instance = 0
			if !near(r.Hourly(resources.Allocation{CPUs: 1}), o.Price()) || !near(units.Hourly(whole), o.Price()) {
				t.Errorf("%s: part of it %g, units of the whole %g, price %g", o.Name(), r.Hourly(resources.Allocation{CPUs: 1}), units.Hourly(whole), o.Price())
			}
		}
		if o.Spot > 0 {
			spot++
		}
	}
	if spot < 20 {
		t.Errorf("%d spot prices", spot)
	}
	offers[0].OnDemand = -1
	if again, _ := Offers(); again[0].OnDemand < 0 {
		t.Error("the table can be changed from outside")
	}
}

func TestLookup(t *testing.T) {
	tests := map[string]struct {
		want  USD
		name  string
		error string
	}{
		"aws:p4d.24xlarge":               {21.9576, "aws:p4d.24xlarge", ""},
		" AWS:P4D.24xlarge ":             {21.9576, "aws:p4d.24xlarge", ""},
		"aws:p4d.24xlarge:spot":          {9.83, "aws:p4d.24xlarge:spot", ""},
		"aws:p4d.24xlarge:ondemand":      {21.9576, "aws:p4d.24xlarge", ""},
		"azure:NC24ads_A100_v4":          {3.673, "azure:Standard_NC24ads_A100_v4", ""},
		"azure:standard nc24ads a100 v4": {3.673, "azure:Standard_NC24ads_A100_v4", ""},
		"lambda:1x-h100":                 {1.99, "lambda:1x-h100", ""},
		"aws:p5.48xlarge:spot":           {0, "", "spot price of aws:p5.48xlarge is unknown (on demand it is $55.04"},
		"aws:p4d.24xlrge":                {0, "", "nearest are aws:p4d.24xlarge"},
		"p4d.24xlarge":                   {0, "", "nearest are aws:p4d.24xlarge"},
		"gpc:a2-highgpu-8g":              {0, "", "gcp:a2-highgpu-8g"},
		"aws:p4d.24xlarge:cheap":         {0, "", "want CLOUD:TYPE"},
		"aws:p4d:24xlarge:spot":          {0, "", "want CLOUD:TYPE"},
		"":                               {0, "", "nearest are"},
	}
	for name, test := range tests {
		o, err := Lookup(name)
		if test.error != "" {
			if err == nil || !errors.Is(err, ErrNoOffer) || !strings.Contains(err.Error(), test.error) {
				t.Errorf("%q: %v, want an error with %q", name, err, test.error)
			}
			continue
		}
		if err != nil || !near(o.Price(), test.want) || o.Name() != test.name {
			t.Errorf("%q: %s at %g, %v; want %s at %g", name, o.Name(), o.Price(), err, test.name, test.want)
		}
	}
}

func TestOfferDescribesAHost(t *testing.T) {
	o, err := Lookup("aws:p4d.24xlarge:spot")
	if err != nil {
		t.Fatal(err)
	}
	h := o.Host()
	if h.CPUs != 96 || len(h.CPUIDs) != 96 || h.Memory != 1152 || len(h.GPUs) != 8 || h.Described != "aws:p4d.24xlarge" || len(h.Notes) == 0 {
		t.Errorf("host %+v", h)
	}
	ids := map[string]bool{}
	for i, g := range h.GPUs {
		if ids[g.UUID] || g.UUID == "" || g.Index != i || g.Memory != 40 || Default(g.Name).Assumed != "" {
			t.Errorf("GPU %+v", g)
		}
		ids[g.UUID] = true
	}
	if r := o.Rates(); r.Dated != "2025-03-07" || !strings.Contains(r.Source, "spot") {
		t.Errorf("spot rates are %q of %s", r.Source, r.Dated)
	}
}

// Every bad row of the table is named, and the good rows are kept.
func TestBadOffersAreRefused(t *testing.T) {
	const head = "cloud,type,gpu,gpus,gpu_gib,vcpus,ram_gib,on_demand,spot,source\n"
	tests := map[string]struct{ row, says string }{
		"price 0":              {"aws,a,T4,1,16,4,16,0,,aws-2026-07", "on-demand price is 0"},
		"price missing":        {"aws,a,T4,1,16,4,16,,,aws-2026-07", "on-demand price is 0"},
		"price negative":       {"aws,a,T4,1,16,4,16,-1,,aws-2026-07", "negative"},
		"price NaN":            {"aws,a,T4,1,16,4,16,NaN,,aws-2026-07", "not a number"},
		"price a word":         {"aws,a,T4,1,16,4,16,free,,aws-2026-07", `on_demand "free" is not a number`},
		"sentinel":             {"aws,a,T4,1,16,4,16,700,,aws-2026-07", "not available"},
		"spot above on-demand": {"aws,a,T4,1,16,4,16,1,1.2,aws-2026-07", "not below the on-demand"},
		"spot equals it":       {"aws,a,T4,1,16,4,16,1,1,aws-2026-07", "not below the on-demand"},
		"spot sentinel":        {"aws,a,T4,1,16,4,16,1,700,aws-2026-07", "spot price 700"},
		"no source":            {"aws,a,T4,1,16,4,16,1,,", `source "" is not known`},
		"no CPUs":              {"aws,a,T4,1,16,,16,1,,aws-2026-07", "0 CPUs"},
		"half a GPU":           {"aws,a,T4,0.5,16,4,16,1,,aws-2026-07", "not a count"},
		"GPU without model":    {"aws,a,,1,16,4,16,1,,aws-2026-07", "1 GPUs of model"},
		"listed twice":         {"aws,good,T4,1,16,4,16,1,,aws-2026-07", "listed twice"},
	}
	for name, test := range tests {
		offers, err := parseOffers(strings.NewReader(head + "aws,good,T4,1,16,4,16,1,0.3,aws-2026-07\n" + test.row + "\n"))
		if err == nil || !strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v, want line 3 and %q", name, err, test.says)
		}
		if len(offers) != 1 || offers[0].Type != "good" {
			t.Errorf("%s: kept %+v, want the good row", name, offers)
		}
	}
	for _, table := range []string{"", "cloud,type\n", head + "a,b\n", head + "\"\n"} {
		if _, err := parseOffers(strings.NewReader(table)); err == nil {
			t.Errorf("table %q was taken", table)
		}
	}
}

func TestLoadRates(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "rates.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r, err := LoadRates(file(ratesSample))
	if want := (Rates{GPUHour: 1.10, CPUHour: 0.037, GiBHour: 0.0036, Source: "contract with our provider", Dated: "2026-07-01"}); err != nil || r != want {
		t.Errorf("the sample: %+v, %v; want %+v", r, err, want)
	}
	r, err = LoadRates(file(`{"instance_hour": 21.96, "source": "list", "dated": "2026-07-20"}`))
	if want := (Rates{Instance: 21.96, Source: "list", Dated: "2026-07-20"}); err != nil || r != want {
		t.Errorf("JSON: %+v, %v; want %+v", r, err, want)
	}
	const tail = "source: x\ndated: 2026-07-20\n"
	for name, test := range map[string]struct {
		text string
		says []string
	}{
		"empty":               {"", []string{"empty", "gpu_hour"}},
		"only a comment":      {"# nothing\n", []string{"gpu_hour"}},
		"not YAML":            {"gpu_hour: [", []string{"yaml"}},
		"a list":              {"- 1\n", []string{"key: value"}},
		"two documents":       {"gpu_hour: 1\n" + tail + "---\ngpu_hour: 2\n", []string{"more than one document"}},
		"unknown key":         {"gpu_our: 1\n" + tail, []string{`line 1: unknown key "gpu_our"; the nearest known is "gpu_hour"`}},
		"twice":               {"gpu_hour: 1\ngpu_hour: 2\n" + tail, []string{"line 2: gpu_hour is given twice"}},
		"a word":              {"gpu_hour: cheap\n" + tail, []string{`"cheap" is not a number`}},
		"a number in quotes":  {"gpu_hour: \"1\"\n" + tail, []string{"not a number"}},
		"decimal comma":       {"gpu_hour: 1,5\n" + tail, []string{"not a number"}},
		"nan":                 {"gpu_hour: .nan\n" + tail, []string{"gpu_hour is not a number"}},
		"infinite":            {"gpu_hour: .inf\n" + tail, []string{"infinite"}},
		"nothing for a price": {"gpu_hour:\n" + tail, []string{"not a number"}},
		"both kinds":          {"gpu_hour: 1\ninstance_hour: 3\n" + tail, []string{"one or the other"}},
		"no price":            {tail, []string{"no price is given"}},
		"all at once":         {"gpu_hour: -1\ncpu_hour: x\nprice: 3\n", []string{"negative", "not a number", "unknown key", "source is missing", "dated is missing"}},
	} {
		r, err := LoadRates(file(test.text))
		if err == nil || r != (Rates{}) {
			t.Errorf("%s: %+v, %v", name, r, err)
			continue
		}
		for _, part := range append(test.says, "rates.yaml") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q does not say %q", name, err, part)
			}
		}
	}
	if _, err := LoadRates(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	if _, err := LoadRates(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
	if _, err := parseRates(make([]byte, maxRatesFile+1)); err == nil {
		t.Error("a huge file was read")
	}
}

func FuzzParseRates(f *testing.F) {
	f.Add([]byte(ratesSample))
	f.Add([]byte(`{"instance_hour": 21.96, "source": "list", "dated": "2026-07-20"}`))
	f.Add([]byte("gpu_hour: &a 1\ncpu_hour: *a\n<<: {gib_hour: 1}\n? [a]\n: b\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRates(data)
		if err == nil && r.Validate() != nil {
			t.Errorf("took %+v, which is not valid: %v", r, r.Validate())
		}
		if err != nil && r != (Rates{}) {
			t.Errorf("an error and %+v", r)
		}
	})
}

func FuzzLookup(f *testing.F) {
	for _, s := range []string{"aws:p4d.24xlarge", "aws:p4d.24xlarge:spot", "azure:NC24ads_A100_v4", ":::", "é:ü", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		o, err := Lookup(name)
		if (err == nil) == (o == Offer{}) {
			t.Fatalf("%q: %+v, %v", name, o, err)
		}
		if err == nil && (!(o.Price() > 0) || o.Validate() != nil) {
			t.Errorf("%q: price %g, %v", name, o.Price(), o.Validate())
		}
	})
}

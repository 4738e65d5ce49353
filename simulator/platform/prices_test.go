package platform

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/cost"
)

func TestPrices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.csv")
	if err := os.WriteFile(file, []byte("kind,usd_hour,source,dated\nV100,1.5,our contract,2026-07-01\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	tests := map[string]struct {
		list     string
		v100     [2]float64 // at least, at most
		k80      float64    // NaN is not known
		from     string
		unpriced string
	}{
		"Gavel's":          {"gavel", [2]float64{0.74, 0.74}, 0.135, "preemptible", "abacus"},
		"Gavel's notebook": {"gavel-on-demand", [2]float64{2.85, 2.85}, 0.52, "on demand", "abacus"},
		"a file":           {file, [2]float64{1.5, 1.5}, nan, "our contract, 2026-07-01", "abacus,k80"},
		"the catalogue":    {"catalogue", [2]float64{0.1, 3.1}, 0.45, "accelerators", "abacus"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("v100=1,k80=1,abacus=1", nil)
			if err != nil {
				t.Fatal(err)
			}
			list, err := Prices(test.list)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.Price(list), ","); got != test.unpriced {
				t.Errorf("no price for %q, want %q", got, test.unpriced)
			}
			v := c[2]
			if v.USDHour < test.v100[0] || v.USDHour > test.v100[1] || !strings.Contains(v.PriceFrom, test.from) {
				t.Errorf("v100: got %v USD from %q", v.USDHour, v.PriceFrom)
			}
			if known := !math.IsNaN(c[1].USDHour); known == math.IsNaN(test.k80) || known && test.list != "catalogue" && c[1].USDHour != test.k80 {
				t.Errorf("k80: got %v USD, want %v", c[1].USDHour, test.k80)
			}
			if a := c[0]; !math.IsNaN(a.USDHour) || a.PriceFrom != "" || !math.IsNaN(a.Watts) {
				t.Errorf("an unknown kind: got %+v", a)
			}
		})
	}
}

func TestCatalogueGivesTheCheapest(t *testing.T) {
	offers, err := cost.Offers()
	if err != nil {
		t.Fatal(err)
	}
	list, err := Prices("catalogue")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("v100=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Price(list)
	found := false
	for _, o := range offers {
		if o.GPU != "V100 16GB" || !(o.OnDemand > 0) {
			continue
		}
		each := float64(o.OnDemand) / float64(o.GPUs)
		if found = found || each == c[0].USDHour; each < c[0].USDHour {
			t.Errorf("%s is %v USD an hour each, the price found is %v", o.Name(), each, c[0].USDHour)
		}
	}
	if !found {
		t.Errorf("no offer costs the price found, %v USD from %s", c[0].USDHour, c[0].PriceFrom)
	}
}

func TestPriceListsThatAreRefused(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"empty":      {"", "header"},
		"no price":   {"kind,euro\n", "want kind and usd_hour"},
		"no rows":    {"kind,usd_hour\n", "no row"},
		"negative":   {"kind,usd_hour\nv100,-1\n", "line 2"},
		"not number": {"kind,usd_hour\n\nv100,NaN\n", "line 3"},
		"infinite":   {"kind,usd_hour\nv100,1e999\n", "line 2"},
		"twice":      {"kind,usd_hour\nv100,1\nV100,2\n", "line 3"},
		"short row":  {"kind,usd_hour\nv100\n", "line 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readPrices(strings.NewReader(test.text), "p.csv")
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "p.csv") {
				t.Errorf("got %v, want words with %q and the file", err, test.want)
			}
		})
	}
	if _, err := Prices("gavle"); err == nil || !strings.Contains(err.Error(), "gavel-on-demand") {
		t.Errorf("an unknown list: got %v, want the names that there are", err)
	}
}

func FuzzReadPrices(f *testing.F) {
	f.Add("kind,usd_hour,source,dated\nV100,1.5,our contract,2026-07-01\n")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := readPrices(strings.NewReader(s), "p.csv")
		for kind, p := range list.Kinds {
			if err == nil && (kind == "" || !(p.USDHour > 0)) {
				t.Errorf("%q: got %+v for %q", s, p, kind)
			}
		}
	})
}

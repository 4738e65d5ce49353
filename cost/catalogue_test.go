package cost

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func importText(t *testing.T, state, text string, o ImportOptions) Imported {
	t.Helper()
	o.Today = today
	got, err := Import(state, write(t, filepath.Join(t.TempDir(), "list.csv"), text), o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestImportNewerOverOlder(t *testing.T) {
	const line = "aws,us-east-1,use1-az1,p4d.24xlarge,A100,8,40960,96,1152,"
	type price struct {
		onDemand, spot   USD
		dated, spotDated string
		imported         bool
	}
	embeddedPrice := price{21.9576, 9.83, "2026-07-20", "2025-03-07", false}
	tests := map[string]struct {
		row, dated, what string
		want             price
	}{
		"older without spot":                               {line + "32.77,", "2025-01-01", "older", embeddedPrice},
		"older, older spot":                                {line + "32.77,8", "2025-01-01", "older", embeddedPrice},
		"older, newer spot":                                {line + "32.77,8", "2026-01-01", "replaced", price{21.9576, 8, "2026-07-20", "2026-01-01", true}},
		"newer without spot":                               {line + "20,", "2026-07-25", "replaced", price{20, 9.83, "2026-07-25", "2025-03-07", true}},
		"newer with spot":                                  {line + "20,7", "2026-07-25", "replaced", price{20, 7, "2026-07-25", "2026-07-25", true}},
		"newer, below the spot":                            {line + "9,", "2026-07-25", "replaced", price{9, 0, "2026-07-25", "", true}},
		"same day, same price":                             {line + "21.9576,", "2026-07-20", "unchanged", embeddedPrice},
		"same day, an other one":                           {line + "22,", "2026-07-20", "replaced", price{22, 9.83, "2026-07-20", "2025-03-07", true}},
		"older with a newer spot that is above what holds": {line + "32.77,25", "2026-01-01", "older", embeddedPrice},
	}
	for name, test := range tests {
		state := t.TempDir()
		got := importText(t, state, zonesHead+test.row+"\n", ImportOptions{ListOptions: ListOptions{Dated: test.dated}})
		if len(got.Changes) != 1 || got.Changes[0].What != test.what || got.Count(test.what) != 1 {
			t.Errorf("%s: %+v", name, got.Changes)
		}
		c, err := OpenCatalogue(state)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o, err := c.Lookup("aws:p4d.24xlarge")
		if is := (price{o.OnDemand, o.Spot, o.Dated, o.SpotDated, o.Imported}); err != nil || is != test.want {
			t.Errorf("%s: %+v, %v; want %+v", name, is, err, test.want)
		}
		if len(c.Offers) != len(embedded(t).Offers) {
			t.Errorf("%s: %d offers", name, len(c.Offers))
		}
	}
}

// TestImportedPricesArePrivate: a new state directory and price file are readable by their owner only; an existing file
// keeps its mode.
func TestImportedPricesArePrivate(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(state, priceFile)
	mode := func(path string, want os.FileMode) {
		t.Helper()
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", path, st, err, want)
		}
	}
	importText(t, state, zonesHead+"aws,us-east-1,use1-az1,p4d.24xlarge,A100,8,40960,96,1152,20,\n", ImportOptions{ListOptions: ListOptions{Dated: "2026-07-25"}})
	mode(state, 0o700)
	mode(path, 0o600)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	importText(t, state, zonesHead+"aws,us-east-1,use1-az1,p4d.24xlarge,A100,8,40960,96,1152,19,\n", ImportOptions{ListOptions: ListOptions{Dated: "2026-07-26"}})
	mode(path, 0o644)
}

func TestImportsAddUp(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state") // created when needed
	first := importText(t, state, ownHead+"ours,node-7,L4,2,24,32,128,1.5,2026-05-05,contract,,\n", ImportOptions{})
	second := importText(t, state, ownHead+"ours,node-8,L4,4,24,64,256,3,2026-05-05,contract,1,2026-06-06\nours,node 7,L4,2,24,32,128,1.4,2026-05-06,contract,,\n", ImportOptions{})
	if first.Count("added") != 1 || second.Count("added") != 1 || second.Count("replaced") != 1 || second.Changes[0].Old.OnDemand != 1.5 {
		t.Errorf("first %+v, second %+v", first.Changes, second.Changes)
	}
	before, err := os.ReadFile(filepath.Join(state, priceFile))
	if err != nil {
		t.Fatal(err)
	}
	dry := importText(t, state, ownHead+"ours,node-9,L4,4,24,64,256,3,2026-05-05,contract,,\n", ImportOptions{DryRun: true})
	if after, _ := os.ReadFile(filepath.Join(state, priceFile)); dry.Count("added") != 1 || !bytes.Equal(before, after) {
		t.Errorf("a dry run: %+v, or the file changed", dry.Changes)
	}
	c, err := OpenCatalogue(state)
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Lookup("ours:node-8:spot")
	if err != nil || o.Price() != 1 || o.Rates().Dated != "2026-06-06" || !strings.Contains(o.Rates().Source, "contract") || !o.Imported {
		t.Errorf("%+v, %v", o, err)
	}
	if o, _ := c.Lookup("ours:node-7"); o.OnDemand != 1.4 {
		t.Errorf("node-7 costs %g", o.OnDemand)
	}
	if _, err := c.Lookup("ours:node-6"); !errors.Is(err, ErrNoOffer) || !strings.Contains(err.Error(), "nearest are ours:node-") {
		t.Errorf("nearest: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(state, "*")); len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}
	// The written file is itself a list that can be imported elsewhere.
	moved, err := Import(t.TempDir(), filepath.Join(state, priceFile), ImportOptions{ListOptions: ListOptions{Today: today}})
	if err != nil || moved.Count("added") != 2 || len(moved.Rejected) != 0 {
		t.Errorf("%+v, %v", moved, err)
	}
}

func TestImportRefuses(t *testing.T) {
	dir := t.TempDir()
	undated := write(t, filepath.Join(dir, "undated.csv"), providerHead+"aws,us-east-1,c9.large,,,,2,4096,,1,arm64,0.09\n")
	if err := os.Chtimes(undated, today, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	nothing := write(t, filepath.Join(dir, "nothing.csv"), providerHead+"aws,us-east-1,c9.large,,,,2,4096,,1,arm64,0\n")
	for name, test := range map[string]struct {
		path  string
		dated string
		says  []string
	}{
		"no date: its own is offered, not used": {undated, "", []string{"undated.csv", "--dated YYYY-MM-DD", "last changed on 2026-03-04"}},
		"absent":                                {filepath.Join(dir, "absent.csv"), "2026-07-20", []string{"absent.csv"}},
		"a directory":                           {dir, "2026-07-20", []string{dir}},
		"no row can be used":                    {nothing, "2026-07-20", []string{"none of its 1 rows", "line 2", "on-demand price is 0"}},
	} {
		state := t.TempDir()
		_, err := Import(state, test.path, ImportOptions{ListOptions: ListOptions{Dated: test.dated, Today: today}})
		for _, part := range test.says {
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
		if left, _ := os.ReadDir(state); len(left) != 0 {
			t.Errorf("%s: something was written", name)
		}
	}
}

func TestDamagedPriceFileIsNamed(t *testing.T) {
	whole, err := encodePrices([]Offer{{Cloud: "ours", Type: "n", CPUs: 4, Memory: 16, OnDemand: 0.3, Dated: "2026-07-20", Source: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := decodePrices(whole); err != nil || len(list) != 1 || !list[0].Imported {
		t.Fatalf("a whole file: %+v, %v", list, err)
	}
	flipped := bytes.Replace(whole, []byte("0.3"), []byte("0.2"), 1)
	for name, data := range map[string][]byte{
		"empty": {}, "torn": whole[:len(whole)-4], "only the first line": whole[:bytes.IndexByte(whole, '\n')], "changed": flipped, "foreign": []byte("a,b\n1,2\n"),
		"newer": bytes.Replace(whole, []byte("version 1"), []byte("version 2"), 1), "zeros": make([]byte, 100),
	} {
		state := t.TempDir()
		path := write(t, filepath.Join(state, priceFile), string(data))
		c, err := OpenCatalogue(state)
		if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if c == nil || !slices.Equal(c.Offers, embedded(t).Offers) {
			t.Errorf("%s: without the embedded table", name)
		}
		if _, err := Import(state, write(t, filepath.Join(t.TempDir(), "l.csv"), ownHead+"ours,node-7,L4,2,24,32,128,1.5,2026-05-05,contract,,\n"), ImportOptions{}); !errors.Is(err, errDamaged) {
			t.Errorf("%s: import over it: %v", name, err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(after, data) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func FuzzDecodePrices(f *testing.F) {
	whole, _ := encodePrices([]Offer{{Cloud: "ours", Type: "n", CPUs: 4, Memory: 16, OnDemand: 0.3, Dated: "2026-07-20", Source: "x"}})
	f.Add(whole)
	f.Add([]byte(priceVersion + "00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decodePrices(data)
		if (err != nil) != errors.Is(err, errDamaged) {
			t.Fatalf("%v", err)
		}
		for _, o := range list {
			if err := o.Validate(); err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
		}
	})
}

// The real lists: the newer AWS table takes precedence over the older snapshot, in either order.
func TestImportTheRealLists(t *testing.T) {
	const data = "../../shared/data/prices/"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("the price lists are not at hand: %v", err)
	}
	step := func(state, name, dated string) Imported {
		t.Helper()
		got, err := Import(state, data+name, ImportOptions{ListOptions: ListOptions{Dated: dated, Today: today}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s of %s: %d rows: %d added, %d replaced, %d unchanged, %d older, %d rejected, %d flagged, %d of other regions", name, dated, got.Rows,
			got.Count("added"), got.Count("replaced"), got.Count("unchanged"), got.Count("older"), len(got.Rejected), len(got.Flagged), got.OtherRegionRows)
		if taken := len(got.Changes); taken != got.Count("added")+got.Count("replaced")+got.Count("unchanged")+got.Count("older") {
			t.Errorf("%s: %d changes do not add up", name, taken)
		}
		return got
	}
	// The snapshot has no date; any date before that of the newer list is equivalent.
	const snapshot, newer = "2025-06-01", "2026-07-20"
	for order, first := range map[string]bool{"the snapshot first": true, "the newer list first": false} {
		state := t.TempDir()
		if first {
			step(state, "aws_gpu_spot_by_az.csv", snapshot)
		}
		aws := step(state, "aws_ondemand.csv.gz", newer)
		if aws.Rows != 1367 || len(aws.Rejected) != 21 || len(aws.Changes) != 1346 || aws.Count("unchanged") != 141 { // rejected: 15 without a shape, 6 fractions of a GPU
			t.Errorf("%s: %d rows, %d rejected, %d taken", order, aws.Rows, len(aws.Rejected), len(aws.Changes))
		}
		if !first {
			step(state, "aws_gpu_spot_by_az.csv", snapshot)
		}
		c, err := OpenCatalogue(state)
		if err != nil {
			t.Fatal(err)
		}
		o, err := c.Lookup("aws:p5.48xlarge")
		if err != nil || o.OnDemand != 55.04 || o.Dated != newer || !near(o.Spot, (25.8774+27.6948)/2) || o.SpotLow != 20.9934 || o.SpotHigh != 30.326 ||
			o.SpotZones != 6 || o.SpotDated != snapshot {
			t.Errorf("%s: %+v, %v", order, o, err)
		}
		if o, err := c.Lookup("aws:m5.large"); err != nil || o.OnDemand != 0.096 || !o.Imported {
			t.Errorf("%s: %+v, %v", order, o, err)
		}
	}
	state := t.TempDir()
	azure := step(state, "azure_ondemand_n_series.csv.gz", "2026-06-18")
	if azure.Rows != 1412 || azure.Count("unchanged") != 18 {
		t.Errorf("azure: %+v", azure.Changes)
	}
	cross := step(state, "cloud-gpus.csv", "2025-03-07")
	// Added are the offers that the embedded table lacks: six retired Azure types and the two rows of Lambda that
	// internal/gen/prices.go corrects.
	if cross.Rows != 257 || cross.Count("replaced") != 0 || cross.Count("added") != 8 || cross.Count("older") != 2 || len(cross.Rejected) != 16 {
		t.Errorf("cross-cloud: %d rows, %d rejected", cross.Rows, len(cross.Rejected))
	}
}

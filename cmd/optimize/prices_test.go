package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
	"trainopt/optimizer/run"
)

// onDay is a clock fixed at 2026-08-01.
type onDay struct{ run.SystemClock }

func (onDay) Now() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

// prices runs `optimize prices …` on 2026-08-01 with a terminal of the given width; 0 means no terminal.
func (w *world) prices(width int, args ...string) (code run.Code, stdout, stderr string) {
	w.t.Helper()
	var out, errs bytes.Buffer
	code = execute(&cli.Env{Args: append([]string{"--state-dir", w.state(), "prices"}, args...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Environ: w.environ, Dir: w.dir, Clock: onDay{}, Width: func() int { return width }})
	return code, out.String(), errs.String()
}

const ownPrices = `cloud,type,gpu,gpus,gpu_gib,vcpus,ram_gib,on_demand,dated,source
aws,p4d.24xlarge,A100 40GB,8,40,96,1152,19.5,2026-07-28,price list of July
ours,node-7,L4,2,24,32,128,1.5,2026-07-01,contract
ours,node-8,L4,2,24,32,128,0,2026-07-01,contract
`

func TestPricesFitTheScreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for width, wants := range map[int][]string{0: {"dated", "days"}, 100: {"dated", "days"}, 96: {"days"}, 80: {"spot/h"}} {
		code, out, errs := w.prices(width, "list")
		if code != run.CodeDone || errs != "" {
			t.Fatalf("exit %d: %s", code, errs)
		}
		lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
		for _, line := range lines {
			if most := max(width, 0); utf8.RuneCountInString(line) > most && most > 0 || utf8.RuneCountInString(line) > 100 {
				t.Errorf("on %d columns: %d: %s", width, utf8.RuneCountInString(line), line)
			}
		}
		for _, want := range wants {
			if !strings.Contains(lines[0], want) {
				t.Errorf("on %d columns without %q: %s", width, want, lines[0])
			}
		}
		if foot := lines[len(lines)-1]; !strings.Contains(foot, "machines") || !strings.Contains(foot, "* the price is older than 180 days") {
			t.Errorf("foot %q", foot)
		}
	}
	_, out, _ := w.prices(0, "list", "--cloud", "aws", "--gpu", "a100", "--sort", "name")
	want := `cloud:type         GPUs (GiB each)   vCPU   GiB    $/h  $/GPU-h  spot/h  dated       days
aws:p4d.24xlarge   8×A100 40GB (40)    96  1152  21.96    2.745  9.830*  2026-07-20    12
aws:p4de.24xlarge  8×A100 80GB (80)    96  1152  27.45    3.431          2026-07-20    12
2 of 341 machines; days: price age; * the price is older than 180 days
`
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	if _, plain, _ := w.prices(0, "--cloud", "aws", "--gpu", "a100", "--sort", "name"); plain != out {
		t.Errorf("`prices` alone is not `prices list`:\n%s", plain)
	}
}

func TestPricesFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, out, _ := w.prices(0, "list", "--json", "--spot", "--min-gpus", "8", "--max-hourly", "9.83", "--min-memory", "1000")
	var got struct {
		Schema int
		Offers []struct {
			Name     string
			GPU      *string
			OnDemand struct {
				USD   float64 `json:"usd_per_hour"`
				Dated string
				Age   int `json:"age_days"`
				Stale bool
			} `json:"on_demand"`
			Spot struct {
				USD   float64 `json:"usd_per_hour"`
				Stale bool
				Zones *int
			}
			Imported bool
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Schema != 1 || len(got.Offers) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	if o := got.Offers[0]; o.Name != "aws:p4d.24xlarge" || o.OnDemand.USD != 21.9576 || o.OnDemand.Age != 12 || o.OnDemand.Stale || o.Spot.USD != 9.83 || !o.Spot.Stale ||
		o.Spot.Zones != nil || o.Imported {
		t.Errorf("%+v", o)
	}
	if _, none, _ := w.prices(0, "list", "--json", "--min-gpus", "1000"); !strings.Contains(none, `"offers": []`) {
		t.Errorf("no offers are\n%s", none)
	}
	// The CSV output can be imported.
	_, out, _ = w.prices(0, "list", "--format", "csv", "--cloud", "lambda")
	code, said, errs := w.prices(0, "import", w.write("again.csv", out))
	if code != run.CodeDone || !strings.Contains(said, "0 added, 0 replaced, 11 unchanged") {
		t.Errorf("exit %d: %s%s", code, said, errs)
	}
	_, out, _ = w.prices(0, "show", "aws:P4D.24xlarge")
	for _, part := range []string{"8 × A100 40GB, 40 GiB each", "21.9576 USD/h, 2.7447 per GPU", "of 2026-07-20, 12 days old; AWS on-demand price list", "shares: GPUs 65 % at 1.79, CPUs 16 % at 0.037, memory 19 % at 0.00358 per GiB",
		"9.83 USD/h", "45 % of on demand", "512 days old (out of date after 180)", "embedded table"} {
		if !strings.Contains(out, part) {
			t.Errorf("show says no %q:\n%s", part, out)
		}
	}
	_, out, _ = w.prices(0, "show", "--json", "aws:p4d.24xlarge:spot")
	var shown struct {
		Schema int
		Name   string
		Rates  cost.Rates
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || shown.Schema != 1 || shown.Rates.Instance != 9.83 || shown.Rates.Dated != "2025-03-07" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestImportedPricesCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := w.write("own.csv", ownPrices)
	_, dry, _ := w.prices(0, "import", "--dry-run", list)
	if _, err := os.Stat(filepath.Join(w.state(), "prices.csv")); err == nil || !strings.Contains(dry, "nothing was stored") {
		t.Errorf("a dry run wrote, or does not say so:\n%s", dry)
	}
	code, out, errs := w.prices(0, "import", list)
	for _, part := range []string{"our own, 3 rows", "1 added, 1 replaced, 0 unchanged, 0 older", "aws:p4d.24xlarge 21.9576 of 2026-07-20, spot 9.83 of 2025-03-07 → 19.5 of 2026-07-28",
		"rows rejected: 1", "line 4: ours:node-8: on-demand price is 0"} {
		if code != run.CodeDone || !strings.Contains(out, part) {
			t.Errorf("exit %d without %q:\n%s%s", code, part, out, errs)
		}
	}
	w.write("ok.py", "print('Epoch 1/1')\n")
	rec := func(args ...string) (instance float64, source, dated string) {
		t.Helper()
		code, r, errs := w.record(append([]string{"--train", "ok.py", "--dry-run"}, args...)...)
		if code != run.CodeDone {
			t.Fatalf("%q: exit %d: %s", args, code, errs)
		}
		return float64(r.Prices.Instance), r.Prices.Source, r.Prices.Dated
	}
	needPython(t)
	for _, flag := range []string{"--instance", "--host"} {
		if price, source, dated := rec(flag, "aws:p4d.24xlarge"); price != 19.5 || dated != "2026-07-28" || !strings.Contains(source, "price list of July") {
			t.Errorf("%s: %g of %s, %s", flag, price, dated, source)
		}
		if price, source, _ := rec(flag, "ours:node-7"); price != 1.5 || !strings.Contains(source, "contract") {
			t.Errorf("%s ours:node-7: %g, %s", flag, price, source)
		}
	}
	// A damaged price file: commands that need its prices fail, listings continue with a warning.
	path := filepath.Join(w.state(), "prices.csv")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := w.run("--train", "ok.py", "--dry-run", "--instance", "aws:p4d.24xlarge"); code != run.CodeUsage || !strings.Contains(errs, path) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := w.run("--train", "ok.py", "--dry-run", "--json"); code != run.CodeDone || strings.Contains(errs, path) {
		t.Errorf("a run that asks for no price: exit %d: %s", code, errs)
	}
	if code, out, errs := w.prices(0, "list", "--gpu", "b200"); code != run.CodeDone || !strings.Contains(out, "aws:p6-b200.48xlarge") || !strings.Contains(errs, "warning: ") || !strings.Contains(errs, path) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestPricesRefuse checks that every refusal is one line with exit code 2.
func TestPricesRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	undated := w.write("undated.csv", "provider,instance_type,vcpus,memory_gib,ondemand_usd_per_hour\naws,x,2,4,0.1\n")
	foreign := w.write("foreign.csv", "a,b\n1,2\n")
	own := w.write("own.csv", ownPrices)
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"an unknown type":     {[]string{"show", "aws:p4d.24xlrge"}, "nearest are aws:p4d.24xlarge"},
		"no spot price":       {[]string{"show", "aws:p5.48xlarge:spot"}, "spot price of aws:p5.48xlarge is unknown"},
		"nothing to show":     {[]string{"show"}, "missing argument: want CLOUD:TYPE[:spot]; see `optimize prices show --help`"},
		"a word too many":     {[]string{"list", "aws"}, `unexpected argument "aws": want no arguments`},
		"an unknown cloud":    {[]string{"list", "--cloud", "asw"}, "it has aws, azure"},
		"an unknown format":   {[]string{"list", "--format", "xml"}, "want text, json or csv"},
		"an unknown order":    {[]string{"list", "--sort", "size"}, "want hourly, per-gpu or name"},
		"no price at all":     {[]string{"list", "--max-hourly", "-1"}, "want USD above 0"},
		"a list without date": {[]string{"import", undated}, "give it with --dated YYYY-MM-DD (the file was last changed on"},
		"a date of no form":   {[]string{"import", undated, "--dated", "July"}, `date "July" is not of the form`},
		"a date to come":      {[]string{"import", undated, "--dated", "2027-01-01"}, "in the future"},
		"no list of prices":   {[]string{"import", foreign, "--dated", "2026-07-20"}, "of no known layout; known are"},
		"no such file":        {[]string{"import", "absent.csv"}, "absent.csv"},
		"no such region":      {[]string{"import", own, "--region", "mars"}, `no row is of region "mars"`},
	} {
		code, out, errs := w.prices(0, test.args...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, test.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q\n%s, want one line with %q", name, code, out, errs, test.says)
		}
	}
	if _, err := os.Stat(w.state()); err == nil {
		t.Error("a refused call wrote into the state directory")
	}
	if err := os.WriteFile(w.state(), nil, 0o600); err != nil { // a file in place of the directory
		t.Fatal(err)
	}
	if code, _, errs := w.prices(0, "import", own); code == run.CodeDone || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d: %s", code, errs)
	}
}

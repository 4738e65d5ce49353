package capacity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/schedule/capacity"
)

func TestReadOffers(t *testing.T) {
	for name, c := range map[string]struct{ text, err string }{
		"whole":            {"on_demand: {usd_hour: 3, engine_args: [-pmain]}\nchangeover: 3m\nspot:\n- {name: east, usd_hour: 1, trace: east.json, start: 36h}\n- {usd_hour: 0.9}", ""},
		"json":             {`{"on_demand": {"usd_hour": 3}, "spot": [{"usd_hour": 1}]}`, ""},
		"empty":            {"", "empty"},
		"not a document":   {"- 1", "cannot unmarshal"},
		"unknown key":      {"on_demand: {usd_hour: 3}\nspot: [{usd_hours: 1}]", "usd_hours"},
		"no machine":       {"spot: [{usd_hour: 1}]", "on_demand is missing"},
		"no zone":          {"on_demand: {usd_hour: 3}", "0 zones"},
		"no price":         {"on_demand: {usd_hour: 3}\nspot: [{name: a}]", "a: usd_hour 0"},
		"negative":         {"on_demand: {usd_hour: -3}\nspot: [{usd_hour: 1}]", "usd_hour -3"},
		"not a number":     {"on_demand: {usd_hour: .nan}\nspot: [{usd_hour: 1}]", "usd_hour NaN"},
		"no price at all":  {"on_demand: {usd_hour: 999}\nspot: [{usd_hour: 1}]", "not available"},
		"dearer":           {"on_demand: {usd_hour: 1}\nspot: [{usd_hour: 3}]", "more than the 1 on demand"},
		"twice":            {"on_demand: {usd_hour: 3}\nspot: [{name: a, usd_hour: 1}, {name: a, usd_hour: 1}]", "used twice"},
		"trace on demand":  {"on_demand: {usd_hour: 3, trace: a.json}\nspot: [{usd_hour: 1}]", "spot capacity only"},
		"wrong changeover": {"on_demand: {usd_hour: 3}\nspot: [{usd_hour: 1}]\nchangeover: 3", "changeover \"3\""},
		"two problems":     {"on_demand: {usd_hour: 3}\nspot: [{usd_hour: 0, start: -1h}]", "start \"-1h\""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "offers.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := capacity.ReadOffers(path, time.Now())
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || got.OnDemand.Rates.Instance != 3 || got.Zones[0].Rates.Instance != 1 {
				t.Errorf("%+v, %v", got, err)
			}
			if name == "whole" && (got.ChangeoverS != 180 || got.Zones[0].StartS != 36*3600 || got.Zones[0].Trace != filepath.Join(filepath.Dir(path), "east.json") || got.Zones[1].Name != "zone 2") {
				t.Errorf("%+v", got)
			}
		})
	}
}

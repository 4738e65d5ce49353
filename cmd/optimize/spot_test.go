package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
	"trainopt/sla"
)

// TestReclaimedMachine: the metadata service announces the end of the machine during a training. The training saves, the
// run ends with the code for another attempt, and the same command continues it from the checkpoint.
func TestReclaimedMachine(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	w.write("train.py", paced)
	announced := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		select {
		case <-announced:
			fmt.Fprintf(out, `{"action":"stop","time":%q}`, time.Now().Add(2*time.Minute).UTC().Format(time.RFC3339))
		default:
			http.NotFound(out, r)
			if logs, _ := filepath.Glob(filepath.Join(w.state(), "runs", "*", "training*.csv")); len(logs) > 0 {
				close(announced)
			}
		}
	}))
	command := []string{"--train", "train.py", "--epochs", "40", "--resumable", "yes", "--planner", "static", "--deadline", "10m", "--spot-notice", "aws=" + service.URL}
	code, rec, errs := w.record(command...)
	if code != run.CodeTryAgain || rec.State != journal.Stopped || rec.Exit.Reason != "reclaimed" || !strings.Contains(errs, "aws reclaims this machine") || !strings.Contains(rec.Exit.Detail, "checkpoint saved") {
		t.Errorf("exit %d, %q\n%s", code, rec.Exit.Detail, errs)
	}
	before := rec.Outcome.Epochs
	if !(before >= 1 && before < 40) {
		t.Fatalf("stopped after %v epochs", before)
	}
	service.Close()
	code, rec, errs = w.record(command...)
	if code != run.CodeDone || rec.Outcome.Epochs != 40 || rec.Outcome.Rows != 40 || rec.Outcome.Restarts != 1 {
		t.Errorf("exit %d, %v epochs in %d rows, %d restarts\n%s", code, rec.Outcome.Epochs, rec.Outcome.Rows, rec.Outcome.Restarts, errs)
	}
	if n := strings.Count(errs, "the end of this machine is not announced"); n != 1 {
		t.Errorf("%d lines about the failing service\n%s", n, errs)
	}
}

// TestSpotNoticeRefused: values of --spot-notice that cannot be used.
func TestSpotNoticeRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("train.py", "print(1)")
	for name, args := range map[string][]string{
		"unknown cloud": {"--spot-notice", "oracle"}, "not an address": {"--spot-notice", "aws=here"}, "empty": {"--spot-notice", ""},
		"another machine": {"--spot-notice", "aws", "--engine", "slurm"},
	} {
		if code, _, errs := w.run(append([]string{"--train", "train.py"}, args...)...); code != run.CodeUsage || !strings.Contains(errs, "spot-notice") {
			t.Errorf("%s: exit %d\n%s", name, code, errs)
		}
	}
}

// TestSpotTrace: the replayed training of the examples on spot capacity by a trace, with a kill of the agent on spot
// capacity and another one while it waits. No work beyond a checkpoint is lost, the deadline is met, and the cost of the
// run is that of its stretches at their prices.
func TestSpotTrace(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	// Sixteen seconds of capacity, 24 without; afterwards, for as long as a busy machine needs, always.
	up := strings.Repeat("1,", 4) + strings.Repeat("0,", 6) + strings.Repeat("1,", 600)
	w.write("east.json", `{"metadata":{"gap_seconds":4},"data":[`+strings.TrimSuffix(up, ",")+`]}`)
	w.write("offers.yaml", "on_demand: {name: large, usd_hour: 3}\nspot:\n- {name: east, usd_hour: 1, trace: east.json}\n")
	w.environ = append(w.environ, "REPLAY_SPEEDUP=20", "OPTIMIZE_STATE_DIR="+w.state())
	command := []string{"--train", filepath.Join(examples, "replay.py"), "--host", filepath.Join(examples, "host-8gpu.yaml"), "--epochs", "200", "--deadline", "10m", "--spot-offers", "offers.yaml", "--resumable", "yes"}
	dir := ""
	killed := func(what string, ok func(text string) bool) {
		t.Helper()
		agent := w.agent(command...)
		dir = w.latest(what, func(dir string, rec *journal.Record) bool {
			data, _ := os.ReadFile(filepath.Join(dir, "state"))
			return rec.State == journal.Running && journal.HolderOf(dir) != nil && ok(string(data))
		})
		_ = agent.Process.Kill()
		_ = agent.Wait()
	}
	killed("on spot capacity", func(text string) bool { return strings.Contains(text, `"Machine":1`) && epochsIn(w) >= 2 })
	killed("waiting", func(text string) bool { return strings.Contains(text, `"waiting":{`) })
	code, rec, errs := w.record("runs", "resume", filepath.Base(dir))
	if code != run.CodeDone || rec.Spot == nil || rec.Outcome.Epochs != 200 {
		t.Fatalf("exit %d, %v epochs, %+v\n%s", code, rec.Outcome.Epochs, rec.Spot, errs)
	}
	if rec.Outcome.Rows != 200 { // each epoch once: a checkpoint was written before each move
		t.Errorf("%d rows of 200 epochs", rec.Outcome.Rows)
	}
	sum := 0.0
	for _, s := range rec.Spot.Stretches {
		price := map[string]float64{"east": 1, "large": 3}[s.Offer]
		if got := float64(s.ToS-s.FromS) / 3600 * price; got-float64(s.CostUSD) > 1e-8 || float64(s.CostUSD)-got > 1e-8 {
			t.Errorf("stretch %+v costs $%g at its price", s, got)
		}
		sum += float64(s.CostUSD)
	}
	if diff := sum - float64(rec.Outcome.CostUSD); diff > 1e-8 || diff < -1e-8 || len(rec.Spot.Stretches) < 2 || rec.Spot.Taken < 1 {
		t.Errorf("the stretches cost $%g, the run $%v: %+v", sum, rec.Outcome.CostUSD, rec.Spot)
	}
	if v := rec.SLA.Verdicts[0]; v.Status != sla.Met {
		t.Errorf("deadline %+v", v)
	}
	if !rec.Spot.SavingPct.Known() || rec.Spot.SavingPct >= 100 {
		t.Errorf("saved %v %%", rec.Spot.SavingPct)
	}
}

// epochsIn returns the number of rows in the logs of the newest run.
func epochsIn(w *world) int {
	logs, _ := filepath.Glob(filepath.Join(w.state(), "runs", "*", "training*.csv"))
	n := 0
	for _, path := range logs {
		data, _ := os.ReadFile(path)
		n += max(0, strings.Count(string(data), "\n")-1)
	}
	return n
}

// TestSpotRefused: offers that cannot be used.
func TestSpotRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("train.py", "print(1)")
	w.write("trace.json", `{"metadata":{"gap_seconds":2},"data":[1,0]}`)
	w.write("never.json", `{"metadata":{"gap_seconds":2},"data":[0,0]}`)
	w.write("offers.yaml", "on_demand: {usd_hour: 3}\nspot: [{usd_hour: 1}]\n")
	w.write("missing.yaml", "on_demand: {usd_hour: 3}\nspot: [{usd_hour: 1, trace: nowhere.json}]\n")
	for name, c := range map[string]struct {
		args string
		want string
	}{
		"no prices":       {"--spot-offers trace.json --deadline 1h", "--instance CLOUD:TYPE is missing"},
		"no deadline":     {"--spot-offers trace.json --instance aws:p3.2xlarge", "requires --deadline"},
		"never":           {"--spot-offers never.json --instance aws:p3.2xlarge --deadline 1h", "at most 0 machines"},
		"no trace":        {"--spot-offers offers.yaml --deadline 1h", "a trace states when capacity exists"},
		"no such trace":   {"--spot-offers missing.yaml --deadline 1h", "nowhere.json"},
		"no such file":    {"--spot-offers nowhere.yaml --deadline 1h", "no such file"},
		"two prices":      {"--spot-offers offers.yaml --instance aws:p3.2xlarge --deadline 1h", "cannot be combined"},
		"unit prices":     {"--spot-offers trace.json --instance aws:p3.2xlarge --deadline 1h --cpu-hour 1", "cannot be combined"},
		"planner":         {"--spot-offers trace.json --instance aws:p3.2xlarge --deadline 1h --planner model", "--planner"},
		"auto, no prices": {"--spot-offers auto", "--instance CLOUD:TYPE is missing"},
		"auto, elsewhere": {"--spot-offers auto --instance aws:p3.2xlarge --engine slurm", "other machines"},
	} {
		if code, _, errs := w.run(append([]string{"--train", "train.py"}, strings.Fields(c.args)...)...); code != run.CodeUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, want %q\n%s", name, code, c.want, errs)
		}
	}
}

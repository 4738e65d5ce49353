package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
)

// TestReclaimedMachine: the metadata service announces the end of the machine during a training. The training saves, the
// run ends with the code for another attempt, and the same command continues it from the checkpoint.
func TestReclaimedMachine(t *testing.T) {
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

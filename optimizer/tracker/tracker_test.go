package tracker

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// finished writes a finished run of three epochs to a state directory.
func finished(t *testing.T) string {
	t.Helper()
	dir, err := journal.Create(t.TempDir(), "20261120-100000-net-abcdef")
	if err != nil {
		t.Fatal(err)
	}
	rec := journal.Blank[journal.Record]()
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	end, model := start.Add(40*time.Second), "resnet18"
	rec.Schema, rec.RunID, rec.State, rec.StartedAt, rec.FinishedAt = journal.Schema, dir.ID(), journal.Done, start, &end
	rec.Command, rec.Training.Model, rec.Training.Unit, rec.Training.TotalUnits, rec.Training.BatchSize = []string{"python3", "net.py"}, &model, "epoch", 3, 64
	rec.Outcome.Seconds, rec.Outcome.CostUSD = 40, 0.5
	rec.SLA.Verdicts = []sla.Verdict{{Objective: sla.Time, Limit: 60, Status: sla.Met, Unit: "s"}}
	if err := dir.WriteRecord(&rec); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(dir.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log.csv", "time_s,timestamp,epoch,train_loss,test_accuracy\n10,,1,0.5,0.1\n20,2026-11-20T10:00:19.5Z,2,0.25,\n30,,3,0.125,0.9\n31,,torn\n32,,\"torn")
	write("samples.csv", "time_s,cost_usd,gpu_util_percent\n10,0.1,\n20,0.2,\n")
	return dir.Dir()
}

// TestLoad: known values only, in order of time, at the training's own times.
func TestLoad(t *testing.T) {
	r, err := Load(finished(t))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range r.Points {
		names = append(names, p.Name)
		if p.Name == "train_loss" && p.Value == 0.25 && p.At.UnixMilli()%60000 != 19500 {
			t.Errorf("%+v: want the time of the row", p)
		}
	}
	if want := "epoch optimize/cost_usd test_accuracy train_loss epoch train_loss optimize/cost_usd epoch test_accuracy train_loss"; strings.Join(names, " ") != want {
		t.Errorf("points %s\nwant %s", names, want)
	}
	if r.Params["epochs"] != "3" || r.Params["model_name"] != "resnet18" || r.Tags["optimize.sla.time"] != "met" {
		t.Errorf("%v %v", r.Params, r.Tags)
	}
	if _, ok := r.Params["deadline_s"]; ok || r.Tags["optimize.restarts"] != "0" {
		t.Errorf("%v %v", r.Params, r.Tags)
	}
}

// TestRoundTrip: what is written to a file store and to event files is the same training when it is read as a log.
func TestRoundTrip(t *testing.T) {
	r, err := Load(finished(t))
	if err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	dir, err := MLflowStore(store, "demo", r)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := MLflowStore(store, "demo", r); err != nil || again != dir {
		t.Errorf("exported again: %s, %v; want %s", again, err, dir)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); len(left) != 2 {
		t.Errorf("the experiment contains %v", left)
	}
	if hidden, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); len(hidden) > 0 {
		t.Errorf("temporary files are left: %v", hidden)
	}
	events, err := TensorBoard(t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	for path, format := range map[string]string{dir: "mlflow", events: "tensorboard"} {
		log, err := history.ReadLog(path, history.LogOptions{})
		if err != nil || log.Format != format || len(log.Entries) != 1 {
			t.Fatalf("%s: %v, %+v", format, err, log)
		}
		if e := log.Entries[0]; e.Units != 3 || e.Unit != "epoch" || e.TrainLoss != 0.125 || format == "mlflow" && e.Job.Model != "resnet18" {
			t.Errorf("%s: %+v", format, e)
		}
		rows, _, _ := trainlog.ReadLog(path, trainlog.TailOptions{})
		for _, row := range rows {
			if e, _ := row.Value(trainlog.Epoch); e == 2 && !row.Stamp.Equal(time.Date(2026, 11, 20, 10, 0, 19, 5e8, time.UTC)) {
				t.Errorf("%s: epoch 2 at %s", format, row.Stamp)
			}
		}
	}
}

// server answers like a tracking server of MLflow and checks the order of calls.
type server struct {
	*httptest.Server
	calls   []string
	metrics int
	deleted []string
	refuse  bool
}

func newServer(t *testing.T) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/base/api/2.0/mlflow/")
		s.calls = append(s.calls, name)
		var body map[string]any
		if data, _ := io.ReadAll(r.Body); len(data) > 0 && json.Unmarshal(data, &body) != nil {
			t.Errorf("%s: %s", name, data)
		}
		answer := map[string]any{}
		switch name {
		case "experiments/get-by-name":
			w.WriteHeader(404)
			answer = map[string]any{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no"}
			if s.refuse {
				answer = map[string]any{"error_code": "PERMISSION_DENIED", "message": "not you"}
			}
		case "experiments/create":
			answer = map[string]any{"experiment_id": "7"}
		case "runs/search":
			answer = map[string]any{"runs": []any{map[string]any{"info": map[string]any{"run_id": "old"}}}}
		case "runs/delete":
			s.deleted = append(s.deleted, body["run_id"].(string))
		case "runs/create":
			answer = map[string]any{"run": map[string]any{"info": map[string]any{"run_id": "new"}}}
		case "runs/log-batch":
			list, _ := body["metrics"].([]any)
			if s.metrics += len(list); len(list) > batchMetrics {
				t.Errorf("%d metrics in a batch", len(list))
			}
		case "runs/update":
			if body["status"] != "FINISHED" {
				t.Errorf("%v", body)
			}
		}
		if r.Header.Get("Authorization") != "Bearer T0KEN" {
			t.Errorf("%s: authorization %q", name, r.Header.Get("Authorization"))
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestServer(t *testing.T) {
	r, err := Load(finished(t))
	if err != nil {
		t.Fatal(err)
	}
	for len(r.Points) < 2500 {
		r.Points = append(r.Points, r.Points[0])
	}
	s := newServer(t)
	target := MLflowServer{URL: s.URL + "/base/", Token: "T0KEN"}
	where, err := target.Export(context.Background(), "demo", r)
	if err != nil || where != s.URL+"/base/#/experiments/7/runs/new" {
		t.Errorf("%s, %v", where, err)
	}
	want := []string{"experiments/get-by-name", "experiments/create", "runs/search", "runs/delete", "runs/create", "runs/log-batch", "runs/log-batch", "runs/log-batch", "runs/log-batch", "runs/update"}
	if !slices.Equal(s.calls, want) || s.metrics != len(r.Points) || !slices.Equal(s.deleted, []string{"old"}) {
		t.Errorf("calls %v, %d metrics, %v deleted", s.calls, s.metrics, s.deleted)
	}
	s.refuse = true
	if _, err := target.Export(context.Background(), "demo", r); err == nil || !strings.Contains(err.Error(), "PERMISSION_DENIED: not you") {
		t.Errorf("refused: %v", err)
	}
	s.Close()
	target.URL = strings.Replace(s.URL, "http://", "http://me:SECRET@", 1)
	if _, err := target.Export(context.Background(), "demo", r); err == nil || strings.Contains(err.Error(), "SECRET") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("without a server: %v", err)
	}
}

package conformance

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// interval is a 90 % interval of a record.
type interval struct{ P5, P50, P95 float64 }

// record is the part of run.json (schema 1) that the suite judges. A nil number is unknown.
type record struct {
	RunID string `json:"run_id"`
	State string
	Exit  *struct {
		Code   *int
		Signal *string
		Reason string
	}
	SLA struct {
		Verdicts []struct{ Objective, Status string }
	}
	Plan *struct {
		Allocation allocation
		Prediction *struct{ Seconds interval }
	}
	Actions []struct {
		Applied  string
		From, To allocation
	}
	Outcome struct {
		Seconds        float64
		Epochs, Steps  *float64
		Throughput     *float64
		ThroughputUnit string `json:"throughput_unit"`
		Restarts       int
	}
	Checkpoint *struct {
		Path  string
		Units *float64
	}
	Comparison struct {
		SecondsChangePct *float64 `json:"seconds_change_pct"`
	}
	Training struct {
		TotalUnits *float64 `json:"total_units"`
		Unit       string
	}
	Log struct{ Path, Format string }

	dir string
}

type allocation struct {
	CPUs    float64
	Threads int
	Workers int `json:"num_workers"`
}

// readRecord reads the single run of a state directory.
func readRecord(stateDir string) (*record, error) {
	paths, err := filepath.Glob(filepath.Join(stateDir, "runs", "*", "run.json"))
	if err != nil || len(paths) != 1 {
		return nil, fmt.Errorf("read run of %s: %d runs, want 1", stateDir, len(paths))
	}
	data, err := os.ReadFile(paths[0])
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	r := &record{dir: filepath.Dir(paths[0])}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("read run %s: %w", paths[0], err)
	}
	if r.Training.Unit == "step" && r.Outcome.Steps == nil {
		r.Outcome.Steps = lastStep(filepath.Join(r.dir, "log.csv"))
	}
	return r, nil
}

// lastStep returns the step of the last row of a normalised log, or nil if the log has no steps.
func lastStep(path string) *float64 {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		return nil
	}
	for column, name := range rows[0] {
		if name == "step" {
			if v, err := strconv.ParseFloat(rows[len(rows)-1][column], 64); err == nil {
				return &v
			}
		}
	}
	return nil
}

// done returns the final progress in the unit of the record, or nil if unknown.
func (r *record) done() *float64 {
	if r.Training.Unit == "step" {
		return r.Outcome.Steps
	}
	return r.Outcome.Epochs
}

// verdict returns the status of the deadline, or "" if the run has none.
func (r *record) verdict() string {
	for _, v := range r.SLA.Verdicts {
		if v.Objective == "time" {
			return v.Status
		}
	}
	return ""
}

// moves returns the number of allocation changes that took effect.
func (r *record) moves() int {
	n := 0
	for _, a := range r.Actions {
		if a.Applied == "live" || a.Applied == "restart" {
			n++
		}
	}
	return n
}

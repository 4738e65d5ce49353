package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/simulator/training"
	"trainopt/sla"
)

// Key names a training: runs with the same key did the same work.
type Key struct {
	ScriptSHA256 string
	Script       string // its path; a copy elsewhere is the same script
	Command      []string
	// Host is the machine's shape; measurements of another shape do not carry over.
	CPUs      float64
	GPUs      []string // device names
	Described string
	// Epochs and Dataset are what is handed to the script: a run with another data set did other work, one with other
	// epochs the same work for another length.
	Epochs  int
	Dataset string
	// AnyMachine takes runs of other machines too: all that there is when planning for a machine that is not this one.
	AnyMachine bool
	// Except is a run to leave out: the one that asks.
	Except string
}

// Recalled is what earlier runs of the same training measured.
type Recalled struct {
	Runs         []string // run ids, newest first
	Observations []training.Observation
	// Total and Unit are the amount of work of the newest run; 0 and "" when it never said.
	Total float64
	Unit  string
	// PeakMemoryGiB is the largest measured peak, NaN when none.
	PeakMemoryGiB float64
	// Baselines are the finished runs, for sla.Forecast.
	Baselines []sla.Baseline
	// Recurrences are the runs of the same length that finished, or that their batch size may have kept from it, the oldest
	// first.
	Recurrences []plan.Recurrence
	// RestartSeconds and StartupSeconds were measured at restarts and starts.
	RestartSeconds, StartupSeconds []float64
	// Newest are the newest runs of any training, at most 500, as the runs database has them: for how well predictions held.
	Newest []Entry
}

const (
	// maxRuns bounds how far back Recall looks for measurements: the newest runs describe the machine as it is now.
	maxRuns = 8
	// maxRecurrences bounds Recalled.Recurrences.
	maxRecurrences = 256
	// maxNewest bounds Recalled.Newest.
	maxNewest = 500
	// recallPatience and recallWithin bound how long the runs database may keep a training from starting: another process that
	// writes to it, and the first look at a state directory with many runs, of which a later one goes on.
	recallPatience = 2 * time.Second
	recallWithin   = 30 * time.Second
)

// Recall reads what the runs of a state directory measured of a training. It finds them through the runs database, and by
// reading every run where that cannot be used. A missing directory or a run that cannot be read is no history, not an
// error; notes name the runs that were left out.
func Recall(stateDir string, key Key) (Recalled, []string) {
	if _, err := os.Stat(journal.RunsDir(stateDir)); errors.Is(err, fs.ErrNotExist) {
		return Recalled{PeakMemoryGiB: math.NaN()}, nil
	}
	found, newest, notes, err := candidates(stateDir, key)
	if err != nil {
		notes = append(notes, fmt.Sprintf("%v: every run is read instead", err))
		if found, err = everyRun(stateDir); err != nil {
			notes = append(notes, fmt.Sprintf("recall earlier runs in %s: %v", stateDir, err))
		}
	}
	out, left := recall(found, key)
	out.Newest = newest
	return out, append(notes, left...)
}

// earlier is a run of which the record is read when it is wanted.
type earlier struct {
	id   string
	read func() (*journal.Record, error)
}

// candidates are the runs of the key's script by the runs database, and those that cannot be read, the newest first; and the
// newest of all.
func candidates(stateDir string, key Key) (found []earlier, newest []Entry, notes []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), recallWithin)
	defer cancel()
	db, err := open(ctx, stateDir, recallPatience)
	if err != nil {
		return nil, nil, nil, err
	}
	defer db.Close()
	runs, err := db.upToDate(ctx)
	if err != nil {
		return nil, nil, db.Notes(), err
	}
	for _, r := range runs {
		switch {
		case r.problem != "":
			found = append(found, earlier{r.id, func() (*journal.Record, error) { return nil, errors.New(r.problem) }})
		case key.ScriptSHA256 != "" && r.scriptSHA256 == key.ScriptSHA256:
			dir := filepath.Join(journal.RunsDir(stateDir), r.id)
			found = append(found, earlier{r.id, func() (*journal.Record, error) { return journal.ReadRecord(dir) }})
		}
	}
	newest, err = db.Entries(Filter{Kinds: []Kind{Run}, Limit: maxNewest})
	notes = db.Notes()
	if err != nil {
		notes = append(notes, fmt.Sprintf("how earlier predictions held is not known: %v", err))
	}
	return found, newest, notes, nil
}

func everyRun(stateDir string) ([]earlier, error) {
	entries, err := journal.List(stateDir)
	var found []earlier
	for _, e := range entries {
		found = append(found, earlier{e.ID, func() (*journal.Record, error) { return e.Record, e.Err }})
	}
	return found, err
}

func recall(found []earlier, key Key) (Recalled, []string) {
	out := Recalled{PeakMemoryGiB: math.NaN()}
	var notes []string
	for _, p := range found {
		enough := len(out.Runs) >= maxRuns
		if enough && len(out.Recurrences) >= maxRecurrences {
			break
		}
		if p.id == key.Except {
			continue
		}
		rec, err := p.read()
		if err != nil {
			if !enough && !errors.Is(err, fs.ErrNotExist) { // one that is just starting has no record yet
				notes = append(notes, leftOut(p.id, err))
			}
			continue
		}
		if !same(rec, key) || rec.State == journal.Running {
			continue
		}
		if x, ok := recurrence(rec, key.Epochs); ok && len(out.Recurrences) < maxRecurrences {
			out.Recurrences = append(out.Recurrences, x)
		}
		if !enough && add(&out, rec, key.Epochs) {
			out.Runs = append(out.Runs, rec.RunID)
		}
	}
	slices.Reverse(out.Recurrences)
	return out, notes
}

// recurrence is what a run cost to its end, ok when that tells of its batch size: it finished, or ran into its budget or
// deadline or out of memory.
func recurrence(rec *journal.Record, epochs int) (x plan.Recurrence, ok bool) {
	if rec.Handed.Epochs != epochs || !rec.Outcome.Seconds.Known() || rec.Exit == nil {
		return x, false
	}
	x = plan.Recurrence{Seconds: float64(rec.Outcome.Seconds), USD: cost.USD(rec.Outcome.CostUSD), Joules: float64(rec.Outcome.EnergyJoules), Reached: rec.State == journal.Done}
	switch last := len(rec.Measured) - 1; {
	case rec.Plan != nil:
		x.Allocation = rec.Plan.Allocation
	case last >= 0: // it ended before anything was planned
		x.Allocation = rec.Measured[last].Allocation
	}
	if b := rec.Training.BatchSize; x.Allocation.BatchSize == 0 && b.Known() && b >= 1 {
		x.Allocation.BatchSize = int(b) // the script's own, as its log says
	}
	return x, x.Reached || slices.Contains([]string{"budget", "deadline", "oom"}, rec.Exit.Reason)
}

func same(rec *journal.Record, key Key) bool {
	if key.ScriptSHA256 == "" || rec.Script.SHA256 != key.ScriptSHA256 || len(rec.Command) != len(key.Command) {
		return false
	}
	if rec.Handed.Dataset != key.Dataset {
		return false
	}
	if !key.AnyMachine && !sameMachine(rec.Host, key) {
		return false
	}
	// The interpreter and the script may be named by another path; everything else must be equal.
	return slices.EqualFunc(rec.Command, key.Command, func(was, is string) bool {
		return was == is || was == rec.Script.Path && is == key.Script ||
			was == rec.Command[0] && is == key.Command[0] && filepath.Base(was) == filepath.Base(is)
	})
}

func sameMachine(h journal.Host, key Key) bool {
	if h.Described != key.Described || h.CPUs != key.CPUs || len(h.GPUs) != len(key.GPUs) {
		return false
	}
	for i, g := range h.GPUs {
		if g.Name != key.GPUs[i] {
			return false
		}
	}
	return true
}

func add(out *Recalled, rec *journal.Record, epochs int) bool {
	found := false
	for _, s := range rec.Measured {
		units := make([]float64, 0, len(s.UnitSeconds))
		for _, u := range s.UnitSeconds {
			if u.Known() && u > 0 {
				units = append(units, float64(u))
			}
		}
		if len(units) == 0 {
			continue
		}
		found = true
		samples := 0.0
		if s.UnitSamples.Known() {
			samples = float64(s.UnitSamples)
		}
		out.Observations = append(out.Observations, training.Observation{Allocation: s.Allocation, UnitSeconds: units,
			UnitSamples: samples, PeakMemoryGiB: float64(s.PeakMemoryGiB), Recalled: true})
		if p := float64(s.PeakMemoryGiB); s.PeakMemoryGiB.Known() && !(p <= out.PeakMemoryGiB) {
			out.PeakMemoryGiB = p
		}
	}
	if !found {
		return false
	}
	if out.Total == 0 && rec.Handed.Epochs == epochs && rec.Training.TotalUnits.Known() {
		out.Total, out.Unit = float64(rec.Training.TotalUnits), rec.Training.Unit
	}
	for _, v := range rec.Overheads.RestartSeconds {
		out.RestartSeconds = append(out.RestartSeconds, float64(v))
	}
	for _, v := range rec.Overheads.StartupSeconds {
		out.StartupSeconds = append(out.StartupSeconds, float64(v))
	}
	if rec.State == journal.Done && rec.Handed.Epochs == epochs && rec.Outcome.Seconds.Known() {
		out.Baselines = append(out.Baselines, sla.Baseline{
			Time:    time.Duration(float64(rec.Outcome.Seconds) * float64(time.Second)),
			CostUSD: float64(rec.Outcome.CostUSD), Throughput: float64(rec.Outcome.SamplesPerSecond()),
			MemoryGiB: float64(rec.Outcome.PeakMemoryGiB), GPUUtilPct: float64(rec.Outcome.GPUUtil), CPUUtilPct: float64(rec.Outcome.CPUUtil)})
	}
	return true
}

package history

import (
	"cmp"
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
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// Key names a training. Runs of the same script on the same kind of machine did the same work, if the text and the arguments
// differ at most in what changes neither the amount of work nor its cost: comments, a learning rate, a seed, a path of results.
type Key struct {
	ScriptSHA256 string
	// Likeness of the script, by which earlier versions of it are compared (inspect.Inspection.Likeness); "" finds the same text only.
	Likeness string
	Script   string // its path; a copy elsewhere is the same script
	Command  []string
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
	Observations []perf.Observation
	// MeasuredUnit is the unit of work of Observations, "epoch" or "step"; "" where no run says.
	MeasuredUnit string
	// Total and Unit are the amount of work of the newest run of the same length that reported it, else what the newest one of
	// that length had done when it finished; 0 and "" without such a run. TotalRun is that run's id.
	Total    float64
	Unit     string
	TotalRun string
	// Similar are runs of the same script, or of an earlier version of it, whose arguments or text may have changed the work: the
	// nearest first, then the newest; at most 8.
	Similar []Similar
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

// Similar is a run that did nearly the same work.
type Similar struct {
	Run string
	// Distance says how near: the sum of the distances of its arguments (1 is about a factor of two in a number, or another
	// word), and 4 times the share of the script's statements that differ.
	Distance     float64
	Changes      []Change
	Observations []perf.Observation
	Total        float64 // units of work, where the length is the same; 0 unknown
	Unit         string  // of Observations and Total; "" unknown
	Job          Job
	BatchSize    float64 // samples in a step, NaN unknown
	// StartupSeconds were measured at its starts.
	StartupSeconds []float64
}

const (
	// maxSimilar bounds Recalled.Similar, maxVersions the records of other versions of the script that are read.
	maxSimilar  = 8
	maxVersions = 64
	// leastSimilar is the share of equal statements from which a script is a version of another one; unknownText is the distance
	// of a text at the same path that cannot be compared.
	leastSimilar = 0.75
	unknownText  = 0.5
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
	id      string
	version bool // found by its script's path or entry point: another version
	read    func() (*journal.Record, error)
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
	versions, err := db.runsOfScript(ctx, key.Script)
	if err != nil {
		return nil, nil, db.Notes(), err
	}
	for _, r := range runs {
		same := key.ScriptSHA256 != "" && r.scriptSHA256 == key.ScriptSHA256
		switch {
		case r.problem != "":
			found = append(found, earlier{id: r.id, read: func() (*journal.Record, error) { return nil, errors.New(r.problem) }})
		case same || versions[r.id]:
			dir := filepath.Join(journal.RunsDir(stateDir), r.id)
			found = append(found, earlier{r.id, !same, func() (*journal.Record, error) { return journal.ReadRecord(dir) }})
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
		found = append(found, earlier{id: e.ID, read: func() (*journal.Record, error) { return e.Record, e.Err }})
	}
	return found, err
}

func recall(found []earlier, key Key) (Recalled, []string) {
	out := Recalled{PeakMemoryGiB: math.NaN()}
	var notes []string
	versions := 0
	for _, p := range found {
		enough := len(out.Runs) >= maxRuns
		if enough && len(out.Recurrences) >= maxRecurrences {
			break
		}
		if p.version {
			versions++
		}
		if p.id == key.Except || p.version && (enough || versions > maxVersions) {
			continue
		}
		rec, err := p.read()
		if err != nil {
			if !enough && !errors.Is(err, fs.ErrNotExist) { // one that is just starting has no record yet
				notes = append(notes, leftOut(p.id, err))
			}
			continue
		}
		rel, ok := relate(rec, key)
		if !ok || rec.State == journal.Running {
			continue
		}
		if !rel.sameWork {
			out.addSimilar(rec, rel)
			continue
		}
		if x, ok := recurrence(rec); ok && rel.sameLength && len(out.Recurrences) < maxRecurrences {
			out.Recurrences = append(out.Recurrences, x)
		}
		if !enough && add(&out, rec, rel.sameLength) {
			out.Runs = append(out.Runs, rec.RunID)
		}
	}
	slices.Reverse(out.Recurrences)
	slices.SortStableFunc(out.Similar, func(a, b Similar) int { return cmp.Compare(a.Distance, b.Distance) })
	out.Similar = out.Similar[:min(len(out.Similar), maxSimilar)]
	return out, notes
}

// recurrence is what a run cost to its end, ok when that tells of its batch size: it finished, or ran into its budget or
// deadline or out of memory.
func recurrence(rec *journal.Record) (x plan.Recurrence, ok bool) {
	if !rec.Outcome.Seconds.Known() || rec.Exit == nil {
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

// observations are the stretches of a run that were timed.
func observations(rec *journal.Record) []perf.Observation {
	var out []perf.Observation
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
		samples := 0.0
		if s.UnitSamples.Known() {
			samples = float64(s.UnitSamples)
		}
		out = append(out, perf.Observation{Allocation: s.Allocation, UnitSeconds: units,
			UnitSamples: samples, PeakMemoryGiB: float64(s.PeakMemoryGiB), Recalled: true, LiveCut: s.LiveCut})
	}
	return out
}

// total is the amount of work of a run: what it reported, else what it had done when it finished; 0 unknown.
func total(rec *journal.Record) (units float64, unit string) {
	switch t := &rec.Training; {
	case t.TotalUnits.Known() && t.TotalUnits > 0:
		return float64(t.TotalUnits), t.Unit
	case rec.State == journal.Done && rec.Outcome.Epochs.Known() && rec.Outcome.Epochs > 0:
		return float64(rec.Outcome.Epochs), t.Unit
	}
	return 0, ""
}

func (r *Recalled) addSimilar(rec *journal.Record, rel relation) {
	s := Similar{Run: rec.RunID, Distance: rel.distance, Changes: rel.changes, Observations: observations(rec), Unit: rec.Training.Unit,
		Job: jobOf(rec), BatchSize: float64(rec.Training.BatchSize)}
	if rel.sameLength {
		s.Total, _ = total(rec)
	}
	for _, v := range rec.Overheads.StartupSeconds {
		s.StartupSeconds = append(s.StartupSeconds, float64(v))
	}
	if len(s.Observations) > 0 {
		r.Similar = append(r.Similar, s)
	}
}

func add(out *Recalled, rec *journal.Record, sameLength bool) bool {
	seen := observations(rec)
	if len(seen) > 0 && out.MeasuredUnit == "" {
		out.MeasuredUnit = rec.Training.Unit
	}
	if rec.Training.Unit != "" && rec.Training.Unit != out.MeasuredUnit { // the newest run's unit counts
		seen = nil
	}
	out.Observations = append(out.Observations, seen...)
	for _, o := range seen {
		if p := o.PeakMemoryGiB; !math.IsNaN(p) && !math.IsInf(p, 0) && !(p <= out.PeakMemoryGiB) {
			out.PeakMemoryGiB = p
		}
	}
	if units, unit := total(rec); out.Total == 0 && sameLength && units > 0 {
		out.Total, out.Unit, out.TotalRun = units, unit, rec.RunID
	}
	if !slices.ContainsFunc(seen, func(o perf.Observation) bool { return !o.LiveCut }) {
		return false
	}
	for _, v := range rec.Overheads.RestartSeconds {
		out.RestartSeconds = append(out.RestartSeconds, float64(v))
	}
	for _, v := range rec.Overheads.StartupSeconds {
		out.StartupSeconds = append(out.StartupSeconds, float64(v))
	}
	if rec.State == journal.Done && sameLength && rec.Outcome.Seconds.Known() {
		out.Baselines = append(out.Baselines, sla.Baseline{
			Time:    time.Duration(float64(rec.Outcome.Seconds) * float64(time.Second)),
			CostUSD: float64(rec.Outcome.CostUSD), Throughput: float64(rec.Outcome.SamplesPerSecond()),
			MemoryGiB: float64(rec.Outcome.PeakMemoryGiB), GPUUtilPct: float64(rec.Outcome.GPUUtil), CPUUtilPct: float64(rec.Outcome.CPUUtil)})
	}
	return true
}

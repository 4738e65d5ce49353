package history

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
)

// relation describes how the work of an earlier run relates to that of a key.
type relation struct {
	sameWork   bool // one unit of work has the same cost
	sameLength bool // and the number of units is the same
	// sameButCPU means that one unit of work is the same on another model of CPU, where it may have another cost.
	sameButCPU bool
	distance   float64
	changes    []Change
}

// Change is a difference between two runs that may change the cost of a unit of work.
type Change struct {
	Name string // canonical name of the argument, ScriptText, DataSet or cpuModel
	Was  string // value in the earlier run; a hash for ScriptText; "" if not given
	Is   string
	// Ratio is Is divided by Was; NaN unless both are numbers above 0.
	Ratio float64
	// Distance is above 0: the absolute binary logarithm of Ratio, at most 3; 1 for values that are not numbers; for
	// ScriptText 4 times the share of the statements that differ, if known.
	Distance  float64
	BatchSize bool // the argument is the number of samples in a step
}

// Values of Change.Name for changes that are not arguments.
const (
	ScriptText = "the script's text" // or that of its modules or configuration files
	DataSet    = "data set"
	cpuModel   = "CPU"
)

// OfMachine reports whether the change is one of the machine, not of the training.
func (c *Change) OfMachine() bool { return c.Name == cpuModel }

// Describe formats the change for display: "batch_size 32, now 64".
func (c *Change) Describe() string {
	if c.Name == ScriptText {
		return c.Name
	}
	return fmt.Sprintf("%s %s, now %s", c.Name, cmp.Or(c.Was, "none"), cmp.Or(c.Is, "none"))
}

// relate compares an earlier run with a key; ok is false for another training, another kind or number of machines or other threads
// set by the user, whose effect has no bound: more of them than free CPUs may take ten times as long. The text of the
// script is compared first; then every argument that differs is classified as affecting the length only, or the cost of a
// unit of work, which adds its distance and a Change. If nothing has changed so far, the modules and the configuration files
// must be the same as well. Another known model of CPU is a Change, too: it may have another speed.
func relate(rec *journal.Record, key Key) (rel relation, ok bool) {
	if !key.AnyMachine && !sameMachine(rec.Host, key) || max(1, rec.Host.Nodes) != max(1, key.Nodes) || rec.Handed.Threads != key.Handed.Threads {
		return rel, false
	}
	differ, comparable := inspect.Compare(sameScript(rec, key), key.Command)
	if !comparable {
		return rel, false
	}
	if rel.distance, ok = textDistance(rec, key); !ok {
		return rel, false
	}
	if rel.distance > 0 {
		rel.changes = append(rel.changes, Change{Name: ScriptText, Was: rec.Script.SHA256, Is: key.ScriptSHA256, Ratio: math.NaN(), Distance: rel.distance})
	}
	rel.sameLength = rec.Handed.Epochs == key.Handed.Epochs
	if was, is := rec.Handed.Dataset, key.Handed.Dataset; was != is {
		rel.distance++
		rel.changes = append(rel.changes, Change{Name: DataSet, Was: was, Is: is, Ratio: math.NaN(), Distance: 1})
	}
	for _, d := range differ {
		switch d.Effect {
		case inspect.LengthOnly:
			rel.sameLength = false
		case inspect.WorkEffect:
			rel.distance += d.Distance
			c := Change{Name: d.Name, Was: d.Was, Is: d.Is, Ratio: math.NaN(), Distance: d.Distance, BatchSize: d.SetsBatchSize()}
			if ratio, ok := d.Ratio(); ok {
				c.Ratio = ratio
			}
			rel.changes = append(rel.changes, c)
		}
	}
	if was, is := rec.Script.FilesDigest, key.FilesDigest; len(rel.changes) == 0 && was != is && was != "" && is != "" {
		rel.distance = unknownText
		rel.changes = append(rel.changes, Change{Name: ScriptText, Was: was, Is: is, Ratio: math.NaN(), Distance: unknownText})
	}
	if was, is := rec.Host.CPUModel, key.CPUModel; !key.AnyMachine && was != is && was != "" && is != "" {
		rel.sameButCPU = len(rel.changes) == 0
		rel.distance++
		rel.changes = append(rel.changes, Change{Name: cpuModel, Was: was, Is: is, Ratio: math.NaN(), Distance: 1})
	}
	rel.sameWork = len(rel.changes) == 0
	return rel, true
}

// sameScript returns the earlier command with its script path replaced by the key's: a copy at another path is the
// same script.
func sameScript(rec *journal.Record, key Key) []string {
	was := slices.Clone(rec.Command)
	for i := range was {
		if i < len(key.Command) && was[i] == rec.Script.Path && key.Command[i] == key.Script {
			was[i] = key.Script
		}
	}
	return was
}

// textDistance returns the distance between the script of an earlier run and the key's: 0 for the same code. ok is
// false for another script.
func textDistance(rec *journal.Record, key Key) (distance float64, ok bool) {
	switch {
	case key.ScriptSHA256 == "" || rec.Script.SHA256 == "":
		entry, anywhere := inspect.EntryPoint(key.Command)
		was, _ := inspect.EntryPoint(rec.Command)
		if !anywhere && rec.StartedAt.Before(key.Built) {
			distance = unknownText
		}
		return distance, entry != "" && rec.Script.SHA256 == key.ScriptSHA256 && was == entry && (anywhere || rec.Dir == key.Dir)
	case rec.Script.SHA256 == key.ScriptSHA256:
		return 0, true
	}
	path := key.Script
	if path == "" || filepath.Base(rec.Script.Path) != filepath.Base(path) {
		return 0, false
	}
	equal, similarity, comparable := inspect.CompareLikeness(rec.Script.Likeness, key.Likeness)
	switch {
	case comparable && equal:
		return 0, true
	case comparable:
		return max(0.1, 4*(1-similarity)), similarity >= leastSimilar // lower bound of 0.1: the estimated similarity may miss a changed statement
	}
	return unknownText, rec.Script.Path == path
}

// runsOfScript returns the ids of completed runs whose script has the given path or the same file name in another
// directory, at most 4·maxVersions, newest first.
func (db *DB) runsOfScript(ctx context.Context, path string) (map[string]bool, error) {
	out := map[string]bool{}
	if path == "" {
		return out, nil
	}
	err := db.withRepair(ctx, "find the runs of a script", func() error {
		end := "/" + filepath.Base(path)
		ids, err := stringsOf(ctx, db.sql, "SELECT id FROM entries WHERE kind = ? AND (script = ? OR substr(script, -length(?)) = ?) ORDER BY started_at DESC LIMIT ?",
			string(Run), path, end, end, 4*maxVersions)
		for _, id := range ids {
			out[id] = true
		}
		return err
	})
	return out, err
}

package history

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"trainopt/optimizer/job"
	"trainopt/optimizer/journal"
)

// relation is how the work of an earlier run relates to that of a key.
type relation struct {
	sameWork   bool // a unit of its work costs the same
	sameLength bool // and there are as many of them
	distance   float64
	differs    []string
}

// relate compares an earlier run with a key; ok is false when it is another training, or on another kind of machine.
func relate(rec *journal.Record, key Key) (rel relation, ok bool) {
	if !key.AnyMachine && !sameMachine(rec.Host, key) {
		return rel, false
	}
	differ, comparable := job.Compare(sameScript(rec, key), key.Command)
	if !comparable {
		return rel, false
	}
	if rel.distance, ok = textDistance(rec, key); !ok {
		return rel, false
	}
	if rel.distance > 0 {
		rel.differs = append(rel.differs, "the script's text")
	}
	rel.sameLength = rec.Handed.Epochs == key.Epochs
	if rec.Handed.Dataset != key.Dataset {
		rel.distance++
		rel.differs = append(rel.differs, fmt.Sprintf("data set %s, now %s", orNone(rec.Handed.Dataset), orNone(key.Dataset)))
	}
	for _, d := range differ {
		switch d.Effect {
		case job.LengthOnly:
			rel.sameLength = false
		case job.WorkEffect:
			rel.distance += d.Distance
			rel.differs = append(rel.differs, fmt.Sprintf("%s %s, now %s", d.Name, orNone(d.Was), orNone(d.Is)))
		}
	}
	rel.sameWork = len(rel.differs) == 0
	return rel, true
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// sameScript is the earlier command with its script named as the key names it: a copy elsewhere is the same script.
func sameScript(rec *journal.Record, key Key) []string {
	was := slices.Clone(rec.Command)
	for i := range was {
		if i < len(key.Command) && was[i] == rec.Script.Path && key.Command[i] == key.Script {
			was[i] = key.Script
		}
	}
	return was
}

// textDistance is how far the script of an earlier run is from the key's: 0 for the same code. ok is false for another script.
func textDistance(rec *journal.Record, key Key) (distance float64, ok bool) {
	switch {
	case key.ScriptSHA256 == "" || rec.Script.SHA256 == "":
		entry := job.EntryPoint(key.Command)
		return 0, entry != "" && rec.Script.SHA256 == key.ScriptSHA256 && job.EntryPoint(rec.Command) == entry
	case rec.Script.SHA256 == key.ScriptSHA256:
		return 0, true
	}
	path := key.Script
	if path == "" || filepath.Base(rec.Script.Path) != filepath.Base(path) {
		return 0, false
	}
	equal, similarity, comparable := job.CompareLikeness(rec.Script.Likeness, key.Likeness)
	switch {
	case comparable && equal:
		return 0, true
	case comparable:
		return max(0.1, 4*(1-similarity)), similarity >= leastSimilar // the estimate may miss a statement
	}
	return unknownText, rec.Script.Path == path
}

// runsOfScript are the ids of the ended runs whose script has a path, or lies elsewhere under the same name.
func (db *DB) runsOfScript(ctx context.Context, path string) (map[string]bool, error) {
	out := map[string]bool{}
	if path == "" {
		return out, nil
	}
	err := db.do(ctx, "find the runs of a script", func() error {
		end := "/" + filepath.Base(path)
		rows, err := db.sql.QueryContext(ctx, "SELECT id FROM entries WHERE kind = ? AND (script = ? OR substr(script, -length(?)) = ?) ORDER BY started_at DESC LIMIT ?",
			string(Run), path, end, end, 4*maxVersions)
		if err != nil {
			return err
		}
		defer rows.Close()
		clear(out)
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			out[id] = true
		}
		return rows.Err()
	})
	return out, err
}

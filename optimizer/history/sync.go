package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"trainopt/optimizer/journal"
)

// runDirState is the state of a run directory when it was last read.
type runDirState struct {
	id           string
	modifiedNs   int64 // of run.json; 0 forces reading it again
	size         int64
	scriptSHA256 string
	problem      string // why run.json could not be read; "" when it could
}

func (s *runDirState) row() []any {
	return []any{s.id, s.modifiedNs, s.size, s.scriptSHA256, s.problem}
}

const (
	// mtimeSettleTime is the minimum age at which an unchanged modification time proves unchanged content: a younger file may
	// be written again within the same tick of the file system's clock.
	mtimeSettleTime = 2 * time.Second
	// batch is the number of runs per transaction.
	batch = 100
)

// Sync reads the run directories that are new or have changed, and removes the entries of deleted ones. Runs that
// have not ended have no entry. Unreadable runs are left out and named in the notes.
func (db *DB) Sync() (notes []string, err error) {
	runs, err := db.syncRuns(context.Background())
	for _, r := range runs {
		if r.problem != "" {
			notes = append(notes, leftOut(r.id, r.problem))
		}
	}
	return notes, err
}

// syncRuns is Sync with a context; it returns all runs, newest first.
func (db *DB) syncRuns(ctx context.Context) (runs []runDirState, err error) {
	err = db.withRepair(ctx, "bring up to date", func() error {
		runs, err = db.sync(ctx)
		return err
	})
	return runs, err
}

func leftOut(id string, why any) string {
	return fmt.Sprintf("earlier run %s is left out: %v", id, why)
}

// SyncStateDir syncs the database of a state directory at the end of a run, within a time limit; the next sync continues
// unfinished work. All failures, panics included, are returned as notes.
func SyncStateDir(stateDir string, within time.Duration) (notes []string) {
	notes, err := awaitResult(within, func() ([]string, error) { return remember(stateDir, within*3/4), nil })
	switch {
	case errors.Is(err, errNoAnswer):
		return []string{fmt.Sprintf("the runs database in %s %v: it is brought up to date another time", stateDir, err)}
	case err != nil:
		return []string{fmt.Sprintf("runs database in %s: %v", stateDir, err)}
	}
	return notes
}

// errNoAnswer reports that a call did not return in time.
var errNoAnswer = errors.New("did not answer")

// awaitResult calls f and waits for its result at most for the given time, because no context ends a call that hangs in a file
// system: f then continues alone. A panic of f is an error.
func awaitResult[T any](within time.Duration, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1) // buffered: none waits for a call that hangs
	go func() {
		var r result
		defer func() {
			if x := recover(); x != nil {
				r.err = fmt.Errorf("%v", x)
			}
			done <- r
		}()
		r.value, r.err = f()
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-time.After(within):
		var none T
		return none, fmt.Errorf("%w within %s", errNoAnswer, within)
	}
}

func remember(stateDir string, within time.Duration) []string {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	db, err := open(ctx, stateDir, within)
	if err != nil {
		return []string{fmt.Sprintf("%v: it is brought up to date another time", err)}
	}
	defer db.Close()
	_, err = db.syncRuns(ctx)
	notes := db.Notes()
	if err != nil && ctx.Err() == nil { // a large backlog of runs is read over several calls
		notes = append(notes, fmt.Sprintf("%v: it is brought up to date another time", err))
	}
	return notes
}

// sync reads changed runs, newest first. When ctx ends, the batches written so far are kept. Removed directories are
// deleted from the database first; changed ones follow in batches of one transaction each.
func (db *DB) sync(ctx context.Context) ([]runDirState, error) {
	before, err := seenRuns(ctx, db.sql) // read before the directories are listed: a run in the database but not in the list is deleted
	if err != nil {
		return nil, err
	}
	now, changed, err := scanRunDirs(db.stateDir, before)
	if err != nil {
		return nil, err
	}
	var gone []string
	for id := range before {
		gone = append(gone, id)
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		err := db.transaction(ctx, func(tx *sql.Tx) error {
			for _, id := range gone {
				if err := remove(ctx, tx, id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for part := range slices.Chunk(changed, batch) {
		if err := db.ingestRuns(ctx, now, part); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// scanRunDirs lists the run directories, newest first, and the indices of those that must be read. It deletes every listed
// run from before. A directory is unchanged if modification time and size of its record are; the time of a recent
// record is stored as 0, because it does not prove that.
func scanRunDirs(stateDir string, before map[string]runDirState) (now []runDirState, changed []int, err error) {
	runs := journal.RunsDir(stateDir)
	dirs, err := os.ReadDir(runs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("list runs: %w", err)
	}
	recent := time.Now().Add(-mtimeSettleTime)
	for _, d := range slices.Backward(dirs) { // ReadDir sorts by name, and names start with the time
		if !d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		run := runDirState{id: d.Name()}
		st, err := os.Stat(filepath.Join(runs, run.id, journal.RecordFile))
		switch {
		case errors.Is(err, fs.ErrNotExist): // a run that is just starting has no record yet
			continue
		case err != nil:
			run.problem = err.Error()
		default:
			run.modifiedNs, run.size = st.ModTime().UnixNano(), st.Size()
		}
		old, known := before[run.id]
		delete(before, run.id)
		if known && old.modifiedNs == run.modifiedNs && old.size == run.size && run.problem == "" {
			run = old
		} else {
			changed = append(changed, len(now))
			if run.problem == "" && st.ModTime().After(recent) {
				run.modifiedNs = 0
			}
		}
		now = append(now, run)
	}
	return now, changed, nil
}

// ingestRuns reads some runs and writes their entries in one transaction; it updates the elements of now. If ctx ends, the
// runs read so far are still written. Runs with unreadable records are stored with their problem, and read again
// unless the record is damaged.
func (db *DB) ingestRuns(ctx context.Context, now []runDirState, changed []int) error {
	entries := make([][]Entry, 0, len(changed))
	read := changed[:0:0]
	for _, i := range changed {
		if ctx.Err() != nil {
			break
		}
		run := &now[i]
		dir := filepath.Join(journal.RunsDir(db.stateDir), run.id)
		var own []Entry
		rec, err := journal.ReadVerified(dir)
		switch {
		case err != nil:
			run.problem = err.Error()
			var d *journal.Damage
			if !errors.As(err, &d) { // may become readable later, or by a newer version of this program
				run.modifiedNs = 0
			}
		default:
			run.scriptSHA256 = rec.Script.SHA256
			own = runEntries(run.id, dir, rec)
		}
		entries, read = append(entries, own), append(read, i)
	}
	whole := context.WithoutCancel(ctx) // runs that were read are always written
	err := db.transaction(whole, func(tx *sql.Tx) error {
		statement, err := tx.PrepareContext(whole, "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
		defer statement.Close()
		for k, i := range read {
			if err := remove(whole, tx, now[i].id); err != nil {
				return err
			}
			if err := put(whole, tx, entries[k]); err != nil {
				return err
			}
			row := now[i].row()
			if _, err := statement.ExecContext(whole, append(row, checksum(row))...); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, ctx.Err())
}

// seenRuns returns the stored state of the run directories.
func seenRuns(ctx context.Context, q querier) (map[string]runDirState, error) {
	rows, err := q.QueryContext(ctx, "SELECT id, modified_ns, size, script_sha256, problem, checksum FROM runs")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]runDirState{}
	for rows.Next() {
		var s runDirState
		var sum int64
		if err := rows.Scan(&s.id, &s.modifiedNs, &s.size, &s.scriptSHA256, &s.problem, &sum); err != nil {
			return nil, corruptionError(err.Error())
		}
		if checksum(s.row()) != sum {
			return nil, corruptionError(fmt.Sprintf("what is known of run %s does not fit its checksum", s.id))
		}
		out[s.id] = s
	}
	return out, rows.Err()
}

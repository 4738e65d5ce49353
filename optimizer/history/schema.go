package history

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
)

// migration migrates the database from one format to the next. Released steps never change.
type migration func(ctx context.Context, tx *sql.Tx) error

// migrations defines the formats: the number of a format is the number of steps from an empty file. To add a column to the
// entries, add a line to columns with the next format in since, and a step that adds the column.
var migrations = []migration{createFormat1, addWiden, addQuota}

// createFormat1 creates format 1: the entries, and the state in which each run directory was last read.
func createFormat1(ctx context.Context, tx *sql.Tx) error {
	var b strings.Builder
	for _, c := range columns {
		if c.since == 1 {
			b.WriteString(strings.TrimSpace(c.Name+" "+c.sqlType()+" "+c.constraint) + ", ")
		}
	}
	for _, statement := range []string{
		"CREATE TABLE entries (" + b.String() + "checksum INTEGER NOT NULL)",
		"CREATE INDEX entries_kind ON entries(kind, started_at)",
		"CREATE INDEX entries_parent ON entries(parent)",
		"CREATE INDEX entries_script ON entries(script_sha256)",
		`CREATE TABLE runs (id TEXT NOT NULL PRIMARY KEY, modified_ns INTEGER NOT NULL, size INTEGER NOT NULL,
			script_sha256 TEXT NOT NULL, problem TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// addWiden adds the column of format 2, the factor of predictions. It marks all runs to be read again, for those whose
// records contain it.
func addWiden(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "ALTER TABLE entries ADD COLUMN predicted_widen REAL"); err != nil {
		return err
	}
	return readAgain(ctx, tx)
}

// addQuota adds the column of format 3, the quota of CPUs. In this format a run on several machines has the GPUs, CPUs and memory of
// all of them and the prices of one; before, it was the other way round.
func addQuota(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "ALTER TABLE entries ADD COLUMN cpu_quota REAL"); err != nil {
		return err
	}
	return readAgain(ctx, tx)
}

// readAgain marks all runs to be read again by the next sync.
func readAgain(ctx context.Context, tx *sql.Tx) error {
	runs, err := seenRuns(ctx, tx)
	if err != nil {
		return err
	}
	for _, r := range runs {
		r.modifiedNs = 0
		if _, err := tx.ExecContext(ctx, "UPDATE runs SET modified_ns = 0, checksum = ? WHERE id = ?", checksum(r.row()), r.id); err != nil {
			return err
		}
	}
	return nil
}

func (c *column) sqlType() string {
	switch c.field((&Entry{}).expand()).(type) {
	case *float64:
		return "REAL"
	case *int:
		return "INTEGER"
	}
	return "TEXT"
}

// migrate brings a sound database to the newest format, with one transaction per step. Several processes may migrate
// concurrently.
func migrate(ctx context.Context, db *sql.DB, steps []migration) error {
	for {
		done, err := migrateOnce(ctx, db, steps)
		if done || err != nil {
			return err
		}
	}
}

// migrateOnce applies one step; done is true when the newest format is reached.
func migrateOnce(ctx context.Context, db *sql.DB, steps []migration) (done bool, err error) {
	if format, err := formatOf(ctx, db); err != nil || format >= len(steps) {
		return true, err // no write is needed, not even a lock
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // no effect after a commit
	format, err := formatOf(ctx, tx)
	if err != nil || format >= len(steps) {
		return true, err
	}
	if err := steps[format](ctx, tx); err != nil {
		return false, fmt.Errorf("bring it to format %d: %w", format+1, err)
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", format+1)); err != nil {
		return false, err
	}
	return false, tx.Commit()
}

// querier is implemented by *sql.DB and *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// formatOf returns the format number of the database; 0 for an empty file.
func formatOf(ctx context.Context, q querier) (format int, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&format)
	return format, err
}

// checkPages runs a check of SQLite: quick_check, or integrity_check, which also compares the indices with the tables.
func checkPages(ctx context.Context, q querier, check string) error {
	var found string
	err := q.QueryRowContext(ctx, "PRAGMA "+check+"(1)").Scan(&found)
	if err == nil && found != "ok" {
		err = corruptionError(strings.ReplaceAll(found, "\n", ": "))
	}
	return err
}

// checkSchema returns nil if a file is a usable runs database or empty, else a *journal.NewerError, a damage, or an
// error that names a database of another program. It compares tables and columns with those of the format and runs
// SQLite's quick_check.
func checkSchema(ctx context.Context, db *sql.DB, path string, steps []migration) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // one consistent snapshot for all queries
	if err != nil {
		return err
	}
	defer tx.Rollback()
	format, err := formatOf(ctx, tx)
	if err != nil {
		return err
	}
	if format > len(steps) || format < 0 {
		return &journal.NewerError{File: path, Version: format, Known: len(steps)}
	}
	if err := checkPages(ctx, tx, "quick_check"); err != nil {
		return err
	}
	tables, err := stringsOf(ctx, tx, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	if err != nil {
		return err
	}
	ours := slices.Contains(tables, "entries") && slices.Contains(tables, "runs")
	switch {
	case format == 0 && len(tables) == 0:
		return nil
	case format == 0 && !ours:
		return fmt.Errorf("%s is a database of another program (tables %s): nothing was changed; move it away", path, strings.Join(tables, ", "))
	case format == 0 || !ours:
		return corruptionError("its format number does not fit its tables")
	}
	var want []string
	for _, c := range columns {
		if c.since <= format {
			want = append(want, c.Name)
		}
	}
	for table, names := range map[string][]string{"entries": append(want, "checksum"), "runs": runColumns} {
		have, err := stringsOf(ctx, tx, "SELECT name FROM pragma_table_info('"+table+"')")
		if err != nil {
			return err
		}
		if !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(have))) {
			return corruptionError("the columns of its table " + table + " are not those of its format")
		}
	}
	return nil
}

// runColumns lists the columns of the table runs.
var runColumns = []string{"id", "modified_ns", "size", "script_sha256", "problem", "checksum"}

// stringsOf returns the only column of a query.
func stringsOf(ctx context.Context, q querier, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

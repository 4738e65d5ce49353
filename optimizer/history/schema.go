package history

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/journal"
)

// step brings the database from one format to the next. Steps that were released never change.
type step func(ctx context.Context, tx *sql.Tx) error

// steps make the format: the number of a format is how many steps it is from an empty file. A new column of an entry is a
// line in columns, since the next format, and a step that adds it.
var steps = []step{first}

// first is format 1: the entries, and what was read of each run directory when.
func first(ctx context.Context, tx *sql.Tx) error {
	var b strings.Builder
	for _, c := range columns {
		if c.since == 1 {
			b.WriteString(c.definition() + ", ")
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

// definition is the column in SQL.
func (c *column) definition() string {
	return strings.TrimSpace(c.Name + " " + c.sqlType() + " " + c.constraint)
}

func (c *column) sqlType() string {
	switch c.field((&Entry{}).open()).(type) {
	case *float64:
		return "REAL"
	case *int:
		return "INTEGER"
	}
	return "TEXT"
}

// migrate brings a database that is sound to the newest format, one step a transaction. Another process may do the same at
// the same time.
func migrate(ctx context.Context, db *sql.DB, steps []step) error {
	for {
		done, err := migrateOnce(ctx, db, steps)
		if done || err != nil {
			return err
		}
	}
}

func migrateOnce(ctx context.Context, db *sql.DB, steps []step) (done bool, err error) {
	if format, err := formatOf(ctx, db); err != nil || format >= len(steps) {
		return true, err // nothing to write, not even a lock
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // after a commit it does nothing
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

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func formatOf(ctx context.Context, q querier) (format int, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&format)
	return format, err
}

// inspect says whether a file is a runs database that can be worked with: nil, a *journal.NewerError, a damage, or that it
// belongs to another program.
func checkSchema(ctx context.Context, db *sql.DB, path string, steps []step) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // so that all is seen at one moment
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
	var found string
	if err := tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return damage(strings.ReplaceAll(found, "\n", ": "))
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
		return damage("its format number does not fit its tables")
	}
	var want []string
	for _, c := range columns {
		if c.since <= format {
			want = append(want, c.Name)
		}
	}
	have, err := stringsOf(ctx, tx, "SELECT name FROM pragma_table_info('entries') WHERE name != 'checksum'")
	if err != nil {
		return err
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		return damage("the columns of its entries are not those of its format")
	}
	return nil
}

func stringsOf(ctx context.Context, q querier, query string) ([]string, error) {
	rows, err := q.QueryContext(ctx, query)
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

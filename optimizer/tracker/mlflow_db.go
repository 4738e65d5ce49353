package tracker

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"trainopt/internal/regular"
)

// errNoStore reports an SQLite database without the tables of MLflow.
var errNoStore = errors.New("it is an SQLite database without runs of MLflow")

// isSQLite reports whether a file is an SQLite database, as in mlflow.db.
func isSQLite(path string) bool {
	f, err := regular.Open(path, math.MaxInt64)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 16)
	_, err = f.Read(head)
	return err == nil && bytes.Equal(head, []byte("SQLite format 3\x00"))
}

// UnpackMLflow writes the runs of an SQLite store of MLflow (mlflow.db) that are not deleted to a new temporary directory,
// in the layout of a file store: EXPERIMENT/RUN. The database is opened read-only. It returns "" for a file that is not an
// SQLite database, and an error for the database of another program. The caller removes the directory.
func UnpackMLflow(path string) (dir string, err error) {
	if !isSQLite(path) {
		return "", nil
	}
	if dir, err = os.MkdirTemp("", "optimize-import-"); err != nil {
		return "", err
	}
	if err := unpack(path, dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

func unpack(path, dir string) error {
	source := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)"}}.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return err
	}
	defer db.Close()
	var tables int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('runs', 'metrics', 'params')").Scan(&tables); err != nil {
		return err
	}
	if tables < 3 {
		return errNoStore
	}
	runs := 0
	err = each(db, "SELECT run_uuid, experiment_id, start_time FROM runs WHERE lifecycle_stage = 'active'", nil, func(row []string) error {
		if !filepath.IsLocal(row[0]) || !filepath.IsLocal(row[1]) {
			return nil // neither is of MLflow
		}
		runs++
		return unpackRun(db, row[0], filepath.Join(dir, row[1], row[0]), row[2])
	})
	if err == nil && runs == 0 {
		err = errNoStore
	}
	return err
}

// unpackRun writes one run; its start is in ms since 1970, "" if unknown.
func unpackRun(db *sql.DB, id, dir, start string) error {
	for _, sub := range []string{"metrics", "params"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	meta := "run_id: " + strconv.Quote(id) + "\n"
	if start != "" {
		meta += "start_time: " + start + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "meta.yaml"), []byte(meta), 0o644); err != nil {
		return err
	}
	err := each(db, "SELECT key, value FROM params WHERE run_uuid = ?", []any{id}, func(row []string) error {
		return put(filepath.Join(dir, "params"), row[0], row[1])
	})
	if err != nil {
		return err
	}
	var key string
	var lines strings.Builder
	flush := func() error {
		if lines.Len() == 0 {
			return nil
		}
		defer lines.Reset()
		return put(filepath.Join(dir, "metrics"), key, lines.String())
	}
	query := "SELECT key, timestamp, CASE WHEN is_nan THEN 'nan' ELSE value END, step FROM metrics WHERE run_uuid = ? ORDER BY key, timestamp, step"
	err = each(db, query, []any{id}, func(row []string) error {
		if row[0] != key {
			if err := flush(); err != nil {
				return err
			}
			key = row[0]
		}
		fmt.Fprintf(&lines, "%s %s %s\n", row[1], row[2], row[3])
		return nil
	})
	return errors.Join(err, flush())
}

// put writes the file of a metric or a parameter, whose name may contain slashes; a name that leaves the directory is
// left out.
func put(dir, key, text string) error {
	if !filepath.IsLocal(key) {
		return nil
	}
	path := filepath.Join(dir, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// each calls a function for each row of a query, whose values are texts; NULL is "".
func each(db *sql.DB, query string, args []any, row func([]string) error) error {
	rows, err := db.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	texts, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range texts {
		into[i] = &texts[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		values := make([]string, len(texts))
		for i, t := range texts {
			values[i] = t.String
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

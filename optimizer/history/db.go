package history

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"trainopt/optimizer/journal"
)

// fileName is the name of the runs database in a state directory.
const fileName = "history.db"

// patience is the longest wait for a lock that another process holds.
const patience = 10 * time.Second

// maxLockWaits bounds the number of waits for a process that keeps changing the file.
const maxLockWaits = 6

// DB is the runs database of a state directory: one SQLite file. It is safe for concurrent use by several goroutines
// and several processes.
//
// Entries of supervised runs are derived from the run directories and can be rebuilt from them; imported logs exist
// only in the database.
//
// It uses a rollback journal instead of a write-ahead log: state directories are often on a network file system and
// shared by several machines, where the shared memory of a write-ahead log is not available; with one write per run a
// write-ahead log would not be faster.
type DB struct {
	stateDir string
	path     string
	patience time.Duration
	lock     *fileLock

	mu    sync.Mutex // guards the fields below
	sql   *sql.DB
	notes []string
}

// Filter selects entries; the zero value selects all.
type Filter struct {
	Kinds  []Kind
	Models []string  // exact names, case-insensitive
	Since  time.Time // started at or after; excludes entries of unknown start
	Limit  int       // keep the newest Limit entries; 0 means all
}

// Open opens or creates the runs database of a state directory, and the directory itself. A damaged database is set
// aside and rebuilt from the run directories; the returned notes report it. An error means that the database is not
// usable: the directory is not writable, the disk is full, another process holds the lock for too long, or the file
// belongs to a newer version (*journal.NewerError) or to another program.
func Open(stateDir string) (*DB, []string, error) {
	db, err := open(context.Background(), stateDir, patience)
	if err != nil {
		return nil, nil, err
	}
	return db, db.notes, nil
}

func open(ctx context.Context, stateDir string, patience time.Duration) (*DB, error) {
	dir, err := filepath.Abs(stateDir)
	if err == nil {
		err = journal.MakeStateDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open runs database: %w", err)
	}
	db := &DB{stateDir: dir, path: filepath.Join(dir, fileName), patience: patience}
	if db.lock, err = lockShared(db.path+".lock", patience); err != nil {
		return nil, fmt.Errorf("open runs database %s: %w", db.path, err)
	}
	if err = db.connect(ctx); isCorrupt(err) {
		err = db.rebuild(ctx, err)
	}
	if err != nil {
		return nil, errors.Join(db.wrap("open", err), db.Close())
	}
	return db, nil
}

// connect opens the file, verifies that it is sound and migrates it to the newest format.
func (db *DB) connect(ctx context.Context) error {
	// Lstat: in a directory that others may write to, a symbolic link must not select the file.
	if st, err := os.Lstat(db.path); err == nil && !st.Mode().IsRegular() {
		return errors.New("not a plain file")
	} else if errors.Is(err, fs.ErrNotExist) {
		if err := createPrivate(db.path); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	pool, err := openFile(db.path, db.patience, "_defensive=1")
	if err != nil {
		return err
	}
	if err = checkSchema(ctx, pool, db.path, migrations); err == nil {
		err = migrate(ctx, pool, migrations)
	}
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	db.sql = pool
	return nil
}

// createPrivate creates an empty file that only its owner can read, because SQLite would create the database with the
// mode of the umask. A file that another process has created in the meantime is kept.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// openFile returns a connection pool of one connection. Transactions take the write lock when they begin, and every
// commit is synced to disk.
func openFile(path string, patience time.Duration, option string) (*sql.DB, error) {
	source := url.URL{Scheme: "file", Path: path, RawQuery: fmt.Sprintf("_busy_timeout=%d&_pragma=cell_size_check(1)&_journal_mode=DELETE"+
		"&_synchronous=FULL&_foreign_keys=1&_txlock=immediate&_dqs=0&_error_rc=1&%s", patience.Milliseconds(), option)}
	pool, err := sql.Open("sqlite", source.String())
	if err == nil {
		pool.SetMaxOpenConns(1)
	}
	return pool, err
}

func (db *DB) disconnect() error {
	if db.sql == nil {
		return nil
	}
	err := db.sql.Close()
	db.sql = nil
	return err
}

// Close releases the database and its lock. The DB must not be used afterwards.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return errors.Join(db.disconnect(), db.lock.release())
}

// Notes returns the problems that were detected and repaired since the database was opened.
func (db *DB) Notes() []string {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.notes)
}

// wrap adds the attempted operation and the path to an error, and replaces the driver's text where a clearer one
// exists.
func (db *DB) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	var newer *journal.NewerError
	if errors.As(err, &newer) {
		return err
	}
	text := err.Error()
	switch code := sqliteCode(err); code {
	case codeBusy:
		text = fmt.Sprintf("another process has kept it locked for more than %s", db.patience)
	case codeCantOpen, codeReadOnly, codePermission:
		text += ": can the directory be written?"
	}
	return fmt.Errorf("%s runs database %s: %w", what, db.path, messageError{strings.ReplaceAll(text, "\n", "; "), err})
}

// messageError is an error with a replaced message.
type messageError struct {
	text string
	err  error
}

func (s messageError) Error() string { return s.text }
func (s messageError) Unwrap() error { return s.err }

// withRepair runs work under the mutex. If work reports damage, or a violated constraint, which a damaged index causes
// too, withRepair rebuilds a damaged database and runs work once more.
func (db *DB) withRepair(ctx context.Context, what string, work func() error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.sql == nil {
		return fmt.Errorf("%s runs database %s: it is closed", what, db.path)
	}
	err := work()
	if isCorrupt(err) || sqliteCode(err) == codeConstraint {
		if err = db.rebuild(ctx, err); err == nil {
			err = work()
		}
	}
	return db.wrap(what, err)
}

// Put adds entries in one transaction, replacing those with the same ID. The parent of a probe must be stored already
// or be among the entries.
func (db *DB) Put(entries ...Entry) error {
	ctx := context.Background()
	return db.withRepair(ctx, "write to", func() error {
		return db.transaction(ctx, func(tx *sql.Tx) error { return put(ctx, tx, entries) })
	})
}

// transaction commits if work returns nil, and rolls back otherwise.
func (db *DB) transaction(ctx context.Context, work func(*sql.Tx) error) error {
	tx, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after a commit
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// begin starts a transaction. SQLite's lock is not fair: a process that writes many entries one by one may block
// another one for longer than its patience. begin therefore waits again, up to maxLockWaits times in total, if the file
// has changed meanwhile.
func (db *DB) begin(ctx context.Context) (*sql.Tx, error) {
	for turn := 1; ; turn++ {
		before := db.changed()
		tx, err := db.sql.BeginTx(ctx, nil)
		if err == nil || sqliteCode(err) != codeBusy || turn == maxLockWaits || db.changed().Equal(before) {
			return tx, err
		}
	}
}

// changed returns the modification time of the file; zero if unknown.
func (db *DB) changed() time.Time {
	fi, err := os.Stat(db.path)
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}

// putStatement updates an existing row in place: deleting it first would cascade to its probes.
var putStatement = func() string {
	var updates strings.Builder
	for _, c := range columns {
		updates.WriteString(c.Name + " = excluded." + c.Name + ", ")
	}
	return "INSERT INTO entries (" + entryNames + ") VALUES (" + strings.Repeat("?, ", len(columns)) + "?)" +
		" ON CONFLICT (id) DO UPDATE SET " + updates.String() + "checksum = excluded.checksum"
}()

func put(ctx context.Context, tx *sql.Tx, entries []Entry) error {
	statement, err := tx.PrepareContext(ctx, putStatement)
	if err != nil {
		return err
	}
	defer statement.Close()
	for _, e := range entries {
		if e.ID == "" || e.Kind == "" {
			return fmt.Errorf("an entry of %q has no id or no kind", e.Source)
		}
		row, sum := rowOf(e)
		if _, err := statement.ExecContext(ctx, append(row, sum)...); err != nil {
			return fmt.Errorf("entry %s: %w", e.ID, err)
		}
	}
	return nil
}

// timeForm is the stored form of times; it sorts chronologically as text.
const timeForm = "2006-01-02T15:04:05.000000000Z"

// rowOf returns an entry as stored in the database, and its checksum.
func rowOf(e Entry) (row []any, sum int64) {
	flat := e.expand()
	row = make([]any, len(columns), len(columns)+1)
	for i := range columns {
		row[i] = columns[i].value(flat)
		if t, ok := row[i].(time.Time); ok {
			row[i] = t.Format(timeForm)
		}
	}
	return row, checksum(row)
}

// entryOf is the inverse of rowOf.
func entryOf(row []any, sum int64) (Entry, error) {
	if checksum(row) != sum {
		return Entry{}, corruptionError(fmt.Sprintf("entry %v does not fit its checksum", row[0]))
	}
	flat := NewEntry("", "").expand()
	for i := range columns {
		c, v := &columns[i], row[i]
		if _, ok := c.field(flat).(*time.Time); ok && v != nil {
			t, err := time.Parse(timeForm, v.(string))
			if err != nil {
				return Entry{}, corruptionError(err.Error())
			}
			v = t
		}
		if err := c.set(flat, v); err != nil {
			return Entry{}, corruptionError(err.Error())
		}
	}
	return flat.collapse(), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of the known values of a row and their column positions. SQLite itself does not detect
// a changed byte within a value.
func checksum(row []any) int64 {
	var b []byte
	for i, v := range row {
		if v == nil {
			continue
		}
		b = binary.AppendUvarint(b, uint64(i))
		switch v := v.(type) {
		case string:
			b = append(binary.AppendUvarint(append(b, 't'), uint64(len(v))), v...)
		case float64:
			b = binary.BigEndian.AppendUint64(append(b, 'n'), math.Float64bits(v))
		case int64:
			b = binary.BigEndian.AppendUint64(append(b, 'i'), uint64(v))
		default:
			b = fmt.Appendf(append(b, '?'), "%T", v)
		}
	}
	return int64(crc32.Checksum(b, castagnoli))
}

func remove(ctx context.Context, tx *sql.Tx, id string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM entries WHERE id = ?1 OR parent = ?1 OR id >= ?1 || '/' AND id < ?1 || '0'", id); err != nil { // '0' is the successor of '/'
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE id = ?", id)
	return err
}

// Entries returns the entries that match the filter, newest first; those of unknown start come last.
func (db *DB) Entries(f Filter) ([]Entry, error) {
	ctx := context.Background()
	query, args := f.query()
	var out []Entry
	err := db.withRepair(ctx, "read", func() error {
		out = nil
		return each(ctx, db.sql, query, args, func(_ int64, e Entry, err error) error {
			out = append(out, e)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

var entryNames = func() string {
	var names strings.Builder
	for _, c := range columns {
		names.WriteString(c.Name + ", ")
	}
	return names.String() + "checksum"
}()

// query returns the filter as an SQL query with its arguments. Every condition is a placeholder, so no value becomes
// part of the SQL text.
func (f Filter) query() (string, []any) {
	var where []string
	var args []any
	in := func(column string, n int) {
		where = append(where, column+" IN (?"+strings.Repeat(", ?", n-1)+")")
	}
	if len(f.Kinds) > 0 {
		in("kind", len(f.Kinds))
		for _, k := range f.Kinds {
			args = append(args, string(k))
		}
	}
	if len(f.Models) > 0 {
		in("model COLLATE NOCASE", len(f.Models))
		for _, m := range f.Models {
			args = append(args, m)
		}
	}
	if !f.Since.IsZero() {
		where, args = append(where, "started_at >= ?"), append(args, f.Since.UTC().Format(timeForm))
	}
	query := "SELECT rowid, " + entryNames + " FROM entries"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	query += " ORDER BY started_at DESC, id DESC" // NULL sorts last
	if f.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, f.Limit)
	}
	return query, args
}

// each calls f with every entry that a query returns after its rowid; err is not nil for a damaged entry. A non-nil
// error from f ends the iteration and is returned.
func each(ctx context.Context, q querier, query string, args []any, f func(rowid int64, e Entry, err error) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	row := make([]any, len(columns))
	var rowid, sum int64
	into := []any{&rowid}
	for i := range row {
		into = append(into, &row[i])
	}
	into = append(into, &sum)
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return corruptionError(err.Error()) // a value of a type that is never written
		}
		e, err := entryOf(row, sum)
		if err := f(rowid, e, err); err != nil {
			return err
		}
	}
	return rows.Err()
}

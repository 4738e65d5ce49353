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

// File is the name of the runs database in a state directory.
const File = "history.db"

// patience is how long another process that is writing is waited for.
const patience = 10 * time.Second

// maxTurns bounds how often a process that makes progress is waited for.
const maxTurns = 6

// DB is the runs database of a state directory: one SQLite file. Several goroutines and several processes may use it.
//
// What it says of our own runs is derived from their directories and can be made again; imported logs are in it alone.
//
// It keeps a rollback journal, not a write-ahead log: state directories often lie on a network file system and are used from
// several machines, where the shared memory of a write-ahead log does not reach; and one write a run has nothing to gain by it.
type DB struct {
	stateDir string
	path     string
	patience time.Duration
	lock     *fileLock

	mu    sync.Mutex // held by all that uses what follows
	sql   *sql.DB
	notes []string
}

// Filter selects entries; the zero value selects all.
type Filter struct {
	Kinds        []Kind
	ScriptSHA256 string
	Models       []string  // as they are written, upper and lower case being the same
	Since        time.Time // started then or later; entries of which the start is not known are left out
	Limit        int       // the newest; 0 all
}

// Open opens, or makes, the runs database of a state directory, which is made as well. A database that is damaged is set
// aside and made again from the run directories; the notes say so. An error says that the database cannot be used here: the
// directory cannot be written, the disk is full, another process keeps it too long, the file is a newer version's
// (*journal.NewerError) or another program's.
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
	db := &DB{stateDir: dir, path: filepath.Join(dir, File), patience: patience}
	if db.lock, err = lockShared(db.path+".lock", patience); err != nil {
		return nil, fmt.Errorf("open runs database %s: %w", db.path, err)
	}
	if err = db.connect(ctx); damaged(err) {
		err = db.rebuild(ctx, err)
	}
	if err != nil {
		return nil, errors.Join(db.wrap("open", err), db.Close())
	}
	return db, nil
}

// connect opens the file, looks whether it is sound and brings it to the newest format.
func (db *DB) connect(ctx context.Context) error {
	// Lstat: a link, dangling say, in a directory that others may write to must not choose the file.
	if st, err := os.Lstat(db.path); err == nil && !st.Mode().IsRegular() {
		return errors.New("not a plain file")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pool, err := openFile(db.path, db.patience, "_defensive=1")
	if err != nil {
		return err
	}
	if err = checkSchema(ctx, pool, db.path, steps); err == nil {
		err = migrate(ctx, pool, steps)
	}
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	db.sql = pool
	return nil
}

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

// Close closes it.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return errors.Join(db.disconnect(), db.lock.release())
}

// Notes say what was found wrong, and put right, since the database was opened.
func (db *DB) Notes() []string {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.notes)
}

// wrap says what was tried; the driver's own words say what was wrong.
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
	return fmt.Errorf("%s runs database %s: %w", what, db.path, said{strings.ReplaceAll(text, "\n", "; "), err})
}

// said gives an error other words.
type said struct {
	text string
	err  error
}

func (s said) Error() string { return s.text }
func (s said) Unwrap() error { return s.err }

// do runs work on a sound database: when the work meets damage, the database is made again and the work done once more.
func (db *DB) do(ctx context.Context, what string, work func() error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.sql == nil {
		return fmt.Errorf("%s runs database %s: it is closed", what, db.path)
	}
	err := work()
	if damaged(err) {
		if err = db.rebuild(ctx, err); err == nil {
			err = work()
		}
	}
	return db.wrap(what, err)
}

// Put adds entries, replacing those with the same ID, all or none. A probe's run must be there, or among them.
func (db *DB) Put(entries ...Entry) error {
	ctx := context.Background()
	return db.do(ctx, "write to", func() error {
		return db.transaction(ctx, func(tx *sql.Tx) error { return put(ctx, tx, entries) })
	})
}

func (db *DB) transaction(ctx context.Context, work func(*sql.Tx) error) error {
	tx, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// begin starts a transaction. SQLite's wait for its turn is not fair: a process that writes many entries one by one may keep
// another out for longer than the patience. It is waited for again as long as it makes progress, up to maxTurns times.
func (db *DB) begin(ctx context.Context) (*sql.Tx, error) {
	for turn := 1; ; turn++ {
		before := db.changed()
		tx, err := db.sql.BeginTx(ctx, nil)
		if err == nil || sqliteCode(err) != codeBusy || turn == maxTurns || db.changed().Equal(before) {
			return tx, err
		}
	}
}

// changed is the time of the last change of the file; zero when that is not known.
func (db *DB) changed() time.Time {
	fi, err := os.Stat(db.path)
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}

// putStatement replaces a row where it stands: deleting it first would delete its probes with it.
var putStatement = func() string {
	var names, updates []string
	for _, c := range columns {
		names = append(names, c.Name)
		updates = append(updates, c.Name+" = excluded."+c.Name)
	}
	return "INSERT INTO entries (" + strings.Join(names, ", ") + ", checksum) VALUES (" + strings.Repeat("?, ", len(names)) + "?)" +
		" ON CONFLICT (id) DO UPDATE SET " + strings.Join(updates, ", ") + ", checksum = excluded.checksum"
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

// timeForm sorts as text.
const timeForm = "2006-01-02T15:04:05.000000000Z"

// rowOf is an entry as the database holds it, with its checksum.
func rowOf(e Entry) (row []any, sum int64) {
	flat := e.open()
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
		return Entry{}, damage(fmt.Sprintf("entry %v does not fit its checksum", row[0]))
	}
	flat := NewEntry("", "").open()
	for i := range columns {
		c, v := &columns[i], row[i]
		if _, ok := c.field(flat).(*time.Time); ok && v != nil {
			t, err := time.Parse(timeForm, v.(string))
			if err != nil {
				return Entry{}, damage(err.Error())
			}
			v = t
		}
		if err := c.set(flat, v); err != nil {
			return Entry{}, damage(err.Error())
		}
	}
	return flat.folded(), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC-32C of what is known in a row, with the places in which it stands: SQLite itself does not see a
// changed byte within a value.
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

// Delete removes the entries of a run or log: itself, its probes, its stretches. A run whose directory is still there comes
// back with the next Sync.
func (db *DB) Delete(id string) error {
	ctx := context.Background()
	return db.do(ctx, "delete from", func() error {
		return db.transaction(ctx, func(tx *sql.Tx) error { return remove(ctx, tx, id) })
	})
}

func remove(ctx context.Context, tx *sql.Tx, id string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM entries WHERE id = ?1 OR parent = ?1 OR id >= ?1 || '/' AND id < ?1 || '0'", id); err != nil { // 0 follows /
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE id = ?", id)
	return err
}

// Entries returns what the filter selects, the newest first, those of unknown start last.
func (db *DB) Entries(f Filter) ([]Entry, error) {
	ctx := context.Background()
	query, args := f.query()
	var out []Entry
	err := db.do(ctx, "read", func() error {
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
	var names []string
	for _, c := range columns {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ") + ", checksum"
}()

// query is the filter in SQL.
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
	if f.ScriptSHA256 != "" {
		where, args = append(where, "script_sha256 = ?"), append(args, f.ScriptSHA256)
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
	query += " ORDER BY started_at DESC, id DESC" // NULL is last
	if f.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, f.Limit)
	}
	return query, args
}

// each calls f with the entries that a query gives after their rowids; an entry that is damaged comes with the reason. What f
// returns ends the reading and is returned.
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
			return damage(err.Error()) // a value of a kind that is never written
		}
		e, err := entryOf(row, sum)
		if err := f(rowid, e, err); err != nil {
			return err
		}
	}
	return rows.Err()
}

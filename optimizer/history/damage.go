package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
)

// corruptionError is an error that describes corruption of the database file.
type corruptionError string

func (d corruptionError) Error() string { return string(d) }

// SQLite's primary result codes (sqlite3.h): the low byte of an extended code.
const (
	codePermission = 3
	codeBusy       = 5
	codeReadOnly   = 8
	codeCorrupt    = 11
	codeCantOpen   = 14
	codeConstraint = 19
	codeNotADB     = 26
)

// sqliteCode returns the primary result code of a SQLite error, 0 for any other error.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// isCorrupt reports whether an error means that the database file is corrupt.
func isCorrupt(err error) bool {
	var d corruptionError
	code := sqliteCode(err)
	return errors.As(err, &d) || code == codeCorrupt || code == codeNotADB
}

// rebuild sets a damaged database aside and creates a new one from the run directories and the imported logs that are
// still readable. It holds the file lock exclusively, so that no other process writes to the file that is set aside.
// If two processes detect the damage simultaneously, the second one finds a sound file and returns.
func (db *DB) rebuild(ctx context.Context, why error) error {
	if err := db.disconnect(); err != nil {
		return err
	}
	if err := db.lock.exclusive(db.patience); err != nil {
		return fmt.Errorf("%w; it cannot be set aside: %w", why, err)
	}
	defer db.lock.shared()
	err := db.connect(ctx)
	if err == nil {
		err = db.verify(ctx)
	}
	if !isCorrupt(err) {
		return err
	}
	if err := db.disconnect(); err != nil {
		return err
	}
	kept, lost := db.salvage(ctx)
	aside, err := setAside(db.path)
	if err != nil {
		return fmt.Errorf("%w; it cannot be set aside: %w", why, err)
	}
	if err := db.connect(ctx); err != nil {
		return err
	}
	if _, err = db.sync(ctx); err == nil {
		err = db.transaction(ctx, func(tx *sql.Tx) error { return put(ctx, tx, kept) })
	}
	db.notes = append(db.notes, fmt.Sprintf("the runs database was damaged (%v): set aside as %s and made again from the run directories, with %d imported entries; "+
		"%d rows did not fit their checksums: import again what is missing", why, aside, len(kept), lost))
	return err
}

// verify reads all rows, checks their checksums, and compares the indices with the tables.
func (db *DB) verify(ctx context.Context) error {
	err := each(ctx, db.sql, "SELECT rowid, "+entryNames+" FROM entries", nil, func(_ int64, _ Entry, err error) error { return err })
	if err == nil {
		_, err = seenRuns(ctx, db.sql)
	}
	if err == nil {
		err = checkPages(ctx, db.sql, "integrity_check")
	}
	return err
}

// salvage reads, row by row, the entries of a damaged file that no run directory contains: imported logs and
// published measurements. After an unreadable row it continues behind it, with a stride that doubles once 256 rows in
// succession were unreadable. lost is the number of rows that were found but failed their checksum.
func (db *DB) salvage(ctx context.Context) (kept []Entry, lost int) {
	pool, err := openFile(db.path, db.patience, "_pragma=writable_schema(1)") // lets SQLite read a truncated file
	if err != nil {
		return nil, 0
	}
	defer pool.Close()
	const near, far = 256, 1 << 40 // rows: more than a few pages contain; more than any file contains
	names := make([]string, len(columns))
	have, err := stringsOf(ctx, pool, "SELECT name FROM pragma_table_info('entries')")
	for i, c := range columns {
		if names[i] = c.Name; err == nil && !slices.Contains(have, c.Name) { // a file of an older format
			names[i] = "NULL"
		}
	}
	query := "SELECT rowid, " + strings.Join(names, ", ") + ", checksum FROM entries NOT INDEXED WHERE rowid > ? ORDER BY rowid"
	for at, stride, misses := int64(0), int64(1), 0; at < far; {
		last := at
		err := each(ctx, pool, query, []any{at}, func(rowid int64, e Entry, err error) error {
			last = rowid
			if err != nil {
				lost++
			} else if e.Kind != Run && e.Kind != Probe {
				kept = append(kept, e)
			}
			return nil
		})
		if err == nil || ctx.Err() != nil {
			return kept, lost
		}
		if last > at {
			at, stride, misses = last, 1, 0
			continue
		}
		if misses++; misses > near {
			stride *= 2
		}
		at += stride
	}
	return kept, lost
}

// setAside renames a database and the auxiliary files of SQLite; it returns the new path.
func setAside(path string) (aside string, err error) {
	aside = path + ".corrupt-" + time.Now().UTC().Format("20060102-150405")
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s.corrupt-%s-%d", path, time.Now().UTC().Format("20060102-150405"), n)
	}
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	for _, suffix := range []string{"-journal", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

// fileLock is an flock(2) on a file beside the database. Every user of the database holds it shared; rebuild holds it
// exclusively. File systems that do not support such locks are used without one.
type fileLock struct{ file *os.File }

// lockShared creates the lock file if necessary and takes the lock shared, waiting at most patience.
func lockShared(path string, patience time.Duration) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l := &fileLock{f}
	if err := l.take(unix.LOCK_SH, patience); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

func (l *fileLock) exclusive(patience time.Duration) error { return l.take(unix.LOCK_EX, patience) }

func (l *fileLock) shared() { _ = l.take(unix.LOCK_SH, 0) } // downgrading from exclusive to shared never blocks

// take polls for the lock every 20 ms until it is acquired or patience has elapsed.
func (l *fileLock) take(how int, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(l.file.Fd()), how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOLCK) {
				return nil
			}
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("another process uses it, for more than %s", patience)
		}
	}
}

func (l *fileLock) release() error { return l.file.Close() }

package journal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Names of the files of a run that are written by this package.
const (
	RecordFile = "run.json"
	stateFile  = "state"
	lockFile   = "lock"
	// reserveFile reserves disk space for the last record and state of a run, in case the disk is full by then.
	reserveFile = ".reserve"
	runsDir     = "runs"
)

// Run is a run directory, <state directory>/runs/<run id>. Its methods are safe for concurrent use.
type Run struct {
	dir string
	fs  files

	mu   sync.Mutex
	keep keeping
}

// NewRunID returns the id of a run that starts at the given time: it sorts by time, is readable
// ("20261120-221235-train_digits-3f9a1c"), and is a safe file name for any script name.
func NewRunID(at time.Time, script string) string {
	var r [3]byte
	_, _ = rand.Read(r[:]) // never fails
	return fmt.Sprintf("%s-%s-%s", at.UTC().Format("20060102-150405"), ShortName(script), hex.EncodeToString(r[:]))
}

// ShortName returns the base name of the script without extension, in a-z, 0-9 and _, at most 24 characters long.
func ShortName(script string) string {
	base := filepath.Base(script)
	if ext := filepath.Ext(base); ext != base {
		base = strings.TrimSuffix(base, ext)
	}
	var b strings.Builder
	for _, c := range strings.ToLower(base) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
		if b.Len() == 24 {
			break
		}
	}
	if name := strings.Trim(b.String(), "_"); name != "" {
		return name
	}
	return "run"
}

// checkID rejects ids that are not plain, visible file names.
func checkID(id string) error {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	switch {
	case id == "":
		return errors.New("empty run id")
	case len(id) > 128:
		return fmt.Errorf("run id of %d bytes, at most 128", len(id))
	case id[0] == '.' || id[0] == '-':
		return fmt.Errorf("run id %q starts with %q", id, id[0])
	}
	for _, c := range id {
		if !strings.ContainsRune(safe, c) {
			return fmt.Errorf("run id %q: character %q is not allowed", id, c)
		}
	}
	return nil
}

// MakeStateDir creates the state directory if it does not exist, private as the run directories are, with a .gitignore
// that keeps it out of version control. An existing directory is not changed.
func MakeStateDir(stateDir string) error {
	_, statErr := os.Lstat(stateDir)
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return err
	}
	if errors.Is(statErr, fs.ErrNotExist) {
		_ = os.WriteFile(filepath.Join(stateDir, ".gitignore"), []byte("*\n"), 0o600) // optional: an error is ignored
	}
	return nil
}

// Create creates the directory of a new run below stateDir, and stateDir itself if necessary. An existing run of that
// id is an error (fs.ErrExist).
func Create(stateDir, runID string) (*Run, error) {
	if err := checkID(runID); err != nil {
		return nil, fmt.Errorf("create run in %s: %w", stateDir, err)
	}
	runs := RunsDir(stateDir)
	err := MakeStateDir(stateDir)
	if err == nil {
		err = os.MkdirAll(runs, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("create run %s: %w: --state-dir names another directory", runID, err)
	}
	dir, err := filepath.Abs(filepath.Join(runs, runID))
	if err != nil {
		return nil, fmt.Errorf("create run %s: %w", runID, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create run: %w", err)
	}
	if err := (disk{}).SyncDir(runs); err != nil {
		return nil, fmt.Errorf("create run %s: sync %s: %w", runID, runs, err)
	}
	_ = os.WriteFile(filepath.Join(dir, reserveFile), make([]byte, reserveBytes), 0o600) // omitted on a disk that is already full
	return &Run{dir: dir, fs: disk{}}, nil
}

const reserveBytes = 256 << 10

// Open opens an existing run directory. It reads no file.
func Open(dir string) (*Run, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open run %s: %w", dir, err)
	}
	st, err := os.Stat(abs)
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("open run %s: not a directory", abs)
	}
	return &Run{dir: abs, fs: disk{}}, nil
}

// Dir returns the absolute path of the run directory.
func (r *Run) Dir() string { return r.dir }

// ID returns the id of the run.
func (r *Run) ID() string { return filepath.Base(r.dir) }

// Path returns the path of a file of the run. It is always below the run directory, whatever name contains (it may
// come from a log or a script): "..", absolute paths, control characters and names too long for a file system are
// replaced. Sub-directories are kept; the empty name is the directory itself.
func (r *Run) Path(name string) string {
	clean := filepath.Clean("/" + name)
	parts := strings.Split(strings.TrimPrefix(clean, "/"), "/")
	for i, p := range parts {
		parts[i] = safePart(p)
	}
	return filepath.Join(append([]string{r.dir}, parts...)...)
}

// safePart replaces control characters, and shortens a name above 200 bytes to a prefix and a hash.
func safePart(p string) string {
	p = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '_'
		}
		return c
	}, p)
	if len(p) <= 200 {
		return p
	}
	sum := sha256.Sum256([]byte(p))
	return strings.ToValidUTF8(p[:150], "") + "-" + hex.EncodeToString(sum[:8])
}

// WriteFile replaces a file of the run (report.html, report.md) atomically.
func (r *Run) WriteFile(name string, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return replace(r.fs, r.Path(name), data)
}

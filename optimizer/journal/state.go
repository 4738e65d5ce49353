package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// stateVersion is the format of the state file.
const stateVersion = 1

const (
	stateMagic  = "trainopt-state"
	headerLimit = 200 // bytes; a longer first line is not a header
)

// keeping is the condition of the state on disk, which decides whether a save keeps it as the previous state.
type keeping int

const (
	unseen keeping = iota
	worthKeeping
	damaged // must not replace a good previous state
)

// previousSuffix ends the name of the state before the last one.
const previousSuffix = ".prev"

// HasState reports whether a run directory contains a state. After a crash between the two renames of a save, that is
// the previous one alone.
func HasState(dir string) bool {
	for _, name := range []string{stateFile, stateFile + previousSuffix} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// SaveState replaces the state of the agent by v (as JSON) and keeps the previous one as state.prev. After a crash or
// an error at any point, LoadState returns the old or the new state.
func (r *Run) SaveState(v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.saveState(encodeState(payload)); err != nil {
		r.keep = unseen
		return fmt.Errorf("save state: %w", err)
	}
	r.keep = worthKeeping
	return nil
}

// saveState writes the temporary file, keeps an intact current state as the previous one, and renames the new one
// into place.
func (r *Run) saveState(data []byte) error {
	path := r.Path(stateFile)
	if r.keep == unseen {
		if err := r.inspectState(path); err != nil {
			return err
		}
	}
	tmp, err := write(r.fs, path, data)
	if err != nil {
		return err
	}
	if r.keep == worthKeeping {
		if err := r.fs.Rename(path, path+previousSuffix); err != nil && !absent(err) {
			_ = r.fs.Remove(tmp)
			return fmt.Errorf("keep previous %s: %w", path, err)
		}
	}
	if err := r.fs.Rename(tmp, path); err != nil {
		_ = r.fs.Remove(tmp)
		return fmt.Errorf("put %s in place: %w", path, err)
	}
	if err := r.fs.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("sync directory of %s: %w", path, err)
	}
	return nil
}

// inspectState determines whether the state on disk is intact. It returns an error only if that was written by a
// newer version, which must not be overwritten.
func (r *Run) inspectState(path string) error {
	data, err := r.fs.ReadFile(path)
	if err != nil {
		return nil // missing or unreadable
	}
	if _, err = decodeState(path, data); err == nil {
		r.keep = worthKeeping
	}
	var newer *NewerError
	if errors.As(err, &newer) {
		return err
	}
	return nil
}

// LoadState sets v, a pointer, to the last saved state. If that is damaged or incomplete, v is the previous state and
// note describes the reason. It returns errNoState if no state was saved, and a *Damage if none is readable; a state
// of a newer version is refused (*NewerError).
func (r *Run) LoadState(v any) (note string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := r.Path(stateFile)
	first := r.loadState(path, v)
	if first == nil {
		r.keep = worthKeeping
		return "", nil
	}
	var newer *NewerError
	if errors.As(first, &newer) {
		return "", fmt.Errorf("load state: %w", first)
	}
	r.keep = damaged
	second := r.loadState(path+previousSuffix, v)
	switch {
	case second == nil && absent(first):
		return "the newest state was never completed; the one before it is used", nil
	case second == nil:
		return fmt.Sprintf("%v; the state before it is used", first), nil
	case absent(first) && absent(second):
		return "", fmt.Errorf("load state of %s: %w", r.dir, errNoState)
	case absent(second):
		return "", fmt.Errorf("load state: %w, and no earlier one was kept", first)
	case absent(first):
		return "", fmt.Errorf("load state: %w", second)
	}
	return "", fmt.Errorf("load state: %w; the one before it: %w", first, second)
}

// loadState reads one state file into v.
func (r *Run) loadState(path string, v any) error {
	data, err := r.fs.ReadFile(path)
	if err != nil {
		return err
	}
	payload, err := decodeState(path, data)
	if err != nil {
		return err
	}
	// Decode into a new value first, so that v is either complete or untouched.
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("%T is not a pointer to fill", v)
	}
	fresh := reflect.New(target.Type().Elem())
	if err := json.Unmarshal(payload, fresh.Interface()); err != nil {
		return &Damage{File: path, What: "whole, but not a state of this program: " + err.Error()}
	}
	target.Elem().Set(fresh.Elem())
	return nil
}

// encodeState prepends a header line to the payload: magic, version, length and SHA-256 of the payload, and a CRC of
// these four, so that a flipped bit in the version is not mistaken for a newer version.
func encodeState(payload []byte) []byte {
	sum := sha256.Sum256(payload)
	head := fmt.Sprintf("%s %d %d %s", stateMagic, stateVersion, len(payload), hex.EncodeToString(sum[:]))
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %08x\n", head, crc32.ChecksumIEEE([]byte(head)))
	b.Write(payload)
	return b.Bytes()
}

// decodeState verifies a state file and returns its payload, or a *Damage or *NewerError.
func decodeState(path string, data []byte) ([]byte, error) {
	bad := func(offset int, format string, args ...any) ([]byte, error) {
		return nil, &Damage{File: path, Offset: int64(offset), What: fmt.Sprintf(format, args...)}
	}
	if len(data) == 0 {
		return bad(0, "empty")
	}
	end := bytes.IndexByte(data[:min(len(data), headerLimit)], '\n')
	if end < 0 || !bytes.HasPrefix(data, []byte(stateMagic+" ")) {
		return bad(0, "no header: not a state file, or its start is gone")
	}
	line := string(data[:end])
	cut := strings.LastIndexByte(line, ' ')
	if want := fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(line[:cut]))); line[cut+1:] != want {
		return bad(cut+1, "checksum of the header is wrong")
	}
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return bad(0, "header without a version")
	}
	version, err := strconv.Atoi(fields[1])
	switch {
	case err != nil || version < 1:
		return bad(len(stateMagic)+1, "version %q is none", fields[1])
	case version > stateVersion:
		return nil, &NewerError{File: path, Version: version, Known: stateVersion}
	case len(fields) != 5:
		return bad(0, "header of %d fields, want 5", len(fields))
	}
	payload := data[end+1:]
	if want, err := strconv.Atoi(fields[2]); err != nil || want != len(payload) {
		return bad(len(data), "%d bytes after the header, want %s", len(payload), fields[2])
	}
	if sum := sha256.Sum256(payload); hex.EncodeToString(sum[:]) != fields[3] {
		return bad(end+1, "checksum is wrong")
	}
	return payload, nil
}

package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
)

// Encode returns a record in the format of run.json. Nil lists become empty, and a NaN that JSON cannot represent
// becomes unknown instead of an error.
func (r *Record) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(tidy(reflect.ValueOf(*r)).Interface(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode record of run %s: %w", r.RunID, err)
	}
	return append(data, '\n'), nil
}

// WriteRecord replaces run.json atomically. On a full disk, the record of a run that is over uses the space that
// Create has reserved.
func (r *Run) WriteRecord(rec *Record) error {
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	over := rec.State != Running && rec.State != Planned
	data = seal(data)
	err = replace(r.fs, r.Path(RecordFile), data)
	if over { // the reserve is not required any more, or required now
		if removed := r.fs.Remove(r.Path(reserveFile)); removed == nil && err != nil {
			err = replace(r.fs, r.Path(RecordFile), data)
		}
	}
	if err != nil {
		return fmt.Errorf("save record: %w", err)
	}
	return nil
}

// sealFormat is the end of a sealed run.json: the CRC-32 of the record before it, as its last member.
const sealFormat = ",\n  \"checksum\": \"%08x\"\n}\n"

// seal appends the checksum to an encoded record.
func seal(data []byte) []byte {
	body := bytes.TrimSuffix(data, []byte("\n}\n"))
	return fmt.Appendf(body, sealFormat, crc32.ChecksumIEEE(body))
}

// sealed reports whether the checksum at the end of run.json fits what precedes it.
func sealed(data []byte) bool {
	cut := max(0, len(data)-len(fmt.Sprintf(sealFormat, 0)))
	return string(data[cut:]) == fmt.Sprintf(sealFormat, crc32.ChecksumIEEE(data[:cut]))
}

// ReadRecord reads the run.json of a run directory. A file of a newer schema is refused (*NewerError); one that is
// not valid JSON is a *Damage. Absent keys are unknown. The record is settled ([Record.Settle]). If the checksum does not
// fit the content, the record is Altered, which is its first warning; a record of an earlier version has no checksum.
func ReadRecord(dir string) (*Record, error) { return readRecord(disk{}, dir) }

// readRecord is ReadRecord on a replaceable file system.
func readRecord(fsys files, dir string) (*Record, error) {
	path := filepath.Join(dir, RecordFile)
	data, err := fsys.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	if len(data) == 0 {
		return nil, &Damage{File: path, What: "empty"}
	}
	var head struct {
		Schema   int             `json:"schema"`
		Checksum json.RawMessage `json:"checksum"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, jsonDamage(path, err)
	}
	if head.Schema > Schema {
		return nil, &NewerError{File: path, Version: head.Schema, Known: Schema}
	}
	if head.Schema < 1 {
		return nil, &Damage{File: path, What: "no schema number: not the record of a run"}
	}
	rec := NewRecord()
	if err := json.Unmarshal(data, rec); err != nil {
		return nil, jsonDamage(path, err)
	}
	rec.Settle()
	if head.Checksum != nil && !sealed(data) {
		rec.Altered = true
		rec.Warnings = slices.Insert(rec.Warnings, 0, alteredWarning)
	}
	return rec, nil
}

const alteredWarning = RecordFile + " was changed by another program (its checksum is wrong): its content is not verified, and no prediction uses it"

// ReadVerified is ReadRecord for computations: an altered record is a *Damage.
func ReadVerified(dir string) (*Record, error) {
	rec, err := ReadRecord(dir)
	if err == nil && rec.Altered {
		return nil, &Damage{File: filepath.Join(dir, RecordFile), What: "its checksum is wrong: another program changed it"}
	}
	return rec, err
}

func jsonDamage(path string, err error) *Damage {
	d := &Damage{File: path, What: err.Error()}
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		d.Offset = syntax.Offset
	case errors.As(err, &wrong):
		d.Offset = wrong.Offset
	}
	return d
}

// Damage reports that a file of a run exists but its content is invalid.
type Damage struct {
	File   string
	Offset int64  // position of the damage in bytes; 0 for the whole file
	What   string // description
}

func (d *Damage) Error() string {
	if d.Offset > 0 {
		return fmt.Sprintf("%s is damaged at byte %d: %s", d.File, d.Offset, d.What)
	}
	return fmt.Sprintf("%s is damaged: %s", d.File, d.What)
}

// NewerError reports that a file was written by a newer version of this program. The file is unchanged.
type NewerError struct {
	File           string
	Version, Known int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s was written by a newer version of this program (format %d, this one reads up to %d): "+
		"use the newer version; nothing was changed", e.File, e.Version, e.Known)
}

// errNoState reports that a run has no saved state.
var errNoState = errors.New("no state was saved")

// absent reports whether err means that a file does not exist.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
)

// isLog reports whether a name has the extension of a training log, which distinguishes a log from a script.
func isLog(name string) bool {
	return slices.Contains([]string{".csv", ".json", ".jsonl", ".log", ".tsv", ".txt"}, strings.ToLower(filepath.Ext(name)))
}

// IsFile reports whether a path exists and is not a directory.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// EqualsHint returns how to write a word that follows a flag of a command, if it may be meant as the value of the flag: one
// whose value is optional takes it only after an equals sign.
func (e *Env) EqualsHint(cmd *cobra.Command, word string) string {
	for i, a := range e.Args {
		name, isFlag := strings.CutPrefix(a, "--")
		if a == "--" || i+1 == len(e.Args) {
			break
		}
		f := cmd.Flag(string(Normalize(nil, name)))
		if !isFlag || e.Args[i+1] != word || f == nil || f.NoOptDefVal == "" {
			continue
		}
		if _, err := strconv.ParseBool(word); err == nil || f.Value.Type() != "bool" {
			return fmt.Sprintf("; a value of --%s follows an equals sign: --%s=%s", f.Name, f.Name, word)
		}
	}
	return ""
}

// FindRun resolves a run id, a unique part of one, "latest", or a path to a run directory. If the reference looks like
// a missing log, the error reports that.
func (e *Env) FindRun(ref string) (dir string, err error) {
	dir, err = journal.Find(e.State(), ref)
	if err != nil && isLog(ref) {
		err = fmt.Errorf("read training log %s: no such file", ref)
	}
	return dir, err
}

// FindLogOrRun resolves a reference to the path of a training log, which may be a framework's output directory, or to a
// run directory.
func (e *Env) FindLogOrRun(ref string) (log, run string, err error) {
	path := e.Path(ref)
	if IsFile(path) {
		return path, "", nil
	}
	run, err = e.FindRun(ref)
	if info, stat := os.Stat(path); err != nil && stat == nil && info.IsDir() {
		return path, "", nil
	}
	return "", run, err
}

// OpenHistory opens and updates the runs database of the state directory; notes describe inconsistencies.
func (e *Env) OpenHistory() (db *history.DB, notes []string, err error) {
	db, notes, err = history.Open(e.State())
	if err != nil {
		return nil, nil, err
	}
	more, err := db.Sync()
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, repairs(db, append(notes, more...)), nil
}

// repairs adds the repairs of the database that notes do not contain yet.
func repairs(db *history.DB, notes []string) []string {
	for _, note := range db.Notes() {
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// SharedHistory returns the entries of History and those of other projects whose history is shared.
func (e *Env) SharedHistory(f history.Filter) (entries []history.Entry, notes []string, err error) {
	entries, notes, err = e.History(f)
	states, note := e.OtherStates()
	if note != "" {
		notes = append(notes, note)
	}
	for _, state := range states {
		other := *e
		other.StateDir = state
		more, _, otherErr := other.History(f)
		if otherErr != nil {
			notes = append(notes, fmt.Sprintf("history of another project left out: %v", otherErr))
		}
		entries = append(entries, more...)
	}
	return entries, notes, err
}

// History returns the current entries of the runs database. A state directory that does not exist has none and is not
// created.
func (e *Env) History(f history.Filter) (entries []history.Entry, notes []string, err error) {
	if _, err := os.Stat(e.State()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	db, notes, err := e.OpenHistory()
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	entries, err = db.Entries(f)
	return entries, repairs(db, notes), err
}

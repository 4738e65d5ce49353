package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/internal/regular"
	"trainopt/optimizer/launch"
)

// Entry is one run of a state directory.
type Entry struct {
	ID  string
	Dir string
	// Record is nil if it cannot be read; Err is then the reason.
	Record *Record
	Err    error
	// Agent is the agent that works on the run, see HolderOf; nil if none does. A record in state "running" without an agent is of an
	// interrupted run, which can be resumed.
	Agent *Holder
}

// RunsDir returns the directory that contains the run directories of a state directory.
func RunsDir(stateDir string) string { return filepath.Join(stateDir, runsDir) }

// List returns the runs of a state directory, newest first. A run that cannot be read is included with the reason. A
// state directory that does not exist has no runs.
func List(stateDir string) ([]Entry, error) {
	return list(stateDir, func(string) bool { return true })
}

// ListRunning returns the runs whose record is in state running, newest first: those with an agent, and orphaned
// ones. It decodes only their records, which keeps time and memory small among many ended runs.
func ListRunning(stateDir string) ([]Entry, error) {
	var buffer bytes.Buffer
	word := []byte(strconv.Quote(string(Running)))
	entries, err := list(stateDir, func(dir string) bool {
		f, err := regular.Open(filepath.Join(dir, RecordFile), maxFile)
		if err != nil {
			return false
		}
		defer f.Close()
		buffer.Reset()
		_, err = buffer.ReadFrom(f)
		return err == nil && bytes.Contains(buffer.Bytes(), word)
	})
	return slices.DeleteFunc(entries, func(e Entry) bool { return e.Record == nil || e.Record.State != Running }), err
}

// list returns the runs whose directory is wanted, newest first.
func list(stateDir string, wanted func(dir string) bool) ([]Entry, error) {
	runs := RunsDir(stateDir)
	dirs, err := os.ReadDir(runs)
	if absent(err) {
		return []Entry{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	list := []Entry{}
	for _, d := range slices.Backward(dirs) { // ReadDir sorts by name, and names begin with the time
		e := Entry{ID: d.Name(), Dir: filepath.Join(runs, d.Name())}
		if !d.IsDir() || strings.HasPrefix(e.ID, ".") || !wanted(e.Dir) {
			continue
		}
		e.Record, e.Err = ReadRecord(e.Dir)
		e.Agent = HolderOf(e.Dir)
		list = append(list, e)
	}
	return list, nil
}

// Find returns the directory of the run that a reference denotes: the path of a run directory, a run id, a unique
// prefix of one, the name of the training if it has one run, or "latest" for the newest. An empty or ambiguous reference
// is an error, the latter with the candidates: commands stop and remove the runs that Find returns.
func Find(stateDir, ref string) (string, error) {
	if strings.TrimSpace(ref) == "" {
		return "", errors.New("find run: the reference is empty: give a run id, the beginning of one, or latest")
	}
	if strings.ContainsRune(ref, filepath.Separator) || ref == "." {
		return findPath(ref)
	}
	all, err := runNames(stateDir)
	if err != nil {
		return "", fmt.Errorf("find run %q: %w", ref, err)
	}
	if len(all) == 0 {
		err := fmt.Errorf("there are no runs in %s: start one with optimize --train SCRIPT", stateDir)
		if ref != "latest" { // which commands look for on their own
			err = fmt.Errorf("find run %q: %w", ref, err)
		}
		return "", err
	}
	runs := RunsDir(stateDir)
	if ref == "latest" {
		return filepath.Join(runs, all[len(all)-1]), nil
	}
	var hits []string
	for _, name := range all {
		if name == ref {
			return filepath.Join(runs, name), nil
		}
		if strings.HasPrefix(name, ref) {
			hits = append(hits, name)
		}
	}
	what := "begin with it"
	if len(hits) == 0 { // DATE-TIME-NAME-HASH
		what = "have that name"
		for _, name := range all {
			if parts := strings.Split(name, "-"); len(parts) > 3 && strings.Join(parts[2:len(parts)-1], "-") == ref {
				hits = append(hits, name)
			}
		}
	}
	switch len(hits) {
	case 1:
		return filepath.Join(runs, hits[0]), nil
	case 0:
		if dir, err := findPath(ref); err == nil {
			return dir, nil
		}
		return "", fmt.Errorf("find run %q: no id of the %d runs in %s begins with it, no training has that name; `optimize runs` lists them", ref, len(all), stateDir)
	}
	return "", fmt.Errorf("find run %q: %d runs %s: %s; give more of the id", ref, len(hits), what, named(hits))
}

// runNames returns the names of the run directories, oldest first.
func runNames(stateDir string) ([]string, error) {
	dirs, err := os.ReadDir(RunsDir(stateDir))
	if err != nil && !absent(err) {
		return nil, err
	}
	var names []string
	for _, d := range dirs { // ReadDir sorts by name, and names begin with the time
		if d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, d.Name())
		}
	}
	return names, nil
}

// named formats names for a message: all of them, or the first eight and the number of further ones.
func named(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func findPath(path string) (string, error) {
	if _, err := os.Stat(filepath.Join(path, RecordFile)); err != nil {
		return "", fmt.Errorf("find run: %s is not a run directory: %w", path, err)
	}
	return path, nil
}

// Remove deletes a run directory with its content. It refuses if an agent holds the run, if its job still lives, and
// if the directory was not made by Create.
func Remove(dir string) error {
	run, err := Open(dir)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	runs := filepath.Dir(run.dir)
	if link, err := os.Lstat(run.dir); err != nil || !link.IsDir() || filepath.Base(runs) != runsDir || checkID(run.ID()) != nil {
		return fmt.Errorf("remove %s: not a run directory (want <state directory>/%s/<run id>)", run.dir, runsDir)
	}
	unlock, err := run.LockFor("runs rm", 0)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	defer unlock()
	if err := launch.Clear(run.dir); errors.Is(err, launch.ErrBusy) {
		return fmt.Errorf("remove %s: %w: stop it first (optimize runs stop %s)", run.dir, err, run.ID())
	} else if err != nil {
		return fmt.Errorf("remove %s: %w", run.dir, err)
	}
	// Renamed first, so that an interrupted removal is not listed as a damaged run.
	gone := filepath.Join(runs, ".removed-"+run.ID())
	_ = os.RemoveAll(gone) // of an interrupted removal
	if err := os.Rename(run.dir, gone); err != nil {
		return fmt.Errorf("remove run: %w", err)
	}
	if err := errors.Join(os.RemoveAll(gone), (disk{}).SyncDir(runs)); err != nil {
		return fmt.Errorf("remove run: %w", err)
	}
	return nil
}

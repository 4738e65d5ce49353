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

	"trainopt/optimizer/launch"
)

// Entry is one run of a state directory.
type Entry struct {
	ID  string
	Dir string
	// Record is nil when it cannot be read; Err then says why.
	Record *Record
	Err    error
	// Agent is the agent at work on the run now, nil when there is none. A record in state "running"
	// without an agent was interrupted and can be resumed.
	Agent *Holder
}

// RunsDir is where a state directory keeps its run directories.
func RunsDir(stateDir string) string { return filepath.Join(stateDir, runsDir) }

// List lists the runs of a state directory, the newest first. A run that cannot be read is listed with
// the reason. A state directory that does not exist has no runs.
func List(stateDir string) ([]Entry, error) {
	return list(stateDir, func(string) bool { return true })
}

// ListRunning lists the runs of which the record says that they run, the newest first: with an agent, or left by one that died.
// Only their records are decoded, so that it stays fast, and small, among many that have ended.
func ListRunning(stateDir string) ([]Entry, error) {
	var buffer bytes.Buffer
	word := []byte(strconv.Quote(string(Running)))
	entries, err := list(stateDir, func(dir string) bool {
		f, err := os.Open(filepath.Join(dir, RecordFile))
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

// Find gives the directory of the run that a person means: the path of a run directory, a run id, the beginning of one
// that no other run shares, or "latest" for the newest. An empty reference is refused, and so is an ambiguous one, with
// the candidates named: commands stop and remove what Find returns.
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
		return "", fmt.Errorf("find run %q: there are no runs in %s", ref, stateDir)
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
	switch len(hits) {
	case 1:
		return filepath.Join(runs, hits[0]), nil
	case 0:
		if dir, err := findPath(ref); err == nil {
			return dir, nil
		}
		return "", fmt.Errorf("find run %q: no id of the %d runs in %s begins with it", ref, len(all), stateDir)
	}
	return "", fmt.Errorf("find run %q: %d runs begin with it: %s; give more of the id", ref, len(hits), named(hits))
}

// runNames are the names of the run directories, the oldest first.
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

// named lists names for a sentence: all, or the first few of many.
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

// Remove deletes a run directory and all that is in it. It refuses when an agent is at work on it, when
// its job still lives, and when the directory is not one that Create made.
func Remove(dir string) error {
	run, err := Open(dir)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	runs := filepath.Dir(run.dir)
	if link, err := os.Lstat(run.dir); err != nil || !link.IsDir() || filepath.Base(runs) != runsDir || checkID(run.ID()) != nil {
		return fmt.Errorf("remove %s: not a run directory (want <state directory>/%s/<run id>)", run.dir, runsDir)
	}
	unlock, err := run.Lock()
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	defer unlock()
	if err := launch.Clear(run.dir); errors.Is(err, launch.ErrBusy) {
		return fmt.Errorf("remove %s: %w: stop it first (optimize runs stop %s)", run.dir, err, run.ID())
	} else if err != nil {
		return fmt.Errorf("remove %s: %w", run.dir, err)
	}
	// Out of sight first, so that an interrupted removal is not listed as a broken run.
	gone := filepath.Join(runs, ".removed-"+run.ID())
	if err := os.Rename(run.dir, gone); err != nil {
		return fmt.Errorf("remove run: %w", err)
	}
	if err := errors.Join(os.RemoveAll(gone), (disk{}).SyncDir(runs)); err != nil {
		return fmt.Errorf("remove run: %w", err)
	}
	return nil
}

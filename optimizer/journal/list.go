package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// Find gives the directory of the run that a person means: the path of a run directory, a run id, the
// beginning or the end of one if it is the only such, "latest" or "" for the newest.
func Find(stateDir, ref string) (string, error) {
	if strings.ContainsRune(ref, filepath.Separator) || ref == "." {
		return findPath(ref)
	}
	runs := RunsDir(stateDir)
	dirs, err := os.ReadDir(runs)
	if err != nil && !absent(err) {
		return "", fmt.Errorf("find run %q: %w", ref, err)
	}
	var hits, all []string
	for _, d := range dirs {
		name := d.Name()
		if !d.IsDir() || strings.HasPrefix(name, ".") {
			continue
		}
		if name == ref {
			return filepath.Join(runs, name), nil
		}
		all = append(all, name)
		if strings.HasPrefix(name, ref) || strings.HasSuffix(name, ref) {
			hits = append(hits, name)
		}
	}
	if (ref == "" || ref == "latest") && len(all) > 0 {
		return filepath.Join(runs, all[len(all)-1]), nil
	}
	switch {
	case len(all) == 0:
		return "", fmt.Errorf("find run %q: there are no runs in %s", ref, stateDir)
	case len(hits) == 0:
		if dir, err := findPath(ref); err == nil {
			return dir, nil
		}
		return "", fmt.Errorf("find run %q: none of the %d runs in %s is called so", ref, len(all), stateDir)
	case len(hits) > 1:
		return "", fmt.Errorf("find run %q: could be %s; give more of its name", ref, strings.Join(hits[:min(len(hits), 4)], ", "))
	}
	return filepath.Join(runs, hits[0]), nil
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
	if pid := jobAlive(run.Path(keeperFile)); pid > 0 {
		return fmt.Errorf("remove %s: its job still runs (process %d): stop it first", run.dir, pid)
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

// jobAlive returns the pid of the keeper or job that a run's keeper.json names, if it lives; else 0.
func jobAlive(path string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	var h struct {
		KeeperPID   int    `json:"keeper_pid"`
		KeeperStart uint64 `json:"keeper_start"`
		PID         int    `json:"pid"`
		Start       uint64 `json:"start"`
		BootID      string `json:"boot_id"`
	}
	if json.Unmarshal(data, &h) != nil {
		return 0
	}
	for _, p := range []Holder{{PID: h.PID, Start: h.Start, BootID: h.BootID}, {PID: h.KeeperPID, Start: h.KeeperStart, BootID: h.BootID}} {
		if p.Alive() {
			return p.PID
		}
	}
	return 0
}

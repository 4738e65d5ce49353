package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// stateName is the name of the state directory of a project.
const stateName = ".optimize"

// State returns the path of the state directory: that of --state-dir or OPTIMIZE_STATE_DIR, else the nearest .optimize
// upwards, searched like a project file, else .optimize in the working directory. A directory of another user is not
// found by searching.
func (e *Env) State() string {
	if e.StateDir != "" {
		return e.Path(e.StateDir)
	}
	for _, d := range projectDirs(e.Dir, e.Getenv("HOME")) {
		path := filepath.Join(d, stateName)
		st, err := os.Stat(path)
		if err != nil || !st.IsDir() {
			continue
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) == os.Getuid() {
			return path
		}
	}
	return e.Path(stateName)
}

// CheckState returns an error if the state directory does not exist and cannot be created.
func (e *Env) CheckState() error {
	missing := e.State()
	if st, err := os.Stat(missing); err == nil && !st.IsDir() {
		return fmt.Errorf("state directory %s: not a directory", missing)
	}
	for !Exists(missing) && !Exists(filepath.Dir(missing)) {
		missing = filepath.Dir(missing)
	}
	if Exists(missing) {
		return nil
	}
	err := os.Mkdir(missing, 0o700)
	if err != nil {
		return fmt.Errorf("create state directory: %w; name another one with --state-dir", err)
	}
	return os.Remove(missing)
}

// sharedDir returns the directory of what projects share; "" if nothing is shared, because the state directory was
// named by the user or there is no home directory.
func (e *Env) sharedDir() string {
	if e.StateDir != "" {
		return ""
	}
	if base := e.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) { // a relative path is invalid and to be ignored
		return filepath.Join(base, "optimize")
	}
	if home := e.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "optimize")
	}
	return ""
}

// PriceDirs returns the directories of imported prices: those that projects share, then those of the state directory.
func (e *Env) PriceDirs() []string {
	if shared := e.sharedDir(); shared != "" {
		return []string{shared, e.State()}
	}
	return []string{e.State()}
}

// maxProjects bounds the number of other projects whose runs are recalled.
const maxProjects = 8

// projectsDir returns the directory with a symbolic link to the state directory of every project; the modification time
// of a link is that of the last training.
func (e *Env) projectsDir() string {
	if shared := e.sharedDir(); shared != "" {
		return filepath.Join(shared, "projects")
	}
	return ""
}

// RememberProject lets other projects recall the runs of the state directory. A failure is not an error: the projects
// only learn less from each other.
func (e *Env) RememberProject() {
	dir := e.projectsDir()
	state, err := filepath.Abs(e.State())
	if dir == "" || err != nil || os.MkdirAll(dir, 0o700) != nil {
		return
	}
	sum := sha256.Sum256([]byte(state))
	link := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	_ = os.Remove(link)
	_ = os.Symlink(state, link)
}

// OtherStates returns the state directories of other projects, the last used first; nil if nothing is shared. Links to
// removed ones are deleted.
func (e *Env) OtherStates() []string {
	dir := e.projectsDir()
	if dir == "" {
		return nil
	}
	type project struct {
		state string
		used  time.Time
	}
	var found []project
	entries, _ := os.ReadDir(dir)
	own, _ := os.Stat(e.State())
	for _, entry := range entries {
		link := filepath.Join(dir, entry.Name())
		state, err := os.Readlink(link)
		if err != nil {
			continue
		}
		st, err := os.Stat(state)
		if os.IsNotExist(err) {
			_ = os.Remove(link)
		}
		info, infoErr := entry.Info()
		if err != nil || infoErr != nil || !st.IsDir() || own != nil && os.SameFile(st, own) {
			continue
		}
		found = append(found, project{state, info.ModTime()})
	}
	slices.SortFunc(found, func(a, b project) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.state, b.state)) })
	var out []string
	for _, p := range found[:min(len(found), maxProjects)] {
		out = append(out, p.state)
	}
	return out
}

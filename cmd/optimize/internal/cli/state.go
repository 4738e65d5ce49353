package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// statWithin bounds the wait for the file systems of other projects, so that one that does not answer delays no command. maxLinks
// bounds the number of links that are followed: many may lead to removed projects. forgetAfter the last training of a project
// that cannot be found its link is deleted.
const (
	statWithin  = 2 * time.Second
	maxLinks    = 2000
	forgetAfter = 90 * 24 * time.Hour
)

// OtherStates returns the state directories of other projects, the last used first; nil if nothing is shared. note names
// those that are left out because their file system does not answer; it is empty without any.
func (e *Env) OtherStates() (states []string, note string) {
	dir := e.projectsDir()
	if dir == "" {
		return nil, ""
	}
	own, _ := os.Stat(e.State())
	return selectStates(lastProjects(dir), own, os.Stat)
}

// project is a link to the state directory of a project.
type project struct {
	link, state string
	used        time.Time // at its last training
}

// lastProjects returns the projects to which a directory has links, the last used first. It follows no link.
func lastProjects(dir string) []project {
	var found []project
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		link := filepath.Join(dir, entry.Name())
		state, err := os.Readlink(link)
		info, infoErr := entry.Info()
		if err == nil && infoErr == nil {
			found = append(found, project{link, state, info.ModTime()})
		}
	}
	slices.SortFunc(found, func(a, b project) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.state, b.state)) })
	return found[:min(len(found), maxLinks)]
}

// selectStates returns the first maxProjects state directories that exist and are not the project's own. It asks for as many
// at a time as are still needed, and for no more once one has not answered in time.
func selectStates(projects []project, own fs.FileInfo, stat func(string) (fs.FileInfo, error)) (states []string, note string) {
	ctx, cancel := context.WithTimeout(context.Background(), statWithin)
	defer cancel()
	var silent []string
	for len(projects) > 0 && len(states) < maxProjects && len(silent) == 0 {
		asked := projects[:min(len(projects), maxProjects-len(states))]
		projects = projects[len(asked):]
		answers := make([]chan bool, len(asked))
		for i, p := range asked {
			answers[i] = make(chan bool, 1) // buffered: none waits for a file system that hangs
			go func() { answers[i] <- p.usable(own, stat) }()
		}
		for i, p := range asked {
			usable, answered := awaitAnswer(ctx, answers[i])
			switch {
			case !answered:
				silent = append(silent, p.state)
			case usable:
				states = append(states, p.state)
			}
		}
	}
	if len(silent) > 0 {
		note = fmt.Sprintf("earlier runs of other projects are left out: the file system of %s did not answer within %s", strings.Join(silent, ", "), statWithin)
	}
	return states, note
}

// awaitAnswer returns the answer that has arrived, or arrives before ctx ends.
func awaitAnswer(ctx context.Context, answer <-chan bool) (usable, answered bool) {
	select {
	case usable = <-answer:
		return usable, true
	default:
	}
	select {
	case usable = <-answer:
		return usable, true
	case <-ctx.Done():
		return false, false
	}
}

// usable reports whether the state directory exists and is not the project's own. The link to a removed one is deleted; if the
// directory around it is missing too, it may be on a disk that is not mounted, and the link is kept until forgetAfter.
func (p project) usable(own fs.FileInfo, stat func(string) (fs.FileInfo, error)) bool {
	st, err := stat(p.state)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := stat(filepath.Dir(p.state)); err == nil || time.Since(p.used) > forgetAfter {
			_ = os.Remove(p.link)
		}
	}
	return err == nil && st.IsDir() && (own == nil || !os.SameFile(st, own))
}

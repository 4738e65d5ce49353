package resources

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// staleAfter is the age up to which an empty cgroup may still be waiting for the process that it was created for.
const staleAfter = 2 * time.Minute

// RemoveStale removes empty cgroups next to those of this job that another agent created and did not remove. It
// returns their number.
func (e *Enforcer) RemoveStale() (removed int) {
	e.mu.Lock()
	made := slices.Clone(e.s.Made)
	e.mu.Unlock()
	for _, own := range made {
		entries, err := os.ReadDir(filepath.Dir(own))
		if err != nil {
			continue
		}
		for _, entry := range entries {
			dir := filepath.Join(filepath.Dir(own), entry.Name())
			info, err := entry.Info()
			if err != nil || !entry.IsDir() || !strings.HasPrefix(entry.Name(), groupPrefix) || slices.Contains(made, dir) || time.Since(info.ModTime()) < staleAfter {
				continue
			}
			if pids, err := groupPIDs(e.tree, dir); err != nil || len(pids) > 0 {
				continue
			}
			if removeTree(e.tree, dir) == nil { // the kernel refuses to remove one in use
				removed++
			}
		}
	}
	return removed
}

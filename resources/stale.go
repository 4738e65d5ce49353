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

// RemoveStale removes empty cgroups that another agent created where this job's are or could be, and did not remove. It
// returns their number.
func (e *enforcer) RemoveStale() (removed int) {
	e.mu.Lock()
	made := slices.Clone(e.s.Made)
	e.mu.Unlock()
	var parents []string
	for _, dir := range made {
		parents = append(parents, filepath.Dir(dir))
	}
	hs, _ := hierarchies(e.s.Roots, e.tree) // also those in which only other jobs are, such as those with a quota
	for _, h := range hs {
		parents = append(parents, h.own)
	}
	slices.Sort(parents)
	for _, parent := range slices.Compact(parents) {
		entries, _ := os.ReadDir(parent)
		for _, entry := range entries {
			dir := filepath.Join(parent, entry.Name())
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

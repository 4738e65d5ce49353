package launch

import (
	"os"
	"path/filepath"
	"slices"

	"trainopt/resources"
)

// enforcer keeps a running tree within its allocation; resources.NewEnforcer returns the real one.
type enforcer interface {
	State() []byte
	Recipe() resources.Recipe
	Statement() []string
	Update(a resources.Allocation, pids []int) (notApplied []string, err error)
	PIDs() (pids []int, ok bool)
	Memory() (anonPlusShmem, peak resources.GiB, ok bool)
	KernelPeak() (withCache resources.GiB, ok bool)
	CPUSeconds() (seconds float64, ok bool)
	OOMKills() (n uint64, ok bool)
	Kill() (ok bool)
	Remove() error
}

// openEnforcer restores the enforcer of the last job of a run directory, in its latest state; nil without an error if the job
// has none.
func openEnforcer(runDir string) (enforcer, error) {
	state, err := os.ReadFile(filepath.Join(runDir, enforceFile))
	if err != nil {
		return nil, nil
	}
	e, err := resources.OpenEnforcer(state)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// withCgroup adds to list the processes of e's cgroup that it lacks: those that are hidden from a walk over /proc, or
// whose parent is no longer in the tree.
func withCgroup(list []stat, e enforcer) []stat {
	if e == nil {
		return list
	}
	pids, ok := e.PIDs()
	if !ok {
		return list
	}
	for _, pid := range pids {
		if slices.ContainsFunc(list, func(s stat) bool { return s.PID == pid }) {
			continue
		}
		if s, err := readStat(pid); err == nil && !s.gone() {
			list = append(list, s)
		}
	}
	return list
}

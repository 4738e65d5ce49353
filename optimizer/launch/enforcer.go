package launch

import (
	"slices"

	"trainopt/resources"
)

// enforcer keeps a running tree within its allocation; *resources.Enforcer is the real one.
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

// openEnforcer takes over what another process of ours enforces.
func openEnforcer(state []byte) (enforcer, error) {
	e, err := resources.OpenEnforcer(state)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// withCgroup adds to list what e's cgroup holds and list does not: processes that /proc hides from
// a walk, or whose parent is no longer ours.
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

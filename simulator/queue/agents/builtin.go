package agents

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed policies/*.policy
var policies embed.FS

// builtin maps the backfilling that a policy was trained for, named as in queue.Backfills, to its file.
var builtin = map[string]string{
	"none":        "policies/none.policy",
	"rlscheduler": "policies/backfill.policy",
}

// Builtin returns the included policy for episodes with backfilling (rlscheduler) or without (none). Both were
// trained on generated workloads only (see the package comment) and apply to machines of any size. For other names,
// the error lists the available ones.
//
// Mean bounded slowdown on the ten published sequences of 1,024 jobs, Lublin-1 and Lublin-2: 238.16 and 594.30
// without backfilling, 53.52 and 106.04 with it; RLScheduler's agents, trained for each trace, reach 254.67, 724.51,
// 58.64 and 118.79. On KTH-SP2, with requests by users, the policies are weaker: 634.23 and 107.29, against 491.13
// and 88.72 for smallest area first.
func Builtin(backfill string) (*Agent, error) {
	name, ok := builtin[backfill]
	if !ok {
		return nil, fmt.Errorf("no policy is built in for backfilling %q: there are %s", backfill, strings.Join(slices.Sorted(maps.Keys(builtin)), ", "))
	}
	data, err := policies.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Load(bytes.NewReader(data))
}

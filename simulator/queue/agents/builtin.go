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

// builtin are the files of the built-in policies, by the backfilling that they were trained for, as queue.Backfills calls it.
var builtin = map[string]string{
	"none":        "policies/none.policy",
	"rlscheduler": "policies/backfill.policy",
}

// Builtin is the policy that comes with the program for an episode with backfilling (rlscheduler) or without it (none). Each was
// trained on drawn workloads only, see the package's comment; any size of machine will do. The error says which there are.
//
// Mean bounded slowdown on the published ten sequences of 1,024 jobs, Lublin-1 and Lublin-2: 238.16 and 594.30 without, 53.52 and
// 106.04 with backfilling; RLScheduler's agents, one for each, have 254.67, 724.51, 58.64 and 118.79. Requests of people, on
// KTH-SP2, suit them less: 634.23 and 107.29, where the smallest area first has 491.13 and 88.72.
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

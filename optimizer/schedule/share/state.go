package share

import (
	"encoding/json"
	"fmt"

	"trainopt/optimizer/schedule"
)

// Policies that keep state between decisions, so that a scheduler that is restarted continues as before.
var (
	_ schedule.Stateful = (*alloX)(nil)
	_ schedule.Stateful = bestMatchPacked{}
	_ schedule.Stateful = (*elasticFlow)(nil)
	_ schedule.Stateful = (*fifo)(nil)
	_ schedule.Stateful = (*finishTimeFairness)(nil)
	_ schedule.Stateful = (*gandiva)(nil)
	_ schedule.Stateful = (*sia)(nil)
	_ schedule.Stateful = (*themis)(nil)
	_ schedule.Stateful = (*tiresias)(nil)
)

// Restore replaces the state of a new policy by one that was stored as JSON. Decisions then continue as those of the policy
// whose state it was.
func Restore(p schedule.Stateful, state []byte) error {
	fields := p.State()
	var parts []json.RawMessage
	if err := json.Unmarshal(state, &parts); err != nil {
		return fmt.Errorf("restore the state of a policy: %w", err)
	}
	if len(parts) != len(fields) {
		return fmt.Errorf("restore the state of a policy: %d fields, want %d", len(parts), len(fields))
	}
	for i, field := range fields {
		if err := json.Unmarshal(parts[i], field); err != nil {
			return fmt.Errorf("restore the state of a policy: field %d: %w", i, err)
		}
	}
	return nil
}

// keepAbsent copies what a policy knows of the jobs that are absent from a snapshot.
func keepAbsent[V any](s *schedule.Snapshot, to, from map[int]V) {
	for i := range s.Absent {
		if v, ok := from[s.Absent[i].ID]; ok {
			to[s.Absent[i].ID] = v
		}
	}
}

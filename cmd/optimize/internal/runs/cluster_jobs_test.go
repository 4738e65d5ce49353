package runs

import (
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/cluster"
)

// TestDeadlineColumn: the list has a column of deadlines only if a job has one.
func TestDeadlineColumn(t *testing.T) {
	now := time.Now()
	for _, limited := range []bool{false, true} {
		jobs := []jobDocument{{Job: cluster.Job{ID: 1, Name: "a", State: cluster.Waiting}, User: "u"}, {Job: cluster.Job{ID: 2, Name: "b", State: cluster.Waiting}, User: "u"}}
		if limited {
			jobs[1].Deadline = &now
		}
		text, err := table(jobs, now)
		if err != nil || strings.Contains(text, "deadline") != limited || !strings.Contains(text, "waited") {
			t.Errorf("a deadline %v: %v\n%s", limited, err, text)
		}
	}
}

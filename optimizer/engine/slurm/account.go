package slurm

import (
	"cmp"
	"slices"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/resources"
)

// toLives converts the accounting of jobs that were asked for by number. Slurm assigns a number again after a site has
// lost its records; the lives of such an earlier job have another name and are left out.
func toLives(jobs []Job) []engine.Life {
	latest := map[string]*Job{}
	for i := range jobs {
		if j := &jobs[i]; latest[j.ID] == nil || !j.Submit.Before(latest[j.ID].Submit) {
			latest[j.ID] = j
		}
	}
	var lives []engine.Life
	for i := range jobs {
		if j := &jobs[i]; j.Name == latest[j.ID].Name {
			lives = append(lives, toLife(j))
		}
	}
	return lives
}

// toLife converts one life.
func toLife(j *Job) engine.Life {
	l := engine.Life{ID: j.ID, Key: j.Name, State: j.State, Final: j.Ended(), Cancelled: j.CancelledBy, Submitted: j.Submit, Started: j.Start, Ended: j.End,
		Nodes: j.Nodes, Code: j.ExitCode, Signal: j.Signal, CPUs: int(j.AllocTRES["cpu"]), Memory: resources.GiB(j.AllocTRES["mem"]),
		PeakGiB: j.PeakGiB(), CPUSecs: j.CPUSecs(), Joules: j.Joules()}
	l.GPUs, l.GPUType = j.GPUs()
	if len(l.Nodes) == 0 { // cancelled while it waited: sacct shows the end as its start
		l.Started = time.Time{}
	}
	switch {
	case j.Elapsed != nil:
		l.Elapsed = *j.Elapsed
	case !l.Started.IsZero() && !l.Ended.IsZero():
		l.Elapsed = l.Ended.Sub(l.Started)
	}
	return l
}

// sortLives sorts by the start; a life that never started, by its submission.
func sortLives(lives []engine.Life) {
	began := func(l engine.Life) time.Time {
		if l.Started.IsZero() {
			return l.Submitted
		}
		return l.Started
	}
	slices.SortStableFunc(lives, func(a, b engine.Life) int {
		return cmp.Or(began(a).Compare(began(b)), a.Submitted.Compare(b.Submitted))
	})
}

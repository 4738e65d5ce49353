package optimizer

import "time"

// settled is how long the job must have been at one place before the agent makes itself small.
const settled = 3 * time.Second

// makeLight tells the program, once after each change of the job's place, that only supervision is left.
func (r *run) makeLight() {
	seg := r.progress.Current()
	if r.Lighten == nil || r.lightAt == seg || r.phase != working || r.renewing != nil || r.leaving != nil || r.elapsed()-seg.LaunchedAt < settled {
		return
	}
	r.heavy, r.lightAt = r.Lighten(), seg
}

// makeHeavy takes that back, before work beside the loop.
func (r *run) makeHeavy() {
	if r.heavy != nil {
		r.heavy()
		r.heavy, r.lightAt = nil, nil
	}
}

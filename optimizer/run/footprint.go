package run

import "time"

// lightenAfter is the time that the job must have run at one allocation before the agent reduces its footprint.
const lightenAfter = 3 * time.Second

// footprint is the agent's use of the machine, which Agent.Lighten reduces while only supervision remains.
type footprint struct {
	at      *Segment // segment in which it was reduced; nil if it is not
	restore func()   // reverts the reduction
}

// shrinkFootprint calls Lighten, once per segment, when only supervision remains.
func (r *run) shrinkFootprint() {
	seg := r.Progress.Current()
	if r.Lighten == nil || r.footprint.at == seg || r.Phase != working || r.critics.renewal != nil || r.Pending != nil || r.elapsed()-seg.LaunchedAt < lightenAfter {
		return
	}
	r.footprint = footprint{at: seg, restore: r.Lighten()}
}

// restoreFootprint reverts Lighten before work beside the loop.
func (r *run) restoreFootprint() {
	if r.footprint.restore != nil {
		r.footprint.restore()
		r.footprint = footprint{}
	}
}

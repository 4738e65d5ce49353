package replay

import (
	"cmp"
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/report/page"
)

// change is a change of the state of the cluster.
type change struct {
	at                               float64
	held, queued, up, down, unserved int
}

// waste sums up the device-seconds without progress, and what the faults cost.
func (d *Day) waste(r *rates) (w waste, f faults) {
	changes := d.served()
	for _, j := range d.Jobs {
		from := j.Arrival
		for i, l := range j.Lives {
			n := page.Exact(l.GPUs)
			w.HeldS += n * page.Exact(l.charged())
			for _, t := range l.Shared {
				if t.with < j.ID {
					changes = append(changes, change{at: t.since, held: -l.GPUs}, change{at: t.until, held: l.GPUs})
				}
			}
			until := min(l.Left, cmp.Or(l.Worked, l.Left))
			if math.IsNaN(until) {
				until = l.Left
			}
			w.StartingS += n * page.Exact(until-l.Start)
			if l.Save > 0 {
				w.SavingS += n * page.Exact(l.Save-l.useful)
			}
			if j.lost(i) {
				w.Lost++
			}
			switch done, took, ok := l.progress(); {
			case i == len(j.Lives)-1 && j.ended() && j.Launches == len(j.Lives): // it finished, however slowly
			case ok && l.Seen > 0:
				rate := r.seen[j.ID][place{l.Device, l.GPUs}]
				w.RepeatedS += n * page.Exact(max(0, took-done/max(rate, l.Seen)))
			case !ok && took > 0 && !l.open:
				w.RepeatedS += n * page.Exact(took)
			}
			changes = append(changes, change{at: from, queued: j.GPUs}, change{at: l.Start, held: l.GPUs, queued: -j.GPUs}, change{at: l.Left, held: -l.GPUs})
			from = l.Left
		}
		if last := len(j.Lives) - 1; last < 0 || !j.State.Ended() && !j.Lives[last].open {
			until := d.Until
			if j.State.Ended() {
				until = j.End
			}
			changes = append(changes, change{at: from, queued: j.GPUs}, change{at: until, queued: -j.GPUs})
		}
	}
	slices.SortStableFunc(changes, func(x, y change) int { return cmp.Compare(x.at, y.at) })
	now := change{at: changes[0].at}
	for _, c := range changes {
		seconds := page.Exact(max(0, c.at-max(now.at, d.From)))
		idle := seconds * page.Exact(max(0, min(now.up-now.held, now.queued)))
		w.IdleS += idle
		f.DownS += seconds * page.Exact(now.down)
		if now.unserved > 0 {
			f.UnservedIdleS += idle
			f.UnservedS += seconds
		}
		now = change{c.at, now.held + c.held, now.queued + c.queued, now.up + c.up, now.down + c.down, now.unserved + c.unserved}
	}
	f.Restarts = d.Restarts
	for _, j := range d.Jobs {
		for _, l := range j.Lives {
			f.UnservedIdleS += page.Exact(l.Away) * page.Exact(l.GPUs)
		}
		if j.Launches > 0 {
			f.Relaunches += max(0, j.Launches-len(j.Lives))
		}
	}
	return w, f
}

// served returns the changes of devices that are up and down, and of the server.
func (d *Day) served() (changes []change) {
	all, up, down := countOf(d.Devices), 0, 0
	for _, c := range d.up {
		missing := max(0, all-c.devices)
		changes = append(changes, change{at: c.at, up: c.devices - up, down: missing - down})
		up, down = c.devices, missing
	}
	for _, o := range d.unserved {
		changes = append(changes, change{at: o.from, unserved: 1}, change{at: o.to, unserved: -1})
	}
	return append(changes, change{at: d.Until})
}

// starts compares predicted starts with those of the day.
func (d *Day) starts() starts {
	var errs, waits []float64
	within := 0
	for _, j := range d.Jobs {
		for _, l := range j.Lives {
			if p := l.Expected; p != nil {
				errs, waits = append(errs, math.Abs(l.Start-p[1])), append(waits, l.Start-l.Awaited)
				if l.Start >= p[0]-startTolerance && l.Start <= p[2]+startTolerance {
					within++
				}
			}
		}
	}
	return starts{N: len(errs), Within90: page.Exact(float64(within) / float64(len(errs))), MedianErrorS: page.Exact(stat.Median(errs)), MedianWaitS: page.Exact(stat.Median(waits))}
}

// startTolerance is the precision of predicted starts in seconds: that of displayed times.
const startTolerance = 1

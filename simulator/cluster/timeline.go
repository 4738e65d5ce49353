package cluster

import (
	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule"
)

// timeline contains the device-seconds in use of each device type, in steps of equal length from time 0. The number
// of steps is at most 500, regardless of the length of the run. The last step ends with the run, at MakespanS.
type timeline struct {
	StepS page.Exact `json:"step_s"` // a power of two
	// UsedS contains device-seconds by device type and step; 0 where nothing ran. Their sum is Utilization times the
	// device-seconds of the run.
	UsedS map[string][]page.Exact `json:"used_device_s"`
}

// Steps returns the number of steps.
func (t *timeline) Steps() int {
	for _, used := range t.UsedS {
		return len(used)
	}
	return 0
}

// maxSteps limits the length of a Timeline.
const maxSteps = 500

// usage accumulates a Timeline. Steps start at one second; when their number exceeds the limit, pairs of steps are
// merged.
type usage struct {
	step float64     // seconds
	used [][]float64 // by device type and step
}

// add records the use of n devices of a type, or fractions of them, during an interval. O(steps in the interval).
func (u *usage) add(device int, from, to, n float64) {
	for to > u.step*maxSteps {
		u.merge()
	}
	used := u.used[device]
	for k := int(from / u.step); from < to; k++ {
		until := min(to, u.step*float64(k+1))
		for len(used) <= k {
			used = append(used, 0)
		}
		used[k] += float64((until - from) * n)
		from = until
	}
	u.used[device] = used
}

func (u *usage) merge() {
	u.step *= 2
	for d, used := range u.used {
		for k, v := range used {
			used[k] = 0
			used[k/2] += v
		}
		u.used[d] = used[:(len(used)+1)/2]
	}
}

// timeline returns the use of devices until end, the time at which the run ended.
func (u *usage) timeline(devices []schedule.DeviceType, end float64) *timeline {
	for end > u.step*maxSteps {
		u.merge()
	}
	steps := int(end / u.step)
	if float64(steps)*u.step < end {
		steps++
	}
	t := &timeline{StepS: page.Exact(u.step), UsedS: map[string][]page.Exact{}}
	for d := range devices {
		used := make([]page.Exact, steps)
		for k, v := range u.used[d] {
			used[min(k, steps-1)] += page.Exact(v)
		}
		t.UsedS[devices[d].Name] = used
	}
	return t
}

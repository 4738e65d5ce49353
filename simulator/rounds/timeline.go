package rounds

// Timeline is what was in use over time: device-seconds of each device type in steps of equal length from time 0 on. There are at
// most 500 steps, so that a run of any length has a short one; the last step ends with the run, at MakespanS.
type Timeline struct {
	StepS Number `json:"step_s"` // a power of two
	// UsedS are device-seconds by device type and step, 0 where nothing ran. All of them together are Utilization of the
	// devices over the run.
	UsedS map[string][]Number `json:"used_device_s"`
}

// Steps is how many there are.
func (t *Timeline) Steps() int {
	for _, used := range t.UsedS {
		return len(used)
	}
	return 0
}

// maxSteps bounds a Timeline.
const maxSteps = 500

// usage gathers a Timeline. Steps are of one second at first; each time that there would be too many, pairs become one.
type usage struct {
	step float64     // seconds
	used [][]float64 // by device type and step
}

func newUsage(devices int) usage { return usage{1, make([][]float64, devices)} }

// add books n devices of a type, or parts of them, between two times. O(steps between them).
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

// timeline is what was in use until a time, the end of the run.
func (u *usage) timeline(devices []DeviceType, end float64) *Timeline {
	for end > u.step*maxSteps {
		u.merge()
	}
	steps := int(end / u.step)
	if float64(steps)*u.step < end {
		steps++
	}
	t := &Timeline{StepS: Number(u.step), UsedS: map[string][]Number{}}
	for d := range devices {
		used := make([]Number, steps)
		for k, v := range u.used[d] {
			used[min(k, steps-1)] += Number(v)
		}
		t.UsedS[devices[d].Name] = used
	}
	return t
}

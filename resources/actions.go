package resources

import (
	"fmt"
	"math"
	"strings"
)

// change is one step of an allocation: −1, 0 or +1 steps of each resource.
type change struct{ GPU, CPU, Memory int }

// ActionSpace is the set of single steps between allocations: 9 actions (GPU × CPU, as in the SLA-MORL paper) or 27
// (GPU × CPU × memory, as in its programs). With memory, action a is GPU = a div 9, CPU = (a mod 9) div 3, memory = a
// mod 3, each 0, 1, 2 for −1, 0, +1; without, GPU = a div 3, CPU = a mod 3. Steps are clipped to the limits.
type ActionSpace struct {
	Limits Limits
	// WithMemory selects the 27 actions; false the 9.
	WithMemory bool
}

// The sizes of a step.
const (
	gpuStep    = 1
	cpuStep    = 4
	memoryStep = GiB(8)
)

// Size returns the number of actions, 9 or 27.
func (s ActionSpace) Size() int {
	if s.WithMemory {
		return 27
	}
	return 9
}

// Stay returns the index of the action that changes nothing.
func (s ActionSpace) Stay() int { return s.Size() / 2 }

// Change returns the step of action i. It panics if i is outside 0 to Size−1.
func (s ActionSpace) Change(i int) change {
	if i < 0 || i >= s.Size() {
		panic(fmt.Sprintf("resources: action %d of %d", i, s.Size()))
	}
	if !s.WithMemory {
		i = i*3 + 1
	}
	return change{GPU: i/9 - 1, CPU: i%9/3 - 1, Memory: i%3 - 1}
}

// Describe returns a phrase for the user, such as "1 GPU more, 4 CPUs fewer".
func (s ActionSpace) Describe(i int) string {
	c := s.Change(i)
	var parts []string
	say := func(d int, amount, less string) {
		switch d {
		case 1:
			parts = append(parts, amount+" more")
		case -1:
			parts = append(parts, amount+" "+less)
		}
	}
	say(c.GPU, plural(gpuStep, "GPU"), "fewer")
	say(c.CPU, plural(cpuStep, "CPU"), "fewer")
	say(c.Memory, fmt.Sprintf("%.4g GiB", float64(memoryStep)), "less")
	if len(parts) == 0 {
		return "no change"
	}
	return strings.Join(parts, ", ")
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// Apply applies a step to a, clipped to the limits. All other fields of a are kept; chosen devices are cleared if
// their number changes. An allocation outside the limits is moved into them by every action.
func (s ActionSpace) Apply(i int, a Allocation) Allocation {
	c := s.Change(i)
	next := a
	next.GPUs += c.GPU * gpuStep
	next.CPUs += c.CPU * cpuStep
	next.Memory += GiB(c.Memory) * memoryStep
	if next.GPUs != a.GPUs {
		next.GPUIDs = nil
	}
	next = s.Limits.Clip(next)
	if next.GPUs == a.GPUs {
		next.GPUIDs = a.GPUIDs
	}
	return next
}

// Mask reports for each action whether it is allowed from a. An action is masked if a resource that it changes cannot
// move in that direction: it would change nothing, or have the same effect as another action. "No change" is never
// masked. Actions that are not masked lead to different allocations.
func (s ActionSpace) Mask(a Allocation) []bool {
	mask := make([]bool, s.Size())
	for i := range mask {
		c, next := s.Change(i), s.Apply(i, a)
		mask[i] = c == (change{}) ||
			moved(c.GPU, float64(a.GPUs), float64(next.GPUs)) &&
				moved(c.CPU, float64(a.CPUs), float64(next.CPUs)) &&
				moved(c.Memory, float64(a.Memory), float64(next.Memory))
	}
	return mask
}

// moved reports whether a value has moved in the given direction; any value has for direction 0.
func moved(direction int, from, to float64) bool {
	switch direction {
	case 1:
		return to > from
	case -1:
		return to < from
	}
	return true
}

// IndexOf returns the action that leads from one allocation to another, compared by GPUs, CPUs and memory (to one
// KiB); ok is false if no single step does. Masked actions are not considered. Cost: O(Size).
func (s ActionSpace) IndexOf(from, to Allocation) (i int, ok bool) {
	for i, allowed := range s.Mask(from) {
		next := s.Apply(i, from)
		if allowed && next.GPUs == to.GPUs && next.CPUs == to.CPUs && math.Abs(float64(next.Memory-to.Memory)) < 1./(1<<20) {
			return i, true
		}
	}
	return 0, false
}

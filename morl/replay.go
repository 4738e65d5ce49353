package morl

import (
	"math/rand/v2"
)

// replay is a ring buffer of transitions in fixed memory: the oldest are overwritten, and sampling is uniform and
// seeded.
type replay struct {
	shape Shape
	size  int // capacity
	n     int // number of stored transitions
	next  int // index of the next write

	state, following []float32 // size × State
	reward           []float32 // size × Objectives
	discount         []float32 // γ^work, 0 when done
	action           []int32
	open, openNext   []bool // allowed actions; size × Actions

	holdOut bool // excludes a tenth of the slots from sampling, see heldOut
}

// newReplay returns a buffer for size transitions; all memory is allocated immediately.
func newReplay(s Shape, size int) *replay {
	return &replay{shape: s, size: size, state: make([]float32, size*s.State), following: make([]float32, size*s.State),
		reward: make([]float32, size*len(s.Objectives)), discount: make([]float32, size), action: make([]int32, size),
		open: make([]bool, size*s.Actions), openNext: make([]bool, size*s.Actions)}
}

// Add stores a copy of a transition; discount is the factor of the next state's value, 0 at the end of an episode.
func (r *replay) Add(t transition, discount float32) {
	i, s, m, a := r.next, r.shape.State, len(r.shape.Objectives), r.shape.Actions
	copy(r.state[i*s:(i+1)*s], t.State)
	copy(r.following[i*s:(i+1)*s], t.Next)
	copy(r.reward[i*m:(i+1)*m], t.Reward)
	r.discount[i], r.action[i] = discount, int32(t.Action)
	copyMask(r.open[i*a:(i+1)*a], t.Mask)
	copyMask(r.openNext[i*a:(i+1)*a], t.NextMask)
	r.next = (i + 1) % r.size
	r.n = min(r.n+1, r.size)
}

func copyMask(dst, mask []bool) {
	if mask == nil {
		for i := range dst {
			dst[i] = true
		}
		return
	}
	copy(dst, mask)
}

// batch is a sample of transitions in row-major order; the next Sample into it overwrites it.
type batch struct {
	Rows        int
	State, Next []float32 // Rows × State
	Reward      []float32 // Rows × Objectives
	Discount    []float32 // Rows
	Action      []int     // Rows
	Mask        []bool    // allowed in State; Rows × Actions
	NextMask    []bool    // allowed in Next; Rows × Actions
}

// Sample fills b with rows transitions drawn with replacement. It panics if the buffer is empty.
func (r *replay) Sample(b *batch, rows int, rng *rand.Rand) {
	r.shapeBatch(b, rows)
	for k := range rows {
		i := rng.IntN(r.n)
		for r.holdOut && heldOut(i) {
			i = rng.IntN(r.n)
		}
		r.fetch(b, k, i)
	}
}

// shapeBatch allocates b for the given number of rows unless it already has that size.
func (r *replay) shapeBatch(b *batch, rows int) {
	s, m, a := r.shape.State, len(r.shape.Objectives), r.shape.Actions
	if b.Rows != rows {
		*b = batch{Rows: rows, State: make([]float32, rows*s), Next: make([]float32, rows*s), Reward: make([]float32, rows*m),
			Discount: make([]float32, rows), Action: make([]int, rows), Mask: make([]bool, rows*a), NextMask: make([]bool, rows*a)}
	}
}

// fetch copies slot i of the buffer to row k of b.
func (r *replay) fetch(b *batch, k, i int) {
	s, m, a := r.shape.State, len(r.shape.Objectives), r.shape.Actions
	copy(b.State[k*s:(k+1)*s], r.state[i*s:(i+1)*s])
	copy(b.Next[k*s:(k+1)*s], r.following[i*s:(i+1)*s])
	copy(b.Reward[k*m:(k+1)*m], r.reward[i*m:(i+1)*m])
	b.Discount[k], b.Action[k] = r.discount[i], int(r.action[i])
	copy(b.Mask[k*a:(k+1)*a], r.open[i*a:(i+1)*a])
	copy(b.NextMask[k*a:(k+1)*a], r.openNext[i*a:(i+1)*a])
}

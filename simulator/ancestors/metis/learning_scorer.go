package metis

import (
	"math/rand/v2"
	"slices"

	"trainopt/optimizer/schedule/place"
)

// scorer is the policy of the improved recipe: one network scores every distinct kind of node for the next container,
// independent of the number of nodes; nodes of equal content share a row. The features are the content of the node,
// the app, and the numbers of containers per app in the batch and still to be placed, per node.
type scorer struct{ net *policy }

func scorerInputs(apps int) int { return 4 * apps }

// board is a placement in progress.
type board struct {
	table   *place.Table
	rng     *rand.Rand
	batch   []int
	rest    []int
	app     int
	pattern []int // by node
	kinds   []int // distinct patterns with room for the next container
	teacher []float32
	lesson  groups
}

// groups holds rows for a sequence of choices; each choice selects one row of its group.
type groups struct {
	x      []float32
	target []float32
	sizes  []int
}

func (b *board) begin(table *place.Table, nodes int, batch []int, rng *rand.Rand) {
	b.table, b.batch, b.rng, b.app = table, batch, rng, 0
	b.rest = append(b.rest[:0], batch...)
	b.pattern = slices.Grow(b.pattern[:0], nodes)[:nodes]
	clear(b.pattern)
	b.lesson.x, b.lesson.target, b.lesson.sizes = b.lesson.x[:0], b.lesson.target[:0], b.lesson.sizes[:0]
	b.next()
}

func (b *board) next() bool {
	for b.app < len(b.rest) && b.rest[b.app] == 0 {
		b.app++
	}
	return b.app < len(b.rest)
}

// candidates sets the kinds of nodes with room and appends their rows to x.
func (b *board) candidates(x []float32) []float32 {
	b.kinds = b.kinds[:0]
	for _, p := range b.pattern {
		if b.table.Plus(p, b.app) >= 0 && !slices.Contains(b.kinds, p) {
			b.kinds = append(b.kinds, p)
		}
	}
	slices.Sort(b.kinds)
	apps, unit := len(b.rest), 1/float32(len(b.pattern))
	for _, p := range b.kinds {
		for _, k := range b.table.Counts(p) {
			x = append(x, float32(k))
		}
		for a := range apps {
			one := float32(0)
			if a == b.app {
				one = 1
			}
			x = append(x, one)
		}
		for _, k := range b.batch {
			x = append(x, float32(k)*unit)
		}
		for _, k := range b.rest {
			x = append(x, float32(k)*unit)
		}
	}
	return x
}

// put places the container on the first node of a kind. It returns false when all containers are placed.
func (b *board) put(kind int) bool {
	n := slices.Index(b.pattern, kind)
	b.pattern[n] = b.table.Plus(kind, b.app)
	b.rest[b.app]--
	return b.next()
}

func (b *board) value() float64 {
	s := 0.0
	for _, p := range b.pattern {
		s += b.table.Throughput(p)
	}
	return s
}

// play completes the boards in lockstep, greedily or by sampling, and records the teacher's distributions for boards
// with a teacher.
func (s *scorer) play(boards []*board, greedily bool, workers int) {
	in := s.net.inputs()
	parallel((len(boards)+7)/8, workers, func(i int) {
		var think inferenceBuffers
		var active []*board
		for _, b := range boards[i*8 : min(len(boards), i*8+8)] {
			if b.app < len(b.rest) {
				active = append(active, b)
			}
		}
		var x []float32
		var ends []int
		for len(active) > 0 {
			x, ends = x[:0], ends[:0]
			for _, b := range active {
				x = b.candidates(x)
				ends = append(ends, len(x)/in)
			}
			z := think.ask(s.net, x, len(x)/in)
			still := active[:0]
			from := 0
			for k, b := range active {
				row := z[from:ends[k]]
				if b.teacher != nil {
					b.lesson.x = append(b.lesson.x, x[from*in:ends[k]*in]...)
					b.lesson.sizes = append(b.lesson.sizes, len(row))
					at := len(b.lesson.target)
					for _, kind := range b.kinds {
						b.lesson.target = append(b.lesson.target, b.teacher[kind*len(b.rest)+b.app]*teacherSharp)
					}
					softmax(b.lesson.target[at:])
				}
				c := 0
				if greedily {
					c = greedy(row)
				} else {
					softmax(row)
					c = drawAction(row, b.rng)
				}
				if from = ends[k]; b.put(b.kinds[c]) {
					still = append(still, b)
				}
			}
			active = still
		}
	})
}

// teach performs one step that moves the scorer's distribution, in each recorded state of the boards, towards the
// teacher's.
func (l *learner) teach(boards []*board, workers int) {
	n := 0
	for _, b := range boards {
		n += len(b.lesson.sizes)
	}
	if n > 0 {
		l.step(len(boards), workers, func(to *lane, k int) { to.addChoices(&boards[k].lesson, l.policy.inputs(), 1/float32(n)) })
	}
}

// addChoices accumulates the gradient of the cross entropy between choices and targets, each weighted by share.
func (l *lane) addChoices(g *groups, in int, share float32) {
	row, from := 0, 0
	for from < len(g.sizes) {
		to, rows := from, 0
		for to < len(g.sizes) && rows+g.sizes[to] <= laneRows {
			rows += g.sizes[to]
			to++
		}
		hidden, d := l.forward(g.x[row*in:(row+rows)*in], rows)
		at := 0
		for _, n := range g.sizes[from:to] {
			softmax(d[at : at+n])
			for i := at; i < at+n; i++ {
				d[i] = (d[i] - g.target[row+i]) * share
			}
			at += n
		}
		l.backward(hidden, d)
		row += rows
		from = to
	}
}

package metis

import (
	"cmp"
	"math"
	"sync"

	"trainopt/morl/network"
)

// lanes is the number of parts of a batch. Their gradients are added in a fixed order, so that the sum is
// bit-identical on any number of cores.
const lanes = 8

// laneRows is the number of rows per pass through a network.
const laneRows = 512

// lesson holds training rows: observations, actions, and their advantage.
type lesson struct {
	x      []float32
	action []uint16
	value  float32 // the same for each row
}

func (l *lesson) rows() int { return len(l.action) }

// learner updates a policy by Adam with TensorFlow's defaults.
type learner struct {
	policy *policy
	lane   [lanes]lane
}

// lane accumulates the gradient of one part of a batch.
type lane struct {
	first, second *network.Trainer
	dOut, dHidden []float32
}

func newLearner(p *policy, rate float32) *learner {
	l := &learner{policy: p}
	for i := range l.lane {
		l.lane[i].first = network.NewTrainer(p.first, laneRows, network.Adam{Rate: rate})
		l.lane[i].second = network.NewTrainer(p.second, laneRows, network.Adam{Rate: rate})
		l.lane[i].dOut = make([]float32, laneRows*p.actions())
		l.lane[i].dHidden = make([]float32, laneRows*p.first.Outputs)
	}
	return l
}

// step performs one step of Adam on the gradient of n parts of a batch, each accumulated by add.
func (l *learner) step(n, workers int, add func(to *lane, part int)) {
	parallel(lanes, workers, func(i int) {
		for k := i; k < n; k += lanes {
			add(&l.lane[i], k)
		}
	})
	for i := range l.lane[1:] {
		move(l.lane[0].first.Gradient(), l.lane[i+1].first.Gradient())
		move(l.lane[0].second.Gradient(), l.lane[i+1].second.Gradient())
	}
	l.lane[0].first.Step()
	l.lane[0].second.Step()
}

// move adds a gradient to another and clears it.
func move(to, from []float32) {
	for i, g := range from {
		to[i] += g
	}
	clear(from)
}

// update performs one step on the mean over all rows of −value · log p(action) + entropy · Σ p log p. O(rows ×
// parameters).
func (l *learner) update(lessons []*lesson, entropy float32, workers int) {
	rows := 0
	for _, e := range lessons {
		rows += e.rows()
	}
	if rows > 0 {
		l.step(len(lessons), workers, func(to *lane, k int) { to.add(lessons[k], l.policy, entropy, 1/float32(rows)) })
	}
}

// add accumulates the gradient of a lesson's rows, each weighted by share.
func (l *lane) add(e *lesson, p *policy, entropy, share float32) {
	in, k := p.inputs(), p.actions()
	for from := 0; from < e.rows(); from += laneRows {
		to := min(from+laneRows, e.rows())
		rows := to - from
		hidden, d := l.forward(e.x[from*in:to*in], rows)
		for r := range rows {
			row := d[r*k : (r+1)*k]
			softmax(row)
			lossGradient(row, int(e.action[from+r]), e.value*share, entropy*share)
		}
		l.backward(hidden, d)
	}
}

// forward returns the hidden units and the logits of rows; the caller may modify the logits.
func (l *lane) forward(x []float32, rows int) (hidden, logits []float32) {
	hidden = l.first.Forward(x, rows, nil)
	tanh(hidden)
	z := l.second.Forward(hidden, rows, nil)
	return hidden, append(l.dOut[:0], z...)
}

// backward accumulates the gradient of the rows of the last forward, given the derivatives of the loss by the logits.
func (l *lane) backward(hidden, d []float32) {
	dh := l.dHidden[:len(hidden)]
	l.second.Backward(d, dh)
	for i, v := range hidden {
		dh[i] *= 1 - v*v
	}
	l.first.Backward(dh, nil)
}

// lossGradient replaces the probabilities of a row by the derivatives of its loss by the logits.
func lossGradient(p []float32, action int, value, weight float32) {
	negative := 0.0 // Σ p log p
	for _, v := range p {
		negative += float64(v) * math.Log(max(float64(v), 1e-30))
	}
	for i, v := range p {
		d := value * v
		if i == action {
			d -= value
		}
		if weight != 0 {
			d += weight * v * float32(math.Log(max(float64(v), 1e-30))-negative)
		}
		p[i] = d
	}
}

// normalise sets the values of lessons to their rewards, one per lesson, minus the mean over all rows and divided by
// the standard deviation unless that is 0.
func normalise(lessons []*lesson, reward []float64) {
	rows, sum := 0.0, 0.0
	for i, e := range lessons {
		n := float64(e.rows())
		rows, sum = rows+n, sum+n*reward[i]
	}
	mean, squares := sum/rows, 0.0
	for i, e := range lessons {
		squares += float64(e.rows()) * (reward[i] - mean) * (reward[i] - mean)
	}
	unit := cmp.Or(math.Sqrt(squares/rows), 1)
	for i, e := range lessons {
		e.value = float32((reward[i] - mean) / unit)
	}
}

// parallel executes n tasks on up to workers goroutines. Results must not depend on which goroutine executes a task.
func parallel(n, workers int, do func(i int)) {
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var wg sync.WaitGroup
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	for range workers {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	wg.Wait()
}

package learned

import (
	"math"
	"sync"

	"trainopt/morl/network"
)

// lanes is the number of parts that a batch is divided into. Their gradients are added up in order, so that the sum has the same
// bits on any number of cores.
const lanes = 8

// laneRows is the number of rows that are passed through a network at once.
const laneRows = 512

// lesson are rows to learn from: what was seen, what was done, how good that was.
type lesson struct {
	x      []float32
	action []uint16
	value  float32 // of each row
}

func (l *lesson) rows() int { return len(l.action) }

// learner changes a policy by Adam with TensorFlow's defaults.
type learner struct {
	policy *policy
	lane   [lanes]lane
}

type lane struct {
	first, second *network.Trainer
	dOut, dHidden []float32
	entropy       float64
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

// update takes one step of Adam on the mean over all rows of −value · log p(action) + entropy · Σ p log p, and returns the mean
// entropy before it. O(rows × parameters).
func (l *learner) update(lessons []*lesson, entropy float32, workers int) float64 {
	rows := 0
	for _, e := range lessons {
		rows += e.rows()
	}
	if rows == 0 {
		return 0
	}
	parallel(lanes, workers, func(i int) {
		l.lane[i].entropy = 0
		for k := i; k < len(lessons); k += lanes {
			l.lane[i].add(lessons[k], l.policy, entropy, 1/float32(rows))
		}
	})
	total := 0.0
	for i := range l.lane {
		total += l.lane[i].entropy
		if i > 0 {
			move(l.lane[0].first.Gradient(), l.lane[i].first.Gradient())
			move(l.lane[0].second.Gradient(), l.lane[i].second.Gradient())
		}
	}
	l.lane[0].first.Step()
	l.lane[0].second.Step()
	return total / float64(rows)
}

// move adds a gradient to another and clears it.
func move(to, from []float32) {
	for i, g := range from {
		to[i] += g
	}
	clear(from)
}

// add adds the gradient of a lesson's rows, each counted share times.
func (l *lane) add(e *lesson, p *policy, entropy, share float32) {
	in, k := p.inputs(), p.actions()
	for from := 0; from < e.rows(); from += laneRows {
		to := min(from+laneRows, e.rows())
		rows := to - from
		h := l.first.Forward(e.x[from*in:to*in], rows, nil)
		tanh(h)
		z := l.second.Forward(h, rows, nil)
		d := l.dOut[:rows*k]
		for r := range rows {
			row := d[r*k : (r+1)*k]
			copy(row, z[r*k:(r+1)*k])
			softmax(row)
			l.entropy += lossGradient(row, int(e.action[from+r]), e.value*share, entropy*share)
		}
		dh := l.dHidden[:len(h)]
		l.second.Backward(d, dh)
		for i, v := range h {
			dh[i] *= 1 - v*v
		}
		l.first.Backward(dh, nil)
	}
}

// lossGradient replaces the probabilities of a row by the derivatives of its loss by the logits, and returns its entropy.
func lossGradient(p []float32, action int, value, weight float32) float64 {
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
	return -negative
}

// normalise gives lessons their values: rewards, one a lesson, shifted by the mean over all rows and divided by the standard
// deviation unless that is 0.
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
	unit := math.Sqrt(squares / rows)
	if unit == 0 {
		unit = 1
	}
	for i, e := range lessons {
		e.value = float32((reward[i] - mean) / unit)
	}
}

// parallel does n pieces of work on so many goroutines. What a piece does must not depend on who does it.
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

package network

// kernelLayout is the policy of RLScheduler (Zhang et al., SC 2020, section IV): one small perceptron computes the
// logit of every row, so that probabilities are equivariant to the order of rows. With eight features and hidden
// layers of 32, 16 and 8 it has 961 parameters. Its critic maps every row to a number by another such perceptron,
// missing rows to that of the padding, and all these numbers to a value by a third one. Cost: O(rows × parameters).
func kernelLayout(s Shape, c PolicyConfig) layout {
	row := Config{Inputs: s.Features, Hidden: c.Hidden, Outputs: 1, Activation: c.Activation}
	head := Config{Inputs: s.Rows, Hidden: c.HeadHidden, Outputs: 1, Activation: c.Activation}
	return layout{nets: []Config{row, row, head}, policy: 1, value: 1, pass: newKernelPass, rowActions: true}
}

type kernelPass struct {
	rows             int // of a full observation
	padding          []float32
	policy, row, all *Trainer
	x, worth, dWorth []float32
	dRow             []float32
	counts           []int // rows per step of the last call of values
}

func newKernelPass(s Shape, nets []*Network, rows int, adam func(int) Adam) pass {
	p := &kernelPass{rows: s.Rows, padding: s.Padding}
	if p.padding == nil {
		p.padding = make([]float32, s.Features)
	}
	p.policy = NewTrainer(nets[0], rows, adam(0))
	p.row = NewTrainer(nets[1], rows+1, adam(1))
	p.all = NewTrainer(nets[2], rows, adam(2)) // there are at most as many steps as rows
	return p
}

func (p *kernelPass) trainers() []*Trainer { return []*Trainer{p.policy, p.row, p.all} }

func (p *kernelPass) logits(b *batch, idx []int) []float32 {
	p.x = b.gather(p.x, idx)
	return p.policy.Forward(p.x, len(p.x)/b.features, nil)
}

func (p *kernelPass) values(b *batch, idx []int) []float32 {
	p.x = append(b.gather(p.x, idx), p.padding...)
	worth := p.row.Forward(p.x, len(p.x)/b.features, nil)
	absent := worth[len(worth)-1]
	p.worth, p.counts = p.worth[:0], p.counts[:0]
	for _, i := range idx {
		n := b.start[i+1] - b.start[i]
		p.counts = append(p.counts, n)
		p.worth = append(p.worth, worth[:n]...)
		worth = worth[n:]
		for range p.rows - n {
			p.worth = append(p.worth, absent)
		}
	}
	return p.all.Forward(p.worth, len(idx), nil)
}

func (p *kernelPass) backward(dLogits, dValues []float32) {
	if dLogits != nil {
		p.policy.Backward(dLogits, nil)
	}
	if dValues == nil {
		return
	}
	p.dWorth = append(p.dWorth[:0], p.worth...) // for its length
	p.all.Backward(dValues, p.dWorth)
	p.dRow = p.dRow[:0]
	var absent float32
	for i, n := range p.counts {
		d := p.dWorth[i*p.rows : (i+1)*p.rows]
		p.dRow = append(p.dRow, d[:n]...)
		for _, v := range d[n:] {
			absent += v
		}
	}
	p.row.Backward(append(p.dRow, absent), nil)
}

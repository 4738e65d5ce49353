package network

// flatLayout is a perceptron from the whole observation to the logits of the actions, and a second one to its value.
func flatLayout(s Shape, c PolicyConfig) layout {
	net := Config{Inputs: s.Features, Hidden: c.Hidden, Outputs: s.Actions, Activation: c.Activation}
	value := net
	value.Outputs = 1
	return layout{nets: []Config{net, value}, policy: 1, value: 1, pass: newFlatPass}
}

type flatPass struct {
	policy, value *Trainer
	x             []float32
}

func newFlatPass(_ Shape, nets []*Network, rows int, adam func(int) Adam) pass {
	return &flatPass{policy: NewTrainer(nets[0], rows, adam(0)), value: NewTrainer(nets[1], rows, adam(1))}
}

func (p *flatPass) trainers() []*Trainer { return []*Trainer{p.policy, p.value} }

func (p *flatPass) logits(b *batch, idx []int) []float32 {
	p.x = b.gather(p.x, idx)
	return p.policy.Forward(p.x, len(idx), nil)
}

func (p *flatPass) values(b *batch, idx []int) []float32 {
	p.x = b.gather(p.x, idx)
	return p.value.Forward(p.x, len(idx), nil)
}

func (p *flatPass) backward(dLogits, dValues []float32) {
	if dLogits != nil {
		p.policy.Backward(dLogits, nil)
	}
	if dValues != nil {
		p.value.Backward(dValues, nil)
	}
}

// sharedLayout is HDeepRM's actor-critic: policy and critic share the first hidden layer and have their own further
// layers and outputs.
func sharedLayout(s Shape, c PolicyConfig) layout {
	trunk := Config{Inputs: s.Features, Outputs: c.Hidden[0]} // the pass applies its activation
	head := Config{Inputs: c.Hidden[0], Hidden: c.Hidden[1:], Outputs: s.Actions, Activation: c.Activation}
	value := head
	value.Outputs = 1
	return layout{nets: []Config{trunk, head, value}, policy: 2, value: 2,
		pass: func(_ Shape, nets []*Network, rows int, adam func(int) Adam) pass {
			p := &sharedPass{activation: c.Activation}
			for i, n := range nets {
				p.all = append(p.all, NewTrainer(n, rows, adam(i)))
			}
			return p
		}}
}

type sharedPass struct {
	all         []*Trainer // trunk, policy, critic
	activation  Activation
	x, h, d, dv []float32
}

func (p *sharedPass) trainers() []*Trainer { return p.all }

func (p *sharedPass) trunk(b *batch, idx []int) []float32 {
	p.x = b.gather(p.x, idx)
	p.h = append(p.h[:0], p.all[0].Forward(p.x, len(idx), nil)...)
	p.activation.Apply(p.h)
	return p.h
}

func (p *sharedPass) logits(b *batch, idx []int) []float32 {
	return p.all[1].Forward(p.trunk(b, idx), len(idx), nil)
}

func (p *sharedPass) values(b *batch, idx []int) []float32 {
	return p.all[2].Forward(p.trunk(b, idx), len(idx), nil)
}

func (p *sharedPass) backward(dLogits, dValues []float32) {
	p.d = append(p.d[:0], p.h...) // for its length
	clear(p.d)
	for i, d := range [][]float32{dLogits, dValues} {
		if d == nil {
			continue
		}
		p.dv = append(p.dv[:0], p.h...)
		p.all[1+i].Backward(d, p.dv)
		for j, v := range p.dv {
			p.d[j] += v
		}
	}
	p.activation.Backward(p.d, p.h)
	p.all[0].Backward(p.d, nil)
}

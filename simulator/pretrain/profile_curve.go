package pretrain

import "math"

// StepCurve is the time in seconds of one step of data-parallel training (Qiao et al., Pollux, OSDI 2021, section
// 3.2), with two additions that the measurements require: the exponent of the batch, and one level of the exchange for
// each number of nodes.
//
//	T_grad(m)    = a + b·m^c                                  m: batch per GPU
//	T_sync(K, N) = 0 | l + d·(K−2) | n_N + e·(K−2)            one GPU | K in one node | K on N nodes
//	T            = (T_grad^γ + T_sync^γ)^(1/γ)
type StepCurve struct {
	Fixed    float64 `json:"a"`
	PerBatch float64 `json:"b"`
	Exponent float64 `json:"c"`

	Local        float64    `json:"l"`
	LocalPerGPU  float64    `json:"d"`
	Nodes        [3]float64 `json:"n"` // 2, 3, 4 and more nodes
	NodesPerGPU  float64    `json:"e"`
	OverlapPower float64    `json:"gamma"`
}

// Seconds returns the seconds of one step with the given GPUs on the given nodes, at a batch per GPU. O(1).
func (c StepCurve) Seconds(gpus, nodes int, batch float64) float64 {
	grad := c.Fixed + c.PerBatch*math.Pow(batch, c.Exponent)
	if gpus <= 1 {
		return grad
	}
	sync := c.Local + c.LocalPerGPU*float64(gpus-2)
	if nodes > 1 {
		sync = c.Nodes[min(nodes, 4)-2] + c.NodesPerGPU*float64(gpus-2)
	}
	sync = max(0, sync)
	hi, lo := max(grad, sync), min(grad, sync)
	return hi * math.Pow(1+math.Pow(lo/hi, c.OverlapPower), 1/c.OverlapPower)
}

// fittedSteps is the stepTimer of a fitted curve; nodes are filled one after another.
type fittedSteps struct {
	curve   StepCurve
	perNode int
	noiseScale
}

func (f fittedSteps) seconds(gpus int, perGPU float64) float64 {
	return f.curve.Seconds(gpus, nodesOf(gpus, f.perNode), perGPU)
}

// nodesOf returns the number of nodes for a number of GPUs; perNode 0 means that all are in one node.
func nodesOf(gpus, perNode int) int {
	if perNode <= 0 {
		return 1
	}
	return (gpus + perNode - 1) / perNode
}

// noiseScale gives the relative efficiency of a sample by the gradient noise scale φ, at batch M relative to M0: (φ +
// M0)/(φ + M).
type noiseScale struct{ phi, reference float64 }

func (n noiseScale) efficiency(total float64) float64 {
	return (n.phi + n.reference) / (n.phi + total)
}

// countedSteps is the stepTimer of rates measured at a few numbers of GPUs, interpolated linearly in logarithms; NaN
// outside. The efficiency at other batches was not measured, so weak scaling counts every sample fully.
type countedSteps struct{ rate batchCurve } // steps of one GPU per second, summed over the GPUs, by their number

func (c countedSteps) seconds(gpus int, _ float64) float64 {
	return float64(gpus) / c.rate.at(float64(gpus))
}

func (countedSteps) efficiency(float64) float64 { return 1 }

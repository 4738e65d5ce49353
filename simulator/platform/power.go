package platform

import (
	"math"

	"trainopt/cost"
)

// powerLimits are the power limits of NVIDIA's data sheets, in watts, of the form that draws most (SXM over PCIe). A K80 board has
// 300 W for its two accelerators.
var powerLimits = map[string]float64{
	"K80": 150, "P100": 300, "V100 16GB": 300, "V100 32GB": 300, "T4": 70,
	"A100 40GB": 400, "A100 80GB": 400, "L4": 72, "H100": 700, "H200": 700,
}

// PowerLimit is what one accelerator of a kind draws at most, in watts, by its maker's data sheet: an upper bound of what it
// draws at work, not a measurement. NaN when it is not known.
func PowerLimit(kind string) float64 {
	if w, ok := powerLimits[cost.GPUModel(kind)]; ok {
		return w
	}
	return math.NaN()
}

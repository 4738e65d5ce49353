package platform

import (
	"math"

	"trainopt/cost"
)

// powerLimits contains the power limits of NVIDIA's data sheets in watts, of the variant with the highest one (SXM
// over PCIe). A K80 board has 300 W for its two accelerators.
var powerLimits = map[string]float64{
	"K80": 150, "P100": 300, "V100 16GB": 300, "V100 32GB": 300, "T4": 70,
	"A100 40GB": 400, "A100 80GB": 400, "L4": 72, "H100": 700, "H200": 700,
}

// powerLimit returns the maximum power of one accelerator of a kind in watts, from the manufacturer's data sheet: an
// upper bound of its power under load, not a measurement. NaN if unknown.
func powerLimit(kind string) float64 {
	if w, ok := powerLimits[cost.GPUModel(kind)]; ok {
		return w
	}
	return math.NaN()
}

package measured

import (
	"strings"

	"trainopt/cost"
)

// forms are GPUs that package cost does not tell apart, or does not know, by words that all occur in their names, in order.
var forms = []struct {
	words []string
	name  string
}{
	{[]string{"h100", "nvl"}, "H100 NVL"}, {[]string{"h100", "pcie"}, "H100 PCIe"}, {[]string{"h200", "nvl"}, "H200 NVL"},
	{[]string{"mi300x"}, "MI300X"}, {[]string{"mi325x"}, "MI325X"}, {[]string{"7900", "xtx"}, "RX 7900 XTX"},
	{[]string{"tpu", "v5p"}, "TPU v5p"}, {[]string{"tpu", "trillium"}, "TPU v6e"},
	{[]string{"2080", "ti"}, "RTX 2080 Ti"}, {[]string{"4090"}, "RTX 4090"},
}

// GPUName is the name of a GPU in Devices and in the entries of this package: cost.GPUModel, and beyond it the forms that
// differ in speed though they are sold under one name ("H100 NVL Tensor Core GPU (PCIe)" is "H100 NVL"), and accelerators
// that no price knows ("AMD Instinct MI300X 192GB HBM3" is "MI300X").
func GPUName(name string) string {
	text := strings.ToLower(name)
	for _, f := range forms {
		all := true
		for _, w := range f.words {
			all = all && strings.Contains(text, w)
		}
		if all {
			return f.name
		}
	}
	return cost.GPUModel(name)
}

// Device is the published peak of a GPU model.
type Device struct {
	Name         string  // as package cost names it
	TFLOPS       float64 // dense, of the number format that trainings of its day use: tensor cores FP16/BF16, else FP32
	FP32         float64 // TFLOPS
	BandwidthGBs float64 // memory, GB/s
	MemoryGiB    float64
	LinkGBs      float64 // GPU to GPU in one machine, GB/s, 0 unknown
	Year         int
	Source       string
}

// Devices are all known GPU models by name.
func Devices() map[string]Device { return nil }

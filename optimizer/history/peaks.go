package history

import (
	"slices"
	"strings"

	"trainopt/cost"
)

// gpuVariants lists GPUs that package cost does not distinguish or contain, by lower-case substrings of their names.
var gpuVariants = []struct {
	parts []string
	name  string
}{
	{[]string{"a100", "80 gb"}, "A100 80GB"},
	{[]string{"h100", "nvl"}, "H100 NVL"}, {[]string{"h100", "pcie"}, "H100 PCIe"}, {[]string{"h200", "nvl"}, "H200 NVL"},
	{[]string{"mi300x"}, "MI300X"}, {[]string{"mi325x"}, "MI325X"}, {[]string{"7900", "xtx"}, "RX 7900 XTX"},
	{[]string{"tpu", "v5p"}, "TPU v5p"}, {[]string{"tpu", "trillium"}, "TPU v6e"}, {[]string{"tpu", "v6e"}, "TPU v6e"},
}

// gpuName returns the name of a GPU in Peaks and in the entries of this package: that of cost.GPUModel, except for
// variants that differ in speed but share a name ("H100 NVL Tensor Core GPU (PCIe)" is "H100 NVL") and for
// accelerators without a price ("AMD Instinct MI300X 192GB HBM3" is "MI300X").
func gpuName(name string) string {
	text := strings.ToLower(name)
	for _, f := range gpuVariants {
		if !slices.ContainsFunc(f.parts, func(part string) bool { return !strings.Contains(text, part) }) {
			return f.name
		}
	}
	return cost.GPUModel(name)
}

// Peak holds the published peak figures of a GPU model.
type Peak struct {
	Name         string  // as named by package cost
	TFLOPS       float64 // dense, in the number format of contemporary trainings: tensor cores FP16/BF16 with FP32 accumulation, else FP32; 0 unknown
	FP32         float64 // TFLOPS, 0 unknown
	BandwidthGBs float64 // memory, GB/s
	MemoryGiB    float64 // as stated in its name or data sheet
	LinkGBs      float64 // GPU to GPU within a machine, sum of both directions, GB/s: NVLink where every machine has it, else PCIe; 0 unknown
	Year         int     // of the announcement
	Source       string  // the data sheet
}

// peaks holds figures per GPU: for boards with two GPUs, half of the board. Sparsity is excluded: where a data
// sheet has only the rate with sparsity, half of it is used.
var peaks = []Peak{
	{"K80", 4.37, 4.37, 240, 12, 0, 2014, "NVIDIA Tesla K80 data sheet, boost clock, half a board"},
	{"M60", 4.82, 4.82, 160, 8, 0, 2015, "NVIDIA Tesla M60 data sheet, half a board"},
	{"P4", 5.5, 5.5, 192, 8, 32, 2016, "NVIDIA Tesla P4 data sheet"},
	{"P100", 9.3, 9.3, 732, 16, 32, 2016, "NVIDIA Tesla P100 PCIe data sheet"},
	{"V100 16GB", 125, 15.7, 900, 16, 300, 2017, "NVIDIA V100 data sheet, SXM2"},
	{"V100 32GB", 125, 15.7, 900, 32, 300, 2018, "NVIDIA V100 data sheet, SXM2"},
	{"T4", 65, 8.1, 320, 16, 32, 2018, "NVIDIA T4 data sheet"},
	{"RTX 2080 Ti", 53.8, 13.4, 616, 11, 32, 2018, "NVIDIA Turing white paper, GeForce RTX 2080 Ti reference"},
	{"RTX 6000", 130.5, 16.3, 672, 24, 32, 2018, "NVIDIA Quadro RTX 6000 data sheet"},
	{"RTX 5000", 89.2, 11.2, 448, 16, 32, 2018, "NVIDIA Quadro RTX 5000 data sheet"},
	{"RTX 4000", 57, 7.1, 416, 8, 32, 2018, "NVIDIA Quadro RTX 4000 data sheet"},
	{"A100 40GB", 312, 19.5, 1555, 40, 600, 2020, "NVIDIA A100 data sheet, SXM4"},
	{"A100 80GB", 312, 19.5, 2039, 80, 600, 2020, "NVIDIA A100 data sheet, SXM4"},
	{"A40", 149.7, 37.4, 696, 48, 64, 2020, "NVIDIA A40 data sheet"},
	{"A6000", 154.8, 38.7, 768, 48, 64, 2020, "NVIDIA RTX A6000 data sheet"},
	{"A5000", 111.1, 27.8, 768, 24, 64, 2021, "NVIDIA RTX A5000 data sheet"},
	{"A4000", 76.7, 19.2, 448, 16, 64, 2021, "NVIDIA RTX A4000 data sheet"},
	{"A10", 125, 31.2, 600, 24, 64, 2021, "NVIDIA A10 data sheet"},
	{"A10G", 70, 35, 600, 24, 64, 2021, "NVIDIA A10G data sheet"},
	{"A30", 165, 10.3, 933, 24, 64, 2021, "NVIDIA A30 data sheet"},
	{"L4", 121, 30.3, 300, 24, 64, 2023, "NVIDIA L4 data sheet"},
	{"L40", 181, 90.5, 864, 48, 64, 2022, "NVIDIA L40 data sheet"},
	{"L40S", 362, 91.6, 864, 48, 64, 2023, "NVIDIA L40S data sheet"},
	{"RTX 4090", 165.2, 82.6, 1008, 24, 64, 2022, "NVIDIA Ada GPU architecture white paper, GeForce RTX 4090"},
	{"H100", 989.4, 67, 3350, 80, 900, 2022, "NVIDIA H100 data sheet, SXM5"},
	{"H100 PCIe", 756, 51, 2000, 80, 128, 2022, "NVIDIA H100 data sheet, PCIe"},
	{"H100 NVL", 835, 60, 3900, 94, 600, 2023, "NVIDIA H100 data sheet, NVL"},
	{"GH200", 990, 67, 4000, 96, 900, 2023, "NVIDIA GH200 data sheet, HBM3"},
	{"H200", 989.4, 67, 4800, 141, 900, 2023, "NVIDIA H200 data sheet, SXM5"},
	{"H200 NVL", 835, 60, 4800, 141, 900, 2024, "NVIDIA H200 data sheet, NVL"},
	{"B200", 2250, 75, 7700, 180, 1800, 2024, "NVIDIA HGX B200 data sheet, an eighth"},
	{"GB200", 2500, 80, 8000, 186, 1800, 2024, "NVIDIA GB200 NVL72 data sheet, a seventy-second"},
	{"B300", 2250, 75, 8000, 268, 1800, 2025, "NVIDIA HGX B300 data sheet, an eighth; 288 GB are 268 GiB"},
	{"RTX PRO 6000", 0, 120, 1597, 96, 128, 2025, "NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet"},
	{"RTX PRO 4500", 0, 0, 800, 32, 0, 2026, "NVIDIA RTX PRO 4500 Blackwell Server Edition, as reviewed by Exxact in May 2026"},
	{"MI300X", 1307.4, 163.4, 5300, 192, 896, 2023, "AMD Instinct MI300X data sheet"},
	{"MI325X", 1307.4, 163.4, 6000, 256, 896, 2024, "AMD Instinct MI325X data sheet"},
	{"RX 7900 XTX", 122.8, 61.4, 960, 24, 64, 2022, "AMD Radeon RX 7900 XTX specifications"},
	{"Radeon Pro V520", 7.4, 7.4, 512, 8, 32, 2020, "AMD Radeon Pro V520 specifications"},
	{"Trainium", 190, 47.5, 820, 32, 0, 2020, "AWS Neuron documentation, Trainium architecture"},
	{"TPU v5p", 459, 0, 2765, 95, 600, 2023, "Google Cloud TPU v5p documentation"},
	{"TPU v6e", 918, 0, 1638, 32, 800, 2024, "Google Cloud TPU v6e documentation"},
}

// Peaks returns a new map of all known GPU models by name. Of the models offered for rent, it lacks the T4G, which
// has no data sheet, and Inferentia, which is not used for training.
func Peaks() map[string]Peak {
	out := make(map[string]Peak, len(peaks))
	for _, d := range peaks {
		out[d.Name] = d
	}
	return out
}

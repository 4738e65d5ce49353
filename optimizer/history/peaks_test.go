package history

import (
	"math"
	"testing"

	"trainopt/cost"
)

func TestGPUName(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA H200-SXM5-141GB": "H200", "NVIDIA H100-SXM5-80GB": "H100", "NVIDIA H100 80GB HBM3": "H100",
		"NVIDIA Blackwell GPU (B200-SXM-180GB)": "B200", "NVIDIA Blackwell GPU (GB200)": "GB200",
		"TPU-v5p": "TPU v5p", "TPU-trillium": "TPU v6e",
		"AMD Instinct MI300X 192GB HBM3": "MI300X", "AMD Instinct MI325X 256GB HBM3E DLC": "MI325X", "AMD Radeon RX 7900 XTX": "RX 7900 XTX",
		"NVIDIA H200-NVL-141GB": "H200 NVL", "H100 NVL Tensor Core GPU (PCIe)": "H100 NVL", "NVIDIA H100 PCIe": "H100 PCIe",
		"NVIDIA RTX A5000": "A5000", "NVIDIA GeForce RTX 4090": "RTX 4090", "NVIDIA A100 - PCIe - 80 GB": "A100 80GB",
		"NVIDIA A100-SXM4-40GB": "A100 40GB", "Tesla T4": "T4", "NVIDIA GeForce RTX 2080 Ti": "RTX 2080 Ti", "Quadro RTX 6000": "RTX 6000",
		"NVIDIA L40": "L40", "NVIDIA L40S": "L40S", "NVIDIA L4": "L4", "Tesla V100-SXM2-32GB": "V100 32GB", "NVIDIA RTX A3000": "RTX A3000",
		"NVIDIA A30": "A30", "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada Generation",
	} {
		if got := gpuName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// TestDevices requires that every rentable GPU that can train is listed with the memory of its offer, under a unique
// name.
func TestDevices(t *testing.T) {
	all := Peaks()
	if len(all) != len(peaks) {
		t.Errorf("%d peaks, %d names", len(peaks), len(all))
	}
	unknown := map[string]bool{"RTX PRO 6000": true, "RTX PRO 4500": true, "TPU v5p": true, "TPU v6e": true}
	for name, d := range all {
		if gpuName(name) != name {
			t.Errorf("%q is called %q", name, gpuName(name))
		}
		if !unknown[name] && (d.TFLOPS < d.FP32 || d.FP32 < 4) || d.BandwidthGBs < 150 || d.MemoryGiB < 8 || d.Year < 2014 || d.Source == "" {
			t.Errorf("%+v", d)
		}
	}
	offers, err := cost.Offers()
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{"T4G": true, "Inferentia": true, "Inferentia2": true}
	for _, o := range offers {
		if o.GPU == "" || missing[o.GPU] {
			continue
		}
		name := o.GPU
		if o.GPUMemory == 94 { // prices do not distinguish this variant
			name += " NVL"
		}
		if d, known := all[name]; !known || math.Abs(d.MemoryGiB/float64(o.GPUMemory)-1) > 0.08 {
			t.Errorf("%s: %q with %g GiB is %+v", o.Type, o.GPU, float64(o.GPUMemory), d)
		}
	}
}

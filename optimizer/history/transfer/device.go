package transfer

import (
	"math"

	"trainopt/optimizer/history"
)

// device holds the features of a GPU model in the kernel: the logs of its published peaks; known is false without
// them.
type device struct {
	known              bool
	compute, bandwidth float64 // log of TFLOPS / 100, GB/s / 1000
	single, link       float64 // log of FP32 TFLOPS / 20, GB/s between GPUs / 300; 0 if unknown
	memory             float64 // log of GiB / 32; 0 if unknown
}

// newDevice returns the features of a GPU model; those with unknown TFLOPS or bandwidth are not known.
func newDevice(name string, peaks map[string]history.Peak) device {
	d, ok := peaks[name]
	if !ok || !(d.TFLOPS > 0) || !(d.BandwidthGBs > 0) {
		return device{}
	}
	out := device{known: true, compute: math.Log(d.TFLOPS / 100), bandwidth: math.Log(d.BandwidthGBs / 1000)}
	if d.FP32 > 0 {
		out.single = math.Log(d.FP32 / 20)
	}
	if d.LinkGBs > 0 {
		out.link = math.Log(d.LinkGBs / 300)
	}
	if d.MemoryGiB > 0 {
		out.memory = math.Log(d.MemoryGiB / 32)
	}
	return out
}

// knownDevices returns the features of all GPU models.
func knownDevices() map[string]device {
	peaks, out := history.Peaks(), map[string]device{}
	for name := range peaks {
		out[name] = newDevice(name, peaks)
	}
	return out
}

// pace returns the log of the speed at which a device processes a batch, as far as its peaks determine it.
func (d device) pace() float64 { return (d.bandwidth + d.single) / 2 }

package transfer

import (
	"math"

	"trainopt/optimizer/history/measured"
)

// device is what the kernel knows of a GPU model: the logs of its published peaks; known is false where there are none.
type device struct {
	known              bool
	compute, bandwidth float64 // log of TFLOPS / 100, GB/s / 1000
}

func newDevice(name string, peaks map[string]measured.Device) device {
	d, ok := peaks[name]
	if !ok || !(d.TFLOPS > 0) || !(d.BandwidthGBs > 0) {
		return device{}
	}
	return device{known: true, compute: math.Log(d.TFLOPS / 100), bandwidth: math.Log(d.BandwidthGBs / 1000)}
}

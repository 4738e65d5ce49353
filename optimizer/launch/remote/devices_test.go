package remote

import (
	"testing"

	"trainopt/monitor"
)

// TestGrantedDevices: of the devices that NVML lists on a node, those of other jobs are not sampled.
func TestGrantedDevices(t *testing.T) {
	all := []monitor.GPUSample{{UUID: "GPU-a"}, {UUID: "GPU-b"}, {UUID: "GPU-c"}}
	for _, c := range []struct {
		granted []string
		want    int
	}{{[]string{"GPU-b"}, 1}, {[]string{"GPU-a", "GPU-c"}, 2}, {nil, 3}, {[]string{"MIG-x"}, 3}} {
		if got := (&node{devices: c.granted}).granted(all); len(got) != c.want || c.want == 1 && got[0].UUID != "GPU-b" {
			t.Errorf("granted %v: %v", c.granted, got)
		}
	}
	if all[0].UUID != "GPU-a" || all[2].UUID != "GPU-c" {
		t.Errorf("the sample was changed: %v", all)
	}
}

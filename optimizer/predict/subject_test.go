package predict

import (
	"testing"

	"trainopt/cost"
)

// TestNamedMachinesWithAndWithoutGPUs checks that a job of unknown GPU use is one without GPUs only if no named machine
// has a GPU, in any order of the machines.
func TestNamedMachinesWithAndWithoutGPUs(t *testing.T) {
	catalogue := &cost.Catalogue{Offers: []cost.Offer{
		{Cloud: "a", Type: "gpu", GPU: "T4", GPUs: 1, CPUs: 4, Memory: 16, OnDemand: 1, Dated: "2026-01-01"},
		{Cloud: "a", Type: "cpu", CPUs: 4, Memory: 16, OnDemand: 0.1, Dated: "2026-01-01"},
	}}
	for _, c := range []struct {
		names   []string
		cpuOnly bool
	}{{[]string{"a:gpu"}, false}, {[]string{"a:cpu"}, true}, {[]string{"a:gpu", "a:cpu"}, false}, {[]string{"a:cpu", "a:gpu"}, false}} {
		s := &Subject{Question: &Question{}}
		if err := s.NamedMachines(catalogue, c.names); err != nil {
			t.Fatal(err)
		}
		if s.CPUOnly != c.cpuOnly || len(s.Machines) != len(c.names) {
			t.Errorf("%v: CPU only %t with %d machines, want %t", c.names, s.CPUOnly, len(s.Machines), c.cpuOnly)
		}
	}
}

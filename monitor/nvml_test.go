//go:build cgo

package monitor

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

// mockServer returns a DGX A100 whose devices also report values that the library's own mock lacks: device i has
// (10·i) % utilization, draws 100+i W, has used 1000·(i+1) J and uses i+1 GiB.
func mockServer() (*dgxa100.Server, []*dgxa100.Device) {
	server := dgxa100.New()
	server.ExtendedInterface.LookupSymbolFunc = func(string) error { return nil }
	var devices []*dgxa100.Device
	for i := range server.Devices {
		d := server.Devices[i].(*dgxa100.Device)
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
			return nvml.Utilization{Gpu: uint32(10 * i)}, nvml.SUCCESS
		}
		d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return uint32(100_000 + 1000*i), nvml.SUCCESS }
		d.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return uint64(1_000_000 * (i + 1)), nvml.SUCCESS }
		d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 40 << 30, Used: uint64(i+1) << 30, Reserved: 1 << 29}, nvml.SUCCESS
		}
		d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
		devices = append(devices, d)
	}
	return server, devices
}

func TestNVML(t *testing.T) {
	server, devices := mockServer()
	devices[2].GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 41, UsedGpuMemory: 2 << 30}, {Pid: 42, UsedGpuMemory: math.MaxUint64}}, nvml.SUCCESS
	}
	n := newNVML(server)
	s := collectAt(t, n, time.Unix(1, 0))
	want(t, "devices", len(s.GPUs), 8)
	for i, g := range s.GPUs {
		want(t, "UUID", g.UUID, devices[i].UUID)
		want(t, "util, power, energy, memory, total", []float64{g.UtilPercent, g.PowerW, g.EnergyJ, g.MemoryGiB, g.TotalGiB},
			[]float64{float64(10 * i), 100 + float64(i), 1000 * float64(i+1), float64(i + 1), 40})
	}
	want(t, "PIDs", s.GPUs[2].PIDs, []int{41, 42})
	v := s.Values()
	want(t, "mean, sums", []any{v["gpu_util_percent"], v["gpu_memory_gib"], v["gpu_power_w"], v["gpu_energy_j"]}, []any{35., 36., 828., 36000.})

	some := newNVML(server, devices[5].UUID, devices[1].UUID)
	s = collectAt(t, some, time.Unix(1, 0))
	want(t, "chosen", []string{s.GPUs[0].UUID, s.GPUs[1].UUID}, []string{devices[5].UUID, devices[1].UUID})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.Collect(context.Background(), &s); !errors.Is(err, ErrNoData) {
		t.Errorf("after Close: %v", err)
	}
	if err := newNVML(server, "GPU-none").Collect(context.Background(), &s); err == nil || !strings.Contains(err.Error(), "GPU-none") {
		t.Errorf("a device that is not there: %v", err)
	}
}

// With a missing or unusable library, no function of it is ever called again (the mock panics on any call).
func TestNVMLMissing(t *testing.T) {
	cases := map[string]struct {
		ret  nvml.Return
		loud bool
	}{
		"no library":       {nvml.ERROR_LIBRARY_NOT_FOUND, false},
		"no driver":        {nvml.ERROR_DRIVER_NOT_LOADED, true},
		"version mismatch": {nvml.ERROR_LIB_RM_VERSION_MISMATCH, true},
		"unknown":          {nvml.ERROR_UNKNOWN, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inits := 0
			n := newNVML(&mock.Interface{InitFunc: func() nvml.Return { inits++; return c.ret }})
			var s Sample
			err := n.Collect(context.Background(), &s)
			want(t, "said aloud", !errors.Is(err, ErrNoData), c.loud)
			for range 3 {
				if err := n.Collect(context.Background(), &s); !errors.Is(err, ErrNoData) {
					t.Errorf("later: %v", err)
				}
			}
			want(t, "inits, devices", []int{inits, len(s.GPUs)}, []int{1, 0})
			if err := n.Err(); !errors.Is(err, errNoNVML) {
				t.Errorf("why: %v", err)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// On the current machine, with or without GPUs, the process must survive.
func TestNVMLReal(t *testing.T) {
	n := OpenNVML()
	s := NoSample(time.Now())
	err := n.Collect(context.Background(), &s)
	if n.Err() != nil {
		want(t, "devices without a library", len(s.GPUs), 0)
		t.Logf("no GPU here: %v (%v)", n.Err(), err)
	}
	for _, g := range s.GPUs {
		if g.UUID == "" || !(strings.HasPrefix(g.UUID, "MIG-") || g.TotalGiB > 0) {
			t.Errorf("a device of this machine: %+v", g)
		}
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// Errors leave fields unknown, and a lost GPU stays in the sample with unknown values.
func TestNVMLErrorsAndLostDevice(t *testing.T) {
	server, devices := mockServer()
	devices[0].GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 7, nvml.ERROR_NOT_SUPPORTED }
	devices[1].GetPowerUsageFunc = func() (uint32, nvml.Return) { return 7, nvml.ERROR_UNKNOWN }
	n := newNVML(server, devices[0].UUID, devices[1].UUID)
	s := NoSample(time.Unix(1, 0))
	err := n.Collect(context.Background(), &s)
	want(t, "error", err, "read power of GPU "+devices[1].UUID+": code 999")
	if !math.IsNaN(s.GPUs[0].EnergyJ) || !math.IsNaN(s.GPUs[1].PowerW) || s.GPUs[1].UtilPercent != 10 {
		t.Errorf("%+v", s.GPUs)
	}
	lost := nvml.ERROR_GPU_IS_LOST
	d := devices[1]
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, lost }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, lost }
	d.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 0, lost }
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, lost }
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, lost }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, lost }
	s = NoSample(time.Unix(2, 0))
	want(t, "error", n.Collect(context.Background(), &s), "GPU "+d.UUID+" is lost")
	g := s.GPUs[1]
	want(t, "UUID", g.UUID, d.UUID)
	for _, v := range []float64{g.UtilPercent, g.MemoryGiB, g.TotalGiB, g.PowerW, g.EnergyJ} {
		if !math.IsNaN(v) {
			t.Errorf("something is known of a lost GPU: %+v", g)
		}
	}
	want(t, "the other goes on", s.GPUs[0].PowerW, 100.)
	if v := s.Values()["gpu_power_w"].(float64); !math.IsNaN(v) {
		t.Errorf("a sum without the lost GPU: %g W", v)
	}
}

// Functions that an older driver lacks are not called, because the call would end the process.
func TestNVMLOldDriver(t *testing.T) {
	server, devices := mockServer()
	server.ExtendedInterface.LookupSymbolFunc = func(string) error { return errors.New("undefined symbol") }
	for _, d := range devices {
		d.GetMemoryInfo_v2Func, d.GetTotalEnergyConsumptionFunc, d.GetMigModeFunc = nil, nil, nil
	}
	devices[0].MemoryInfo = nvml.Memory{Total: 16 << 30, Used: 3 << 30}
	s := collectAt(t, newNVML(server, devices[0].UUID), time.Unix(1, 0))
	want(t, "memory", s.GPUs[0].MemoryGiB, 3.)
	if !math.IsNaN(s.GPUs[0].EnergyJ) {
		t.Error("energy from nowhere")
	}
}

// MIG slices replace their device, with their own memory and processes and without the device's power.
func TestNVMLSlices(t *testing.T) {
	server, devices := mockServer()
	d := devices[3]
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	slice := func(uuid string, used uint64) *mock.Device {
		return &mock.Device{
			GetUUIDFunc:                    func() (string, nvml.Return) { return uuid, nvml.SUCCESS },
			GetMemoryInfo_v2Func:           func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{Total: 5 << 30, Used: used}, nvml.SUCCESS },
			GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) { return []nvml.ProcessInfo{{Pid: 7}}, nvml.SUCCESS },
		}
	}
	slices := map[int]*mock.Device{0: slice("MIG-a", 1<<30), 2: slice("MIG-b", 2<<30)}
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if s, ok := slices[i]; ok {
			return s, nvml.SUCCESS
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	s := collectAt(t, newNVML(server), time.Unix(1, 0))
	want(t, "devices", len(s.GPUs), 9)
	a, b := s.GPUs[3], s.GPUs[4]
	want(t, "slices", []any{a.UUID, b.UUID, a.MemoryGiB, b.MemoryGiB, a.PIDs}, []any{"MIG-a", "MIG-b", 1., 2., []int{7}})
	if !math.IsNaN(a.PowerW) || !math.IsNaN(a.UtilPercent) {
		t.Errorf("a slice has %+v", a)
	}
	want(t, "one slice", collectAt(t, newNVML(server, "MIG-b"), time.Unix(1, 0)).GPUs[0].UUID, "MIG-b")
	want(t, "by its device", len(collectAt(t, newNVML(server, d.UUID), time.Unix(1, 0)).GPUs), 2)
}

// A hanging driver does not stop the sampling, and neither Err nor Close waits for it.
func TestNVMLHanging(t *testing.T) {
	release := make(chan struct{})
	n := newNVML(&mock.Interface{InitFunc: func() nvml.Return { <-release; return nvml.ERROR_UNKNOWN }})
	s := Sampler{Collectors: []Collector{n, &Host{}}, Timeout: time.Second}
	got, errs := s.Sample(context.Background(), time.Now())
	want(t, "reports", len(errs), 1)
	if math.IsNaN(got.Host.MemoryGiB) {
		t.Error("the machine's memory is not known beside a hanging driver")
	}
	if err := n.Err(); err != nil {
		t.Error(err)
	}
	if err := n.Close(); err == nil || !strings.Contains(err.Error(), "hangs") {
		t.Errorf("Close beside a hanging driver: %v", err)
	}
	close(release)
	<-s.calls[0].done
}

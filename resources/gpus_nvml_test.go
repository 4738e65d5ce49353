//go:build cgo

package resources

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

func TestFault27_NVML(t *testing.T) {
	slice := func(uuid string, gib uint64) *mock.Device {
		return &mock.Device{
			GetUUIDFunc:       func() (string, nvml.Return) { return uuid, nvml.SUCCESS },
			GetNameFunc:       func() (string, nvml.Return) { return "A100 MIG 3g.20gb", nvml.SUCCESS },
			GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: gib << 30}, nvml.SUCCESS },
		}
	}
	device := func(s *dgxa100.Server, i int) *dgxa100.Device { return s.Devices[i].(*dgxa100.Device) }
	cases := map[string]struct {
		damage func(s *dgxa100.Server)
		gpus   int
		says   string
		check  func(t *testing.T, s *dgxa100.Server, gpus []GPU)
	}{
		"eight whole devices": {gpus: 8, damage: func(*dgxa100.Server) {}, check: func(t *testing.T, s *dgxa100.Server, gpus []GPU) {
			for i, g := range gpus {
				want := GPU{Index: i, UUID: device(s, i).UUID, Name: "Mock NVIDIA A100-SXM4-40GB", Memory: 40, Driver: "550.54.15"}
				if g != want {
					t.Errorf("device %d: %+v, want %+v", i, g, want)
				}
			}
		}},
		"no library": {says: "no NVML library", damage: func(s *dgxa100.Server) {
			*s = dgxa100.Server{Interface: mock.Interface{InitFunc: func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }}}
		}},
		"kernel driver not loaded": {says: "kernel driver is not loaded", damage: func(s *dgxa100.Server) {
			*s = dgxa100.Server{Interface: mock.Interface{InitFunc: func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED }}}
		}},
		"driver updated under a running machine": {says: "restart the machine", damage: func(s *dgxa100.Server) {
			*s = dgxa100.Server{Interface: mock.Interface{InitFunc: func() nvml.Return { return nvml.ERROR_LIB_RM_VERSION_MISMATCH }}}
		}},
		"count fails": {says: "number of devices", damage: func(s *dgxa100.Server) {
			s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
		}},
		"no driver version": {gpus: 8, says: "driver version", damage: func(s *dgxa100.Server) {
			s.SystemGetDriverVersionFunc = func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN }
		}},
		"one device lost": {gpus: 7, says: "GPU 3 cannot be used: ERROR_GPU_IS_LOST", damage: func(s *dgxa100.Server) {
			get := s.DeviceGetHandleByIndexFunc
			s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
				if i == 3 {
					return nil, nvml.ERROR_GPU_IS_LOST
				}
				return get(i)
			}
		}},
		"one device without memory figure": {gpus: 7, says: "GPU 5 cannot be used: memory", damage: func(s *dgxa100.Server) {
			device(s, 5).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_UNKNOWN }
		}},
		"MIG: slices in place of the device": {gpus: 9, damage: func(s *dgxa100.Server) {
			d := device(s, 1)
			d.MigMode = nvml.DEVICE_MIG_ENABLE
			d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
			d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
				switch i {
				case 0:
					return slice("MIG-one", 20), nvml.SUCCESS
				case 2:
					return slice("MIG-two", 5), nvml.SUCCESS
				}
				return nil, nvml.ERROR_NOT_FOUND
			}
		}, check: func(t *testing.T, s *dgxa100.Server, gpus []GPU) {
			want := GPU{Index: 1, UUID: "MIG-two", Name: "A100 MIG 3g.20gb", Memory: 5, Driver: "550.54.15", MIG: true, Parent: device(s, 1).UUID}
			if gpus[1].UUID != "MIG-one" || gpus[2] != want {
				t.Errorf("slices %+v, %+v", gpus[1], gpus[2])
			}
			for _, g := range gpus {
				if g.UUID == device(s, 1).UUID {
					t.Error("the split device itself is offered")
				}
			}
		}},
		"MIG mode without slices": {gpus: 7, says: "has no slices", damage: func(s *dgxa100.Server) {
			d := device(s, 0)
			d.MigMode = nvml.DEVICE_MIG_ENABLE
			d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
			d.GetMigDeviceHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_NOT_FOUND }
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := dgxa100.New()
			c.damage(s)
			got, notes := readNVML(s)
			if len(got) != c.gpus {
				t.Fatalf("%d devices, want %d; notes %q", len(got), c.gpus, notes)
			}
			if c.says != "" {
				mention(t, notes, c.says)
			} else if len(notes) > 0 {
				t.Errorf("notes %q", notes)
			}
			if c.check != nil {
				c.check(t, s, got)
			}
		})
	}
}

// On a driver older than MIG, a call of the missing symbol would end the process.
func TestOldDriverIsNotAskedForMIG(t *testing.T) {
	s := dgxa100.New()
	s.LookupSymbolFunc = func(symbol string) error { return context.Canceled }
	for _, d := range s.Devices {
		d.(*dgxa100.Device).GetMigModeFunc = func() (int, int, nvml.Return) { panic("undefined symbol: the process would be gone") }
	}
	if got, notes := readNVML(s); len(got) != 8 || len(notes) > 0 {
		t.Errorf("%d devices, notes %q", len(got), notes)
	}
}

func TestDiscoverTakesTheVisiblePart(t *testing.T) {
	s := dgxa100.New()
	h, err := discover(context.Background(), machine(t, "none"), visibleDevices{list: "6,2", set: true}, func() ([]GPU, []string) { return readNVML(s) })
	if err != nil {
		t.Fatal(err)
	}
	if len(h.GPUs) != 2 || h.GPUs[0].Index != 6 || h.GPUs[1].Index != 2 {
		t.Errorf("%+v", h.GPUs)
	}
	if n := len(s.ShutdownCalls()); n != 1 {
		t.Errorf("NVML was shut down %d times, want once", n)
	}
}

func TestPowerNVML(t *testing.T) {
	limit := uint32(300_000)
	dev := &mock.Device{
		GetPowerManagementLimitFunc:            func() (uint32, nvml.Return) { return limit, nvml.SUCCESS },
		GetPowerManagementLimitConstraintsFunc: func() (uint32, uint32, nvml.Return) { return 100_000, 400_000, nvml.SUCCESS },
		SetPowerManagementLimitFunc: func(mw uint32) nvml.Return {
			if mw > 400_000 {
				return nvml.ERROR_INVALID_ARGUMENT
			}
			limit = mw
			return nvml.SUCCESS
		},
	}
	has := map[string]bool{}
	lib := &mock.Interface{
		InitFunc: func() nvml.Return { return nvml.SUCCESS }, ShutdownFunc: func() nvml.Return { return nvml.SUCCESS },
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(s string) error {
				if !has[s] {
					return errors.New("absent")
				}
				return nil
			}}
		},
		DeviceGetHandleByUUIDFunc: func(uuid string) (nvml.Device, nvml.Return) {
			if uuid != "GPU-a" {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return dev, nvml.SUCCESS
		},
	}
	if _, err := openPowerNVML(lib); err == nil || !strings.Contains(err.Error(), "lacks") {
		t.Errorf("a library without the functions: %v", err)
	}
	for _, s := range []string{"nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerManagementLimitConstraints", "nvmlDeviceSetPowerManagementLimit"} {
		has[s] = true
	}
	drv, err := openPowerNVML(lib)
	if err != nil {
		t.Fatal(err)
	}
	if now, least, most, err := drv.limits("GPU-a"); now != 300_000 || least != 100_000 || most != 400_000 || err != nil {
		t.Errorf("limits %d, %d to %d, %v", now, least, most, err)
	}
	if err := drv.set("GPU-a", 200_000); err != nil || limit != 200_000 {
		t.Errorf("set: %v, %d", err, limit)
	}
	for uuid, says := range map[string]string{"GPU-a": "outside the range", "GPU-b": "lost"} {
		if err := drv.set(uuid, 500_000); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("set of %s: %v, want %q", uuid, err, says)
		}
	}
	dev.SetPowerManagementLimitFunc = func(uint32) nvml.Return { return nvml.ERROR_NO_PERMISSION }
	if err := drv.set("GPU-a", 250_000); err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("without permission: %v", err)
	}
}

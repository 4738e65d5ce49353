//go:build cgo

package resources

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nvmlBuilt reports whether this build can query the NVIDIA driver.
const nvmlBuilt = true

func readGPUs() ([]GPU, []string) { return readNVML(nvml.New()) }

// readNVML returns the devices of lib. No other function of a library that fails to initialise is called, because the
// loader would end the process. A device that fails is skipped and noted.
func readNVML(lib nvml.Interface) (gpus []GPU, notes []string) {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, []string{"no NVML library (no NVIDIA driver): GPUs counted as none"}
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, []string{"the NVIDIA kernel driver is not loaded: GPUs counted as none"}
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return nil, []string{"the NVIDIA library and kernel driver are of different versions (restart the machine after a driver update): GPUs counted as none"}
	default:
		return nil, []string{fmt.Sprintf("NVML does not start (error %d): GPUs unknown, counted as none", ret)}
	}
	defer lib.Shutdown()
	driver, ret := lib.SystemGetDriverVersion()
	if ret != nvml.SUCCESS {
		driver = ""
		notes = append(notes, fmt.Sprintf("NVML: driver version: %v", ret))
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, append(notes, fmt.Sprintf("NVML: number of devices: %v: GPUs unknown, counted as none", ret))
	}
	// Drivers older than MIG lack the symbol, and calling it would end the process.
	hasMIG := lib.Extensions().LookupSymbol("nvmlDeviceGetMigMode") == nil
	for i := range n {
		dev, ret := lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			notes = append(notes, fmt.Sprintf("GPU %d cannot be used: %v", i, ret))
			continue
		}
		g, err := describeDevice(dev)
		if err != nil {
			notes = append(notes, fmt.Sprintf("GPU %d cannot be used: %v", i, err))
			continue
		}
		g.Index, g.Driver = i, driver
		if hasMIG {
			if mode, _, ret := dev.GetMigMode(); ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
				slices, said := readSlices(dev, g)
				gpus, notes = append(gpus, slices...), append(notes, said...)
				continue
			}
		}
		gpus = append(gpus, g)
	}
	return gpus, notes
}

// describeDevice reads the UUID, name and memory of a device; a missing name is not an error.
func describeDevice(dev nvml.Device) (GPU, error) {
	var g GPU
	uuid, ret := dev.GetUUID()
	if ret != nvml.SUCCESS {
		return g, fmt.Errorf("UUID: %v", ret)
	}
	mem, ret := dev.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return g, fmt.Errorf("memory: %v", ret)
	}
	name, ret := dev.GetName()
	if ret != nvml.SUCCESS {
		name = ""
	}
	return GPU{UUID: uuid, Name: name, Memory: gib(mem.Total)}, nil
}

// readSlices returns the MIG slices of a partitioned device, which cannot itself be allocated to a job.
func readSlices(dev nvml.Device, whole GPU) (gpus []GPU, notes []string) {
	n, ret := dev.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, []string{fmt.Sprintf("GPU %d is split (MIG), its slices cannot be read: %v", whole.Index, ret)}
	}
	for i := range n {
		slice, ret := dev.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue // no slice at this index
		}
		if ret != nvml.SUCCESS {
			notes = append(notes, fmt.Sprintf("GPU %d, MIG slice %d cannot be used: %v", whole.Index, i, ret))
			continue
		}
		g, err := describeDevice(slice)
		if err != nil {
			notes = append(notes, fmt.Sprintf("GPU %d, MIG slice %d cannot be used: %v", whole.Index, i, err))
			continue
		}
		g.Index, g.Driver, g.MIG, g.Parent = whole.Index, whole.Driver, true, whole.UUID
		gpus = append(gpus, g)
	}
	if len(gpus) == 0 && len(notes) == 0 {
		notes = append(notes, fmt.Sprintf("GPU %d is in MIG mode but has no slices: nothing of it can be used", whole.Index))
	}
	return gpus, notes
}

//go:build cgo

package resources

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func openPower() (powerDriver, error) { return openPowerNVML(nvml.New()) }

// openPowerNVML initialises the library. A function that the library lacks is never called: that would end the process.
func openPowerNVML(lib nvml.Interface) (powerDriver, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		if ret == nvml.ERROR_LIBRARY_NOT_FOUND {
			return nil, errors.New("no NVML library (no NVIDIA driver)")
		}
		return nil, fmt.Errorf("NVML does not start (error %d)", ret)
	}
	for _, symbol := range []string{"nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerManagementLimitConstraints", "nvmlDeviceSetPowerManagementLimit"} {
		if lib.Extensions().LookupSymbol(symbol) != nil {
			lib.Shutdown()
			return nil, fmt.Errorf("the driver lacks %s", symbol)
		}
	}
	return powerNVML{lib}, nil
}

type powerNVML struct{ lib nvml.Interface }

func (p powerNVML) close() { p.lib.Shutdown() }

func (p powerNVML) limits(uuid string) (now, least, most uint32, err error) {
	dev, ret := p.lib.DeviceGetHandleByUUID(uuid)
	if ret == nvml.SUCCESS {
		if now, ret = dev.GetPowerManagementLimit(); ret == nvml.SUCCESS {
			least, most, ret = dev.GetPowerManagementLimitConstraints()
		}
	}
	return now, least, most, powerError(ret)
}

func (p powerNVML) set(uuid string, mw uint32) error {
	dev, ret := p.lib.DeviceGetHandleByUUID(uuid)
	if ret == nvml.SUCCESS {
		ret = dev.SetPowerManagementLimit(mw)
	}
	return powerError(ret)
}

func powerError(ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_NO_PERMISSION:
		return errors.New("not permitted: it requires root")
	case nvml.ERROR_NOT_SUPPORTED:
		return errors.New("not supported by the device")
	case nvml.ERROR_INVALID_ARGUMENT:
		return errors.New("outside the range of the device")
	case nvml.ERROR_NOT_FOUND, nvml.ERROR_GPU_IS_LOST:
		return errors.New("the device is lost")
	}
	return fmt.Errorf("NVML error %d", ret)
}

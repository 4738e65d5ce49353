//go:build cgo

package monitor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// NVML collects GPUSample through the library of the driver. The first Collect loads the library, within the
// collector's own timeout. If the library is missing or its initialisation fails, no device function is ever called
// (the dynamic loader would end the process), Collect returns ErrNoData from then on, and Err returns the reason.
//
// A number that a device does not report stays NaN. A device that is lost during a run stays in the sample with its
// UUID and unknown numbers, and Collect returns an error.
type NVML struct {
	lib   nvml.Interface
	uuids []string

	why atomic.Pointer[error] // why the library is unusable; separate from mu, which is held while the driver hangs

	mu      sync.Mutex
	started bool
	devices []*gpuDevice
	has     map[string]bool // functions that older drivers lack
}

var _ Collector = (*NVML)(nil)

// errNoNVML reports that the driver's library is missing or cannot be initialised.
var errNoNVML = errors.New("no GPU library")

// gpuDevice is one device or one MIG slice of a device.
type gpuDevice struct {
	handle nvml.Device
	uuid   string
	parent string // of a slice
	slice  bool
}

// OpenNVML returns a collector that uses the machine's library and reads the named devices or slices (UUIDs), or all
// devices if none is named.
func OpenNVML(uuids ...string) *NVML { return newNVML(nvml.New(), uuids...) }

// newNVML is OpenNVML with a given library, for tests.
func newNVML(lib nvml.Interface, uuids ...string) *NVML {
	return &NVML{lib: lib, uuids: uuids}
}

// Name returns "nvml".
func (n *NVML) Name() string { return "nvml" }

// Err returns the reason why GPUs cannot be read; nil while the library works or has not been loaded yet.
func (n *NVML) Err() error {
	if why := n.why.Load(); why != nil {
		return *why
	}
	return nil
}

// disable records why the library is unusable and returns it.
func (n *NVML) disable(why error) error {
	n.why.Store(&why)
	return why
}

// Collect reads all devices. It appends a sample for each device even if some of its values cannot be read.
func (n *NVML) Collect(ctx context.Context, s *Sample) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Err() != nil {
		return ErrNoData
	}
	var errs []error
	if !n.started {
		if ret := n.lib.Init(); ret != nvml.SUCCESS {
			err := n.disable(fmt.Errorf("%w: %s", errNoNVML, initError(ret)))
			if ret == nvml.ERROR_LIBRARY_NOT_FOUND {
				return ErrNoData // a machine without GPUs: not an error
			}
			return err
		}
		n.started = true
		n.lookup()
		if err := n.find(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(n.devices) == 0 && len(errs) == 0 {
		return ErrNoData
	}
	for _, d := range n.devices {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read GPU %s: %w", d.uuid, err)
		}
		g, err := n.read(d)
		s.GPUs = append(s.GPUs, g)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// initError describes a return code of Init without calling nvmlErrorString, which is itself a function of the
// library.
func initError(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "libnvidia-ml.so.1 is not on this machine"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "the driver is not loaded"
	case nvml.ERROR_NO_PERMISSION:
		return "no permission to talk to the driver"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "library and driver are of different versions"
	case nvml.ERROR_GPU_IS_LOST:
		return "a GPU is lost"
	}
	return fmt.Sprintf("it does not start (code %d)", int(ret))
}

// Symbols that some drivers lack.
const (
	symMemory = "nvmlDeviceGetMemoryInfo_v2"
	symEnergy = "nvmlDeviceGetTotalEnergyConsumption"
	symMIG    = "nvmlDeviceGetMigMode"
)

func (n *NVML) lookup() {
	n.has = map[string]bool{}
	for _, symbol := range []string{symMemory, symEnergy, symMIG} {
		n.has[symbol] = n.lib.Extensions().LookupSymbol(symbol) == nil
	}
}

// find lists the devices: the requested ones or all, and slices in place of a partitioned device. A requested UUID
// also selects the slices of the device with it. Devices that cannot be opened are skipped and reported in the error.
func (n *NVML) find() error {
	count, ret := n.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("count GPUs: code %d", int(ret))
	}
	var errs []error
	var all []*gpuDevice
	for i := range count {
		h, ret := n.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			errs = append(errs, fmt.Errorf("open GPU %d: code %d", i, int(ret)))
			continue
		}
		uuid, ret := h.GetUUID()
		if ret != nvml.SUCCESS {
			errs = append(errs, fmt.Errorf("name GPU %d: code %d", i, int(ret)))
			continue
		}
		d := &gpuDevice{handle: h, uuid: uuid}
		if slices := n.slices(d); len(slices) > 0 {
			all = append(all, slices...)
			continue
		}
		all = append(all, d)
	}
	if len(n.uuids) == 0 {
		n.devices = all
		return errors.Join(errs...)
	}
	for _, want := range n.uuids {
		found := false
		for _, d := range all {
			if d.uuid == want || d.parent == want {
				n.devices, found = append(n.devices, d), true
			}
		}
		if !found {
			errs = append(errs, fmt.Errorf("GPU %s is not on this machine", want))
		}
	}
	return errors.Join(errs...)
}

// slices lists the MIG slices of a device; nil if it is not partitioned.
func (n *NVML) slices(d *gpuDevice) []*gpuDevice {
	if !n.has[symMIG] {
		return nil
	}
	if mode, _, ret := d.handle.GetMigMode(); ret != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return nil
	}
	most, ret := d.handle.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var out []*gpuDevice
	for i := range most {
		h, ret := d.handle.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // no slice at this index
		}
		if uuid, ret := h.GetUUID(); ret == nvml.SUCCESS {
			out = append(out, &gpuDevice{handle: h, uuid: uuid, parent: d.uuid, slice: true})
		}
	}
	return out
}

// Close shuts the library down, unless a call to the driver hangs. The collector cannot be used afterwards.
func (n *NVML) Close() error {
	if !n.mu.TryLock() {
		return errors.New("close the GPU library: a call to the driver hangs")
	}
	defer n.mu.Unlock()
	running := n.started && n.Err() == nil
	n.disable(fmt.Errorf("%w: closed", errNoNVML))
	if !running {
		return nil
	}
	if ret := n.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("close the GPU library: code %d", int(ret))
	}
	return nil
}

// gib converts bytes to GiB.
func gib(bytes uint64) float64 { return float64(bytes) / (1 << 30) }

// deviceErrors collects the errors of one device. Unsupported queries are not errors.
type deviceErrors struct {
	uuid string
	err  error
}

// ok reports whether a query succeeded, and records an error otherwise.
func (a *deviceErrors) ok(what string, ret nvml.Return) bool {
	switch ret {
	case nvml.SUCCESS:
		return true
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NOT_FOUND, nvml.ERROR_FUNCTION_NOT_FOUND:
	case nvml.ERROR_GPU_IS_LOST:
		a.err = fmt.Errorf("GPU %s is lost", a.uuid)
	default:
		if a.err == nil {
			a.err = fmt.Errorf("read %s of GPU %s: code %d", what, a.uuid, int(ret))
		}
	}
	return false
}

// read queries all values of one device.
func (n *NVML) read(d *gpuDevice) (GPUSample, error) {
	nan := math.NaN()
	g := GPUSample{UUID: d.uuid, UtilPercent: nan, MemoryGiB: nan, TotalGiB: nan, PowerW: nan, EnergyJ: nan}
	a := deviceErrors{uuid: d.uuid}
	n.memory(d, &g, &a)
	n.processes(d, &g, &a)
	if d.slice { // only the whole device has these
		return g, a.err
	}
	if u, ret := d.handle.GetUtilizationRates(); a.ok("utilization", ret) {
		g.UtilPercent = float64(u.Gpu)
	}
	if mw, ret := d.handle.GetPowerUsage(); a.ok("power", ret) {
		g.PowerW = float64(mw) / 1000
	}
	if n.has[symEnergy] {
		if mj, ret := d.handle.GetTotalEnergyConsumption(); a.ok("energy", ret) {
			g.EnergyJ = float64(mj) / 1000
		}
	}
	return g, a.err
}

// memory reads the used memory as nvidia-smi shows it: without the driver's reserve, where the driver reports that.
func (n *NVML) memory(d *gpuDevice, g *GPUSample, a *deviceErrors) {
	if n.has[symMemory] {
		if m, ret := d.handle.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			g.MemoryGiB, g.TotalGiB = gib(m.Used), gib(m.Total)
			return
		}
	}
	if m, ret := d.handle.GetMemoryInfo(); a.ok("memory", ret) {
		g.MemoryGiB, g.TotalGiB = gib(m.Used), gib(m.Total)
	}
}

// processes reads the compute processes.
func (n *NVML) processes(d *gpuDevice, g *GPUSample, a *deviceErrors) {
	infos, ret := d.handle.GetComputeRunningProcesses()
	if !a.ok("processes", ret) {
		return
	}
	for _, p := range infos {
		g.PIDs = append(g.PIDs, int(p.Pid))
	}
}

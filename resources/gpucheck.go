package resources

import (
	"fmt"
	"slices"
	"strings"
)

// problem is a problem that the user can remedy.
type problem struct {
	// Code is a fixed short name, such as "device-count".
	Code string `json:"code"`
	// Fatal means that the job cannot work at all; otherwise it works with restrictions.
	Fatal bool `json:"fatal"`
	// What describes the problem and Advice the remedy, one line each.
	What   string `json:"what"`
	Advice string `json:"advice"`
}

// GPUProcess is a process that the driver reports on a device.
type GPUProcess struct {
	UUID string `json:"uuid"` // of the device or slice
	PID  int    `json:"pid"`
}

// GPUCheck is the input of a check of GPUs, gathered by the caller.
type GPUCheck struct {
	Host       Host       // as discovered now, not at the start
	Allocation Allocation // of the job
	// Visible is the job's CUDA_VISIBLE_DEVICES; VisibleSet is false if it is unset.
	Visible    string
	VisibleSet bool
	// Running is true once the job has had time to use its devices; only then are missing processes a problem.
	Running   bool
	Processes []GPUProcess // on all devices; nil before a run or if the driver does not report them
	JobPIDs   []int        // of the whole process tree
	// Namespaced means that JobPIDs are of a PID namespace other than the initial one (Roots.PIDNamespace), while the
	// driver may report the PIDs of the initial one.
	Namespaced bool
}

// Problems compares the allocation of a job with its visible devices and the devices that its processes use. It
// returns nil if there is no problem. A CPU job is checked for devices that should be hidden.
func (in GPUCheck) Problems() []problem {
	var ps []problem
	add := func(code string, fatal bool, advice, what string, args ...any) {
		ps = append(ps, problem{Code: code, Fatal: fatal, What: fmt.Sprintf(what, args...), Advice: advice})
	}
	n := in.Allocation.GPUs
	if n > 0 && len(in.Host.GPUs) == 0 {
		why := "no device is seen"
		if len(in.Host.Notes) > 0 {
			why = strings.Join(in.Host.Notes, "; ")
		}
		add("no-driver", true, "install or start the NVIDIA driver (nvidia-smi must list the devices), give the container its GPUs, or run with --gpus 0",
			"%d GPUs are given but none can be used: %s", n, why)
		return ps
	}
	for _, err := range checkDevices(in.Allocation, in.Host) {
		add("device-gone", true, "choose the devices again; a device that was present before has failed or was removed (see the kernel log for Xid errors)", "%v", err)
	}
	seen := checkVisible(in, add)
	if len(seen) > 1 && slices.ContainsFunc(seen, func(g GPU) bool { return g.MIG }) {
		add("mig-many", false, "start one process per slice, each with its own CUDA_VISIBLE_DEVICES, or give one larger slice", "%d devices with MIG slices among them: one CUDA process can use only one slice", len(seen))
	}
	checkProcesses(in, seen, add)
	return ps
}

// addProblem appends a problem; what is a format string for args.
type addProblem func(code string, fatal bool, advice, what string, args ...any)

// checkVisible compares the visible devices with the allocation and returns them.
func checkVisible(in GPUCheck, add addProblem) []GPU {
	n := in.Allocation.GPUs
	seen, notes := visibleDevices{list: in.Visible, set: in.VisibleSet}.choose(in.Host.GPUs)
	switch {
	case n > 0 && in.VisibleSet && strings.TrimSpace(in.Visible) == "":
		add("visible-empty", true, "do not empty CUDA_VISIBLE_DEVICES in the script or its wrapper", "CUDA_VISIBLE_DEVICES is empty: the job sees none of its %d GPUs", n)
	case n > 0 && len(seen) == 0:
		add("visible-unknown", true, "name devices as nvidia-smi -L lists them", "CUDA_VISIBLE_DEVICES=%s names no usable device (%s)", in.Visible, strings.Join(notes, "; "))
	case n > 0 && len(seen) < n:
		add("device-count", true, "leave CUDA_VISIBLE_DEVICES to the optimizer, or request fewer GPUs", "%d GPUs are given, the job sees %d", n, len(seen))
	case len(seen) > n:
		add("device-count", false, "leave CUDA_VISIBLE_DEVICES to the optimizer: work on other devices is neither counted nor paid", "%d GPUs are given, the job sees %d", n, len(seen))
	}
	return seen
}

// checkProcesses compares the devices that processes use with the allocated ones. Without chosen devices, the first
// visible ones count as allocated. It reports processes of the job on other devices, foreign processes on the job's
// devices and, once the job is running, devices without a process of the job. In a PID namespace, processes none of which
// belongs to the job count as unknown: the job's own may be among them, under their PIDs outside.
func checkProcesses(in GPUCheck, seen []GPU, add addProblem) {
	given := in.Allocation.GPUIDs
	if len(given) == 0 {
		for _, g := range seen {
			given = append(given, g.UUID)
		}
		given = given[:min(len(given), max(in.Allocation.GPUs, 0))]
	}
	mine := func(p GPUProcess) bool { return slices.Contains(in.JobPIDs, p.PID) }
	if in.Namespaced && !slices.ContainsFunc(in.Processes, mine) {
		in.Processes = nil
	}
	used := map[string]bool{}
	for _, p := range in.Processes {
		mine, here := mine(p), slices.Contains(given, p.UUID)
		switch {
		case mine && here:
			used[p.UUID] = true
		case mine:
			add("outside", false, "remove device choices (cuda:N, set_device, CUDA_VISIBLE_DEVICES) from the script", "process %d of the job runs on %s, which it was not given", p.PID, p.UUID)
		case here:
			add("shared", false, "wait for it, end it, or choose another device: both are slower and may run out of device memory", "%s is also used by process %d, not of this job", p.UUID, p.PID)
		}
	}
	if !in.Running || in.Processes == nil || len(given) == 0 {
		return
	}
	var idle []string
	for _, id := range given {
		if !used[id] {
			idle = append(idle, id)
		}
	}
	switch {
	case len(idle) == len(given):
		add("unused", false, "check that the framework is built with CUDA and that the script moves model and data to the device; else run with --gpus 0", "no process of the job runs on any of its %d GPUs", len(given))
	case len(idle) > 0:
		add("partly-unused", false, "make the script data-parallel (one process per device, or torchrun), or give it fewer GPUs", "the job runs on %d of its %d GPUs; idle: %s", len(given)-len(idle), len(given), strings.Join(idle, ", "))
	}
}

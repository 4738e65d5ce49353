package resources

// GPU is one accelerator, or one MIG slice, that can be allocated to a job.
type GPU struct {
	Index  int    `json:"index"`
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Memory GiB    `json:"memory_gib"`
	// Driver is the driver version; empty if unknown.
	Driver string `json:"driver,omitempty"`
	// MIG is true for a slice; Parent is then the UUID of the whole device.
	MIG    bool   `json:"mig,omitempty"`
	Parent string `json:"parent,omitempty"`
}

// Host contains the usable resources of a machine, container or job slot or, if Described is not empty, of a
// described machine.
type Host struct {
	// CPUs is the number of usable logical CPUs: the minimum of the affinity mask and the CPU quotas of all enclosing
	// cgroups. It may be fractional (quota 1.5) and below 1.
	CPUs float64 `json:"cpus"`
	// CPUIDs is the affinity mask in ascending order.
	CPUIDs []int `json:"cpu_ids,omitempty"`
	// CPUModel is the model name of the processor; empty if unknown.
	CPUModel string `json:"cpu_model,omitempty"`
	// Memory is the minimum of the machine's memory and the limits of all enclosing cgroups.
	Memory GiB   `json:"memory_gib"`
	GPUs   []GPU `json:"gpus"`
	// Nodes is the number of machines of this description that each job of a cluster is given; 0: this is the machine
	// itself.
	Nodes int `json:"nodes,omitempty"`
	// Described is the description (file or cloud:type) that this host was read from; empty for the current machine.
	Described string `json:"described,omitempty"`
	// Notes describe resources that could not be determined and the reason ("no NVML library: GPUs unknown, counted
	// as none").
	Notes []string `json:"notes,omitempty"`
}

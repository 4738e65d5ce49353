package resources

// GPU is one accelerator (or one MIG slice of one) that a job can be given.
type GPU struct {
	Index  int    `json:"index"`
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Memory GiB    `json:"memory_gib"`
	// Driver is the driver version, empty when unknown.
	Driver string `json:"driver,omitempty"`
	// MIG is true for a slice; Parent is then the UUID of the whole device.
	MIG    bool   `json:"mig,omitempty"`
	Parent string `json:"parent,omitempty"`
}

// Host is what a machine (or container, or job slot) really offers, or, when Described is not empty,
// what somebody wrote that another machine offers.
type Host struct {
	// CPUs is the number of logical CPUs that may be used: the smaller of the affinity mask and
	// the CPU quota of every enclosing cgroup. May be fractional (quota 1.5) and below 1.
	CPUs float64 `json:"cpus"`
	// CPUIDs is the affinity mask, ascending.
	CPUIDs []int `json:"cpu_ids,omitempty"`
	// Memory is the smaller of the machine's memory and every enclosing cgroup's limit.
	Memory GiB   `json:"memory_gib"`
	GPUs   []GPU `json:"gpus"`
	// Described names the description (file or cloud:type) that this host was read from; empty for
	// the machine we run on.
	Described string `json:"described,omitempty"`
	// Notes say in words what could not be seen and why ("no NVML library: GPUs unknown, counted as none").
	Notes []string `json:"notes,omitempty"`
}

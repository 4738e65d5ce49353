package resources

// Rlimit is one resource limit of a process (RLIMIT_… number, soft and hard value).
type Rlimit struct {
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// Recipe is what a process does to itself just before it becomes the job, so that nothing of the
// job ever runs unlimited. It is plain data and travels between processes as JSON.
type Recipe struct {
	// Join lists the cgroup.procs (v1, v2) files to which the process writes its own pid.
	Join []string `json:"join,omitempty"`
	// CPUIDs is the affinity mask to take; empty leaves it.
	CPUIDs  []int    `json:"cpu_ids,omitempty"`
	Rlimits []Rlimit `json:"rlimits,omitempty"`
}

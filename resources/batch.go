package resources

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BatchJob is the Slurm job that contains a process: its allocation on this node. Zero fields are unknown.
type BatchJob struct {
	ID       string `json:"id"`
	Cluster  string `json:"cluster,omitempty"`
	Node     string `json:"node,omitempty"`
	Restarts int    `json:"restarts"` // how often Slurm has started the job again
	CPUs     int    `json:"cpus,omitempty"`
	Memory   GiB    `json:"memory_gib,omitempty"`
	GPUs     int    `json:"gpus,omitempty"`
	// Nodes is the number of nodes of the allocation, of each of which it has the amounts above, if this process is on
	// the first one for all of them; 0 means 1, as in a step of srun.
	Nodes int `json:"nodes,omitempty"`
	// End is the end of the allocation by the time limit of the job; zero: none, or unknown.
	End time.Time `json:"ends_at,omitzero"`

	script  int   // pid of the batch script; 0 in a step of srun, and if unknown
	devices []int // indices of the allocated GPUs on the node; nil: unknown
}

// jobNumber matches the number of a Slurm job, which is passed to Slurm's commands.
var jobNumber = regexp.MustCompile(`^[1-9][0-9]{0,9}$`)

// EnclosingJob returns the Slurm job whose process has this environment; nil outside a job. A shell of salloc on a login
// node is outside: it belongs to a job but does not run on its nodes. Values that cannot be read are unknown.
func EnclosingJob(environ []string) *BatchJob {
	v := map[string]string{}
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "SLURM") {
			v[name] = value
		}
	}
	number := func(name string) int {
		n, err := strconv.Atoi(v[name])
		if err != nil || n < 0 {
			return 0
		}
		return n
	}
	if !jobNumber.MatchString(v["SLURM_JOB_ID"]) || v["SLURMD_NODENAME"] == "" && number("SLURM_CPUS_ON_NODE") == 0 {
		return nil
	}
	b := &BatchJob{ID: v["SLURM_JOB_ID"], Cluster: v["SLURM_CLUSTER_NAME"], Node: v["SLURMD_NODENAME"], Restarts: number("SLURM_RESTART_COUNT"),
		CPUs: number("SLURM_CPUS_ON_NODE"), GPUs: number("SLURM_GPUS_ON_NODE")}
	_, step := v["SLURM_STEP_ID"]
	if n := number("SLURM_CPUS_PER_TASK"); n > 0 && (b.CPUs == 0 || step) { // a step is one of several tasks on the node
		b.CPUs = n
	}
	if !step {
		b.script = number("SLURM_TASK_PID")
		if n := number("SLURM_JOB_NUM_NODES"); n > 1 {
			b.Nodes = n
		}
	}
	for name, units := range map[string]int{"SLURM_MEM_PER_NODE": 1, "SLURM_MEM_PER_CPU": b.CPUs, "SLURM_MEM_PER_GPU": b.GPUs} {
		if n := number(name) * units; n > 0 { // 0 is all memory of the node
			b.Memory = GiB(float64(n) / 1024)
		}
	}
	for _, name := range []string{"SLURM_JOB_GPUS", "SLURM_STEP_GPUS"} {
		if ids, err := ParseCPUList(v[name]); err == nil && len(ids) > 0 {
			b.devices = ids
		}
	}
	if n := number("SLURM_JOB_END_TIME"); n > 0 {
		b.End = time.Unix(int64(n), 0)
	}
	return b
}

// String describes the job: "Slurm job 12 on n0".
func (b *BatchJob) String() string {
	if b.Node == "" {
		return "Slurm job " + b.ID
	}
	return "Slurm job " + b.ID + " on " + b.Node
}

// Words lists the resources of the allocation, as far as known: "2 CPUs, 0.49 GiB, 1 GPU".
func (b *BatchJob) Words() string {
	var parts []string
	count := func(n int, what string) {
		if n == 1 {
			parts = append(parts, "1 "+what)
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %ss", n, what))
		}
	}
	count(b.CPUs, "CPU")
	if b.Memory > 0 {
		parts = append(parts, b.Memory.size())
	}
	count(b.GPUs, "GPU")
	words := strings.Join(parts, ", ")
	if b.Nodes > 1 {
		words += fmt.Sprintf(" on each of %d nodes", b.Nodes)
	}
	return words
}

// limit restricts the resources of a machine to those of the job.
func (b *BatchJob) limit(h *Host) {
	note := func(format string, args ...any) {
		h.Notes = append(h.Notes, fmt.Sprintf(format, args...)+" by "+b.String())
	}
	if b.CPUs > 0 && float64(b.CPUs) < h.CPUs {
		h.CPUs = float64(b.CPUs)
		note("CPUs: %d", b.CPUs)
	}
	if b.Memory > 0 && b.Memory < h.Memory {
		h.Memory = b.Memory
		note("memory: %.4g GiB", float64(b.Memory))
	}
	h.Nodes = b.Nodes
	// A site that confines devices, or sets CUDA_VISIBLE_DEVICES, has left no more than the allocated ones.
	if b.GPUs > 0 && b.GPUs < len(h.GPUs) && len(b.devices) == b.GPUs {
		h.GPUs = slices.DeleteFunc(h.GPUs, func(g GPU) bool { return !slices.Contains(b.devices, g.Index) })
		note("GPUs: %d", b.GPUs)
	}
}

// UnderShell reports whether this process is a child of the shell that runs the batch script. Such a shell dies of the
// SIGTERM with which Slurm ends a job, and Slurm then kills all processes of the job before they can save.
func (b *BatchJob) UnderShell() bool {
	if b == nil || b.script == 0 || b.script == os.Getpid() {
		return false
	}
	name, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(b.script), "comm"))
	return err == nil && slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh", "slurm_script"}, strings.TrimSpace(string(name)))
}

// checkBatch reports the enclosing Slurm job; the check is omitted outside a job.
func checkBatch(b *BatchJob) []Finding {
	if b == nil {
		return nil
	}
	f := passed("allocation", "%s: %s", b, b.Words())
	if !b.End.IsZero() {
		f.Found += ", until " + b.End.Format(time.DateTime)
	}
	if b.UnderShell() {
		f.Status = Warn
		f.Found += "; started by the shell of the batch script"
		f.Cost = "Slurm's SIGTERM ends that shell first, and then all processes with it, without a checkpoint"
		f.Do = "write exec optimize … as the last line of the batch script"
	}
	return []Finding{f}
}

// Package batsim reads and writes the files of Batsim (Dutot, Mercier, Poquet and Richard, JSSPP 2016; github.com/oar-team/batsim):
// workloads in the vocabularies of versions 3 and 5, the tables of jobs and of the schedule that a simulation leaves, and the sets of
// intervals in them. It simulates nothing, and does not speak Batsim's protocol (queue/protocol does); platforms are in
// simulator/platform.
//
//	w, err := batsim.Load("workload.json")
//	c, err := w.Convert(batsim.ConvertOptions{Reference: tree.Reference})
//	// simulate c.Jobs; say c.Dropped
//	err = batsim.WriteJobs(file, result, batsim.TableOptions{Profile: c.Profile})
package batsim

import "encoding/json"

// Workload is what users ask of a machine: jobs, and profiles that say what is in them.
type Workload struct {
	Resources int // cores for which it was made (nb_res); 0 unknown. Nothing depends on it
	Jobs      []Job
	Profiles  map[string]Profile
}

// Job is a request.
type Job struct {
	ID        string  // unique
	Submit    float64 // s
	Resources int     // cores, at least 1
	Profile   string  // name of one of the workload's profiles
	Walltime  float64 // s after which it is killed; 0 is never
	// Extra are all other fields, as they are.
	Extra map[string]json.RawMessage
}

// The types of profiles that a job can be made of, by their names in version 3.
const (
	Delay              = "delay"                               // Seconds pass, whatever the machine
	Parallel           = "parallel"                            // CPU has the operations of each core
	Homogeneous        = "parallel_homogeneous"                // CPU has those of every core
	HomogeneousTotal   = "parallel_homogeneous_total"          // CPU has those of all cores together
	Composed           = "composed"                            // Sequence, one after the other, Repeat times
	HomogeneousPFS     = "parallel_homogeneous_pfs"            // reads and writes a file system; not simulated
	DataStaging        = "data_staging"                        // moves data between file systems; not simulated
	SMPI               = "smpi"                                // replays a trace; not simulated
	Send               = "send"                                // sends a message to the scheduler; not simulated
	Receive            = "recv"                                // waits for one; not simulated
	ForkJoin           = "ForkJoinCompositionProfile"          // only in version 5; not simulated
	Merge              = "ParallelTaskMergeCompositionProfile" // only in version 5; not simulated
	spreadUniformly    = "DefinedAmountsSpreadUniformly"
	usedForEach        = "DefinedAmountsUsedForEachValue"
	generationStrategy = "generation_strategy"
)

// oldNames are the names of versions before 3 and of version 5, by which types are known too.
var oldNames = map[string]string{
	"msg_par": Parallel, "msg_par_hg": Homogeneous, "msg_par_hg_tot": HomogeneousTotal, "msg_par_hg_pfs": HomogeneousPFS,
	"DelayProfile": Delay, "ParallelTaskProfile": Parallel, "ParallelTaskHomogeneousProfile": Homogeneous,
	"SequentialCompositionProfile":                  Composed,
	"ParallelTaskOnStorageHomogeneousProfile":       HomogeneousPFS,
	"ParallelTaskDataStagingBetweenStoragesProfile": DataStaging,
	"TraceReplayProfile":                            SMPI,
}

// version5 are the names of version 5, by those of version 3.
var version5 = map[string]string{
	Delay: "DelayProfile", Parallel: "ParallelTaskProfile", Homogeneous: "ParallelTaskHomogeneousProfile",
	HomogeneousTotal: "ParallelTaskHomogeneousProfile", Composed: "SequentialCompositionProfile",
}

// Profile is what is in a job.
type Profile struct {
	Type     string    // one of the constants, or whatever a file had
	Seconds  float64   // of Delay
	CPU      []float64 // operations; one number but for Parallel
	Com      []float64 // bytes between cores; one number, for Parallel a matrix by rows. Nothing here simulates a network
	Sequence []string  // of Composed: names of profiles
	Repeat   int       // of Composed; 0 is once
	Return   int       // the code with which it ends; 0 is success

	// What HDeepRM adds; 0 unknown.
	RequestTime float64 // s that the user asks for (req_time)
	RequestOps  float64 // operations of each core that the user asks for (req_ops)
	Memory      float64 // MB of each core (mem)
	Bandwidth   float64 // GB/s of each core (mem_bw)

	// Extra are all other fields, as they are.
	Extra map[string]json.RawMessage
}

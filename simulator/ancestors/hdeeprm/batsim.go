package hdeeprm

// BatsimWorkload, WriteJobs and WriteSchedule read and write the files of Batsim (Dutot, Mercier, Poquet and Richard, JSSPP 2016;
// github.com/oar-team/batsim): workloads in the vocabularies of versions 3 and 5, the output tables of jobs and
// schedule, and the interval sets in them. It neither simulates nor implements Batsim's protocol (package
// simulator/batsim does); platforms are in simulator/platform.
//
//	w, err := hdeeprm.LoadWorkload("workload.json")
//	c, err := w.Convert(hdeeprm.SpeedOptions{Reference: tree.Reference})
//	// simulate c.Jobs; report c.Dropped
//	err = hdeeprm.WriteJobs(file, result, c.Profile)

import "encoding/json"

// BatsimWorkload is the load of a machine: jobs, and the profiles that define their work.
type BatsimWorkload struct {
	Resources int // cores for which it was made (nb_res), informative only; 0 if unknown
	Jobs      []BatsimJob
	Profiles  map[string]batsimProfile
}

// BatsimJob is a request of a user.
type BatsimJob struct {
	ID        string  // unique
	Submit    float64 // s
	Resources int     // cores, at least 1
	Profile   string  // name of one of the workload's profiles
	Walltime  float64 // s after which it is killed; 0: never
	// Extra contains all other fields unchanged.
	Extra map[string]json.RawMessage
}

// The types of profiles, by their names in version 3.
const (
	delay              = "delay"                               // Seconds elapse, on any machine
	parallel           = "parallel"                            // CPU contains the operations of each core
	homogeneous        = "parallel_homogeneous"                // CPU contains the operations per core
	homogeneousTotal   = "parallel_homogeneous_total"          // CPU contains the operations of all cores together
	composed           = "composed"                            // Sequence is run in order, Repeat times
	homogeneousPFS     = "parallel_homogeneous_pfs"            // file system I/O; not simulated
	dataStaging        = "data_staging"                        // data transfer between file systems; not simulated
	smpi               = "smpi"                                // replay of a trace; not simulated
	send               = "send"                                // message to the scheduler; not simulated
	receive            = "recv"                                // wait for a message; not simulated
	forkJoin           = "ForkJoinCompositionProfile"          // version 5 only; not simulated
	merge              = "ParallelTaskMergeCompositionProfile" // version 5 only; not simulated
	spreadUniformly    = "DefinedAmountsSpreadUniformly"
	usedForEach        = "DefinedAmountsUsedForEachValue"
	generationStrategy = "generation_strategy"
)

// oldNames maps the names of versions before 3 and of version 5 to types.
var oldNames = map[string]string{
	"msg_par": parallel, "msg_par_hg": homogeneous, "msg_par_hg_tot": homogeneousTotal, "msg_par_hg_pfs": homogeneousPFS,
	"DelayProfile": delay, "ParallelTaskProfile": parallel, "ParallelTaskHomogeneousProfile": homogeneous,
	"SequentialCompositionProfile":                  composed,
	"ParallelTaskOnStorageHomogeneousProfile":       homogeneousPFS,
	"ParallelTaskDataStagingBetweenStoragesProfile": dataStaging,
	"TraceReplayProfile":                            smpi,
}

// version5 maps types to the names of version 5.
var version5 = map[string]string{
	delay: "DelayProfile", parallel: "ParallelTaskProfile", homogeneous: "ParallelTaskHomogeneousProfile",
	homogeneousTotal: "ParallelTaskHomogeneousProfile", composed: "SequentialCompositionProfile",
}

// batsimProfile defines the work of a job.
type batsimProfile struct {
	Type     string    // one of the constants, or any other name in a file
	Seconds  float64   // of Delay
	CPU      []float64 // operations; one number, except for Parallel
	Com      []float64 // bytes between cores; one number, for Parallel a matrix by rows; networks are not simulated
	Sequence []string  // of Composed: names of profiles
	Repeat   int       // of Composed; 0 means once
	Return   int       // exit code; 0 is success

	// Fields added by HDeepRM; 0 if unknown.
	RequestTime float64 // requested s (req_time)
	RequestOps  float64 // requested operations per core (req_ops)
	Memory      float64 // MB per core (mem)
	Bandwidth   float64 // GB/s per core (mem_bw)

	// Extra contains all other fields unchanged.
	Extra map[string]json.RawMessage
}

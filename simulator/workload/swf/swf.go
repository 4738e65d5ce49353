// Package swf reads and writes the Standard Workload Format, version 2.2 (Chapin et al., JSSPP 1999; Feitelson,
// Tsafrir, Krakov, JPDC 74(10), 2014), the format of the Parallel Workloads Archive for logs of batch machines: one
// job per line, 18 numbers, −1 for unknown values, comments and a header after ";".
//
//	trace, err := swf.Load("KTH-SP2-1996-2.1-cln.swf.gz", swf.Options{})
//	// trace.Jobs to simulate, trace.Procs of the machine, trace.Dropped: number of omitted jobs by reason
//
// Reader returns the lines unchanged; Clean selects the jobs that an experiment can use and counts every other one.
// The package is independent of scheduling.
package swf

// Record is one line of a trace: its 18 fields, indexed as in r[swf.Submit]. −1 is unknown.
type Record [fields]float64

// The fields of a Record; times in s.
const (
	Number          = iota // of the job, from 1
	Submit                 // since the log began
	waitTime               // until the start; logs only
	Run                    // 0 means less than 0.5
	allocated              // processors allocated
	cpuTime                // mean CPU time per processor
	Memory                 // used, KB per processor
	Requested              // processors requested
	RequestedTime          // requested run time (or CPU time, according to the header)
	RequestedMemory        // KB per processor
	status                 // 1 completed, 0 failed, 5 cancelled; 2, 3, 4 part of a job: to be continued, its last, its last that failed
	User
	Group
	Executable
	queue // 0 is interactive by convention
	partition
	preceding // number of the job that must complete first
	thinkTime // from the end of that job to this submission
	fields
)

// unknown returns a record with −1 in every field.
func unknown() Record {
	var r Record
	for i := range r {
		r[i] = -1
	}
	return r
}

// Processors returns the larger of the requested and allocated processors, −1 if both are unknown.
func (r *Record) Processors() float64 { return max(r[Requested], r[allocated]) }

// maxProcs and maxSeconds are upper bounds of all machines and logs.
const (
	maxProcs   = 1 << 30
	maxSeconds = 1e12
)

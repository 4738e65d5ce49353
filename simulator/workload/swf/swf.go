// Package swf reads and writes the Standard Workload Format, version 2.2 (Chapin et al., JSSPP 1999; Feitelson, Tsafrir, Krakov,
// JPDC 74(10), 2014), in which the Parallel Workloads Archive has its logs of batch machines: one job a line, 18 numbers, −1 for
// what is unknown, comments and a header after ";".
//
//	trace, err := swf.Load("KTH-SP2-1996-2.1-cln.swf.gz", swf.Options{})
//	// trace.Jobs to simulate, trace.Procs of the machine, trace.Dropped: why and how many were left out
//
// Reader gives the lines as they are, Clean decides which of them an experiment can use and counts every one that it cannot. The
// package knows nothing of scheduling.
package swf

// Record is one line of a trace: its 18 fields, to be read as r[swf.Submit]. −1 is unknown.
type Record [Fields]float64

// The fields of a Record; times in s.
const (
	Number          = iota // of the job, from 1
	Submit                 // since the log began
	Wait                   // until it started; logs only
	Run                    // 0 is less than 0.5
	Allocated              // processors that it had
	CPU                    // mean CPU time of a processor
	Memory                 // that it used, KB per processor
	Requested              // processors asked for
	RequestedTime          // run time (or CPU time, as the header says) asked for
	RequestedMemory        // KB per processor
	Status                 // 1 completed, 0 failed, 5 cancelled; 2, 3, 4 part of a job: to be continued, its last, its last that failed
	User
	Group
	Executable
	Queue // 0 is interactive by convention
	Partition
	Preceding // number of the job that it waits for
	Think     // from the end of that one to this submission
	Fields
)

// Unknown is a record of which nothing is known: −1 in every field.
func Unknown() Record {
	var r Record
	for i := range r {
		r[i] = -1
	}
	return r
}

// Processors is the larger of the processors that the job asked for and had, −1 when neither is known.
func (r *Record) Processors() float64 { return max(r[Requested], r[Allocated]) }

// maxProcs and maxSeconds are beyond every machine and log.
const (
	maxProcs   = 1 << 30
	maxSeconds = 1e12
)

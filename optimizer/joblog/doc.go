// Package joblog finds the training log of a running job, decides whether it is the job's own, and reads it.
//
// The sources of progress, the first that yields rows wins:
//
//  1. the log that the user named
//  2. the file of $OPTIMIZER_LOG
//  3. the observer inside the training (Options.Observer)
//  4. a discovered file that the job was seen to write
//  5. progress lines on standard output and standard error
//
// A discovered file counts only with evidence that a process of the job writes it and that no other process does; Evidence
// ranks what was seen. A file below a state directory is never a log. Evidence.Discovered tells whether a decision that
// ends a job may rest on the log.
//
//	r := joblog.Open(joblog.Options{Dir: dir, Stdout: "job.stdout", Stderr: "job.stderr"}, start)
//	defer r.Close()
//	r.Attach(job)
//	for range ticker.C {
//		rows, err := r.Poll(time.Now())
//		fmt.Println(r.Source()) // log: /data/log.csv (csv, opened for writing by the job)
//		…
//	}
//
// The package is not safe for use by several goroutines at once.
package joblog

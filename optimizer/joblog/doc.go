// Package joblog finds the training log of a running job, decides whether it is the job's own, and reads it.
//
// Sources of progress, in order of precedence; the first one that yields rows is used:
//
//  1. the log that the user named
//  2. the file of $OPTIMIZER_LOG
//  3. the observer inside the training (Options.Observer)
//  4. a discovered file that the job was observed to write
//  5. progress lines on standard output and standard error
//
// A discovered file is used only with evidence that a process of the job writes it and that no other process does;
// Evidence ranks that evidence. A file below a state directory is never a log. Evidence.Discovered reports whether a
// decision that ends a job must not be based on the log.
//
//	r, err := joblog.Open(joblog.Options{Dir: dir, Stdout: "job.stdout", Stderr: "job.stderr"}, start)
//	defer r.Close()
//	r.Attach(job)
//	for range ticker.C {
//		rows, err := r.Poll(time.Now())
//		fmt.Println(r.Source()) // log: /data/log.csv (csv, opened for writing by the job)
//		…
//	}
//
// A Reader is not safe for concurrent use.
package joblog

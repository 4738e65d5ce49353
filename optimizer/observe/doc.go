// Package observe observes a training from outside and, in Python, from inside: its events, its log, its checkpoints.
//
// [Install] adds a module to an unmodified Python script by PYTHONPATH, as ddtrace-run and coverage do. The module hooks
// frameworks when the script imports them, and appends JSON lines to one file per process; a [Reader] follows these files.
// A request (save, stop, thread count) is passed to the process in a file, and answered by a line; docs/observer.md
// specifies the files.
//
//	in, err := observe.Install(filepath.Join(stateDir, "observer"), filepath.Join(runDir, "reports"))
//	cmd.Env = in.Environ(os.Environ())
//	reader := observe.NewReader(in.Reports)
//	for range ticker.C {
//		progress, err := reader.Poll(time.Now())
//		facts := reader.Facts()
//		…
//	}
//
// A [LogReader] finds the training log of a running job, decides whether it is the job's own, and reads it. Sources of
// progress, in order of precedence; the first one that yields rows is used:
//
//  1. the log that the user named
//  2. the file of $OPTIMIZER_LOG
//  3. the observer inside the training (LogOptions.Observer)
//  4. a discovered file that the job was observed to write
//  5. progress lines on standard output and standard error
//
// A discovered file is used only with evidence that a process of the job writes it and that no other process does;
// Evidence ranks that evidence. A file below a state directory is never a log. Evidence.Discovered reports whether a
// decision that ends a job must not be based on the log.
//
//	r, err := observe.OpenLog(observe.LogOptions{Dir: dir, Stdout: "job.stdout", Stderr: "job.stderr"}, start)
//	defer r.Close()
//	r.Attach(job, pid)
//	for range ticker.C {
//		rows, err := r.Poll(time.Now())
//		fmt.Println(r.Source()) // log: /data/log.csv (csv, opened for writing by the job)
//		…
//	}
//
// A [CheckpointFinder] recognises the checkpoints that a training writes: by their names, and by the changes since the
// training started. It does not load them, and reads only the beginning of a trainer_state.json. A name is strong or weak
// evidence. A file with a strong name (checkpoint-500, last.ckpt, model_epoch_3.pt) counts if it was written after the
// start. A file with a weak name (any other .pt, .bin or .json) may be data, and counts only if it was reported (by the
// observer of the save) or was rewritten while the training ran.
//
//	f := observe.NewCheckpointFinder(observe.CheckpointOptions{Roots: []string{dir}, Ignore: []string{stateDir}})
//	f.Start(time.Now())                   // existing files are not the job's
//	files := f.Find(time.Now())           // oldest first, the newest complete one last
//
// The package starts no process and makes no decisions. Its readers are not safe for concurrent use.
package observe

// Package observe reports what happens inside an unmodified Python training.
//
// It puts a module before the script by PYTHONPATH, as ddtrace-run and coverage do. The module hooks frameworks when the
// script imports them and appends lines of JSON to one file for each process; a Reader follows those files. Requests
// (save, stop, thread count) go to the process by a file and are answered by a line. The package starts no process and
// decides nothing; docs/observer.md describes the files.
//
//	in, err := observe.Install(filepath.Join(stateDir, "observer"), filepath.Join(runDir, "reports"))
//	cmd.Env = in.Environ(os.Environ())
//	reader := observe.NewReader(in.Reports)
//	for range ticker.C {
//		progress, err := reader.Poll(time.Now())
//		facts := reader.Facts()
//		…
//	}
package observe

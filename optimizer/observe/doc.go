// Package observe reports events inside an unmodified Python training.
//
// It adds a module to the script by PYTHONPATH, as ddtrace-run and coverage do. The module hooks frameworks when the
// script imports them, and appends JSON lines to one file per process; a Reader follows these files. A request (save,
// stop, thread count) is passed to the process in a file, and answered by a line. The package starts no process and
// makes no decisions; docs/observer.md specifies the files.
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

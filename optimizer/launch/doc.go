// Package launch starts a training job as a supervised process tree, finds it again after the agent has died, and
// reports exactly how it ended.
//
// A keeper runs between the agent and the job: a small process of the same binary, leader of its own session, that
// outlives the agent. It is the parent of the job and the subreaper of every process that the job starts; it copies
// the job's output into rotated files, stops the job when the dead-man's switch expires, kills the processes that
// outlive the job, and records the exit. Its own parent, the standby, sleeps; if the keeper is killed, the standby
// replaces it with the job's pipes unbroken. The exit of a job goes unrecorded only if both are killed; its reason is
// then Lost. The agent and the keeper communicate through files in the run directory:
//
//	keeper.json   agent  → people   the command; never the environment, which may hold keys
//	control.json  agent  → keeper   the requested state: stop, checkpoint, time limit
//	enforce.json  agent  → both     how the allocation is enforced
//	started.json  keeper → agent    process ids with their start times
//	exit.json     keeper → agent    the exit record
//	keeper.lock   held while the keeper or the standby lives
//	keeper.log    errors of the keeper itself
//
// The job is the leader of its own session and process group, and receives exactly the environment and the standard
// input of the Command, /dev/null without one.
//
// The keeper survives whatever kills the agent alone, but not what kills the agent's whole cgroup: a stop by the
// service manager, the end of a container or of a batch job. The job then dies too, or Adopt finds the remaining
// processes.
//
// A Job of any engine can be stopped, observed and asked to save. What only a process tree of this machine can do is in
// Resizer and ProcessTree: the agent uses them where a Job implements them, and does without them otherwise.
//
// The keeper's decisions are in watch.go, a state machine without clock or processes; exit.go derives the reason and
// description of an exit. The package makes no decision about allocations and starts no shell. It requires Linux.
//
//	launcher := launch.Local{Self: []string{exe, "__keeper"}} // main: launch.KeeperMain(args after it)
//	job, err := launcher.Start(ctx, launch.Command{Args: []string{"python3", "train.py"}, Dir: dir,
//		Env: os.Environ(), RunDir: run, Allocation: a, Limits: l})
//	<-job.Done()
//	fmt.Println(job.Exit().Reason, job.Exit().Detail)
package launch

// Package launch starts a training job as a process tree under control, finds it again after the
// agent's death, and says exactly how it ended.
//
// Between the agent and the job stands a keeper: a small process of the same binary, leader of its
// own session, that outlives the agent. It is the job's parent and the subreaper of all that the job
// starts; it moves the job's output into rotated files, stops the job when the dead-man's switch runs
// out, clears away what the job leaves behind, and puts the end on record. Its own parent, the
// standby, sleeps; should the keeper be killed, the standby takes its place with the job's pipes
// unbroken. Only when both are killed is the end of a job not recorded; it is then Lost. The agent
// talks to the keeper through files in the run directory:
//
//	keeper.json   agent  → people   what was started; never the environment, which may hold keys
//	control.json  agent  → keeper   what is wanted: stop, checkpoint, time limit
//	enforce.json  agent  → both     how the allocation is enforced
//	started.json  keeper → agent    process ids with their start times
//	exit.json     keeper → agent    how it ended
//	keeper.lock   held as long as keeper or standby live
//	keeper.log    what the keeper says when it fails itself
//
// The job itself is the leader of a session and a process group of its own, has /dev/null as stdin,
// and gets the environment of the Command and nothing else.
//
// The keeper survives what kills the agent, but not what kills the agent's whole cgroup: a service
// manager's stop, the end of a container or of a batch job. The job is then gone too, or found by
// Leftovers.
//
// What happens when is decided in watch.go, a step machine without clock or processes; how an end is
// named is decided in exit.go. The package decides nothing about allocations, and it starts no shell.
// It needs Linux.
//
//	launcher := launch.Local{Self: []string{exe, "__keeper"}} // main: launch.KeeperMain(args after it)
//	job, err := launcher.Start(ctx, launch.Command{Args: []string{"python3", "train.py"}, Dir: dir,
//		Env: os.Environ(), RunDir: run, Allocation: a, Limits: l})
//	<-job.Done()
//	fmt.Println(job.Exit().Reason, job.Exit().Detail)
package launch

// Package cluster is the live scheduler of many trainings: it gives them leases of the devices of one machine, or of an
// engine such as Slurm, by the policies of package share and the engine of package schedule, exactly as the simulator
// in simulator/cluster does. Only the clock and the source of the rates differ.
//
//	scheduler.go, decide.go    the state machine: who holds which devices, when a job is started, stopped or moved
//	rates.go, prior.go         the rates that policies see, learned while jobs run
//	state.go                   its state on disk
//	server.go, requests.go, life.go    the shell: events, files and agents
//	up.go                      nodes that are down, and up again
//	forecast.go, shrink.go     simulations of what is to come: starts of waiting jobs, and the return of unused devices
//	local.go, nodes.go         where jobs run: this machine, or the nodes of an engine
//	store.go, job.go           the files of a cluster
//	event.go                   the log of all events, from which a day can be replayed
//
// Each job is a run of its own (package run), with an agent in this process: it finds progress and checkpoints, enforces
// deadline and budget, saves before the devices are taken back, and resumes on the next ones. The package decides only
// which devices a run has, and for how long.
//
//	site, err := cluster.NewLocal(host, 4, nil)
//	err = cluster.Serve(cluster.Config{StateDir: dir, Site: site, Policy: "srtf", Agent: agent, Message: print}, signals)
package cluster

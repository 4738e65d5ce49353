package cluster

import "path/filepath"

// Files below <state directory>/cluster:
//
//	events.jsonl        the log of all events
//	server.json         the running server, or the last one
//	state.json          leases and policy of the server
//	lock                held by the running server
//	spool/              requests that the server has not yet taken
//	jobs/7/spec.json    a job as submitted
//	jobs/7/job.json     its present state
//	jobs/7/lease.json   its lease
//	jobs/7/agent.log    messages of its agent
const clusterDir = "cluster"

func dirOf(stateDir string, parts ...string) string {
	return filepath.Join(append([]string{stateDir, clusterDir}, parts...)...)
}

func eventsPath(stateDir string) string { return dirOf(stateDir, "events.jsonl") }

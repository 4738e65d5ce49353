// Package batsim reads and writes Batsim's files: workloads (JSON, profile names of versions 3 and 5), platforms (SimGrid XML,
// written), and the tables of jobs and of the schedule.
package batsim

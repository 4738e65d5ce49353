// Package faults tests runs on Slurm while its daemons, the agent and the supervisors of the stretches are killed. It
// contains tests only. They use a cluster of their own, since they kill its daemons: that of internal/lab in
// $TRAINOPT_LAB-faults, or in .lab-faults of the repository if that is 1.
package faults

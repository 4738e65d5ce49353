// Package swf reads and writes the Standard Workload Format, version 2.2 (Chapin et al. 1999; Feitelson's Parallel Workloads
// Archive).
package swf

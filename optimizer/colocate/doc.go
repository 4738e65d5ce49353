// Package colocate measures how programs disturb each other when they share a node, for package place.
//
// An app is a command, optionally with a load generator, whose completed operations can be counted; a pattern is a number
// of containers of each app. Throughputs are relative to that of one container alone. Both are measured as duets: windows
// with one container alone and windows with the whole pattern alternate, so that a disturbance from outside affects both.
// The quotient is computed from three measures:
//
//   - rps, operations per second without foreign programs: operations per CPU-second times the CPUs that a fair scheduler
//     would grant if the time that others took were returned to programs that waited for it. It predicts the throughput
//     on a node of the programs' own, and equals wall if there were no others.
//   - cpu, operations per CPU-second: cache and memory interference, without time sharing.
//   - wall, operations per second as observed.
//
// A Spec describes the apps, a Profile selects patterns, repeats their measurement until the interval is narrow, and
// keeps Rows; local measures on CPUs of this machine, Remote in jobs of an engine. It places nothing, and does not measure
// energy or latency.
//
//	p := colocate.Profile{Apps: spec.Names(), Capacity: 3, Share: 0.4, Now: clock.Monotonic, Measure: local}
//	err := p.Run(ctx)
//	err = colocate.WriteRows(w, p.Apps, p.Rows()) // a table that place.ReadSamples reads
package colocate

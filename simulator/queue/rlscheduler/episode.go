// Package rlscheduler runs jobs exactly as the simulator of RLScheduler does (Zhang, Dai, He, Bao, Xie, SC 2020), and has its
// published table.
package rlscheduler

import "trainopt/simulator/queue"

// Episode is one sequence of jobs, decided on one start at a time: which of those that wait is next. When the one that is named
// does not fit, time passes until it does, and with Backfill shorter ones may go before it; what is named first stays first.
type Episode struct{}

// NewEpisode starts an episode over jobs, ordered by submission, on a machine of so many processors. The clock is at the first
// submission, and its job waits.
func NewEpisode(jobs []queue.Job, procs int, backfill bool) *Episode { return nil }

// Waiting are the jobs (indices) that may be named, in the order of submission; none at the end. Valid until the next Start.
func (e *Episode) Waiting() []int { return nil }

// Free is the number of processors that run nothing, Now the time in s.
func (e *Episode) Free() int    { return 0 }
func (e *Episode) Now() float64 { return 0 }

// Start names the next job, an element of Waiting; time passes until it has started and another waits, or all have started.
func (e *Episode) Start(job int) {}

// Starts are the times at which the jobs started, s; NaN for those that did not.
func (e *Episode) Starts() []float64 { return nil }

// Clone is an independent copy that can be played on.
func (e *Episode) Clone() *Episode { return nil }

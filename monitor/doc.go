// Package monitor samples the machine, the process tree of a training job and its GPUs, and writes the metric tables of
// a run directory. It makes no decisions, handles no prices or SLAs, and starts and stops no processes. The rows of the
// job's own log come from package trainlog below it.
//
// An unknown number is NaN, never 0; a collector without data returns ErrNoData.
//
// To sample once a second without being blocked by a hanging driver:
//
//	s := monitor.Sampler{Collectors: []monitor.Collector{&monitor.Host{}, &monitor.Tree{PIDs: job.PIDs}, monitor.OpenNVML()}}
//	sample, errs := s.Sample(ctx, time.Now())
package monitor

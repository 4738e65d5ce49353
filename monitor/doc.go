// Package monitor collects the measurements of a training job: the rows of its log, written by any supported
// framework, and samples of the machine, of the job's process tree and of its GPUs. It also writes the metric tables
// of a run directory. It makes no decisions, handles no prices or SLAs, and starts and stops no processes.
//
// An unknown number is NaN, never 0; a collector without data returns ErrNoData.
//
// To follow a log, which need not exist yet:
//
//	t, err := monitor.Open("log.csv", monitor.TailOptions{Resume: saved})
//	for range ticker.C {
//		rows, err := t.Poll(time.Now()) // only new, complete rows
//		…
//		saved := t.State() // lets a restarted agent continue without counting rows twice
//	}
//
// To read a finished log of any format and size, row by row:
//
//	stats, err := monitor.Scan("lightning_logs/version_0", monitor.TailOptions{}, func(r *monitor.Row) error {
//		loss, known := r.Value(monitor.TrainLoss)
//		…
//	})
//
// To sample once a second without being blocked by a hanging driver:
//
//	s := monitor.Sampler{Collectors: []monitor.Collector{&monitor.Host{}, &monitor.Tree{PIDs: job.PIDs}, monitor.OpenNVML()}}
//	sample, errs := s.Sample(ctx, time.Now())
package monitor

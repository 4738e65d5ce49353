// Package monitor reads what a training job says and does: the rows of its log (whatever framework wrote it), and
// samples of the machine, of the job's process tree and of its GPUs. It also writes the metric tables of a run
// directory. It knows nothing of decisions, money or agreements, starts nothing and kills nothing.
//
// A number that is not known is NaN, never 0; a collector with nothing to say returns ErrNoData.
//
// Following a log, which need not exist yet:
//
//	t, err := monitor.Open("log.csv", monitor.TailOptions{Resume: saved})
//	for range ticker.C {
//		rows, err := t.Poll(time.Now()) // only new, complete rows
//		…
//		saved := t.State() // so that a restarted agent goes on without counting twice
//	}
//
// Reading one that is finished, of any framework and any size, row by row:
//
//	stats, err := monitor.Scan("lightning_logs/version_0", monitor.TailOptions{}, func(r *monitor.Row) error {
//		loss, known := r.Value(monitor.TrainLoss)
//		…
//	})
//
// Sampling once a second, where a hanging driver cannot stop the loop:
//
//	s := monitor.Sampler{Collectors: []monitor.Collector{&monitor.Host{}, &monitor.Tree{PIDs: job.PIDs}, monitor.OpenNVML()}}
//	sample, errs := s.Sample(ctx, time.Now())
package monitor

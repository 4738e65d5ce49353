package engine

// Predict estimates when a job that has not been submitted would start in a batch queue.
//
// Predict simulates the queue from its present state many times (Monte Carlo). Each draw gives every running and
// waiting job a run length from the history of its user, adds jobs that arrive later, and schedules all of them as the
// batch system does: by priority, with backfilling that plans with the limits of the jobs, while jobs end after their
// drawn lengths. The distribution of the job's start over the draws is the prediction.
//
//	p, err := engine.Predict(queue, engine.Job{User: "ann", Place: engine.Place{GPUs: 2}, Limit: 4 * time.Hour}, history, engine.Options{})
//	fmt.Println(p) // starts 14:10 (13:50–15:30): 3 jobs ahead
//
// The package is pure: it reads no clock and runs no command. Package slurm reads a Queue and a History from Slurm.
//
// Not modelled: preemption, reservations and maintenance windows of the site, licences, priorities that change while
// jobs wait, cancellation of waiting jobs, and the variation of the arrival rate over the day.

// Package tracker hands runs over to other systems: to a file store or a server of MLflow, to event files of TensorBoard,
// and as metrics to Prometheus, while they run and for ten minutes after their end. It reads what agents and scheduler
// write and measures nothing. What is unknown is not written and has no series; it is never 0.
//
//	r, err := tracker.Load(dir)
//	where, err := tracker.MLflowStore("mlruns", "optimize", r)
//
//	http.Handle("GET /metrics", tracker.MetricsHandler(tracker.NewMetrics(stateDir, time.Now)))
package tracker

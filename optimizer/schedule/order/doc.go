// Package order decides which jobs of a batch queue start next on a pool of identical processors: a priority order ranks the waiting
// jobs, and EASY or conservative backfilling lets later ones overtake.
//
//	s, err := order.New(256, order.Orders["fcfs"], "easy")
//	id, ok := s.Submit(now, &order.Job{Procs: 64, Request: 3600})
//	for _, id := range s.Decide(now) {
//		launch(id)
//	}
//	s.End(now, id)
//
// The scheduler is a pure state machine: time enters with each call, and nothing in it reads a clock, starts a goroutine or performs
// I/O. Simulations (package simulator/queue) and live peers (package simulator/batsim) drive the same code.
//
// Times are seconds. The same calls return the same decisions.
package order

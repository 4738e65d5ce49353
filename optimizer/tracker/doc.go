// Package tracker hands runs over to experiment trackers: to a file store or a server of MLflow, and to event files of
// TensorBoard. It reads run directories only. What a run has not measured is not written.
//
//	r, err := tracker.Load(dir)
//	where, err := tracker.MLflowStore("mlruns", "optimize", r)
package tracker

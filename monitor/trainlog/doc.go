// Package trainlog reads the logs of trainings: it detects the format of a log by its content, decodes its rows, and
// follows a log that is still being written. It reads canonical CSV, the logs of Keras, Lightning, Ultralytics and
// Hugging Face, JSON lines, event files of TensorBoard, runs of W&B and MLflow, the reports of the observer, and progress on
// standard output. Except for single event records it writes
// nothing and does not decide which log belongs to a job.
//
// To follow a log, which need not exist yet:
//
//	t, err := trainlog.Open("log.csv", trainlog.TailOptions{Resume: saved})
//	for range ticker.C {
//		rows, err := t.Poll(time.Now()) // only new, complete rows
//		…
//		saved := t.State() // lets a restarted agent continue without counting rows twice
//	}
//
// To read a finished log of any format and size, row by row:
//
//	stats, err := trainlog.Scan("lightning_logs/version_0", trainlog.TailOptions{}, func(r *trainlog.Row) error {
//		loss, known := r.Value(trainlog.TrainLoss)
//		…
//	})
//
// An absent number is NaN, never 0. A damaged line is counted and skipped; it does not end the reading.
//
// A format is one file and one line of the registry in format.go. Bytes become rows in three steps, each in its own
// file: the splitter makes lines (lines.go), a parser makes rows (format_*.go), and ingest drops the rows that were
// returned before (ingest.go, repeat.go).
package trainlog

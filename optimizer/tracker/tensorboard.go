package tracker

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"trainopt/internal/regular"
	"trainopt/monitor/trainlog"
)

// TensorBoard writes the values of a run as an event file in a directory of the run's name below dir, and returns that
// directory. A file that was written before is replaced.
func TensorBoard(dir string, r *Run) (string, error) {
	home := filepath.Join(dir, r.Record.RunID)
	err := os.MkdirAll(home, 0o755)
	if err == nil {
		name := fmt.Sprintf("events.out.tfevents.%d.optimize", r.Record.StartedAt.Unix())
		err = regular.Replace(filepath.Join(home, name), 0o644, func(w io.Writer) error { return writeEvents(w, r) })
	}
	if err != nil {
		return "", fmt.Errorf("export run %s to %s: %w", r.Record.RunID, dir, err)
	}
	return home, nil
}

// writeEvents writes one event for the values of each step and time.
func writeEvents(w io.Writer, r *Run) error {
	out := bufio.NewWriter(w)
	wall := func(p point) float64 { return float64(p.At.UnixNano()) / 1e9 }
	if _, err := out.Write(trainlog.AppendEvent(nil, float64(r.Record.StartedAt.UnixNano())/1e9, 0, nil)); err != nil {
		return err
	}
	var record []byte
	for i := 0; i < len(r.Points); {
		first, values := r.Points[i], map[string]float64{}
		for ; i < len(r.Points) && r.Points[i].Step == first.Step && r.Points[i].At.Equal(first.At); i++ {
			values[r.Points[i].Name] = r.Points[i].Value
		}
		record = trainlog.AppendEvent(record[:0], wall(first), first.Step, values)
		if _, err := out.Write(record); err != nil {
			return err
		}
	}
	return out.Flush()
}

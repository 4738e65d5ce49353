package monitor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// directoryLogs are the names of the logs that frameworks store in a run directory, with their formats. A directory
// may contain several; they are in descending order of information.
var directoryLogs = []struct{ name, format string }{
	{"trainer_state.json", "huggingface"},
	{"results.csv", "ultralytics"},
	{"metrics.csv", "lightning"},
}

// logIn returns the log of a run directory: a file, or the directory itself if it contains event files. A format that
// is not empty restricts the search to logs of that format.
func logIn(dir, format string) (string, error) {
	for _, l := range directoryLogs {
		if format != "" && format != l.format {
			continue
		}
		for _, name := range []string{l.name, l.name + ".gz"} {
			if path := filepath.Join(dir, name); isFile(path) {
				return path, nil
			}
		}
		if l.format == "huggingface" {
			if path := lastCheckpoint(dir, l.name); path != "" {
				return path, nil
			}
		}
	}
	if format == "" || format == "tensorboard" {
		runs, err := eventStreams(dir)
		if err != nil {
			return "", err
		}
		if len(runs) > 0 {
			return dir, nil
		}
	}
	return "", fmt.Errorf("it is a directory with neither trainer_state.json, results.csv, metrics.csv nor event files of TensorBoard%s: %w",
		ofFormat(format), ErrNoData)
}

func ofFormat(format string) string {
	if format == "" {
		return ""
	}
	return " of format " + format
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// lastCheckpoint returns the path of the file in the checkpoint-N directory with the greatest N; empty if none
// exists.
func lastCheckpoint(dir, name string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	best, last := "", -1
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "checkpoint-")
		if n, err := strconv.Atoi(number); ok && err == nil && n > last {
			if path := filepath.Join(dir, e.Name(), name); isFile(path) {
				best, last = path, n
			}
		}
	}
	return best
}

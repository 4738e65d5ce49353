package trainlog

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
	if path := wandbFile(dir); path != "" && (format == "" || format == "wandb") {
		return path, nil
	}
	if (format == "" || format == "mlflow") && isMLflowRun(dir) {
		return dir, nil
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
	return "", fmt.Errorf("it is a directory with neither trainer_state.json, results.csv, metrics.csv, event files of TensorBoard nor a run of W&B or MLflow%s: %w",
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

// lastCheckpoint returns the path of the file in the checkpoint-N directory with the greatest N; empty if none exists.
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

// eventStream is one directory of a run with its event files in order of creation.
type eventStream struct {
	split split
	files []string
}

// eventStreams returns the event files of a run: the file itself, or those of a directory and of its subdirectories
// named after a part of the data (train, validation, Loss_train). A directory that contains a single run is
// equivalent to that run; several runs are an error that lists them. Without event files the result is empty.
func eventStreams(path string) ([]eventStream, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, pathless(err)
	}
	if !info.IsDir() {
		return []eventStream{{split: splitWords[strings.ToLower(filepath.Base(filepath.Dir(path)))], files: []string{path}}}, nil
	}
	return onlyRun(path, 0)
}

// maxRunDepth bounds the depth of the search for a run: lightning_logs/version_0 is 2.
const maxRunDepth = 4

// onlyRun returns the streams of the only run in a directory, searched recursively; an error if there are several.
func onlyRun(dir string, depth int) ([]eventStream, error) {
	streams, below, err := runStreams(dir)
	if err != nil || len(streams) > 0 || depth == maxRunDepth {
		return streams, err
	}
	var names []string
	for _, sub := range below {
		found, err := onlyRun(sub, depth+1)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			streams, names = found, append(names, filepath.Base(sub))
		}
	}
	if len(names) > 1 {
		return nil, fmt.Errorf("%s holds the event files of %d runs (%s): name one", filepath.Base(dir), len(names), clip([]byte(strings.Join(names, ", "))))
	}
	return streams, nil
}

// maxStreams bounds the number of directories read together, each with an open file.
const maxStreams = 64

// runStreams returns the streams of the run in a directory, and the subdirectories that may contain other runs. With
// event files of its own, the directory also includes subdirectories such as Loss_train.
func runStreams(dir string) (streams []eventStream, below []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, pathless(err)
	}
	if files := eventFiles(dir, entries); len(files) > 0 {
		streams = append(streams, eventStream{split: splitWords[strings.ToLower(filepath.Base(dir))], files: files})
	}
	own := len(streams) > 0
	for _, e := range entries {
		if !e.IsDir() || hidden(e.Name()) {
			continue
		}
		sub := filepath.Join(dir, e.Name())
		below = append(below, sub)
		name := normalizeName(e.Name())
		s := splitWords[name]
		if _, said := cutSplit(name); own && s == splitUnknown {
			s = said // SummaryWriter.add_scalars: Loss_train
		}
		if s == splitUnknown {
			continue
		}
		if inside, err := os.ReadDir(sub); err == nil {
			if files := eventFiles(sub, inside); len(files) > 0 {
				streams = append(streams, eventStream{split: s, files: files})
			}
		}
	}
	if len(streams) > maxStreams {
		return nil, nil, fmt.Errorf("%s has event files in %d directories, more than %d: name one", filepath.Base(dir), len(streams), maxStreams)
	}
	return streams, below, nil
}

// eventFiles returns the event files of a directory, oldest first: their names contain the creation time.
func eventFiles(dir string, entries []os.DirEntry) (files []string) {
	for _, e := range entries {
		if strings.Contains(e.Name(), "tfevents") && isFile(filepath.Join(dir, e.Name())) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
}

// hidden reports whether a directory name excludes event files of a training.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || name == "__pycache__" || name == "node_modules" || name == "site-packages"
}

// RunsIn returns the runs in the store of an experiment tracker, sorted by path: a file store of MLflow (mlruns) or one of
// its experiments, the directory wandb. Deleted runs are left out. For any other path it returns the path itself.
func RunsIn(path string) []string {
	if info, err := os.Stat(path); err != nil || !info.IsDir() || isMLflowRun(path) || wandbFile(path) != "" {
		return []string{path}
	}
	var out []string
	for _, pattern := range []string{"*", "*/*"} {
		found, _ := filepath.Glob(filepath.Join(escapeGlob(path), pattern)) // only a bad pattern is an error
		for _, dir := range found {
			name := filepath.Base(dir)
			if strings.HasPrefix(name, ".") || name == "latest-run" { // a link to one of the others
				continue
			}
			if isMLflowRun(dir) && !isDeleted(dir) || pattern == "*" && wandbFile(dir) != "" {
				out = append(out, dir)
			}
		}
	}
	if len(out) == 0 {
		return []string{path}
	}
	return out
}

// escapeGlob makes a path match only itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// wandbFile returns the transaction log of a W&B run directory (offline-run-…, run-…); empty if it has none.
func wandbFile(dir string) string {
	found, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "run-*.wandb"))
	for _, path := range found {
		if isFile(path) {
			return path
		}
	}
	return ""
}

package trainlog

import (
	"os"
	"path/filepath"
	"strings"
)

// RunsIn returns the runs in the store of an experiment tracker, sorted by path: a file store of MLflow (mlruns) or one of
// its experiments, the directory wandb. For any other path it returns the path itself.
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
			if isMLflowRun(dir) || pattern == "*" && wandbFile(dir) != "" {
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

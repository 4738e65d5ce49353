package resources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checkSlurm checks for the commands of Slurm that jobs on it require, and whether a cluster answers them.
func checkSlurm(ctx context.Context) Finding {
	var have, lack []string
	for _, name := range []string{"sbatch", "squeue", "scancel", "sacct"} {
		if _, err := exec.LookPath(name); err == nil {
			have = append(have, name)
		} else {
			lack = append(lack, name)
		}
	}
	switch {
	case len(lack) == 0:
		answer, err := askSlurm(ctx)
		if err != nil {
			return Finding{Name: "Slurm", Status: Warn, Found: "commands installed, but no cluster answers: " + err.Error(),
				Cost: "jobs run on this machine only (--engine local)", Do: "on a machine of a cluster: check that `scontrol ping` reports UP, and SLURM_CONF"}
		}
		return passed("Slurm", "%s; %s", strings.Join(have, ", "), answer)
	case len(have) == 0:
		return Finding{Name: "Slurm", Status: Missing, Found: "no commands on PATH", Cost: "jobs run on this machine only (--engine local)"}
	}
	return Finding{Name: "Slurm", Status: Warn, Found: strings.Join(have, ", ") + "; without " + strings.Join(lack, ", "),
		Cost: "jobs cannot be followed to their end", Do: "install the whole Slurm client"}
}

// slurmTimeout bounds a question to the controller.
const slurmTimeout = 5 * time.Second

// askSlurm returns what the controllers of the cluster answer to a ping; an error if none does.
func askSlurm(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, slurmTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "scontrol", "ping")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	answer := strings.Join(strings.FieldsFunc(string(out), func(c rune) bool { return c == '\n' }), "; ")
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("no answer to `scontrol ping` within %v", slurmTimeout)
	case slices.Contains(strings.Fields(string(out)), "UP"): // of one controller of several
		return answer, nil
	case answer != "": // errors end with the cause
		return "", errors.New(strings.TrimSpace(answer[strings.LastIndexByte(answer, ';')+1:]))
	case err == nil:
		err = errors.New("`scontrol ping` prints nothing")
	}
	return "", err
}

// enclosingWithEnd returns the enclosing Slurm job, nil outside one. Versions of Slurm that do not state the end of the
// allocation in the environment are asked for it, for at most 5 seconds.
func enclosingWithEnd(ctx context.Context) *BatchJob {
	b := EnclosingJob(os.Environ())
	if b == nil || !b.End.IsZero() {
		return b
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "squeue", "--noheader", "--jobs="+b.ID, "--format=%e")
	cmd.Env = append(os.Environ(), "SLURM_TIME_FORMAT=standard")
	cmd.WaitDelay = time.Second
	if out, err := cmd.Output(); err == nil {
		b.End, _ = time.ParseInLocation("2006-01-02T15:04:05", strings.TrimSpace(string(out)), time.Local)
	}
	return b
}

// interpreterTimeout bounds the concurrent probes of all interpreters.
const interpreterTimeout = 5 * time.Second

// pythonProbe locates modules without importing them, because importing torch takes seconds.
const pythonProbe = `import os, sys
from importlib.util import find_spec
try:
    from importlib.metadata import version
except ImportError:
    version = lambda name: "?"
out = [sys.version.split()[0]]
for name in ("torch", "numpy"):
    if find_spec(name) is not None:
        try:
            out.append(name + " " + version(name))
        except Exception:
            out.append(name)
print(os.path.realpath(sys.executable))
print("; ".join(out))`

// checkPythons probes each distinct interpreter on PATH, at most eight, concurrently.
func checkPythons(ctx context.Context) []Finding {
	paths := pythonsOnPath(os.Getenv("PATH"))
	if len(paths) == 0 {
		return []Finding{{Name: "Python", Status: Missing, Found: "no interpreter on PATH", Cost: "Python scripts cannot run; executables can", Do: "install python3"}}
	}
	ctx, cancel := context.WithTimeout(ctx, interpreterTimeout)
	defer cancel()
	answers := make([]chan pythonAnswer, len(paths))
	for i, path := range paths {
		answers[i] = make(chan pythonAnswer, 1)
		go func() { answers[i] <- probePython(ctx, path) }()
	}
	var fs []Finding
	seen := map[string]bool{}
	for i, answer := range answers {
		a := <-answer
		// Version managers put a shim for every version on PATH, installed or not.
		standIn := a.executable == "" && strings.Contains(filepath.Base(paths[i]), ".")
		if standIn || seen[a.executable] {
			continue
		}
		seen[a.executable] = a.executable != ""
		fs = append(fs, a.Finding)
	}
	return fs
}

// pythonAnswer is the result of probing an interpreter; executable is empty if the probe failed.
type pythonAnswer struct {
	Finding
	executable string
}

// probePython runs the probe in one interpreter.
func probePython(ctx context.Context, path string) pythonAnswer {
	f := Finding{Name: "Python " + path}
	cmd := exec.CommandContext(ctx, path, "-c", pythonProbe)
	cmd.WaitDelay = time.Second // a wrapper's child may keep the pipe open
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		last := strings.TrimSpace(stderr.String())
		last = last[strings.LastIndexByte(last, '\n')+1:]
		f.Status, f.Found = Warn, strings.TrimSuffix("does not answer: "+err.Error()+": "+last, ": ")
		f.Cost, f.Do = "scripts that it should run will fail", "repair it or put another one first on PATH"
		return pythonAnswer{Finding: f}
	}
	executable, found, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	f.Found = found
	if f.Status = OK; !strings.Contains(f.Found, "torch") {
		f.Found += "; no torch"
		if !strings.Contains(f.Found, "numpy") {
			f.Found += ", no numpy"
		}
	}
	return pythonAnswer{f, executable}
}

// pythonsOnPath returns python3, python and python3.N in the order of PATH, each file once.
func pythonsOnPath(path string) []string {
	var found []string
	seen := map[string]bool{}
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			continue
		}
		names := []string{filepath.Join(dir, "python3"), filepath.Join(dir, "python")}
		more, _ := filepath.Glob(filepath.Join(dir, "python3.[0-9]*"))
		slices.Sort(more)
		for _, p := range append(names, more...) {
			version := strings.TrimPrefix(filepath.Base(p), "python3.")
			if strings.Trim(version, "0123456789") != "" && strings.HasPrefix(filepath.Base(p), "python3.") {
				continue // python3.12-config, python3.12-gdb.py
			}
			real, err := filepath.EvalSymlinks(p)
			if err != nil || seen[real] {
				continue
			}
			if info, err := os.Stat(real); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
				continue
			}
			seen[real] = true
			if found = append(found, p); len(found) == 8 {
				return found
			}
		}
	}
	return found
}

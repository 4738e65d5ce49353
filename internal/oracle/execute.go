package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// result is the normalised output of one command: what it printed and the files that it wrote.
type result struct {
	key    string
	output string
}

// runner executes scenes with one binary.
type runner struct {
	root, binary string
	// limit is the timeout of one command.
	limit   time.Duration
	verbose bool
}

// build compiles cmd/optimize to a file in dir with a constant version and date: ages of prices are part of outputs, and
// their digits decide where lines are wrapped.
func build(ctx context.Context, root, dir string) (string, error) {
	binary := filepath.Join(dir, "optimize")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-s -w -X main.version=oracle -X main.today=2026-11-01", "-o", binary, "./cmd/optimize")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return binary, nil
}

// play runs the commands of a scene in a new folder and returns the results of those that completed.
func (r *runner) play(ctx context.Context, s scene) ([]result, error) {
	dir := fmt.Sprintf("/tmp/oracle-%08x", rand.Uint32()) // a path of constant length: outputs are wrapped by length
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	home, work := filepath.Join(dir, "home"), filepath.Join(dir, "work")
	for _, d := range []string{home, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, err
		}
	}
	for _, c := range s.copies {
		if err := copyTree(filepath.Join(r.root, c[0]), filepath.Join(work, c[1])); err != nil {
			return nil, fmt.Errorf("scene %s: %w", s.name, err)
		}
	}
	for _, f := range s.files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, f[0])), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(work, f[0]), []byte(f[1]), 0o644); err != nil {
			return nil, err
		}
	}
	commands := s.commands
	if s.help {
		commands = append(commands, command{key: "help: --help", args: []string{"--help"}})
	}
	var out []result
	var failed error
	for i := 0; i < len(commands); i++ { // help scenes append commands
		res, err := r.execute(ctx, commands[i], work, home)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", commands[i].key, err))
			continue
		}
		out = append(out, res)
		if s.help {
			commands = append(commands, subcommands(commands[i], res.output)...)
		}
	}
	return out, failed
}

var subcommand = regexp.MustCompile(`(?m)^  ([a-z]+) {3,}[^ ]`)

// subcommands returns the help commands for the commands that a help text lists after its usage.
func subcommands(of command, help string) []command {
	_, list, _ := strings.Cut(help, "\nUsage:\n")
	var out []command
	for _, m := range subcommand.FindAllStringSubmatch(list, -1) {
		args := append(slices.Clone(of.args[:len(of.args)-1]), m[1], "--help")
		out = append(out, command{key: "help: " + strings.Join(args, " "), args: args})
	}
	return out
}

// copyTree copies a file or a folder; a folder may be merged into an existing one.
func copyTree(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}

// execute runs one command in work and returns its exit code, its output and the files that it wrote there.
func (r *runner) execute(ctx context.Context, c command, work, home string) (result, error) {
	before, err := files(work)
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.binary, expand(c.args, work)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, &stdout, &stderr
	cmd.Env = []string{"GOGC=400", "PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "TZ=UTC", "LANG=C.UTF-8", "CUDA_VISIBLE_DEVICES="} // GOGC: a seventh of short commands
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return result{}, fmt.Errorf("run the command: stopped after %v: %w", r.limit, ctx.Err())
	} else if err != nil && !errors.As(err, &exit) {
		return result{}, fmt.Errorf("run the command: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "$ optimize %s\nexit %d\n--- stdout\n%s--- stderr\n%s", strings.Join(c.args, " "), cmd.ProcessState.ExitCode(), stdout.String(), stderr.String())
	after, err := files(work)
	if err != nil {
		return result{}, err
	}
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if after[path] == before[path] {
			continue
		}
		fmt.Fprintf(&b, "--- file %s\n", path)
		if data := after[path]; utf8.ValidString(data) {
			b.WriteString(data)
		} else {
			fmt.Fprintf(&b, "%d bytes, sha256 %x\n", len(data), sha256.Sum256([]byte(data)))
		}
	}
	out := strings.NewReplacer(work, "WORK", home, "HOME", r.root, "ROOT").Replace(b.String())
	if r.verbose {
		fmt.Fprintf(os.Stderr, "%8.2f s  %s\n", (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), c.key)
	}
	return result{key: c.key, output: normalise(out)}, nil
}

// expand replaces patterns by the matching files, as a shell does.
func expand(args []string, dir string) []string {
	var out []string
	for _, a := range args {
		matches, err := filepath.Glob(filepath.Join(dir, a))
		if !strings.Contains(a, "*") || err != nil || len(matches) == 0 {
			out = append(out, a)
			continue
		}
		for _, m := range matches {
			rel, _ := filepath.Rel(dir, m)
			out = append(out, rel)
		}
	}
	return out
}

// files returns the contents of the files below dir by path, except state directories, which contain dates and
// databases.
func files(dir string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".optimize" {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = string(data)
		return err
	})
	return out, err
}

package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/engine"
)

// TestRunCommand executes real programs.
func TestRunCommand(t *testing.T) {
	r, err := runCommand(t.Context(), Command{Argv: []string{"sh", "-c", "cat; echo $V >&2; exit 3"}, Env: []string{"PATH=" + os.Getenv("PATH"), "V=x"}, Stdin: "in"})
	if err != nil || r != (Result{Stdout: "in", Stderr: "x\n", Code: 3}) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := runCommand(t.Context(), Command{Argv: []string{"sh", "-c", "kill -9 $$"}, Env: os.Environ()}); err != nil || r.Code != -1 {
		t.Errorf("killed: %+v, %v", r, err)
	}
	if _, err := runCommand(t.Context(), Command{Argv: []string{"no-such-program-here"}}); err == nil {
		t.Error("a missing program was started")
	}
}

// TestNotInstalled checks the message on a machine without Slurm.
func TestNotInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	e := &Engine{Folder: t.TempDir()}
	if _, err := e.List(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "slurm-client") || errors.Is(err, engine.ErrUnreachable) {
		t.Error(err)
	}
}

// TestCommandIsEnded lets a command that never answers start a process of its own; the end of the context ends both.
func TestCommandIsEnded(t *testing.T) {
	folder := t.TempDir()
	pidFile := filepath.Join(folder, "pid")
	squeue := "#!/bin/sh\nsleep 1000 & echo $! > " + pidFile + ".new; mv " + pidFile + ".new " + pidFile + "; wait\n"
	if err := os.WriteFile(filepath.Join(folder, "squeue"), []byte(squeue), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pid := make(chan int, 1)
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if data, err := os.ReadFile(pidFile); err == nil {
				n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
				pid <- n
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if _, err := (&Engine{Folder: t.TempDir()}).List(ctx, "k"); err == nil {
		t.Fatal("an answer without an end of the command")
	}
	select {
	case n := <-pid:
		for deadline := time.Now().Add(time.Minute); isAlive(n); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d of the command still runs", n)
			}
		}
	default:
		t.Skip("the command was not started within its time limit: the machine is too busy")
	}
}

// isAlive reports whether a process exists and is no zombie.
func isAlive(pid int) bool {
	if pid <= 0 || syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestLimitedBuffer(t *testing.T) {
	b := &limitedBuffer{}
	if _, err := b.Write(make([]byte, maxOutput)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write([]byte("x")); err == nil {
		t.Error("the limit was exceeded")
	}
}

func TestQuoteIsBounded(t *testing.T) {
	text := quote(Result{Stderr: strings.Repeat("sbatch: error: line é", 500) + "\n\nsbatch: error: again\nsbatch: error: again\n"})
	if len(text) > 1100 || strings.ContainsAny(text, "\n\ufffd") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

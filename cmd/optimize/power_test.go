package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
)

// powerWorld is a world whose only GPU is that of testdata/nvml.c, at 300 W, with a training that lasts until the file
// "stop" exists.
type powerWorld struct {
	*world
	nvml string
}

func newPowerWorld(t *testing.T) powerWorld {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: the library of a GPU cannot be built")
	}
	needPython(t)
	w := powerWorld{world: newWorld(t)}
	lib := w.dir
	w.nvml = t.TempDir()
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", filepath.Join(lib, "libnvidia-ml.so.1"), "testdata/nvml.c").CombinedOutput(); err != nil {
		t.Skipf("build the library of a GPU: %v\n%s", err, out)
	}
	w.environ = append(w.environ, "LD_LIBRARY_PATH="+lib, "NVML_DIR="+w.nvml, "HOST_RUN="+t.TempDir())
	w.write("train.py", `import os, time
log = open(os.environ["OPTIMIZER_LOG"], "w", buffering=1)
log.write("epoch,loss\n")
for i in range(1, 5001):
    time.sleep(0.02)
    log.write(f"{i},{1 / i}\n")
    if os.path.exists("stop"):
        break
`)
	return w
}

// start starts a training in a process of its own.
func (w powerWorld) start(args ...string) *exec.Cmd {
	return w.agent(append([]string{"--train", "train.py", "--epochs", "5000", "--gpus", "1:1", "--cpus", "1:1", "--state-dir", w.state()}, args...)...)
}

func (w powerWorld) limit() string {
	data, _ := os.ReadFile(filepath.Join(w.nvml, "state"))
	watts, _, _ := bytes.Cut(data, []byte("000 "))
	return string(watts)
}

// await waits until ok.
func (w powerWorld) await(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("no %s within %v; limit %s W", what, patience, w.limit())
		}
	}
}

func (w powerWorld) isAt(watts string) func() bool { return func() bool { return w.limit() == watts } }

func TestPowerLimitIsRestoredAfter(t *testing.T) {
	t.Parallel()
	cases := map[string]func(w powerWorld, agent *exec.Cmd, h launch.Handle){
		"the end of the training": func(w powerWorld, _ *exec.Cmd, _ launch.Handle) { w.write("stop", "") },
		"Ctrl-C":                  func(_ powerWorld, agent *exec.Cmd, _ launch.Handle) { _ = agent.Process.Signal(syscall.SIGINT) },
		"kill -9 of the agent": func(w powerWorld, agent *exec.Cmd, _ launch.Handle) {
			_ = agent.Process.Kill()
			_ = agent.Wait()
			if w.limit() != "150" {
				w.t.Errorf("%s W while the training continues, want 150", w.limit())
			}
			w.write("stop", "")
		},
		"kill -9 of all": func(w powerWorld, agent *exec.Cmd, h launch.Handle) {
			_ = agent.Process.Kill()
			for _, pid := range []int{h.StandbyPID, h.KeeperPID, h.PID} {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			_ = agent.Wait()
			w.await("death of the supervisor", func() bool { return !launch.Supervised(h.RunDir) })
			w.write("stop", "")
			_ = w.start().Wait() // the next start on the machine
		},
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPowerWorld(t)
			agent := w.start("--power-limit", "150")
			w.await("limit of 150 W", w.isAt("150"))
			dir := w.latest("running", func(_ string, rec *journal.Record) bool { return rec.State == journal.Running })
			h, err := launch.Find(dir)
			if err != nil {
				t.Fatal(err)
			}
			end(w, agent, h)
			w.await("limit of 300 W", w.isAt("300"))
			w.await("end of the supervisor", func() bool { return !launch.Supervised(h.RunDir) }) // it writes to the test's directory
		})
	}
}

func TestPowerLimitNotUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, limit, says string }{
		"without permission":  {"denied", "150", "requires root"},
		"outside the range":   {"", "10:90", "the devices allow 100 to 400 W"},
		"by a static planner": {"", "150:300", "static"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPowerWorld(t)
			if c.file != "" {
				if err := os.WriteFile(filepath.Join(w.nvml, c.file), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			agent := w.start("--power-limit", c.limit, "--planner", "static")
			dir := w.latest("decision", func(_ string, rec *journal.Record) bool { return rec.Power != nil && rec.Power.Reason != "" })
			w.write("stop", "")
			_ = agent.Wait()
			rec, err := journal.ReadRecord(dir)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(rec.Power.Reason, c.says) || rec.Power.SetW != nil || w.limit() != "300" {
				t.Errorf("power %+v, limit %s W", rec.Power, w.limit())
			}
		})
	}
}

// Package examples_test runs the example trainings as users do: as separate processes, with signals, restarts and
// environment variables. It checks the behaviour that the optimizer relies on.
package examples_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// patience bounds the waits of a test; it expires only if the test fails.
const patience = 5 * time.Minute

// python returns the first interpreter that can import the module; an empty module accepts any Python 3.
func python(t *testing.T, module string) string {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(p)
		if err != nil {
			continue
		}
		if module == "" || exec.Command(path, "-c", "import "+module).Run() == nil {
			return path
		}
	}
	t.Skipf("no python3 with %q here", module)
	return ""
}

// program is one example with its own working directory.
type program struct {
	t      *testing.T
	python string
	script string
	dir    string
	env    []string // beyond PATH and HOME
}

func newProgram(t *testing.T, python, script string, env ...string) *program {
	t.Helper()
	path, err := filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	return &program{t: t, python: python, script: path, dir: t.TempDir(), env: env}
}

func (p *program) start(out *bytes.Buffer, env []string, args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command(p.python, append([]string{p.script}, args...)...)
	cmd.Dir = p.dir
	cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "PYTHONDONTWRITEBYTECODE=1"}, p.env, env)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// run executes the program to completion and returns its output. The program must exit with code 0.
func (p *program) run(env []string, args ...string) string {
	p.t.Helper()
	var out bytes.Buffer
	if err := p.start(&out, env, args...).Wait(); err != nil {
		p.t.Fatalf("%s %q: %v\n%s", filepath.Base(p.script), args, err, out.String())
	}
	return out.String()
}

// listens reports whether the process has installed a handler for sig.
func listens(pid int, sig syscall.Signal) bool {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := bytes.Cut(data, []byte("SigCgt:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, _ := strconv.ParseUint(strings.TrimSpace(string(line)), 16, 64)
	return mask&(1<<(sig-1)) != 0
}

// interrupted starts the program, waits until it handles SIGUSR1 and a further condition holds, sends sig after a delay
// and returns the exit code; -1 means that a signal terminated it.
func (p *program) interrupted(sig syscall.Signal, reached func() bool, after time.Duration, env []string, args ...string) int {
	p.t.Helper()
	var out bytes.Buffer
	cmd := p.start(&out, env, args...)
	eventually(p.t, "handles SIGUSR1", func() bool { return listens(cmd.Process.Pid, syscall.SIGUSR1) })
	eventually(p.t, "got where it is interrupted", reached)
	time.Sleep(after)
	_ = cmd.Process.Signal(sig)
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		p.t.Fatal(err)
	case exit.ExitCode() > 0 && exit.ExitCode() != 75:
		p.t.Fatalf("exit %d\n%s", exit.ExitCode(), out.String())
	}
	return exit.ExitCode()
}

// logged returns a condition: the log contains at least n rows.
func (p *program) logged(file string, n int) func() bool {
	return func() bool {
		data, _ := os.ReadFile(filepath.Join(p.dir, file))
		return bytes.Count(data, []byte("\n")) > n
	}
}

// rows reads a CSV log and requires a value for every column of the header in every row.
func (p *program) rows(file string) []map[string]string {
	p.t.Helper()
	f, err := os.Open(filepath.Join(p.dir, file))
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		p.t.Fatal(err)
	}
	var rows []map[string]string
	for _, r := range records[1:] {
		row := map[string]string{}
		for i, c := range records[0] {
			row[c] = r[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func value(t *testing.T, row map[string]string, column string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(row[column], 64)
	if err != nil {
		t.Fatalf("column %s: %v", column, err)
	}
	return v
}

// epochsOnce checks that the log contains the epochs 1 to n in order, each exactly once, with consistent timestamps.
func epochsOnce(t *testing.T, rows []map[string]string, n int) {
	t.Helper()
	if len(rows) != n {
		t.Fatalf("%d rows, want %d: %v", len(rows), n, rows)
	}
	sum := 0.0
	for i, r := range rows {
		if e := value(t, r, "epoch"); e != float64(i+1) {
			t.Errorf("row %d is epoch %v", i+1, e)
		}
		sum += value(t, r, "epoch_time")
		if so := value(t, r, "time_so_far"); so < 0.999*sum-1e-4 || so > 1.001*sum+1e-4 {
			t.Errorf("epoch %d: time_so_far %v, but the epochs add up to %v", i+1, so, sum)
		}
	}
}

func TestDigitsLearns(t *testing.T) {
	p := newProgram(t, python(t, ""), "train_digits.py")
	p.run(nil, "--epochs", "4", "--samples", "3840", "--batch-size", "24") // no environment variables: the script's own log, all available CPUs
	rows := p.rows("log-digits-mlp.csv")
	epochsOnce(t, rows, 4)
	last := rows[3]
	if a := value(t, last, "test_accuracy"); a < 0.86 || a > 1 {
		t.Errorf("test accuracy %v after 4 epochs, want at least 0.86", a)
	}
	if first, end := value(t, rows[0], "train_loss"), value(t, last, "train_loss"); end > first/3 {
		t.Errorf("loss only fell from %v to %v", first, end)
	}
	want := strings.Split("timestamp,epoch,total_epochs,model_name,model_params,model_layers,dataset,data_count,data_size_mb,batch_size,device_type,"+
		"cpu_count,gpu_count,train_loss,train_accuracy,test_loss,test_accuracy,epoch_time,time_so_far,throughput,memory_used_gb,cpu_percent", ",")
	for _, c := range want {
		if last[c] == "" {
			t.Errorf("column %s is absent or empty", c)
		}
	}
	throughput := value(t, last, "data_count") / value(t, last, "epoch_time")
	if got := value(t, last, "throughput"); got < 0.99*throughput || got > 1.01*throughput {
		t.Errorf("throughput %v, want %v", got, throughput)
	}
	if _, err := time.Parse(time.RFC3339, last["timestamp"]); err != nil {
		t.Error(err)
	}
}

// weights returns the network parameters stored in the checkpoint.
func (p *program) weights(dir string) []float64 {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, dir, "checkpoint.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	var c struct{ Weights []float64 }
	if err := json.Unmarshal(data, &c); err != nil || len(c.Weights) != 2410 {
		p.t.Fatalf("%v, %d weights", err, len(c.Weights))
	}
	return c.Weights
}

// TestDigitsInterrupted checks that a seed determines the network regardless of how the training is interrupted and of
// the number of workers after the restart, and that no epoch is lost or logged twice.
func TestDigitsInterrupted(t *testing.T) {
	p := newProgram(t, python(t, ""), "train_digits.py", "OPTIMIZER_EPOCHS=4", "OPTIMIZER_BATCH_SIZE=96", "OPTIMIZER_RANDOM_SEED=1700000000")
	small := []string{"--samples", "1200"}
	p.run([]string{"OMP_NUM_THREADS=2", "OPTIMIZER_LOG=whole.csv", "OPTIMIZER_CHECKPOINT_DIR=whole"}, small...)
	env := []string{"OPTIMIZER_LOG=cut.csv", "OPTIMIZER_CHECKPOINT_DIR=cut", "OPTIMIZER_RESUME=1"}
	saved := 0
	signals := []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT}
	for i, sig := range signals {
		code := p.interrupted(sig, p.logged("cut.csv", i), time.Duration(130*i)*time.Millisecond, append(env, fmt.Sprintf("OMP_NUM_THREADS=%d", 1+i%3)), small...)
		switch {
		case code == 75:
			saved++
			p.weights("cut") // a complete checkpoint exists
		case sig == syscall.SIGKILL && code == -1, code == 0: // it may have finished in the delay
		case code == -1 && len(p.rows("cut.csv")) == 4: // or was ending: the interpreter then has no handlers
		default:
			t.Errorf("signal %v: exit %d, want 75", sig, code)
		}
	}
	if saved == 0 {
		t.Fatal("no signal met a running training")
	}
	p.run(append(env, "OMP_NUM_THREADS=4"), small...)
	if !slices.Equal(p.weights("whole"), p.weights("cut")) {
		t.Error("the interrupted training gave another network")
	}
	whole, cut := p.rows("whole.csv"), p.rows("cut.csv")
	epochsOnce(t, cut, 4)
	for i := range whole {
		for _, c := range []string{"train_loss", "train_accuracy", "test_loss", "test_accuracy", "batch_size"} {
			if whole[i][c] != cut[i][c] {
				t.Errorf("epoch %d: %s %s, uninterrupted %s", i+1, c, cut[i][c], whole[i][c])
			}
		}
	}
}

// TestDigitsRowLost checks that the row of an epoch whose checkpoint was written before a crash is written by the next start.
func TestDigitsRowLost(t *testing.T) {
	p := newProgram(t, python(t, ""), "train_digits.py", "OPTIMIZER_LOG=log.csv", "OPTIMIZER_CHECKPOINT_DIR=saved")
	p.run(nil, "--epochs", "2", "--samples", "160")
	path := filepath.Join(p.dir, "log.csv")
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(log, []byte("\n"))
	if err := os.WriteFile(path, bytes.Join(lines[:2], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	p.run([]string{"OPTIMIZER_RESUME=1"}, "--epochs", "3", "--samples", "160")
	rows := p.rows("log.csv")
	epochsOnce(t, rows, 3)
	if got, _ := os.ReadFile(path); !bytes.HasPrefix(got, log) {
		t.Errorf("the row that was lost came back otherwise:\n%s\nnow\n%s", log, got)
	}
}

func TestDigitsStopsDuringStart(t *testing.T) {
	p := newProgram(t, python(t, ""), "train_digits.py")
	if code := p.interrupted(syscall.SIGUSR1, p.logged("log-digits-mlp.csv", -1), 0, nil); code != 75 {
		t.Errorf("exit %d, want 75", code)
	}
	p.weights("checkpoint-digits-mlp")
}

func TestDigitsRefusesAnotherRunsCheckpoint(t *testing.T) {
	p := newProgram(t, python(t, ""), "train_digits.py")
	p.run(nil, "--epochs", "1", "--samples", "160")
	var out bytes.Buffer
	err := p.start(&out, []string{"OPTIMIZER_RESUME=1", "OPTIMIZER_RANDOM_SEED=5"}, "--epochs", "2", "--samples", "160").Wait()
	if err == nil || !strings.Contains(out.String(), "of another run") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// children returns the pids of the child processes.
func children(pid int) []int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var pids []int
	for _, f := range strings.Fields(string(data)) {
		if n, err := strconv.Atoi(f); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}

// cpuTicks returns the user CPU time of a process in clock ticks.
func cpuTicks(pid int) int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(data, []byte(") "))
	if f := strings.Fields(string(rest)); len(f) > 11 {
		n, _ := strconv.Atoi(f[11])
		return n
	}
	return 0
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Errorf("not so after %v: %s", patience, what)
}

// TestDigitsUsesItsCPUs checks that the number of computing processes equals the thread setting and that none outlives
// the training.
func TestDigitsUsesItsCPUs(t *testing.T) {
	if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); err != nil {
		t.Skip("this kernel does not list children in /proc")
	}
	for _, n := range []int{1, 3} {
		p := newProgram(t, python(t, ""), "train_digits.py")
		var out bytes.Buffer
		cmd := p.start(&out, []string{fmt.Sprintf("OMP_NUM_THREADS=%d", n)})
		var workers []int
		eventually(t, fmt.Sprintf("%d workers that compute", n), func() bool {
			workers = children(cmd.Process.Pid)
			return len(workers) == n && !slices.ContainsFunc(workers, func(pid int) bool { return cpuTicks(pid) < 10 })
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		eventually(t, "all workers gone after the main process was killed", func() bool {
			return !slices.ContainsFunc(workers, func(pid int) bool { return syscall.Kill(pid, 0) == nil && cpuTicks(pid) > 0 })
		})
	}
}

func TestPlainOnlyPrints(t *testing.T) {
	p := newProgram(t, python(t, ""), "train_plain.py")
	out := p.run(nil, "--epochs", "3", "--points", "1500")
	if m := regexp.MustCompile(`(?m)^Epoch (\d+)/3 loss \d\.\d{3} acc 0\.\d{3}$`).FindAllString(out, -1); len(m) != 3 {
		t.Errorf("lines %q in %s", m, out)
	}
	if left, _ := os.ReadDir(p.dir); len(left) != 0 {
		t.Errorf("it left %v", left)
	}
}

func TestTorch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p := newProgram(t, python(t, "torch"), "train_torch.py", "OMP_NUM_THREADS=1", "OPTIMIZER_EPOCHS=2", "CUDA_VISIBLE_DEVICES=")
	small := []string{"--samples", "1500"}
	p.run(nil, small...)
	rows := p.rows("log-shapes-cnn.csv")
	epochsOnce(t, rows, 2)
	if a := value(t, rows[1], "test_accuracy"); a < 0.6 {
		t.Errorf("test accuracy %v, chance is 0.1", a)
	}
	for c := range rows[0] {
		if strings.HasPrefix(c, "gpu_util") || strings.HasPrefix(c, "gpu_memory") {
			t.Errorf("column %s without a GPU", c)
		}
	}
	env := []string{"OPTIMIZER_LOG=cut.csv", "OPTIMIZER_CHECKPOINT_DIR=cut", "OPTIMIZER_RESUME=1", "OPTIMIZER_NUM_WORKERS=1"}
	if code := p.interrupted(syscall.SIGUSR1, p.logged("cut.csv", 0), 300*time.Millisecond, env, small...); code != 75 && code != 0 {
		t.Errorf("exit %d, want 75", code)
	}
	p.run(env, small...)
	cut := p.rows("cut.csv")
	epochsOnce(t, cut, 2)
	for _, c := range []string{"train_loss", "test_loss"} {
		if a, b := value(t, rows[1], c), value(t, cut[1], c); a < 0.98*b || a > 1.02*b {
			t.Errorf("%s %v when interrupted, else %v", c, b, a)
		}
	}
}

func TestTorchIsMissing(t *testing.T) {
	path := python(t, "")
	if exec.Command(path, "-c", "import torch").Run() == nil {
		t.Skip("this python3 has torch")
	}
	var out bytes.Buffer
	err := newProgram(t, path, "train_torch.py").start(&out, nil).Wait()
	if err == nil || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "has no torch") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// planned returns the seconds per epoch that the profile's formula predicts, for each number of GPUs.
func planned(t *testing.T, file string, batch int, gpus ...int) []float64 {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	counts, _ := json.Marshal(gpus)
	out, err := exec.Command(python(t, ""), "-B", "-c", "import json,sys; sys.path.insert(0,'.'); import replay; job = json.loads(sys.argv[1]); "+
		"print(json.dumps([replay.epoch_seconds(job, n, 96, int(sys.argv[2])) for n in json.loads(sys.argv[3])]))", string(data), strconv.Itoa(batch), string(counts)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var v []float64
	if err := json.Unmarshal(out, &v); err != nil || len(v) != len(gpus) {
		t.Fatalf("%v: %s", err, out)
	}
	return v
}

// TestReplayProfiles checks that at the profile's own batch size more GPUs are never slower and never exceed linear
// speed-up.
func TestReplayProfiles(t *testing.T) {
	for file, batch := range map[string]int{"replay-resnet18.json": 1024, "replay-bert.json": 48} {
		before, all := 0.0, planned(t, file, batch, 1, 2, 3, 4, 5, 6, 7, 8)
		for i, v := range all {
			if before > 0 && v > before*1.001 || v < all[0]/float64(i+1)*0.999 {
				t.Errorf("%s: %d GPUs take %v s, one fewer %v, one alone %v", file, i+1, v, before, all[0])
			}
			before = v
		}
	}
	// Measured: 512 samples on one T4 take 0.355 s, 4 x 129 samples take 0.1105 s.
	measured := planned(t, "replay-resnet18.json", 512, 1, 4)
	if v := measured[0] * 512 / 50000; v < 0.32 || v > 0.43 {
		t.Errorf("one GPU: %v s an iteration, measured 0.355", v)
	}
	if v := measured[1] * 512 / 50000; v < 0.099 || v > 0.122 {
		t.Errorf("four GPUs: %v s an iteration, measured 0.1105", v)
	}
}

func TestReplay(t *testing.T) {
	p := newProgram(t, python(t, ""), "replay.py", "REPLAY_SPEEDUP=100", "OPTIMIZER_EPOCHS=2")
	for gpus, ids := range map[string]string{"1": "GPU-5a", "2": "4,7", "8": "0,1,2,3,4,5,6,7"} {
		p.run([]string{"CUDA_VISIBLE_DEVICES=" + ids, "OMP_NUM_THREADS=16", "OPTIMIZER_LOG=" + gpus + ".csv"})
		rows := p.rows(gpus + ".csv")
		epochsOnce(t, rows, 2)
		if rows[0]["gpu_count"] != gpus || rows[0]["cpu_count"] != "16" || rows[0]["device_type"] != "replay" {
			t.Errorf("%v", rows[0])
		}
		n, _ := strconv.Atoi(gpus)
		if got, least := value(t, rows[0], "epoch_time"), 0.9*planned(t, "replay-resnet18.json", 1024, n)[0]/100; got < least {
			t.Errorf("%s GPUs: %v s, the profile says at least %v", gpus, got, least)
		}
	}
	env := []string{"CUDA_VISIBLE_DEVICES=0", "OPTIMIZER_LOG=cut.csv", "OPTIMIZER_RESUME=1", "OPTIMIZER_CHECKPOINT_DIR=cut"}
	if code := p.interrupted(syscall.SIGUSR1, p.logged("cut.csv", 1), 100*time.Millisecond, append(env, "OPTIMIZER_EPOCHS=1000")); code != 75 {
		t.Errorf("exit %d, want 75", code)
	}
	n := len(p.rows("cut.csv")) + 1
	p.run(append(env, fmt.Sprintf("OPTIMIZER_EPOCHS=%d", n)))
	epochsOnce(t, p.rows("cut.csv"), n)
	var out bytes.Buffer
	if err := p.start(&out, []string{"CUDA_VISIBLE_DEVICES="}).Wait(); err == nil || !strings.Contains(out.String(), "no GPU is visible") {
		t.Errorf("without a GPU: %v: %s", err, out.String())
	}
}

// TestHostDescription checks that the script's own parser reads the file as a YAML parser does.
func TestHostDescription(t *testing.T) {
	data, err := os.ReadFile("host-8gpu.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if price, ok := want["price"].(map[string]any); ok {
		price["dated"] = price["dated"].(time.Time).Format(time.DateOnly) // a YAML date, which the script reads as text
	}
	out, err := exec.Command(python(t, ""), "-B", "-c", "import json,replay; print(json.dumps(replay.read_host('host-8gpu.yaml')))").Output()
	if err != nil {
		t.Fatal(err)
	}
	wanted, _ := json.Marshal(want)
	var a, b any
	if json.Unmarshal(wanted, &a) != nil || json.Unmarshal(out, &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("the script reads %s, YAML says %s", out, wanted)
	}
}

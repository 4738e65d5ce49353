package lab

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// All nodes accept jobs with their GPUs, and the accounting records the type of the GPU.
func TestNodesRunJobs(t *testing.T) {
	l := Require(t)
	for _, c := range []struct{ gpu, node string }{{"a100", "n0"}, {"v100", "n1"}, {"k80", ""}} {
		t.Run(c.gpu, func(t *testing.T) {
			t.Parallel()
			out := l.Run(t, "srun", "-p", "urgent", "--mem=10", "-c1", "--gres=gpu:"+c.gpu+":1", "sh", "-c", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES")
			node, devices, _ := strings.Cut(out, " ")
			if node == "" || c.node != "" && node != c.node || devices == "" {
				t.Errorf("a job with a %s printed %q, want the node %q and a device", c.gpu, out, c.node)
			}
		})
	}
}

// TestREST asks the REST daemon, which is no root process, for a job that sbatch has submitted; without a token it refuses.
func TestREST(t *testing.T) {
	l := Require(t)
	for _, c := range []string{"slurmrestd", "curl"} {
		if _, err := exec.LookPath(c); err != nil && !exists("/usr/sbin/"+c) {
			t.Skip("the package " + c + " is missing")
		}
	}
	address, err := os.ReadFile(filepath.Join(l.Dir, "etc", "rest"))
	if err != nil {
		t.Skip("the package slurm-wlm-jwt-plugin is missing")
	}
	url := "http://" + strings.TrimSpace(string(address)) + "/slurm/v0.0.38/job/"
	id := l.Run(t, "sbatch", "--parsable", "--hold", "--job-name=asked", "--output=/dev/null", "--wrap=true")
	defer l.Run(t, "scancel", id)
	_, token, _ := strings.Cut(l.Run(t, "scontrol", "token", "lifespan=60"), "=")
	get := []string{"--silent", "--max-time", "60", "-H", "X-SLURM-USER-NAME: root"}
	if out := l.Run(t, "curl", append(get, "-H", "X-SLURM-USER-TOKEN: "+token, url+id)...); !strings.Contains(out, `"name": "asked"`) || !strings.Contains(out, `"job_state": "PENDING"`) {
		t.Errorf("job %s: %.2000s", id, out)
	}
	if out := l.Run(t, "curl", append(get, url+id)...); strings.Contains(out, "asked") {
		t.Errorf("answered without a token: %.500s", out)
	}
	pid, _ := os.ReadFile(filepath.Join(l.Dir, "run", "slurmrestd.pid"))
	if s, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/status"); err != nil || strings.Contains(string(s), "Uid:\t0") {
		t.Errorf("slurmrestd runs as root: %v\n%s", err, s)
	}
}

func TestPartitions(t *testing.T) {
	l := Require(t)
	got := strings.Fields(l.Run(t, "sinfo", "-h", "-o", "%R"))
	if strings.Join(got, " ") != "gpu fast cheap urgent" {
		t.Errorf("partitions %v", got)
	}
}

// A machine without the packages is reported in one line that names them.
func TestMissingPackages(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is missing")
	}
	empty := t.TempDir()
	cmd := exec.Command(bash, "-c", strings.Replace(script, `export PATH="$PATH:/usr/sbin:/sbin"`, "export PATH="+empty, 1), "lab.sh", "check")
	cmd.Env = []string{"PATH=" + empty}
	out, err := cmd.Output()
	text := string(out)
	if cmd.ProcessState.ExitCode() != codeMissing || strings.Count(text, "\n") != 1 || !strings.Contains(text, "munged") || !strings.Contains(text, "apt-get install --no-install-recommends slurm-wlm") {
		t.Errorf("check: %v, %q", err, text)
	}
}

func TestUnsuitableFolder(t *testing.T) {
	for _, dir := range []string{"with space", strings.Repeat("x", 90)} {
		dir = filepath.Join(t.TempDir(), dir)
		out, err := exec.Command("bash", "-c", script, "lab.sh", "start", dir).CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 {
			t.Errorf("start in %s: %v, %q, want one line", dir, err, out)
		}
	}
	if _, err := os.Stat("env"); err == nil {
		t.Error("start left a file in the working directory")
	}
}

// Kill kills a daemon with SIGKILL: slurmctld, slurmdbd, or slurmd-NODE. The processes of jobs live on.
func (l *Lab) Kill(t testing.TB, daemon string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(l.Dir, "run", daemon+".pid"))
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(data)))
	if err := errors.Join(err, convErr); err != nil || pid <= 1 {
		t.Fatalf("kill %s: its process is not known: %v", daemon, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("kill %s: %v", daemon, err)
	}
}

// Heal starts the daemons that do not run.
func (l *Lab) Heal(t testing.TB) {
	t.Helper()
	cmd := exec.Command("bash", "-c", script, "lab.sh", "start", l.Dir)
	cmd.Env = l.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("start the daemons of the lab: %v: %s", err, out)
	}
}

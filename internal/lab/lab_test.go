package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	runpkg "trainopt/optimizer/run"
)

// TestMetricsCommand: printed, written to a file and served, the metrics of a run are the same and pass promtool.
func TestMetricsCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.past("net", 1)
	code, out, errs := w.run("metrics")
	if code != runpkg.CodeDone || !strings.Contains(out, "optimize_runs{state=\"done\"} 1\n") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(out)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, text)
		}
	}
	if code, _, errs := w.run("metrics", "--textfile", "o.prom"); code != runpkg.CodeDone {
		t.Errorf("exit %d: %s", code, errs)
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, "o.prom")); err != nil || string(data) != out {
		t.Errorf("file: %s, %v; want %s", data, err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, "o.prom?*")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
	agent := exec.Command(os.Args[0], "metrics", "--listen", "127.0.0.1:0")
	agent.Dir, agent.Env = w.dir, append(append([]string{}, w.environ...), agentVariable+"=1", "OPTIMIZE_STATE_DIR="+w.state())
	stderr, err := agent.StderrPipe()
	if err != nil || agent.Start() != nil {
		t.Fatal(err)
	}
	defer agent.Process.Kill()
	line := make([]byte, 200)
	n, _ := stderr.Read(line)
	url := regexp.MustCompile(`http://[^\s]+`).Find(line[:n])
	res, err := http.Get(string(url))
	if err != nil {
		t.Fatalf("%s: %v", line[:n], err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); !bytes.Equal(body, []byte(out)) {
		t.Errorf("served: %s, want %s", body, out)
	}
	agent.Process.Signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- agent.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(patience):
		t.Error("the server does not end on SIGTERM")
	}
	for want, args := range map[string][]string{"want a name that ends in .prom": {"--textfile", "o.txt"}, "--every requires --textfile": {"--every", "5s"},
		"--textfile cannot be combined with --listen": {"--listen", "127.0.0.1:0", "--textfile", "o.prom"}, `port "nowhere": want a number`: {"--listen", "nowhere"},
		"cannot be combined with --json": {"--json"}, "want 1s or more": {"--textfile", "o.prom", "--every", "1ms"}} {
		if code, out, errs := w.run(append([]string{"metrics"}, args...)...); code != runpkg.CodeUsage || out != "" && args[0] != "--json" || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
		}
	}
	if code, _, errs := w.run("metrics", "--textfile", "none/o.prom"); code != runpkg.CodeOurs || !strings.Contains(errs, "write metrics to none/o.prom: no such file") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"trainopt/internal/lab"
	"trainopt/optimizer/run"
)

// fakeSlurm puts commands on PATH that execute the tasks of an array at once, on this machine, and returns their folder.
func fakeSlurm(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"sbatch": `n=$(ls script.* 2>/dev/null | wc -l); n=$((n+1)); cat > script.$n
for a; do case $a in --array=*) array=${a#--array=0-} ;; --output=*) out=${a#--output=} ;; --job-name=*) echo "${a#*=}" > name.$n ;; esac; done
echo "$*" >> submitted
for i in $(seq 0 ${array%%%*}); do SLURM_ARRAY_TASK_ID=$i sh script.$n > "${out%.%a}.$i" 2>&1 < /dev/null & echo $! >> pids.$n; done
echo $n`,
		"squeue": `echo 'JOBID|STATE|REASON|SUBMIT_TIME|START_TIME|RESTART_COUNT|NODELIST|NAME|'
for f in name.*; do n=${f#name.}; state=COMPLETED; for p in $(cat pids.$n); do if kill -0 $p 2>/dev/null; then state=RUNNING; fi; done
echo "$n|$state|None|2022-01-01T00:00:00|N/A|0||$(cat $f)|"; done`,
		"scancel": `kill $(cat pids.$1) 2>/dev/null; true`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\ncd '"+dir+"' || exit 1\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ownRuntime(t)
	return dir
}

// ownRuntime lets the test not share the answers of squeue with others.
func ownRuntime(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", dir)
}

// TestCompareOnSlurm: the tasks of an array give the same bytes as this process.
func TestCompareOnSlurm(t *testing.T) {
	for name, args := range map[string]string{
		"queue":          "queue --policies fcfs,saf --seeds 0:3 --job-count 200",
		"front of queue": "queue --policies fcfs,saf --backfill none,easy --seeds 0:1 --job-count 200 --front",
		"pairs":          "queue --figure hdeeprm",
		"rounds":         "rounds --policies fifo,fifo_perf --static 6,12 --cluster v100=3,k80=3 --seeds 0:1",
		"unstable":       "rounds --policies fifo --arrival-rates 1,40 --window 40:60 --cluster v100=1 --seeds 0 --backlog 2 --fairness=false",
		"spot":           "spot --policies on-demand,greedy --seeds 0:1 --starts 2 --slack 1.15,2",
		"training":       "training --policies user,oracle,model --seeds 3:4 --jobs 2 --prefer cost",
		"recurring":      "training --kinds zeus --policies user,oracle,bandit --seeds 0:1 --recurrences 20",
	} {
		t.Run(name, func(t *testing.T) {
			slurm := fakeSlurm(t)
			w := newWorld(t)
			for _, format := range []string{"json", "html", "text"} {
				base := append([]string{"compare"}, strings.Fields(args)...)
				base = append(base, "--format", format, "--jobs-out", "jobs.csv")
				code, here, errs := w.run(base...)
				jobs, _ := os.ReadFile(filepath.Join(w.dir, "jobs.csv"))
				if code != run.CodeDone || here == "" || len(jobs) == 0 {
					t.Fatalf("here: exit %d: %s", code, errs)
				}
				os.Remove(filepath.Join(w.dir, "jobs.csv"))
				code, there, errs := w.run(append(base, "--engine", "slurm", "--engine-arg", "--account=phys", "--parallel", "5", "--quiet")...)
				if code != run.CodeDone || errs != "" {
					t.Fatalf("on Slurm: exit %d: %s", code, errs)
				}
				if realTime.ReplaceAllString(here, "") != realTime.ReplaceAllString(there, "") {
					t.Errorf("other bytes on Slurm as %s:\n%.2000s\nwant\n%.2000s", format, there, here)
				}
				if onSlurm, err := os.ReadFile(filepath.Join(w.dir, "jobs.csv")); err != nil || string(onSlurm) != string(jobs) {
					t.Errorf("other jobs on Slurm: %v", err)
				}
			}
			submitted, _ := os.ReadFile(filepath.Join(slurm, "submitted"))
			if text := string(submitted); !strings.Contains(text, "--account=phys") || !regexp.MustCompile(`--array=0-\d+%5 `).MatchString(text) {
				t.Errorf("sbatch was called as\n%s", text)
			}
			if _, err := os.Stat(filepath.Join(w.state(), "sweeps")); !os.IsNotExist(err) {
				t.Errorf("results are left in the state directory: %v", err)
			}
		})
	}
}

// TestComparePlacementOnSlurm: placements are the same; their times are not.
func TestComparePlacementOnSlurm(t *testing.T) {
	fakeSlurm(t)
	w := newWorld(t)
	base := []string{"compare", "placement", "--methods", "greedy,spread", "--groups", "0:2", "--sizes", "200,300", "--jobs-out", "jobs.csv"}
	rows := func(args ...string) string {
		if code, _, errs := w.run(append(base, args...)...); code != run.CodeDone {
			t.Fatalf("exit %d: %s", code, errs)
		}
		data, err := os.ReadFile(filepath.Join(w.dir, "jobs.csv"))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for line := range strings.Lines(string(data)) {
			cells := strings.Split(line, ",")
			out.WriteString(strings.Join(append(cells[:6:6], cells[7:]...), ",")) // without solve_s
		}
		return out.String()
	}
	if here, there := rows(), rows("--engine", "slurm"); here != there || strings.Count(here, "\n") != 13 {
		t.Errorf("on Slurm:\n%s\nwant\n%s", there, here)
	}
}

// TestCompareOnSlurmInterrupted: the job is cancelled, and the part that is complete is written.
func TestCompareOnSlurmInterrupted(t *testing.T) {
	slurm := fakeSlurm(t)
	w := newWorld(t)
	go func() {
		for {
			time.Sleep(20 * time.Millisecond)
			if began, _ := filepath.Glob(filepath.Join(w.state(), "sweeps", "*", "*", "began-*")); len(began) > 0 {
				w.signals <- os.Interrupt
				return
			}
		}
	}()
	code, _, errs := w.run("compare", "queue", "--policies", "rollout", "--seeds", "0:1", "--job-count", "5000", "--engine", "slurm")
	if code != run.CodeInterrupt || !strings.Contains(errs, "stopped by Ctrl-C") {
		t.Errorf("exit %d: %s", code, errs)
	}
	pids, err := os.ReadFile(filepath.Join(slurm, "pids.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Fields(string(pids)) {
		var pid int
		fmt.Sscan(text, &pid)
		for end := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the task with the process %d was not cancelled", pid)
			}
		}
	}
}

func TestCompareOnSlurmRefuses(t *testing.T) {
	slurm := fakeSlurm(t)
	if err := os.WriteFile(filepath.Join(slurm, "sbatch"), []byte("#!/bin/sh\necho 'sbatch: error: Invalid account' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for want, c := range map[string]struct {
		code run.Code
		args string
	}{
		"Invalid account":                      {run.CodeOurs, "compare queue --engine slurm"},
		"--engine-arg requires --engine slurm": {run.CodeUsage, "compare spot --engine-arg=--qos=high"},
		"--parallel requires --engine slurm":   {run.CodeUsage, "pretrain --env queue --agent evolution --parallel 2"},
		"--parallel 0: want at least 1":        {run.CodeUsage, "compare queue --engine slurm --parallel 0"},
		`--engine "pbs": unknown`:              {run.CodeUsage, "compare rounds --engine pbs"},
		"--engine cannot be combined with":     {run.CodeUsage, "compare rounds --figure runtime --engine slurm"},
		"--engine cannot be combined with --f": {run.CodeUsage, "compare training --figure slamorl --engine slurm"},
		"--engine cannot be combined with --m": {run.CodeUsage, "compare queue --metrics a,b --engine slurm"},
		"--algorithm is required":              {run.CodeUsage, "pretrain --env problem:deep-sea-treasure --engine slurm"},
	} {
		code, out, errs := w.run(strings.Fields(c.args)...)
		if code != c.code || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d: %s%s; want %q", c.args, code, out, errs, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(w.state(), "sweeps", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestPretrainOnSlurm(t *testing.T) {
	for name, args := range map[string]string{
		"agent":  "--env problem:deep-sea-treasure --agent envelope --steps 300",
		"policy": "--env queue --agent evolution --steps 1",
	} {
		t.Run(name, func(t *testing.T) {
			fakeSlurm(t)
			w := newWorld(t)
			var files [2]string
			for i, engine := range []string{"local", "slurm"} {
				code, out, errs := w.run(append(strings.Fields("pretrain "+args), "--output", engine, "--curves", engine+".csv", "--engine", engine)...)
				data, err := os.ReadFile(filepath.Join(w.dir, engine))
				if code != run.CodeDone || err != nil || !strings.Contains(out, "file               "+engine) {
					t.Fatalf("%s: exit %d, %v: %s%s", engine, code, err, out, errs)
				}
				files[i] = string(data)
			}
			if files[0] != files[1] {
				t.Error("another agent on Slurm")
			}
			if code, _, errs := w.run(append(strings.Fields("pretrain "+args), "--output", "absent/file", "--engine", "slurm")...); code != run.CodeUsage {
				t.Errorf("exit %d: %s: want a refusal before the job is submitted", code, errs)
			}
		})
	}
}

// TestSweepInLab: on a real Slurm, with a task that is cancelled by another person while it waits, the bytes are the same.
func TestSweepInLab(t *testing.T) {
	l := lab.Require(t)
	for _, entry := range l.Env {
		if name, value, _ := strings.Cut(entry, "="); os.Getenv(name) != value {
			t.Setenv(name, value)
		}
	}
	ownRuntime(t)
	w := newWorld(t)
	base := strings.Fields("compare queue --policies fcfs,rollout --seeds 0:5 --job-count 300 --json")
	code, here, errs := w.run(base...)
	if code != run.CodeDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	cancelled := make(chan string, 1)
	go func() {
		for range 3000 {
			time.Sleep(10 * time.Millisecond)
			dirs, _ := filepath.Glob(filepath.Join(w.state(), "sweeps", "*"))
			if len(dirs) == 0 {
				continue
			}
			out, _ := l.Command(t.Context(), "squeue", "--noheader", "--format=%F", "--name=optimize.sweep."+filepath.Base(dirs[0])+".0.0").Output()
			if id, _, ok := strings.Cut(string(out), "\n"); ok {
				out, err := l.Command(t.Context(), "scancel", id+"_5").CombinedOutput()
				cancelled <- fmt.Sprintf("%s: %s %v", id, out, err)
				return
			}
		}
		cancelled <- "no job was found"
	}()
	code, there, errs := w.run(append(base, "--engine", "slurm", "--parallel", "1", "--engine-arg=--mem=200M", "--engine-arg=--time=5")...)
	t.Logf("%s\n%s", <-cancelled, errs)
	if code != run.CodeDone || !strings.Contains(errs, "1 of 6 cells were lost with their tasks") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if realTime.ReplaceAllString(here, "") != realTime.ReplaceAllString(there, "") {
		t.Errorf("other bytes on Slurm:\n%s\nwant\n%s", there, here)
	}
}

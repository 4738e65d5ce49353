package predict

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"trainopt/optimizer/plan"
	"trainopt/resources"
)

func exported(t testing.TB, a *answer, kind string, command ...string) string {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, a, kind, command, ""); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestExportGolden compares the exported example with reviewed files.
func TestExportGolden(t *testing.T) {
	for kind, file := range map[string]string{"sbatch": "export.sbatch", "sky": "export.yaml", "k8s-job": "export-job.yaml"} {
		a := shown(t)
		a.Question.StopSignal = "SIGUSR1"
		got, path := exported(t, a, kind, "python3", "train.py", "--name", "it's a run"), filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s (go test -update writes it again):\n%s", kind, path, got)
		}
	}
}

// sbatchOptions returns the options of a batch script, which sbatch reads only before the first command.
func sbatchOptions(script string) map[string]string {
	options := map[string]string{}
	for _, line := range strings.Split(script, "\n") {
		if line != "" && line[0] != '#' {
			break
		}
		if option, ok := strings.CutPrefix(line, "#SBATCH --"); ok {
			name, value, _ := strings.Cut(option, "=")
			options[name] = value
		}
	}
	return options
}

// TestExportRequests: the files request the chosen option and the predicted values, and nothing that was not predicted.
func TestExportRequests(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		change  func(*Question)
		host    float64
		options map[string]string // absent: "-"
		sky     skyTask
	}{
		"GPUs": {func(q *Question) { q.Preference = plan.Preference{Time: 1} }, 6,
			map[string]string{"gpus-per-node": "a100:8", "cpus-per-task": "64", "nodes": "1", "signal": "-"},
			skyTask{Resources: skyResources{Accelerators: "A100:8", CPUs: "64+"}}},
		"unknown memory":                 {func(q *Question) { q.Resumable = &no }, math.NaN(), map[string]string{"mem": "-", "signal": "-"}, skyTask{}},
		"saves on SIGTERM":               {func(q *Question) { q.Resumable, q.StopSignal = &yes, "SIGTERM" }, 6, map[string]string{"signal": "B:TERM@300"}, skyTask{}},
		"resumes, but handles no signal": {func(q *Question) { q.Resumable = &yes }, 6, map[string]string{"signal": "-"}, skyTask{}},
		"saves, but does not resume":     {func(q *Question) { q.Resumable, q.StopSignal = &no, "SIGUSR1" }, 6, map[string]string{"signal": "-"}, skyTask{}},
		"spot":                           {func(q *Question) { q.Market, q.Preference = Spot, plan.Preference{Cost: 1} }, 6, nil, skyTask{Resources: skyResources{UseSpot: true}}},
		"several machines": {func(q *Question) { q.GPUs = resources.Range{Min: 16, Max: 16}; q.Preference = plan.Preference{Time: 1} }, 6,
			map[string]string{"nodes": "2", "gpus-per-node": "a100:8"}, skyTask{Nodes: 2}},
		"CPUs": {func(q *Question) { q.CPUOnly = true }, 6, map[string]string{"cpus-per-task": "8", "gpus-per-node": "-"}, skyTask{Resources: skyResources{CPUs: "8+"}}},
	} {
		f := newFake()
		f.host = c.host
		a := ask(t, f, asking(c.change))
		if !a.Feasible {
			t.Fatalf("%s: not feasible: %s", name, a.Nearest)
		}
		o, config := &a.Options[a.Chosen], a.chosenConfiguration()
		script := exported(t, a, "sbatch", "python3", "train.py")
		got := sbatchOptions(script)
		for option, want := range c.options {
			if value, ok := got[option]; want == "-" && ok || want != "-" && value != want {
				t.Errorf("%s: --%s=%s, want %s", name, option, value, want)
			}
		}
		var days, hours, minutes int64
		if m := regexp.MustCompile(`^(\d+)-(\d\d):(\d\d):00$`).FindStringSubmatch(got["time"]); m == nil {
			t.Errorf("%s: --time=%s", name, got["time"])
		} else {
			days, hours, minutes = integer(m[1]), integer(m[2]), integer(m[3])
		}
		if limit := float64(days*86400 + hours*3600 + minutes*60); limit < 1.1*o.Seconds.P95 || limit > 1.1*o.Seconds.P95+60+saveSeconds {
			t.Errorf("%s: limit %g s of at most %g s", name, limit, o.Seconds.P95)
		}
		if strings.Contains(script, "srun") != (config.Nodes > 1) || !strings.HasPrefix(script, "#!/bin/sh\n") {
			t.Errorf("%s: %s", name, script)
		}
		var task skyTask
		decoder := yaml.NewDecoder(strings.NewReader(exported(t, a, "sky", "python3", "train.py")))
		decoder.KnownFields(true)
		if err := decoder.Decode(&task); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := c.sky.Resources; want.Accelerators != "" && task.Resources.Accelerators != want.Accelerators || want.CPUs != "" && task.Resources.CPUs != want.CPUs ||
			task.Resources.UseSpot != want.UseSpot || task.Nodes != c.sky.Nodes || (task.Resources.Memory == "") != math.IsNaN(c.host) || task.Run != "python3 train.py\n" {
			t.Errorf("%s: %+v", name, task)
		}
	}
}

func integer(text string) int64 {
	var n int64
	for _, c := range text {
		n = 10*n + int64(c-'0')
	}
	return n
}

// TestExportQuotes: a shell passes exactly the words of the command, and nothing of the subject reaches a line of its own.
func TestExportQuotes(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	f := newFake()
	a := ask(t, f, asking(func(q *Question) {
		q.Subject, q.Job.Model = "a job like $(touch x)\n#SBATCH --uid=0\nrm -rf '\x1b", "m\u2028#SBATCH --nodes=9"
	}))
	command := []string{"printf", "%s\\0", "it's", "", "a b", "$HOME", "`id`", "a\nb", "*", "~", "-n", "é", "x=1;exit", `\`, "\"", "#", "!"}
	script := exported(t, a, "sbatch", command...)
	for name, value := range sbatchOptions(script) {
		if name == "uid" || name == "nodes" && value != "1" || strings.ContainsAny(value, "$\n' ") {
			t.Errorf("--%s=%s", name, value)
		}
	}
	var task skyTask
	if err := yaml.Unmarshal([]byte(exported(t, a, "sky", command...)), &task); err != nil {
		t.Fatal(err)
	}
	for kind, text := range map[string]string{"sbatch": script, "sky": task.Run} {
		out, err := exec.Command(sh, "-c", text).Output()
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, command[2:]) {
			t.Errorf("%s: %q, %v; want %q", kind, got, err, command[2:])
		}
	}
	if got := shellWords([]string{"A=b", "c=d"}); got != "'A=b' c=d" {
		t.Error(got)
	}
}

func TestExportRefuses(t *testing.T) {
	a := ask(t, newFake(), asking(nil))
	late := ask(t, newFake(), asking(func(q *Question) { q.Deadline = 1 }))
	own := ask(t, newFake(), asking(func(q *Question) {
		m := q.Machines[0]
		rates := m.Offer.Rates()
		m.Offer.Cloud, m.Rates = "", &rates
		q.Machines = []machine{m}
	}))
	for want, c := range map[string]struct {
		a       *answer
		kind    string
		command []string
	}{
		"unknown, want one of k8s-job, sbatch, sky": {a, "pbs", []string{"x"}},
		"no option meets the limits":                {late, "sbatch", []string{"x"}},
		"command of the job is missing":             {a, "sky", nil},
		"NUL byte":                                  {a, "sky", []string{"a\x00"}},
		"leave out --here":                          {own, "sky", []string{"x"}},
	} {
		var b bytes.Buffer
		if err := Export(&b, c.a, c.kind, c.command, ""); err == nil || !strings.Contains(err.Error(), want) || b.Len() > 0 {
			t.Errorf("%v, want %q; %s", err, want, b.String())
		}
	}
	if script := exported(t, own, "sbatch", "x"); !strings.Contains(script, "gpus-per-node=t4:1") {
		t.Error(script)
	}
}

func TestExportNames(t *testing.T) {
	for model, want := range map[string][2]string{"A100 40GB": {"a100", "A100"}, "A100 80GB": {"a100", "A100-80GB"}, "V100 32GB": {"v100", "V100-32GB"}, "T4": {"t4", "T4"},
		"RTX PRO 6000": {"rtx_pro_6000", "RTX-PRO-6000"}} {
		if got := [2]string{slurmGPU(model), skyGPU(model)}; got != want {
			t.Errorf("%s: %v, want %v", model, got, want)
		}
	}
	for script, want := range map[string]string{"train.py": "python3 train.py", "a/b.sh": "bash a/b.sh", "run": "./run", "/opt/run": "/opt/run", "-x.py": "python3 ./-x.py"} {
		if got := strings.Join(ScriptCommand(script), " "); got != want {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
	for subject, want := range map[string]string{"train.py": "train.py", "a job like run 2026-a": "run-2026-a", "\u202e": "training", strings.Repeat("x", 99): strings.Repeat("x", 60)} {
		if got := jobName(subject); got != want {
			t.Errorf("%q: %s, want %s", subject, got, want)
		}
	}
}

// TestExportJob decodes the Job by its own field names, and checks the rules of batch/v1 that a server would enforce.
func TestExportJob(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		change func(*Question)
		want   func(t *testing.T, a *answer, j k8sJob)
	}{
		"plain": {func(q *Question) { q.Deadline, q.Resumable = 0, nil }, func(t *testing.T, a *answer, j k8sJob) {
			if want := int64(math.Ceil(a.Options[a.Chosen].Seconds.P95 * 1.1)); j.Spec.ActiveDeadline != want || j.Spec.BackoffLimit != 0 || j.Spec.FailurePolicy != nil {
				t.Errorf("%+v, want %d s", j.Spec, want)
			}
		}},
		"deadline": {func(q *Question) { q.Deadline = 26 * time.Hour }, func(t *testing.T, _ *answer, j k8sJob) {
			if j.Spec.ActiveDeadline != 26*3600 {
				t.Errorf("%d s, want the deadline", j.Spec.ActiveDeadline)
			}
		}},
		"resumable": {func(q *Question) { q.Deadline, q.Resumable, q.StopSignal = 0, &yes, "SIGTERM" }, func(t *testing.T, _ *answer, j k8sJob) {
			if j.Spec.BackoffLimit == 0 || j.Spec.FailurePolicy == nil || j.Spec.Template.Spec.Grace != saveSeconds {
				t.Errorf("%+v", j.Spec)
			}
		}},
	} {
		a := shown(t)
		c.change(a.Question)
		decoder := yaml.NewDecoder(strings.NewReader(exported(t, a, "k8s-job", "python3", "träin.py", "a: b", "", "'\n")))
		decoder.KnownFields(true)
		var j k8sJob
		if err := decoder.Decode(&j); err != nil {
			t.Fatal(name, err)
		}
		label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
		pod := j.Spec.Template.Spec
		if j.APIVersion != "batch/v1" || j.Kind != "Job" || !label.MatchString(j.Metadata.Name) || pod.RestartPolicy != "Never" || len(pod.Containers) != 1 {
			t.Fatalf("%s: %+v", name, j)
		}
		box := pod.Containers[0]
		if !slices.Equal(box.Command, []string{"python3", "träin.py", "a: b", "", "'\n"}) || box.Image == "" {
			t.Errorf("%s: %+v", name, box)
		}
		quantity := regexp.MustCompile(`^[1-9][0-9]*(m|Mi)?$`)
		for _, list := range []map[string]string{box.Resources.Requests, box.Resources.Limits} {
			for resource, v := range list {
				if !quantity.MatchString(v) {
					t.Errorf("%s: %s of %q", name, resource, v)
				}
			}
		}
		if box.Resources.Limits["nvidia.com/gpu"] != box.Resources.Requests["nvidia.com/gpu"] {
			t.Errorf("%s: GPUs cannot be overcommitted: %+v", name, box.Resources)
		}
		c.want(t, a, j)
	}
}

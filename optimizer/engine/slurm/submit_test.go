package slurm

import (
	"context"
	"errors"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/resources"
)

func request() engine.Request {
	return engine.Request{Key: "optimize.r1.2", Comment: "run r1", Argv: []string{"/opt/optimize", "__keeper", "it's; $HOME"}, Dir: "/scratch/my runs",
		Output: "/scratch/100%/out", Env: []string{"A=1", "SLURM_CONF=/etc/slurm.conf"},
		Place:     engine.Place{Partition: "gpu", GPUType: "a100", Nodes: 2, GPUs: 4, CPUs: 16, Memory: 62.5, Avoid: []string{"n1", "n7"}},
		TimeLimit: 61 * time.Second, Warn: 90*time.Second + time.Millisecond, Extra: []string{"--account=phys", "--requeue"}}
}

const emptyQueue = "JOBID|STATE|REASON|SUBMIT_TIME|START_TIME|RESTART_COUNT|NODELIST|NAME|\n"

func TestSubmit(t *testing.T) {
	f, e := newFake(map[string]string{"squeue": emptyQueue, "sbatch": "Welcome\n4711;east\n"})
	id, err := e.Submit(t.Context(), request())
	if err != nil || id != "4711" {
		t.Fatalf("%q, %v", id, err)
	}
	c := f.called[1]
	want := []string{"sbatch", "--parsable", "--export=ALL", "--job-name=optimize.r1.2", "--chdir=/scratch/my runs", "--output=/scratch/100%%/out",
		"--open-mode=append", "--no-requeue", "--comment=run r1", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=16", "--mem=64000M",
		"--gres=gpu:a100:4", "--partition=gpu", "--exclude=n1,n7", "--time=2", "--signal=B:USR1@91", "--account=phys", "--requeue"}
	if !slices.Equal(c.Argv, want) {
		t.Errorf("sbatch was called as\n%q\nwant\n%q", c.Argv, want)
	}
	if script := "#!/bin/sh\ncd -- '/scratch/my runs' || exit 1\nexec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=0 --wait=0 --mpi=none --input=none --cpus-per-task=16 '/opt/optimize' '__keeper' 'it'\\''s; $HOME'\n"; c.Stdin != script {
		t.Errorf("script\n%s\nwant\n%s", c.Stdin, script)
	}
	if !slices.Equal(c.Env, request().Env) {
		t.Errorf("environment %q", c.Env)
	}
}

// TestSubmitTasks: an array is one job, and the job that exists already is found by the number of its first task.
func TestSubmitTasks(t *testing.T) {
	r := engine.Request{Key: "optimize.sweep.a.0.0", Argv: []string{"/opt/optimize", "x"}, Dir: "/", Output: "/scratch/out", Tasks: 12, Parallel: 3}
	f, e := newFake(map[string]string{"squeue": emptyQueue, "sbatch": "40\n"})
	if id, err := e.Submit(t.Context(), r); err != nil || id != "40" {
		t.Fatalf("%q, %v", id, err)
	}
	c := f.called[1]
	if !slices.Contains(c.Argv, "--array=0-11%3") || !slices.Contains(c.Argv, "--output=/scratch/out.%a") {
		t.Errorf("sbatch was called as %q", c.Argv)
	}
	if script := "#!/bin/sh\ncd -- '/' || exit 1\nexec '/opt/optimize' 'x' \"$SLURM_ARRAY_TASK_ID\"\n"; c.Stdin != script {
		t.Errorf("script\n%s\nwant\n%s", c.Stdin, script)
	}
	tasks := emptyQueue
	for _, row := range []string{"42|RUNNING", "40|COMPLETED", "41|RUNNING"} {
		tasks += row + "|None|2022-01-01T00:00:00|N/A|0||optimize.sweep.a.0.0|\n"
	}
	_, e = newFake(map[string]string{"squeue": tasks, "sbatch": "99\n"})
	if id, err := e.Submit(t.Context(), r); err != nil || id != "40" {
		t.Errorf("job %q, %v, want that of the array, 40", id, err)
	}
	r.Parallel = 0
	if argv, err := submission(r); err != nil || !slices.Contains(argv, "--array=0-11") {
		t.Errorf("%q, %v", argv, err)
	}
	r.Tasks = -1
	if _, err := submission(r); err == nil {
		t.Error("a negative number of tasks is accepted")
	}
}

// TestSubmitAsksForLittle checks that zero fields are left to Slurm.
func TestSubmitAsksForLittle(t *testing.T) {
	argv, err := submission(engine.Request{Key: "k", Argv: []string{"/bin/true"}, Dir: "/", Output: "/dev/null"})
	want := []string{"sbatch", "--parsable", "--export=ALL", "--job-name=k", "--chdir=/", "--output=/dev/null", "--open-mode=append", "--no-requeue",
		"--nodes=1", "--ntasks-per-node=1"}
	if err != nil || !slices.Equal(argv, want) {
		t.Errorf("%q, %v, want %q", argv, err, want)
	}
}

// TestOneRequestOfGPUs checks that the type and number of GPUs are those of the place whatever options of the site request, and that
// these keep their other generic resources.
func TestOneRequestOfGPUs(t *testing.T) {
	for _, c := range []struct {
		extra []string
		gpus  int
		want  []string
	}{
		{[]string{"--gres=gpu:a100"}, 4, []string{"--gres=gpu:a100:4"}},
		{[]string{"--gres=gpu:a100", "--account=x"}, 4, []string{"--gres=gpu:a100:4", "--account=x"}},
		{[]string{"--gpus=a100:1", "-Ga100:1", "--gpus-per-node=1", "--gpus-per-task=1"}, 4, []string{"--gres=gpu:a100:4"}},
		{[]string{"--gres=gpu:a100,nvme:2", "--gres=license"}, 4, []string{"--gres=gpu:a100:4,nvme:2,license"}},
		{[]string{"--gres=gpu:1", "--gpus=1"}, 0, []string{"--gres=gpu:1", "--gpus=1"}},
	} {
		argv, err := submission(engine.Request{Key: "k", Argv: []string{"/bin/true"}, Dir: "/", Output: "/dev/null", Place: engine.Place{GPUs: c.gpus, GPUType: "a100"}, Extra: c.extra})
		if got := argv[len(argv)-len(c.want):]; err != nil || !slices.Equal(got, c.want) || slices.ContainsFunc(argv[:len(argv)-len(c.want)], func(o string) bool { return strings.HasPrefix(o, "--g") }) {
			t.Errorf("%q with %d GPUs: %q, %v, want %q", c.extra, c.gpus, argv, err, c.want)
		}
	}
}

// TestRemedyForATooLargeJob checks that a refusal because of the size of a job names the options that reduce it, and no other does.
func TestRemedyForATooLargeJob(t *testing.T) {
	for message, want := range map[string]bool{
		"sbatch: error: Batch job submission failed: Requested node configuration is not available":                                                         true,
		"sbatch: error: CPU count per node can not be satisfied\nsbatch: error: Batch job submission failed: Requested node configuration is not available": true,
		"sbatch: error: Memory specification can not be satisfied":                                                                                          true,
		"sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified":                                            false,
	} {
		e := &Engine{Run: func(_ context.Context, c Command) (Result, error) {
			if c.Argv[0] == "squeue" {
				return Result{Stdout: emptyQueue}, nil
			}
			return Result{Stderr: message, Code: 1}, nil
		}}
		_, err := e.Submit(t.Context(), request())
		if !errors.Is(err, engine.ErrRefused) || strings.Contains(err.Error(), "16 CPUs, 62.5 GiB") != want || strings.Contains(err.Error(), "--cpus and --memory") != want {
			t.Errorf("%s: %v", message, err)
		}
	}
}

func TestSubmitIsIdempotent(t *testing.T) {
	row := func(id, state, name string) string {
		return id + "|" + state + "|None|2022-01-01T00:00:00|N/A|0||" + name + "|\n"
	}
	for name, c := range map[string]struct {
		queue, want string
	}{
		"pending":               {row("7", "PENDING", "optimize.r1.2"), "7"},
		"running":               {row("8", "RUNNING", "optimize.r1.2"), "8"},
		"unknown state":         {row("8", "NEW_STATE", "optimize.r1.2"), "8"},
		"ended":                 {row("7", "FAILED", "optimize.r1.2"), "99"},
		"ending":                {row("7", "COMPLETING", "optimize.r1.2"), "99"},
		"the latest":            {row("10", "PENDING", "optimize.r1.2") + row("9", "PENDING", "optimize.r1.2"), "10"},
		"another name":          {row("7", "PENDING", "optimize.r1.22"), "99"},
		"ended and another one": {row("7", "FAILED", "optimize.r1.2") + row("8", "RUNNING", "optimize.r1.2"), "8"},
	} {
		f, e := newFake(map[string]string{"squeue": emptyQueue + c.queue, "sbatch": "99\n"})
		if id, err := e.Submit(t.Context(), request()); err != nil || id != c.want {
			t.Errorf("%s: job %q, %v, want %s; called %q", name, id, err, c.want, f.lines())
		}
	}
}

func TestSubmitRejects(t *testing.T) {
	for name, change := range map[string]func(r *engine.Request){
		"key with a comma":     func(r *engine.Request) { r.Key = "a,b" },
		"empty key":            func(r *engine.Request) { r.Key = "" },
		"key as an option":     func(r *engine.Request) { r.Key = "-x" },
		"no program":           func(r *engine.Request) { r.Argv = nil },
		"relative program":     func(r *engine.Request) { r.Argv = []string{"optimize"} },
		"relative directory":   func(r *engine.Request) { r.Dir = "runs" },
		"backslash in output":  func(r *engine.Request) { r.Output = `/scratch/a\b` },
		"zero byte":            func(r *engine.Request) { r.Argv = append(r.Argv, "a\x00b") },
		"negative":             func(r *engine.Request) { r.Place.GPUs = -1 },
		"not a number":         func(r *engine.Request) { r.Place.Memory = resources.GiB(math.NaN()) },
		"a script":             func(r *engine.Request) { r.Extra = []string{"job.sh"} },
		"a separate value":     func(r *engine.Request) { r.Extra = []string{"--account", "phys"} },
		"array":                func(r *engine.Request) { r.Extra = []string{"-a1-5"} },
		"array, abbreviated":   func(r *engine.Request) { r.Extra = []string{"--arr=1-5"} },
		"wait":                 func(r *engine.Request) { r.Extra = []string{"-W"} },
		"another cluster":      func(r *engine.Request) { r.Extra = []string{"--clusters=west"} },
		"another name":         func(r *engine.Request) { r.Extra = []string{"--job-name=x"} },
		"end of options":       func(r *engine.Request) { r.Extra = []string{"--"} },
		"standard input":       func(r *engine.Request) { r.Extra = []string{"-"} },
		"an empty site option": func(r *engine.Request) { r.Extra = []string{""} },
	} {
		f, e := newFake(map[string]string{"squeue": emptyQueue, "sbatch": "1\n"})
		r := request()
		change(&r)
		id, err := e.Submit(t.Context(), r)
		switch {
		case err == nil:
			t.Errorf("%s: submitted as %s", name, id)
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: error of several lines: %v", name, err)
		case len(f.called) > 0:
			t.Errorf("%s: called %q before the error", name, f.lines())
		}
	}
	for _, extra := range []string{"--qos=high", "-Aphys", "--gpus-per-node=a100:2", "--exclusive", "--constraint=[a|b]*2", "--mail-user=a b"} {
		if err := checkOption(extra); err != nil {
			t.Error(err)
		}
	}
}

// TestShellQuote lets a shell read what was quoted.
func TestShellQuote(t *testing.T) {
	for _, s := range []string{"", "a", "a b", "it's", `\`, "$HOME `id` \"x\"", "a\nb\n", "*", "-n", "é\x80"} {
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+shellQuote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q became %q, %v", s, out, err)
		}
	}
}

func TestSubmitEnvironment(t *testing.T) {
	login := []string{"A=1", "SLURM_MPI_TYPE=pmix", "SBATCH_ACCOUNT=phys", "SBATCH_WAIT=1", "SBATCH_ARRAY_INX=1-9"}
	if got := submitEnvironment(login); !slices.Equal(got, login[:3]) {
		t.Errorf("on a login node: %q", got)
	}
	inside := []string{"SLURM_JOB_ID=1", "SLURM_MEM_PER_CPU=100", "SLURM_CONF=/c", "SLURMD_NODENAME=n0", "CUDA_VISIBLE_DEVICES=0", "SLURM_CLUSTERS=east"}
	if got, want := submitEnvironment(inside), []string{"SLURM_CONF=/c", "CUDA_VISIBLE_DEVICES=0", "SLURM_CLUSTERS=east"}; !slices.Equal(got, want) {
		t.Errorf("in an allocation: %q, want %q", got, want)
	}
}

// TestLostAnswer checks the case in which sbatch submits the job, but its answer is lost: the next call finds the job.
func TestLostAnswer(t *testing.T) {
	submitted := 0
	e := &Engine{Run: func(_ context.Context, c Command) (Result, error) {
		switch {
		case c.Argv[0] == "sbatch":
			submitted++
			return Result{Code: 1, Stderr: "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"}, nil
		case submitted == 0:
			return Result{Stdout: emptyQueue}, nil
		}
		return Result{Stdout: emptyQueue + "5|PENDING|None|2022-01-01T00:00:00|N/A|0||optimize.r1.2|\n"}, nil
	}}
	if _, err := e.Submit(t.Context(), request()); !errors.Is(err, engine.ErrUnreachable) {
		t.Fatal(err)
	}
	if id, err := e.Submit(t.Context(), request()); err != nil || id != "5" || submitted != 1 {
		t.Errorf("job %q, %v after %d submissions", id, err, submitted)
	}
}

// TestLimit checks that the time limit among the options of the site is read in every form of sbatch.
func TestLimit(t *testing.T) {
	for options, want := range map[string]time.Duration{
		"": 0, "--account=x": 0, "--time=90": 90 * time.Minute, "-t30": 30 * time.Minute, "--time=1:30": 90 * time.Second, "--time=2:00:00": 2 * time.Hour,
		"--time=1-2": 26 * time.Hour, "--time=1-02:03:04": 26*time.Hour + 3*time.Minute + 4*time.Second, "--time=UNLIMITED": 0, "--time=soon": 0, "--time=5 --time=7": 7 * time.Minute,
	} {
		if got := (&Engine{}).Limit(strings.Fields(options)); got != want {
			t.Errorf("%q: %v, want %v", options, got, want)
		}
	}
}

// TestCheckOptions: options that cannot be passed on, or that sbatch does not know, are refused before anything is
// submitted; what only prevents a start now, and a silent controller, are not.
func TestCheckOptions(t *testing.T) {
	for name, c := range map[string]struct {
		options []string
		says    string // sbatch, with exit status 1; empty: 0
		want    string
	}{
		"none":            {nil, "must not be asked: invalid", ""},
		"accepted":        {[]string{"--account=phys"}, "", ""},
		"not an option":   {[]string{"gpu"}, "", "write options of sbatch with their values"},
		"reserved":        {[]string{"--nodes=2"}, "", "--nodes is set by this program"},
		"empty":           {[]string{""}, "", "write options of sbatch"},
		"unknown":         {[]string{"--frobnicate=1"}, "sbatch: unrecognized option '--frobnicate=1'", "unrecognized option"},
		"unknown account": {[]string{"--account=x"}, "allocation failure: Invalid account or account/partition combination specified", "Invalid account"},
		"busy":            {[]string{"--account=phys"}, "allocation failure: Requested nodes are busy", ""},
		"no controller":   {[]string{"--account=phys"}, "Unable to contact slurm controller (connect failure): invalid", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Engine{Run: func(context.Context, Command) (Result, error) {
				if c.says != "" {
					return Result{Code: 1, Stderr: c.says + "\n"}, nil
				}
				return Result{}, nil
			}}
			err := e.CheckOptions(t.Context(), c.options)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

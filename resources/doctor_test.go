package resources

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDoctorOnThisMachine(t *testing.T) {
	fs := Doctor(context.Background(), Roots{})
	names := map[string]Finding{}
	for _, f := range fs {
		if f.Status != OK && f.Status != Warn && f.Status != Missing {
			t.Errorf("%s has status %q", f.Name, f.Status)
		}
		if f.Found == "" {
			t.Errorf("%s found nothing to say", f.Name)
		}
		if f.Status == OK && (f.Cost != "" || f.Do != "") {
			t.Errorf("%s is well and still costs %q", f.Name, f.Cost)
		}
		names[f.Name] = f
	}
	for _, want := range []string{"machine", "GPUs", "cgroups mounted", "CPU quota", "CPU set", "memory limit", "process group",
		"open files", "processes", "address space", "inotify", "clock", "Slurm"} {
		if _, ok := names[want]; !ok {
			t.Errorf("no word on %s", want)
		}
	}
	left, _ := filepath.Glob(cgroupRoot + "/*/" + groupPrefix + "doctor-*")
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDoctorOnARecordedMachine(t *testing.T) {
	r := machine(t, "none")
	var cg, inotify Finding
	for _, f := range Doctor(context.Background(), r) {
		switch f.Name {
		case "cgroups mounted":
			cg = f
		case "inotify":
			inotify = f
		}
	}
	if cg.Status != Missing || !strings.Contains(cg.Do, "Delegate=yes") {
		t.Errorf("%+v", cg)
	}
	if inotify.Status != Missing {
		t.Errorf("%+v", inotify)
	}
	if fs := Doctor(context.Background(), Roots{Proc: t.TempDir()}); len(fs) != 1 || fs[0].Status != Missing {
		t.Errorf("without /proc: %+v", fs)
	}
}

func TestSmallInotifyLimitsAreAWarning(t *testing.T) {
	r := machine(t, "none")
	dir := filepath.Join(r.Proc, "sys/fs/inotify")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]string{"max_user_instances": "8\n", "max_user_watches": "65536\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(n), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if f := checkInotify(r); f.Status != Warn || f.Do == "" {
		t.Errorf("%+v", f)
	}
}

// fakePath fills a directory with programs and makes it the only one on PATH.
func fakePath(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return dir
}

func TestInterpreters(t *testing.T) {
	dir := fakePath(t, map[string]string{
		"python3":           "#!/bin/sh\necho /opt/py/bin/python3.12\necho '3.12.1; torch 2.5.0; numpy 2.0.1'\n",
		"python":            "#!/bin/sh\necho /opt/py/bin/python3.12\necho 'the same again'\n",
		"python3.9":         "#!/bin/sh\nexit 127\n", // a version manager's shim
		"python3.11":        "#!/bin/sh\necho /opt/py11\necho 3.11.7\n",
		"python3.12-config": "#!/bin/sh\necho must not be asked\n",
	})
	fs := checkPythons(context.Background())
	var got []string
	for _, f := range fs {
		got = append(got, string(f.Status)+" "+strings.TrimPrefix(f.Name, "Python "+dir+"/")+": "+f.Found)
	}
	diff(t, "interpreters", got, []string{"ok python3: 3.12.1; torch 2.5.0; numpy 2.0.1", "ok python3.11: 3.11.7; no torch, no numpy"})
}

func TestBrokenAndHangingInterpreters(t *testing.T) {
	fakePath(t, map[string]string{"python3": "#!/bin/sh\necho 'ModuleNotFoundError: encodings' >&2\nexit 1\n"})
	fs := checkPythons(context.Background())
	fakePath(t, map[string]string{"python": "#!/bin/sh\nexec /bin/sleep 600\n"})
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	fs = append(fs, checkPythons(ctx)...)
	if len(fs) != 2 || fs[0].Status != Warn || fs[1].Status != Warn || !strings.Contains(fs[0].Found, "encodings") {
		t.Errorf("%+v", fs)
	}
}

func TestSlurmCommands(t *testing.T) {
	script := "#!/bin/sh\n"
	all := []string{"sbatch", "squeue", "scancel", "sacct"}
	cases := map[string]struct {
		have  []string
		ping  string // program scontrol; empty: not installed
		want  Status
		found string
	}{
		"all":           {all, "echo 'Slurmctld(primary) at c1 is UP'", OK, "sacct; Slurmctld(primary) at c1 is UP"},
		"backup":        {all, "echo 'Slurmctld(primary) at c1 is DOWN'; echo 'Slurmctld(backup) at c2 is UP'; exit 1", OK, "UP"},
		"down":          {all, "echo 'Slurmctld(primary) at c1 is DOWN'; exit 1", Warn, "no cluster answers: Slurmctld(primary) at c1 is DOWN"},
		"not set up":    {all, "echo 'scontrol: fatal: no configuration source' >&2; exit 1", Warn, "no configuration source"},
		"silent":        {all, "exit 0", Warn, "prints nothing"},
		"no scontrol":   {all, "", Warn, "scontrol"},
		"some commands": {[]string{"sbatch"}, "", Warn, "without squeue"},
		"none":          {nil, "", Missing, "no commands"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			programs := map[string]string{}
			for _, p := range c.have {
				programs[p] = script
			}
			if c.ping != "" {
				programs["scontrol"] = script + c.ping + "\n"
			}
			fakePath(t, programs)
			if f := checkSlurm(context.Background()); f.Status != c.want || !strings.Contains(f.Found, c.found) || (f.Cost == "") != (f.Status == OK) {
				t.Errorf("%+v, want %s, %q", f, c.want, c.found)
			}
		})
	}
	fakePath(t, map[string]string{"sbatch": script, "squeue": script, "scancel": script, "sacct": script, "scontrol": script + "exec /bin/sleep 600\n"})
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if f := checkSlurm(ctx); f.Status != Warn || !strings.Contains(f.Found, "no answer") {
		t.Errorf("a controller that hangs: %+v", f)
	}
}

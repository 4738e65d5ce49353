package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// machine is a folder with scripts and a separate PATH.
type machine struct{ dir, bin string }

func newMachine(t *testing.T, programs ...string) machine {
	t.Helper()
	m := machine{dir: t.TempDir(), bin: t.TempDir()}
	for _, p := range programs {
		m.write(t, filepath.Join(m.bin, p), "#!/bin/sh\nexit 0\n", 0o755)
	}
	return m
}

func (m machine) write(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(m.dir, name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func (m machine) options() ResolveOptions {
	return ResolveOptions{Dir: m.dir, LookPath: func(n string) (string, error) {
		if strings.Contains(n, "/") {
			return exec.LookPath(n)
		}
		return exec.LookPath(filepath.Join(m.bin, n))
	}}
}

func TestResolve(t *testing.T) {
	m := newMachine(t, "python3", "bash", "mytrainer", "python3.12", "env")
	m.write(t, "train.py", "import torch\nEPOCHS = 4\n", 0o644)
	m.write(t, "-x y\n.py", "EPOCHS = 5\n", 0o644)
	m.write(t, "größe.py", "EPOCHS = 6\n", 0o644)
	m.write(t, "exec.sh", "#!/bin/sh\npython3 train.py --epochs 8\n", 0o755)
	m.write(t, "plain.sh", "python3 train.py\n", 0o644)
	m.write(t, "with-line.sh", "#!/bin/sh -e\npython3 train.py\n", 0o644)
	m.write(t, "tool", "#!/bin/sh\n", 0o755)
	m.write(t, "pytool", "#!/usr/bin/env python3\nBATCH_SIZE = 3\n", 0o644)
	m.write(t, "binary", "\x7fELF\x00\x01", 0o755)
	m.write(t, "pkg/mod.py", "EPOCHS = 7\n", 0o644)
	if err := os.Symlink("train.py", filepath.Join(m.dir, "link.py")); err != nil {
		t.Fatal(err)
	}
	in := func(n string) string { return filepath.Join(m.dir, n) }
	bin := func(n string) string { return filepath.Join(m.bin, n) }
	tests := map[string]struct {
		train  string
		args   []string
		python string
		want   []string
		kind   string
		epochs string
	}{
		"python":              {"train.py", []string{"--lr", "1"}, "", []string{bin("python3"), in("train.py"), "--lr", "1"}, "python", "4"},
		"arguments win":       {"train.py", []string{"--epochs=9"}, "", []string{bin("python3"), in("train.py"), "--epochs=9"}, "python", "9"},
		"absolute":            {in("train.py"), nil, "", []string{bin("python3"), in("train.py")}, "python", "4"},
		"interpreter named":   {"train.py", nil, "python3.12", []string{bin("python3.12"), in("train.py")}, "python", "4"},
		"interpreter path":    {"train.py", nil, bin("python3.12"), []string{bin("python3.12"), in("train.py")}, "python", "4"},
		"link":                {"link.py", nil, "", []string{bin("python3"), in("link.py")}, "python", "4"},
		"odd name":            {"-x y\n.py", nil, "", []string{bin("python3"), in("-x y\n.py")}, "python", "5"},
		"UTF-8 name":          {"größe.py", nil, "", []string{bin("python3"), in("größe.py")}, "python", "6"},
		"executable shell":    {"exec.sh", []string{"a"}, "", []string{in("exec.sh"), "a"}, "shell", "8"},
		"shell, no #! line":   {"plain.sh", nil, "", []string{bin("bash"), in("plain.sh")}, "shell", "4"},
		"shell, not +x":       {"with-line.sh", nil, "", []string{"/bin/sh", "-e", in("with-line.sh")}, "shell", "4"},
		"tool":                {"tool", nil, "", []string{in("tool")}, "shell", ""},
		"binary":              {"binary", nil, "", []string{in("binary")}, "executable", ""},
		"command":             {"", []string{"mytrainer", "--epochs", "3"}, "", []string{bin("mytrainer"), "--epochs", "3"}, "command", "3"},
		"command with python": {"", []string{"python3", "-u", "train.py", "--epochs", "3"}, "", []string{bin("python3"), "-u", "train.py", "--epochs", "3"}, "command", "3"},
		"command by path":     {"", []string{"./exec.sh"}, "", []string{in("exec.sh")}, "command", "8"},
		"variables":           {"", []string{"A=1", "B=a b", "python3", "train.py"}, "", []string{bin("env"), "A=1", "B=a b", "python3", "train.py"}, "command", "4"},
		"python -m":           {"", []string{"python3", "-m", "pkg.mod"}, "", []string{bin("python3"), "-m", "pkg.mod"}, "command", "7"},
		"python -c":           {"", []string{"python3", "-c", "EPOCHS = 2"}, "", []string{bin("python3"), "-c", "EPOCHS = 2"}, "command", "2"},
		"launcher":            {"", []string{"python3", "-m", "torch.distributed.run", "--nproc_per_node", "2", "train.py"}, "", []string{bin("python3"), "-m", "torch.distributed.run", "--nproc_per_node", "2", "train.py"}, "command", "4"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := m.options()
			o.Python = test.python
			argv, ins, err := Resolve(test.train, test.args, o)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(argv, test.want) {
				t.Errorf("argv %q, want %q", argv, test.want)
			}
			epochs := ""
			if l := ReadCommand(argv, o.Dir).Lengths(); len(l) > 0 {
				epochs = fmt.Sprint(l[0].Units)
			}
			if ins.Kind != test.kind || epochs != test.epochs {
				t.Errorf("kind %s, epochs %q; want %s, %q", ins.Kind, epochs, test.kind, test.epochs)
			}
		})
	}
}

// TestScriptOfCommand: the path is that of the file that was inspected, not that of its interpreter.
func TestScriptOfCommand(t *testing.T) {
	m := newMachine(t, "python3", "bash", "mytrainer")
	script, shell := m.write(t, "train.py", "import torch\n", 0o644), m.write(t, "run.sh", "python3 train.py\n", 0o644)
	program := func(n string) string { return filepath.Join(m.bin, n) }
	for line, want := range map[string]string{
		"python3 -u train.py --epochs 3": script, "bash run.sh": shell, "mytrainer --epochs 3": program("mytrainer"),
		"python3 -c EPOCHS=2": program("python3"), "python3 gone.py": program("python3"),
	} {
		if _, ins, err := Resolve("", strings.Fields(line), m.options()); err != nil || ins.Path != want {
			t.Errorf("%s: script %s, %v; want %s", line, ins.Path, err, want)
		}
	}
}

// TestResolveRefuses: input that cannot be started is rejected before any process starts.
func TestResolveRefuses(t *testing.T) {
	m := newMachine(t, "python3")
	m.write(t, "train_digits.py", "", 0o644)
	m.write(t, "folder/train.py", "", 0o644)
	m.write(t, "notes", "just words\n", 0o644)
	m.write(t, "words", "just words\n", 0o755)
	m.write(t, "empty", "", 0o755)
	m.write(t, "crlf.sh", "#!/bin/sh\r\nexit 0\r\n", 0o755)
	m.write(t, "badline", "#!/no/such/python\n", 0o755)
	m.write(t, "badenv", "#!/usr/bin/env python9\n", 0o755)
	m.write(t, "venv/bin/python3", "#!/bin/sh\n", 0o755)
	m.write(t, "pythonx", "not executable", 0o644)
	_ = os.Symlink("gone.py", filepath.Join(m.dir, "dangling.py"))
	_ = os.Symlink("loop.py", filepath.Join(m.dir, "loop.py"))
	if err := syscall.Mkfifo(filepath.Join(m.dir, "pipe.py"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		train  string
		args   []string
		python string
		want   []string
	}{
		"missing":               {"nowhere.py", nil, "", []string{"nowhere.py", "no such file", "check the path"}},
		"nearly right":          {"train_digit.py", nil, "", []string{"no such file", "did you mean", "train_digits.py"}},
		"without its ending":    {"train_digits", nil, "", []string{"did you mean", "train_digits.py"}},
		"under a file":          {"notes/train.py", nil, "", []string{"no such file"}},
		"directory":             {"folder", nil, "", []string{"is a directory", "did you mean", "folder/train.py"}},
		"newline in the name":   {"no\nsuch.py", nil, "", []string{`no\nsuch.py`}},
		"empty name, no args":   {"", nil, "", []string{"no script and no command", "--train SCRIPT"}},
		"not executable":        {"notes", nil, "", []string{"not executable", "chmod +x"}},
		"no #! line":            {"words", nil, "", []string{"#! line", "env python3"}},
		"empty file":            {"empty", nil, "", []string{"empty"}},
		"carriage return":       {"crlf.sh", nil, "", []string{"line 1 ends with a carriage return"}},
		"wrong #! line":         {"badline", nil, "", []string{"/no/such/python", "line 1"}},
		"wrong env":             {"badenv", nil, "", []string{"python9", "not on PATH"}},
		"dangling link":         {"dangling.py", nil, "", []string{"link to something that is not there"}},
		"loop of links":         {"loop.py", nil, "", []string{"loop.py", "symbolic links"}},
		"pipe":                  {"pipe.py", nil, "", []string{"not a regular file"}},
		"no such interpreter":   {"train_digits.py", nil, "python9", []string{"python9", "--python"}},
		"interpreter missing":   {"train_digits.py", nil, "venv/bin/python9", []string{"venv/bin/python9", "no such file"}},
		"interpreter directory": {"train_digits.py", nil, "venv", []string{"is a directory", "venv/bin/python3"}},
		"interpreter not +x":    {"train_digits.py", nil, "./pythonx", []string{"pythonx", "not an executable program"}},
		"interpreter no Python": {"train_digits.py", nil, "/bin/sh", []string{"/bin/sh", "is not a Python"}},
		"no such command":       {"", []string{"no-such-trainer", "-x"}, "", []string{"no-such-trainer", "no such program on PATH"}},
		"command in the folder": {"", []string{"notes"}, "", []string{"did you mean ./notes?"}},
		"command not +x":        {"", []string{"./notes"}, "", []string{"not executable"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := m.options()
			o.Python = test.python
			argv, _, err := Resolve(test.train, test.args, o)
			if err == nil {
				t.Fatalf("started as %q", argv)
			}
			if !errors.Is(err, errScript) || strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 600 {
				t.Errorf("not one line of refusal: %q", err)
			}
			for _, w := range test.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
	t.Run("no Python at all", func(t *testing.T) {
		o := m.options()
		o.LookPath = func(string) (string, error) { return "", exec.ErrNotFound }
		if _, _, err := Resolve("train_digits.py", nil, o); err == nil || !strings.Contains(err.Error(), "neither python3 nor python") {
			t.Error(err)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		if os.Getuid() == 0 {
			t.Skip("root reads everything")
		}
		m.write(t, "secret.py", "", 0o000)
		if _, _, err := Resolve("secret.py", nil, m.options()); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Error(err)
		}
	})
}

// TestResolvedStarts runs the argv returned by Resolve.
func TestResolvedStarts(t *testing.T) {
	m := machine{dir: t.TempDir()}
	m.write(t, "-odd name\n.sh", "echo \"$1\"\n", 0o644)
	argv, _, err := Resolve("-odd name\n.sh", []string{"it ran"}, ResolveOptions{Dir: m.dir})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "it ran" {
		t.Errorf("%q: %v: %s", argv, err, out)
	}
}

func TestInspectArgv(t *testing.T) {
	tests := map[string]struct {
		args                         []string
		framework, script, batchSize string
	}{
		"python":     {[]string{"python3", "testdata/resnet_cifar.py", "--batch-size", "11"}, "pytorch", "testdata/resnet_cifar.py", "11"},
		"torchrun":   {[]string{"torchrun", "--standalone", "testdata/imagenet_ddp.py"}, "pytorch", "testdata/imagenet_ddp.py", "256"},
		"wrapped":    {[]string{"nice", "-n", "5", "env", "A=b", "python3.11", "-X", "dev", "testdata/xgb.py"}, "xgboost", "testdata/xgb.py", ""},
		"limited":    {[]string{"prlimit", "--nofile=64", "python3", "testdata/xgb.py"}, "xgboost", "testdata/xgb.py", ""},
		"shell":      {[]string{"bash", "testdata/run.sh"}, "pytorch", "testdata/imagenet_ddp.py", "512"},
		"unknown":    {[]string{"./a.out", "--epochs", "5"}, "", "", ""},
		"nothing":    {nil, "", "", ""},
		"not there":  {[]string{"python3", "testdata/none.py"}, "", "", ""},
		"hydra":      {[]string{"python3", "testdata/lightning_vit.py", "data.batch_size=96"}, "lightning", "testdata/lightning_vit.py", "96"},
		"flag alone": {[]string{"python3", "testdata/lightning_vit.py", "--batch_size"}, "lightning", "testdata/lightning_vit.py", "48"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ins, ok := inspectArgv(test.args, "", 0)
			if script := cmp.Or(ins.Script, ins.Path); ok != (script != "") || ins.Framework.Value != test.framework || script != test.script || ins.BatchSize.Value != test.batchSize {
				t.Errorf("%v, framework %q, script %q, batch size %q; want %+v", ok, ins.Framework.Value, script, ins.BatchSize.Value, test)
			}
		})
	}
}

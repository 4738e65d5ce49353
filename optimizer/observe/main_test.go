package observe

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
)

// patience bounds the wait for an event; no test asserts a duration.
const patience = 2 * time.Minute

// pythonPath is the interpreter of the tests with stand-ins for frameworks.
var pythonPath = sync.OnceValue(func() string {
	text, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
})

// observed is a job whose process reports to a Reader.
type observed struct {
	t      *testing.T
	dir    string // the job's working directory
	in     Installation
	env    []string
	python string
	reader *Reader
	rows   []Progress
}

// newObserved prepares a job in its own directory, with the stand-ins on the user's PYTHONPATH.
func newObserved(t *testing.T) *observed {
	t.Helper()
	python := pythonPath()
	if python == "" {
		t.Skip("python3 is not installed")
	}
	in, err := Install(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fakes, err := filepath.Abs("testdata/fakes")
	if err != nil {
		t.Fatal(err)
	}
	env := slices.DeleteFunc(os.Environ(), func(item string) bool {
		name, _, _ := strings.Cut(item, "=")
		return name == "PYTHONUNBUFFERED" || name == pathVariable || strings.HasPrefix(name, switchVariable)
	})
	env = append(env, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+fakes)
	return &observed{t: t, dir: t.TempDir(), in: in, env: env, python: python, reader: NewReader(in.Reports)}
}

// write writes a file in the job's directory and returns its path.
func (o *observed) write(name, text string) string {
	o.t.Helper()
	path := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		o.t.Fatal(err)
	}
	return path
}

func (o *observed) command(env []string, argv ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(argv[0], argv[1:]...)
	out := &bytes.Buffer{}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = o.dir, env, out, out
	cmd.WaitDelay = 10 * time.Second
	return cmd, out
}

// run runs a script under the observer to its end and returns its output and exit code.
func (o *observed) run(script string, args ...string) (string, int) {
	o.t.Helper()
	argv := append([]string{o.python, o.write("script.py", script)}, args...)
	return o.exec(o.in.Environ(o.env), argv...)
}

// bare runs a script without the observer.
func (o *observed) bare(script string, args ...string) (string, int) {
	o.t.Helper()
	argv := append([]string{o.python, o.write("script.py", script)}, args...)
	return o.exec(o.env, argv...)
}

func (o *observed) exec(env []string, argv ...string) (string, int) {
	o.t.Helper()
	cmd, out := o.command(env, argv...)
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		o.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// must runs a script that must succeed and reads its reports.
func (o *observed) must(script string, args ...string) Facts {
	o.t.Helper()
	if out, code := o.run(script, args...); code != 0 {
		o.t.Fatalf("exit code %d:\n%s", code, out)
	}
	return o.poll()
}

// poll reads all available reports.
func (o *observed) poll() Facts {
	o.t.Helper()
	for {
		rows, err := o.reader.Poll(time.Now())
		if err != nil {
			o.t.Fatal(err)
		}
		if len(rows) == 0 {
			return o.reader.Facts()
		}
		o.rows = append(o.rows, rows...)
	}
}

// await polls until done holds.
func (o *observed) await(what string, done func(Facts) bool) Facts {
	o.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if f := o.poll(); done(f) {
			return f
		}
	}
	o.t.Fatalf("no %s; facts: %+v", what, o.reader.Facts())
	return Facts{}
}

// last returns a column of the last row of progress, NaN if absent.
func (o *observed) last(c trainlog.Column) float64 {
	o.t.Helper()
	if len(o.rows) == 0 {
		o.t.Fatal("no progress was reported")
	}
	v, _ := o.rows[len(o.rows)-1].Row.Value(c)
	return v
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// reports returns the text of all reports.
func (o *observed) reports() string {
	o.t.Helper()
	var out strings.Builder
	files, _ := filepath.Glob(filepath.Join(o.in.Reports, "*.jsonl"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			o.t.Fatal(err)
		}
		out.Write(text)
	}
	return out.String()
}

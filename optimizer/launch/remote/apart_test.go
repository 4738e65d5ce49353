package remote

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const asApart = "__apart"

// enterApart is the test program as a process in its own name spaces: DIRECTORY CHANGE… -- COMMAND….
func enterApart(args []string) int {
	for i, a := range args {
		if a == "--" {
			os.Stderr.WriteString(EnterApart(args[0], args[1:i], 1, args[i+1:]).Error() + "\n")
		}
	}
	return 1
}

// TestApart: a command apart sees its files, changes copies of them, and cannot change any other, nor reach the network
// except itself.
func TestApart(t *testing.T) {
	home := t.TempDir()
	dir, work, other := filepath.Join(home, "work", "probe"), filepath.Join(home, "work"), filepath.Join(home, "o, t:her")
	for _, d := range []string{filepath.Join(dir, "scratch"), other} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{work, other} {
		if err := os.WriteFile(filepath.Join(d, "file"), []byte("before"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := `
pwd
cat file
echo after > file && cat file || exit 1
rm -f gone; mkdir -p new/deep && mv new/deep new/moved && echo x > new/moved/x || exit 1
echo after > "$1/file" && cat "$1/file" || exit 1
if (echo bad > "$2/untouched") 2>/dev/null; then echo wrote; exit 1; fi
if (echo bad > /etc/optimize-test) 2>/dev/null; then rm /etc/optimize-test; echo wrote; exit 1; fi
echo result > "$3/result" || exit 1
grep -c . /proc/net/dev
`
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed")
	}
	c := Apart([]string{os.Args[0], asApart, dir, work, other, filepath.Join(home, "missing"), "/", "--", sh, "-c", script, "sh", other, home, dir}, dir)
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Skipf("this machine has no name spaces for it: %v", err)
	}
	if err := c.Wait(); err != nil {
		if strings.Contains(out.String(), "operation not permitted") {
			t.Skip(out.String())
		}
		t.Fatalf("%v: %s", err, out.String())
	}
	if want := work + "\nbefore" + "after\nafter\n3\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	for path, want := range map[string]string{filepath.Join(work, "file"): "before", filepath.Join(other, "file"): "before", filepath.Join(dir, "result"): "result\n"} {
		if data, err := os.ReadFile(path); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v, want %q", path, data, err, want)
		}
	}
	for _, d := range []string{filepath.Join(work, "new"), filepath.Join(dir, "scratch", "0"), filepath.Join(home, "untouched")} {
		if _, err := os.Stat(d); err == nil {
			t.Errorf("%s was created", d)
		}
	}
}

// TestOutermost: directories within others, links, files and the root are no copies of their own.
func TestOutermost(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a/b", "ab"} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(home, "ab"), filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(home, n))
		}
		return out
	}
	got := outermost(append(at("a/b", "a", "link", "ab", "none"), "/", "", "relative", os.Args[0]))
	if want := at("a", "ab"); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%v, want %v", got, want)
	}
}

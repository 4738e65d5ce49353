package runs

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"trainopt/optimizer/run"
	"trainopt/resources"
)

// TestJobOutput checks that the output of a job is shown in complete lines as a terminal would leave them, once, and only
// while it is on.
func TestJobOutput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	o := &jobOutput{dir: func(string) string { return dir }}
	expect := func(want string) {
		t.Helper()
		if got := strings.Join(o.next("r"), "|"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	write("job.stdout", strings.Repeat("early\n", 50)+"last\n")
	expect("")
	o.toggle()
	expect(strings.Repeat("early|", outputBefore-1) + "last")
	write("job.stdout", "10 %\r50 %\r100 %\nhalf of a")
	write("job.stderr", "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2Jtext\x9b\xff\n")
	expect("red text\ufffd\ufffd|100 %")
	write("job.stdout", " line\n")
	expect("half of a line")
	expect("")
	write("job.stdout", strings.Repeat("many\n", outputLimit+5))
	if lines := o.next("r"); len(lines) != outputLimit+1 || lines[0] != "… 5 lines left out; all: optimize logs r" {
		t.Errorf("%d lines, the first: %q", len(lines), lines[0])
	}
	o.toggle()
	write("job.stdout", "unseen\n")
	expect("")
}

// TestNoKeyboard checks that nothing but a terminal is read.
func TestNoKeyboard(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, in := range []any{f, strings.NewReader("o"), nil} {
		if k := openKeyboard(in); k != nil || k.pressed() {
			t.Errorf("%T is a keyboard", in)
		}
	}
}

// TestSingleKeys checks that the terminal is set to single keys again after a shell has undone that, as it does when a job is
// suspended, and not after the end.
func TestSingleKeys(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	fd := int(master.Fd())
	saved, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	k := &keyboard{fd: fd, saved: saved}
	for _, when := range []string{"at the start", "after a suspension"} {
		if !k.singleKeys() {
			t.Fatalf("%s: not set", when)
		}
		if now, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil || now.Lflag&(unix.ICANON|unix.ECHO) != 0 {
			t.Errorf("%s: mode %#x, %v", when, now.Lflag, err)
		}
		if err := unix.IoctlSetTermios(fd, unix.TCSETS, saved); err != nil {
			t.Fatal(err)
		}
	}
	if k.close(); k.singleKeys() {
		t.Error("set after the end")
	}
}

// TestMemoryOfTheDevice: the memory of a GPU is shown apart from that of the host; of several devices the fullest one is shown.
func TestMemoryOfTheDevice(t *testing.T) {
	device := func(used float64) run.DeviceUse { return run.DeviceUse{UtilPercent: 80, MemoryGiB: used, TotalGiB: 80} }
	for name, c := range map[string]struct {
		gpus    int
		devices []run.DeviceUse
		want    string
	}{
		"none":             {0, nil, "CPU 12 %, 3.10 GiB"},
		"one":              {1, []run.DeviceUse{device(20)}, "CPU 12 %, 3.10 GiB, GPU 80 %, 20.0 GiB of 80.0 GiB GPU memory"},
		"the fullest":      {2, []run.DeviceUse{device(20), device(40)}, "CPU 12 %, 3.10 GiB, GPU 80 %, 40.0 GiB of 80.0 GiB GPU memory"},
		"unknown":          {1, []run.DeviceUse{device(math.NaN())}, "CPU 12 %, 3.10 GiB, GPU 80 %"},
		"one of two known": {2, []run.DeviceUse{device(math.NaN()), device(30)}, "CPU 12 %, 3.10 GiB, GPU 80 %, 30.0 GiB of 80.0 GiB GPU memory"},
		"nothing read yet": {1, nil, "CPU 12 %, 3.10 GiB, GPU 80 %"},
	} {
		s := run.Status{Allocation: resources.Allocation{GPUs: c.gpus, CPUs: 4}, CPUUtil: 12, GPUUtil: 80, MemoryGiB: 3.1, Devices: c.devices}
		if got := strings.ReplaceAll(usePart(s), "\u00a0", " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

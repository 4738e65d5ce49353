package monitor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// clockTick is the frequency of the times in /proc/PID/stat: 100 per second on every Linux (USER_HZ).
const clockTick = 100

func (t *Tree) procPath(pid int, name string) string {
	root := t.Proc
	if root == "" {
		root = "/proc"
	}
	return filepath.Join(root, strconv.Itoa(pid), name)
}

// readSmallFile reads a small file into the tree's buffer; the result is valid until the next call.
func (t *Tree) readSmallFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if cap(t.buf) == 0 {
		t.buf = make([]byte, 8<<10)
	}
	n := 0
	for n < cap(t.buf) {
		k, err := f.Read(t.buf[n:cap(t.buf)])
		n += k
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, notThere(err)
		}
	}
	return t.buf[:n], nil
}

// readProc reads one process: stat, and where permitted status (memory) and io.
func (t *Tree) readProc(pid int, memory bool) (procState, error) {
	b, err := t.readSmallFile(t.procPath(pid, "stat"))
	if err != nil {
		return procState{}, err
	}
	p, err := parseStat(pid, b)
	if err != nil {
		return procState{}, err
	}
	if p.zombie {
		return p, nil
	}
	if memory {
		if b, err := t.readSmallFile(t.procPath(pid, "status")); err == nil {
			p.rss = 1024 * (field(b, "RssAnon:") + field(b, "RssShmem:"))
		}
	}
	if b, err := t.readSmallFile(t.procPath(pid, "io")); err == nil {
		p.io = [2]float64{field(b, "read_bytes:"), field(b, "write_bytes:")}
		p.hasIO = true
	}
	return p, nil
}

// parseStat parses /proc/PID/stat. The command is in parentheses and may contain any characters, parentheses
// included.
func parseStat(pid int, b []byte) (procState, error) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return procState{}, fmt.Errorf("read /proc/%d/stat: no command in %.60q", pid, b)
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 20 {
		return procState{}, fmt.Errorf("read /proc/%d/stat: %d fields, want at least 20", pid, len(f))
	}
	var n [20]float64
	for _, k := range []int{1, 11, 12, 13, 14, 19} {
		v, err := strconv.ParseUint(string(f[k]), 10, 64)
		if err != nil {
			return procState{}, fmt.Errorf("read /proc/%d/stat: field %d is %.60q", pid, k+3, f[k])
		}
		n[k] = float64(v)
	}
	return procState{
		key:    procKey{pid: pid, start: uint64(n[19])},
		parent: int(n[1]),
		zombie: f[0][0] == 'Z' || f[0][0] == 'X',
		self:   (n[11] + n[12]) / clockTick,
		waited: (n[13] + n[14]) / clockTick,
	}, nil
}

// field returns the number of the line "name: number"; 0 if there is no such line.
func field(b []byte, name string) float64 {
	v, _ := findField(b, name)
	return v
}

// findField returns the number of the line "name: number"; false if there is no such line or the number is invalid.
func findField(b []byte, name string) (float64, bool) {
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				v, err := strconv.ParseFloat(string(f[0]), 64)
				return v, err == nil && v >= 0
			}
		}
	}
	return 0, false
}

// readPSS returns the proportional share of anonymous and shared memory of one process, in bytes. An ended process
// has 0; false means that the kernel does not report it.
func (t *Tree) readPSS(pid int) (float64, bool) {
	b, err := t.readSmallFile(t.procPath(pid, "smaps_rollup"))
	if err != nil {
		return 0, t.ended(pid)
	}
	anon, ok := findField(b, "Pss_Anon:")
	if !ok { // an old kernel, or a process without memory of its own
		return 0, len(b) == 0 || t.ended(pid)
	}
	return 1024 * (anon + field(b, "Pss_Shmem:")), true
}

// ended reports whether a process no longer exists or is a zombie.
func (t *Tree) ended(pid int) bool {
	b, err := t.readSmallFile(t.procPath(pid, "stat"))
	if err != nil {
		return true
	}
	p, err := parseStat(pid, b)
	return err == nil && p.zombie
}

// notThere converts ESRCH, which a read returns when the process has ended in the meantime, to fs.ErrNotExist.
func notThere(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return fs.ErrNotExist
	}
	return err
}

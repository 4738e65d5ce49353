package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

type agentState struct {
	Turn  int
	Spent float64
	Note  string
}

func turn(n int) agentState {
	return agentState{Turn: n, Spent: float64(n) / 4, Note: strings.Repeat("x", 40)}
}

// saved is a disk on which turns 1 and 2 are saved.
func saved(t *testing.T) *Run {
	t.Helper()
	r := &Run{dir: "/runs/a", fs: newMemory()}
	for n := 1; n <= 2; n++ {
		if err := r.SaveState(turn(n)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// operationsOfASave returns the number of operations of a save that keeps the previous state.
func operationsOfASave(t *testing.T) int {
	r := saved(t)
	m := r.fs.(*memory)
	before := m.steps
	must(t, r.SaveState(turn(3)))
	return m.steps - before
}

// Power loss at each operation of a save, with every possible content of the disk.
func TestPowerLossBetweenEachPairOfOperations(t *testing.T) {
	operations := operationsOfASave(t)
	if operations < 7 {
		t.Fatalf("a save has %d operations; this test does not see them", operations)
	}
	for _, firstInProcess := range []bool{false, true} {
		for at := 1; at <= operations+1; at++ {
			r := saved(t)
			m := r.fs.(*memory)
			if firstInProcess { // a new agent that saves before it loads
				r = &Run{dir: r.dir, fs: m}
			}
			m.stopAt, m.fail = m.steps+at, errPower
			err := r.SaveState(turn(3))
			if (err == nil) != (at > operations) {
				t.Fatalf("operation %d of %d: error %v", at, operations, err)
			}
			for i, disk := range m.afterPowerLoss() {
				name := fmt.Sprintf("power lost at %q (%d), disk %d", m.log[len(m.log)-1], at, i)
				r := &Run{dir: r.dir, fs: disk}
				var got agentState
				note, err := r.LoadState(&got)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if got != turn(2) && got != turn(3) {
					t.Errorf("%s: loaded turn %d (%s), want the old state (2) or the new (3)", name, got.Turn, note)
				}
				if at > operations && got != turn(3) {
					t.Errorf("%s: saved and then lost", name)
				}
				if err := r.SaveState(turn(4)); err != nil {
					t.Errorf("%s: cannot save afterwards: %v", name, err)
				}
				if _, err := r.LoadState(&got); err != nil || got != turn(4) {
					t.Errorf("%s: after a further save: turn %d, %v", name, got.Turn, err)
				}
			}
		}
	}
}

func TestPowerLossWhileWritingTheRecord(t *testing.T) {
	for at := 1; ; at++ {
		m := newMemory()
		r := &Run{dir: "/runs/a", fs: m}
		rec := NewRecord()
		rec.Name = "old"
		if err := r.WriteRecord(rec); err != nil {
			t.Fatal(err)
		}
		m.stopAt, m.fail = m.steps+at, errPower
		rec.Name = "new"
		done := r.WriteRecord(rec) == nil
		for i, disk := range m.afterPowerLoss() {
			got, err := readRecord(disk, r.dir)
			if err != nil || got.Name != "old" && got.Name != "new" || done && got.Name != "new" {
				t.Errorf("power lost at operation %d, disk %d: %+v, %v", at, i, got, err)
			}
		}
		if done {
			return
		}
	}
}

// The disk is full, or fails in another way, at each operation in turn.
func TestErrorAtEveryCallOfASave(t *testing.T) {
	operations := operationsOfASave(t)
	for at := 1; at <= operations; at++ {
		r := saved(t)
		m := r.fs.(*memory)
		m.stopAt, m.fail = m.steps+at, errFull
		err := r.SaveState(turn(3))
		if !errors.Is(err, errFull) {
			t.Errorf("call %d (%s): error %v does not say what failed", at, m.log[m.stopAt-1], err)
		}
		for path := range m.names {
			if strings.HasSuffix(path, ".tmp") {
				t.Errorf("call %d: %s left behind on a full disk", at, path)
			}
		}
		var got agentState
		if _, err := (&Run{dir: r.dir, fs: m}).LoadState(&got); err != nil || got != turn(2) && got != turn(3) {
			t.Errorf("call %d: then loaded turn %d, %v", at, got.Turn, err)
		}
		if err := r.SaveState(turn(4)); err != nil {
			t.Errorf("call %d: with space again: %v", at, err)
		}
		if note, err := r.LoadState(&got); err != nil || note != "" || got != turn(4) {
			t.Errorf("call %d: with space again: turn %d, %q, %v", at, got.Turn, note, err)
		}
	}
}

// reheaded returns an intact state file with another version.
func reheaded(data []byte, version string) []byte {
	line, payload, _ := bytes.Cut(data, []byte("\n"))
	f := strings.Fields(string(line))
	f[1] = version
	head := strings.Join(f[:4], " ")
	return append(fmt.Appendf(nil, "%s %08x\n", head, crc32.ChecksumIEEE([]byte(head))), payload...)
}

// TestDirectoryWithoutSync: on a file system that cannot sync a directory, such as that of /proc, a save succeeds without it; any
// other error of a sync is that of the save.
func TestDirectoryWithoutSync(t *testing.T) {
	for dir, valid := range map[string]bool{t.TempDir(): true, "/proc": true, filepath.Join(t.TempDir(), "missing"): false} {
		if err := (disk{}).SyncDir(dir); (err == nil) != valid {
			t.Errorf("%s: %v, want success: %t", dir, err, valid)
		}
	}
	for _, err := range []error{syscall.EINVAL, syscall.ENOTSUP, syscall.ENOSYS, syscall.EBADF} {
		if got := withoutDirSync(&fs.PathError{Op: "sync", Path: "d", Err: err}); got != nil {
			t.Errorf("%v of a directory fails a save", err)
		}
	}
	for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.ESTALE} {
		if got := withoutDirSync(&fs.PathError{Op: "sync", Path: "d", Err: err}); !errors.Is(got, err) {
			t.Errorf("%v of a directory became %v", err, got)
		}
	}
}

// Truncated, bit-flipped, empty, wrong-version and newer-version states.
func TestDamagedState(t *testing.T) {
	whole := encodeState([]byte(`{"Turn":2}`))
	header := bytes.IndexByte(whole, '\n')
	flipped := func(at int) []byte {
		b := slices.Clone(whole)
		b[at] ^= 1
		return b
	}
	cases := map[string]struct {
		state []byte
		note  string // part of the expected note
		newer bool
	}{
		"empty":                    {[]byte{}, "empty", false},
		"torn in the header":       {whole[:20], "header", false},
		"torn after the header":    {whole[:header+1], "0 bytes after the header", false},
		"torn in the payload":      {whole[:len(whole)-3], "bytes after the header", false},
		"something appended":       {append(slices.Clone(whole), "x"...), "bytes after the header", false},
		"bit flipped in payload":   {flipped(len(whole) - 4), "checksum is wrong", false},
		"bit flipped in version":   {flipped(len(stateMagic) + 1), "checksum of the header", false},
		"bit flipped in magic":     {flipped(2), "no header", false},
		"another program's file":   {[]byte("PK\x03\x04 zip"), "no header", false},
		"zeros, as after a crash":  {make([]byte, 4096), "no header", false},
		"wrong version":            {reheaded(whole, "0"), "version", false},
		"newer version":            {reheaded(whole, "2"), "", true},
		"payload of another shape": {encodeState([]byte(`[1]`)), "not a state of this program", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := onDisk(t)
			must(t, r.SaveState(turn(1)))
			must(t, r.SaveState(turn(2)))
			must(t, os.WriteFile(r.Path(stateFile), c.state, 0o644))

			r = &Run{dir: r.dir, fs: disk{}}
			got := agentState{Note: "untouched"}
			note, err := r.LoadState(&got)
			if c.newer {
				var newer *NewerError
				if !errors.As(err, &newer) || newer.Version != 2 || !strings.Contains(err.Error(), "newer version") {
					t.Fatalf("got %v, want a *NewerError", err)
				}
				if got.Note != "untouched" {
					t.Error("the value was filled although the state was refused")
				}
				if err := r.SaveState(turn(3)); !errors.As(err, &newer) {
					t.Errorf("overwriting a newer state: %v, want a refusal", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != turn(1) {
				t.Errorf("loaded %+v, want the state before", got)
			}
			if !strings.Contains(note, c.note) || !strings.Contains(note, "before it is used") {
				t.Errorf("note %q does not say %q", note, c.note)
			}
			// A damaged state must not replace a good one.
			fresh := r // has inspected the state
			if name != "payload of another shape" {
				fresh = &Run{dir: r.dir, fs: disk{}}
			}
			must(t, fresh.SaveState(turn(3)))
			must(t, os.WriteFile(r.Path(stateFile), nil, 0o644))
			if _, err := fresh.LoadState(&got); err != nil || got != turn(1) {
				t.Errorf("after a save over the damage: %+v, %v, want turn 1 still kept", got, err)
			}
		})
	}
}

func TestNoStateToLoad(t *testing.T) {
	r := onDisk(t)
	var s agentState
	if _, err := r.LoadState(&s); !errors.Is(err, errNoState) {
		t.Errorf("nothing saved: %v, want ErrNoState", err)
	}
	must(t, os.WriteFile(r.Path(stateFile), []byte("junk"), 0o644))
	_, err := r.LoadState(&s)
	var damage *Damage
	if !errors.As(err, &damage) || errors.Is(err, errNoState) {
		t.Errorf("only a damaged state: %v, want *Damage", err)
	}
	must(t, os.WriteFile(r.Path(stateFile+".prev"), []byte("junk"), 0o644))
	if _, err = r.LoadState(&s); !errors.As(err, &damage) || !strings.Contains(err.Error(), "state.prev") {
		t.Errorf("both damaged: %v, want both named", err)
	}
	must(t, r.SaveState(turn(5)))
	if _, err := r.LoadState(s); err == nil {
		t.Error("loading into something that is no pointer went well")
	}
}

func FuzzState(f *testing.F) {
	whole := encodeState([]byte(`{"Turn":2}`))
	f.Add(whole)
	f.Add(whole[:30])
	f.Add([]byte{})
	f.Add(reheaded(whole, "2"))
	f.Add(reheaded(whole, "-1"))
	f.Add([]byte(stateMagic + " \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		payload, err := decodeState("state", data)
		var damage *Damage
		var newer *NewerError
		switch {
		case err == nil:
			if !bytes.Equal(encodeState(payload), data) {
				t.Errorf("accepted, but not what would be written: %q", data)
			}
		case errors.As(err, &newer):
			if newer.Version <= stateVersion {
				t.Errorf("version %d refused as newer", newer.Version)
			}
		case !errors.As(err, &damage):
			t.Errorf("error of an unknown kind: %v", err)
		}
		// Any payload is returned unchanged, and every changed byte is detected.
		enc := encodeState(data)
		if back, err := decodeState("state", enc); err != nil || !bytes.Equal(back, data) {
			t.Errorf("round trip: %v", err)
		}
		enc[len(data)%len(enc)] ^= 0x20
		if _, err := decodeState("state", enc); err == nil {
			t.Error("a changed byte was not noticed")
		}
	})
}

func onDisk(t *testing.T) *Run {
	t.Helper()
	r, err := Create(filepath.Join(t.TempDir(), "state"), "20260102-030405-train-abcdef")
	must(t, err)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkSaveState(b *testing.B) {
	r, err := Create(b.TempDir(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := r.SaveState(turn(1)); err != nil {
			b.Fatal(err)
		}
	}
}

package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/journal"
)

// filled returns a state directory whose database contains some runs and imported logs, and the ids of all entries.
func filled(t *testing.T, logs int) (state string, want []string) {
	t.Helper()
	state, names := keep(t, past(nil), past(nil), past(nil))
	age(t, state, names...)
	db, _, err := Open(state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	var put []Entry
	for i := range logs {
		e := NewEntry(Log, fmt.Sprintf("log-%03d", i))
		e.Job.Model, e.Source, e.Seconds = "bert", strings.Repeat("s", 200), float64(i)
		put = append(put, e)
	}
	if err := db.Put(put...); err != nil {
		t.Fatal(err)
	}
	want = ids(all(t, db, Filter{}))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	return state, want
}

// asides returns the databases that were set aside.
func asides(t *testing.T, state string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(state, fileName+".corrupt-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestDamagedFile requires that a damaged file is set aside with a note, that the runs are read again and readable
// logs are kept, and that no entry is returned that was never stored.
func TestDamagedFile(t *testing.T) {
	for name, c := range map[string]struct {
		harm  func(data []byte) []byte
		logs  int  // minimum number of logs kept, of 100
		aside bool // the file is set aside
	}{
		"zero bytes":         {func(d []byte) []byte { return nil }, 0, false},
		"one byte":           {func(d []byte) []byte { return d[:1] }, 0, false},
		"not SQLite":         {func(d []byte) []byte { return []byte(strings.Repeat("this is a text\n", 500)) }, 0, true},
		"all zero":           {func(d []byte) []byte { return make([]byte, len(d)) }, 0, true},
		"torn in the header": {func(d []byte) []byte { return d[:50] }, 0, true},
		"torn in the middle": {func(d []byte) []byte { return d[:len(d)/2/4096*4096] }, 5, true},
		"torn in a page":     {func(d []byte) []byte { return d[:len(d)-1000] }, 50, true},
		"a page of zeros":    {func(d []byte) []byte { clear(d[10*4096 : 11*4096]); return d }, 80, true},
		"a page of rubbish": {func(d []byte) []byte {
			for i := 9 * 4096; i < 10*4096; i++ {
				d[i] = byte(i * 7)
			}
			return d
		}, 80, true},
		"its tables are gone": {func(d []byte) []byte { clear(d[100:4096]); return d }, 0, true},
		"format number 0":     {func(d []byte) []byte { binary.BigEndian.PutUint32(d[60:], 0); return d }, 100, true},
	} {
		t.Run(name, func(t *testing.T) {
			state, _ := filled(t, 100)
			path := filepath.Join(state, fileName)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.harm(data), 0o644); err != nil {
				t.Fatal(err)
			}
			db, notes, err := Open(state)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			synced(t, db)
			if aside := asides(t, state); len(aside) == 1 != c.aside || (len(notes) == 1) != c.aside || c.aside && (!strings.Contains(notes[0], aside[0]) || strings.Contains(notes[0], "\n")) {
				t.Errorf("set aside %v, notes %q; want %t", aside, notes, c.aside)
			}
			if runs := all(t, db, Filter{Kinds: []Kind{Run, Probe}}); len(runs) != 6 {
				t.Errorf("runs and probes %v, want all 6", ids(runs))
			}
			logs := all(t, db, Filter{Kinds: []Kind{Log}})
			if len(logs) < c.logs {
				t.Errorf("%d logs were kept, want at least %d", len(logs), c.logs)
			}
			for _, e := range logs {
				if e.Job.Model != "bert" || e.ID != fmt.Sprintf("log-%03.0f", e.Seconds) {
					t.Errorf("log %+v was never put", e)
				}
			}
		})
	}
}

// TestFlippedBytes requires that a single changed byte anywhere loses no run and invents no entry.
func TestFlippedBytes(t *testing.T) {
	state, want := filled(t, 20)
	path := filepath.Join(state, fileName)
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused, rebuilt, unharmed, lost := 0, 0, 0, 0
	for at := 0; at < len(sound); at += 211 {
		data := slices.Clone(sound)
		data[at] ^= 0x41
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		db, _, err := Open(state)
		if err != nil {
			var newer *journal.NewerError
			if !errors.As(err, &newer) {
				t.Fatalf("byte %d: %v", at, err)
			}
			refused++
			continue
		}
		synced(t, db)
		entries := all(t, db, Filter{})
		got := slices.Sorted(slices.Values(ids(entries)))
		if len(db.Notes()) > 0 {
			rebuilt++
		} else {
			unharmed++
			if !slices.Equal(got, want) {
				t.Errorf("byte %d: %v without a note, want %v", at, got, want)
			}
		}
		for i := range entries { // a damaged index is noticed by a write only
			entries[i].At = entries[i].At.Add(time.Second)
			entries[i].Job.Model += "x"
		}
		if err := db.Put(entries...); err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
		entries = all(t, db, Filter{})
		for i := range entries {
			entries[i].Job.Model = strings.TrimSuffix(entries[i].Job.Model, "x")
		}
		lost += len(want) - len(got)
		for _, e := range entries {
			if !slices.Contains(want, e.ID) || e.Kind == Log && (e.Job.Model != "bert" || e.ID != fmt.Sprintf("log-%03.0f", e.Seconds)) {
				t.Errorf("byte %d: %+v was never put", at, e)
			}
		}
		for _, id := range want {
			if !strings.HasPrefix(id, "log") && !slices.Contains(got, id) {
				t.Errorf("byte %d: run %s is lost", at, id)
			}
		}
		_ = db.Close()
		for _, a := range asides(t, state) {
			_ = os.Remove(a)
		}
	}
	if rebuilt == 0 || unharmed == 0 {
		t.Errorf("%d rebuilt, %d unharmed: the test looks in the wrong place", rebuilt, unharmed)
	}
	t.Logf("bytes: %d unharmed, %d rebuilt, of whose %d logs %d were lost, %d refused", unharmed, rebuilt, 20*rebuilt, lost, refused)
}

// TestDamageSeenBySeveral requires that the file is set aside once if several processes detect the damage
// simultaneously, and that all of them continue.
func TestDamageSeenBySeveral(t *testing.T) {
	state, want := filled(t, 20)
	path := filepath.Join(state, fileName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(data[60:], 0) // the format number: every row can be salvaged
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			db, _, err := Open(state)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			entries, err := db.Entries(Filter{})
			if got := slices.Sorted(slices.Values(ids(entries))); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v: %v, want %v", err, got, want)
			}
		})
	}
	wait.Wait()
	if aside := asides(t, state); len(aside) != 1 {
		t.Errorf("set aside %v, want one", aside)
	}
}

// TestNotOurs requires that files of other programs are left unchanged.
func TestNotOurs(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a directory": {func(path string) error { return os.Mkdir(path, 0o755) }, "not a plain file"},
		"another program's database": {func(path string) error {
			db, err := openFile(path, patience, "_defensive=1")
			if err == nil {
				_, err = db.Exec("CREATE TABLE bookmarks (url TEXT)")
			}
			return errors.Join(err, db.Close())
		}, "database of another program"},
	} {
		t.Run(name, func(t *testing.T) {
			state, names := keep(t, past(nil))
			if err := c.make(filepath.Join(state, fileName)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Open(state); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
			if aside := asides(t, state); len(aside) > 0 {
				t.Errorf("%v was set aside", aside)
			}
			recalledAllTheSame(t, state, names)
		})
	}
}

// recalledAllTheSame requires that Recall falls back to the run directories and adds a note if the database is not
// usable.
func recalledAllTheSame(t *testing.T, state string, names []string) {
	t.Helper()
	got, notes := Recall(state, asks(nil))
	if !slices.Equal(got.Runs, names) || len(notes) != 1 || !strings.Contains(notes[0], "every run is read instead") || strings.Contains(notes[0], "\n") {
		t.Errorf("recalled %v with notes %q, want %v and one that says how", got.Runs, notes, names)
	}
}

// TestReadOnlyDirectory requires an error that names the cause, and a recall without the database.
func TestReadOnlyDirectory(t *testing.T) {
	if os.Getuid() == 0 { // root ignores permissions: run the test again as the user `nobody`
		if os.Getenv(roleVariable+"_NOBODY") != "" {
			t.Skip("still root")
		}
		dir, err := os.MkdirTemp("", "history")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestReadOnlyDirectory$", "-test.v")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), roleVariable+"_NOBODY=1", "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
			t.Skipf("nobody else can be: %v", err)
		}
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for name, withDatabase := range map[string]bool{"no database yet": false, "a database": true} {
		t.Run(name, func(t *testing.T) {
			state, names := keep(t, past(nil))
			if withDatabase {
				if db, _, err := Open(state); err != nil || db.Close() != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(state, fileName), 0o444); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(state, 0o555); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(state, 0o755)
			db, _, err := Open(state)
			if err == nil {
				_, err = db.Sync()
				_ = db.Close()
			}
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "permission denied") && !strings.Contains(err.Error(), "can the directory be written?") {
				t.Errorf("error %v, want one line that says that nothing can be written there", err)
			}
			recalledAllTheSame(t, state, names)
		})
	}
}

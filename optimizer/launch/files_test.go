package launch

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	tail := " 7 6 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 10 11"
	for name, tc := range map[string]struct {
		text string
		want stat
		bad  bool
	}{
		"plain":             {"42 (python3) S" + tail, stat{process{42, 99}, "python3", 'S', 7, 6, 5}, false},
		"spaces and parens": {"42 (a) R 1 (b c) Z" + tail, stat{process{42, 99}, "a) R 1 (b c", 'Z', 7, 6, 5}, false},
		"newline":           {"42 (a\nb) D" + tail + "\n", stat{process{42, 99}, "a\nb", 'D', 7, 6, 5}, false},
		"empty":             {"", stat{}, true},
		"no name":           {"42 S 7 6 5", stat{}, true},
		"short":             {"42 (x) S 7 6 5", stat{}, true},
		"pid is no number":  {"x (x) S" + tail, stat{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat([]byte(tc.text))
			if got != tc.want || (err != nil) != tc.bad {
				t.Errorf("parseStat(%q) = %+v, %v; want %+v, error: %v", tc.text, got, err, tc.want, tc.bad)
			}
		})
	}
}

func TestOwnStat(t *testing.T) {
	s, err := readStat(os.Getpid())
	if err != nil || s.PID != os.Getpid() || s.Parent != os.Getppid() || s.Start == 0 {
		t.Errorf("own status %+v, %v", s, err)
	}
	if _, err := readStat(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("status of no process: %v, want fs.ErrNotExist", err)
	}
}

func TestDescendants(t *testing.T) {
	p := func(pid, parent int, state byte) stat {
		return stat{process: process{PID: pid}, Parent: parent, State: state}
	}
	all := []stat{p(1, 0, 'S'), p(10, 1, 'S'), p(11, 10, 'S'), p(12, 11, 'Z'), p(13, 12, 'S'), p(20, 1, 'S'), p(10, 13, 'S')}
	var pids []int
	for _, s := range descendants(10, all) {
		pids = append(pids, s.PID)
	}
	if len(pids) != 2 || pids[0] != 11 || pids[1] != 13 {
		t.Errorf("descendants of 10 = %v, want 11 and 13: no zombie, no stranger, not itself", pids)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) R 1 (b) S 7 6 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 10"))
	f.Add([]byte("1 ()"))
	f.Add([]byte(") ("))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseStat(text); err != nil && s != (stat{}) {
			t.Errorf("%q: %+v with error %v", text, s, err)
		}
	})
}

// Arbitrary bytes survive JSON, as required for arguments and environments.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "ü\n", "a\xff", `{"base64":"x"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		data, err := json.Marshal(text(s))
		if err != nil {
			t.Fatal(err)
		}
		var back text
		if err := json.Unmarshal(data, &back); err != nil || string(back) != s {
			t.Errorf("%q → %s → %q, %v", s, data, back, err)
		}
	})
}

// Arbitrary content of the control file is accepted or refused, and the watch continues.
func FuzzControlFile(f *testing.F) {
	f.Add([]byte(`{"schema":1,"stop_at_ns":5,"checkpoints":1,"stop_grace_ns":7}`))
	f.Add([]byte(`{"schema":1,"stop_grace_ns":-9223372036854775808}`))
	f.Add([]byte(`{"schema":2}`))
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), controlFile)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var c control
		if err := readJSON(path, &c); err != nil {
			return
		}
		w := newWatch()
		w.step(time.Hour, event{control: &c})
		if d := w.wake(time.Hour, second); d < 0 || d > second {
			t.Errorf("wake in %s after %+v", d, c)
		}
	})
}

// A record that is truncated, empty, foreign or newer is refused with a clear error and never partly used.
func TestDamagedRecords(t *testing.T) {
	good := `{"schema":1,"handle":{"keeper_pid":1},"exit":{"reason":"exited","code":3,"at":"2024-01-01T00:00:00Z","ran_ns":1,"peak_memory_gib":null,"cpu_seconds":1.5}}`
	for name, tc := range map[string]struct {
		text string
		is   error
	}{"empty": {"", nil}, "torn": {good[:50], nil}, "no JSON": {"\x7fELF", nil}, "no schema": {`{"exit":{}}`, nil},
		"newer": {`{"schema":2}`, ErrNewer}, "other types": {`{"schema":1,"exit":[]}`, nil}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), exitFile)
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var e ended
			err := readJSON(path, &e)
			if err == nil || !strings.Contains(err.Error(), exitFile) || (tc.is != nil && !errors.Is(err, tc.is)) {
				t.Errorf("read %q: %v", tc.text, err)
			}
			if _, ok := (Handle{RunDir: filepath.Dir(path), KeeperPID: 1}).ReadExit(); ok {
				t.Error("it was taken as an exit record")
			}
		})
	}
	t.Run("good", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, exitFile), []byte(good), 0o600); err != nil {
			t.Fatal(err)
		}
		e, ok := (Handle{RunDir: dir, KeeperPID: 1}).ReadExit()
		if !ok || e.Code != 3 || e.PeakMemoryGiB != nil || *e.CPUSeconds != 1.5 {
			t.Errorf("%+v, %v", e, ok)
		}
		if _, ok := (Handle{RunDir: dir, KeeperPID: 2}).ReadExit(); ok {
			t.Error("the record of another job was taken")
		}
	})
}

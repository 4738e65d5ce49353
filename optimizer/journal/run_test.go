package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/internal/regular"
)

func TestRunIDIsASafeSortableName(t *testing.T) {
	at := time.Date(2026, 11, 20, 23, 12, 35, 0, time.FixedZone("", 3600))
	cases := map[string]string{ // script → part of the id
		"train.py":                     "-train-",
		"/a/b/Train Digits.py":         "-train_digits-",
		"../../etc/passwd":             "-passwd-",
		"":                             "-run-",
		".":                            "-run-",
		"/":                            "-run-",
		".hidden":                      "-hidden-",
		"обучение.py":                  "-run-",
		"a\nb\x00c.py":                 "-a_b_c-",
		strings.Repeat("long", 50):     "-longlonglonglonglonglong-",
		"<script>alert(1)</script>.py": "-script_py-",
	}
	for script, want := range cases {
		id := NewRunID(at, script)
		if !strings.HasPrefix(id, "20261120-221235-") || (script != "<script>alert(1)</script>.py" && !strings.Contains(id, want)) {
			t.Errorf("%q: id %q, want time in UTC and %q", script, id, want)
		}
		if err := checkID(id); err != nil {
			t.Errorf("%q: %v", script, err)
		}
	}
	if first, second := NewRunID(at, "a"), NewRunID(at, "a"); first == second {
		t.Error("two runs in one second have one id")
	}
	if NewRunID(at, "z") > NewRunID(at.Add(time.Second), "a") {
		t.Error("ids do not sort by time")
	}
	rapid.Check(t, func(t *rapid.T) {
		if err := checkID(NewRunID(at, rapid.String().Draw(t, "script"))); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCreateRefusesUnsafeAndTakenNames(t *testing.T) {
	state := filepath.Join(t.TempDir(), "new", ".optimize")
	for _, id := range []string{"", ".", "..", "../x", "a/b", "-rf", "a b", "a\x00", strings.Repeat("x", 300)} {
		if _, err := Create(state, id); err == nil {
			t.Errorf("run id %q accepted", id)
		}
	}
	r, err := Create(state, "a")
	must(t, err)
	if _, err := Create(state, "a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("taken name: %v, want fs.ErrExist", err)
	}
	if !filepath.IsAbs(r.Dir()) || r.ID() != "a" {
		t.Errorf("dir %q id %q", r.Dir(), r.ID())
	}
	if b, _ := os.ReadFile(filepath.Join(state, ".gitignore")); string(b) != "*\n" {
		t.Errorf(".gitignore of a new state directory: %q", b)
	}
	own := t.TempDir() // an existing directory of the user stays unchanged
	_, err = Create(own, "a")
	must(t, err)
	if _, err := os.Stat(filepath.Join(own, ".gitignore")); err == nil {
		t.Error("wrote a .gitignore into a directory of the user's")
	}
	if _, err := Open(filepath.Join(state, "runs", "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of an absent run: %v", err)
	}
	if _, err := Open(filepath.Join(state, ".gitignore")); err == nil {
		t.Error("opened a file as a run")
	}
}

// File names from logs and scripts never leave the run directory.
func TestPathNeverLeavesTheRunDirectory(t *testing.T) {
	r := onDisk(t)
	for name, want := range map[string]string{
		"run.json": "run.json", "a/b.csv": "a/b.csv", "../x": "x", "/etc/passwd": "etc/passwd", "a/../../../x": "x",
		"": "", "..": "", "a\nb\x00": "a_b_", "checkpoint": "checkpoint",
	} {
		if got := r.Path(name); got != filepath.Join(r.Dir(), want) {
			t.Errorf("Path(%q) = %q, want %q", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"..", ".", "", "/", "~", "\\", strings.Repeat("é", 300)}), rapid.String())).Draw(t, "parts")
		p := r.Path(strings.Join(parts, "/"))
		rel, err := filepath.Rel(r.Dir(), p)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			t.Fatalf("%q leaves the run directory", p)
		}
		for _, part := range strings.Split(rel, "/") {
			if len(part) > 255 || strings.ContainsRune(part, 0) {
				t.Fatalf("%q is no name for a file", part)
			}
		}
	})
}

func TestListShowsBrokenRunsWithTheReason(t *testing.T) {
	if list, err := List(filepath.Join(t.TempDir(), "absent")); err != nil || len(list) != 0 {
		t.Fatalf("no state directory: %v, %v", list, err)
	}
	state := t.TempDir()
	content := map[string]string{
		"20260101-000000-old-000000":   "ok",
		"20260102-000000-torn-000000":  `{"schema": 1, "run_id"`,
		"20260103-000000-none-000000":  "",
		"20260104-000000-empty-000000": "empty",
		"20260105-000000-newer-000000": `{"schema": 2, "run_id": 5}`,
		"20260106-000000-other-000000": `{"hello": true}`,
		"20260107-000000-types-000000": `{"schema": 1, "run_id": 5}`,
		"20260108-000000-new-000000":   "ok",
		"20260109-000000-pipe-000000":  "pipe",
		"20260110-000000-zero-000000":  "endless",
	}
	for id, text := range content {
		r, err := Create(state, id)
		must(t, err)
		switch text {
		case "ok":
			rec := NewRecord()
			rec.RunID = id
			must(t, r.WriteRecord(rec))
		case "":
		case "empty":
			must(t, os.WriteFile(r.Path(RecordFile), nil, 0o644))
		case "pipe":
			must(t, syscall.Mkfifo(r.Path(RecordFile), 0o600))
			must(t, syscall.Mkfifo(r.Path(lockFile), 0o600))
		case "endless":
			must(t, os.Symlink("/dev/zero", r.Path(RecordFile)))
		default:
			must(t, os.WriteFile(r.Path(RecordFile), []byte(text), 0o644))
		}
	}
	must(t, os.WriteFile(filepath.Join(state, "runs", "stray.txt"), nil, 0o644))
	must(t, os.Mkdir(filepath.Join(state, "runs", ".removed-x"), 0o755))
	list, err := List(state)
	must(t, err)
	var lines []string
	for _, e := range list {
		why := "ok"
		var newer *NewerError
		var damage *Damage
		switch {
		case errors.As(e.Err, &newer):
			why = "newer"
		case errors.As(e.Err, &damage):
			why = "damaged"
		case errors.Is(e.Err, fs.ErrNotExist):
			why = "absent"
		case errors.Is(e.Err, regular.ErrNotRegular):
			why = "not regular"
		case e.Err != nil:
			why = e.Err.Error()
		case e.Record.RunID != e.ID:
			why = "record of " + e.Record.RunID
		}
		lines = append(lines, e.ID[16:len(e.ID)-7]+" "+why)
	}
	want := []string{"zero not regular", "pipe not regular", "new ok", "types damaged", "other damaged", "newer newer", "empty damaged", "none absent", "torn damaged", "old ok"}
	if !slices.Equal(lines, want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
	for _, e := range list {
		if err := Remove(e.Dir); err != nil {
			t.Errorf("a broken run cannot be removed: %v", err)
		}
	}
}

func TestListRunning(t *testing.T) {
	state := t.TempDir()
	for id, change := range map[string]func(*Record){
		"20260101-000000-a-000000": func(r *Record) { r.State = Running },
		"20260102-000000-b-000000": func(r *Record) { r.State = Done },
		"20260103-000000-c-000000": func(r *Record) { r.State, r.Name = Failed, "running" },
		"20260104-000000-d-000000": func(r *Record) { r.State = Running },
	} {
		r, err := Create(state, id)
		must(t, err)
		rec := NewRecord()
		rec.RunID = id
		change(rec)
		must(t, r.WriteRecord(rec))
	}
	_, err := Create(state, "20260105-000000-starting-000000")
	must(t, err)
	list, err := ListRunning(state)
	must(t, err)
	if len(list) != 2 || list[0].ID != "20260104-000000-d-000000" || list[1].Record.RunID != "20260101-000000-a-000000" {
		t.Errorf("got %+v, want the two that run, the newest first", list)
	}
}

func TestFind(t *testing.T) {
	state := t.TempDir()
	if _, err := Find(state, "latest"); err == nil || !strings.Contains(err.Error(), "no runs") {
		t.Errorf("no runs: %v", err)
	}
	for _, id := range []string{"20260101-000000-a-111111", "20260101-000001-b-222222", "20260202-000000-a-333333"} {
		r, err := Create(state, id)
		must(t, err)
		must(t, r.WriteRecord(NewRecord()))
	}
	runs := filepath.Join(state, "runs")
	cases := map[string]struct{ want, err string }{
		"":                         {"", "empty"},
		" ":                        {"", "empty"},
		"latest":                   {"20260202-000000-a-333333", ""},
		"20260101-000000-a-111111": {"20260101-000000-a-111111", ""},
		"222222":                   {"", "no id of the 3 runs"},
		"a":                        {"", "2 runs have that name"},
		"b":                        {"20260101-000001-b-222222", ""},
		"202602":                   {"20260202-000000-a-333333", ""},
		"20260101":                 {"", "20260101-000000-a-111111, 20260101-000001-b-222222"},
		"nobody":                   {"", "no id of the 3 runs"},
		filepath.Join(runs, "20260202-000000-a-333333"): {"20260202-000000-a-333333", ""},
		"/nowhere/at/all": {"", "not a run directory"},
	}
	for ref, c := range cases {
		got, err := Find(state, ref)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v, want %q", ref, err, c.err)
			}
			continue
		}
		if err != nil || filepath.Base(got) != c.want {
			t.Errorf("%q: %q, %v, want %q", ref, got, err, c.want)
		}
	}
}

func TestRemoveRefusesWhatIsNoRun(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	must(t, os.Mkdir(precious, 0o755))
	state := t.TempDir()
	r, err := Create(state, "a")
	must(t, err)
	if info, err := os.Stat(r.Dir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a run directory of mode %v, %v; want 0700", info.Mode(), err)
	}
	link := filepath.Join(state, "runs", "link")
	must(t, os.Symlink(precious, link))
	for _, dir := range []string{precious, state, filepath.Dir(r.Dir()), link, "/", filepath.Join(state, "runs", "absent")} {
		if err := Remove(dir); err == nil {
			t.Errorf("removed %s", dir)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	must(t, os.Symlink(precious, r.Path("to-precious"))) // a link in a run is removed, not its target
	must(t, Remove(r.Dir()))
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// TestStateDirIsPrivate: a new state directory is readable by its owner only; an existing one keeps its mode.
func TestStateDirIsPrivate(t *testing.T) {
	state := filepath.Join(t.TempDir(), "a", "state")
	if _, err := Create(state, "r"); err != nil {
		t.Fatal(err)
	}
	existing := filepath.Join(t.TempDir(), "mine")
	must(t, os.Mkdir(existing, 0o755))
	must(t, os.Chmod(existing, 0o755)) // whatever the umask
	if _, err := Create(existing, "r"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{state: 0o700, filepath.Join(state, ".gitignore"): 0o600, RunsDir(state): 0o700,
		existing: 0o755, RunsDir(existing): 0o700} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", path, st, err, want)
		}
	}
}

func TestWriteFileReplacesWhole(t *testing.T) {
	r := onDisk(t)
	must(t, r.WriteFile("report.md", []byte("one")))
	must(t, r.WriteFile("report.md", []byte("two")))
	if b, err := os.ReadFile(r.Path("report.md")); err != nil || string(b) != "two" {
		t.Errorf("%q, %v", b, err)
	}
	if err := r.WriteFile("absent/report.md", nil); err == nil {
		t.Error("wrote into a directory that is not there")
	}
}

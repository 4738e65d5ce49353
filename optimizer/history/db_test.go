package history

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/optimizer/journal"
)

// roleVariable makes the test binary act as one of two writers, or as a writer that is killed during a write.
const roleVariable = "TRAINOPT_TEST_HISTORY"

func TestMain(m *testing.M) {
	if role, state, ok := strings.Cut(os.Getenv(roleVariable), ":"); ok {
		play(role, state)
	}
	goleak.VerifyTestMain(m)
}

func play(role, state string) {
	db, _, err := Open(state)
	switch {
	case err != nil:
	case role == "killed":
		err = writeForEver(db)
	default:
		for i := 0; i < 200 && err == nil; i++ {
			err = db.Put(NewEntry(Log, fmt.Sprintf("%s-%d", role, i)))
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// writeForEver changes every entry in a transaction that spills to disk before it ends, and never commits it.
func writeForEver(db *DB) error {
	tx, err := db.sql.Begin()
	if err != nil {
		return err
	}
	for _, statement := range []string{"PRAGMA cache_size = 4", "UPDATE entries SET model = model || 'changed', checksum = 0"} {
		if _, err := tx.Exec(statement); err != nil {
			return err
		}
	}
	fmt.Println("changed")
	time.Sleep(time.Minute)
	return nil
}

func child(t *testing.T, role, state string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role+":"+state)
	return cmd
}

func opened(t testing.TB, state string) *DB {
	t.Helper()
	db, notes, err := Open(state)
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) > 0 {
		t.Fatalf("notes %q on a sound database", notes)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func all(t testing.TB, db *DB, f Filter) []Entry {
	t.Helper()
	entries, err := db.Entries(f)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func ids(entries []Entry) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, e.ID)
	}
	return out
}

// anything draws an entry in which each field is known or unknown.
func anything(t *rapid.T, id string) Entry {
	text := func(name string) string { return rapid.StringN(0, 12, 40).Draw(t, name) }
	number := func(name string) float64 {
		return rapid.OneOf(rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Float64Range(-1e300, 1e300), rapid.Float64Range(0, 1e6)).Draw(t, name)
	}
	e := NewEntry(rapid.SampledFrom([]Kind{Run, Probe, Log, Table}).Draw(t, "kind"), id)
	flat := e.expand()
	for _, c := range columns {
		switch p := c.field(flat).(type) {
		case *string:
			if c.Name != "id" && c.Name != "kind" && c.Name != "parent" {
				*p = text(c.Name)
			}
		case *float64:
			*p = number(c.Name)
		case *int:
			*p = rapid.IntRange(0, math.MaxInt32).Draw(t, c.Name)
		case *time.Time:
			if rapid.Bool().Draw(t, "started") {
				*p = time.Unix(rapid.Int64Range(-6e10, 2e11).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).In(time.FixedZone("", 3600))
			}
		}
	}
	e = flat.collapse()
	if rapid.Bool().Draw(t, "not predicted") {
		e.Predicted = nil
	}
	if rapid.Bool().Draw(t, "unpriced") {
		e.Rates = cost.Rates{}
	}
	return e
}

// sameEntry compares entries; NaN equals NaN, and times are compared as instants.
func sameEntry(a, b Entry) bool {
	x, y := a.expand(), b.expand()
	for _, c := range columns {
		v, w := c.value(x), c.value(y)
		if t, ok := v.(time.Time); ok {
			u, ok := w.(time.Time)
			if !ok || !t.Equal(u) {
				return false
			}
			continue
		}
		if v != w {
			return false
		}
	}
	return (a.Predicted == nil) == (b.Predicted == nil)
}

// TestPutEntriesProperty requires that exactly the stored entries are returned.
func TestPutEntriesProperty(t *testing.T) {
	db := opened(t, t.TempDir())
	rapid.Check(t, func(t *rapid.T) {
		want := anything(t, "one")
		if err := db.Put(want); err != nil {
			t.Fatal(err)
		}
		got, err := db.Entries(Filter{})
		if err != nil || len(got) != 1 || !sameEntry(got[0], want) {
			t.Fatalf("put %+v, got %+v, %v", want, got, err)
		}
	})
}

// TestColumnsCoverEntry requires a column for every field of an entry, and a meaning and a unit for every column.
func TestColumnsCoverEntry(t *testing.T) {
	pointers := map[any]bool{}
	flat := (&Entry{}).expand()
	names := map[string]bool{}
	for i, c := range columns {
		pointers[c.field(flat)] = true
		if doc := Columns()[i]; doc.Name == "" || doc.Meaning == "" || names[doc.Name] {
			t.Errorf("column %d: %+v", i, doc)
		}
		names[c.Name] = true
		if _, ok := c.field(flat).(*float64); ok && c.Unit == "" && !slices.Contains([]string{"unit_spread", "train_loss", "test_accuracy", "predicted_widen"}, c.Name) {
			t.Errorf("%s has no unit", c.Name)
		}
	}
	var walk func(v reflect.Value, name string)
	walk = func(v reflect.Value, name string) {
		_, isTime := v.Interface().(time.Time)
		switch {
		case v.Kind() == reflect.Pointer:
			walk(v.Elem(), name)
		case v.Kind() == reflect.Struct && !isTime:
			for i := range v.NumField() {
				walk(v.Field(i), name+"."+v.Type().Field(i).Name)
			}
		default:
			if p := v.Addr(); !pointers[p.Interface()] && !pointers[asPlain(p)] {
				t.Errorf("no column holds %s", name)
			}
		}
	}
	walk(reflect.ValueOf(flat).Elem(), "Entry")
}

// asPlain converts a pointer to a named string or float type into the pointer type that columns use.
func asPlain(p reflect.Value) any {
	for _, plain := range []reflect.Type{reflect.TypeFor[*string](), reflect.TypeFor[*float64]()} {
		if p.CanConvert(plain) {
			return p.Convert(plain).Interface()
		}
	}
	return nil
}

// TestUnknownIsNotZero requires that unknown values are stored as NULL and known zeros are not.
func TestUnknownIsNotZero(t *testing.T) {
	db := opened(t, t.TempDir())
	e := NewEntry(Log, "a")
	e.CostUSD, e.Seconds, e.Throughput = 0, math.Inf(1), math.Copysign(0, -1)
	if err := db.Put(e); err != nil {
		t.Fatal(err)
	}
	got := all(t, db, Filter{})[0]
	if got.CostUSD != 0 || !math.IsNaN(got.Seconds) || got.Throughput != 0 || !math.IsNaN(got.GPUUtil) || got.Predicted != nil || got.Rates != (cost.Rates{}) {
		t.Errorf("got %+v", got)
	}
	var unknown int
	if err := db.sql.QueryRow("SELECT seconds IS NULL AND gpu_util IS NULL AND model IS NULL AND nodes IS NULL AND gpu_hour IS NULL AND cost_usd = 0 FROM entries").Scan(&unknown); err != nil || unknown != 1 {
		t.Errorf("in the table: %d, %v", unknown, err)
	}
}

// TestEntries covers filter, order and limit.
func TestEntries(t *testing.T) {
	db := opened(t, t.TempDir())
	day := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	entry := func(kind Kind, id, parent, model, sha string, at time.Time) Entry {
		e := NewEntry(kind, id)
		e.Parent, e.Job.Model, e.Job.ScriptSHA256, e.At = parent, model, sha, at
		return e
	}
	err := db.Put(entry(Probe, "r1/probe-1", "r1", "resnet50", "s1", day(1)), entry(Run, "r1", "", "resnet50", "s1", day(1)),
		entry(Run, "r2", "", "BERT", "s2", day(3)), entry(Log, "abc", "", "bert", "", day(2)), entry(Log, "abc/1", "abc", "bert", "", time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		f    Filter
		want []string
	}{
		"all, the newest first":   {Filter{}, []string{"r2", "abc", "r1/probe-1", "r1", "abc/1"}},
		"kinds":                   {Filter{Kinds: []Kind{Run, Probe}}, []string{"r2", "r1/probe-1", "r1"}},
		"models, in any case":     {Filter{Models: []string{"bert", "vgg"}}, []string{"r2", "abc", "abc/1"}},
		"since, the day included": {Filter{Since: day(2).In(time.FixedZone("", 7200))}, []string{"r2", "abc"}},
		"limit":                   {Filter{Limit: 2}, []string{"r2", "abc"}},
		"all of them":             {Filter{Kinds: []Kind{Run, Log}, Models: []string{"bert"}, Since: day(1), Limit: 1}, []string{"r2"}},
		"none":                    {Filter{Models: []string{"no'; DROP TABLE entries; --"}}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ids(all(t, db, c.f)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	for _, c := range []struct {
		id   string
		left []string
	}{{"r", []string{"r2", "abc", "r1/probe-1", "r1", "abc/1"}}, {"abc", []string{"r2", "r1/probe-1", "r1"}}, {"r1", []string{"r2"}}} {
		if err := db.Delete(c.id); err != nil {
			t.Fatal(err)
		}
		if got := ids(all(t, db, Filter{})); !slices.Equal(got, c.left) {
			t.Errorf("after deleting %s there are %v, want %v", c.id, got, c.left)
		}
	}
}

// Delete removes a run or log together with its probes or segments. A run whose directory still exists is added
// again by the next Sync.
func (db *DB) Delete(id string) error {
	ctx := context.Background()
	return db.withRepair(ctx, "delete from", func() error {
		return db.transaction(ctx, func(tx *sql.Tx) error { return remove(ctx, tx, id) })
	})
}

// TestPutReplaces requires replacement by ID, and that a run that is stored again keeps its probes.
func TestPutReplaces(t *testing.T) {
	db := opened(t, t.TempDir())
	run, probe := NewEntry(Run, "r"), NewEntry(Probe, "r/probe-1")
	probe.Parent, run.CostUSD = "r", 1
	if err := db.Put(run, probe); err != nil {
		t.Fatal(err)
	}
	run.CostUSD, run.Seconds = math.NaN(), 7
	if err := db.Put(run); err != nil {
		t.Fatal(err)
	}
	got := all(t, db, Filter{})
	if len(got) != 2 || !slices.ContainsFunc(got, func(e Entry) bool { return e.ID == "r" && e.Seconds == 7 && math.IsNaN(e.CostUSD) }) {
		t.Errorf("got %+v", got)
	}
}

// TestPutAllOrNone requires that one invalid entry prevents the whole Put.
// TestDatabaseIsPrivate: the state directory, the database and its lock are created readable by their owner only; an
// existing database keeps its mode.
func TestDatabaseIsPrivate(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	modes := func(want map[string]os.FileMode) {
		t.Helper()
		db, _, err := Open(state)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Put(NewEntry(Log, "a")), db.Close()); err != nil {
			t.Fatal(err)
		}
		for name, mode := range want {
			if st, err := os.Stat(filepath.Join(state, name)); err != nil || st.Mode().Perm() != mode {
				t.Errorf("%q: %v, %v; want mode %o", name, st, err, mode)
			}
		}
	}
	modes(map[string]os.FileMode{"": 0o700, fileName: 0o600, fileName + ".lock": 0o600})
	for name, mode := range map[string]os.FileMode{"": 0o755, fileName: 0o644} {
		if err := os.Chmod(filepath.Join(state, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	modes(map[string]os.FileMode{"": 0o755, fileName: 0o644})
}

func TestPutAllOrNone(t *testing.T) {
	lost := NewEntry(Probe, "x/probe-1")
	lost.Parent = "x"
	for name, bad := range map[string]Entry{"no id": NewEntry(Log, ""), "no kind": NewEntry("", "b"), "a probe of no run": lost} {
		t.Run(name, func(t *testing.T) {
			db := opened(t, t.TempDir())
			if err := db.Put(NewEntry(Log, "a"), bad, NewEntry(Log, "c")); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line", err)
			}
			if got := all(t, db, Filter{}); len(got) != 0 {
				t.Errorf("%v were put", ids(got))
			}
		})
	}
}

// TestTwoWriters requires that two processes that each store 200 entries concurrently lose none and get no error.
func TestTwoWriters(t *testing.T) {
	state := t.TempDir()
	a, b := child(t, "a", state), child(t, "b", state)
	outA, outB := &strings.Builder{}, &strings.Builder{}
	a.Stdout, b.Stdout = outA, outB
	for _, cmd := range []*exec.Cmd{a, b} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Fatalf("%v\n%s\n%s", err, outA, outB)
	}
	if got := all(t, opened(t, state), Filter{}); len(got) != 400 {
		t.Errorf("%d entries, want 400", len(got))
	}
}

// TestWriterIsNotStarved requires that Put outlasts another process that writes continually for longer than the
// patience.
func TestWriterIsNotStarved(t *testing.T) {
	const patience, hold = 2 * time.Second, 600 * time.Millisecond
	state := t.TempDir()
	busy := opened(t, state)
	db, err := open(t.Context(), state, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := range 6 {
			tx, err := busy.sql.Begin()
			if err == nil {
				err = put(t.Context(), tx, []Entry{NewEntry(Log, fmt.Sprint(i))})
			}
			if i == 0 {
				close(begun)
			}
			time.Sleep(hold) // simulates a slow disk
			if err == nil {
				err = tx.Commit()
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	<-begun
	if err := db.Put(NewEntry(Log, "patient")); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := all(t, db, Filter{}); len(got) != 7 {
		t.Errorf("%d entries, want 7", len(got))
	}
}

// TestKilledInATransaction kills a writer after its transaction has partly reached the disk; the next process must
// read the previous content.
func TestKilledInATransaction(t *testing.T) {
	state := t.TempDir()
	db := opened(t, state)
	var put []Entry
	for i := range 300 {
		e := NewEntry(Log, fmt.Sprintf("%03d", i))
		e.Job.Model, e.Source = "bert", strings.Repeat("x", 500)
		put = append(put, e)
	}
	if err := errors.Join(db.Put(put...), db.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := child(t, "killed", state)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	_, noJournal := os.Stat(filepath.Join(state, fileName+"-journal"))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if line != "changed\n" || noJournal != nil {
		t.Fatalf("the child said %q; its journal: %v", line, noJournal)
	}
	got := all(t, opened(t, state), Filter{})
	if len(got) != 300 || slices.ContainsFunc(got, func(e Entry) bool { return e.Job.Model != "bert" }) {
		t.Errorf("%d entries, want the 300 from before", len(got))
	}
}

// TestDiskFull requires an error that names the cause, no partial write, and the previous content.
func TestDiskFull(t *testing.T) {
	db := opened(t, t.TempDir())
	if err := db.Put(NewEntry(Log, "a")); err != nil {
		t.Fatal(err)
	}
	var pages int
	if err := db.sql.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := db.sql.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages+2)); err != nil {
		t.Fatal(err)
	}
	var many []Entry
	for i := range 200 {
		many = append(many, NewEntry(Log, fmt.Sprintf("%0200d", i)))
	}
	if err := db.Put(many...); err == nil || !strings.Contains(err.Error(), "disk is full") || !strings.Contains(err.Error(), fileName) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line that says that the disk is full", err)
	}
	if got := ids(all(t, db, Filter{})); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%d entries, want the one from before", len(got))
	}
}

// TestLockedTooLong requires an error that reports the lock when the wait for it times out.
func TestLockedTooLong(t *testing.T) {
	state := t.TempDir()
	tx, err := opened(t, state).sql.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	other, err := open(context.Background(), state, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Put(NewEntry(Log, "a")); err == nil || !strings.Contains(err.Error(), "another process has kept it locked for more than 50ms") {
		t.Errorf("error %v", err)
	}
}

// TestMigrate requires that a database of each older format is migrated with its content, and that a failing step
// changes nothing.
func TestMigrate(t *testing.T) {
	next := append(slices.Clone(migrations), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "ALTER TABLE entries ADD COLUMN mood TEXT")
		return err
	})
	broken := append(slices.Clone(migrations), func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DROP TABLE entries"); err != nil {
			return err
		}
		return errors.New("no")
	})
	ctx := context.Background()
	for old := range next {
		t.Run(fmt.Sprintf("from format %d", old), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), fileName)
			db, err := openFile(path, patience, "_defensive=1")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := migrate(ctx, db, next[:old]); err != nil {
				t.Fatal(err)
			}
			if old > 0 {
				if _, err := db.Exec("INSERT INTO entries (id, kind, checksum) VALUES ('a', 'log', 0)"); err != nil {
					t.Fatal(err)
				}
				if err := migrate(ctx, db, broken); err == nil {
					t.Error("a step that fails is no error")
				}
				if format, err := formatOf(ctx, db); format != max(old, len(migrations)) || err != nil {
					t.Errorf("format %d after a step that failed, %v", format, err)
				}
			}
			if err := migrate(ctx, db, next); err != nil {
				t.Fatal(err)
			}
			format, _ := formatOf(ctx, db)
			kept, err := stringsOf(ctx, db, "SELECT id FROM entries WHERE mood IS NULL")
			if format != len(next) || err != nil || len(kept) != min(old, 1) {
				t.Errorf("format %d with %v, %v", format, kept, err)
			}
		})
	}
}

// TestNewerFormat requires that a newer format is refused with a clear error and left unchanged.
func TestNewerFormat(t *testing.T) {
	state := t.TempDir()
	db := opened(t, state)
	if _, err := db.sql.Exec("PRAGMA user_version = 7"); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	before, _ := os.ReadFile(filepath.Join(state, fileName))
	_, _, err := Open(state)
	var newer *journal.NewerError
	if !errors.As(err, &newer) || newer.Version != 7 || !strings.Contains(err.Error(), "use the newer version") {
		t.Errorf("error %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(state, fileName)); !slices.Equal(before, after) {
		t.Error("the file was changed")
	}
}

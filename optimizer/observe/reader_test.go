package observe

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trainopt/monitor/trainlog"
)

func itoa(n int) string { return strconv.Itoa(n) }

// report writes lines of a process, each completed with its event and pid.
func report(t testing.TB, dir string, pid int, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, itoa(pid)+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, l := range lines {
		event, rest, _ := strings.Cut(l, " ")
		fmt.Fprintf(f, `{"event":%q,"pid":%d,%s}`+"\n", event, pid, rest)
	}
}

func steps(rows []Progress) (out []float64) {
	for _, p := range rows {
		v, _ := p.Row.Value(trainlog.Step)
		out = append(out, v)
	}
	return out
}

func poll(t testing.TB, r *Reader) []Progress {
	t.Helper()
	rows, err := r.Poll(time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestFollows: a training follows another one of its process that has finished, not one that was interrupted.
func TestFollows(t *testing.T) {
	dir := t.TempDir()
	report(t, dir, 7, `training "mono":1,"time":1,"training":1`, `progress "mono":2,"time":2,"training":1,"step":1`,
		`training "mono":3,"time":3,"training":2`, `progress "mono":4,"time":4,"training":2,"step":1`, `finished "mono":5,"time":5,"training":2`,
		`training "mono":6,"time":6,"training":3`, `progress "mono":7,"time":7,"training":3,"step":1`, `progress "mono":8,"time":8,"training":3,"step":2`)
	var follows []bool
	for _, p := range poll(t, NewReader(dir)) {
		follows = append(follows, p.Follows)
	}
	if !slices.Equal(follows, []bool{false, false, true, true}) {
		t.Errorf("follows: %v", follows)
	}
}

func TestFacts(t *testing.T) {
	dir := t.TempDir()
	r := NewReader(dir)
	want(t, "rows before anything", len(poll(t, r)), 0)
	if f := r.Facts(); f.Framework != "" || !math.IsNaN(f.Step) || f.Threads != -1 || f.CanSave {
		t.Errorf("facts of nothing: %+v", f)
	}
	report(t, dir, 7, `start "mono":1,"time":5`,
		`training "mono":2,"time":6,"training":1,"framework":"keras","unit":"step","world":1,"can_save":true,"can_stop":true,"versions":{"keras":"3"}`,
		`progress "mono":3,"time":7,"training":1,"step":10,"cpu":5,"world":2,"step_seconds":0.5,"batch_size":8,"train_loss":-1.5`,
		`checkpoint "mono":4,"time":8,"training":1,"step":20,"path":"/a/b","seconds":2.5,"kind":"keras"`,
		`progress "mono":5,"time":9,"training":1,"step":20,"cpu":25,"world":2,"step_seconds":0.25,"stepping":10,"waiting":2.5,"optimizing":1,"saving":0.5,"threads":4,"workers":0,"epoch":1.5,"total_steps":80,"batch_size":8`)
	rows := poll(t, r)
	want(t, "steps", fmt.Sprint(steps(rows)), "[10 20]")
	want(t, "at", rows[1].At, 5*time.Second)
	want(t, "stamp", rows[1].Row.Stamp.Unix(), 9)
	for c, w := range map[trainlog.Column]float64{trainlog.Epoch: 1.5, trainlog.TotalSteps: 80, trainlog.BatchSize: 8, trainlog.Throughput: 32} {
		v, _ := rows[1].Row.Value(c)
		want(t, c.String(), v, w)
	}
	if v, _ := rows[0].Row.Value(trainlog.TrainLoss); v != -1.5 {
		t.Errorf("loss %v", v)
	}
	f := r.Facts()
	c := f.Checkpoints[0]
	want(t, "checkpoint", fmt.Sprintf("%s %g %v %v %s %d", c.Path, c.Step, c.At, c.Took, c.Kind, len(f.Checkpoints)), "/a/b 20 4s 2.5s keras 1")
	f.Checkpoints = nil
	if got, w := fmt.Sprintf("%+v", f), fmt.Sprintf("%+v", Facts{Framework: "keras", Unit: "step", PID: 7, Training: 1,
		WorldSize: 2, Step: 20, Samples: math.NaN(), SamplesPerStep: 8, EpochSamples: math.NaN(), Threads: 4, Workers: 0, StepTime: time.Second / 4,
		DataWait: 0.25, Optimizer: 0.1, Saving: 0.05, Stepping: 10 * time.Second, Waiting: 2500 * time.Millisecond, CanSave: true, CanStop: true, CanSetWorkers: true, Saves: 1, Processes: []Process{{PID: 7, Step: 20}}}); got != w {
		t.Errorf("facts\n%s, want\n%s", got, w)
	}
	report(t, dir, 7, `finished "mono":6,"time":10,"training":1`)
	poll(t, r)
	want(t, "finished", r.Facts().Finished && !r.Facts().CanSave, true)
}

// TestConcurrent counts processes that train side by side: not ranks, ended or silent processes, nor a helper that makes
// one report.
func TestConcurrent(t *testing.T) {
	lines := func(world, from, to int) (out []string) {
		for mono := from; mono <= to; mono += 10 {
			out = append(out, fmt.Sprintf(`progress "mono":%d,"time":1,"training":1,"step":%d,"world":%d`, mono, mono, world))
		}
		return out
	}
	for name, c := range map[string]struct {
		files map[int][]string
		want  int
	}{
		"one":          {map[int][]string{1: lines(1, 1, 51)}, 1},
		"side by side": {map[int][]string{1: lines(1, 1, 51), 2: lines(0, 5, 55), 3: lines(1, 7, 47)}, 3},
		"ranks":        {map[int][]string{1: lines(2, 1, 51), 2: lines(2, 1, 51)}, 0},
		"threads":      {map[int][]string{1: append(lines(1, 1, 51), `progress "mono":52,"time":1,"training":1,"step":52,"world":1,"beside":2`)}, 3},
		"helper":       {map[int][]string{1: lines(1, 1, 51), 2: lines(1, 5, 5)}, 1},
		"in turn":      {map[int][]string{1: append(lines(1, 1, 31), `end "mono":32,"time":1`), 2: lines(1, 35, 65)}, 1},
		"killed":       {map[int][]string{1: lines(1, 1, 31), 2: lines(1, 35, 135)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for pid, l := range c.files {
				report(t, dir, pid, l...)
			}
			r := NewReader(dir)
			poll(t, r)
			want(t, "concurrent", r.Facts().Concurrent, c.want)
		})
	}
}

// Another process takes over if the training process has ended, was replaced, or is silent; helpers never do.
func TestSpeaker(t *testing.T) {
	progress := func(mono, step int, rest string) string {
		return fmt.Sprintf(`progress "mono":%d,"time":1,"training":1,"step":%d%s`, mono, step, rest)
	}
	cases := map[string]struct {
		files map[int][]string
		want  string
	}{
		"helper beside":     {map[int][]string{1: {progress(1, 1, ""), progress(3, 2, "")}, 2: {progress(2, 100, "")}}, "[1 2]"},
		"rank 1 first":      {map[int][]string{1: {progress(1, 9, `,"rank":1`)}, 2: {progress(2, 5, "")}}, "[5]"},
		"after its end":     {map[int][]string{1: {progress(1, 1, ""), `end "mono":2,"time":1`}, 2: {progress(3, 100, "")}}, "[1 100]"},
		"silent":            {map[int][]string{1: {progress(1, 1, "")}, 2: {progress(40, 100, ""), progress(70, 101, "")}}, "[1 101]"},
		"another boot":      {map[int][]string{1: {`start "mono":9000,"time":1,"boot":"another"`, progress(9001, 500, "")}, 2: {progress(3, 4, "")}}, "[4]"},
		"exec":              {map[int][]string{1: {progress(1, 7, ""), `start "mono":2,"time":1`, progress(3, 1, "")}}, "[7 1]"},
		"clock of no sense": {map[int][]string{1: {progress(5, 1, ""), progress(4, 2, ""), progress(-3, 9, "")}}, "[1 2]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for pid, lines := range c.files {
				report(t, dir, pid, lines...)
			}
			r := NewReader(dir)
			r.boot = "this"
			rows := poll(t, r)
			want(t, "steps", fmt.Sprint(steps(rows)), c.want)
			if !slices.IsSortedFunc(rows, func(a, b Progress) int { return int(a.At - b.At) }) {
				t.Error("the rows are not in the order of time")
			}
		})
	}
}

// A Reader that reads in pieces returns the same as one that reads everything at once.
func TestReadAgain(t *testing.T) {
	dir := t.TempDir()
	live := NewReader(dir)
	var rows []Progress
	for i := 1; i <= 400; i++ {
		for pid := 1; pid <= 3; pid++ {
			report(t, dir, pid, fmt.Sprintf(`progress "mono":%d.%d,"time":1,"training":1,"step":%d,"rank":%d,"pad":"%s"`, i, pid, i, pid-1, strings.Repeat("x", 2000)))
		}
		if i%7 == 0 {
			rows = append(rows, poll(t, live)...)
		}
		if i == 200 {
			report(t, dir, 1, `end "mono":200.5,"time":1`)
			report(t, dir, 4, `progress "mono":200.6,"time":1,"step":1,"training":1`)
		}
	}
	rows = append(rows, poll(t, live)...)
	again := NewReader(dir)
	var all []Progress
	for next := poll(t, again); len(next) > 0; next = poll(t, again) {
		all = append(all, next...)
	}
	if fmt.Sprint(steps(all)) != fmt.Sprint(steps(rows)) {
		t.Errorf("again %d rows, live %d", len(all), len(rows))
	}
	if a, b := fmt.Sprintf("%+v", again.Facts()), fmt.Sprintf("%+v", live.Facts()); a != b {
		t.Errorf("again\n%s, live\n%s", a, b)
	}
}

// Files that the module did not write have no effect.
func TestHostileReports(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1.jsonl", strings.Repeat("x", 3<<20)+"\n"+`{"event":"progress","pid":1,"mono":1,"time":1,"training":1,"step":3}`+"\n")
	write("2.jsonl", "\x00\xff\n{}\n[]\nnull\n"+`{"event":"progress","pid":999,"mono":1}`+"\n"+`{"event":"progress","pid":2,"mono":1e300}`+"\n"+strings.Repeat("[", 60000)+"\n")
	write("3.jsonl", strings.Repeat(`{"event":"failure","pid":3,"mono":1,"time":1,"hook":"h`, 1))
	var many strings.Builder
	for i := range 30000 {
		fmt.Fprintf(&many, `{"event":"checkpoint","pid":4,"mono":2,"time":1,"path":"p%d","kind":"k"}`+"\n"+`{"event":"failure","pid":4,"mono":2,"time":1,"hook":"h%d"}`+"\n", i, i)
	}
	write("4.jsonl", many.String())
	write("05.jsonl", "{}\n")
	write("-6.jsonl", "{}\n")
	if err := unix.Mkfifo(filepath.Join(dir, "7.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "8.jsonl")); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(filepath.Join(dir, "9.jsonl"), 0o700)
	for i := 1000; i < 2000; i++ {
		write(itoa(i)+".jsonl", "")
	}
	r := NewReader(dir)
	var got []float64
	for range 50 {
		got = append(got, steps(poll(t, r))...)
	}
	f := r.Facts()
	want(t, "files", len(r.files), maxProcesses)
	if r.files[1] != nil {
		want(t, "steps", reflect.DeepEqual(got, []float64{3}), true)
	}
	if len(f.Checkpoints) > maxCheckpoints || len(f.Failures) > maxFailures {
		t.Errorf("%d checkpoints, %d failures", len(f.Checkpoints), len(f.Failures))
	}
	if r.files[4] != nil {
		want(t, "latest checkpoint", f.Checkpoints[len(f.Checkpoints)-1].Path, "p29999")
	}
	if r.files[1] != nil || r.files[2] != nil { // the order of the directory decides which files are read
		want(t, "lines lost", r.Lost() > 0, true)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"event":"progress","pid":5,"mono":1,"time":1,"step":1e308,"step_seconds":-1}` + "\n"))
	f.Add([]byte(`{"event":"start","pid":5,"mono":1}` + "\n" + `{"event":"training","pid":5,"mono":1,"training":-1}` + "\n" + `{"event":"answer","pid":5,"mono":2,"id":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "5.jsonl"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		r := NewReader(dir)
		for _, p := range poll(t, r) {
			if p.At < 0 || p.PID != 5 {
				t.Errorf("row %+v", p)
			}
		}
		r.Facts()
	})
}

func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	home, reports := filepath.Join(dir, "observer"), filepath.Join(dir, "run", "reports")
	in, err := Install(home, reports)
	if err != nil {
		t.Fatal(err)
	}
	report(t, in.Reports, 5, `end "mono":1,"time":1`)
	damaged := filepath.Join(in.Home, "optimize_observer", "core.py")
	if err := os.WriteFile(damaged, []byte("raise SystemExit"), 0o600); err != nil {
		t.Fatal(err)
	}
	cached := filepath.Join(in.Home, "optimize_observer", "__pycache__")
	if err := os.Mkdir(cached, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(home, reports); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(damaged); err != nil || string(text) == "raise SystemExit" {
		t.Errorf("the second installation left a damaged file: %v", err)
	}
	if _, err := os.Stat(cached); err != nil {
		t.Errorf("the second installation removed the bytecode: %v", err)
	}
	files := 0
	filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		if strings.HasSuffix(path, ".py") {
			files++
		}
		return nil
	})
	if files < 10 {
		t.Errorf("%d files", files)
	}
	if _, err := os.Stat(filepath.Join(in.Reports, "5.jsonl")); err != nil {
		t.Error("the second installation lost the reports")
	}
	if _, err := Install("/dev/null/x", reports); err == nil {
		t.Error("installed below /dev/null")
	}
	env := in.Environ([]string{"A=1", "PYTHONPATH=/x:/y", "OPTIMIZE_OBSERVE_DIR=/old"})
	want(t, "environment", strings.Join(env, " "), "A=1 PYTHONPATH="+in.Home+":/x:/y OPTIMIZE_OBSERVE_DIR="+in.Reports)
}

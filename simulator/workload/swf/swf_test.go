package swf

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
)

const header = "; Version: 2.2\n; Computer: IBM SP2\n; Information: http://www.pdc.kth.se/\n;              http://www.cs.huji.ac.il/labs/\n" +
	"; MaxNodes: 100\n; Queue:  1 [fque:1] \n; Queue: 2 batch\n;\n; Note: cleaned\n;       The filter: job<=14\n"

func read(tb testing.TB, text string) ([]Record, Header, []string) {
	tb.Helper()
	r, err := NewReader(strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	var records []Record
	var wrong []string
	for {
		var rec Record
		err := r.Read(&rec)
		var line *LineError
		switch {
		case err == io.EOF:
			return records, r.Header(), wrong
		case errors.As(err, &line):
			wrong = append(wrong, err.Error())
		case err != nil:
			tb.Fatal(err)
		default:
			records = append(records, rec)
		}
	}
}

func TestHeader(t *testing.T) {
	_, h, _ := read(t, header+"1 0 1 2 3 4 5 6 7 8 1 9 10 11 12 13 14 15\n; MaxProcs: 7\n")
	for label, want := range map[string]string{
		"Version": "2.2", "Computer": "IBM SP2", "Information": "http://www.pdc.kth.se/\nhttp://www.cs.huji.ac.il/labs/",
		"Queue": "1 [fque:1]", "Note": "cleaned\nThe filter: job<=14", "MaxProcs": "", "MaxNodes": "100",
	} {
		if got := h.Text(label); got != want {
			t.Errorf("%s: got %q, want %q", label, got, want)
		}
	}
	if h.Procs() != 100 {
		t.Errorf("%d processors, want MaxNodes where MaxProcs is missing", h.Procs())
	}
	if n, ok := h.Number("Computer"); ok {
		t.Errorf("Computer is a number: %v", n)
	}
}

func TestRead(t *testing.T) {
	const good = "15 599850 192180 3477.5 4 -1 -1 4 5.394e4 -1 1 12 12 -1 -1 -1 -1 -1"
	for name, c := range map[string]struct {
		text  string
		jobs  int
		wrong string
	}{
		"one":                    {good, 1, ""},
		"blank lines, CRLF":      {"\r\n  \n" + good + "\r\n\n\t\n", 1, ""},
		"byte order mark":        {"\ufeff; Version: 2\n" + good, 1, ""},
		"more columns":           {good + " 0 7 x", 1, ""},
		"a field too few":        {good[:len(good)-3] + "\n" + good, 1, "line 1: 17 fields, want 18"},
		"a word":                 {strings.Replace(good, "192180", "soon", 1) + "\n" + good, 1, `line 1: field 3 is "soon", want a number`},
		"not finite":             {strings.Replace(good, "192180", "NaN", 1) + "\n" + strings.Replace(good, "192180", "1e999", 1), 0, "NaN"},
		"hexadecimal":            {strings.Replace(good, "192180", "0x10", 1), 0, "0x10"},
		"binary":                 {"\x00\x01\x02\xff\n" + good, 1, "want a number"},
		"a very long line":       {strings.Repeat("1 ", 100000) + "\n" + good, 1, "line 1: longer than 65536 bytes"},
		"a very long comment":    {";" + strings.Repeat("x", 200000) + "\n" + good, 1, ""},
		"comments between jobs":  {good + "\n; hello\n" + good, 2, ""},
		"nothing":                {"", 0, ""},
		"one byte":               {";", 0, ""},
		"a minus without digits": {strings.Replace(good, "192180", "-", 1), 0, `"-"`},
	} {
		t.Run(name, func(t *testing.T) {
			jobs, _, wrong := read(t, c.text)
			if len(jobs) != c.jobs || !strings.Contains(strings.Join(wrong, "\n"), c.wrong) || c.wrong == "" && len(wrong) > 0 {
				t.Errorf("%d jobs, want %d; errors %q, want %q", len(jobs), c.jobs, wrong, c.wrong)
			}
			if len(jobs) > 0 && (jobs[0][Submit] != 599850 || jobs[0][Run] != 3477.5 || jobs[0][RequestedTime] != 53940 || jobs[0][thinkTime] != -1) {
				t.Errorf("got %v", jobs[0])
			}
		})
	}
}

func clean(text string, o Options) (*Trace, error) {
	r, err := NewReader(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return cleanLog(r, o)
}

// line returns a job with the given number, submission, run time, allocated and requested processors, requested time
// and status.
func line(v ...float64) string {
	r := unknown()
	for i, f := range []int{Number, Submit, Run, allocated, Requested, RequestedTime, status}[:len(v)] {
		r[f] = v[i]
	}
	var b strings.Builder
	w := newWriter(&b)
	w.Write(&r)
	w.Close()
	return b.String()
}

func TestClean(t *testing.T) {
	good := line(1, 100, 60, 2, 4, 90, 1)
	for name, c := range map[string]struct {
		text     string
		o        Options
		jobs     string // ID, submission, run time, processors, request, limit
		dropped  map[string]problemCount
		adjusted map[string]problemCount
		err      string
	}{
		"good":              {text: good, jobs: "[1 0 60 4 90 0]"},
		"absolute":          {text: good, o: Options{KeepSubmit: true}, jobs: "[1 100 60 4 90 0]"},
		"no estimate":       {text: line(1, 0, 5, 8, 4, -1), jobs: "[1 0 5 8 5 0]", adjusted: map[string]problemCount{noEstimate: {1, 11}}},
		"no number":         {text: good + line(-1, 0, 5, 1, 1), jobs: "[1 0 60 4 90 0]", dropped: map[string]problemCount{noNumber: {1, 12}}},
		"no submission":     {text: good + line(2, -1, 5, 1, 1), jobs: "[1 0 60 4 90 0]", dropped: map[string]problemCount{noSubmit: {1, 12}}},
		"no run time":       {text: good + line(2, 0, 0, 1, 1) + line(3, 0, -1, 1, 1), jobs: "[1 0 60 4 90 0]", dropped: map[string]problemCount{noRun: {2, 12}}},
		"no processors":     {text: good + line(2, 0, 5, 0, -1), jobs: "[1 0 60 4 90 0]", dropped: map[string]problemCount{noProcs: {1, 12}}},
		"too large":         {text: good + line(2, 200, 5, 101, 1, 9), jobs: "[1 0 60 4 90 0]", dropped: map[string]problemCount{tooLarge: {1, 12}}},
		"parts":             {text: good + line(2, 200, 5, 1, 1, 9, 2) + line(2, 300, 5, 1, 1, 9, 3), jobs: "[1 0 60 4 90 0]", dropped: map[string]problemCount{partOfJob: {2, 12}}},
		"far away":          {text: good + line(2, 1e15, 5, 1, 1, 9), jobs: "[1 0 60 4 90 0]", dropped: map[string]problemCount{outOfBounds: {1, 12}}},
		"twice":             {text: good + good, jobs: "[1 0 60 4 90 0]", dropped: map[string]problemCount{sameNumber: {1, 12}}},
		"twice, not in row": {text: line(2, 9, 5, 1, 1, 9) + line(1, 9, 5, 1, 1, 9) + line(2, 9, 5, 1, 1, 9), jobs: "[1 0 5 1 9 0] [2 0 5 1 9 0]", dropped: map[string]problemCount{sameNumber: {1, 13}}, adjusted: map[string]problemCount{notInOrder: {1, 12}}},
		"unsorted":          {text: line(3, 9, 5, 1, 1, 9) + line(1, 7, 5, 1, 1, 9), jobs: "[1 0 5 1 9 0] [3 2 5 1 9 0]", adjusted: map[string]problemCount{notInOrder: {1, 12}}},
		"the first two":     {text: good + line(2, 200, 5, 1, 1, 9) + line(3, 200, 5, 1, 1, 9), o: Options{First: 2}, jobs: "[1 0 60 4 90 0] [2 100 5 1 9 0]"},
		"enough":            {text: good + "1 2 3\n", o: Options{First: 1}, jobs: "[1 0 60 4 90 0]"}, // nothing is read beyond the first
		"damaged":           {text: "1 2 3\n" + good, err: "line 11: 3 fields, want 18"},
		"damaged, skipped":  {text: "1 2 3\n" + good, o: Options{SkipDamaged: true}, jobs: "[1 0 60 4 90 0]", dropped: map[string]problemCount{Damaged: {1, 11}}},
		"none":              {text: line(1, 0, 0, 1, 1), err: "no job can be used: dropped 1: no run time (first in line 11)"},
		"bad options":       {text: good, o: Options{Procs: -1, First: -1}, err: "-1 processors"},
	} {
		t.Run(name, func(t *testing.T) {
			trace, err := clean(header+c.text, c.o)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var jobs []string
			for _, j := range trace.Jobs {
				jobs = append(jobs, fmt.Sprint([]any{j.ID, j.Submit, j.Run, j.Procs, j.Request, j.Limit}))
			}
			if got := strings.Join(jobs, " "); got != c.jobs {
				t.Errorf("jobs %s, want %s", got, c.jobs)
			}
			if got, want := fmt.Sprint(trace.Dropped, trace.Adjusted), fmt.Sprint(c.dropped, c.adjusted); got != want {
				t.Errorf("account %s, want %s", got, want)
			}
		})
	}
}

func TestNoSize(t *testing.T) {
	text := line(1, 100, 60, 2, 4, 90, 1)
	if _, err := clean(text, Options{}); !errors.Is(err, ErrNoSize) {
		t.Errorf("got %v", err)
	}
	if trace, err := clean(text, Options{Procs: 8}); err != nil || trace.Procs != 8 {
		t.Errorf("got %v", err)
	}
	if _, err := clean("", Options{}); !errors.Is(err, ErrNoJobs) {
		t.Errorf("an empty file: %v", err)
	}
}

// A truncated compressed file is an error, or a counted end if tolerated: an incomplete line is never a job.
func TestCutOff(t *testing.T) {
	var text strings.Builder
	text.WriteString(header)
	for i := range 5000 {
		text.WriteString(line(float64(i+1), float64(i*7), float64(60+i%977), 2, 4, 90, 1))
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, text.String())
	z.Close()
	whole, err := clean(packed.String(), Options{})
	if err != nil || len(whole.Jobs) != 5000 {
		t.Fatalf("got %v", err)
	}
	for _, n := range []int{packed.Len() / 2, packed.Len() - 1, packed.Len() - 9} {
		cut := packed.String()[:n]
		if _, err := clean(cut, Options{}); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("cut at %d: got %v", n, err)
		}
		part, err := clean(cut, Options{SkipDamaged: true})
		if err != nil || part.Dropped[CutOff].Jobs != 1 || len(part.Jobs) == 0 {
			t.Fatalf("cut at %d: %v", n, err)
		}
		for i := range part.Jobs {
			if a, b := part.Jobs[i], whole.Jobs[i]; a.ID != b.ID || a.Run != b.Run || a.Submit != b.Submit {
				t.Fatalf("cut at %d: job %d is %+v, want %+v", n, i, a, b)
			}
		}
	}
	if _, err := NewReader(strings.NewReader("\x1f\x8b\x08")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a header of gzip that is cut off: %v", err)
	}
	if _, err := clean(packed.String()[:20]+"\xff\xff\xff\xff"+packed.String()[24:], Options{SkipDamaged: true}); err == nil {
		t.Error("a damaged file was read to its end")
	}
}

// Round trip of every number.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []Record
		var b bytes.Buffer
		w := newWriter(&b)
		h := Header{{"Version", "2.2"}, {"Note", "a"}, {"", "and b"}}
		w.Header(h)
		for range rapid.IntRange(0, 5).Draw(t, "jobs") {
			var r Record
			for i := range r {
				r[i] = rapid.OneOf(rapid.Float64Range(-1e18, 1e18), rapid.Custom(func(t *rapid.T) float64 {
					return float64(rapid.IntRange(-1, 1e6).Draw(t, "whole"))
				})).Draw(t, "field")
			}
			want = append(want, r)
			w.Write(&r)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, gotHeader, wrong := read(&testing.T{}, b.String())
		if len(wrong) > 0 || !slices.Equal(got, want) || !slices.Equal(gotHeader, h) {
			t.Fatalf("wrote %v %v, read %v %v %v", h, want, gotHeader, got, wrong)
		}
	})
}

func TestSave(t *testing.T) {
	jobs := []order.Job{
		{ID: 3, Submit: 5, Procs: 4, Run: 7.5, Request: 9, Memory: 2, User: 1, Group: -1, Executable: -1, Deadline: math.NaN()},
		{ID: 4, Submit: 6, Procs: 1, Run: 1, Request: 1, User: -1, Group: -1, Executable: -1, Deadline: math.NaN()},
	}
	for _, name := range []string{"a.swf", "a.swf.gz"} {
		path := filepath.Join(t.TempDir(), name)
		if err := Save(path, Header{{"Computer", "mine"}, {"MaxProcs", "999"}}, jobs, 16); err != nil {
			t.Fatal(err)
		}
		trace, err := Load(path, Options{KeepSubmit: true})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(trace.Jobs) != fmt.Sprint(jobs) || trace.Procs != 16 || trace.Header.Text("Computer") != "mine" || trace.Summary() != "" {
			t.Errorf("%s: read %v of %d processors: %s", name, trace.Jobs, trace.Procs, trace.Summary())
		}
	}
	if err := Save(filepath.Join(t.TempDir(), "no", "a.swf"), nil, jobs, 16); err == nil {
		t.Error("wrote to a folder that is not there")
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.swf"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestPublishedTraces checks the numbers of jobs, processors and dropped jobs of published traces.
func TestPublishedTraces(t *testing.T) {
	for name, want := range map[string]struct {
		jobs, procs int
		summary     string
	}{
		"KTH-SP2-1996-2.1-cln.swf.gz":    {28467, 100, "dropped 1: no processors (first in line 27323); dropped 8: no run time (first in line 2476)"},
		"lublin_256.swf.gz":              {10000, 256, "changed 10000: no requested time: the run time taken (first in line 8)"},
		"HPC2N-2002-excerpt-alea.swf.gz": {3145, 240, "dropped 25: no run time (first in line 34)"},
		"cqgym_train.swf.gz":             {3000, 4360, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("../../../../shared/data/swf", name)
			if _, err := os.Stat(path); err != nil {
				t.Skipf("the published traces are not here: %v", err)
			}
			trace, err := Load(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			dropped := 0
			for _, d := range trace.Dropped {
				dropped += d.Jobs
			}
			if len(trace.Jobs) != want.jobs || trace.Procs != want.procs || trace.Summary() != want.summary {
				t.Errorf("%d jobs, %d dropped, %d processors, %q; want %+v", len(trace.Jobs), dropped, trace.Procs, trace.Summary(), want)
			}
		})
	}
}

// No input hangs or panics; the accepted jobs can be simulated; every line is accounted for.
func FuzzClean(f *testing.F) {
	f.Add([]byte(header+line(1, 100, 60, 2, 4, 90, 1)+line(1, 100, 60, 2, 4, 90, 1)+"1 2 3\n"), true)
	f.Add([]byte("; MaxProcs: 1e9\n"+line(1, 1e300, 60, 2, 4, 90, 1)+line(9e15, 1e11, 1e-300, 0.5, 4, 90, 1)), false)
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00"), true)
	f.Add([]byte(";MaxProcs: 8\n;\n; :\n; Label:x\n; Label: \r\n"), true)
	f.Fuzz(func(t *testing.T, data []byte, skip bool) {
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		trace, err := cleanLog(r, Options{SkipDamaged: skip})
		if err != nil {
			return
		}
		ids := map[int]bool{}
		for i, j := range trace.Jobs {
			if err := j.Validate(); err != nil {
				t.Fatalf("job %d cannot be simulated: %v", i, err)
			}
			if j.Procs > trace.Procs || ids[j.ID] || i > 0 && j.Submit < trace.Jobs[i-1].Submit {
				t.Fatalf("job %d: %+v", i, j)
			}
			ids[j.ID] = true
		}
	})
}

func BenchmarkClean(b *testing.B) {
	var text bytes.Buffer
	text.WriteString("; MaxProcs: 1024\n")
	w := newWriter(&text)
	for i := range 1_000_000 {
		r := Record{float64(i + 1), float64(i * 37), 12, float64(60 + i%9777), 16, -1, -1, 16, 36000, -1, 1, float64(i % 97), 3, -1, 1, -1, -1, -1}
		w.Write(&r)
	}
	w.Close()
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		r, err := NewReader(bytes.NewReader(text.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		trace, err := cleanLog(r, Options{})
		if err != nil || len(trace.Jobs) != 1_000_000 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

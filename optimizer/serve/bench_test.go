//go:build !browser

package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"trainopt/optimizer/journal"
)

// benchState is a state directory with 10,000 runs, or that of TRAINOPT_BENCH_STATE, which is kept.
func benchState(b *testing.B) string {
	dir := os.Getenv("TRAINOPT_BENCH_STATE")
	if dir == "" {
		dir = b.TempDir()
	}
	if _, err := os.Stat(dir + "/runs"); err != nil {
		WriteRuns(b, dir, 10_000)
	}
	return dir
}

func get(b *testing.B, s *Server, path string) {
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != 200 {
		b.Fatalf("%s: %d", path, w.Code)
	}
}

// BenchmarkFirstPage is the first page of 10,000 runs after the start: < 100 ms. cpu-ms/op is the processor time until
// then, which includes what the background has read of the other runs.
func BenchmarkFirstPage(b *testing.B) {
	dir := benchState(b)
	var spent time.Duration
	for b.Loop() {
		before := processorTime(b)
		s := New(Options{StateDir: dir, Token: testToken})
		get(b, s, "/")
		spent += processorTime(b) - before
		b.StopTimer()
		s.await()
		b.StartTimer()
	}
	b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "cpu-ms/op")
}

// processorTime returns the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// await waits until the rest of the index is read in the background.
func (s *Server) await() {
	s.index.updating.Lock()
	defer s.index.updating.Unlock()
}

// BenchmarkFilter is a filtered and sorted page of 10,000 runs that are in the index.
func BenchmarkFilter(b *testing.B) {
	s := New(Options{StateDir: benchState(b), Token: testToken})
	get(b, s, "/")
	s.await()
	for b.Loop() {
		get(b, s, "/?q=bert&state=failed&sort=cost")
	}
}

// BenchmarkTenReaders is one second of ten readers of a run that writes a row and a line of output per second: core-%
// is the processor time of server and readers together: < 2 % of a core.
func BenchmarkTenReaders(b *testing.B) {
	dir := b.TempDir()
	id := WriteRuns(b, dir, 1)[0]
	run := filepath.Join(journal.RunsDir(dir), id)
	HoldRun(b, dir, id)
	s := New(Options{StateDir: dir, Token: testToken})
	defer s.Close()
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	defer server.CloseClientConnections()
	for range 10 {
		answer, err := http.Get(server.URL + "/runs/" + id + "/events")
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Fatal(answer, err)
		}
		go io.Copy(io.Discard, answer.Body)
	}
	begun, before, at := time.Now(), processorTime(b), 500
	for b.Loop() {
		for name, text := range map[string]string{"samples.csv": sampleRow(at), "job.stdout": "epoch 1 of 2\n"} {
			f, err := os.OpenFile(filepath.Join(run, name), os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.WriteString(text)
				f.Close()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		at++
		time.Sleep(time.Second)
	}
	b.ReportMetric(100*(processorTime(b)-before).Seconds()/time.Since(begun).Seconds(), "core-%")
}

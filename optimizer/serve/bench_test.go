package serve

import (
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"
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

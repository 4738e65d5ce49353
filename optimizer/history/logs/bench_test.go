package logs

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkReadMillionRows supports the claim that a million rows are read in less than 1.8 s on one core and 256
// MiB.
func BenchmarkReadMillionRows(b *testing.B) {
	const rows = 1_000_000
	path := filepath.Join(b.TempDir(), "log.csv")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "step,model_name,gpu_count,cpu_count,batch_size,train_loss,time_so_far,throughput,cost_so_far,memory_used_gb")
	for i := range rows {
		fmt.Fprintf(w, "%d,resnet50,%d,16,256,%.5f,%.3f,%.1f,%.6f,%.2f\n", i+1, 1+i/(rows/2), 5/(1+float64(i)/1e5), float64(i+1)*0.25, 1024+float64(i%17), float64(i+1)*1e-4, 10+float64(i%7)/10)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	f.Close()
	fi, _ := os.Stat(path)
	b.SetBytes(fi.Size())
	var peak atomic.Uint64
	done := make(chan struct{})
	go func() {
		var m runtime.MemStats
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapInuse+m.StackInuse))
			}
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		log, err := Read(path, Options{})
		if err != nil || log.Rows != rows || len(log.Entries) != 3 {
			b.Fatalf("%d rows, %d entries, %v", log.Rows, len(log.Entries), err)
		}
	}
	close(done)
	b.ReportMetric(float64(peak.Load())/(1<<20), "peak-MiB")
}

package history

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/metrics"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// BenchmarkReadMillionRows supports the claim that a million rows are read to entries in at most half of the processor
// time that pandas takes to parse the same file (python3 of PATH, where it has pandas), in less than 64 MiB.
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
	b.Run("entries", func(b *testing.B) { readEntries(b, path, rows, fi.Size()) })
	b.Run("pandas", func(b *testing.B) {
		for b.Loop() {
			out, err := exec.Command("python3", "-c", pandasScript, path).CombinedOutput()
			if err != nil {
				b.Skipf("pandas: %v: %s", err, out)
			}
			var cpu, peak float64
			if _, err := fmt.Sscan(string(out), &cpu, &peak); err != nil {
				b.Fatalf("pandas printed %q: %v", out, err)
			}
			b.ReportMetric(cpu, "cpu-s")
			b.ReportMetric(peak, "peak-MiB")
			b.ReportMetric(0, "ns/op") // the start of Python is meaningless
		}
	})
}

// pandasScript prints the least processor time of three readings, without the start, and the peak memory in MiB.
const pandasScript = `
import pandas, resource, sys, time
def read():
    at = time.process_time()
    assert len(pandas.read_csv(sys.argv[1])) == 1000000
    return time.process_time() - at
print(min(read() for _ in range(3)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
`

func processorSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func readEntries(b *testing.B, path string, rows int, size int64) {
	var peak atomic.Uint64
	b.SetBytes(size)
	done := make(chan struct{})
	go func() {
		m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				metrics.Read(m) // does not stop the reading, unlike runtime.ReadMemStats
				peak.Store(max(peak.Load(), m[0].Value.Uint64()+m[1].Value.Uint64()+m[2].Value.Uint64()))
			}
		}
	}()
	b.ReportAllocs()
	least := math.Inf(1)
	for b.Loop() {
		from := processorSeconds()
		log, err := ReadLog(path, LogOptions{})
		if err != nil || log.Rows != rows || len(log.Entries) != 3 {
			b.Fatalf("%d rows, %d entries, %v", log.Rows, len(log.Entries), err)
		}
		least = min(least, processorSeconds()-from)
	}
	close(done)
	b.ReportMetric(least, "cpu-s")
	b.ReportMetric(float64(peak.Load())/(1<<20), "peak-MiB")
}

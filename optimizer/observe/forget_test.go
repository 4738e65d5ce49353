package observe

import (
	"fmt"
	"testing"
)

// TestWritersForget: other programs that replace their tables continually do not displace the evidence about the
// job's logs, and many records are removed at a time.
func TestWritersForget(t *testing.T) {
	w := newWriters(nil, false)
	defer w.close()
	w.job[1] = true
	own := fileID{inode: 1}
	w.classify(closed{pid: 1, id: own, path: "/job/metrics.csv"})
	w.foreign[2] = true
	full, made := 0, 0
	for i := range uint64(3 * maxRecords) {
		before := len(w.files)
		w.classify(closed{pid: 2, id: fileID{inode: 10 + i}, path: fmt.Sprintf("/other/%d.csv", i)})
		if before == maxRecords {
			full++
		}
		if len(w.files) < before {
			made++
		}
		if len(w.files) > maxRecords {
			t.Fatalf("%d files are remembered, want at most %d", len(w.files), maxRecords)
		}
	}
	if full != made || full < 2 || full > 6 {
		t.Errorf("of %d reports %d found the memory full, and room was made %d times: want the same few", 3*maxRecords, full, made)
	}
	if e, _ := w.of(own); e != wrote {
		t.Errorf("the evidence for the job's own log is %v, want %v", e, wrote)
	}
}

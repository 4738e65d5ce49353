package journal

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// fullDisk has no space except that released by the removal of the reserve.
type fullDisk struct {
	disk
	freed *bool
}

func (d fullDisk) Create(path string) (file, error) {
	if !*d.freed {
		return nil, syscall.ENOSPC
	}
	return d.disk.Create(path)
}

func (d fullDisk) Remove(path string) error {
	if filepath.Base(path) == reserveFile {
		*d.freed = true
	}
	return d.disk.Remove(path)
}

// The end of a run is recorded even if the disk is full.
func TestCase18EndIsRecordedOnAFullDisk(t *testing.T) {
	run, err := Create(t.TempDir(), "a")
	must(t, err)
	rec := NewRecord()
	rec.RunID, rec.State = "a", Running
	must(t, run.WriteRecord(rec))
	if info, err := os.Stat(run.Path(reserveFile)); err != nil || info.Size() < 64<<10 {
		t.Fatalf("reserve: %v, %v", info, err)
	}
	freed := false
	run.fs = fullDisk{freed: &freed}
	if err := run.WriteRecord(rec); err == nil || freed {
		t.Fatalf("a record of a running run used the reserve (%v)", err)
	}
	rec.State = Done
	must(t, run.WriteRecord(rec))
	if got, err := ReadRecord(run.Dir()); err != nil || got.State != Done {
		t.Errorf("%+v, %v; want done", got, err)
	}
}

//go:build !browser

package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/journal"
)

// stretch writes the files of a job on an engine into a run directory.
func stretch(t *testing.T, dir, n, stdout string) {
	t.Helper()
	job := filepath.Join(dir, "stretches", n)
	if err := os.MkdirAll(job, 0o700); err != nil {
		t.Fatal(err)
	}
	writeSample(t, filepath.Join(job, "started.json"), "{}")
	writeSample(t, filepath.Join(job, "job.stdout"), stdout)
}

// TestOutputOfEngine checks that the page, the event stream and the text show the output of jobs on an engine, which lies in
// the directories of the stretches, and that the stream continues with the output of the next stretch.
func TestOutputOfEngine(t *testing.T) {
	s := newSite(t, 1, nil)
	dir := filepath.Join(journal.RunsDir(s.state), s.ids[0])
	for _, name := range []string{"job.stdout", "job.stderr"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.hold()
	stretch(t, dir, "1", "trained on node7\n")
	for _, path := range []string{"", "/output/stdout"} {
		if code, body, _ := s.ask("GET", "/runs/"+s.ids[0]+path, ""); code != 200 || !strings.Contains(body, "trained on node7") {
			t.Fatalf("%s: %d, without the output of the stretch", path, code)
		}
	}
	if code, _, _ := s.ask("GET", "/runs/"+s.ids[0]+"/output/stderr", ""); code != 404 {
		t.Errorf("output that does not exist: %d, want 404", code)
	}
	x := s.stream("", "")
	if e := x.next(t, "output"); !strings.Contains(e.data, "trained on node7") {
		t.Errorf("stream: %s", e.data)
	}
	stretch(t, dir, "2", "trained on node8\n")
	if e := x.next(t, "output"); !strings.Contains(e.data, "trained on node8") || !strings.Contains(e.data, `"reset":true`) {
		t.Errorf("stream of the next stretch: %s", e.data)
	}
	if _, body, _ := s.ask("GET", "/runs/"+s.ids[0]+"/output/stdout", ""); body != "trained on node7\ntrained on node8\n" {
		t.Errorf("all output: %q", body)
	}
}

// TestRotatedOutput checks that all of the output includes the part that a rotation renamed.
func TestRotatedOutput(t *testing.T) {
	s := newSite(t, 1, nil)
	writeSample(t, filepath.Join(journal.RunsDir(s.state), s.ids[0], "job.stdout.1"), "epoch 0 of 40\n")
	if code, body, _ := s.ask("GET", "/runs/"+s.ids[0]+"/output/stdout", ""); code != 200 || body != "epoch 0 of 40\nepoch 1 of 40\nepoch 2 of 40\n" {
		t.Errorf("%d %q", code, body)
	}
}

package monitor

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scripted is a collector with a function supplied by the test.
type scripted struct {
	name    string
	collect func(ctx context.Context, s *Sample) error
}

func (c scripted) Name() string                                 { return c.name }
func (c scripted) Collect(ctx context.Context, s *Sample) error { return c.collect(ctx, s) }

// A hanging collector, such as a driver, delays neither the others nor the next sample, and is reported once.
func TestSamplerHangingCollector(t *testing.T) {
	release := make(chan struct{})
	calls := 0
	hang := scripted{"hang", func(ctx context.Context, s *Sample) error {
		if calls++; calls == 1 {
			<-release
		}
		s.Host.MemoryGiB = float64(calls)
		return nil
	}}
	good := scripted{"good", func(ctx context.Context, s *Sample) error { s.Tree.CPUPercent = 50; return nil }}
	s := Sampler{Collectors: []Collector{hang, good}, Timeout: 3 * time.Second}
	at := time.Unix(100, 0)

	got, errs := s.Sample(context.Background(), at)
	want(t, "others", got.Tree.CPUPercent, 50.)
	want(t, "errors", errs, "[collector hang: no answer within 3s; left out until it answers]")
	if !math.IsNaN(got.Host.MemoryGiB) || !got.At.Equal(at) {
		t.Errorf("sample of a hanging collector: %+v", got)
	}
	for range 3 {
		got, errs = s.Sample(context.Background(), at)
		want(t, "later errors", len(errs), 0)
		want(t, "others", got.Tree.CPUPercent, 50.)
	}
	close(release)
	for i := 0; ; i++ { // it returns: its old reply is discarded, then it is called again
		got, errs = s.Sample(context.Background(), at)
		want(t, "errors when it is back", len(errs), 0)
		if !math.IsNaN(got.Host.MemoryGiB) {
			break
		}
		if i > 1000 {
			t.Fatal("it never came back")
		}
		time.Sleep(time.Millisecond)
	}
	want(t, "answer", got.Host.MemoryGiB, 2.)
}

func TestSamplerErrors(t *testing.T) {
	var err error
	c := scripted{"c", func(context.Context, *Sample) error { return err }}
	p := scripted{"p", func(context.Context, *Sample) error { panic("boom") }}
	s := Sampler{Collectors: []Collector{c, p}}
	sample := func() string {
		_, errs := s.Sample(context.Background(), time.Unix(1, 0))
		return errorText(errs)
	}
	want(t, "panic", sample(), "collector p: panic: boom")
	err = ErrNoData
	want(t, "no data", sample(), "")
	err = errors.New("broken")
	want(t, "first", sample(), "collector c: broken")
	want(t, "again", sample(), "")
	err = errors.New("worse")
	want(t, "other", sample(), "collector c: worse")
	err = nil
	want(t, "mended", sample(), "")
	err = errors.New("worse")
	want(t, "back", sample(), "collector c: worse")
}

func errorText(errs []error) string {
	var parts []string
	for _, e := range errs {
		parts = append(parts, e.Error())
	}
	return strings.Join(parts, "; ")
}

func TestNothingKnownIsNaN(t *testing.T) {
	s, errs := new(Sampler).Sample(context.Background(), time.Unix(1, 0))
	want(t, "errors", len(errs), 0)
	for name, v := range s.Values() {
		if f, ok := v.(float64); !ok || !math.IsNaN(f) {
			t.Errorf("%s is %v although nothing is known", name, v)
		}
	}
}

func TestHostRecorded(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("meminfo", "MemTotal: 8388608 kB\nMemFree: 1048576 kB\nMemAvailable: 6291456 kB\nBuffers: 0 kB\nCached: 5242880 kB\n")
	write("stat", "cpu  1000 0 500 8000 500 0 0 0 0 0\ncpu0 1000 0 500 8000 500 0 0 0 0 0\nbtime 1700000000\n")
	h := &Host{Proc: dir}
	collect := func() Sample {
		s := NoSample(time.Unix(1, 0))
		if err := h.Collect(context.Background(), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := collect(); !math.IsNaN(s.Host.CPUPercent) || s.Host.MemoryGiB != 2 {
		t.Errorf("first sample %+v", s.Host)
	}
	write("stat", "cpu  1250 0 550 8600 600 0 0 0 0 0\ncpu0 1250 0 550 8600 600 0 0 0 0 0\nbtime 1700000000\n")
	want(t, "CPU", collect().Host.CPUPercent, 30.)
	if s := collect(); !math.IsNaN(s.Host.CPUPercent) {
		t.Errorf("no time has passed, but the machine was %g %% busy", s.Host.CPUPercent)
	}
	if err := (&Host{Proc: "/no/such/dir"}).Collect(context.Background(), new(Sample)); err == nil {
		t.Error("no /proc, no error")
	}
}

func TestHostReal(t *testing.T) {
	h := &Host{}
	s := NoSample(time.Now())
	if err := h.Collect(context.Background(), &s); err != nil {
		t.Fatal(err)
	}
	if !(s.Host.MemoryGiB > 0) {
		t.Errorf("this machine uses %g GiB", s.Host.MemoryGiB)
	}
}

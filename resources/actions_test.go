package resources

import (
	"testing"

	"pgregory.net/rapid"
)

func TestActionsOfThePublishedPrograms(t *testing.T) {
	l := Limits{GPUs: Range{0, 8}, CPUs: Range{1, 64}, MemoryMin: 4, MemoryMax: 128}
	from := Allocation{GPUs: 2, CPUs: 16, Memory: 32}
	cases := map[string]struct {
		memory   bool
		index    int
		change   change
		describe string
		to       Allocation
	}{
		"27: first":  {true, 0, change{-1, -1, -1}, "1 GPU fewer, 4 CPUs fewer, 8 GiB less", Allocation{GPUs: 1, CPUs: 12, Memory: 24}},
		"27: stay":   {true, 13, change{0, 0, 0}, "no change", from},
		"27: last":   {true, 26, change{1, 1, 1}, "1 GPU more, 4 CPUs more, 8 GiB more", Allocation{GPUs: 3, CPUs: 20, Memory: 40}},
		"27: GPU":    {true, 22, change{1, 0, 0}, "1 GPU more", Allocation{GPUs: 3, CPUs: 16, Memory: 32}},
		"27: CPU":    {true, 10, change{0, -1, 0}, "4 CPUs fewer", Allocation{GPUs: 2, CPUs: 12, Memory: 32}},
		"27: memory": {true, 14, change{0, 0, 1}, "8 GiB more", Allocation{GPUs: 2, CPUs: 16, Memory: 40}},
		"9: first":   {false, 0, change{-1, -1, 0}, "1 GPU fewer, 4 CPUs fewer", Allocation{GPUs: 1, CPUs: 12, Memory: 32}},
		"9: stay":    {false, 4, change{0, 0, 0}, "no change", from},
		"9: last":    {false, 8, change{1, 1, 0}, "1 GPU more, 4 CPUs more", Allocation{GPUs: 3, CPUs: 20, Memory: 32}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := ActionSpace{Limits: l, WithMemory: c.memory}
			if got := s.Change(c.index); got != c.change {
				t.Errorf("change %+v, want %+v", got, c.change)
			}
			if got := s.Describe(c.index); got != c.describe {
				t.Errorf("description %q, want %q", got, c.describe)
			}
			if got := s.Apply(c.index, from); !got.Same(c.to) {
				t.Errorf("leads to %v, want %v", got, c.to)
			}
		})
	}
}

func TestMaskAtTheLimits(t *testing.T) {
	s := ActionSpace{Limits: Limits{CPUs: Range{1, 6}, MemoryMin: 8, MemoryMax: 16}, WithMemory: true}
	mask := s.Mask(Allocation{CPUs: 5, Memory: 16}) // no GPU available, one CPU more, memory only less
	var open []string
	for i, ok := range mask {
		if ok {
			open = append(open, s.Describe(i))
		}
	}
	diff(t, "open actions", open, []string{"4 CPUs fewer, 8 GiB less", "4 CPUs fewer", "8 GiB less", "no change", "4 CPUs more, 8 GiB less", "4 CPUs more"})
	if got := s.Apply(16, Allocation{CPUs: 5, Memory: 16}); got.CPUs != 6 {
		t.Errorf("a step of 4 CPUs from 5 within 6 gives %d, want 6", got.CPUs)
	}
}

func TestDevicesFollowTheirNumber(t *testing.T) {
	s := ActionSpace{Limits: Limits{GPUs: Range{0, 2}, CPUs: Range{1, 8}, MemoryMax: 8}}
	a := Allocation{GPUs: 2, GPUIDs: []string{"GPU-a", "GPU-b"}, CPUs: 1, Memory: 8}
	if got := s.Apply(5, a); len(got.GPUIDs) != 2 { // CPUs only
		t.Errorf("devices %v after a change of CPUs", got.GPUIDs)
	}
	if got := s.Apply(7, a); len(got.GPUIDs) != 2 { // one GPU more, clipped back to two
		t.Errorf("devices %v after a step that was clipped", got.GPUIDs)
	}
	if got := s.Apply(1, a); got.GPUs != 1 || got.GPUIDs != nil {
		t.Errorf("%+v after a change to one GPU: the devices must be chosen again", got)
	}
}

func drawSpace(t *rapid.T) ActionSpace {
	return ActionSpace{Limits: drawLimits(t), WithMemory: rapid.Bool().Draw(t, "27")}
}

func TestActionsAreDistinctChanges(t *testing.T) {
	for _, withMemory := range []bool{false, true} {
		s := ActionSpace{WithMemory: withMemory}
		said, changes := map[string]bool{}, map[change]bool{}
		for i := range s.Size() {
			said[s.Describe(i)], changes[s.Change(i)] = true, true
		}
		if len(said) != s.Size() || len(changes) != s.Size() {
			t.Errorf("%d descriptions and %d changes for %d actions", len(said), len(changes), s.Size())
		}
		if s.Change(s.Stay()) != (change{}) {
			t.Errorf("Stay is %+v", s.Change(s.Stay()))
		}
	}
}

func TestActionsKeepTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpace(t)
		a := s.Limits.Clip(drawAllocation(t))
		if a.BatchSize < 0 {
			a.BatchSize = 0
		}
		h := Host{CPUs: 64, Memory: 64, GPUs: testHost(8).GPUs}
		mask := s.Mask(a)
		if !mask[s.Stay()] {
			t.Fatal("no change is masked")
		}
		if got := s.Apply(s.Stay(), a); !got.Same(a) {
			t.Fatalf("no change leads from %v to %v", a, got)
		}
		for i, open := range mask {
			next := s.Apply(i, a)
			if err := s.Limits.Check(next, h); err != nil {
				t.Fatalf("action %d from %v to %v: %v", i, a, next, err)
			}
			if !open {
				continue
			}
			if i != s.Stay() && next.Same(a) {
				t.Fatalf("action %d (%s) is open and changes nothing from %v", i, s.Describe(i), a)
			}
			if got, ok := s.IndexOf(a, next); !ok || got != i {
				t.Fatalf("action %d (%s) from %v to %v comes back as %d, %v", i, s.Describe(i), a, next, got, ok)
			}
		}
		far := a
		far.CPUs += 1000
		if i, ok := s.IndexOf(a, far); ok {
			t.Fatalf("1000 CPUs more is action %d", i)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	s := ActionSpace{Limits: Limits{GPUs: Range{1, 8}, CPUs: Range{1, 96}, MemoryMin: 1, MemoryMax: 512}, WithMemory: true}
	a := Allocation{GPUs: 4, CPUs: 48, Memory: 256}
	b.ReportAllocs()
	for b.Loop() {
		s.Mask(a)
	}
}

package resources

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fakePower is a machine whose GPUs allow 100 to 400 W.
type fakePower struct {
	watts map[string]uint32 // mW
	deny  error             // of every set
	lost  map[string]bool
}

func (f *fakePower) close() {}

func (f *fakePower) limits(uuid string) (now, least, most uint32, err error) {
	if _, ok := f.watts[uuid]; !ok || f.lost[uuid] {
		return 0, 0, 0, errors.New("the device is lost")
	}
	return f.watts[uuid], 100_000, 400_000, nil
}

func (f *fakePower) set(uuid string, mw uint32) error {
	switch {
	case f.lost[uuid]:
		return errors.New("the device is lost")
	case f.deny != nil:
		return f.deny
	case mw < 100_000 || mw > 400_000:
		return errors.New("outside the range of the device")
	}
	f.watts[uuid] = mw
	return nil
}

func (f *fakePower) at(dir string) powerLimits {
	return powerLimits{dir: dir, open: func() (powerDriver, error) { return f, nil }}
}

func newFakePower() *fakePower {
	return &fakePower{watts: map[string]uint32{"GPU-a": 300_000, "GPU-b": 250_000}, lost: map[string]bool{}}
}

func noneAlive(string) bool { return false }
func everybody(string) bool { return true }
func stored(dir string) int { list, _ := filepath.Glob(filepath.Join(dir, "*.json")); return len(list) }

func TestPowerLimitIsRestored(t *testing.T) {
	f, dir := newFakePower(), filepath.Join(t.TempDir(), "power")
	p := f.at(dir)
	h, err := p.hold("run1", []string{"GPU-a", "GPU-b"}, noneAlive)
	if err != nil {
		t.Fatal(err)
	}
	if h.OwnW != 0 || h.LeastW != 100 || h.MostW != 400 {
		t.Errorf("hold: own %d W, %d to %d W", h.OwnW, h.LeastW, h.MostW)
	}
	if stored(dir) != 0 {
		t.Error("holding the devices alone has stored something")
	}
	for _, w := range []int{200, 150} {
		if err := h.Set(w); err != nil {
			t.Fatal(err)
		}
		if f.watts["GPU-a"] != uint32(w)*1000 || f.watts["GPU-b"] != uint32(w)*1000 {
			t.Fatalf("after Set(%d): %v", w, f.watts)
		}
	}
	again, err := p.hold("run1", []string{"GPU-a"}, noneAlive) // an agent that continues the run
	if err != nil || again.OwnW != 300 {
		t.Fatalf("held again: %+v, %v", again, err)
	}
	lines, err := p.release(h.ours)
	if err != nil || len(lines) != 2 || f.watts["GPU-a"] != 300_000 || f.watts["GPU-b"] != 250_000 || stored(dir) != 0 {
		t.Errorf("release: %q, %v, %v, %d files", lines, err, f.watts, stored(dir))
	}
	if lines, err := p.release(h.ours); err != nil || lines != nil {
		t.Errorf("second release: %q, %v", lines, err)
	}
}

func TestPowerLimitRefusals(t *testing.T) {
	cases := map[string]struct {
		uuids  []string
		damage func(f *fakePower, p powerLimits)
		alive  func(string) bool
		says   string
	}{
		"no GPU":         {says: "the job has no GPU"},
		"not permitted":  {uuids: []string{"GPU-a"}, damage: func(f *fakePower, _ powerLimits) { f.deny = errors.New("not permitted: it requires root") }, says: "requires root"},
		"a slice":        {uuids: []string{"MIG-1"}, says: "shares that of its device"},
		"unknown device": {uuids: []string{"GPU-x"}, says: "lost"},
		"of another run": {uuids: []string{"GPU-a"}, damage: otherRun, alive: everybody, says: "the run in other has set it"},
		"damaged file": {uuids: []string{"GPU-a"}, damage: func(_ *fakePower, p powerLimits) {
			os.MkdirAll(p.dir, 0o755)
			os.WriteFile(p.path("GPU-a"), []byte("{"), 0o644)
		}, says: "not a power limit stored"},
		"of another file": {uuids: []string{"GPU-b"}, damage: func(f *fakePower, p powerLimits) { otherRun(f, p); os.Rename(p.path("GPU-a"), p.path("GPU-b")) }, says: "not a power limit stored"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFakePower()
			p := f.at(filepath.Join(t.TempDir(), "power"))
			if c.damage != nil {
				c.damage(f, p)
			}
			if c.alive == nil {
				c.alive = noneAlive
			}
			before := f.watts["GPU-a"]
			if _, err := p.hold("mine", c.uuids, c.alive); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if f.watts["GPU-a"] != before {
				t.Errorf("refused, but changed from %d to %d mW", before, f.watts["GPU-a"])
			}
		})
	}
}

// otherRun sets 200 W on GPU-a for another run.
func otherRun(f *fakePower, p powerLimits) {
	h, err := p.hold("other", []string{"GPU-a"}, noneAlive)
	if err == nil {
		err = h.Set(200)
	}
	if err != nil {
		panic(err)
	}
}

// TestPowerLimitOfDeadRun: the own limit is that before the dead run, not the one that it has left.
func TestPowerLimitOfDeadRun(t *testing.T) {
	f := newFakePower()
	p := f.at(filepath.Join(t.TempDir(), "power"))
	otherRun(f, p)
	if lines, err := p.release(func(s powerState) bool { return !everybody(s.RunDir) }); lines != nil || err != nil || f.watts["GPU-a"] != 200_000 {
		t.Fatalf("the limit of a living run was touched: %q, %v, %v", lines, err, f.watts)
	}
	h, err := p.hold("mine", []string{"GPU-a"}, noneAlive)
	if err != nil || h.OwnW != 300 {
		t.Fatalf("hold: %+v, %v; want 300 W of its own", h, err)
	}
}

func TestPowerLimitOfOthersIsKept(t *testing.T) {
	f := newFakePower()
	p := f.at(filepath.Join(t.TempDir(), "power"))
	otherRun(f, p)
	f.watts["GPU-a"] = 222_000 // nvidia-smi
	lines, err := p.release(func(powerState) bool { return true })
	if err != nil || f.watts["GPU-a"] != 222_000 || len(lines) != 1 || !strings.Contains(lines[0], "another program") || stored(p.dir) != 0 {
		t.Errorf("%q, %v, %v", lines, err, f.watts)
	}
}

// TestPowerLimitOfLostDevice: a device that is away is restored when it is back; the others at once.
func TestPowerLimitOfLostDevice(t *testing.T) {
	f := newFakePower()
	p := f.at(filepath.Join(t.TempDir(), "power"))
	h, err := p.hold("run", []string{"GPU-a", "GPU-b"}, noneAlive)
	if err != nil || h.Set(150) != nil {
		t.Fatal(err)
	}
	f.lost["GPU-a"] = true
	if err := h.Set(170); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("Set with a lost device: %v", err)
	}
	if f.watts["GPU-b"] != 250_000 {
		t.Errorf("the other device stays at %d mW", f.watts["GPU-b"])
	}
	if stored(p.dir) != 1 {
		t.Errorf("%d files, want that of the lost device", stored(p.dir))
	}
	f.lost["GPU-a"] = false
	if _, err := p.release(h.ours); err != nil || f.watts["GPU-a"] != 300_000 || stored(p.dir) != 0 {
		t.Errorf("back again: %v, %v", err, f.watts)
	}
}

func TestPowerStateCannotBeStored(t *testing.T) {
	f, file := newFakePower(), filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o644)
	if _, err := f.at(filepath.Join(file, "power")).hold("run", []string{"GPU-a"}, noneAlive); err == nil || !strings.Contains(err.Error(), "store power limits") {
		t.Errorf("error %v", err)
	}
}

// TestPowerLimitEverSurvivesDeath: whatever runs set, in whatever order they die, the devices end as they were.
func TestPowerLimitEverSurvivesDeath(t *testing.T) {
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		f := newFakePower()
		p := f.at(filepath.Join(root, strings.Repeat("x", n%50)+"/power"))
		living := map[string]bool{}
		alive := func(run string) bool { return living[run] }
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			run := rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(t, "run")
			uuid := rapid.SampledFrom([]string{"GPU-a", "GPU-b"}).Draw(t, "device")
			switch rapid.IntRange(0, 3).Draw(t, "act") {
			case 0, 1:
				living[run] = true
				if h, err := p.hold(run, []string{uuid}, alive); err == nil {
					_ = h.Set(rapid.IntRange(90, 410).Draw(t, "W")) // outside the range: refused
				}
			case 2: // kill -9 of everything
				living[run] = false
			case 3:
				if _, err := p.release(func(s powerState) bool { return s.RunDir == run }); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := p.release(func(powerState) bool { return true }); err != nil {
			t.Fatal(err)
		}
		if f.watts["GPU-a"] != 300_000 || f.watts["GPU-b"] != 250_000 || stored(p.dir) != 0 {
			t.Fatalf("left at %v, %d files", f.watts, stored(p.dir))
		}
	})
}

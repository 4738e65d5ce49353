package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// RAPL collects HostSample.CPUEnergyJ from the counters of the processors (running average power limit) that Linux
// shows below /sys/class/powercap, of Intel and of AMD. It adds up the packages; their parts (core, dram) and the
// platform counter (psys) measure some of the same energy and are left out.
//
// A machine without counters yields ErrNoData. Most systems let only root read them: the error then wraps
// fs.ErrPermission, and the number stays unknown.
type RAPL struct {
	// Root is the folder of the power zones.
	Root string

	zones []*powerZone
	at    time.Time
	sum   float64 // J since the first sample
}

// powerZone is the counter of one processor package in µJ; it restarts from 0 beyond most.
type powerZone struct {
	dir        string
	last, most float64
}

var _ Collector = (*RAPL)(nil)

// maxPackageW is more than a processor package draws. A counter that can overflow twice between two samples at this
// power does not measure the time between them.
const maxPackageW = 2000

// Name returns "rapl".
func (r *RAPL) Name() string { return "rapl" }

// Collect reads all counters. An error in one of them leaves the sum unknown until all can be read again.
func (r *RAPL) Collect(_ context.Context, s *Sample) error {
	first := r.zones == nil
	if first {
		if err := r.find(); err != nil {
			return err
		}
	}
	now := make([]float64, len(r.zones))
	for i, z := range r.zones {
		var err error
		if now[i], err = readCounter(z.dir, "energy_uj"); err != nil {
			if first {
				r.zones = nil
			}
			return fmt.Errorf("read CPU energy: %w", err)
		}
	}
	gap := s.At.Sub(r.at).Seconds()
	var missed error
	for i, z := range r.zones {
		if !first {
			joules, ok := z.since(now[i], gap)
			if r.sum += joules; !ok {
				missed = fmt.Errorf("read CPU energy: the counter in %s was reset or may have overflowed twice: energy since the previous sample not counted", z.dir)
			}
		}
		z.last = now[i]
	}
	r.at, s.Host.CPUEnergyJ = s.At, r.sum
	return missed
}

// since returns the joules since the last reading, gap seconds ago; ok is false, and joules are 0, when the counter does
// not show them.
func (z *powerZone) since(now, gap float64) (joules float64, ok bool) {
	used := now - z.last
	if used < 0 {
		used += z.most
	}
	switch possible := gap * maxPackageW * 1e6; {
	case now > z.most, used < 0, used > possible: // a reset
	case possible >= used+z.most: // a further overflow is possible
	default:
		return used / 1e6, true
	}
	return 0, false
}

// find lists the processor packages.
func (r *RAPL) find() error {
	dirs, err := filepath.Glob(filepath.Join(r.Root, "intel-rapl:*"))
	if err != nil {
		return fmt.Errorf("find CPU energy counters: %w", err)
	}
	for _, dir := range dirs {
		name, err := os.ReadFile(filepath.Join(dir, "name"))
		if err != nil || strings.Count(filepath.Base(dir), ":") != 1 || !strings.HasPrefix(string(name), "package") {
			continue
		}
		most, err := readCounter(dir, "max_energy_range_uj")
		if err != nil {
			r.zones = nil
			return fmt.Errorf("read CPU energy: %w", err)
		}
		r.zones = append(r.zones, &powerZone{dir: dir, most: most})
	}
	if len(r.zones) == 0 {
		return ErrNoData
	}
	return nil
}

// readCounter reads a file that contains one number ≥ 0.
func readCounter(dir, name string) (float64, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrPermission) {
		return math.NaN(), fmt.Errorf("%w (root or read permission needed): no data", err)
	}
	if err != nil {
		return math.NaN(), err
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return math.NaN(), fmt.Errorf("read %s: %q is no counter", filepath.Join(dir, name), text[:min(len(text), 40)])
	}
	return float64(v), nil
}

package monitor

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"trainopt/internal/regular"
)

// Activity collects GPUSample from a directory with one file for each device: the name of the file is that of the
// device, its content the utilization in percent and, optionally, the used and the total memory in GiB. It is for devices that no driver describes, such as those of a test
// cluster. A file that was not written for activityAge is that of an idle device.
type Activity struct{ Dir string }

var _ Collector = (*Activity)(nil)

const (
	activityAge  = 5 * time.Second
	activitySize = 64 // bytes of a file
)

// Name returns "activity".
func (*Activity) Name() string { return "activity" }

// Collect appends a sample for each device.
func (a *Activity) Collect(_ context.Context, s *Sample) error {
	entries, err := os.ReadDir(a.Dir)
	if err != nil {
		return fmt.Errorf("read device activity: %w", err)
	}
	nan := NoSample(s.At).Host.CPUPercent
	for _, e := range entries {
		path := filepath.Join(a.Dir, e.Name())
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		g := GPUSample{UUID: e.Name(), UtilPercent: nan, MemoryGiB: nan, TotalGiB: nan, PowerW: nan, EnergyJ: nan}
		text, err := regular.ReadFile(path, activitySize)
		if v := numbers(string(text)); err == nil && len(v) > 0 && v[0] >= 0 && v[0] <= 100 {
			if g.UtilPercent = v[0]; s.At.Sub(info.ModTime()) > activityAge {
				g.UtilPercent = 0
			}
			if len(v) == 3 && v[1] >= 0 && v[2] > 0 {
				g.MemoryGiB, g.TotalGiB = v[1], v[2]
			}
		}
		s.GPUs = append(s.GPUs, g)
	}
	return nil
}

// numbers returns the finite numbers of a text; nil if it contains anything else.
func numbers(text string) (out []float64) {
	for _, f := range strings.Fields(text) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		out = append(out, v)
	}
	return out
}

package resources

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gpuReader lists the devices of the machine; MIG slices replace a partitioned device.
type gpuReader func() (gpus []GPU, notes []string)

// gpuTimeout bounds one reading: initialising eight devices without persistence mode takes seconds, and a broken
// driver may never return.
const gpuTimeout = 15 * time.Second

// listGPUs calls read with a timeout, so that a hanging driver does not block the caller. The goroutine of a call
// that never returns is leaked, because a call into the driver cannot be cancelled.
func listGPUs(ctx context.Context, read gpuReader) ([]GPU, []string) {
	type answer struct {
		gpus  []GPU
		notes []string
	}
	done := make(chan answer, 1)
	go func() {
		a := answer{notes: []string{"reading the GPUs failed: GPUs unknown, counted as none"}}
		defer func() {
			if p := recover(); p != nil {
				a.notes[0] += fmt.Sprintf(" (%v)", p)
			}
			done <- a
		}()
		a.gpus, a.notes = read()
	}()
	timer := time.NewTimer(gpuTimeout)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.gpus, a.notes
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, []string{"the NVIDIA driver does not answer: GPUs unknown, counted as none"}
}

// visibleDevices is the CUDA_VISIBLE_DEVICES of the caller.
type visibleDevices struct {
	list string
	set  bool
	// byBus is true if the caller's CUDA_DEVICE_ORDER numbers devices like the driver, by PCI bus.
	byBus bool
}

// choose returns the devices that the variable makes visible to CUDA, in its order. Like CUDA, it accepts indices,
// UUIDs and unique prefixes of UUIDs, and stops at the first entry that matches no device; with a duplicate device no
// device is visible.
func (v visibleDevices) choose(all []GPU) (seen []GPU, notes []string) {
	if !v.set {
		return all, nil
	}
	for _, entry := range strings.Split(v.list, ",") {
		entry = strings.TrimSpace(entry)
		g, ok := findDevice(all, entry)
		if !ok {
			if entry != "" && entry != "-1" && entry != "NoDevFiles" && len(all) > 0 {
				notes = append(notes, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s: %q names no device here; it and what follows it are not seen", v.list, entry))
			}
			break
		}
		if _, err := strconv.Atoi(entry); err == nil && !v.byBus && slices.ContainsFunc(all, func(o GPU) bool { return o.Name != g.Name }) {
			notes = append(notes, "the GPUs are of different kinds and CUDA_VISIBLE_DEVICES counts them: read in the driver's order; set CUDA_DEVICE_ORDER=PCI_BUS_ID or name UUIDs to be sure")
		}
		if slices.ContainsFunc(seen, func(o GPU) bool { return o.UUID == g.UUID }) {
			return nil, append(notes, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s names a device twice: CUDA then sees none", v.list))
		}
		seen = append(seen, g)
	}
	if len(seen) < len(all) {
		notes = append(notes, fmt.Sprintf("GPUs: %d of %d, by CUDA_VISIBLE_DEVICES=%s", len(seen), len(all), v.list))
	}
	slices.Sort(notes)
	return seen, slices.Compact(notes)
}

// findDevice returns the device of one entry: an index, a UUID or a unique prefix of one.
func findDevice(all []GPU, entry string) (GPU, bool) {
	if entry == "" {
		return GPU{}, false
	}
	if i, err := strconv.Atoi(entry); err == nil {
		at := slices.IndexFunc(all, func(g GPU) bool { return g.Index == i })
		if at < 0 {
			return GPU{}, false
		}
		return all[at], true // the first slice if device i is partitioned
	}
	var found []GPU
	for _, g := range all {
		if g.UUID == entry {
			return g, true
		}
		if strings.HasPrefix(g.UUID, entry) && (strings.HasPrefix(entry, "GPU-") || strings.HasPrefix(entry, "MIG-")) {
			found = append(found, g)
		}
	}
	if len(found) != 1 {
		return GPU{}, false
	}
	return found[0], true
}

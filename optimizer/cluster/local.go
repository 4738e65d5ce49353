package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/cost"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// local is this machine, whose GPUs or CPUs several jobs share. Each device belongs to one type; a device of a machine
// without GPUs is a slot: an equal part of its CPUs.
type local struct {
	host    resources.Host
	devices []Device
	gpus    [][]resources.GPU // by type; nil: slots
	before  []int             // number of devices of earlier types
}

var _ Site = (*local)(nil)

// NewLocal divides a machine. slots is the number of slots of a machine without GPUs; 0: one for each CPU. stated
// replaces the discovered types: GPUs whose name contains that of the type, or else slots.
func NewLocal(host resources.Host, slots int, stated []Device) (*local, error) {
	l := &local{host: host}
	switch {
	case len(stated) > 0:
		return l, l.state(stated)
	case len(host.GPUs) > 0:
		for _, g := range host.GPUs {
			name := deviceName(g.Name)
			at := slices.IndexFunc(l.devices, func(d Device) bool { return d.Name == name })
			if at < 0 {
				l.devices, l.gpus = append(l.devices, Device{Name: name}), append(l.gpus, nil)
				at = len(l.devices) - 1
			}
			l.devices[at].Count++
			l.gpus[at] = append(l.gpus[at], g)
		}
	default:
		n := cmp.Or(slots, max(1, int(host.CPUs)))
		if n < 1 || n > maxDevices {
			return nil, fmt.Errorf("%d slots: want a number from 1 to %d", n, maxDevices)
		}
		l.devices, l.gpus = []Device{{Name: "cpu", Count: n}}, [][]resources.GPU{nil}
	}
	l.share()
	return l, nil
}

const maxDevices = 100_000

// state divides the machine as stated.
func (l *local) state(stated []Device) error {
	free := slices.Clone(l.host.GPUs)
	for _, d := range stated {
		if d.Count > maxDevices {
			return fmt.Errorf("devices: %d of type %s: want at most %d", d.Count, d.Name, maxDevices)
		}
		var mine []resources.GPU
		free = slices.DeleteFunc(free, func(g resources.GPU) bool {
			if len(mine) == d.Count || !strings.Contains(deviceName(g.Name), deviceName(d.Name)) {
				return false
			}
			mine = append(mine, g)
			return true
		})
		if len(l.host.GPUs) > 0 && len(mine) < d.Count {
			return fmt.Errorf("devices: this machine has %d GPUs of type %s, not %d", len(mine), d.Name, d.Count)
		}
		l.devices, l.gpus = append(l.devices, d), append(l.gpus, mine)
	}
	l.share()
	return nil
}

// share divides CPUs and memory among the devices, and sorts the types by name.
func (l *local) share() {
	total := 0
	for i, d := range l.devices {
		total += d.Count
		l.devices[i].GPU = l.gpus[i] != nil
	}
	byName := make([]int, len(l.devices))
	for i := range l.devices {
		byName[i] = i
		d := &l.devices[i]
		d.PerServer, d.CPUs, d.MemoryGiB = d.Count, l.host.CPUs/float64(total), float64(l.host.Memory)/float64(total)
		if d.USDHour == 0 {
			model := ""
			if l.gpus[i] != nil {
				model = l.gpus[i][0].Name
			}
			d.USDHour = priceOf(model, d.CPUs, d.MemoryGiB)
		}
	}
	slices.SortFunc(byName, func(a, b int) int { return strings.Compare(l.devices[a].Name, l.devices[b].Name) })
	devices, gpus := make([]Device, len(byName)), make([][]resources.GPU, len(byName))
	for i, at := range byName {
		devices[i], gpus[i] = l.devices[at], l.gpus[at]
	}
	l.devices, l.gpus = devices, gpus
	n := 0
	for _, d := range devices {
		l.before = append(l.before, n)
		n += d.Count
	}
}

// cpusOf returns the CPUs that belong to slots: jobs that share a slot share these, and jobs that start at the same time on
// different slots do not choose the same ones. None for GPUs. Slots that are less than a CPU share it with others.
func (l *local) cpusOf(device int, where []int32) (ids []int) {
	last := len(l.devices) - 1
	total, all := l.before[last]+l.devices[last].Count, l.host.CPUIDs
	for _, g := range where {
		slot := l.before[device] + int(g)
		from := slot * len(all) / total
		to := ((slot+1)*len(all) + total - 1) / total
		if l.gpus[device] == nil && slot < total {
			ids = append(ids, all[from:to]...)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

// priceOf returns the default price per hour of a GPU, empty for none, with CPUs and memory.
func priceOf(gpu string, cpus, gib float64) float64 {
	rates := cost.Default(gpu)
	usd := float64(rates.CPUHour)*cpus + float64(rates.GiBHour)*gib
	if gpu != "" {
		usd += float64(rates.GPUHour)
	}
	return usd
}

// deviceName returns the name of a type for a GPU: lower case, blanks replaced.
func deviceName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = strings.TrimPrefix(name, "nvidia ")
	return cmp.Or(strings.Join(strings.Fields(name), "-"), "gpu")
}

// Name implements Site.
func (l *local) Name() string { return "local" }

// Devices implements Site.
func (l *local) Devices() []Device { return l.devices }

// Up implements Site.
func (l *local) Up(context.Context) (presence, error) { return presence{}, nil }

// On implements Site.
func (l *local) On(string, bool) []string { return nil }

// Place implements Site.
func (l *local) Place(cfg run.Config, device int, where []int32, _ string, _ []string) placement {
	cfg.Engine, cfg.EngineArgs, cfg.GPUs, cfg.CPUs = "", nil, "", ""
	a := resources.Allocation{CPUs: max(1, int(math.Floor(l.devices[device].CPUs*float64(len(where))+1e-9)))}
	if l.gpus[device] != nil {
		a.GPUs = len(where)
		for _, g := range where {
			a.GPUIDs = append(a.GPUIDs, l.gpus[device][g].UUID)
		}
	}
	return placement{Config: cfg, Lease: run.Lease{Allocation: a, CPUIDs: l.cpusOf(device, where)}}
}

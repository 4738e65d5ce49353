package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch/remote"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// nodes are the nodes of an engine, such as Slurm. Each GPU type is a device type, and one more for each further number of
// them that nodes have; in a partition without GPUs each kind of node is one, whose devices are CPUs. The engine chooses the
// nodes: the numbers of devices only count them.
type nodes struct {
	engine  string
	args    []string
	devices []Device
	offers  []engine.Offer // by type
	up      presence       // what was up when they were collected
	list    func(ctx context.Context) ([]engine.Offer, error)
	open    openOffer
}

// openOffer connects an agent to the nodes of an offer.
type openOffer func(ctx context.Context, offer engine.Offer, cfg run.Config, gpus bool) (run.Site, error)

var _ Site = (*nodes)(nil)

// NewNodes returns the device types of the offers that agree with the options of the site, with their numbers if all nodes are
// up. stated restricts the types and numbers. list reads the offers again later.
func NewNodes(name string, args []string, offers []engine.Offer, list func(ctx context.Context) ([]engine.Offer, error), stated []Device, open openOffer) (*nodes, error) {
	n := &nodes{engine: name, args: args, list: list, open: open}
	wish := remote.ReadWish(args)
	if n.collect(offers, wish); len(n.offers) == 0 {
		_, err := wish.Choose(offers, false) // names what there is
		return nil, err
	}
	return n, n.restrict(stated)
}

// collect sets the device types of the offers that agree with a wish. A node in several partitions counts once.
func (n *nodes) collect(offers []engine.Offer, wish remote.Wish) {
	fit := slices.DeleteFunc(slices.Clone(offers), func(o engine.Offer) bool {
		o.Nodes += len(o.Down)
		return !wish.Fits(o)
	})
	if slices.ContainsFunc(fit, func(o engine.Offer) bool { return o.GPUs > 0 }) {
		fit = slices.DeleteFunc(fit, func(o engine.Offer) bool { return o.GPUs == 0 })
	}
	slices.SortStableFunc(fit, func(a, b engine.Offer) int { // the smallest nodes have the name of the GPU
		return cmp.Or(strings.Compare(deviceName(a.GPUType), deviceName(b.GPUType)), a.GPUs-b.GPUs)
	})
	counted := map[string]bool{}
	for _, o := range fit {
		at := slices.IndexFunc(n.offers, func(other engine.Offer) bool { return sameType(o, other) })
		if at < 0 {
			at = len(n.offers)
			n.devices, n.offers, n.up.devices = append(n.devices, n.deviceOf(o)), append(n.offers, o), append(n.up.devices, 0)
		}
		d := &n.devices[at]
		up, down := o.Nodes-len(o.Names), 0
		for i, name := range slices.Concat(o.Names, o.Down) {
			key := d.Name + " " + name
			if counted[key] {
				continue
			}
			if counted[key] = true; i < len(o.Names) {
				up++
			} else {
				down++
				n.up.down = append(n.up.down, name)
			}
		}
		d.Count += (up + down) * d.PerServer
		n.up.devices[at] += up * d.PerServer
	}
}

// sameType reports whether the nodes of two offers belong to the same device type.
func sameType(a, b engine.Offer) bool {
	return a.GPUs == b.GPUs && (a.GPUs == 0 && a.CPUs == b.CPUs || a.GPUs > 0 && deviceName(a.GPUType) == deviceName(b.GPUType))
}

// deviceOf returns a new device type, without devices. GPUs of which smaller nodes have another number have it in their name.
func (n *nodes) deviceOf(o engine.Offer) Device {
	d := Device{Name: deviceName(o.GPUType), PerServer: o.GPUs, GPU: true}
	if o.GPUs == 0 {
		d = Device{Name: fmt.Sprintf("cpu%d", o.CPUs), PerServer: o.CPUs}
	}
	for slices.ContainsFunc(n.devices, func(other Device) bool { return other.Name == d.Name }) {
		d.Name = fmt.Sprintf("%s-x%d", d.Name, d.PerServer)
	}
	d.CPUs, d.MemoryGiB = float64(o.CPUs)/float64(d.PerServer), float64(o.Memory)/float64(d.PerServer)
	d.USDHour = priceOf(o.GPUType, d.CPUs, d.MemoryGiB)
	return d
}

// Up implements Site.
func (n *nodes) Up(ctx context.Context) (presence, error) {
	offers, err := n.list(ctx)
	if err != nil {
		return presence{}, err
	}
	now := &nodes{}
	now.collect(offers, remote.ReadWish(n.args))
	up := presence{make([]int, len(n.devices)), now.up.down}
	for i, d := range n.devices {
		for k, o := range now.offers {
			if sameType(o, n.offers[i]) {
				up.devices[i] = min(d.Count, now.up.devices[k])
			}
		}
	}
	return up, nil
}

// On implements Site.
func (n *nodes) On(runDir string, past bool) []string { return remote.Nodes(runDir, past) }

// restrict reduces the devices to the stated ones, and sorts them by name.
func (n *nodes) restrict(stated []Device) error {
	var order []int
	for i := range n.devices {
		if len(stated) == 0 {
			order = append(order, i)
		}
	}
	for _, want := range stated {
		at := slices.IndexFunc(n.devices, func(d Device) bool { return strings.EqualFold(d.Name, want.Name) })
		if at < 0 || n.devices[at].Count < want.Count {
			var have []string
			for _, d := range n.devices {
				have = append(have, fmt.Sprintf("%d %s", d.Count, d.Name))
			}
			return fmt.Errorf("devices: want %d %s, there are %s", want.Count, want.Name, strings.Join(have, ", "))
		}
		n.devices[at].Count, n.devices[at].Speed = want.Count, want.Speed
		order = append(order, at)
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(n.devices[a].Name, n.devices[b].Name) })
	devices, offers := make([]Device, len(order)), make([]engine.Offer, len(order))
	for i, at := range order {
		devices[i], offers[i] = n.devices[at], n.offers[at]
	}
	n.devices, n.offers = devices, offers
	return nil
}

// Name implements Site.
func (n *nodes) Name() string { return n.engine }

// Devices implements Site.
func (n *nodes) Devices() []Device { return n.devices }

// Place implements Site.
func (n *nodes) Place(cfg run.Config, device int, where []int32, hold string, avoid []string) placement {
	o, d := n.offers[device], n.devices[device]
	o.Avoid = avoid
	cfg.Engine, cfg.EngineArgs, cfg.GPUs, cfg.CPUs = n.engine, n.args, "", ""
	a := resources.Allocation{CPUs: max(1, int(math.Floor(d.CPUs*float64(len(where))+1e-9)))}
	if o.GPUs > 0 {
		a.GPUs = len(where)
	}
	if nodes := len(where) / d.PerServer; nodes > 1 { // all devices of each
		o.PerJob, cfg.Nodes = nodes, nodes
		a.GPUs, a.CPUs = a.GPUs/nodes, a.CPUs/nodes
	} else {
		o.Hold = hold
	}
	return placement{Config: cfg, Lease: run.Lease{Allocation: a}, Site: func(ctx context.Context, cfg run.Config, _ bool) (run.Site, error) {
		return n.open(ctx, o, cfg, o.GPUs > 0)
	}}
}

package engine

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"trainopt/cost"
	"trainopt/resources"
)

// Offer is a kind of node: identical nodes of one partition.
type Offer struct {
	Partition string        `json:"partition"`
	Default   bool          `json:"default"`            // the partition is the default of the site
	GPUType   string        `json:"gpu_type,omitempty"` // as requested from the engine ("a100"); empty without GPUs
	GPUs      int           `json:"gpus"`               // per node
	CPUs      int           `json:"cpus"`               // per node
	Memory    resources.GiB `json:"memory_gib"`         // per node
	Nodes     int           `json:"nodes"`              // that are up, whether busy or not
	Idle      int           `json:"idle"`               // of which nothing runs on
	Longest   time.Duration `json:"longest_ns"`         // limit of the run time; 0: none
	Usual     time.Duration `json:"usual_ns,omitempty"` // limit of the run time of a job that asks for none; 0: Longest
	Features  []string      `json:"features,omitempty"`
	// Whole is true for nodes that are allocated as a whole: a job holds all of them, whatever it asks for.
	Whole bool `json:"whole,omitempty"`
	// Names are those of the Nodes; nil if the engine does not tell them. A node may be part of several offers.
	Names []string `json:"-"`
	// Down are the names of further nodes of the kind, which are down, drained or not responding.
	Down []string `json:"-"`
	// PerJob is the number of nodes that each job of the user asks for; 0 means 1. Engines leave it 0.
	PerJob int `json:"-"`
	// Hold and Avoid are those of the places of the user's jobs. Engines leave them empty.
	Hold  string   `json:"-"`
	Avoid []string `json:"-"`
	// Billing contains the site's billing weight per hour of a unit of each resource ("cpu", "mem" per GiB,
	// "gres/gpu", "gres/gpu:a100"); nil if the site states none.
	Billing map[string]float64 `json:"billing,omitempty"`
}

// Host returns one node of the offer as a machine. Its GPUs are placeholders: the engine chooses the devices.
func (o Offer) Host() resources.Host {
	h := resources.Host{CPUs: float64(o.CPUs), Memory: o.Memory, Nodes: max(1, o.PerJob)}
	for i := range o.GPUs {
		h.GPUs = append(h.GPUs, resources.GPU{Index: i, UUID: fmt.Sprintf("%s-%d", cmp.Or(o.GPUType, "gpu"), i), Name: o.GPUType})
	}
	return h
}

// Place returns the request for an allocation on nodes of the offer. A job without a stated amount of memory asks for
// the share of the node that corresponds to its CPUs or GPUs, all of it if it holds the whole node; so does one that
// shares an allocation, at least.
func (o Offer) Place(a resources.Allocation) Place {
	p := Place{Partition: o.Partition, Nodes: o.PerJob, GPUs: a.GPUs, CPUs: min(a.CPUs, o.CPUs), Memory: a.Memory, Hold: o.Hold, Avoid: o.Avoid}
	if a.GPUs > 0 {
		p.GPUType = o.GPUType
	}
	if (p.Memory == 0 || p.Hold != "") && o.CPUs > 0 {
		share := float64(p.CPUs) / float64(o.CPUs)
		if o.GPUs > 0 {
			share = math.Max(share, float64(p.GPUs)/float64(o.GPUs))
		}
		if o.Whole {
			share = 1
		}
		p.Memory = max(p.Memory, resources.GiB(math.Floor(float64(o.Memory)*share*16)/16))
	}
	return p
}

// Rates returns the prices of the offer from the site's billing weights, whose units cost unit USD per hour. The engine
// adds up the weighted resources.
func (o Offer) Rates(unit cost.USD) (*cost.Rates, error) {
	if len(o.Billing) == 0 {
		return nil, fmt.Errorf("partition %s states no billing weights, so --billing-hour prices nothing", o.Partition)
	}
	gpu, typed := o.Billing["gres/gpu:"+o.GPUType]
	if !typed {
		gpu = o.Billing["gres/gpu"]
	}
	return &cost.Rates{CPUHour: unit * cost.USD(o.Billing["cpu"]), GiBHour: unit * cost.USD(o.Billing["mem"]), GPUHour: unit * cost.USD(gpu),
		Source: fmt.Sprintf("billing weights of partition %s at %g USD per unit and hour", o.Partition, float64(unit)), Dated: time.Now().Format(time.DateOnly)}, nil
}

// Limits returns the limits of the run time at the place, from the offers: the longest, and that of a job that asks for
// none, as in Offer.
func (p Place) Limits(offers []Offer) (longest, usual time.Duration) {
	for _, o := range offers {
		if o.Partition == p.Partition && (p.GPUType == "" || o.GPUType == p.GPUType) {
			return o.Longest, o.Usual
		}
	}
	return 0, 0
}

package runs

import (
	"context"
	"strings"
	"testing"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/run"
	"trainopt/resources"
)

// offering is an engine with nodes and nothing else.
type offering struct {
	engine.Engine
	offers []engine.Offer
}

func (o offering) Offers(context.Context) ([]engine.Offer, error) { return o.offers, nil }

// TestSiteWithoutGPUs checks that a training that may use GPUs is placed on nodes with GPUs, and without such a node where one
// that uses CPUs only is placed, with the same choice of other nodes.
func TestSiteWithoutGPUs(t *testing.T) {
	small, large := engine.Offer{Partition: "small", Default: true, CPUs: 4, Memory: 8, Nodes: 2, Idle: 1}, engine.Offer{Partition: "large", Default: true, CPUs: 8, Memory: 8, Nodes: 2, Idle: 2}
	gpu := engine.Offer{Partition: "gpu", Default: true, GPUType: "a100", GPUs: 2, CPUs: 8, Memory: 8, Nodes: 1}
	for _, c := range []struct {
		offers    []engine.Offer
		may       bool
		partition string
		gpus      int
		others    int
	}{
		{[]engine.Offer{small, large, gpu}, true, "gpu", 2, 0},
		{[]engine.Offer{small, large, gpu}, false, "large", 0, 2},
		{[]engine.Offer{small, large}, true, "large", 0, 1},
		{[]engine.Offer{small, large}, false, "large", 0, 1},
	} {
		s, err := siteOn(t.Context(), &cli.Env{Self: []string{"optimize"}}, offering{offers: c.offers}, run.Config{}, c.may)
		if err != nil || s.Place.Partition != c.partition || len(s.Host.GPUs) != c.gpus || len(s.Others) != c.others {
			t.Errorf("%d kinds of nodes, may use GPUs %v: %+v with %d GPUs, %d others, %v; want %s with %d, %d others", len(c.offers), c.may, s.Place, len(s.Host.GPUs), len(s.Others), err, c.partition, c.gpus, c.others)
		}
		limits := s.Host.DefaultLimits(c.may)
		if limits.GPUs != (resources.Range{Min: min(1, c.gpus), Max: c.gpus}) {
			t.Errorf("%d kinds of nodes, may use GPUs %v: limits of %v GPUs", len(c.offers), c.may, limits.GPUs)
		}
	}
}

// TestSiteRefusesANumberOfGPUs checks that an option of the site may name the type of GPUs, and not a number that contradicts --gpus.
func TestSiteRefusesANumberOfGPUs(t *testing.T) {
	offers := offering{offers: []engine.Offer{{Partition: "gpu", Default: true, GPUType: "a100", GPUs: 4, CPUs: 8, Memory: 8, Nodes: 1}}}
	for option, want := range map[string]string{"--gres=gpu:a100": "", "--gres=gpu:a100:2": "--gpus 2"} {
		_, err := siteOn(t.Context(), &cli.Env{Self: []string{"optimize"}}, offers, run.Config{EngineArgs: []string{option}}, true)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", option, err, want)
		}
	}
}

package remote

import (
	"testing"

	"trainopt/optimizer/engine"
)

// TestAsksGPUs checks that jobs ask for GPUs if the training may use them, or the options name some, and the selected nodes have any.
func TestAsksGPUs(t *testing.T) {
	offers := []engine.Offer{{Partition: "cpu", Default: true, Nodes: 1}, {Partition: "gpu", GPUType: "a100", GPUs: 4, Nodes: 1}}
	for _, c := range []struct {
		options []string
		may     bool
		want    bool
	}{
		{[]string{"--partition=gpu"}, true, true},
		{[]string{"--partition=gpu"}, false, false},
		{[]string{"--partition=cpu,gpu"}, true, true},
		{[]string{"--partition=cpu"}, true, false},
		{nil, true, false},
		{[]string{"--partition=gpu", "--gres=gpu:1"}, false, true},
		{[]string{"--partition=gpu", "--gres=gpu:a100:1"}, false, true},
		{[]string{"--partition=gpu", "--gres=gpu"}, false, true},
		{[]string{"--partition=gpu", "--gres=gpu:0"}, false, false},
		{[]string{"--partition=gpu", "--gres=license:1"}, false, false},
		{[]string{"--partition=gpu", "--gpus=2"}, false, true},
		{[]string{"--partition=gpu", "-G", "a100:2"}, false, true},
		{[]string{"--partition=gpu", "--gpus-per-node=1"}, false, true},
		{[]string{"--partition=gpu", "--gpus=0"}, false, false},
	} {
		w := ReadWish(c.options)
		if got := w.AsksGPUs(offers, c.may); got != c.want {
			t.Errorf("%q, may use them %v: %v, want %v", c.options, c.may, got, c.want)
		}
		if got := w.AsksGPUs(nil, c.may); got != (c.may || w.gpus) {
			t.Errorf("%q, may use them %v: %v without offers", c.options, c.may, got)
		}
	}
}

// TestTypeAndNumberOfGPUs checks that the type is found in each form of a request, and that a number other than that of --gpus
// is refused.
func TestTypeAndNumberOfGPUs(t *testing.T) {
	for _, c := range []struct {
		option, gpus string
		kind         string
		refused      bool
	}{
		{"--gres=gpu:a100", "", "a100", false},
		{"--gres=gpu", "1:4", "", false},
		{"--gres=gpu:a100,nvme:1", "", "a100", false},
		{"--gres=nvme:1,gpu:a100:2", "2", "a100", false},
		{"--gres=nvme:1", "", "", false},
		{"--gres=gpu:a100:2", "", "a100", true},
		{"--gres=gpu:2", "4", "", true},
		{"--gpus=2", "2", "", false},
		{"--gpus=2", "1:2", "", true},
		{"-Ga100:1", "", "a100", true},
		{"--gpus-per-node=a100:1", "", "a100", true},
	} {
		w := ReadWish([]string{"--account=x", c.option})
		if err := w.CheckNumber(c.gpus); w.GPUType != c.kind || (err != nil) != c.refused {
			t.Errorf("%s with --gpus %q: type %q, %v; want %q, refused %v", c.option, c.gpus, w.GPUType, err, c.kind, c.refused)
		}
	}
}

// TestConstraint checks that the nodes are those that a constraint of features admits, and that one which is not understood is left to
// sbatch.
func TestConstraint(t *testing.T) {
	node := engine.Offer{Default: true, Nodes: 1, Features: []string{"gpu", "hbm80g"}}
	for constraint, want := range map[string]bool{
		"gpu": true, "intel": false, "gpu&hbm80g": true, "gpu&intel": false, "intel&gpu": false, "gpu|intel": true, "intel|hbm80g": true, "intel|amd": false,
		"[rack1|rack2]": true, "(intel|gpu)&hbm80g": true, "intel*2": true, "intel,amd": true, "!gpu": true, "intel&gpu|amd": true, "gp": false,
	} {
		for _, options := range [][]string{{"--constraint=" + constraint}, {"-C", constraint}} {
			if got := ReadWish(options).Fits(node); got != want {
				t.Errorf("%q: %v, want %v", options, got, want)
			}
		}
	}
	if !ReadWish(nil).Fits(engine.Offer{Default: true, Nodes: 1}) {
		t.Error("without a constraint nodes without features do not fit")
	}
}

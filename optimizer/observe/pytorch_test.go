package observe

import (
	"fmt"
	"testing"
)

// TestGradients: the gradients of a step are those of the trained parameters of all optimizers that make it; of shards of the
// parameters they are unknown.
func TestGradients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		groups, step string
		bytes        float64
	}{
		"frozen part":            {"[{'params': [Parameter(10), Parameter(5, trained=False)]}, {'params': [Parameter(3)]}]", "a.step()", 52},
		"two optimizers in turn": {"[{'params': [Parameter(10)]}]", "a.step(); b.step()", 80},
		"another one later":      {"[{'params': [Parameter(10)]}]", "(a if i < 9 else b).step()", 40},
		"shards":                 {"[{'params': [Parameter(10), FlatParameter(10)]}]", "a.step()", 0},
		"not of PyTorch":         {"None", "a.step()", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newObserved(t).must(fmt.Sprintf(`
import torch
class Parameter:
    def __init__(self, n, trained=True): self.n, self.requires_grad = n, trained
    def numel(self): return self.n
    def element_size(self): return 4
class FlatParameter(Parameter): pass
def make():
    o = torch.optim.SGD()
    o.param_groups = %s
    return o
a, b = make(), make()
for i in range(30): %s
`, c.groups, c.step))
			want(t, "bytes of gradients", f.GradientBytes, c.bytes)
		})
	}
}

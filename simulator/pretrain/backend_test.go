package pretrain

import (
	"slices"
	"strings"
	"testing"

	"trainopt/morl"
	"trainopt/morl/network"
)

// TestBackend trains networks that only graphs train, continues one, and requires that a build without graphs refuses
// with the command that makes one.
func TestBackend(t *testing.T) {
	for name, change := range map[string]func(o *Options){
		"deep, gelu": func(o *Options) { o.Config.Hidden, o.Config.Activation = []int{16, 16, 8}, "gelu" },
		"recurrent":  func(o *Options) { o.Config.History, o.Config.Recurrent = 3, 8 },
		"relu":       func(*Options) {},
	} {
		for _, agent := range []string{"conditioned", "envelope", "multi", "simple"} {
			o := small("problem:deep-sea-treasure", agent)
			o.Backend = Gorgonia
			change(&o)
			o.Steps, o.Config.Warmup, o.Config.Every, o.KeepLast, o.Measure = 400, 60, 4, true, 200
			if _, err := Prepare(o); !network.Graphs {
				if err == nil || !strings.Contains(err.Error(), "go build -tags gorgonia") {
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			r := run(t, o)
			if again := run(t, o); !slices.Equal(again.Data, r.Data) {
				t.Errorf("%s, %s: another agent of the same seed", name, agent)
			}
			if !r.Meta.Config.Graph || r.Meta.Stats.Updates == 0 {
				t.Errorf("%s, %s: %+v", name, agent, r.Meta)
			}
			if more := run(t, Options{Resume: r.Data, Steps: 600}); more.Steps != 600 {
				t.Errorf("%s, %s: continued to %d", name, agent, more.Steps)
			}
			kernels := Options{Resume: r.Data, Steps: 600, Backend: Kernels}
			if _, err := Prepare(kernels); (err == nil) != (name == "relu") {
				t.Errorf("%s, %s: by kernels: %v", name, agent, err)
			}
		}
	}
}

// TestHistoryAlone trains on several observations with the kernels.
func TestHistoryAlone(t *testing.T) {
	o := small("problem:deep-sea-treasure", "envelope")
	o.Config.History = 2
	r := run(t, o)
	if _, a, err := morl.ReadFile(strings.NewReader(string(r.Data))); err != nil || a.Shape().State != 144 || len(r.Front) == 0 {
		t.Errorf("%v, %d points", err, len(r.Front))
	}
}

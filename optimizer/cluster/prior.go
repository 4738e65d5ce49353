package cluster

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
)

// speeds predicts how much faster a training is on one GPU model than on another, from published measurements of
// similar trainings, or else from data sheets. Its zero value is ready.
type speeds struct {
	model  func() *transfer.Model
	cached map[string]logRatio
}

// dataSheetSpread is the standard deviation of the log-ratio of the speeds of two GPUs around that of their data sheets.
const dataSheetSpread = 0.5

// between returns the distribution of the log-ratio of the speeds of a training on two device types; ok is false if one
// is not a known GPU model.
func (s *speeds) between(model, a, b string) (r logRatio, ok bool) {
	key := model + "\x00" + a + "\x00" + b
	if r, ok := s.cached[key]; ok {
		return r, r.sd > 0
	}
	if s.cached == nil {
		s.cached, s.model = map[string]logRatio{}, sync.OnceValue(func() *transfer.Model { return transfer.New(history.Published(), transfer.Options{}) })
	}
	r = s.predict(model, a, b)
	s.cached[key] = r
	return r, r.sd > 0
}

// predict returns the zero value if nothing is known.
func (s *speeds) predict(model, a, b string) logRatio {
	devices := history.Peaks()
	here, found := devices[gpuModel(a)]
	there, also := devices[gpuModel(b)]
	if !found || !also {
		return logRatio{}
	}
	if model != "" {
		nan := math.NaN()
		query := func(gpu string) transfer.Query {
			return transfer.Query{Job: history.Job{Model: model, Params: nan, Layers: nan, DataCount: nan, DataSizeMB: nan, Epochs: nan},
				Config: history.Config{GPU: gpu, GPUs: 1, CPUs: nan, MemoryGiB: nan, Batch: nan}}
		}
		if r, err := s.model().Ratio(query(there.Name), query(here.Name)); err == nil && r.SD > 0 {
			return logRatio{r.Mean, r.SD}
		}
	}
	if here.FP32 == 0 || there.FP32 == 0 || here.BandwidthGBs == 0 || there.BandwidthGBs == 0 {
		return logRatio{}
	}
	return logRatio{math.Log(here.FP32/there.FP32*here.BandwidthGBs/there.BandwidthGBs) / 2, dataSheetSpread}
}

// gpuModel returns the canonical model of a device type: "a100-sxm4-40gb" becomes "A100 40GB".
func gpuModel(device string) string { return cost.GPUModel(strings.ReplaceAll(device, "-", " ")) }

// commandOf returns a digest of what a job trains: equal for jobs of the same command.
func commandOf(spec *Spec) string {
	h := fnv.New64a()
	for _, part := range append([]string{spec.Config.Dir, spec.Config.Train}, spec.Config.Args...) {
		fmt.Fprintf(h, "%q ", part)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// sameCommand reports whether two jobs train the same script with the same arguments.
func sameCommand(a, b *Spec) bool {
	return a.Config.Train == b.Config.Train && a.Config.Dir == b.Config.Dir && slices.Equal(a.Config.Args, b.Config.Args)
}

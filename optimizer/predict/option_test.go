package predict

import (
	"math"
	"strings"
	"testing"
)

// TestArch: a job without GPUs requires CPUs of its known architecture; a GPU job accepts the CPUs of the GPU
// machine.
func TestArch(t *testing.T) {
	for name, c := range map[string]struct {
		machine, arch string
		gpu           string
		want          fitKind
	}{
		"arm for amd64":        {"c8g.4xlarge", "amd64", "", doesNotFit},
		"arm for arm":          {"c8g.4xlarge", "arm64", "", fits},
		"arm for any":          {"c8g.4xlarge", "", "", fits},
		"amd64 for amd64":      {"c8i.4xlarge", "amd64", "", fits},
		"amd64 for arm":        {"c8i.4xlarge", "arm64", "", doesNotFit},
		"arm that has the GPU": {"g5g.xlarge", "amd64", "T4", fits},
	} {
		t.Run(name, func(t *testing.T) {
			m := offer(c.machine, c.gpu, 0, 1, 0)
			m.Offer.Cloud = "aws"
			if c.gpu != "" {
				m.Offer.GPUs = 1
			}
			a := ask(t, newFake(), asking(func(q *Question) { q.Machines, q.Arch, q.CPUOnly = []machine{m}, c.arch, c.gpu == "" }))
			if o := a.Options[0]; o.Fit != c.want || c.want == doesNotFit && !strings.Contains(o.Lacks, "needed are "+c.arch) {
				t.Errorf("%s, %q; want %s", o.Fit, o.Lacks, c.want)
			}
		})
	}
}

// TestWhatToGive: an error lists the missing information and does not deny existing measurements.
func TestWhatToGive(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		params, epochs, samples float64
		model, want, not        string
	}{
		"samples":         {1e8, 3, nan, "bert", "--data-count", "--epochs"},
		"epochs":          {1e8, nan, 1e5, "bert", "--epochs", "--data-count"},
		"both":            {1e8, nan, nan, "bert", "--epochs and --data-count", "nothing measured"},
		"no measurements": {nan, 3, 1e5, "nosuch", "nothing measured resembles nosuch: ", "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			if c.model == "nosuch" {
				f.speed = nil
			}
			_, err := Ask(asking(func(q *Question) {
				q.Job.Model, q.Job.Params, q.Job.Epochs, q.Job.DataCount = c.model, c.params, c.epochs, c.samples
			}), nil, f.learn)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.not) {
				t.Errorf("%v; want %q and not %q", err, c.want, c.not)
			}
		})
	}
}

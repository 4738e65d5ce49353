package predict

import (
	"math"
	"strings"
	"testing"

	"trainopt/cost"
	"trainopt/optimizer/plan"
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

// TestFitByBusyCPUs: fewer CPUs than were busy make a training without GPUs slower but do not prevent it; beside GPUs,
// whose speed does not depend on the CPUs in the prediction, they do.
func TestFitByBusyCPUs(t *testing.T) {
	offered := func(kind, gpu string, gpus, cpus int, hourly cost.USD) machine {
		m := offer(kind, gpu, gpus, hourly, 0)
		m.Offer.CPUs = cpus
		return m
	}
	busy := ran("r1", 10, 1)
	busy.Observed.CPUs, busy.CPUUtil = 16, 95
	for name, c := range map[string]struct {
		gpu    string
		gpus   int
		small  fitKind
		chosen string
	}{
		"without GPUs": {"", 0, fits, "sky:small"},
		"beside a GPU": {"T4", 1, doesNotFit, "sky:large"},
	} {
		t.Run(name, func(t *testing.T) {
			e := busy
			e.Observed.GPU, e.Observed.GPUs = c.gpu, float64(c.gpus)
			a := ask(t, newFake(), asking(func(q *Question) {
				q.Job.ScriptSHA256, q.CPUOnly, q.Preference = "abc", c.gpus == 0, plan.Preference{Cost: 1}
				q.Machines = []machine{offered("small", c.gpu, c.gpus, 4, 0.2), offered("large", c.gpu, c.gpus, 16, 0.8)}
			}), e)
			for _, o := range a.Options {
				want := fits
				if o.Machine == "sky:small" {
					want = c.small
				}
				if o.Fit != want {
					t.Errorf("%s %s (%s), want %s", o.Machine, o.Fit, o.Lacks, want)
				}
			}
			if len(a.Options) != 2 || chosen(a) != c.chosen {
				t.Errorf("%s of %d options is chosen, want %s of 2", chosen(a), len(a.Options), c.chosen)
			}
		})
	}
}

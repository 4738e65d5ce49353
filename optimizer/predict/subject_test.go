package predict

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/resources"
)

// TestNamedMachinesWithAndWithoutGPUs checks that a job of unknown GPU use is one without GPUs only if no named machine
// has a GPU, in any order of the machines.
func TestNamedMachinesWithAndWithoutGPUs(t *testing.T) {
	catalogue := &cost.Catalogue{Offers: []cost.Offer{
		{Cloud: "a", Type: "gpu", GPU: "T4", GPUs: 1, CPUs: 4, Memory: 16, OnDemand: 1, Dated: "2026-01-01"},
		{Cloud: "a", Type: "cpu", CPUs: 4, Memory: 16, OnDemand: 0.1, Dated: "2026-01-01"},
	}}
	for _, c := range []struct {
		names   []string
		cpuOnly bool
	}{{[]string{"a:gpu"}, false}, {[]string{"a:cpu"}, true}, {[]string{"a:gpu", "a:cpu"}, false}, {[]string{"a:cpu", "a:gpu"}, false}} {
		s := &Subject{Question: &Question{}}
		if err := s.NamedMachines(catalogue, c.names); err != nil {
			t.Fatal(err)
		}
		if s.CPUOnly != c.cpuOnly || len(s.Machines) != len(c.names) {
			t.Errorf("%v: CPU only %t with %d machines, want %t", c.names, s.CPUOnly, len(s.Machines), c.cpuOnly)
		}
	}
}

// TestEpochsOfScripts checks that a script has the length by which a run of it begins: by a framework's default, an
// environment variable, or none where steps limit it or several trainings run.
func TestEpochsOfScripts(t *testing.T) {
	for name, c := range map[string]struct {
		file, source string
		want         float64
	}{
		"a loop":              {"t.py", "N = 7\nfor epoch in range(N):\n    pass\n", 7},
		"of the framework":    {"t.py", "from transformers import Trainer, TrainingArguments\nTrainer(m, TrainingArguments('o')).train()\n", 3},
		"of the environment":  {"t.py", "import os\nn = int(os.environ.get('OPTIMIZER_EPOCHS', 21))\n", 21},
		"steps before epochs": {"t.py", "from transformers import Trainer, TrainingArguments\nTrainer(m, TrainingArguments('o', max_steps=40)).train()\n", 0},
		"a branch":            {"t.py", "if debug:\n    epochs = 1\n", 0},
		"a shell script":      {"t.sh", "python3 other.py --epochs 5\n", 5},
		"a sweep":             {"t.sh", "for lr in 1 2; do python3 other.py --epochs 5; done\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.file)
			for file, text := range map[string]string{path: c.source, filepath.Join(dir, "other.py"): "import torch\n"} {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s := &Subject{Question: &Question{Job: history.NewEntry(history.Run, "").Job}}
			if err := s.Inspect(c.file, path); err != nil {
				t.Fatal(err)
			}
			if have := s.Job.Epochs; have != c.want && !(c.want == 0 && math.IsNaN(have)) {
				t.Errorf("%g epochs, want %g", have, c.want)
			}
		})
	}
}

// TestOwnMachineIsPricedByItsFirstGPU checks the name by which a machine is priced, as a run prices it.
func TestOwnMachineIsPricedByItsFirstGPU(t *testing.T) {
	for want, gpus := range map[string][]resources.GPU{"": nil, "unknown": {{}}, "NVIDIA L4": {{Name: "NVIDIA L4"}, {Name: "Tesla T4"}}} {
		s := &Subject{Question: &Question{Job: history.NewEntry(history.Run, "").Job}}
		got := "not asked"
		err := s.OwnMachine(resources.Host{CPUs: 4, Memory: 16, GPUs: gpus}, func(gpu string) (*cost.Rates, error) {
			got = gpu
			r := cost.Default(gpu)
			return &r, nil
		})
		if err != nil || got != want {
			t.Errorf("%v: priced by %q, %v; want %q", gpus, got, err, want)
		}
	}
}

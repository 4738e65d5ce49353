package workload

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeSia writes profiles of one model in which a step takes 0.1 s plus 0.01 s for each sample of a device, plus 0.05
// s without overlap on several devices.
func writeSia(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func siaFiles() map[string]string {
	return map[string]string{
		"p/net/placements-aws.csv": "placement,local_bsz,step_time,sync_time\n1,10,0.2,0\n1,20,0.3,0\n2,10,0.25,0.05\n2,20,0.35,0.05\n4,10,0.25,0.05\n4,20,0.35,0.05\n" +
			"13,10,9,0\n14,10,0.5,0.3\n14,20,-1,0\n",
		"p/net/scalability-aws.csv": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n2,8,10,0.25,0.05\n3,8,10,9,0\n1,4,10,9,0\n",
		"p/net/validation-10.csv":   "progress,iteration,metric\n1,1,0\n1000,1000,0\n",
		"p/net/validation-40.csv":   "progress,iteration,metric\n4,1,0\n1002,500,0\n2000,600,0\n",
	}
}

func TestLoadSiaProfiles(t *testing.T) {
	table, err := LoadThroughputs(filepath.Join(writeSia(t, siaFiles()), "p"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(table.Types(), "; "); got != "net (batch size 10); net (batch size 40)" {
		t.Errorf("types %s", got)
	}
	if w := table.Work("net (batch size 40)"); w != 1000 {
		t.Errorf("%v steps of work, want those of the shortest training", w)
	}
	if !math.IsNaN(table.Work("other")) || !math.IsNaN(GavelTable().Work("A3C")) {
		t.Error("work of a model that is not there")
	}
	worth := 1002. / 500 // at 40
	for gpus, want := range map[int]float64{
		1: 5,            // batch 10; two parts of 20 are worth 2.004 in 0.6 s
		4: worth / 0.25, // batch 40
		8: 0,            // 8 devices need a batch of 80
	} {
		if got := table.Alone("t4", "net (batch size 10)", gpus); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d devices: %v steps/s, want %v", gpus, got, want)
		}
	}
	two := table.Alone("t4", "net (batch size 10)", 2)
	if !(two > worth/0.35 && two < 1.02*worth/0.35) {
		t.Errorf("2 devices: %v steps/s, want a little more than at a batch of 40", two)
	}
	if slices.Contains(table.Counts(), 5) {
		t.Error("5 devices at a batch of 10 each are more than 40")
	}
	jobs := []Job{{Type: "net (batch size 40)", GPUs: 2, Weight: 1, Steps: math.NaN(), Seconds: math.NaN(), SLO: math.NaN(), Deadline: math.NaN()}}
	if err := Complete(jobs, table, "t4"); err != nil || jobs[0].Steps != 1000 || math.Abs(jobs[0].Seconds-1000/two) > 1e-9 {
		t.Errorf("%+v, %v", jobs[0], err)
	}
}

func TestLoadSiaProfilesSaysWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(map[string]string){
		"no <model>/placements-<device>.csv":  func(f map[string]string) { clear(f); f["p/a"] = "" },
		"what batches of net are worth":       func(f map[string]string) { delete(f, "p/net/validation-10.csv"); delete(f, "p/net/validation-40.csv") },
		`no column "step_time" in the header`: func(f map[string]string) { f["p/net/placements-aws.csv"] = "placement,local_bsz\n1,2\n" },
		`line 2: local_bsz is "x", want a number`: func(f map[string]string) {
			f["p/net/placements-aws.csv"] = "placement,local_bsz,step_time,sync_time\n1,x,1,1\n"
		},
		"its name has no batch":                               func(f map[string]string) { f["p/net/validation-big.csv"] = "progress,iteration\n1,1\n" },
		"progress 0 after 1 iterations, want numbers above 0": func(f map[string]string) { f["p/net/validation-10.csv"] = "progress,iteration\n0,1\n" },
		"validation-10.csv: no row":                           func(f map[string]string) { f["p/net/validation-10.csv"] = "progress,iteration\n" },
	} {
		files := siaFiles()
		change(files)
		_, err := loadSiaProfiles(filepath.Join(writeSia(t, files), "p"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// With the published profiles, more and newer devices have higher rates, as far as they scale at all.
func TestPublishedSiaProfiles(t *testing.T) {
	table, err := LoadThroughputs("../../../shared/data/sia-profiles")
	if err != nil {
		t.Skipf("Sia's profiles are not here: %v", err)
	}
	for model, batch := range map[string]int{"bert": 384, "cifar10": 4096, "deepspeech2": 640, "imagenet": 3200, "ncf": 256} {
		name := WithBatch(model, batch)
		for _, device := range []string{"t4", "rtx2080ti", "rtx6000", "a100", "azure"} {
			var line []float64
			for _, n := range []int{1, 2, 4, 8, 12, 16, 24} {
				line = append(line, math.Round(table.Work(name)/table.Alone(device, name, n)/36)/100)
			}
			t.Logf("%s on 1, 2, 4, 8, 12, 16, 24 %s: %v h", model, device, line)
		}
		if a, b := table.Alone("t4", name, 4), table.Alone("t4", name, 1); !(a > b) {
			t.Errorf("%s on 4 T4: %v steps/s, on one %v", model, a, b)
		}
	}
}

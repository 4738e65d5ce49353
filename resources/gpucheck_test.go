package resources

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestValidateGPUs(t *testing.T) {
	two := Allocation{GPUs: 2, GPUIDs: []string{"GPU-a", "GPU-b"}, CPUs: 1}
	on := func(uuid string, pid int) GPUProcess {
		return GPUProcess{UUID: uuid, PID: pid}
	}
	cases := map[string]struct {
		in   GPUCheck
		want []string // codes; "!" marks a fatal one
	}{
		"all well before a run": {in: GPUCheck{Host: testHost(3), Allocation: two, Visible: "GPU-a,GPU-b", VisibleSet: true}},
		"all well during a run": {in: GPUCheck{Host: testHost(3), Allocation: two, Visible: "GPU-a,GPU-b", VisibleSet: true, Running: true,
			Processes: []GPUProcess{on("GPU-a", 10), on("GPU-b", 11), on("GPU-c", 99)}, JobPIDs: []int{9, 10, 11}}},
		"no driver":           {in: GPUCheck{Host: Host{Notes: []string{"no NVML library"}}, Allocation: two}, want: []string{"no-driver!"}},
		"device lost mid-run": {in: GPUCheck{Host: testHost(1), Allocation: two, Visible: "GPU-a,GPU-b", VisibleSet: true}, want: []string{"device-gone!", "device-count!"}},
		"emptied in the job":  {in: GPUCheck{Host: testHost(3), Allocation: two, VisibleSet: true}, want: []string{"visible-empty!"}},
		"unknown device":      {in: GPUCheck{Host: testHost(3), Allocation: two, Visible: "GPU-z", VisibleSet: true}, want: []string{"visible-unknown!"}},
		"fewer visible":       {in: GPUCheck{Host: testHost(3), Allocation: two, Visible: "0", VisibleSet: true}, want: []string{"device-count!"}},
		"more visible":        {in: GPUCheck{Host: testHost(3), Allocation: two}, want: []string{"device-count"}},
		"CPU job sees GPUs":   {in: GPUCheck{Host: testHost(1), Allocation: Allocation{CPUs: 1}}, want: []string{"device-count"}},
		"CPU job, none there": {in: GPUCheck{Host: testHost(0), Allocation: Allocation{CPUs: 1}, VisibleSet: true}},
		"half used": {in: GPUCheck{Host: testHost(2), Allocation: two, Visible: "0,1", VisibleSet: true, Running: true,
			Processes: []GPUProcess{on("GPU-a", 10)}, JobPIDs: []int{10}}, want: []string{"partly-unused"}},
		"unused": {in: GPUCheck{Host: testHost(2), Allocation: two, Visible: "0,1", VisibleSet: true, Running: true,
			Processes: []GPUProcess{}, JobPIDs: []int{10}}, want: []string{"unused"}},
		"the driver does not tell": {in: GPUCheck{Host: testHost(2), Allocation: two, Visible: "0,1", VisibleSet: true, Running: true, JobPIDs: []int{10}}},
		"shared with a stranger": {in: GPUCheck{Host: testHost(2), Allocation: two, Visible: "0,1", VisibleSet: true,
			Processes: []GPUProcess{on("GPU-b", 77)}}, want: []string{"shared"}},
		"PIDs of the host in a container": {in: GPUCheck{Host: testHost(2), Allocation: two, Visible: "0,1", VisibleSet: true, Running: true,
			Processes: []GPUProcess{on("GPU-a", 900001)}, JobPIDs: []int{12}, Namespaced: true}},
		"foreign PIDs outside a container": {in: GPUCheck{Host: testHost(2), Allocation: two, Visible: "0,1", VisibleSet: true, Running: true,
			Processes: []GPUProcess{on("GPU-a", 900001)}, JobPIDs: []int{12}}, want: []string{"shared", "unused"}},
		"PIDs of the container": {in: GPUCheck{Host: testHost(2), Allocation: two, Visible: "0,1", VisibleSet: true, Running: true,
			Processes: []GPUProcess{on("GPU-a", 12), on("GPU-b", 77)}, JobPIDs: []int{12}, Namespaced: true}, want: []string{"shared", "partly-unused"}},
		"runs outside": {in: GPUCheck{Host: testHost(3), Allocation: two, Visible: "0,1", VisibleSet: true, Running: true,
			Processes: []GPUProcess{on("GPU-a", 10), on("GPU-b", 10), on("GPU-c", 10)}, JobPIDs: []int{10}}, want: []string{"outside"}},
		"two slices": {in: GPUCheck{Host: Host{GPUs: []GPU{{UUID: "MIG-a", MIG: true}, {UUID: "MIG-b", MIG: true}}},
			Allocation: Allocation{GPUs: 2, CPUs: 1}, Visible: "MIG-a,MIG-b", VisibleSet: true}, want: []string{"mig-many"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range c.in.Problems() {
				code := p.Code
				if p.Fatal {
					code += "!"
				}
				got = append(got, code)
				if p.What == "" || p.Advice == "" {
					t.Errorf("%+v says nothing or advises nothing", p)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("problems %v, want %v", got, c.want)
			}
		})
	}
}

func TestPIDNamespace(t *testing.T) {
	for link, want := range map[string]bool{"pid:[4026531836]": false, "pid:[4026532201]": true, "": false} {
		proc := t.TempDir()
		if err := os.MkdirAll(filepath.Join(proc, "self", "ns"), 0o755); err != nil {
			t.Fatal(err)
		}
		if link != "" {
			if err := os.Symlink(link, filepath.Join(proc, "self", "ns", "pid")); err != nil {
				t.Fatal(err)
			}
		}
		if got := (Roots{Proc: proc}).PIDNamespace(); got != want {
			t.Errorf("link %q: in another namespace %t, want %t", link, got, want)
		}
	}
}

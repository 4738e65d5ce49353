package resources

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func noGPUs() ([]GPU, []string) { return nil, []string{"no NVML library"} }

func TestFault25_InventoryCountsTheLimitsNotTheHost(t *testing.T) {
	cases := map[string]struct {
		machine string
		cpus    float64
		ids     []int
		memory  GiB
		says    []string
	}{
		"v1 container":           {machine: "v1-container", cpus: 1.5, ids: []int{0, 1, 2, 3, 4, 5, 6, 7}, memory: 4, says: []string{"CPUs: 1.5 by the quota of cgroup v1", "memory: 4 GiB by the limit of cgroup v1"}},
		"v1 nested with limits":  {machine: "v1-nested", cpus: 3, memory: 6, says: []string{"CPUs: 3 by the quota"}},
		"v2 user slice":          {machine: "v2-user", cpus: 2, memory: 7, says: []string{"user-1000.slice"}},
		"v2 container":           {machine: "v2-container", cpus: 2.5, ids: []int{0, 1, 2, 3, 8, 9, 10, 11}, memory: 3},
		"v2 root without limits": {machine: "v2-root", cpus: 4, memory: 15.625},
		"hybrid without limits":  {machine: "hybrid", cpus: 2, memory: GiB(24683520. / (1 << 20))},
		"no cgroups":             {machine: "none", cpus: 6, memory: 7.8125},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h, err := discover(context.Background(), machine(t, c.machine), visibleDevices{}, noGPUs)
			if err != nil {
				t.Fatal(err)
			}
			if h.CPUs != c.cpus || math.Abs(float64(h.Memory-c.memory)) > 1e-9 {
				t.Errorf("%v CPUs, %v GiB; want %v, %v", h.CPUs, h.Memory, c.cpus, c.memory)
			}
			if c.ids != nil && !slices.Equal(h.CPUIDs, c.ids) {
				t.Errorf("CPU ids %v, want %v", h.CPUIDs, c.ids)
			}
			mention(t, h.Notes, append(c.says, "no NVML library")...)
		})
	}
}

// A limit above the part of the tree that a container can see appears only in memory.stat.
func TestHiddenMemoryLimitOfV1(t *testing.T) {
	r := machine(t, "hybrid")
	stat := filepath.Join(r.Cgroup, "memory/service/a1/memory.stat")
	if err := os.WriteFile(stat, []byte("hierarchical_memory_limit 2147483648\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := discover(context.Background(), r, visibleDevices{}, noGPUs)
	if err != nil || h.Memory != 2 {
		t.Errorf("%v GiB, %v; want 2", h.Memory, err)
	}
}

func TestProcessorModel(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) CPU @  2.00GHz\nprocessor\t: 1\nmodel name\t: other\n": "Intel(R) Xeon(R) CPU @ 2.00GHz",
		"processor\t: 0\nBogoMIPS\t: 243.75\nCPU part\t: 0xd40\n":                                                             "",
	} {
		r := machine(t, "none")
		if err := os.WriteFile(filepath.Join(r.Proc, "cpuinfo"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h, err := discover(context.Background(), r, visibleDevices{}, noGPUs)
		if err != nil || h.CPUModel != want {
			t.Errorf("%q, %v; want %q", h.CPUModel, err, want)
		}
	}
}

func TestDiscoverOnThisMachine(t *testing.T) {
	h, err := Discover(context.Background(), Roots{})
	if err != nil {
		t.Fatal(err)
	}
	if len(h.CPUIDs) == 0 || h.CPUs <= 0 || h.CPUs > float64(len(h.CPUIDs)) || h.Memory <= 0 {
		t.Errorf("%+v", h)
	}
	if err := h.DefaultLimits(true).Validate(h); err != nil {
		t.Errorf("the default limits do not fit the machine they come from: %v", err)
	}
}

func TestDiscoverWithoutProc(t *testing.T) {
	if _, err := Discover(context.Background(), Roots{Proc: t.TempDir()}); err == nil {
		t.Error("a machine with neither CPUs nor memory was accepted")
	}
}

// A hanging driver must cost the deadline and a note, but never block the agent.
func TestFault27_HangingDriver(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	h, err := discover(ctx, machine(t, "none"), visibleDevices{}, func() ([]GPU, []string) { <-release; return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("took %v", d)
	}
	if len(h.GPUs) > 0 || h.CPUs != 6 {
		t.Errorf("%+v", h)
	}
	mention(t, h.Notes, "the NVIDIA driver does not answer")
}

func TestAPanicInTheDriverBecomesANote(t *testing.T) {
	_, notes := listGPUs(context.Background(), func() ([]GPU, []string) { panic("no such symbol") })
	mention(t, notes, "no such symbol")
}

func gpus(uuids ...string) (out []GPU) {
	for i, id := range uuids {
		out = append(out, GPU{Index: i, UUID: id, Memory: 40})
	}
	return out
}

func TestVisibleDevices(t *testing.T) {
	all := gpus("GPU-aa11", "GPU-ab22", "GPU-cc33")
	cases := map[string]struct {
		v    visibleDevices
		want []string
		says string
	}{
		"not set":             {want: []string{"GPU-aa11", "GPU-ab22", "GPU-cc33"}},
		"empty":               {v: visibleDevices{list: "", set: true}, says: "0 of 3"},
		"one index":           {v: visibleDevices{list: "1", set: true}, want: []string{"GPU-ab22"}},
		"order kept":          {v: visibleDevices{list: "2,0", set: true}, want: []string{"GPU-cc33", "GPU-aa11"}},
		"spaces":              {v: visibleDevices{list: " 2 , 0 ", set: true}, want: []string{"GPU-cc33", "GPU-aa11"}},
		"UUID":                {v: visibleDevices{list: "GPU-cc33", set: true}, want: []string{"GPU-cc33"}},
		"beginning of a UUID": {v: visibleDevices{list: "GPU-aa", set: true}, want: []string{"GPU-aa11"}},
		"ambiguous beginning": {v: visibleDevices{list: "GPU-a", set: true}, says: `"GPU-a" names no device`},
		"stops at -1":         {v: visibleDevices{list: "0,-1,1", set: true}, want: []string{"GPU-aa11"}},
		"stops at unknown":    {v: visibleDevices{list: "0,7,1", set: true}, want: []string{"GPU-aa11"}, says: `"7" names no device`},
		"twice":               {v: visibleDevices{list: "0,GPU-aa11", set: true}, says: "names a device twice"},
		"Slurm's word for no": {v: visibleDevices{list: "NoDevFiles", set: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			seen, notes := c.v.choose(all)
			var got []string
			for _, g := range seen {
				got = append(got, g.UUID)
			}
			diff(t, "devices", got, c.want)
			if c.says != "" {
				mention(t, notes, c.says)
			}
		})
	}
}

func TestIndicesOfUnlikeDevicesAreDoubtful(t *testing.T) {
	all := []GPU{{Index: 0, UUID: "GPU-a", Name: "T4"}, {Index: 1, UUID: "GPU-b", Name: "A100"}}
	_, notes := visibleDevices{list: "0,1", set: true}.choose(all)
	mention(t, notes, "CUDA_DEVICE_ORDER")
	for _, v := range []visibleDevices{{list: "0", set: true, byBus: true}, {list: "GPU-b,GPU-a", set: true}} {
		if _, notes := v.choose(all); strings.Contains(strings.Join(notes, ""), "CUDA_DEVICE_ORDER") {
			t.Errorf("%+v: %q", v, notes)
		}
	}
}

func TestOwnCgroupUnderAMount(t *testing.T) {
	mount := t.TempDir()
	for _, dir := range []string{"a/b", "b", "x"} {
		if err := os.MkdirAll(filepath.Join(mount, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(mount, dir, "cgroup.procs"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct{ root, path, want string }{
		"whole hierarchy mounted":          {"/", "/a/b", "a/b"},
		"a container's part mounted":       {"/a", "/a/b", "b"},
		"exactly the own one mounted":      {"/a/b", "/a/b", "."},
		"outside what is mounted":          {"/docker/1", "/x", "."},
		"above the namespace":              {"/", "/../x", "."},
		"mounted from above the namespace": {"/../..", "/x", "x"},
		"not there":                        {"/", "/gone", "."},
		"no membership":                    {"/", "", "."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, want := ownDir(mount, c.root, c.path, osTree{}), filepath.Join(mount, c.want); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestMountinfoOddities(t *testing.T) {
	cases := map[string]struct {
		line string
		ok   bool
		want cgroupMount
	}{
		"v2":                {line: `30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw`, ok: true, want: cgroupMount{version: 2, root: "/", point: "/sys/fs/cgroup"}},
		"many tags":         {line: `30 23 0:26 / /x rw shared:4 master:2 propagate_from:1 - cgroup cgroup rw,cpuacct,cpu`, ok: true, want: cgroupMount{version: 1, root: "/", point: "/x", controllers: []string{"cpu", "cpuacct"}}},
		"space in the path": {line: `30 23 0:26 / /mnt/my\040cg rw - cgroup2 none rw`, ok: true, want: cgroupMount{version: 2, root: "/", point: "/mnt/my cg"}},
		"named hierarchy":   {line: `30 23 0:26 / /s rw - cgroup cgroup rw,xattr,name=systemd`, ok: true, want: cgroupMount{version: 1, root: "/", point: "/s", controllers: []string{"name=systemd"}}},
		"other file system": {line: `22 1 8:1 / / rw - ext4 /dev/sda1 rw`},
		"cut off":           {line: `30 23 0:26 /`},
		"empty":             {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := parseCgroupMount(c.line)
			if ok != c.ok || (ok && (got.version != c.want.version || got.root != c.want.root || got.point != c.want.point || !slices.Equal(got.controllers, c.want.controllers))) {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func FuzzParseCPUList(f *testing.F) {
	for _, s := range []string{"", "0", "0-3,8,10-11", "3,1,2", "5-2", "-1", "0-99999999", "1,,2", "\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ids, err := ParseCPUList(s)
		if err != nil {
			return
		}
		if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Fatalf("%q gives %v", s, ids)
		}
		again, err := ParseCPUList(formatCPUList(ids))
		if err != nil || !slices.Equal(again, ids) {
			t.Fatalf("%v is written as %q and read as %v (%v)", ids, formatCPUList(ids), again, err)
		}
	})
}

func FuzzMountinfo(f *testing.F) {
	f.Add(`30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw`)
	f.Add(`34 32 0:33 /docker/3b /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct`)
	f.Add(`1 2 3 \04 \999 x - cgroup2`)
	f.Fuzz(func(t *testing.T, line string) {
		if m, ok := parseCgroupMount(line); ok && (m.version < 1 || m.version > 2 || m.point == "") {
			t.Fatalf("%q gives %+v", line, m)
		}
	})
}

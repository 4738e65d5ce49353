package resources

import (
	"encoding/json"
	"testing"
)

func TestAllocationThreads(t *testing.T) {
	own := Allocation{CPUs: 2, Memory: 1}
	one := own
	one.Threads = 1
	if own.SameShape(one) || own.Same(one) {
		t.Error("a thread count of its own is another configuration")
	}
	for a, want := range map[*Allocation]string{&own: "2 CPU, 1 GiB", &one: "2 CPU, 1 GiB, 1 thread"} {
		if got := a.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		text, err := json.Marshal(*a)
		if err != nil {
			t.Fatal(err)
		}
		var back Allocation
		if err := json.Unmarshal(text, &back); err != nil || !back.Same(*a) {
			t.Errorf("%s read back as %v, %v", text, back, err)
		}
	}
	if text, _ := json.Marshal(own); string(text) != `{"gpus":0,"gpu_ids":[],"cpus":2,"memory_gib":1,"batch_size":null,"num_workers":null}` {
		t.Errorf("threads of the job's own are written: %s", text)
	}
}

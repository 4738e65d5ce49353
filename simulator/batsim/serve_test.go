package batsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload/swf"
)

// TestOrders checks that an order, with and without EASY backfilling, yields the schedule of queue.Run over the
// socket.
func TestOrders(t *testing.T) {
	jobs, err := swf.Lublin{Jobs: 300, Procs: 32, Seed: 3, Load: 0.9, Overestimate: 3}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	jobs[7].Procs = 33
	for i := range jobs {
		if i%5 == 0 {
			jobs[i].Limit = jobs[i].Run * 0.9
		}
	}
	tree := platform.Uniform(2, 2, 8, 1000, platform.Processor{Bandwidth: 10, GFLOPS: 1, Watts: 10})
	for _, name := range order.OrderNames() {
		for _, backfill := range order.Backfills() {
			t.Run(name+" "+backfill, func(t *testing.T) {
				want, err := queue.Run(t.Context(), queue.Config{Procs: 32, Jobs: jobs, Order: name, Backfill: backfill})
				if err != nil {
					t.Fatal(err)
				}
				got, decided := both(t, tree, jobs, ServeOptions{Order: name, Backfill: backfill}, SimulateOptions{})
				same(t, got, want, false)
				same(t, decided, want, false)
			})
		}
	}
}

// converse connects the two sides without a socket.
func converse(so ServeOptions, mo SimulateOptions, tree *platform.Tree, jobs []order.Job) (*queue.Result, *session, error) {
	s := &session{options: so, index: map[string]int32{}, more: 1}
	h, err := newHost(tree, jobs, mo)
	if err != nil {
		return nil, nil, err
	}
	h.ask = s.reply
	err = h.run()
	return h.simulation.Result(), s, err
}

// TestOrdersProperty is TestOrders for small workloads with many ties; it also checks that no processor has two jobs.
func TestOrdersProperty(t *testing.T) {
	tree := platform.Uniform(1, 1, 5, 1000, platform.Processor{Bandwidth: 10, GFLOPS: 1, Watts: 10})
	rapid.Check(t, func(t *rapid.T) {
		jobs := make([]order.Job, rapid.IntRange(1, 12).Draw(t, "jobs"))
		for i := range jobs {
			run := float64(rapid.IntRange(1, 6).Draw(t, "run"))
			jobs[i] = order.Job{ID: i, Submit: float64(rapid.IntRange(0, 10).Draw(t, "submit")), Procs: rapid.IntRange(1, 6).Draw(t, "procs"),
				Run: run, Request: run + float64(rapid.IntRange(-2, 4).Draw(t, "over"))}
			jobs[i].Request = max(jobs[i].Request, 1)
		}
		slices.SortStableFunc(jobs, func(a, b order.Job) int { return int(a.Submit - b.Submit) })
		for i := range jobs {
			jobs[i].ID = i
		}
		order := rapid.SampledFrom(order.OrderNames()).Draw(t, "order")
		want, err := queue.Run(t.Context(), queue.Config{Procs: 5, Jobs: jobs, Order: order, Backfill: "easy"})
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := converse(ServeOptions{Order: order, Backfill: "easy"}, SimulateOptions{}, tree, jobs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			g, w := &got.Jobs[i], &want.Jobs[i]
			if g.State != w.State || !alike(g.Start, w.Start) || !alike(g.End, w.End) {
				t.Fatalf("%s: job %d: state %d from %v to %v, want %d from %v to %v", order, i, g.State, g.Start, g.End, w.State, w.Start, w.End)
			}
		}
	})
}

// looker returns an agent whose actions depend on all values of the observation.
func looker(actions int) func(observation []float32) int {
	sum := 0.0
	return func(observation []float32) int {
		for i, v := range observation {
			sum += float64(v) * float64(i%7+1)
		}
		return int(math.Abs(sum)*1e3) % actions
	}
}

// TestAgents checks that observations are equal with and without the socket.
func TestAgents(t *testing.T) {
	tree, jobs := mini(t)
	jobs = jobs[:200]
	for _, view := range []hdeeprm.View{hdeeprm.Normal, hdeeprm.Small, hdeeprm.Minimal} {
		t.Run(view.String(), func(t *testing.T) {
			settings := hdeeprm.Settings{Void: true, View: view, Seed: 5}
			e, err := hdeeprm.NewEnvironment(tree, jobs, hdeeprm.Limits{}, settings)
			if err != nil {
				t.Fatal(err)
			}
			want, err := e.Run(looker(e.Actions()))
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := converse(ServeOptions{Tree: tree, Pairs: &settings, Agent: looker(e.Actions()), Limits: hdeeprm.LimitsOf(jobs)}, SimulateOptions{}, tree, jobs)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, want, true)
		})
	}
}

const beginsTwo = `{"now": 0, "events": [{"timestamp": 0, "type": "SIMULATION_BEGINS", "data": {"nb_resources": 3, "nb_compute_resources": 2,
	"nb_storage_resources": 1, "config": {"forward-unknown-events": false}, "compute_resources": [
	{"id": 5, "name": "b", "state": "idle", "properties": {"watt_per_state": "95.0:190.74,90:100"}},
	{"id": 2, "name": "a", "state": "idle", "properties": {"role": "", "tags": 3}}]}}]}`

// TestRequests checks the replies to valid and invalid requests of a simulator.
func TestRequests(t *testing.T) {
	submit := func(id, more string) string {
		return fmt.Sprintf(`{"now": 1, "events": [{"timestamp": 1, "type": "JOB_SUBMITTED", "data": {"job_id": %q, %s}}]}`, id, more)
	}
	for name, c := range map[string]struct {
		say  []string // messages after the beginning, unless the first is the beginning
		want string   // last reply, or part of the error
		ok   bool
	}{
		"resources have numbers of their own": {[]string{submit("w!1", `"job": {"res": 2, "id": "1", "profile": "p", "subtime": 1}`)}, `"alloc":"2 5"`, true},
		"versions differ":                     {[]string{submit("w!1", `"job": {"res": 1, "id": "1", "profile": 7, "walltime": -1}, "profile": {"type": "delay", "delay": 3}`)}, `"alloc":"2"`, true},
		"a profile that nobody knows":         {[]string{submit("w!1", `"job": {"res": 1, "profile": "p"}, "profile": {"type": "usage_trace", "x": []}`)}, `"alloc":"2"`, true},
		"too large":                           {[]string{submit("w!1", `"job": {"res": 3, "profile": "p"}`)}, typeRejectJob, true},
		"unknown events":                      {[]string{`{"now": 3, "events": [{"timestamp": 2, "type": "ECLIPSE", "data": {"sun": "moon"}}, {"timestamp": 3, "type": "NOTIFY", "data": {"type": "lunch"}}]}`}, `{"now":3,"events":[]}`, true},
		"acknowledged kills":                  {[]string{submit("w!1", `"job": {"res": 1, "profile": "p"}`), `{"now": 2, "events": [{"timestamp": 2, "type": "JOB_KILLED", "data": {"job_ids": ["w!1"], "job_progress": {"w!1": {"profile": "p", "progress": 0.5}}}}]}`}, `{"now":2,"events":[]}`, true},
		"nothing":                             {[]string{`{"now": 7, "events": []}`}, `{"now":7,"events":[]}`, true},
		"no job":                              {[]string{submit("w!1", `"profile": {}`)}, "want the field job", false},
		"no resources":                        {[]string{submit("w!1", `"job": {"res": 0}`)}, "want at least 1", false},
		"twice":                               {[]string{submit("w!1", `"job": {"res": 1}`), submit("w!1", `"job": {"res": 1}`)}, `"w!1"`, false},
		"ends before it starts":               {[]string{`{"now": 2, "events": [{"timestamp": 2, "type": "JOB_COMPLETED", "data": {"job_id": "w!1"}}]}`}, "does not run", false},
		"back in time":                        {[]string{`{"now": 2, "events": []}`, `{"now": 1, "events": []}`}, "goes back in time", false},
		"two beginnings":                      {[]string{beginsTwo}, "twice", false},
		"asks":                                {[]string{`{"now": 2, "events": [{"timestamp": 2, "type": "QUERY", "data": {"requests": {"estimate_waiting_time": {}}}}]}`}, "estimate_waiting_time", false},
		"machines go":                         {[]string{`{"now": 2, "events": [{"timestamp": 2, "type": "NOTIFY", "data": {"type": "event_machine_unavailable", "resources": "0"}}]}`}, "event_machine_unavailable", false},
		"after the end":                       {[]string{`{"now": 2, "events": [{"timestamp": 2, "type": "SIMULATION_ENDS"}, {"timestamp": 2, "type": "REQUESTED_CALL"}]}`}, "after SIMULATION_ENDS", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{index: map[string]int32{}, more: 1}
			var got []byte
			var err error
			for _, request := range append([]string{beginsTwo}, c.say...) {
				if got, err = s.reply([]byte(request)); err != nil {
					break
				}
			}
			switch {
			case c.ok && (err != nil || !strings.Contains(string(got), c.want)):
				t.Errorf("it answers %s, %v; want %s", got, err, c.want)
			case !c.ok && (!errors.Is(err, errPeer) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestBeginnings checks that unsupported simulations are rejected at their beginning.
func TestBeginnings(t *testing.T) {
	begins := func(data string) string {
		return fmt.Sprintf(`{"now": 0, "events": [{"timestamp": 0, "type": "SIMULATION_BEGINS", "data": %s}]}`, data)
	}
	for name, c := range map[string]struct {
		options     ServeOptions
		first, want string
	}{
		"nothing first":    {ServeOptions{}, `{"now": 0, "events": []}`, typeSimulationBegins},
		"a job first":      {ServeOptions{}, `{"now": 0, "events": [{"timestamp": 0, "type": "JOB_SUBMITTED", "data": {}}]}`, "before " + typeSimulationBegins},
		"no resources":     {ServeOptions{}, begins(`{}`), "0 compute resources"},
		"too many":         {ServeOptions{}, begins(`{"nb_compute_resources": 2000000000}`), "2000000000"},
		"some undescribed": {ServeOptions{}, begins(`{"nb_compute_resources": 2, "compute_resources": [{"id": 0}]}`), "1 of them"},
		"a number twice":   {ServeOptions{}, begins(`{"nb_compute_resources": 2, "compute_resources": [{"id": 0}, {"id": 0}]}`), "number 0 is there twice"},
		"Redis":            {ServeOptions{}, begins(`{"nb_compute_resources": 2, "config": {"redis-enabled": true}}`), "Redis"},
		"Redis, nested":    {ServeOptions{}, begins(`{"nb_compute_resources": 2, "config": {"redis": {"enabled": true}}}`), "Redis"},
		"another machine":  {ServeOptions{Tree: smallTree()}, begins(`{"nb_compute_resources": 3}`), "4 cores"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{options: c.options, index: map[string]int32{}, more: 1}
			if _, err := s.reply([]byte(c.first)); !errors.Is(err, errPeer) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestMatch checks that cores are matched by the numbers in resource names, or else by resource numbers, and that
// states are set only if there are four.
func TestMatch(t *testing.T) {
	list := func(names ...string) *beginsData {
		d := &beginsData{Compute: len(names)}
		for i, name := range names {
			d.ComputeResources = append(d.ComputeResources, resource{ID: int32(i + 1), Name: name, Properties: map[string]any{"watt_per_state": "1:1,2:2,3:3,4:4"}})
		}
		return d
	}
	two := list("a", "b", "c", "d")
	two.ComputeResources[2].Properties["watt_per_state"] = "1:2"
	for name, c := range map[string]struct {
		begins *beginsData
		want   string // resources of cores 0, 1 and 3
		states bool
	}{
		"by name":     {list("cor_3", "cor_1", "cor_0", "cor_2"), "1-3", true},
		"by number":   {list("x", "y", "z", "w"), "1-2 4", true},
		"from one":    {list("h1", "h2", "h3", "h4"), "1-2 4", true},
		"two states":  {two, "1-2 4", false},
		"undescribed": {&beginsData{Compute: 4}, "0-1 3", true},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := mapResources(c.begins, smallTree())
			if err != nil {
				t.Fatal(err)
			}
			if got := g.format([]int32{0, 1, 3}); got != c.want || g.states != c.states {
				t.Errorf("resources %q, states %t, want %q, %t", got, g.states, c.want, c.states)
			}
		})
	}
	g, err := mapResources(&beginsData{Compute: 2, ComputeResources: []resource{{ID: 4, Properties: map[string]any{"watt_per_state": "95.0:190.74,90:100"}}, {ID: 3}}}, nil)
	if err != nil || g.tree.Cores != 2 || g.tree.Processors[1].Watts != 190.74 || g.states || g.format([]int32{0}) != "3" {
		t.Errorf("without a tree: %+v, %v", g, err)
	}
}

// TestProfiles checks that the requests of a job are read from its profile, in each form of transmission, or else
// from its walltime.
func TestProfiles(t *testing.T) {
	var warnings []string
	talk := Conversation{Warn: func(text string) { warnings = append(warnings, text) }}
	p := newProfiles(&beginsData{Profiles: map[string]json.RawMessage{
		"w": json.RawMessage(`{"good": {"type": "parallel_homogeneous", "cpu": 6e9, "com": 0, "req_time": 9, "mem": 100, "mem_bw": 4}, "bad": {"type": "delay"},
			"two": {"type": "composed", "seq": ["good", "good"]}}`),
		"v": json.RawMessage(`[]`),
	}}, 2, &talk)
	if len(warnings) != 2 {
		t.Errorf("warnings %q, want two: of a profile, and of a workload", warnings)
	}
	for name, c := range map[string]struct {
		data                 submittedData
		request, memory, ops float64
	}{
		"from the beginning":   {submittedData{ID: "w!1", Job: json.RawMessage(`{"res": 2, "profile": "good", "walltime": 20}`)}, 9, 100, 6e9},
		"composed":             {submittedData{ID: "w!2", Job: json.RawMessage(`{"res": 2, "profile": "two"}`)}, 6, 100, 12e9},
		"forwarded":            {submittedData{ID: "x!1", Job: json.RawMessage(`{"res": 2, "profile": "z"}`), Profile: json.RawMessage(`{"type": "parallel_homogeneous", "cpu": 8e9, "com": 0}`)}, 4, 0, 8e9},
		"forwarded, but wrong": {submittedData{ID: "x!1", Job: json.RawMessage(`{"res": 2, "profile": "z", "walltime": 7}`), Profile: json.RawMessage(`[]`)}, 7, 0, 0},
		"unknown":              {submittedData{ID: "w!3", Job: json.RawMessage(`{"res": 2, "profile": "none", "walltime": 5}`)}, 5, 0, 0},
		"no workload":          {submittedData{ID: "3", Job: json.RawMessage(`{"res": 2, "profile": "good"}`)}, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := p.job(&c.data, 3)
			if err != nil {
				t.Fatal(err)
			}
			if j.Request != c.request || j.Memory != c.memory || j.Ops != c.ops || j.Submit != 3 || j.Procs != 2 {
				t.Errorf("it is %+v, want a request of %v s, %v MB and %v operations", j, c.request, c.memory, c.ops)
			}
		})
	}
}

func TestServeOptions(t *testing.T) {
	for name, o := range map[string]ServeOptions{
		"order":          {Order: "alphabetical"},
		"backfilling":    {Backfill: "greedy"},
		"both":           {Order: "sjf", Pairs: &hdeeprm.Settings{}},
		"wrong settings": {Pairs: &hdeeprm.Settings{QueueSensitivity: -1}},
	} {
		if _, err := Serve(t.Context(), "tcp://127.0.0.1:0", o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestBlocked checks that jobs that wait forever are an error on both sides.
func TestBlocked(t *testing.T) {
	jobs := learningJobs()
	jobs[1].Memory = 1e9
	settings := pairSettings(pairOf("first-high_gflops"))
	settings.Compat = true // without Compat, it is rejected
	tree := example(t, "learning")
	endpoint, end := serve(t, ServeOptions{Tree: tree, Pairs: settings})
	_, err := Simulate(t.Context(), endpoint, tree, jobs, SimulateOptions{Conversation: Conversation{Idle: patient}})
	s := <-end
	if !errors.Is(err, errPeer) || !strings.Contains(err.Error(), "1 jobs have not ended") {
		t.Errorf("simulate: %v", err)
	}
	if !errors.Is(s.err, hdeeprm.ErrBlocked) {
		t.Errorf("serve: %v", s.err)
	}
}

// FuzzReply checks that the decision process replies to any request or returns an error.
func FuzzReply(f *testing.F) {
	f.Add(`{"now": 1, "events": [{"timestamp": 1, "type": "JOB_SUBMITTED", "data": {"job_id": "w!1", "job": {"res": 1, "profile": "p", "walltime": 3}, "profile": {"type": "delay", "delay": 3}}}]}`)
	f.Add(`{"now": 2, "events": [{"timestamp": 2, "type": "JOB_COMPLETED", "data": {"job_id": "w!1", "job_state": "COMPLETED_FAILED"}}]}`)
	f.Add(beginsTwo)
	f.Add(`{"now": 2, "events": [{"timestamp": 2, "type": "NOTIFY", "data": null}, {"timestamp": 2, "type": "SIMULATION_ENDS"}]}`)
	f.Fuzz(func(t *testing.T, request string) {
		for _, o := range []ServeOptions{{Backfill: "easy"}, {Pairs: pairSettings(pairOf("shortest-random"))}} {
			s := &session{options: o, index: map[string]int32{}, more: 1}
			if _, err := s.reply([]byte(beginsTwo)); err != nil {
				t.Fatal(err)
			}
			reply, err := s.reply([]byte(request))
			if err != nil {
				continue
			}
			asked, err := parseMessage([]byte(request))
			if err != nil {
				t.Fatalf("it answers what cannot be read: %v", err)
			}
			if m, err := parseMessage(reply); err != nil || m.Now != asked.Now {
				t.Fatalf("it answers %s: %v", reply, err)
			}
		}
	})
}

// FuzzCommands checks that the simulator terminates for any reply.
func FuzzCommands(f *testing.F) {
	f.Add(`{"now": 1, "events": [{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0-1"}}]}`)
	f.Add(`{"now": 9, "events": [{"timestamp": 1, "type": "SET_RESOURCE_STATE", "data": {"resources": "0-3", "state": 0}}, {"timestamp": 2, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0,1"}}]}`)
	f.Add(`{"now": 1, "events": [{"timestamp": 1, "type": "CALL_ME_LATER", "data": {"timestamp": 4}}, {"timestamp": 1, "type": "REJECT_JOB", "data": {"job_id": "0"}}]}`)
	f.Add(`{"now": 1e300, "events": [{"timestamp": 1, "type": "QUERY", "data": {"requests": {"consumed_energy": {}}}}]}`)
	f.Fuzz(func(t *testing.T, reply string) {
		jobs := delays(3, 4)
		jobs[0].Procs = 2
		h, err := newHost(smallTree(), jobs, SimulateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last, said := math.Inf(-1), 0
		h.ask = func(request []byte) ([]byte, error) {
			m, err := parseMessage(request)
			if err != nil || m.Now < last {
				t.Fatalf("it says %s after %v s: %v", request, last, err)
			}
			last = m.Now
			if said++; said == 2 {
				return []byte(reply), nil
			}
			return fmt.Appendf(nil, `{"now": %v, "events": []}`, m.Now), nil
		}
		err = h.run()
		if err == nil && h.left > 0 {
			t.Fatalf("%d jobs have not ended, and there is no error", h.left)
		}
	})
}

// TestUnencodableData requires that data which JSON cannot represent fails the message instead of being replaced.
func TestUnencodableData(t *testing.T) {
	lost := newEvent(2, typeKillJob, killedData{IDs: []string{"w!1"}, Progress: map[string]progress{"w!1": {Progress: math.NaN()}}})
	m := message{Now: 2, Events: []event{newEvent(1, typeNotify, notifyData{noMore}), lost}}
	b, err := m.encode()
	if err == nil || !strings.Contains(err.Error(), "event 1 (\"KILL_JOB\")") {
		t.Errorf("%s, %v; want an error that names the event", b, err)
	}
}

// FuzzParse checks that a parsed message can be encoded and parsed again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(beginsTwo))
	f.Add([]byte(`{"now": 1.5, "events": [{"timestamp": 1, "type": "X", "data": null, "more": 1}, {"timestamp": 1.5, "type": "Y"}]}`))
	f.Add([]byte(`{"now": -0, "events": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMessage(data)
		if err != nil {
			return
		}
		b, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseMessage(b)
		if err != nil || again.Now != m.Now || len(again.Events) != len(m.Events) {
			t.Fatalf("%s becomes %s: %v", data, b, err)
		}
	})
}

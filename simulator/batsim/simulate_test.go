package batsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// script is a scripted decision process: it uses, once each, the first rule whose text occurs in the request.
type script []struct{ when, reply string }

// play simulates under a script and returns the events sent, one per line, without the first.
func play(t *testing.T, h *host, s script) (string, error) {
	t.Helper()
	var heard []string
	used := make([]bool, len(s))
	h.ask = func(request []byte) ([]byte, error) {
		var m message
		if err := json.Unmarshal(request, &m); err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Events {
			if e.Type == typeSimulationBegins {
				e.Data = nil
			}
			heard = append(heard, fmt.Sprintf("%v %v %s %s", m.Now, e.Timestamp, e.Type, e.Data))
		}
		for i, rule := range s {
			if !used[i] && strings.Contains(string(request), rule.when) {
				used[i] = true
				return []byte(rule.reply), nil
			}
		}
		return fmt.Appendf(nil, `{"now": %v, "events": []}`, m.Now), nil
	}
	err := h.run()
	for i, u := range used {
		if !u {
			t.Errorf("nothing was said with %q", s[i].when)
		}
	}
	return strings.Join(heard, "\n"), err
}

// delays returns jobs with the given run times, one processor each, all submitted at 1 s.
func delays(seconds ...float64) []order.Job {
	jobs := make([]order.Job, len(seconds))
	for i, s := range seconds {
		jobs[i] = order.Job{ID: i, Submit: 1, Procs: 1, Run: s, Request: s}
	}
	return jobs
}

func smallTree() *platform.Tree {
	return platform.Uniform(1, 1, 4, 1000, platform.Processor{Type: "p", Bandwidth: 10, GFLOPS: 1, Watts: 10})
}

// TestCommands checks each command of a decision process.
func TestCommands(t *testing.T) {
	const begin = `0 0 SIMULATION_BEGINS ` + "\n"
	job := func(id int, seconds float64) string {
		return fmt.Sprintf(`1 1 JOB_SUBMITTED {"job_id":"w0!%d","job":{"id":"w0!%d","profile":"%d","res":1,"subtime":1}}`, id, id, id) + "\n"
	}
	const end = `NOTIFY {"type":"no_more_static_job_to_submit"}` + "\n"
	for name, c := range map[string]struct {
		jobs   []order.Job
		script script
		want   string
	}{
		"execute, reject": {delays(5, 7), script{{"JOB_SUBMITTED", `{"now": 1, "events": [
			{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "2"}},
			{"timestamp": 1, "type": "REJECT_JOB", "data": {"job_id": "w0!1"}}]}`}},
			`6 6 JOB_COMPLETED {"job_id":"w0!0","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"2"}`},
		"a decision that takes time": {delays(5, 7), script{{"JOB_SUBMITTED", `{"now": 3, "events": [
			{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}},
			{"timestamp": 2.5, "type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "1"}}]}`}},
			`6 6 JOB_COMPLETED {"job_id":"w0!0","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"0"}
9.5 9.5 JOB_COMPLETED {"job_id":"w0!1","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"1"}`},
		"what happens meanwhile is said later": {delays(5, 7), script{{"JOB_SUBMITTED", `{"now": 8, "events": [
			{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}},
			{"timestamp": 7, "type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "0"}}]}`}},
			`8 6 JOB_COMPLETED {"job_id":"w0!0","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"0"}
14 14 JOB_COMPLETED {"job_id":"w0!1","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"0"}`},
		"calls and kills": {delays(8), script{
			{"JOB_SUBMITTED", `{"now": 1, "events": [
			{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}},
			{"timestamp": 1, "type": "CALL_ME_LATER", "data": {"timestamp": 3}}]}`},
			{"REQUESTED_CALL", `{"now": 3, "events": [{"timestamp": 3, "type": "KILL_JOB", "data": {"job_ids": ["w0!0"]}}]}`}},
			`3 3 REQUESTED_CALL {}
3 3 JOB_COMPLETED {"job_id":"w0!0","job_state":"COMPLETED_KILLED","return_code":-1,"kill_reason":"","alloc":"0"}
3 3 JOB_KILLED {"job_ids":["w0!0"],"job_progress":{"w0!0":{"profile":"0","progress":0.25}}}`},
		"a kill that comes too late": {delays(1, 9), script{
			{"JOB_SUBMITTED", `{"now": 1, "events": [{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}},
				{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "1"}}]}`},
			{"JOB_COMPLETED", `{"now": 2, "events": [{"timestamp": 2, "type": "KILL_JOB", "data": {"job_ids": ["w0!0"]}}]}`}},
			`2 2 JOB_COMPLETED {"job_id":"w0!0","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"0"}
2 2 JOB_KILLED {"job_ids":["w0!0"]}
10 10 JOB_COMPLETED {"job_id":"w0!1","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"1"}`},
		"a kill that comes too late, and states set": {delays(1, 9), script{
			{"JOB_SUBMITTED", `{"now": 1, "events": [{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}},
				{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "1"}},
				{"timestamp": 1, "type": "SET_RESOURCE_STATE", "data": {"resources": "0-1", "state": "0"}}]}`},
			{"JOB_COMPLETED", `{"now": 2, "events": [{"timestamp": 2, "type": "KILL_JOB", "data": {"job_ids": ["w0!0"]}}]}`}},
			`1 1 RESOURCE_STATE_CHANGED {"resources":"0-1","state":"0"}
2 2 JOB_COMPLETED {"job_id":"w0!0","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"0"}
2 2 JOB_KILLED {"job_ids":["w0!0"]}
10 10 JOB_COMPLETED {"job_id":"w0!1","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"1"}`},
		"changed state": {delays(4, 5), script{{"JOB_SUBMITTED", `{"now": 1, "events": [
			{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}},
			{"timestamp": 1, "type": "CHANGE_JOB_STATE", "data": {"job_id": "w0!0", "job_state": "COMPLETED_KILLED"}},
			{"timestamp": 1, "type": "CHANGE_JOB_STATE", "data": {"job_id": "w0!1", "job_state": "REJECTED"}}]}`}},
			`1 1 JOB_COMPLETED {"job_id":"w0!0","job_state":"COMPLETED_KILLED","return_code":-1,"kill_reason":"","alloc":"0"}`},
		"energy": {delays(4), script{
			{"JOB_SUBMITTED", `{"now": 1, "events": [{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}}]}`},
			{"JOB_COMPLETED", `{"now": 5, "events": [{"timestamp": 5, "type": "QUERY", "data": {"requests": {"consumed_energy": {}}}}]}`}},
			`5 5 JOB_COMPLETED {"job_id":"w0!0","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"0"}
5 5 ANSWER {"consumed_energy":70}`}, // 4 s · (10 W + 3 · 2.5 W)
		"states": {delays(4), script{{"JOB_SUBMITTED", `{"now": 1, "events": [{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}},
			{"timestamp": 1, "type": "SET_RESOURCE_STATE", "data": {"resources": "0", "state": "0"}},
			{"timestamp": 1, "type": "SET_RESOURCE_STATE", "data": {"resources": "1-2", "state": 2}}]}`}},
			`1 1 RESOURCE_STATE_CHANGED {"resources":"0","state":"0"}
1 1 RESOURCE_STATE_CHANGED {"resources":"1-2","state":"2"}
5 5 JOB_COMPLETED {"job_id":"w0!0","job_state":"COMPLETED_SUCCESSFULLY","return_code":0,"kill_reason":"","alloc":"0"}`},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := newHost(smallTree(), c.jobs, SimulateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := play(t, h, c.script)
			if err != nil {
				t.Fatal(err)
			}
			want := begin
			for i := range c.jobs {
				want += job(i, c.jobs[i].Run)
			}
			want += "1 1 " + end + c.want + "\n"
			if last := got[strings.LastIndexByte(got, '\n')+1:]; !strings.HasSuffix(last, "SIMULATION_ENDS {}") {
				t.Errorf("it ends with %q", last)
			}
			if got = got[:strings.LastIndexByte(got, '\n')+1]; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestRefusals checks that invalid commands end the simulation with an error that names them.
func TestRefusals(t *testing.T) {
	command := func(kind, data string) string {
		return fmt.Sprintf(`{"now": 1, "events": [{"timestamp": 1, "type": %q, "data": %s}]}`, kind, data)
	}
	for name, c := range map[string]struct{ reply, want string }{
		"no JSON":             {`hello`, "invalid character"},
		"no events":           {`{"now": 1}`, "want now and events"},
		"back in time":        {`{"now": 0.5, "events": []}`, "goes back in time"},
		"event back in time":  {`{"now": 1, "events": [{"timestamp": 0, "type": "NOTIFY", "data": {}}]}`, "goes back in time"},
		"event in the future": {`{"now": 1, "events": [{"timestamp": 2, "type": "NOTIFY", "data": {}}]}`, "now is 1 s"},
		"unknown command":     {command("DANCE", `{}`), "DANCE"},
		"unknown job":         {command(typeExecuteJob, `{"job_id": "w0!9", "alloc": "0"}`), `no job "w0!9"`},
		"no such core":        {command(typeExecuteJob, `{"job_id": "w0!0", "alloc": "4"}`), "no core 4"},
		"too many cores":      {command(typeExecuteJob, `{"job_id": "w0!0", "alloc": "0-1"}`), "got 2 cores, want 1"},
		"no intervals":        {command(typeExecuteJob, `{"job_id": "w0!0", "alloc": "x"}`), `"x"`},
		"no text":             {command(typeExecuteJob, `{"job_id": 7}`), "EXECUTE_JOB"},
		"mapping":             {command(typeExecuteJob, `{"job_id": "w0!0", "alloc": "0", "mapping": {"1": "0"}}`), "mapping"},
		"storage":             {command(typeExecuteJob, `{"job_id": "w0!0", "alloc": "0", "storage_mapping": {"pfs": 2}}`), "storage_mapping"},
		"additional job":      {command(typeExecuteJob, `{"job_id": "w0!0", "alloc": "0", "additional_io_job": {"alloc": "1"}}`), "additional_io_job"},
		"register a job":      {command(typeRegisterJob, `{"job_id": "dyn!1"}`), "REGISTER_JOB"},
		"register a profile":  {command(typeRegisterProfile, `{}`), "REGISTER_PROFILE"},
		"kill who waits":      {command(typeKillJob, `{"job_ids": ["w0!0"]}`), "never executed"},
		"call in the past":    {command(typeCallMeLater, `{"timestamp": 0.5}`), "which is over"},
		"call at no time":     {command(typeCallMeLater, `{}`), "timestamp"},
		"no such state":       {command(typeSetState, `{"resources": "0", "state": "7"}`), "P7"},
		"temperature":         {command(typeQuery, `{"requests": {"air_temperature_all": {}}}`), "air_temperature_all"},
		"from the dead":       {command(typeChangeJobState, `{"job_id": "w0!0", "job_state": "RUNNING"}`), `"RUNNING"`},
		"never executed":      {`{"now": 1, "events": []}`, "leaves them waiting"},
		"metadata of nothing": {command(typeSetJobMetadata, `{"job_id": "w0!5", "metadata": "x"}`), `"w0!5"`},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := newHost(smallTree(), delays(5), SimulateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			heard, err := play(t, h, script{{"JOB_SUBMITTED", c.reply}})
			if !errors.Is(err, errPeer) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "1 s") {
				t.Errorf("the error is %v, want one with %q and the time", err, c.want)
			}
			if !strings.HasSuffix(heard, "SIMULATION_ENDS {}") {
				t.Errorf("the decision process is not told that it is over: %s", heard)
			}
		})
	}
}

// TestStandstill checks that a decision process that repeatedly requests immediate calls is stopped.
func TestStandstill(t *testing.T) {
	h, err := newHost(smallTree(), delays(5), SimulateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.ask = func([]byte) ([]byte, error) {
		now := h.simulation.Now()
		return fmt.Appendf(nil, `{"now": %v, "events": [{"timestamp": %v, "type": "CALL_ME_LATER", "data": {"timestamp": %v}}]}`, now, now, now), nil
	}
	if err := h.run(); !errors.Is(err, errPeer) || !strings.Contains(err.Error(), "stands still") {
		t.Errorf("the error is %v", err)
	}
}

// TestMetadata checks that metadata of a job is accepted.
func TestMetadata(t *testing.T) {
	h, err := newHost(smallTree(), delays(5), SimulateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = play(t, h, script{{"JOB_SUBMITTED", `{"now": 1, "events": [
		{"timestamp": 1, "type": "SET_JOB_METADATA", "data": {"job_id": "w0!0", "metadata": "by hand"}},
		{"timestamp": 1, "type": "NOTIFY", "data": {"type": "registration_finished"}},
		{"timestamp": 1, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "3", "mapping": {"0": "0"}}}]}`}}); err != nil {
		t.Fatal(err)
	}
}

// TestContentionWithoutStates checks the machine for a decision process that sets no states: two jobs that together
// oversubscribe the bandwidth of a processor run at 75 %.
func TestContentionWithoutStates(t *testing.T) {
	jobs := []order.Job{{ID: 0, Procs: 1, Ops: 3e9, Run: 3, Request: 3, Bandwidth: 6, Memory: 900}, {ID: 1, Procs: 1, Ops: 3e9, Run: 3, Request: 3, Bandwidth: 6, Memory: 900}}
	h, err := newHost(smallTree(), jobs, SimulateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = play(t, h, script{{"JOB_SUBMITTED", `{"now": 0, "events": [
		{"timestamp": 0, "type": "EXECUTE_JOB", "data": {"job_id": "w0!0", "alloc": "0"}},
		{"timestamp": 0, "type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "3"}}]}`}}); err != nil {
		t.Fatal(err)
	}
	r := h.simulation.Result()
	if r.Jobs[0].End != 4 || r.Jobs[1].End != 4 || r.Energy != 4*(2*10+2*2.5) {
		t.Errorf("they end at %v and %v with %v J, want 4, 4 and 100", r.Jobs[0].End, r.Jobs[1].End, r.Energy)
	}
}

package batsim

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"trainopt/simulator/queue"
)

// message is one message of the protocol: events from Batsim, or commands from the decision process.
type message struct {
	// Now is the time, s. In a reply it is the time of the decision, not before that of the request.
	Now    float64 `json:"now"`
	Events []event `json:"events"`
}

// event is one event or command.
type event struct {
	Timestamp float64 `json:"timestamp"` // s
	Type      string  `json:"type"`
	// Data is an object whose fields depend on Type. Unknown fields are retained.
	Data json.RawMessage `json:"data"`

	err error // of encoding Data; message.encode returns it
}

// The types of events. All others are unknown.
const (
	typeSimulationBegins = "SIMULATION_BEGINS" // to the decision process
	typeSimulationEnds   = "SIMULATION_ENDS"
	typeJobSubmitted     = "JOB_SUBMITTED"
	typeJobCompleted     = "JOB_COMPLETED"
	typeJobKilled        = "JOB_KILLED"
	typeStateChanged     = "RESOURCE_STATE_CHANGED"
	typeRequestedCall    = "REQUESTED_CALL"

	typeExecuteJob      = "EXECUTE_JOB" // from the decision process
	typeRejectJob       = "REJECT_JOB"
	typeKillJob         = "KILL_JOB"
	typeCallMeLater     = "CALL_ME_LATER"
	typeSetState        = "SET_RESOURCE_STATE"
	typeRegisterJob     = "REGISTER_JOB"
	typeRegisterProfile = "REGISTER_PROFILE"
	typeSetJobMetadata  = "SET_JOB_METADATA"
	typeChangeJobState  = "CHANGE_JOB_STATE"

	typeNotify = "NOTIFY" // in both directions
	typeQuery  = "QUERY"
	typeAnswer = "ANSWER"
)

// noMore is the notice that all jobs of the workloads were submitted.
const noMore = "no_more_static_job_to_submit"

// parseMessage decodes a message. Times must be numbers, and those of events ascending and at most now. Unknown types and
// fields are retained. Errors identify the event.
func parseMessage(data []byte) (*message, error) {
	var raw struct {
		Now    *float64 `json:"now"`
		Events *[]struct {
			Timestamp *float64        `json:"timestamp"`
			Type      string          `json:"type"`
			Data      json.RawMessage `json:"data"`
		} `json:"events"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("read message %s: %w", clip(data), err)
	}
	if raw.Now == nil || raw.Events == nil {
		return nil, fmt.Errorf("read message %s: want now and events", clip(data))
	}
	m := &message{Now: *raw.Now, Events: make([]event, 0, len(*raw.Events))}
	last := math.Inf(-1)
	for i, e := range *raw.Events {
		problem := ""
		switch {
		case e.Type == "":
			problem = "it has no type"
		case e.Timestamp == nil:
			problem = "it has no timestamp"
		case *e.Timestamp < last:
			problem = fmt.Sprintf("its timestamp is %v s, after one of %v s", *e.Timestamp, last)
		case *e.Timestamp > m.Now:
			problem = fmt.Sprintf("its timestamp is %v s, but now is %v s", *e.Timestamp, m.Now)
		case len(e.Data) > 0 && e.Data[0] != '{' && string(e.Data) != "null":
			problem = fmt.Sprintf("its data is %s, want an object", clip(e.Data))
		}
		if problem != "" {
			return nil, fmt.Errorf("read message: event %d (%q): %s", i, e.Type, problem)
		}
		last = *e.Timestamp
		m.Events = append(m.Events, event{Timestamp: last, Type: e.Type, Data: e.Data})
	}
	return m, nil
}

// clip quotes data, truncated to 80 bytes, for error messages.
func clip(data []byte) string {
	if len(data) > 80 {
		data = append(data[:77:77], "..."...)
	}
	return fmt.Sprintf("%q", data)
}

// decode unmarshals the data of an event; absent data is equivalent to an empty object.
func (e *event) decode(v any) error {
	if len(e.Data) == 0 {
		return nil
	}
	if err := json.Unmarshal(e.Data, v); err != nil {
		return fmt.Errorf("%s at %v s: data %s: %w", e.Type, e.Timestamp, clip(e.Data), err)
	}
	return nil
}

// encode returns the message as one line of JSON.
func (m *message) encode() ([]byte, error) {
	size := 64
	for i := range m.Events {
		size += 96 + len(m.Events[i].Data)
	}
	b := append(make([]byte, 0, size), `{"now":`...)
	b = append(appendNumber(b, m.Now), `,"events":[`...)
	for i := range m.Events {
		e := &m.Events[i]
		if e.err != nil {
			return nil, fmt.Errorf("write message at %v s: event %d (%q): %w", m.Now, i, e.Type, e.err)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumber(append(b, `{"timestamp":`...), e.Timestamp)
		kind, err := json.Marshal(e.Type)
		if err != nil {
			return nil, fmt.Errorf("write message at %v s: %w", m.Now, err)
		}
		b = append(append(append(b, `,"type":`...), kind...), `,"data":`...)
		if len(e.Data) == 0 {
			b = append(b, "{}"...)
		}
		b = append(append(b, e.Data...), '}')
	}
	return append(b, "]}"...), nil
}

// appendNumber formats a time so that parsing returns the same value.
func appendNumber(b []byte, v float64) []byte {
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// newEvent returns an event with the given data. Data that cannot be encoded, such as a number that is not finite, makes
// the encoding of the message fail.
func newEvent(now float64, kind string, data any) event {
	b, err := json.Marshal(data)
	return event{Timestamp: now, Type: kind, Data: b, err: err}
}

// emptyData is the data of events without data.
type emptyData struct{}

// looseString is a string that may also be encoded as a number or a boolean.
type looseString string

func (l *looseString) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var s string
		err := json.Unmarshal(data, &s)
		*l = looseString(s)
		return err
	}
	if len(data) > 0 && (data[0] == '{' || data[0] == '[') {
		return fmt.Errorf("%s: want a text or a number", clip(data))
	}
	*l = looseString(data)
	return nil
}

// beginsData holds the fields of SIMULATION_BEGINS that this package reads.
type beginsData struct {
	Resources        int                        `json:"nb_resources"`
	Compute          int                        `json:"nb_compute_resources"`
	Storage          int                        `json:"nb_storage_resources"`
	Config           map[string]json.RawMessage `json:"config"`
	ComputeResources []resource                 `json:"compute_resources"`
	ResourcesData    []resource                 `json:"resources_data"` // in versions 1 and 2
	Profiles         map[string]json.RawMessage `json:"profiles"`       // by workload
}

// flag returns a boolean of the configuration, under the first of the given names that exists; false if none does.
func (d *beginsData) flag(names ...string) bool {
	for _, name := range names {
		var v bool
		if raw, ok := d.Config[name]; ok && json.Unmarshal(raw, &v) == nil {
			return v
		}
	}
	return false
}

// resource is a compute host.
type resource struct {
	ID         int32          `json:"id"`
	Name       string         `json:"name"`
	State      looseString    `json:"state"`
	Properties map[string]any `json:"properties"`
}

// submittedData is the data of JOB_SUBMITTED.
type submittedData struct {
	ID      string          `json:"job_id"`
	Job     json.RawMessage `json:"job,omitempty"`
	Profile json.RawMessage `json:"profile,omitempty"`
}

// jobData holds the fields of a job relevant for scheduling.
type jobData struct {
	Submit    *float64    `json:"subtime"`
	Resources int         `json:"res"`
	Profile   looseString `json:"profile"`
	Walltime  float64     `json:"walltime"`
}

// completedData is the data of JOB_COMPLETED.
type completedData struct {
	ID         string `json:"job_id"`
	State      string `json:"job_state"`
	ReturnCode int    `json:"return_code"`
	KillReason string `json:"kill_reason"`
	Cores      string `json:"alloc"`
}

// killedData is the data of KILL_JOB and JOB_KILLED.
type killedData struct {
	IDs      []string            `json:"job_ids"`
	Progress map[string]progress `json:"job_progress,omitempty"`
}

// progress is the completed fraction of a killed job, with its profile.
type progress struct {
	Profile  string  `json:"profile"`
	Progress float64 `json:"progress"`
}

// stateData is the data of SET_RESOURCE_STATE and RESOURCE_STATE_CHANGED.
type stateData struct {
	Resources looseString `json:"resources"`
	State     looseString `json:"state"`
}

// executeData is the data of EXECUTE_JOB.
type executeData struct {
	ID             string                 `json:"job_id"`
	Cores          looseString            `json:"alloc"`
	Mapping        map[string]looseString `json:"mapping,omitempty"`
	StorageMapping map[string]looseString `json:"storage_mapping,omitempty"`
	Additional     map[string]any         `json:"additional_io_job,omitempty"`
}

// jobIDData is the data of commands for one job: REJECT_JOB, CHANGE_JOB_STATE and SET_JOB_METADATA.
type jobIDData struct {
	ID       string      `json:"job_id"`
	State    string      `json:"job_state,omitempty"`
	Metadata looseString `json:"metadata,omitempty"`
}

// callData is the data of CALL_ME_LATER; At is the requested time, s.
type callData struct {
	At *float64 `json:"timestamp"`
}

// notifyData is the data of NOTIFY.
type notifyData struct {
	Type string `json:"type"`
}

// queryData is the data of QUERY.
type queryData struct {
	Requests map[string]json.RawMessage `json:"requests"`
}

// stateNames are Batsim's names of the job states.
var stateNames = [...]string{queue.Waiting: "SUBMITTED", queue.Running: "RUNNING", queue.Completed: "COMPLETED_SUCCESSFULLY",
	queue.Killed: "COMPLETED_WALLTIME_REACHED", queue.Rejected: "REJECTED"}

const stateKilled = "COMPLETED_KILLED"

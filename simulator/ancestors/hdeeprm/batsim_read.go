package hdeeprm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"trainopt/internal/regular"
)

// shown is the maximum number of reported mistakes of a file.
const shown = 10

// loadWorkload reads a workload from a file, plain or gzip.
func loadWorkload(path string) (*BatsimWorkload, error) {
	f, err := regular.Open(path, regular.Data)
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	defer f.Close()
	r, err := regular.Gunzip(f)
	if err != nil {
		return nil, fmt.Errorf("read workload %s: %w", path, err)
	}
	w, err := ReadWorkload(r)
	if err != nil {
		return nil, fmt.Errorf("read workload %s: %w", path, err)
	}
	return w, nil
}

// ReadWorkload reads a workload in the vocabulary of any version. Errors name the job or profile and the field, for the first
// ten mistakes. Unknown types of profiles are kept; Convert drops the jobs that use them.
func ReadWorkload(r io.Reader) (*BatsimWorkload, error) {
	var file struct {
		Resources json.RawMessage            `json:"nb_res"`
		Jobs      []json.RawMessage          `json:"jobs"`
		Profiles  map[string]json.RawMessage `json:"profiles"`
	}
	d := json.NewDecoder(r)
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows after the workload")
	}
	if file.Jobs == nil || file.Profiles == nil {
		return nil, errors.New("jobs and profiles must be there")
	}
	w := &BatsimWorkload{Profiles: make(map[string]batsimProfile, len(file.Profiles)), Jobs: make([]BatsimJob, 0, len(file.Jobs))}
	mistakes := &mistakes{}
	if file.Resources != nil {
		f := fields{where: "nb_res", all: map[string]json.RawMessage{"nb_res": file.Resources}, mistakes: mistakes}
		w.Resources = f.integer("nb_res", 0)
	}
	for _, name := range slices.Sorted(maps.Keys(file.Profiles)) {
		w.Profiles[name] = readProfile(name, file.Profiles[name], mistakes)
	}
	seen := make(map[string]bool, len(file.Jobs))
	for i, data := range file.Jobs {
		j := readJob(i, data, mistakes)
		switch _, ok := w.Profiles[j.Profile]; {
		case seen[j.ID]:
			mistakes.add("job %q: id: there are two of that name", j.ID)
		case !ok && j.Profile != "":
			mistakes.add("job %q: profile: there is no profile %q", j.ID, j.Profile)
		}
		seen[j.ID] = true
		w.Jobs = append(w.Jobs, j)
	}
	return w, mistakes.err()
}

// mistakes collects the mistakes of a file, the first few of them in full.
type mistakes struct {
	errs []error
	more int
}

// add records a mistake; beyond the first few, mistakes are only counted.
func (m *mistakes) add(format string, args ...any) {
	if len(m.errs) == shown {
		m.more++
		return
	}
	m.errs = append(m.errs, fmt.Errorf(format, args...))
}

// err joins the recorded mistakes and the number of further ones; nil without mistakes.
func (m *mistakes) err() error {
	if m.more > 0 {
		return errors.Join(append(m.errs, fmt.Errorf("and %d more", m.more))...)
	}
	return errors.Join(m.errs...)
}

// fields contains the unread fields of a job or profile; reading a field removes it.
type fields struct {
	where    string
	all      map[string]json.RawMessage
	mistakes *mistakes
}

// newFields decodes the object of a job or profile; where identifies it in errors.
func newFields(where string, data json.RawMessage, m *mistakes) fields {
	f := fields{where: where, mistakes: m}
	if err := json.Unmarshal(data, &f.all); err != nil {
		m.add("%s: want an object: %w", where, err)
	}
	return f
}

// take decodes a field into v; false if the field is missing, null, or of the wrong kind, which is recorded as a
// mistake.
func (f *fields) take(name string, v any, want string) bool {
	data, ok := f.all[name]
	delete(f.all, name)
	if !ok || string(data) == "null" {
		return false
	}
	if err := json.Unmarshal(data, v); err != nil {
		f.mistakes.add("%s: %s: %s, want %s", f.where, name, clip(data), want)
		return false
	}
	return true
}

// clip shortens a value for an error message.
func clip(data []byte) string {
	if len(data) > 40 {
		return string(data[:37]) + "..."
	}
	return string(data)
}

// number returns a numeric field of at least low, or otherwise if it is missing.
func (f *fields) number(name string, low, otherwise float64) float64 {
	var v float64
	if !f.take(name, &v, "a number") {
		return otherwise
	}
	if v < low {
		f.mistakes.add("%s: %s: %v, want at least %v", f.where, name, v, low)
	}
	return v
}

// integer returns an integer field of at least low; low if it is missing or invalid.
func (f *fields) integer(name string, low int) int {
	v := f.number(name, float64(low), float64(low))
	if v != math.Trunc(v) || v > 1<<31 {
		f.mistakes.add("%s: %s: %v, want a whole number", f.where, name, v)
		return low
	}
	return int(v)
}

// numbers returns a field that is a non-negative number or a list of them.
func (f *fields) numbers(name string) []float64 {
	data := f.all[name]
	var list []float64
	if len(data) > 0 && data[0] == '[' {
		if !f.take(name, &list, "a list of numbers") {
			return nil
		}
	} else {
		var v float64
		if !f.take(name, &v, "a number or a list of them") {
			return nil
		}
		list = []float64{v}
	}
	for i, v := range list {
		if v < 0 {
			f.mistakes.add("%s: %s: number %d is %v, want at least 0", f.where, name, i, v)
			break
		}
	}
	return list
}

// need records a mistake for each missing field.
func (f *fields) need(names ...string) {
	for _, name := range names {
		if data, ok := f.all[name]; !ok || string(data) == "null" {
			f.mistakes.add("%s: %s is missing", f.where, name)
		}
	}
}

// readJob decodes job i of a workload.
func readJob(i int, data json.RawMessage, m *mistakes) BatsimJob {
	f := newFields(fmt.Sprintf("job number %d", i), data, m)
	var j BatsimJob
	var number json.Number
	if id := f.all["id"]; len(id) > 0 && id[0] == '"' {
		f.take("id", &j.ID, "a name or a number")
	} else if f.take("id", &number, "a name or a number") {
		j.ID = number.String()
	}
	if j.ID == "" {
		m.add("%s: id is missing", f.where)
		j.ID = "number " + strconv.Itoa(i)
	}
	f.where = fmt.Sprintf("job %q", j.ID)
	f.need("subtime", "res", "profile")
	j.Submit = f.number("subtime", 0, 0)
	j.Resources = f.integer("res", 1)
	f.take("profile", &j.Profile, "the name of a profile")
	switch wall := f.number("walltime", -1, -1); {
	case wall > 0:
		j.Walltime = wall
	case wall != -1:
		m.add("%s: walltime: %v, want more than 0, or -1 for none", f.where, wall)
	}
	j.Extra = rest(f.all)
	return j
}

// rest returns the unread fields, nil without any.
func rest(all map[string]json.RawMessage) map[string]json.RawMessage {
	if len(all) == 0 {
		return nil
	}
	return all
}

// readProfile decodes one profile of a workload.
func readProfile(name string, data json.RawMessage, m *mistakes) batsimProfile {
	f := newFields(fmt.Sprintf("profile %q", name), data, m)
	f.need("type")
	var p batsimProfile
	f.take("type", &p.Type, "the name of a type")
	if known, ok := oldNames[p.Type]; ok {
		p.Type = known
	}
	if v := f.number("ret", math.Inf(-1), 0); math.Abs(v) > 1<<31 || v != math.Trunc(v) {
		m.add("%s: ret: %v, want a whole number", f.where, v)
	} else {
		p.Return = int(v)
	}
	f.extraData()
	p.RequestTime, p.RequestOps = f.number("req_time", 0, 0), f.number("req_ops", 0, 0)
	p.Memory, p.Bandwidth = f.number("mem", 0, 0), f.number("mem_bw", 0, 0)
	f.ofType(&p)
	p.Extra = rest(f.all)
	return p
}

// extraData unpacks the extra_data text of version 5, which contains additional fields. Text that is not an object, and
// fields that the profile contains with another value, remain in extra_data: the profile's own value applies.
func (f *fields) extraData() {
	var text string
	var extra map[string]json.RawMessage
	data, ok := f.all["extra_data"]
	if !ok || json.Unmarshal(data, &text) != nil || json.Unmarshal([]byte(text), &extra) != nil || extra == nil {
		return
	}
	delete(f.all, "extra_data")
	shadowed := map[string]json.RawMessage{}
	for name, v := range extra {
		if own, there := f.all[name]; !there {
			f.all[name] = v
		} else if !bytes.Equal(own, v) {
			shadowed[name] = v
		}
	}
	if len(shadowed) > 0 {
		inner, _ := json.Marshal(shadowed) // decoded values can be encoded
		f.all["extra_data"], _ = json.Marshal(string(inner))
	}
}

// ofType reads the fields specific to the type of a profile.
func (f *fields) ofType(p *batsimProfile) {
	switch p.Type {
	case delay:
		f.need("delay")
		p.Seconds = f.number("delay", 0, 0)
	case parallel, homogeneous, homogeneousTotal:
		p.CPU, p.Com = f.numbers("cpu"), f.numbers("com")
		if p.Type == parallel {
			if n := len(p.CPU); n > 0 && len(p.Com) > 0 && len(p.Com) != n*n {
				f.mistakes.add("%s: com: %d numbers for %d cores, want %d", f.where, len(p.Com), n, n*n)
			}
			return
		}
		if len(p.CPU) > 1 || len(p.Com) > 1 {
			f.mistakes.add("%s: cpu and com: want one number each in a profile of type %s", f.where, p.Type)
		}
		var strategy string
		if f.take(generationStrategy, &strategy, "the name of a strategy") {
			switch strategy {
			case spreadUniformly:
				p.Type = homogeneousTotal
			case usedForEach:
			default:
				f.mistakes.add("%s: %s: %q, want %s or %s", f.where, generationStrategy, strategy, usedForEach, spreadUniformly)
			}
		}
	case composed:
		f.need("seq")
		f.take("seq", &p.Sequence, "a list of names of profiles")
		if _, ok := f.all["nb"]; ok { // before version 2
			p.Repeat = f.integer("nb", 0)
		}
		if _, ok := f.all["repeat"]; ok {
			p.Repeat = f.integer("repeat", 0)
		}
	}
}

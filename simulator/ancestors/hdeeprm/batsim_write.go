package hdeeprm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// Write writes the workload in the vocabulary of version 3 or 5. In version 5, HDeepRM's and other additional fields
// are in the text extra_data.
func (w *BatsimWorkload) Write(out io.Writer, version int) error {
	if version != 3 && version != 5 {
		return fmt.Errorf("write workload: version %d, want 3 or 5", version)
	}
	b := bufio.NewWriter(out)
	fmt.Fprintf(b, "{\n\"nb_res\": %d,\n\"jobs\": [", w.Resources)
	for i, j := range w.Jobs {
		if err := item(b, i, nil, j.fields(version)); err != nil {
			return fmt.Errorf("write workload: job %q: %w", j.ID, err)
		}
	}
	b.WriteString("\n],\n\"profiles\": {")
	for i, name := range slices.Sorted(maps.Keys(w.Profiles)) {
		f, err := w.Profiles[name].fields(version)
		if err == nil {
			err = item(b, i, &name, f)
		}
		if err != nil {
			return fmt.Errorf("write workload: profile %q: %w", name, err)
		}
	}
	b.WriteString("\n}\n}\n")
	return b.Flush()
}

// item writes one entry of a list or, with a name, of an object, on a line of its own.
func item(b *bufio.Writer, i int, name *string, fields map[string]any) error {
	if i > 0 {
		b.WriteByte(',')
	}
	b.WriteByte('\n')
	if name != nil {
		text, err := json.Marshal(*name)
		if err != nil {
			return err
		}
		b.Write(text)
		b.WriteString(": ")
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	b.Write(text)
	return nil
}

// fields returns the fields of a job in the vocabulary of a version. Before version 5, numeric ids are written as
// numbers.
func (j *BatsimJob) fields(version int) map[string]any {
	f := map[string]any{}
	for name, v := range j.Extra {
		f[name] = v
	}
	f["id"], f["subtime"], f["res"], f["profile"] = j.ID, j.Submit, j.Resources, j.Profile
	if n, err := strconv.Atoi(j.ID); err == nil && strconv.Itoa(n) == j.ID && version < 5 {
		f["id"] = n
	}
	if j.Walltime > 0 {
		f["walltime"] = j.Walltime
	}
	return f
}

// fields returns the fields of a profile in the vocabulary of a version.
func (p batsimProfile) fields(version int) (map[string]any, error) {
	extra := map[string]any{}
	for name, v := range p.Extra {
		extra[name] = v
	}
	for name, v := range map[string]float64{"req_time": p.RequestTime, "req_ops": p.RequestOps, "mem": p.Memory, "mem_bw": p.Bandwidth} {
		if v != 0 {
			extra[name] = v
		}
	}
	f := map[string]any{"type": p.Type}
	if p.Return != 0 {
		f["ret"] = p.Return
	}
	known := p.ofType(f)
	switch {
	case version < 5 || !known:
		for name, v := range extra {
			if _, there := f[name]; !there {
				f[name] = v
			}
		}
		return f, nil
	case p.Type == homogeneousTotal:
		f[generationStrategy] = spreadUniformly
	}
	f["type"] = version5[p.Type]
	if len(extra) > 0 {
		text, err := json.Marshal(extra)
		if err != nil {
			return nil, err
		}
		f["extra_data"] = string(text)
	}
	return f, nil
}

// ofType sets the fields specific to a type; false for types whose fields are all in Extra.
func (p batsimProfile) ofType(f map[string]any) bool {
	switch p.Type {
	case delay:
		f["delay"] = p.Seconds
	case parallel:
		if p.CPU != nil {
			f["cpu"] = p.CPU
		}
		if p.Com != nil {
			f["com"] = p.Com
		}
	case homogeneous, homogeneousTotal:
		one := func(v []float64) float64 {
			if len(v) > 0 {
				return v[0]
			}
			return 0
		}
		f["cpu"], f["com"] = one(p.CPU), one(p.Com)
	case composed:
		f["seq"] = p.Sequence
		if p.Sequence == nil {
			f["seq"] = []string{}
		}
		if p.Repeat > 0 {
			f["repeat"] = p.Repeat
		}
	default:
		return false
	}
	return true
}

package workload

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// readGavelRow reads the columns of the format: Gavel's new and old formats and Shockwave's have different ones. A
// negative SLO means none. The command, its directory and its flag follow from the type and are not kept.
func readGavelRow(r *row, j *Job) {
	j.Type = r.name("type")
	if j.Type == "" {
		r.fail("no job type")
	}
	j.Steps = r.number("steps")
	if math.IsNaN(j.Steps) {
		r.fail("no steps")
	}
	j.GPUs = r.whole("gpus")
	j.Arrival = r.number("arrival")
	j.SLO = r.noneBelow0("slo")
	j.Seconds = r.number("duration")
	j.Mode = r.name("mode")
	if w := r.number("weight"); !math.IsNaN(w) {
		j.Weight = w
	}
}

// gavelFields returns the columns up to the number of GPUs. Steps are truncated to an integer, at least 1.
func gavelFields(j *Job) ([]string, error) {
	i := slices.IndexFunc(Templates, func(t Template) bool { return t.Type == j.Type })
	if i < 0 {
		return nil, fmt.Errorf("the command of job type %q is not known", j.Type)
	}
	if math.IsNaN(j.Steps) {
		return nil, errors.New("its steps are not known")
	}
	t, data := Templates[i], "0"
	if t.NeedsData {
		data = "1"
	}
	steps := strconv.FormatInt(int64(max(1, j.Steps)), 10)
	return []string{t.Type, t.Command, t.Directory, t.StepsFlag, data, steps, strconv.Itoa(j.GPUs)}, nil
}

// gavelSLO formats an SLO; no SLO is a negative number.
func gavelSLO(j *Job) string {
	if math.IsNaN(j.SLO) {
		return "-1.000000"
	}
	return decimal(j.SLO)
}

func writeGavelRow(_ *Trace, j *Job) ([]string, error) {
	fields, err := gavelFields(j)
	return append(fields, decimal(j.Weight), gavelSLO(j), decimal(j.Arrival)), err
}

// writeShockwaveRow writes jobs without a mode as static.
func writeShockwaveRow(_ *Trace, j *Job) ([]string, error) {
	fields, err := gavelFields(j)
	if err == nil && math.IsNaN(j.Seconds) {
		err = errors.New("its duration is not known")
	}
	mode := j.Mode
	if mode == "" {
		mode = "static"
	}
	return append(fields, mode, decimal(j.Weight), gavelSLO(j), decimal(j.Seconds), decimal(j.Arrival)), err
}

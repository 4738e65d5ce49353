package workload

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// writers return the fields of a job in the order of columns and further of a format; formats without one are only read.
var writers = map[string]func(t *Trace, j *Job) ([]string, error){
	"gavel": writeGavelRow, "shockwave": writeShockwaveRow, "elasticflow": writeElasticFlowRow, "philly": writePhillyRow,
	"sia": writeSiaRow, "jobs": writeJobsRow,
}

// writeTrace writes jobs in a format. It returns an error for jobs that the format cannot represent and for read-only
// formats.
func writeTrace(w io.Writer, t *Trace, format string) error {
	l, err := layoutNamed(format)
	if err == nil && writers[l.name] == nil {
		err = fmt.Errorf("format %s has columns that a job does not say: it is only read", l.name)
	}
	if err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	rows := csv.NewWriter(w)
	b := bufio.NewWriter(w)
	put := rows.Write
	if l.tabs {
		put = func(fields []string) error {
			_, err := b.WriteString(strings.Join(fields, "\t") + "\n")
			return err
		}
	} else if err := put(slices.Concat(l.columns, l.further)); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	for i := range t.Jobs {
		fields, err := writers[l.name](t, &t.Jobs[i])
		if err == nil {
			err = put(fields)
		}
		if err != nil {
			return fmt.Errorf("write trace: job %d: %w", t.Jobs[i].ID, err)
		}
	}
	rows.Flush()
	if err := errors.Join(rows.Error(), b.Flush()); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

// decimal returns the shortest decimal form that parses to the same number; "" for NaN.
func decimal(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// gavelFields returns the columns up to the number of GPUs. Steps are truncated to an integer, at least 1.
func gavelFields(j *Job) ([]string, error) {
	i := slices.IndexFunc(Templates, func(t template) bool { return t.Type == j.Type })
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

// writePhillyRow writes dates; time 0 is 1970 if the trace has no start.
func writePhillyRow(t *Trace, j *Job) ([]string, error) {
	if math.IsNaN(j.Seconds) {
		return nil, errors.New("its duration is not known")
	}
	start := t.Start
	if start.IsZero() {
		start = time.Unix(0, 0).UTC()
	}
	at := start.Add(time.Duration(math.Round(j.Arrival)) * time.Second)
	return []string{at.Format(time.DateTime), decimal(j.Seconds), strconv.Itoa(j.GPUs), decimal(j.Seconds * float64(j.GPUs)), j.Queue}, nil
}

// writeElasticFlowRow writes jobs without a deadline as best effort.
func writeElasticFlowRow(_ *Trace, j *Job) ([]string, error) {
	model, batch, ok := splitBatch(j.Type)
	if !ok {
		return nil, fmt.Errorf("job type %q says no batch size", j.Type)
	}
	bestEffort := "0"
	if math.IsNaN(j.Deadline) {
		bestEffort = "1"
	}
	return []string{strconv.Itoa(j.ID), decimal(j.Arrival), decimal(j.Steps), model, decimal(j.Deadline), strconv.Itoa(batch),
		strconv.Itoa(j.GPUs), decimal(j.Seconds), bestEffort}, nil
}

// writeSiaRow names jobs by application and number, as Sia does.
func writeSiaRow(_ *Trace, j *Job) ([]string, error) {
	model, batch, ok := splitBatch(j.Type)
	if !ok {
		return nil, fmt.Errorf("job type %q says no batch size", j.Type)
	}
	return []string{fmt.Sprintf("%s-%d", model, j.ID), decimal(j.Arrival), model, strconv.Itoa(j.GPUs), strconv.Itoa(batch)}, nil
}

func writeJobsRow(_ *Trace, j *Job) ([]string, error) {
	return []string{strconv.Itoa(j.ID), j.Type, decimal(j.Arrival), strconv.Itoa(j.GPUs), decimal(j.Steps), decimal(j.Seconds),
		decimal(j.Weight), decimal(j.SLO), decimal(j.Deadline), j.User, j.Queue, j.Mode}, nil
}

// splitBatch splits "ResNet-18 (batch size 64)" into model and batch size.
func splitBatch(job string) (model string, batch int, ok bool) {
	rest, ok := strings.CutSuffix(job, ")")
	i := strings.LastIndex(rest, " (batch size ")
	if !ok || i < 0 {
		return "", 0, false
	}
	batch, err := strconv.Atoi(rest[i+len(" (batch size "):])
	return rest[:i], batch, err == nil
}

package trainlog

import (
	"strconv"
	"time"
)

// tracker converts what an experiment tracker stored about one training to rows: values logged at a step, and the
// configuration, which applies to every row.
type tracker struct {
	fields jsonFields
	base   epochBase
	config Row
}

func newTracker(o *parseOptions) *tracker {
	return &tracker{fields: jsonFields{opts: o}, base: epochBase{rule: fromFirstRow}}
}

// configColumns are the columns that a configuration may contain; other names there, such as "epoch", are settings of
// something else.
var configColumns = []Column{TotalEpochs, TotalSteps, ModelParams, ModelLayers, DataCount, DataSizeMB, BatchSize, CPUCount, GPUCount}

// configure adds entries of the configuration; known ones are kept.
func (t *tracker) configure(config map[string]any) {
	w := jsonWalk{fields: &t.fields, out: ignored{}}
	w.object("", config, 0)
	for _, c := range configColumns {
		if _, has := t.config.Value(c); !has {
			if v, ok := w.row.Value(c); ok {
				t.config.Set(c, v)
			}
		}
	}
	if t.config.Model == "" {
		t.config.Model = w.row.Model
	}
	if t.config.Dataset == "" {
		t.config.Dataset = w.row.Dataset
	}
	if t.config.Device == "" {
		t.config.Device = w.row.Device
	}
}

// row passes on the row of the values logged at one time. n is its number, from 1.
func (t *tracker) row(values map[string]any, n int, at time.Time, out sink) {
	r, extra, ok := t.fields.row(values, n, out)
	if !ok {
		return
	}
	if !at.IsZero() {
		r.Stamp = at
	}
	t.base.fix(&r)
	r.fill(&t.config)
	for _, text := range []struct{ into, from *string }{{&r.Model, &t.config.Model}, {&r.Dataset, &t.config.Dataset}, {&r.Device, &t.config.Device}} {
		if *text.into == "" {
			*text.into = *text.from
		}
	}
	out.row(&r, extra)
}

// numberText returns a number as the text of a JSON number.
func numberText(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// ignored is a sink without effect.
type ignored struct{}

func (ignored) row(*Row, uint64)  {}
func (ignored) bad(int, string)   {}
func (ignored) note(int, string)  {}
func (ignored) wantsDetail() bool { return false }
func (ignored) header()           {}
func (ignored) batchFull() bool   { return false }

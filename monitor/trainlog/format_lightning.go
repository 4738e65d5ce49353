package trainlog

import (
	"math"
	"strings"
)

// Lightning CSVLogger (metrics.csv): training and validation values are in separate, sparse rows; epochs count from
// 0; a metric that is logged both per step and per epoch has columns …_step and …_epoch. The whole file is rewritten
// with a wider header when a metric appears for the first time.
//
// A row inside an epoch contains the number of the current epoch and yields the number of epochs completed before it.
// A row at the end of an epoch, with validation values or …_epoch, yields the number that includes the current one.

// detectLightning recognises a header with epoch and step, if the file is named metrics.csv or a column has a prefix
// or suffix of Lightning. A canonical column other than loss or accuracy excludes it.
func detectLightning(h *head) int {
	names := findHeader(h)
	hasEpoch, hasStep, mark := false, false, h.path == "metrics.csv"
	for _, name := range names {
		n := normalizeName(name)
		switch t := resolveName(n); {
		case n == "epoch":
			hasEpoch = true
		case n == "step":
			hasStep = true
		case t.exact && t.column != TrainLoss && t.column != TestLoss && t.column != TestAccuracy && t.column != TrainAccuracy:
			return 0
		case strings.HasSuffix(n, "_step"), strings.HasSuffix(n, "_epoch"), strings.HasPrefix(n, "val_"), strings.HasPrefix(n, "lr_"):
			mark = true
		}
	}
	if hasEpoch && hasStep && mark {
		return 80
	}
	return 0
}

func newLightning(o *parseOptions) parser {
	return newCSVParser(o, dialect{
		epochs: fromZero,
		resolve: func(name string) target {
			if t := resolveMetric(o, name); t.kind != toNowhere {
				return t
			}
			return resolveMetric(o, strings.TrimSuffix(strings.TrimSuffix(normalizeName(name), "_step"), "_epoch"))
		},
		adjust: lightningRow,
	})
}

// lightningRow converts the epoch of a row to the number of completed epochs.
func lightningRow(p *csvParser, r *Row, fields [][]byte) {
	_, loss := r.Value(TestLoss)
	_, accuracy := r.Value(TestAccuracy)
	if loss || accuracy {
		return
	}
	for i, f := range fields {
		if n := p.cells[i].name; strings.HasSuffix(n, "_epoch") && !blank(f) {
			return
		}
	}
	if e, ok := r.Value(Epoch); ok {
		if e--; e <= 0 {
			e = math.NaN() // none is complete
		}
		r.Set(Epoch, e)
	}
}

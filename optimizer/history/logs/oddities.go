package logs

import (
	"fmt"

	"trainopt/monitor/trainlog"
)

// maxWords bounds the number of anomalies that are described; all are counted.
const maxWords = 20

// oddities counts values that were rejected as impossible.
type oddities struct {
	n     int
	words []string
}

func (o *oddities) add(line int, format string, args ...any) {
	if o.n++; len(o.words) < maxWords {
		o.words = append(o.words, trainlog.BadRow{Line: line, Reason: fmt.Sprintf(format, args...)}.String())
	}
}

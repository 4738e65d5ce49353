package history

import (
	"fmt"

	"trainopt/monitor/trainlog"
)

// maxWords bounds the number of anomalies that are described; all are counted.
const maxWords = 20

// anomalies counts values that were rejected as impossible.
type anomalies struct {
	n     int
	words []string
}

func (o *anomalies) add(line int, format string, args ...any) {
	if o.n++; len(o.words) < maxWords {
		o.words = append(o.words, trainlog.BadRow{Line: line, Reason: fmt.Sprintf(format, args...)}.String())
	}
}

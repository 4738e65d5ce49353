package swf

import (
	"slices"
	"strconv"
	"strings"
)

// Header are the comments before the first job, in their order.
type Header []Comment

// Comment is one line of a header: "; Label: Text". A line without a label goes on with the one before it.
type Comment struct {
	Label, Text string
}

// labels are those of version 2.2 of the format.
var labels = []string{
	"Version", "Computer", "Installation", "Acknowledge", "Information", "Conversion", "MaxJobs", "MaxRecords", "Preemption",
	"UnixStartTime", "TimeZone", "TimeZoneString", "StartTime", "EndTime", "MaxNodes", "MaxProcs", "MaxRuntime", "MaxMemory",
	"AllowOveruse", "MaxQueues", "Queues", "Queue", "MaxPartitions", "Partitions", "Partition", "Note",
}

// parseComment reads what follows ";". What looks like a label but is not one of the format's counts as one unless it is indented
// as continuations are.
func parseComment(s string) Comment {
	s = strings.TrimRight(s, " \t\r\n")
	text := strings.TrimLeft(s, " \t")
	label, rest, found := strings.Cut(text, ":")
	if !found || !word(label) || rest != "" && !strings.ContainsAny(rest[:1], " \t") {
		return Comment{Text: text}
	}
	if !slices.Contains(labels, label) && len(s)-len(text) > 2 {
		return Comment{Text: text}
	}
	return Comment{label, strings.TrimSpace(rest)}
}

func word(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// Text is what the header says under the label, "" when nothing; of a label that is there more than once ("Note", "Queue") the
// first. Lines that go on with it follow after a line break.
func (h Header) Text(label string) string {
	for i, c := range h {
		if c.Label != label {
			continue
		}
		text := c.Text
		for _, more := range h[i+1:] {
			if more.Label != "" || more.Text == "" {
				break
			}
			text += "\n" + more.Text
		}
		return text
	}
	return ""
}

// Number is what the header says under the label as a number; ok is false when it says nothing or no number first.
func (h Header) Number(label string) (n float64, ok bool) {
	words := strings.Fields(h.Text(label))
	if len(words) == 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(words[0], 64)
	return n, err == nil
}

// Procs is the size of the machine, MaxProcs or else MaxNodes; 0 when the header says neither.
func (h Header) Procs() int {
	for _, label := range []string{"MaxProcs", "MaxNodes"} {
		if n, ok := h.Number(label); ok && n >= 1 && n <= maxProcs {
			return int(n)
		}
	}
	return 0
}

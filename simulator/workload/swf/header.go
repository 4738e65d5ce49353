package swf

import (
	"slices"
	"strconv"
	"strings"
)

// Header contains the comments before the first job, in order.
type Header []comment

// comment is one line of a header: "; Label: Text". A line without a label continues the previous one.
type comment struct {
	Label, Text string
}

// labels are the labels of version 2.2 of the format.
var labels = []string{
	"Version", "Computer", "Installation", "Acknowledge", "Information", "Conversion", "MaxJobs", "MaxRecords", "Preemption",
	"UnixStartTime", "TimeZone", "TimeZoneString", "StartTime", "EndTime", "MaxNodes", "MaxProcs", "MaxRuntime", "MaxMemory",
	"AllowOveruse", "MaxQueues", "Queues", "Queue", "MaxPartitions", "Partitions", "Partition", "Note",
}

// parseComment parses the text after ";". An unknown label is accepted unless it is indented like a continuation.
func parseComment(s string) comment {
	s = strings.TrimRight(s, " \t\r\n")
	text := strings.TrimLeft(s, " \t")
	label, rest, found := strings.Cut(text, ":")
	if !found || !word(label) || rest != "" && !strings.ContainsAny(rest[:1], " \t") {
		return comment{Text: text}
	}
	if !slices.Contains(labels, label) && len(s)-len(text) > 2 {
		return comment{Text: text}
	}
	return comment{label, strings.TrimSpace(rest)}
}

// word reports whether a text has the form of a label: ASCII letters and digits, at least one.
func word(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// Text returns the text of a label, "" if missing; for repeated labels ("Note", "Queue") the first. Continuation lines
// are appended after a line break.
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

// Number returns the number at the start of the text of a label; ok is false if the label is missing or its text does
// not start with a number.
func (h Header) Number(label string) (n float64, ok bool) {
	words := strings.Fields(h.Text(label))
	if len(words) == 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(words[0], 64)
	return n, err == nil
}

// Procs returns the size of the machine, MaxProcs or else MaxNodes; 0 if the header contains neither.
func (h Header) Procs() int {
	for _, label := range []string{"MaxProcs", "MaxNodes"} {
		if n, ok := h.Number(label); ok && n >= 1 && n <= maxProcs {
			return int(n)
		}
	}
	return 0
}

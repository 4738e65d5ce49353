package conformance

import (
	"fmt"
	"math"
	"strings"
)

// table formats the judgements as a Markdown table, one row per training.
func table(rows []judgement) string {
	var b strings.Builder
	b.WriteString("| training | end | progress | total | rate | predicted | log | checkpoint | stop and resume | note |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, j := range rows {
		fmt.Fprintf(&b, "| %s |", j.training.framework)
		for _, c := range j.cells() {
			mark := "✓ "
			switch {
			case c.text == "":
				mark = "–"
			case c.wrong:
				mark = "✗ "
			}
			fmt.Fprintf(&b, " %s |", strings.ReplaceAll(mark+c.text, "|", "/"))
		}
		fmt.Fprintf(&b, " %s |\n", j.note)
	}
	return b.String()
}

// replaceBlock replaces the text between the lines `<!-- name -->` and `<!-- /name -->` of a document.
func replaceBlock(document, name, text string) (string, error) {
	open, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(document, open)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("replace block %s: the document has no such block", name)
	}
	return before + open + text + end + after, nil
}

// enoughHeld reports whether held of n outcomes inside 90 % intervals is compatible with a true coverage of 90 %: fewer
// would have a probability below 1 %.
func enoughHeld(held, n int) bool {
	const share = 0.9
	atMost := 0.0
	for k := range held + 1 {
		lk, _ := math.Lgamma(float64(k + 1))
		ln, _ := math.Lgamma(float64(n + 1))
		lr, _ := math.Lgamma(float64(n - k + 1))
		atMost += math.Exp(ln - lk - lr + float64(k)*math.Log(share) + float64(n-k)*math.Log(1-share))
	}
	return atMost >= 0.01
}

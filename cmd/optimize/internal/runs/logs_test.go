package runs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestTerminalFilter(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\r\n":                         "plain\ttext\r\n",
		"\x1b[1;31mred\x1b[0m":                    "\x1b[1;31mred\x1b[0m",
		"\x1b[2J\x1b[Hgone":                       "gone",
		"\x1b]0;title\x07after":                   "after",
		"\x1b]52;c;aGk=\x1b\\after":               "after",
		"\x1bPquery\x1b\\after":                   "after",
		"\x1bcreset":                              "reset",
		"\x1b(0lines":                             "lines",
		"bell\x07 back\x08 del\x7f":               "bell back del",
		"\u009b31m caf\u00e9 \u00a0":              "31m café \u00a0",
		"\x1b]never ended\nnext line":             "\nnext line",
		"\x1b[" + strings.Repeat("1;", 99) + "mx": "x",
	} {
		for _, size := range []int{1, 3, len(text)} { // for any division of the input into writes
			var b bytes.Buffer
			h := &terminalFilter{to: &b}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				fmt.Fprintf(h, "%s", rest[:min(size, len(rest))])
			}
			if b.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", text, size, b.String(), want)
			}
		}
	}
}

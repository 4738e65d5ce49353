package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestRules checks the errors for flags that cannot be combined, that require others, and that are not among the allowed
// ones.
func TestRules(t *testing.T) {
	cmd := &cobra.Command{Use: "x"}
	o := (&Env{}).Options(cmd)
	(&Env{}).AddFlags(o.Flags)
	for _, name := range []string{"rate", "static", "window"} {
		o.Flags.String(name, "", "")
	}
	if err := o.Flags.Parse([]string{"--rate=3", "--window=1:2", "--quiet"}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rule Rule
		want string
	}{
		"conflict":     {Rule{If: true, Flags: "rate static", Conflict: "--trace", Reason: "both contain jobs"}, "--rate cannot be combined with --trace: both contain jobs"},
		"requirement":  {Rule{If: true, Flags: "window", Requires: "--trace"}, "--window requires --trace"},
		"all but some": {Rule{If: true, Except: "rate", Conflict: "--figure"}, "--window cannot be combined with --figure"},
		"not set":      {Rule{If: true, Flags: "static", Conflict: "--trace"}, ""},
		"no condition": {Rule{Flags: "rate", Conflict: "--trace"}, ""},
	} {
		text := ""
		if err := o.Check(c.rule); err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// TestBarWidth checks that the progress bar has a positive width on terminals narrower than the text beside it.
func TestBarWidth(t *testing.T) {
	for columns, want := range map[int]int{1: 10, 30: 10, 45: 15, 80: 50, 200: 60} {
		if got := barWidth(columns, besideBar); got != want {
			t.Errorf("%d columns: %d, want %d", columns, got, want)
		}
	}
}

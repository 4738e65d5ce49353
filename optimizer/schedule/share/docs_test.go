package share_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"trainopt/optimizer/schedule/share"
)

// documented returns the policies in the first cell of each row of the page's table. After a name, "…_perf" is the
// name with that suffix; alone, it means every name with that suffix.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../../docs/rounds.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Policies\n")
	section, _, more := strings.Cut(section, "\n## ")
	if !found || !more {
		t.Fatal("the page has no section on policies")
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	out := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		base := ""
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			suffix, short := strings.CutPrefix(m[1], "…")
			switch {
			case !short:
				out[m[1]] = true
				if base == "" {
					base = m[1]
				}
			case base == "":
				for _, name := range share.Names() {
					if strings.HasSuffix(name, suffix) {
						out[name] = true
					}
				}
			default:
				root := base
				if _, ok := share.Policies[root+suffix]; !ok { // "a_perf", "…_packed"
					root = strings.TrimSuffix(base, "_perf")
				}
				out[root+suffix] = true
			}
		}
	}
	return out
}

func TestEveryPolicyIsOnThePage(t *testing.T) {
	page := documented(t)
	for _, name := range share.Names() {
		if !page[name] {
			t.Errorf("policy %s is not in the table of docs/rounds.md", name)
		}
	}
	for name := range page {
		if _, ok := share.Policies[name]; !ok {
			t.Errorf("docs/rounds.md has a policy %s, which does not exist", name)
		}
	}
}

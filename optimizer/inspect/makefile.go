package inspect

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	makeVariable = regexp.MustCompile(`^([A-Za-z_]\w*)\s*[?:]{0,3}=\s*(.*)$`)
	makeRule     = regexp.MustCompile(`^([^\s:=#][^:=#]*?)\s*::?([^=]*)$`)
	makeValue    = regexp.MustCompile(`\$\((\w+)\)|\$\{(\w+)\}|\$[@<^$]`)
)

// makeTarget is a rule of a Makefile.
type makeTarget struct {
	needs, recipe []string
	visited       bool
}

// makefile contains the explicit rules of a Makefile: no patterns, functions, conditions or included files.
type makefile struct {
	dir     string
	vars    map[string]string
	targets map[string]*makeTarget
	out     strings.Builder
}

// recipes returns the commands, as a shell script, by which make with these arguments builds its goals, as far as they are
// literal, and the folder in which they run. Targets that exist and need nothing newer are left out.
func recipes(args []string, dir string) (text, home string) {
	names := []string{"GNUmakefile", "makefile", "Makefile"}
	m := &makefile{vars: map[string]string{}, targets: map[string]*makeTarget{}}
	given := map[string]bool{}
	var goals []string
	for i := 0; i < len(args); i++ {
		name, value, assigned := strings.Cut(args[i], "=")
		switch {
		case i+1 < len(args) && (args[i] == "-C" || args[i] == "-f"):
			if i++; args[i-1] == "-C" {
				dir = at(dir, args[i])
			} else {
				names = []string{args[i]}
			}
		case strings.HasPrefix(name, "-"):
		case assigned:
			m.vars[name], given[name] = value, true
		default:
			goals = append(goals, name)
		}
	}
	var data []byte
	for _, n := range names {
		if b, _, err := read(at(dir, n)); err == nil {
			data = b[:min(len(b), maxSource)]
			break
		}
	}
	var rule []*makeTarget
	first := ""
	source, _ := decode(data)
	for _, l := range strings.Split(strings.ReplaceAll(source, "\\\n", " "), "\n") {
		if strings.HasPrefix(l, "\t") {
			for _, t := range rule {
				t.recipe = append(t.recipe, strings.TrimLeft(strings.TrimSpace(l), "@-+"))
			}
		} else if v := makeVariable.FindStringSubmatch(l); v != nil {
			if !given[v[1]] {
				m.vars[v[1]] = strings.TrimSpace(v[2])
			}
		} else if r := makeRule.FindStringSubmatch(l); r != nil {
			rule = nil
			for _, n := range strings.Fields(m.expand(r[1], "", nil, 0)) {
				if m.targets[n] == nil {
					m.targets[n] = &makeTarget{}
				}
				if first == "" && !strings.HasPrefix(n, ".") {
					first = n
				}
				m.targets[n].needs = append(m.targets[n].needs, strings.Fields(m.expand(r[2], "", nil, 0))...)
				rule = append(rule, m.targets[n])
			}
		}
	}
	if m.dir = dir; goals == nil {
		goals = []string{first}
	}
	for _, g := range goals {
		m.build(g)
	}
	return m.out.String(), dir
}

// build writes the commands that build a target, after those of what it needs, and reports whether it is built.
func (m *makefile) build(name string) bool {
	t := m.targets[name]
	if t == nil || t.visited {
		return t != nil
	}
	t.visited = true
	file, err := os.Stat(filepath.Join(m.dir, name))
	stale := err != nil || m.targets[".PHONY"] != nil && strings.Contains(" "+strings.Join(m.targets[".PHONY"].needs, " ")+" ", " "+name+" ")
	for _, n := range t.needs {
		built := m.build(n)
		other, err := os.Stat(filepath.Join(m.dir, n))
		stale = stale || built || err == nil && other.ModTime().After(file.ModTime())
	}
	for _, l := range t.recipe {
		if stale {
			m.out.WriteString(m.expand(l, name, t.needs, 0) + "\n")
		}
	}
	return stale
}

// expand replaces variables, also those of a rule; those that are unknown are kept.
func (m *makefile) expand(text, target string, needs []string, depth int) string {
	return makeValue.ReplaceAllStringFunc(text, func(v string) string {
		value, ok := m.vars[strings.Trim(v, "$(){}")]
		switch {
		case v == "$$":
			return "$"
		case v == "$@" && target != "":
			return target
		case v == "$<" && len(needs) > 0:
			return needs[0]
		case v == "$^":
			return strings.Join(needs, " ")
		case ok && depth < maxNesting:
			return m.expand(value, target, needs, depth+1)
		}
		return v
	})
}

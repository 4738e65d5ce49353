package inspect

import (
	"cmp"
	"slices"
	"strings"
)

// readImports parses import a.b as c, d and from .a import (b as c, d).
func (s *script) readImports(st *statement) {
	t := st.tokens
	if t[0].kind != name || t[0].s != "import" && t[0].s != "from" {
		return
	}
	i, from := 1, ""
	if t[0].s == "from" {
		from, i = dotted(t, 1)
		if i >= len(t) || t[i].s != "import" {
			return
		}
		i++
	}
	for i < len(t) {
		if t[i].kind == operator && t[i].s != "." && t[i].s != "*" && t[i].s != "..." {
			i++ // a parenthesis or comma
			continue
		}
		line := int(t[i].line)
		path, n := dotted(t, i)
		if n == i {
			i++
			continue
		}
		i = n
		alias := path
		if i+1 < len(t) && t[i].s == "as" {
			alias, i = t[i+1].s, i+2
		} else if from == "" {
			// import a.b binds a
			alias, _, _ = strings.Cut(path, ".")
			if alias != path {
				s.imports = append(s.imports, imported{"", path, line})
				path = alias
			}
		}
		if from != "" {
			path = from + "." + path
		}
		s.imports = append(s.imports, imported{alias, path, line})
	}
}

// dotted parses a dotted name at i and returns it with the index after it; leading dots (relative imports) and a star
// are kept.
func dotted(t []token, i int) (string, int) {
	var b strings.Builder
	for i < len(t) {
		switch {
		case t[i].kind == operator && (t[i].s == "." || t[i].s == "..." || t[i].s == "*"):
		case t[i].kind == name && !keywords[t[i].s] && (b.Len() == 0 || strings.HasSuffix(b.String(), ".")):
		default:
			return b.String(), i
		}
		b.WriteString(t[i].s)
		i++
	}
	return b.String(), i
}

// dictEntry parses "key": value at i.
func (s *script) dictEntry(st *statement, match []int, i int) {
	t := st.tokens
	if i+2 >= len(t) || t[i+1].kind != operator || t[i+1].s != ":" || i == 0 || t[i-1].s != "{" && t[i-1].s != "," {
		return
	}
	end := i + 2
	for end < len(t) && !(t[end].kind == operator && (t[end].s == "," || t[end].s == "}")) {
		if m := match[end]; m > end {
			end = m
		}
		end++
	}
	end = min(end, len(t))
	s.assignments = append(s.assignments, assignment{t[i].s, t[i+2 : end], int(t[i].line), st.scope, entry})
}

// readAssignment parses a = value, a: type = value, a.b = value, a["k"] = value and a, b = x, y, and records
// definitions. Targets are split at each = of a chain (at most 8) and paired with values element by element when both
// sides have the same number of elements.
func (s *script) readAssignment(st *statement, match []int) {
	t := st.tokens
	if defined := definedName(t); defined != "" {
		d := definition{name: defined, class: t[0].s == "class", line: st.line, scope: st.scope}
		if d.class && len(t) > 3 && t[2].s == "(" {
			d.bases = t[3:min(match[2], len(t))]
		}
		s.definitions = append(s.definitions, d)
		return
	}
	if keywords[t[0].s] && t[0].kind == name {
		return
	}
	from, chained := 0, 0
	for i := 0; i < len(t) && chained < 8; i++ {
		if t[i].kind != operator {
			continue
		}
		switch t[i].s {
		case "(", "[", "{":
			i = min(match[i], len(t))
			continue
		case "=":
		default:
			continue
		}
		target := t[from:i]
		value := t[i+1:]
		from = i + 1
		chained++
		if len(value) == 0 {
			return
		}
		targets, values := commas(target), commas(value)
		if len(targets) > 1 && len(targets) == len(values) {
			for k := range targets {
				s.assign(st, targets[k], values[k])
			}
			continue
		}
		for _, one := range targets {
			s.assign(st, one, value)
		}
	}
}

// commas splits tokens at the commas outside brackets.
func commas(t []token) [][]token { return splitAt(t, ",") }

// splitAt splits tokens at an operator outside brackets.
func splitAt(t []token, at string) [][]token {
	var parts [][]token
	depth, from := 0, 0
	for i, one := range t {
		if one.kind != operator {
			continue
		}
		switch one.s {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case at:
			if depth == 0 {
				parts = append(parts, t[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, t[from:])
}

// assign records the assignment of a value to one target: a dotted name or a subscript with a literal key.
func (s *script) assign(st *statement, target, value []token) {
	if len(target) == 0 || len(value) == 0 {
		return
	}
	path, n := dotted(target, 0)
	switch {
	case n == 0:
		return
	case n < len(target) && target[n].s == "[" && n+1 < len(target) && target[n+1].kind == text:
		path += "[" + target[n+1].s + "]"
	case n < len(target) && target[n].s != ":":
		return
	}
	s.assignments = append(s.assignments, assignment{path, value, int(target[0].line), st.scope, assigned})
}

// bindLengths lets the arguments with which the script calls its functions replace the defaults of parameters that are
// lengths. A parameter that receives different values, or one of the same name, has no known value.
func (s *script) bindLengths() {
	type parameter struct {
		line int // of the function's definition
		name string
	}
	bound, index := []assignment(nil), map[parameter]int{}
	for i := range s.calls {
		c := &s.calls[i]
		def, ok := s.functions[last(c.callee)]
		if !ok {
			continue
		}
		t := s.statements[def].tokens
		names := arguments(t, brackets(t), max(0, slices.IndexFunc(t, func(one token) bool { return one.s == "(" })))
		for k, a := range c.args {
			if a.key == "" && c.callee == last(c.callee) && k < len(names) {
				a.key = cmp.Or(names[k].key, names[k].tokens[0].s)
			}
			if unitOf(strings.ToLower(a.key), "") == "" {
				continue
			}
			p := parameter{s.statements[def].line, a.key}
			at, again := index[p]
			if !again {
				at = len(bound)
				index[p], bound = at, append(bound, assignment{a.key, a.tokens, c.line, c.scope, defaulted})
			}
			if !slices.EqualFunc(bound[at].value, a.tokens, func(x, y token) bool { return x.s == y.s }) || len(a.tokens) == 1 && a.tokens[0].s == a.key {
				bound[at].value = nil
			}
		}
	}
	for i, a := range s.assignments {
		if at, ok := index[parameter{s.statements[max(0, s.statementAt(a.line))].line, a.target}]; ok && a.how == defaulted {
			s.assignments[i] = bound[at]
		}
	}
	s.assignments = append(s.assignments, bound...)
}

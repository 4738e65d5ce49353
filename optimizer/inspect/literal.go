package inspect

import (
	"strconv"
	"strings"
)

// maxExpression is the longest expression, in tokens, that a value is looked for in; it keeps the work linear.
const maxExpression = 100

// wholeNumber returns the last positive whole number among the tokens, written plainly; strings that hold
// one count ("64" in os.environ.get("X", "64")). ok is false when there is none.
func wholeNumber(tokens []token) (string, bool) {
	for i := len(tokens) - 1; i >= 0; i-- {
		t := tokens[i]
		if t.kind != number && t.kind != text {
			continue
		}
		if i > 0 && t.kind == number && tokens[i-1].kind == operator && tokens[i-1].s == "-" {
			continue
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(t.s, "_", ""), 0, 64)
		if err == nil && n > 0 {
			return strconv.FormatInt(n, 10), true
		}
	}
	return "", false
}

// isPlainNumber holds when the value is one number, or a number behind a conversion or an environment
// default, and not a computation from which no single number can be told.
func isPlainNumber(tokens []token) bool {
	for i, t := range tokens {
		if t.kind != operator {
			continue
		}
		switch t.s {
		case "*", "//", "/", "+", "%", "**", "<<", ">>":
			return false
		case "-":
			return i != 0 && tokens[i-1].s == "("
		}
	}
	return true
}

// lastString returns the last string literal among the tokens.
func lastString(tokens []token) (token, bool) {
	for i := len(tokens) - 1; i >= 0; i-- {
		if tokens[i].kind == text {
			return tokens[i], true
		}
	}
	return token{}, false
}

// onlyString returns the value when the tokens are one string literal.
func onlyString(tokens []token) (string, bool) {
	if len(tokens) == 1 && tokens[0].kind == text {
		return tokens[0].s, true
	}
	return "", false
}

// arg returns the tokens of a keyword argument.
func (c *call) arg(key string) ([]token, bool) {
	for _, a := range c.args {
		if a.key == key {
			return a.tokens, true
		}
	}
	return nil, false
}

// positional returns the tokens of positional argument n, from 0.
func (c *call) positional(n int) ([]token, bool) {
	for _, a := range c.args {
		if a.key != "" {
			continue
		}
		if n == 0 {
			return a.tokens, true
		}
		n--
	}
	return nil, false
}

// last is the last part of a dotted name.
func last(dottedName string) string { return dottedName[strings.LastIndexByte(dottedName, '.')+1:] }

// root is the first part of a dotted name.
func root(dottedName string) string {
	first, _, _ := strings.Cut(dottedName, ".")
	return first
}

// clue is one piece of evidence for a value; the heaviest wins, then the earliest.
type clue struct {
	value  string
	weight float64
	line   int
}

// heaviest picks the value with the heaviest single clue; among equals the value with the larger sum,
// then the one that comes first.
func (s *script) heaviest(clues []clue) Finding {
	sum := map[string]float64{}
	for _, c := range clues {
		sum[c.value] += c.weight
	}
	var best *clue
	for i := range clues {
		c := &clues[i]
		if best == nil || c.weight > best.weight ||
			c.weight == best.weight && (sum[c.value] > sum[best.value] || sum[c.value] == sum[best.value] && c.line < best.line) {
			best = c
		}
	}
	if best == nil || best.weight <= 0 {
		return Finding{}
	}
	return s.found(best.value, best.line)
}

// value looks a name up among the script's assignments and option defaults: "device", "args.device",
// "MODEL". It returns nil when nothing is known.
func (s *script) value(dottedName string) []token {
	if i, ok := s.assigned[dottedName]; ok {
		return s.assignments[i].value
	}
	if v, ok := s.defaults[last(dottedName)]; ok {
		return v
	}
	return nil
}

// index makes value fast.
func (s *script) index() {
	s.options = s.readOptions()
	s.assigned, s.defaults = map[string]int{}, map[string][]token{}
	for i, a := range s.assignments {
		if a.how == assigned {
			s.assigned[a.target] = i // the last one counts
		} else if _, ok := s.defaults[a.target]; !ok {
			s.defaults[a.target] = a.value
		}
	}
	for _, o := range s.options {
		for _, n := range o.names {
			if len(o.value) > 0 {
				s.defaults[n] = o.value
			}
		}
	}
}

package inspect

import (
	"os"
	"strconv"
	"strings"
)

// maxExpression is the maximum length, in tokens, of an expression searched for a value; it keeps the cost linear.
const maxExpression = 100

// wholeNumber returns the last positive whole number among the tokens in decimal notation, including strings that
// contain one ("64" in os.environ.get("X", "64")). The index in sys.argv[1] is none. ok is false without any.
func wholeNumber(tokens []token) (string, bool) {
	for i := len(tokens) - 1; i >= 0; i-- {
		t := tokens[i]
		if t.kind != number && t.kind != text {
			continue
		}
		if i > 0 && t.kind == number && tokens[i-1].kind == operator && tokens[i-1].s == "-" {
			continue
		}
		if i > 1 && tokens[i-1].s == "[" && tokens[i-1].kind == operator && tokens[i-2].kind == name {
			continue
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(t.s, "_", ""), 0, 64)
		if err == nil && n > 0 {
			return strconv.FormatInt(n, 10), true
		}
	}
	return "", false
}

// isPlainNumber reports whether the value is one number, possibly within a conversion or an environment default,
// rather than a computation without a single known result.
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

// given returns the argument of the script, or the variable of its environment, that an expression reads: 20 of
// int(sys.argv[1]), 3 of os.environ.get("EPOCHS", 10). known is false when it reads neither or the variable is unset; v is ""
// for a missing argument.
func (s *script) given(value []token) (v string, known bool) {
	for i, t := range value {
		switch {
		case i+3 < len(value) && t.s == "argv" && value[i+1].s == "[" && value[i+2].kind == number && value[i+3].s == "]":
			if n, err := strconv.Atoi(value[i+2].s); err == nil && n > 0 && n <= len(s.args) {
				v = s.args[n-1]
			}
			return v, true
		case t.kind == text && i > 1 && (value[i-2].s == "get" || value[i-2].s == "getenv" || value[i-2].s == "environ"):
			if v, known = s.env[t.s]; !known {
				v, known = os.LookupEnv(t.s)
			}
			return v, known
		}
	}
	return "", false
}

// chosen returns the part of A if len(sys.argv) > N else B that has effect, or the value itself; nil for another condition.
func (s *script) chosen(value []token) []token {
	depth, then := 0, -1
	for i, t := range value {
		switch {
		case t.kind == operator && strings.Contains("([{", t.s):
			depth++
		case t.kind == operator && strings.Contains(")]}", t.s):
			depth--
		case t.kind == name && t.s == "if" && depth == 0 && then < 0:
			then = i
		case t.kind == name && t.s == "else" && depth == 0 && then >= 0:
			c := value[then+1 : i]
			if len(c) != 8 || c[0].s != "len" || c[4].s != "argv" || c[7].kind != number {
				return nil
			}
			n, err := strconv.Atoi(c[7].s)
			have := len(s.args) + 1
			met, ok := map[string]bool{">": have > n, ">=": have >= n, "==": have == n, "<": have < n, "!=": have != n}[c[6].s]
			switch {
			case err != nil || !ok:
				return nil
			case met:
				return value[:then]
			}
			return value[i+1:]
		}
	}
	return value
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

// onlyString returns the value of tokens that are a single string literal.
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

// last returns the last part of a dotted name.
func last(dottedName string) string { return dottedName[strings.LastIndexByte(dottedName, '.')+1:] }

// root returns the first part of a dotted name.
func root(dottedName string) string {
	first, _, _ := strings.Cut(dottedName, ".")
	return first
}

// clue is one piece of evidence for a value.
type clue struct {
	value  string
	weight float64
	line   int
}

// heaviest returns the value of the clue with the largest weight. Among equal weights, the larger sum of weights
// decides, then the earlier line.
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

// value returns the assigned value or option default of a name: "device", "args.device", "MODEL". It returns nil for
// an unknown name.
func (s *script) value(dottedName string) []token {
	if i, ok := s.assigned[dottedName]; ok {
		return s.assignments[i].value
	}
	if v, ok := s.defaults[last(dottedName)]; ok {
		return v
	}
	return nil
}

// certainValue is value without the assignments of branches: it returns the last one that takes effect in every case.
func (s *script) certainValue(dottedName string) []token {
	if i, ok := s.certain[dottedName]; ok {
		return s.assignments[i].value
	}
	return s.defaults[last(dottedName)]
}

// index builds the maps used by value.
func (s *script) index() {
	s.options = s.readOptions()
	s.bindLengths()
	s.assigned, s.certain, s.defaults = map[string]int{}, map[string]int{}, map[string][]token{}
	for i, a := range s.assignments {
		if before, ok := s.assigned[a.target]; ok && s.elsewhere(a.line) && !s.elsewhere(s.assignments[before].line) {
			continue // a variable of the script has its own value
		}
		if a.how == assigned {
			s.assigned[a.target] = i // the last one takes effect
			if !s.conditional(a.line) {
				s.certain[a.target] = i
			}
		} else if _, ok := s.defaults[a.target]; !ok && len(a.value) > 0 {
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

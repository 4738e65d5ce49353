package inspect

import "strings"

// kind is the kind of a Python token.
type kind uint8

const (
	endOfFile kind = iota
	newline        // end of a logical line
	indent
	dedent
	name // identifiers and keywords
	number
	text     // a string; token.s is the text between the quotes, with escapes as written
	fstring  // an f-string, likewise, with its braces
	operator // one or more punctuation characters
)

// token is one Python token. Its s shares memory with the source.
type token struct {
	kind kind
	line int32 // 1-based
	s    string
}

// lexer splits Python source into tokens. It accepts any text: invalid Python yields some operators. It always
// terminates, in O(n).
type lexer struct {
	src    string
	at     int
	line   int32
	depth  int // open brackets: newlines and indentation inside are ignored
	levels []int
	tokens []token
}

// maxLevels is Python's limit of nested indentation.
const maxLevels = 100

// tokenize returns the tokens of Python source; the last one is endOfFile. Comments are dropped.
func tokenize(src string) []token {
	x := &lexer{src: src, line: 1, levels: []int{0}, tokens: make([]token, 0, len(src)/6+8)}
	startOfLine := true
	for x.at < len(x.src) {
		if startOfLine && x.depth == 0 {
			if x.indentation() {
				continue // a blank or comment line
			}
		}
		startOfLine = x.next()
	}
	if n := len(x.tokens); n > 0 && x.tokens[n-1].kind != newline {
		x.emit(newline, "")
	}
	for range x.levels[1:] {
		x.emit(dedent, "")
	}
	x.emit(endOfFile, "")
	return x.tokens
}

func (x *lexer) emit(k kind, s string) { x.tokens = append(x.tokens, token{k, x.line, s}) }

// indentation reads the white space at the start of a logical line and emits indent or dedent. It returns true for a
// line without tokens, which it skips.
func (x *lexer) indentation() bool {
	width, i := 0, x.at
	for ; i < len(x.src); i++ {
		switch x.src[i] {
		case ' ':
			width++
			continue
		case '\t':
			width += 8 - width%8
			continue
		case '\f':
			width = 0
			continue
		}
		break
	}
	x.at = i
	if i == len(x.src) {
		return true
	}
	switch x.src[i] {
	case '#':
		x.skipLine()
		return true
	case '\n', '\r':
		x.lineEnd()
		return true
	}
	top := x.levels[len(x.levels)-1]
	if width > top && len(x.levels) < maxLevels {
		x.levels = append(x.levels, width)
		x.emit(indent, "")
	}
	for width < x.levels[len(x.levels)-1] {
		x.levels = x.levels[:len(x.levels)-1]
		x.emit(dedent, "")
	}
	return false
}

// skipLine advances past the end of this line.
func (x *lexer) skipLine() {
	if n := strings.IndexAny(x.src[x.at:], "\n\r"); n >= 0 {
		x.at += n
		x.lineEnd()
		return
	}
	x.at = len(x.src)
}

// lineEnd advances past one line end: LF, CR LF or CR.
func (x *lexer) lineEnd() {
	if x.src[x.at] == '\r' && x.at+1 < len(x.src) && x.src[x.at+1] == '\n' {
		x.at++
	}
	x.at++
	x.line++
}

// next reads one token (or skips white space); it returns true at the end of a logical line.
func (x *lexer) next() bool {
	c := x.src[x.at]
	switch {
	case c == '\n' || c == '\r':
		if x.depth == 0 {
			x.emit(newline, "")
		}
		x.lineEnd()
		return x.depth == 0
	case c == '#':
		if n := strings.IndexAny(x.src[x.at:], "\n\r"); n >= 0 {
			x.at += n
		} else {
			x.at = len(x.src)
		}
	case c == '\\' && x.at+1 < len(x.src) && (x.src[x.at+1] == '\n' || x.src[x.at+1] == '\r'):
		x.at++
		x.lineEnd()
	case c <= ' ':
		x.at++
	case c == '"' || c == '\'':
		x.str(text)
	case isNameByte(c) && !isDigit(c):
		x.name()
	case isDigit(c) || c == '.' && x.at+1 < len(x.src) && isDigit(x.src[x.at+1]):
		x.number()
	default:
		x.punctuation(c)
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isNameByte reports whether c is a byte of an identifier, including bytes of non-ASCII letters.
func isNameByte(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c >= 0x80
}

// name reads an identifier, or a string with its prefix.
func (x *lexer) name() {
	end := x.at
	for end < len(x.src) && isNameByte(x.src[end]) {
		end++
	}
	if end-x.at <= 2 && end < len(x.src) && (x.src[end] == '"' || x.src[end] == '\'') {
		prefix := strings.ToLower(x.src[x.at:end])
		if strings.Trim(prefix, "rbuft") == "" {
			k := text
			if strings.ContainsAny(prefix, "ft") {
				k = fstring
			}
			x.at = end
			x.str(k)
			return
		}
	}
	x.emit(name, x.src[x.at:end])
	x.at = end
}

// number reads a numeric literal, including underscores, exponents and suffixes, without validation.
func (x *lexer) number() {
	end := x.at
	for end < len(x.src) {
		c := x.src[end]
		if isNameByte(c) || c == '.' {
			end++
		} else if (c == '+' || c == '-') && (x.src[end-1] == 'e' || x.src[end-1] == 'E') && !strings.HasPrefix(x.src[x.at:end], "0x") {
			end++
		} else {
			break
		}
	}
	x.emit(number, x.src[x.at:end])
	x.at = end
}

// str reads a string whose opening quote is at x.at. An unterminated string ends at the end of its line (with triple
// quotes, of the file).
func (x *lexer) str(k kind) {
	line := x.line
	quote := x.src[x.at : x.at+1]
	if strings.HasPrefix(x.src[x.at:], strings.Repeat(quote, 3)) {
		quote = x.src[x.at : x.at+3]
	}
	start := x.at + len(quote)
	x.at = start
	end, next := x.stringEnd(quote, k == fstring)
	x.line += countLines(x.src[start:end])
	x.at = next
	x.tokens = append(x.tokens, token{k, line, x.src[start:end]})
}

// stringEnd returns the end of the string that starts at x.at, and the start of the next token. A backslash escapes
// the next character. In an f-string, quotes within braces may belong to a nested string (see closing).
func (x *lexer) stringEnd(quote string, formatted bool) (end, next int) {
	long := len(quote) == 3
	braces := 0
	for i := x.at; i < len(x.src); i++ {
		c := x.src[i]
		switch {
		case c == '\\':
			i++
			if i+1 < len(x.src) && x.src[i] == '\r' && x.src[i+1] == '\n' {
				i++
			}
		case (c == '\n' || c == '\r') && !long:
			return i, i
		case formatted && c == '{':
			if braces == 0 && i+1 < len(x.src) && x.src[i+1] == '{' {
				i++
				continue
			}
			braces++
		case formatted && c == '}' && braces > 0:
			braces--
		case braces > 0 && !long && (c == '"' || c == '\''):
			// a string inside a replacement field; since Python 3.12 also with the same quote
			if n := closing(x.src[i+1:], c); n >= 0 {
				i += n + 1
				continue
			}
			if c == quote[0] {
				return i, i + 1
			}
		case c == quote[0] && strings.HasPrefix(x.src[i:], quote):
			return i, i + len(quote)
		}
	}
	return len(x.src), len(x.src)
}

// closing returns the index of quote c in this line of s if the text before it can be a string inside a replacement
// field: at most 200 bytes, with a closing brace later in the line. It returns -1 otherwise.
func closing(s string, c byte) int {
	for i := 0; i < len(s) && i < 200; i++ {
		switch s[i] {
		case '\n', '\r':
			return -1
		case c:
			rest := s[i+1 : min(len(s), i+200)]
			if n := strings.IndexAny(rest, "\n\r"); n >= 0 {
				rest = rest[:n]
			}
			if !strings.Contains(rest, "}") {
				return -1
			}
			return i
		}
	}
	return -1
}

func countLines(s string) int32 {
	n := int32(0)
	for i := 0; i < len(s); i++ {
		if s[i] == '\n' || s[i] == '\r' && (i+1 == len(s) || s[i+1] != '\n') {
			n++
		}
	}
	return n
}

var operators = []string{"**=", "//=", ">>=", "<<=", "...", "->", ":=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", "**", "//", "<<", ">>"}

// punctuation reads the longest operator at the current position and tracks the bracket depth.
func (x *lexer) punctuation(c byte) {
	n := 1
	for _, op := range operators {
		if strings.HasPrefix(x.src[x.at:], op) {
			n = len(op)
			break
		}
	}
	switch c {
	case '(', '[', '{':
		x.depth++
	case ')', ']', '}':
		x.depth = max(0, x.depth-1)
	}
	x.emit(operator, x.src[x.at:x.at+n])
	x.at += n
}

package inspect

import (
	"slices"
	"strconv"
	"strings"
)

// option is a command-line option declared by the script: by argparse, click, typer or absl, as a field of a
// dataclass converted to a parser, as a parameter of a function converted to a command, or as a constant that the
// command line overrides.
type option struct {
	names  []string // without dashes, dashes as underscores
	flags  []string // as on a command line: "--batch-size", "-b"; for a pair "epochs"
	value  []token  // default; nil without one
	line   int
	help   string
	toggle bool // takes no value
	truth  bool // takes True or False
	rest   bool // takes all remaining arguments
	how    declared
	where  string // "line 12", "line 3 of arguments.py"
}

// declared is the kind of declaration of an option.
type declared uint8

const (
	byParser   declared = iota // argparse, click, typer, absl
	byField                    // a field of a dataclass or a parameter of a function
	byConstant                 // a constant of a module: --name=value only
)

// readOptions returns the command-line options that the script declares.
func (s *script) readOptions() []option {
	var all []option
	for i := range s.calls {
		if o := declaredBy(&s.calls[i]); len(o.names) > 0 {
			o.line = s.calls[i].line
			if len(o.value) > 0 {
				o.line = int(o.value[0].line)
			}
			all = append(all, o)
		}
	}
	for i := range s.statements { // if "--resume" in sys.argv:
		t := s.statements[i].tokens
		for k := range t {
			if o := (option{toggle: true, line: s.statements[i].line}); inArgv(t, k) {
				o.name(t[k].s)
				all = append(all, o)
			}
		}
	}
	s.ownArguments(all)
	all = append(all, s.fieldOptions()...)
	all = append(all, s.constantOptions()...)
	for i := range all {
		all[i].where = s.place(all[i].line)
	}
	return all
}

// adopt takes the options of parsers in the modules of a script whole that its text has not: those of the module itself and
// of functions that the text names, unless the module declares them only when it is run. Where the text
// sets other defaults, theirs are unknown.
func (s *script) adopt(whole *script) {
	if whole == nil {
		return
	}
	own := map[string]bool{}
	for _, o := range s.options {
		for _, n := range o.names {
			own[n] = true
		}
	}
	for _, o := range whole.options {
		at := whole.statementAt(o.line)
		if o.how != byParser || !whole.elsewhere(o.line) || at < 0 || slices.ContainsFunc(o.names, func(n string) bool { return own[n] }) {
			continue
		}
		if in := root(whole.statements[at].scope); in == "main" || in != "" && s.names[in] == 0 {
			continue
		}
		run := false
		for ; at >= 0; at = whole.statements[at].parent {
			t := whole.statements[at].tokens
			run = run || len(t) > 1 && t[0].s == "if" && t[1].s == "__name__"
		}
		if run {
			continue
		}
		if s.names["set_defaults"] > 0 { // parser.set_defaults(**configuration)
			o.value = nil
		}
		s.options = append(s.options, o)
		for _, n := range o.names {
			if _, ok := s.defaults[n]; !ok && len(o.value) > 0 {
				s.defaults[n] = o.value
			}
		}
	}
}

// inArgv reports whether token k is a string that is looked for in the arguments of the script.
func inArgv(t []token, k int) bool {
	return t[k].kind == text && strings.HasPrefix(t[k].s, "-") && k+2 < len(t) && t[k+1].s == "in" && mentionsName(t[k+2:min(k+5, len(t))], "argv")
}

// ownArguments lets the arguments that a script gives its parser itself, parse_args(["--epochs", "4"]), replace the defaults.
func (s *script) ownArguments(all []option) {
	var own []token
	for i := range s.calls {
		if c := &s.calls[i]; last(c.callee) == "parse_args" || last(c.callee) == "parse_known_args" {
			if len(c.args) == 0 || len(c.args[0].tokens) > maxExpression {
				return
			}
			own = c.args[0].tokens
		}
	}
	for k := 0; k+2 < len(own); k++ {
		at := slices.IndexFunc(all, func(o option) bool { return own[k].kind == text && slices.Contains(o.flags, own[k].s) })
		if at >= 0 && own[k+1].s == "," && own[k+2].kind == text {
			all[at].value, all[at].line = own[k+2:k+3], int(own[k].line)
		}
	}
}

// declaredBy returns the option declared by a call; its names are empty for other calls.
func declaredBy(c *call) (o option) {
	switch last(c.callee) {
	case "add_argument", "option", "Option", "add_option":
		if strings.EqualFold(last(c.callee), "option") { // of click and typer: a parameter
			o.how = byField
		}
		for _, a := range c.args {
			if v, ok := onlyString(a.tokens); ok && a.key == "" {
				o.name(v)
			}
		}
		if d, ok := c.arg("dest"); ok {
			if v, ok := onlyString(d); ok {
				o.names = append(o.names, v)
			}
		}
		o.value, _ = c.arg("default")
		if first, ok := c.positional(0); ok && o.value == nil && last(c.callee) == "Option" {
			o.value = first // typer.Option(10, "--epochs")
		}
		if help, ok := c.arg("help"); ok && len(help) <= maxExpression {
			h, _ := lastString(help)
			o.help = h.s
		}
		if action, ok := c.arg("action"); ok {
			v, _ := onlyString(action)
			o.toggle = strings.HasPrefix(v, "store_") && v != "store_const" || mentionsName(action, "BooleanOptionalAction")
			if v == "store_false" && o.value == nil {
				o.value = []token{{kind: name, s: "True", line: action[0].line}}
			}
		}
		if n, ok := c.arg("nargs"); ok {
			o.rest = mentionsName(n, "REMAINDER")
		}
		if kind, ok := c.arg("type"); ok && len(kind) > 0 {
			o.truth = strings.Contains(strings.ToLower(kind[len(kind)-1].s), "bool")
		}
		switch flag, ok := c.arg("is_flag"); {
		case ok && len(flag) == 1:
			o.toggle = flag[0].s == "True"
		case o.how == byField && isTruth(o.value):
			o.toggle = o.toggle || last(c.callee) == "Option"
			o.truth = !o.toggle
		}
	case "DEFINE_integer", "DEFINE_string", "DEFINE_float", "DEFINE_bool", "DEFINE_boolean":
		named, ok := c.arg("name")
		if !ok {
			named, _ = c.positional(0)
		}
		if v, ok := onlyString(named); ok {
			o.name("--" + v)
		}
		if o.value, ok = c.arg("default"); !ok {
			o.value, _ = c.positional(1)
		}
		o.toggle = strings.HasPrefix(last(c.callee), "DEFINE_bool")
	}
	return o
}

// switches reports whether the option only turns something on.
func (o *option) switches() bool { return o.toggle || o.truth }

// name adds a spelling of the option.
func (o *option) name(spelling string) {
	spelling, _, pair := strings.Cut(spelling, "/") // click: --shout/--no-shout
	o.toggle = o.toggle || pair
	plain := strings.ReplaceAll(strings.TrimLeft(spelling, "-"), "-", "_")
	if plain == "" || strings.ContainsAny(plain, " \t") {
		return
	}
	o.names = append(o.names, plain)
	if strings.HasPrefix(spelling, "-") {
		o.flags = append(o.flags, spelling)
	}
}

// parsers convert a dataclass, or the parameters of a function, to command-line options.
var parsers = set("HfArgumentParser", "TrlParser", "tyro.cli", "tyro.extras.cli", "fire.Fire", "Fire", "typer.run", "simple_parsing.parse", "draccus.wrap", "jsonargparse.CLI",
	"jsonargparse.auto_cli", "pyrallis.parse", "add_arguments", "chz.entrypoint")

// fieldOptions returns the fields of dataclasses and the parameters of functions that the script passes to one of the
// parsers. Definitions passed to a parser are collected first, then their annotated or assigned fields (classes) or
// parameters (functions).
func (s *script) fieldOptions() []option {
	kinds := map[string]bool{} // definition → whether it is a class
	for _, d := range s.definitions {
		kinds[d.name] = d.class
	}
	wanted, toggles := map[string]bool{}, map[string]bool{}
	for i := range s.calls {
		c := &s.calls[i]
		if !parsers[c.full] && !parsers[last(c.full)] {
			continue
		}
		for _, a := range c.args {
			for _, t := range a.tokens {
				if _, ok := kinds[t.s]; ok && t.kind == name && len(a.tokens) <= maxExpression {
					wanted[t.s] = true
					toggles[t.s] = strings.HasPrefix(c.full, "typer.") || strings.HasPrefix(c.full, "tyro.") // --resume, --no-resume
				}
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	var out []option
	add := func(definition, field string, value []token) {
		if value = fieldDefault(value); len(value) > 0 {
			truth := isTruth(value)
			out = append(out, option{names: []string{field}, flags: []string{"--" + field}, value: value, line: int(value[0].line), how: byField,
				toggle: truth && toggles[definition], truth: truth && !toggles[definition]})
		}
	}
	for _, a := range s.assignments {
		if a.how == assigned && wanted[a.scope] && kinds[a.scope] && !strings.Contains(a.target, ".") {
			add(a.scope, a.target, a.value)
		}
	}
	for i := range s.statements {
		t := s.statements[i].tokens
		if n := definedName(t); !wanted[n] || kinds[n] || s.statements[i].scope != "" {
			continue
		}
		for k := range t {
			if t[k].s == "(" && t[k].kind == operator {
				for _, a := range arguments(t, brackets(t), k) {
					if a.key != "" {
						add(definedName(t), a.key, a.tokens)
					}
				}
				break
			}
		}
	}
	return out
}

// isTruth reports whether a default is True or False.
func isTruth(value []token) bool {
	return len(value) == 1 && (value[0].s == "True" || value[0].s == "False") && value[0].kind == name
}

// fieldDefault returns the default in field(default=3, …), or the value itself.
func fieldDefault(value []token) []token {
	if len(value) < 3 || len(value) > maxExpression || value[1].s != "(" || value[0].kind != name {
		return value
	}
	for _, a := range arguments(value, brackets(value), 1) {
		if a.key == "default" || a.key == "" {
			return a.tokens
		}
	}
	return nil
}

// configurator reports whether a script accepts --name=value for each of its constants: by executing another file
// over its globals, or by assigning to globals()[name] itself.
func (s *script) configurator() bool {
	if s.names["argv"] > 0 {
		for i := range s.statements {
			if st := &s.statements[i]; st.scope == "" && len(st.tokens) > 4 && st.tokens[0].s == "globals" && st.tokens[3].s == "[" {
				return true
			}
		}
	}
	for i := range s.calls {
		if c := &s.calls[i]; c.callee == "exec" && c.module && len(c.args) > 0 {
			for _, t := range c.args[0].tokens {
				if t.kind == text && strings.HasSuffix(t.s, "configurator.py") {
					return true
				}
			}
		}
	}
	return false
}

// constantOptions returns the constants of a script with a configurator.
func (s *script) constantOptions() []option {
	if !s.configurator() {
		return nil
	}
	var out []option
	for _, a := range s.assignments {
		if a.how != assigned || a.scope != "" || strings.ContainsAny(a.target, ".[") || len(a.value) > 8 {
			continue
		}
		if k := a.value[len(a.value)-1]; k.kind == number || k.kind == text && len(a.value) == 1 || k.s == "True" || k.s == "False" {
			out = append(out, option{names: []string{a.target}, flags: []string{"--" + a.target}, value: a.value, line: a.line, how: byConstant, truth: isTruth(a.value)})
		}
	}
	return out
}

// toggles returns the canonical names of the options without a value.
func (s *script) toggles() map[string]bool {
	out := map[string]bool{}
	for _, o := range s.options {
		if o.toggle {
			for _, n := range o.names {
				out[canonical(n)] = true
			}
		}
	}
	return out
}

// literal returns the value of an expression that is a number, a string, a constant, a product of numbers, or a
// conversion or environment default around a number; ok is false for any other.
func (s *script) literal(value []token) (found string, ok bool) { return s.literalAt(value, 4) }

// literalAt is literal with a limit on the number of resolved names.
func (s *script) literalAt(value []token, depth int) (string, bool) {
	switch {
	case len(value) == 0 || len(value) > maxExpression || depth == 0:
		return "", false
	case len(value) == 1:
		switch t := value[0]; {
		case t.kind == name && !keywords[t.s]:
			return s.literalAt(s.certainValue(t.s), depth-1)
		case t.kind == number, t.kind == name:
			return t.s, true
		default:
			return t.s, t.kind == text
		}
	case len(value) == 2 && value[0].s == "-" && value[1].kind == number:
		return "-" + value[1].s, true
	}
	if value = s.chosen(value); len(value) == 0 {
		return "", false
	}
	if len(value) == 1 {
		return s.literalAt(value, depth-1)
	}
	if v, ok := product(value); ok {
		return v, true
	}
	if path, n := dotted(value, 0); path != "" && n == len(value) { // args.epochs
		return s.literalAt(s.certainValue(path), depth-1)
	}
	switch value[0].s {
	case "int", "float", "str", "os", "getenv", "environ", "sys", "argv":
		if v, known := s.given(value); known {
			return v, numberForm.MatchString(v) && isPlainNumber(value)
		}
		if v, ok := wholeNumber(value); ok && isPlainNumber(value) {
			return v, true
		}
	}
	return "", false
}

// product returns the value of a product of numbers, such as 5 * 8.
func product(value []token) (string, bool) {
	v := 1.0
	for i, t := range value {
		switch {
		case i%2 == 1 && (t.kind != operator || t.s != "*"), i%2 == 0 && t.kind != number, i == len(value)-1 && i%2 == 1:
			return "", false
		case i%2 == 0:
			n, err := strconv.ParseFloat(strings.ReplaceAll(t.s, "_", ""), 64)
			if err != nil {
				return "", false
			}
			v *= n
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64), true
}

package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// use is what a script does with the value of an option that may carry a checkpoint.
type use uint8

const (
	unused   use = iota // nothing reads it, or nothing that loads state
	passed              // it is passed to code outside the script
	restored            // the script loads a checkpoint by it and restores progress
)

// optionUse is the use of an option with the line that shows it.
type optionUse struct {
	use  use
	line int
	// choice is the value with which the script compares the option before it loads: "resume" of --init_from.
	choice string
	// snapshots are patterns of the names of the files that the script loads if the option is set, as far as they are literal.
	snapshots []string
	from, to  int                        // the statements that load
	held      map[string]map[string]bool // scope → variables that hold the value
	// weights reports that what is loaded is the state of the model alone, so that progress comes from elsewhere, such as the name of the file.
	weights bool
}

var (
	resumeChoice = regexp.MustCompile(`(?i)^(resume|continue|restore|checkpoint|ckpt|latest|last|auto)$`)
	trackers     = set("wandb", "mlflow", "neptune", "comet_ml", "clearml", "aim", "swanlab")        // their resume is that of a log
	weightCalls  = set("load_state_dict", "load_weights", "load_from_checkpoint", "from_pretrained") // no progress
	evalOption   = regexp.MustCompile(`(?i)(^|_)(test|val|eval|infer|predict)`)
	openCalls    = set("open", "read_text", "read_bytes")
	writeMode    = regexp.MustCompile(`^[wax][bt+]*$`)
	unread       = set("print", "str", "repr", "vars", "len", "bool", "isinstance", "logging")
)

// useOf returns the strongest use of an option's value. It is followed through variables of the same scope and into
// functions of the script.
func (s *script) useOf(o *option) optionUse {
	best := optionUse{}
	folder := knobRank(KnobResume, o) < 0   // what loads a file within it is not evidence
	aliases := map[string]map[string]bool{} // scope → variables that hold the value
	for i := range s.statements {
		st := &s.statements[i]
		if at := s.mention(o, st.tokens, nil); best.use == unused && len(st.tokens) > maxExpression && at >= 0 && s.keyword(st.tokens, at) {
			best = optionUse{use: passed, line: st.line}
		}
		if len(st.tokens) > maxExpression || st.tokens[0].s == "def" || st.tokens[0].s == "import" || st.tokens[0].s == "from" {
			continue
		}
		at := s.mention(o, st.tokens, aliases[st.scope])
		if at < 0 {
			if best.use == unused && s.passesAll(i) {
				best = optionUse{use: passed, line: st.line}
			}
			continue
		}
		if t := st.tokens; len(t) > 2 && t[0].kind == name && t[1].s == "=" && at > 1 && aliasOf(t[2:]) && !s.otherwise(o, t, at, aliases[st.scope]) && !(folder && composes(t[2:])) && (!o.another() || itself(t[2:])) {
			if aliases[st.scope] == nil {
				aliases[st.scope] = map[string]bool{}
			}
			aliases[st.scope][t[0].s] = true
		}
		if u := s.useIn(o, i, at, aliases[st.scope]); u.use > best.use && !(folder && st.tokens[0].s != "if" && composes(st.tokens)) {
			best = u
		}
	}
	best.held = aliases
	return best
}

// keyword reports whether an option, at a token, is the value of a keyword that resumes: resume=args.resume. In a long call, which
// is not followed, this suffices.
func (s *script) keyword(t []token, at int) bool {
	return at > 3 && t[at-1].s == "." && t[at-3].s == "=" && slices.Contains(optionNames[KnobResume], t[at-4].s) &&
		!slices.ContainsFunc(t[:at], func(one token) bool { return trackers[one.s] })
}

// configures reports whether a statement sets the attribute by which a runner of mmengine resumes: cfg.resume = True.
func (s *script) configures(t []token) bool {
	return len(t) > 4 && t[1].s == "." && t[2].s == "resume" && t[3].s == "=" && t[4].s != "False" &&
		slices.ContainsFunc(s.imports, func(m imported) bool { return root(m.path) == "mmengine" })
}

// composes reports whether tokens append the name of a file to a path: log_dir + "/checkpoints/best.pth", join(log_dir, "best.pth").
func composes(t []token) bool {
	for j, one := range t {
		if j > 0 && one.kind == text && (t[j-1].s == "+" || t[j-1].s == "/" || t[j-1].s == ",") && fileName.MatchString(filepath.Base(one.s)) {
			return true
		}
	}
	return false
}

var (
	pathCalls = set("str", "Path", "PurePath", "PosixPath", "fspath", "join", "expanduser", "expandvars", "abspath", "realpath", "normpath", "dirname", "basename", "format", "strip", "rstrip",
		"resolve", "absolute", "joinpath", "with_suffix", "to_absolute_path", "split", "rsplit", "find", "rfind", "index", "replace", "sorted", "max", "list", "next")
	finderName = regexp.MustCompile(`(?i)latest|newest|(^|_)last|(find|get|search|resolve|select)\w*(ckpt|checkpoint|snapshot)`)
)

// aliasOf reports whether the value of an assignment is a path again: composed, or found by it, not what a call makes of it.
func aliasOf(value []token) bool {
	return !slices.ContainsFunc(calledIn(value), func(n string) bool { return !pathCalls[n] && !fileCalls[n] && !finderName.MatchString(n) })
}

// otherwise reports whether tokens are a value for the case that an option, at a token, is not set, and not that of the option in the
// other case: step if not args.init else 0.
func (s *script) otherwise(o *option, t []token, at int, aliases map[string]bool) bool {
	from := slices.IndexFunc(t[:at], func(one token) bool { return one.kind == name && one.s == "if" })
	to := slices.IndexFunc(t, func(one token) bool { return one.kind == name && one.s == "else" })
	return from > 0 && to > at && negates(t[from:], at-from) && s.mention(o, t[to:], aliases) < 0
}

// loadsNothing reports whether no call in tokens loads.
func loadsNothing(t []token) bool {
	return !slices.ContainsFunc(calledIn(t), func(n string) bool { return loadCalls[n] || readCalls[n] })
}

// calledIn returns the names of what tokens call.
func calledIn(t []token) (names []string) {
	for j := range t {
		if called(t, j) && !keywords[t[j].s] {
			names = append(names, t[j].s)
		}
	}
	return names
}

// mention returns the index of the token by which a statement reads an option: args.resume, cfg["resume"], a variable
// that holds its value, or, for a constant or a parameter that is an option, its bare name; -1 without one.
func (s *script) mention(o *option, t []token, aliases map[string]bool) int {
	for j, one := range t {
		before := ""
		if j > 0 {
			before = t[j-1].s
		}
		called := j+1 < len(t) && t[j+1].s == "("
		switch {
		case inArgv(t, j):
			if slices.Contains(o.flags, one.s) {
				return j
			}
		case one.kind == text && before == "[" && j > 1 && t[j-2].kind == name && j+1 < len(t) && t[j+1].s == "]",
			one.kind == name && before == "." && s.optionTarget(t, j) && t[j-2].s != "self" && !called:
			if slices.Contains(o.names, one.s) {
				return j
			}
		case one.kind == name && before != "." && !called && !(j+1 < len(t) && t[j+1].s == "=" && j > 0):
			if aliases[one.s] && !(j == 0 && len(t) > 1 && t[1].s == "=") || o.how != byParser && slices.Contains(o.names, one.s) && j > 0 {
				return j
			}
		}
	}
	return -1
}

// useIn returns the use of an option in statement i, which mentions it at a token.
func (s *script) useIn(o *option, i, at int, aliases map[string]bool) optionUse {
	st := &s.statements[i]
	if head := st.tokens[0].s; head == "if" || head == "elif" {
		return s.useInCondition(o, i, at, aliases)
	}
	t := st.tokens
	if k := slices.IndexFunc(t[:at], func(one token) bool { return one.kind == name && one.s == "if" }); k > 0 { // state = load(…) if args.resume else None
		return s.useInExpression(i, k, at)
	}
	if s.configures(t) {
		return optionUse{use: passed, line: st.line}
	}
	match := brackets(t)
	best := optionUse{}
	for k := 0; k+1 < len(t); k++ {
		if t[k].kind != name || keywords[t[k].s] || t[k+1].s != "(" {
			continue
		}
		args := arguments(t, match, k+1)
		position := slices.IndexFunc(args, func(a argument) bool { return s.takes(carrier{option: o, held: aliases, exact: o.another()}, a) })
		if position < 0 {
			continue
		}
		if u := s.useInCall(o, i, k, args, position); u.use > best.use {
			best = u
		}
	}
	return best
}

// useInCondition returns the use of an option in the condition of statement i: what the block loads that it selects. Unless its name
// says that it resumes, the block must load from the option's value, if it has one, and restore progress from that, and not train.
func (s *script) useInCondition(o *option, i, at int, aliases map[string]bool) optionUse {
	st := &s.statements[i]
	t := st.tokens
	from, to := s.branch(i, negates(t, at))
	choice := numericChoice(t, at)
	for j, one := range t {
		if one.kind == text && j > at && (t[j-1].s == "==" || mentionsName(t[at:j], "in")) && resumeChoice.MatchString(one.s) {
			choice = one.s
			break
		}
	}
	loads, progress := s.loads(from, to, 1)
	if loads && knobRank(KnobResume, o) < 0 {
		c := carrier{o, maps.Clone(aliases), o.switches() || choice != "", true, o.another()}
		loads, progress = s.loadsBy(c, from, to, c.toggle, 1)
		loads = loads && !s.trains(from, to)
	}
	configured := slices.ContainsFunc(s.statements[from:to], func(st statement) bool { return s.configures(st.tokens) })
	if !configured && (!loads || !progress && !s.startsLoop(from, to)) {
		return optionUse{}
	}
	u := optionUse{use: restored, line: s.loadLine(from, to), choice: choice, from: from, to: to, snapshots: s.loadedFiles(s.fileNames(nil, t, 2), from, to, 1), weights: s.loadsWeights(from, to)}
	if configured {
		u.use, u.line, u.snapshots, u.weights = passed, st.line, nil, false
	}
	return u
}

// negates reports whether a condition holds if the value at a token is not set.
func negates(t []token, at int) bool {
	if at+2 < len(t) && (t[at+1].s == "!=" || t[at+1].s == "is" || t[at+1].s == "==") {
		none := t[at+2].kind == name && t[at+2].s == "None" || t[at+2].kind == text && t[at+2].s == ""
		return none && t[at+1].s != "!="
	}
	return slices.ContainsFunc(t[:at], func(one token) bool { return one.s == "not" })
}

// useInExpression returns the use of an option in the condition, from token k on, of an expression: what a function of the script
// loads, if the script reads progress from it.
func (s *script) useInExpression(i, k, at int) optionUse {
	st := &s.statements[i]
	for _, one := range st.tokens[:k] {
		body := s.defined(one.s)
		if one.kind != name || body < 0 || !s.usesProgressOf(i) {
			continue
		}
		if loads, _ := s.loads(body+1, s.blockEnd(body), 0); loads {
			return optionUse{use: restored, line: st.line, from: i, to: i + 1, choice: numericChoice(st.tokens, at), snapshots: s.loadedFiles(nil, body+1, s.blockEnd(body), 0)}
		}
	}
	return optionUse{}
}

// numericChoice returns the number 1 if an option, at a token, is compared with it; "" otherwise.
func numericChoice(t []token, at int) string {
	if at+2 < len(t) && t[at+1].s == "==" && t[at+2].kind == number && t[at+2].s == "1" {
		return "1"
	}
	return ""
}

// useInCall returns the use of an option that is the argument at a position of the call at token k of statement i: a load whose
// result restores progress, a function of the script that loads by this argument, or code outside the script.
func (s *script) useInCall(o *option, i, k int, args []argument, position int) optionUse {
	st := &s.statements[i]
	t, a := st.tokens, args[position]
	callee, full := t[k].s, s.resolve(t[k].s)
	if k > 1 && t[k-1].s == "." {
		full = s.resolve(t[k-2].s) + "." + callee
	}
	if at := s.calledHere(t, k); at >= 0 {
		parameter := s.parameter(at, a.key, position)
		if loads, progress := s.loads(at+1, s.blockEnd(at), 1); loads && progress && parameter != "" {
			loads, progress = s.loadsBy(carrier{&option{}, set(parameter), o.switches(), knobRank(KnobResume, o) < 0, o.another()}, at+1, s.blockEnd(at), false, 2)
			if loads && (progress || knobRank(KnobResume, o) >= 0 || s.usesProgressOf(i)) {
				return optionUse{use: restored, line: st.line, from: i, to: i + 1}
			}
		}
		return optionUse{}
	}
	switch {
	case trackers[root(full)] || unread[callee] || fileCalls[callee] || root(full) == "os":
		return optionUse{}
	case full == "torch.load" || readCalls[callee]:
		if s.usesProgressOf(i) {
			return optionUse{use: restored, line: st.line, from: i, to: i + 1}
		}
		return optionUse{}
	case weightCalls[callee]:
		return optionUse{}
	case callee == "open", loadCalls[callee], restoreWord.MatchString(callee), a.key != "" && slices.Contains(optionNames[KnobResume], a.key), trainName.MatchString(callee):
		return optionUse{use: passed, line: st.line}
	}
	return optionUse{}
}

// calledHere returns the index of the statement that defines the function which is called at token k: a method for an object, a function
// for a module; -1 for one of code outside the script.
func (s *script) calledHere(t []token, k int) int {
	at := s.defined(t[k].s)
	if at < 0 || k < 2 || t[k-1].s != "." {
		return at
	}
	path, imported := s.aliases[t[k-2].s]
	method := s.statements[at].scope != ""
	local := slices.ContainsFunc(s.modules, func(m module) bool {
		return strings.HasSuffix("/"+strings.ReplaceAll(path, ".", "/")+".py", "/"+m.name)
	})
	if method == imported || imported && !local {
		return -1
	}
	return at
}

// parameter returns the parameter of the function that statement at defines to which an argument is bound: that of its key or of its
// position; "" without one.
func (s *script) parameter(at int, key string, position int) string {
	t := s.statements[at].tokens
	for _, p := range arguments(t, brackets(t), max(0, slices.IndexFunc(t, func(one token) bool { return one.s == "(" }))) {
		switch n := cmp.Or(p.key, p.tokens[0].s); {
		case n == "self" || n == "cls" || n == "*":
		case n == key || key == "" && position == 0:
			return n
		default:
			position--
		}
	}
	return ""
}

// maxOptions is the number of options whose use is followed through the script.
const maxOptions = 300

// resumeKnob returns the option by which the script resumes: one whose value leads to a checkpoint being loaded, or
// one with a common name (optionNames) whose value leaves the script. An option with such a name of which neither holds
// is a note.
func (s *script) resumeKnob(m *Mapping) (knob, bool) {
	var best *option
	var found optionUse
	paths := map[*option]optionUse{}
	rank := 0
	note := ""
	for i := range s.options[:min(len(s.options), maxOptions)] {
		o := &s.options[i]
		if len(o.flags) == 0 || s.elsewhere(o.line) && !s.callsFreely(&s.statements[s.statementAt(o.line)]) {
			continue
		}
		r, u := knobRank(KnobResume, o), s.useOf(o)
		unset := s.unset(o)
		if n := len(o.value); n > 0 && o.value[n-1].kind == number && u.use != unused && u.choice == "" { // --resume 0, --resume_epoch -1
			if r < 0 || n > 1 || o.value[0].s != "0" {
				continue // the number of a checkpoint
			}
			u.choice = "1"
		}
		if o.truth && u.choice == "" && (unset || r >= 0) {
			u.choice = "True"
		}
		switch {
		case u.use == unused || evalOption.MatchString(o.names[0]) || u.use == passed && r < 0 || u.use == restored && r < 0 && !unset && u.choice == "":
			if r >= 0 && note == "" {
				note = fmt.Sprintf("resume: nothing in the script restores progress by option %s of %s, so that it is not used", o.flag(), s.place(o.line))
			}
			continue
		case r < 0 && slices.ContainsFunc(o.names, resumeName.MatchString):
			r = len(optionNames[KnobResume])
		case r < 0 && knobRank(KnobCheckpointDir, o) >= 0: // of the output
			continue
		case r < 0:
			r = len(optionNames[KnobResume]) + 1
		}
		if u.use == restored && !o.switches() && unset {
			paths[o] = u
		}
		if r >= len(optionNames[KnobResume]) && !o.switches() && u.use == restored && s.underAnother(o, u.from) {
			continue
		}
		if best == nil || u.use > found.use || u.use == found.use && r < rank {
			best, found, rank = o, u, r
		}
	}
	if best == nil {
		if note != "" {
			m.Notes = append(m.Notes, note)
		}
		return knob{}, false
	}
	flag := best.flag()
	k := knob{Name: KnobResume, Template: flag + "={path}", Source: fmt.Sprintf("option %s in %s", flag, s.place(best.line))}
	var path *option
	for i := range s.options {
		if o := &s.options[i]; best.switches() && path == nil && paths[o].use == restored && s.loadsOnly(found, o, paths[o]) {
			path = o
		}
	}
	switch {
	case path != nil: // the switch loads what another option names
		k.Template = strings.TrimSuffix(flag+"="+found.choice, "=") + " " + path.flag() + "={path}"
	case best.toggle:
		k.Template = flag
	case found.choice != "":
		k.Template = flag + "=" + found.choice
	}
	if !k.TakesValue() {
		k.snapshots = found.snapshots
	}
	if k.restores = found.use == restored && !found.weights; found.use == restored {
		k.Source += ", loaded in " + s.place(found.line)
	}
	return k, true
}

// underAnother reports whether statement i, which loads from the value of an option, runs only if another option is set whose name says
// that it resumes.
func (s *script) underAnother(o *option, i int) bool {
	for k := s.statements[i].parent; k >= 0; k = s.statements[k].parent {
		t := s.statements[k].tokens
		if t[0].s != "if" && t[0].s != "elif" || mentionsName(t, "or") {
			continue
		}
		for j, one := range t {
			if one.kind == name && s.optionTarget(t, j) && resumeName.MatchString(one.s) && !slices.Contains(o.names, one.s) && s.unsetOption(one.s) && !negates(t, j) {
				return true
			}
		}
	}
	return false
}

// loadsOnly reports whether the statements by which a toggle resumes load from the value of another option, and nothing without it.
func (s *script) loadsOnly(toggle optionUse, o *option, u optionUse) (only bool) {
	for i := toggle.from; i < toggle.to; i++ {
		st := &s.statements[i]
		if s.mention(o, st.tokens, u.held[st.scope]) < 0 {
			if another, _ := s.loadsBy(carrier{option: &option{}}, i, i+1, true, 1); another {
				return false
			}
			continue
		}
		loads, _ := s.loadsBy(carrier{option: o, held: maps.Clone(u.held[st.scope])}, i, i+1, false, 1)
		only = only || loads
	}
	return only
}

// flag returns the spelling of an option that is used on a command line: the first one with two dashes.
func (o *option) flag() string {
	for _, f := range o.flags {
		if strings.HasPrefix(f, "--") {
			return f
		}
	}
	return o.flags[0]
}

// unset reports whether an option is a toggle, or has no default or an empty one.
func (s *script) unset(o *option) bool {
	v, ok := s.literal(o.value)
	return o.toggle || !ok && len(o.value) == 0 || ok && (v == "" || v == "None" || v == "False")
}

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

// loadedFiles appends the names of the files that statements[from:to] load, as the statements that read a file mention them, or
// those that set a variable of these; functions of the script that restore state are followed to the given depth.
func (s *script) loadedFiles(names []string, from, to, depth int) []string {
	var reading []statement
	variables := map[string]bool{}
	for _, st := range slices.Backward(s.statements[from:to]) {
		if !readsFile(st.tokens) && !sets(st.tokens, variables) {
			continue
		}
		reading = append(reading, st)
		for _, t := range st.tokens {
			if t.kind == name && !keywords[t.s] {
				variables[t.s] = true
			}
		}
	}
	for _, st := range slices.Backward(reading) {
		names = s.fileNames(names, st.tokens, 2)
		for _, t := range st.tokens {
			if at := s.defined(t.s); depth > 0 && t.kind == name && restoreWord.MatchString(t.s) && at >= 0 {
				names = s.loadedFiles(names, at+1, s.blockEnd(at), depth-1)
			}
		}
	}
	return names
}

// readsFile reports whether tokens call what opens a file or loads from one.
func readsFile(t []token) bool {
	for j := range t {
		if loadsAt(t, j) || called(t, j) && openCalls[t[j].s] {
			return true
		}
	}
	return false
}

// loadsAt reports whether token j is the name of a called function that loads state.
func loadsAt(t []token, j int) bool {
	return called(t, j) && (loadCalls[t[j].s] || readCalls[t[j].s] || restoreWord.MatchString(t[j].s))
}

// called reports whether token j is the name of a called function.
func called(t []token, j int) bool {
	return t[j].kind == name && j+1 < len(t) && t[j+1].s == "("
}

// sets reports whether a statement assigns one of the variables, or is the head of a loop over it.
func sets(t []token, variables map[string]bool) bool {
	at := slices.IndexFunc(t, func(one token) bool { return one.s == "=" || one.s == "in" || one.s == "(" })
	return at > 0 && (t[at].s == "=" || t[0].s == "for") && slices.ContainsFunc(t[:at], func(one token) bool { return one.kind == name && variables[one.s] })
}

// opensToWrite reports whether tokens open a file for writing, which is not loaded: open("train.log", "a").
func opensToWrite(t []token) bool {
	for j := range t {
		if called(t, j) && t[j].s == "open" && slices.ContainsFunc(arguments(t, brackets(t), j+1), func(a argument) bool {
			mode, ok := onlyString(a.tokens)
			return ok && writeMode.MatchString(mode)
		}) {
			return true
		}
	}
	return false
}

// loadsWeights reports whether statements[from:to] load a file into the model as a whole, or as the model, and read no progress from
// it: model.load_state_dict(torch.load(path)).
func (s *script) loadsWeights(from, to int) bool {
	indexed := func(t []token) bool {
		return slices.ContainsFunc(t, func(one token) bool { return one.s == "[" && one.kind == operator })
	}
	for i := from; i < to; i++ {
		st := s.statements[i].tokens
		for j := range st[:max(0, len(st)-5)] {
			switch t := st[j:]; {
			case t[0].s == "load_state_dict" && t[1].s == "(" && t[2].s == "torch" && t[4].s == "load":
				if !indexed(t) {
					return true
				}
			case j == 0 && t[1].s == "=" && t[2].s == "torch" && t[4].s == "load" && !indexed(t) && s.isModel(i, t[0].s) && !s.usesProgressOf(i):
				return true
			}
		}
	}
	return false
}

// isModel reports whether a variable holds a model or its weights, in the scope of statement i.
func (s *script) isModel(i int, variable string) bool {
	return slices.ContainsFunc(s.statements, func(st statement) bool {
		for j := range st.tokens[:max(0, len(st.tokens)-2)] {
			if t := st.tokens[j:]; st.scope == s.statements[i].scope &&
				(t[0].s == "load_state_dict" && t[1].s == "(" && t[2].s == variable || t[0].s == variable && t[1].s == "." && t[2].s == "parameters") {
				return true
			}
		}
		return false
	})
}

// loadLine returns the line of the first load in statements[from:to], otherwise of the first statement.
func (s *script) loadLine(from, to int) int {
	for _, st := range s.statements[from:to] {
		for j := range st.tokens {
			if loadsAt(st.tokens, j) {
				return st.line
			}
		}
	}
	return s.statements[from].line
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

// carrier is what may carry the path of a checkpoint, or the decision to load one: an option, and the variables with its value.
type carrier struct {
	*option
	held   map[string]bool
	toggle bool // nothing is loaded from it
	folder bool // what is loaded from a file with a fixed name within it does not count
	exact  bool // only what is loaded from the value itself counts
}

var (
	resumeName  = regexp.MustCompile(`(?i)resume|restart|restore|ckpt|checkpoint|snapshot|continue|load`)
	anotherName = regexp.MustCompile(`(?i)pretrain|init|backbone|data|config|output`)
)

// another reports whether the name of an option is that of another file or folder than a checkpoint to resume from.
func (o *option) another() bool {
	return knobRank(KnobResume, o) < 0 && slices.ContainsFunc(o.names, anotherName.MatchString)
}

// itself reports whether tokens are a value alone, not composed, nor the argument of a call.
func itself(t []token) bool {
	return !slices.ContainsFunc(t, func(one token) bool { return one.kind == operator && one.s != "." && one.s != "[" && one.s != "]" })
}

// takes reports whether an argument carries the value.
func (s *script) takes(c carrier, a argument) bool {
	alone := c.how != byParser && len(a.tokens) == 1 && slices.Contains(c.names, a.tokens[0].s)
	return (alone || s.mention(c.option, a.tokens, c.held) >= 0) && (!c.exact || itself(a.tokens)) && !(c.folder && composes(a.tokens))
}

// hold adds the variable to which a statement assigns the value that it mentions at a token, also as an open file.
func (c *carrier) hold(t []token, by int) {
	if c.held == nil {
		c.held = map[string]bool{}
	}
	if as := slices.IndexFunc(t, func(one token) bool { return one.s == "as" }); t[0].s == "with" && as > by && as+1 < len(t) && !c.exact {
		c.held[t[as+1].s] = true
	} else if len(t) > 2 && t[0].kind == name && t[1].s == "=" && aliasOf(t[2:]) && (!c.exact || itself(t[2:])) && !(c.folder && composes(t[2:])) {
		c.held[t[0].s] = true
	}
}

// loadsBy reports whether statements[from:to] load by a carrier, from it or on the condition of it, or any is loaded, and whether
// progress comes from what is loaded, or from the path. Functions of the script to which it is passed are followed to the given depth.
func (s *script) loadsBy(c carrier, from, to int, any bool, depth int) (loads, progress bool) {
	for i := from; i < to; i++ {
		t := s.statements[i].tokens
		by := s.mention(c.option, t, c.held)
		if by < 0 && !any || len(t) > maxExpression {
			continue
		}
		if by >= 0 && (t[0].s == "if" || t[0].s == "elif") {
			from, to := s.branch(i, negates(t, by))
			on, _ := s.loads(from, to, 1)
			loads = loads || on
			if c.toggle && !any {
				_, restores := s.loadsBy(c, from, to, true, depth)
				progress = progress || restores
			}
			continue
		}
		if by >= 0 {
			c.hold(t, by)
			progress = progress || t[1%len(t)].s == "=" && isProgress(t[0].s) && !strings.HasPrefix(t[0].s, "optim") // start_epoch = int(path[-3:])
		}
		match := brackets(t)
		for k := range t {
			if !called(t, k) || keywords[t[k].s] {
				continue
			}
			args := arguments(t, match, k+1)
			position := slices.IndexFunc(args, func(a argument) bool { return s.takes(c, a) })
			inner := s.calledHere(t, k)
			var l, p bool
			switch {
			case position < 0 && (!any || t[k].s == "load_state_dict"): // what it loads is read elsewhere
			case inner >= 0 && position < 0:
				if restoreWord.MatchString(t[k].s) {
					l, p = s.loads(inner+1, s.blockEnd(inner), depth)
				}
			case inner >= 0:
				if parameter := s.parameter(inner, args[position].key, position); depth > 0 && parameter != "" {
					l, p = s.loadsBy(carrier{&option{}, set(parameter), c.toggle, c.folder, c.exact}, inner+1, s.blockEnd(inner), false, depth-1)
				}
				p = p || l && s.usesProgressOf(i)
			case loadCalls[t[k].s] || readCalls[t[k].s] || restoreWord.MatchString(t[k].s):
				l, p = true, s.usesProgressOf(i) || slices.ContainsFunc(t, func(one token) bool {
					return (one.kind == text || one.kind == name) && isProgress(one.s) && !slices.Contains(c.names, one.s) || one.kind == name && s.holdsProgress(one.s)
				})
			}
			loads, progress = loads || l, progress || p
		}
	}
	return loads, loads && progress
}

// trains reports whether statements[from:to] contain a training loop, or call one.
func (s *script) trains(from, to int) bool {
	for _, st := range s.statements[from:to] {
		for k, t := range st.tokens[:max(0, len(st.tokens)-2)] {
			if t.kind != name || st.tokens[k+1].s != "(" {
				continue
			}
			at := s.defined(t.s)
			if t.s == "backward" || t.s == "apply_gradients" || t.s == "fit" || at >= 0 && slices.ContainsFunc(s.statements[at+1:s.blockEnd(at)], func(st statement) bool { return mentionsName(st.tokens, "backward") }) {
				return true
			}
		}
	}
	return false
}

// usesProgressOf reports whether the script reads an epoch, a step or the optimizer's state from what statement i
// loads into a variable.
func (s *script) usesProgressOf(i int) bool {
	st := &s.statements[i]
	t := st.tokens
	equals := slices.IndexFunc(t, func(one token) bool { return one.kind == operator && (one.s == "=" || one.s == "(") })
	if equals < 1 || t[0].kind != name || t[equals].s != "=" {
		return false
	}
	for _, one := range t[:equals] { // model, optimizer, start = torch.load(path)
		if equals > 1 && one.kind == name && isProgress(one.s) {
			return true
		}
	}
	loaded := t[equals-1].s
	for k := i + 1; k < len(s.statements) && k-i < maxBlockLines; k++ {
		if s.statements[k].scope != st.scope {
			continue
		}
		u := s.statements[k].tokens
		for j := 0; j+2 < len(u); j++ { // c["epoch"], c.get("epoch"), c.epoch
			if u[j].kind != name || u[j].s != loaded {
				continue
			}
			key := u[j+2].s
			if key == "get" && j+4 < len(u) {
				key = u[j+4].s
			}
			if (u[j+1].s == "[" || u[j+1].s == ".") && isProgress(key) {
				return true
			}
		}
	}
	return false
}

// passesAll reports whether statement i passes all options to code outside the script: train(args), Trainer(**vars(args)).
func (s *script) passesAll(i int) bool {
	if _, known := s.passing[i]; !known {
		s.passing[i] = s.passesOptions(s.statements[i].tokens)
	}
	return s.passing[i]
}

func (s *script) passesOptions(t []token) bool {
	match := brackets(t)
	for k := 0; k+1 < len(t); k++ {
		if t[k].kind != name || keywords[t[k].s] || t[k+1].s != "(" || s.defined(t[k].s) >= 0 || unread[t[k].s] {
			continue
		}
		for _, a := range arguments(t, match, k+1) {
			n := len(a.tokens)
			if n > 0 && a.tokens[0].s == "**" || n == 1 && a.tokens[0].kind == name && s.parsed(a.tokens[0].s) {
				return true
			}
		}
	}
	return false
}

// parsed reports whether a variable holds the parsed options.
func (s *script) parsed(variable string) bool {
	if s.holders == nil {
		s.holders = map[string]bool{}
		for _, a := range s.assignments {
			if a.how == assigned && !s.holders[a.target] && slices.ContainsFunc(a.value, func(t token) bool {
				return t.kind == name && (strings.HasPrefix(t.s, "parse_") || t.s == "cli" || s.parses(t.s))
			}) {
				s.holders[a.target] = true
			}
		}
	}
	return s.holders[variable]
}

// parses reports whether a function of the script parses the command line.
func (s *script) parses(function string) bool {
	at := s.defined(function)
	if at < 0 {
		return false
	}
	return slices.ContainsFunc(s.statements[at+1:s.blockEnd(at)], func(st statement) bool {
		return slices.ContainsFunc(st.tokens, func(t token) bool { return t.kind == name && strings.HasPrefix(t.s, "parse_") })
	})
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

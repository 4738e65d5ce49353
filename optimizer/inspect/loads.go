package inspect

import (
	"regexp"
	"slices"
	"strings"
)

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

package inspect

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Ways in which a training resumes.
const (
	ResumeProtocol = "protocol" // saves on a signal and reads OPTIMIZER_RESUME and OPTIMIZER_CHECKPOINT_DIR
	ResumeItself   = "itself"   // loads its own snapshot when restarted with the same command
	ResumeArgument = "argument" // by an argument, the knob "resume"; one with a value requires a checkpoint
	ResumeNone     = "none"     // no known way
)

// Kinds of value of a resume argument.
const (
	ResumeTakesNothing   = ""          // the argument takes no path
	resumeTakesFile      = "file"      // a checkpoint file
	resumeTakesDirectory = "directory" // a checkpoint directory, such as checkpoint-500 of Hugging Face
	resumeTakesAny       = "any"       // either, as far as is known
)

// Resumption is the way in which a training resumes after a stop.
type Resumption struct {
	How   string
	Wants string // of ResumeArgument
	// Names are patterns (path.Match) of the base names of accepted checkpoints; nil means unknown, any.
	Names    []string
	Evidence []string // "line 31: if os.path.exists(snapshot_path):"
	// Restores reports that the script reads progress from the checkpoint that its argument names.
	Restores bool
	// Snapshots are patterns of the base names of the files from which a script continues whose arguments do not name them, as
	// far as they are literal. They may have any format.
	Snapshots []string
}

// Resumption returns the way in which the command resumes, with the resume knob of the mapping. A user's knob takes
// precedence over the script's own mechanism.
func (c *Command) Resumption(m Mapping) Resumption {
	k, known := m.Knob(KnobResume)
	argument := Resumption{How: ResumeArgument, Evidence: []string{k.Template + " (" + k.Source + ")"}, Restores: k.restores, Snapshots: k.snapshots}
	argument.Wants, argument.Names = c.resumeWants(k)
	switch {
	case known && k.Source == "--knob":
		return argument
	case c.inner != nil:
		r := c.inner.Resumption(c.inner.Mapping(nil))
		if r.How == ResumeArgument {
			return Resumption{How: ResumeNone, Evidence: append(r.Evidence, "the argument is inside a shell script")}
		}
		return r
	case c.source == nil:
	case c.source.protocol():
		return Resumption{How: ResumeProtocol, Evidence: []string{"the script reads OPTIMIZER_RESUME and OPTIMIZER_CHECKPOINT_DIR and handles " + c.source.stopSignal().Value}}
	default:
		if f, names := c.resuming().loadsSnapshot(); f.Value != "" && (c.resuming().saves() || c.huggingFace() || names != nil && c.resuming().stateCall(saveCalls, dumpCalls, true) > 0) {
			r := Resumption{How: ResumeItself, Evidence: []string{c.resuming().place(f.Line) + ": " + f.Text}, Snapshots: names}
			if slices.Equal(names, kerasBackup) {
				r.Names = names // other files, such as those of ModelCheckpoint, are not loaded
			}
			return r
		}
	}
	if known {
		return argument
	}
	return Resumption{How: ResumeNone}
}

// Takes reports whether the training can resume from a checkpoint that is a directory, or from one that is a file.
func (r *Resumption) Takes(directory bool) bool {
	switch {
	case r.How != ResumeArgument:
		return true
	case r.Wants == resumeTakesFile:
		return !directory
	case r.Wants == resumeTakesDirectory:
		return directory
	}
	return true
}

// resumeWants returns the kind of value of a resume argument and the patterns of accepted names. Of a command without a readable
// script, such as an installed one, only the user knows the argument, and nothing shows what it takes.
func (c *Command) resumeWants(k knob) (wants string, names []string) {
	switch {
	case !k.TakesValue():
		return ResumeTakesNothing, nil
	case c.huggingFace():
		return resumeTakesDirectory, []string{"checkpoint-*"}
	case strings.Contains(k.Template, "resume_from_checkpoint") && c.source != nil && c.source.names["accelerator"] > 0:
		return resumeTakesDirectory, []string{"step_*", "epoch_*", "checkpoint-*"}
	case c.line.program == "yolo" || c.line.program == "ultralytics":
		return resumeTakesFile, []string{"last.pt"}
	case c.source != nil && (c.source.names["LightningCLI"] > 0 || c.source.names["LightningModule"] > 0):
		return resumeTakesFile, []string{"*.ckpt"}
	case c.source == nil && k.Source == "--knob":
		return resumeTakesAny, nil
	}
	return resumeTakesFile, nil
}

// protocol reports whether a script implements the checkpoint protocol: it handles a stop signal and reads
// OPTIMIZER_CHECKPOINT_DIR and OPTIMIZER_RESUME.
func (s *script) protocol() bool {
	return s.stopSignal().Value != "" && s.mentions("OPTIMIZER_CHECKPOINT_DIR") && s.mentions("OPTIMIZER_RESUME")
}

// kerasBackup contains the names of the files of BackupAndRestore, of Keras 3 and 2, which it removes after the last epoch.
var kerasBackup = []string{"latest.weights.h5", "ckpt-*"}

// saves reports whether a script saves its state, directly or through its framework.
func (s *script) saves() bool {
	return s.names["BackupAndRestore"] > 0 || s.names["ckpt_path"] > 0 || s.stateCall(saveCalls, dumpCalls, s.aware()) > 0
}

var (
	fileCalls     = set("exists", "isfile", "is_file", "isdir", "is_dir", "glob", "iglob", "rglob", "listdir", "scandir", "latest_checkpoint", "latest_step", "get_last_checkpoint", "find_latest_checkpoint")
	progressWord  = regexp.MustCompile(`^(\w*(?i:epoch)\w*|(\w*(?i:step|optim(i[sz]er)?)|(\w*_)?(?i:(n|i|cur|curr|start|last|begin|global|train)?iter(ation)?)|\w*[a-z]Iter(ation)?)s?\d*([A-Z_]\w*)?)$`) // as a part of a name, not criterion
	otherWord     = regexp.MustCompile(`(?i)(^|_)(get|next|make|build|create)_(\w+_)?iter$|_(device|type|name|class|cls)$`)                                                                               // a function, a choice
	lengthWord    = regexp.MustCompile(`(?i)^(n|nb|num|max|total)_|(epoch|step|iter|iteration)s$|_per_`)
	restoreWord   = regexp.MustCompile(`(?i)(load|restore|resume).*(ckpt|checkpoint|snapshot|state)|(ckpt|checkpoint|snapshot|state).*(load|restore|resume)|^(resume|restore)$`)
	maxBlockLines = 200
)

// loadsSnapshot finds the code by which the script, restarted with the same command, resumes from its own snapshot: a
// check for the existence of a snapshot that does not depend on an argument unset by default, and a load that
// restores progress. names are patterns of the literal names of the snapshot.
func (s *script) loadsSnapshot() (f Finding, names []string) {
	for i := range s.calls {
		c := &s.calls[i]
		switch {
		case last(c.full) == "BackupAndRestore":
			return s.found("yes", c.line), kerasBackup
		case last(c.full) == "fit" || last(c.full) == "train":
			v, _ := c.arg(map[string]string{"fit": "ckpt_path", "train": "resume_from_checkpoint"}[last(c.full)])
			t, _ := onlyString(v)
			if tests, negated := s.testsExistence(v); t == "last" || tests && !negated {
				return s.found("yes", c.line), nil
			}
		case last(c.full) == "get_last_checkpoint" && s.names["resume_from_checkpoint"] > 0:
			return s.found("yes", c.line), nil
		}
	}
	for i := range s.statements {
		st := &s.statements[i]
		from, to := 0, 0
		switch t := st.tokens; {
		case mentionsName(t, "if") || t[0].s == "elif":
			at := max(0, slices.IndexFunc(t, func(one token) bool { return one.kind == name && one.s == "if" })) // of a conditional expression
			tests, negated := s.testsExistence(t[at:])
			if from, to = i, i+1; at == 0 {
				from, to = s.branch(i, negated)
			}
			if !tests || at > 0 && negated || s.tiedToArgument(i) {
				continue
			}
		case t[0].s == "except" && (mentionsName(t, "FileNotFoundError") || mentionsName(t, "OSError") || mentionsName(t, "IOError")):
			from, to = s.tryOf(i), i
			if from < 0 || s.tiedToArgument(from) {
				continue
			}
			for st.scope != "" && to < len(s.statements) && s.statements[to].scope == st.scope {
				to++ // the code after a successful load
			}
		case s.loadsIfAny(st.tokens) && !s.tiedToArgument(i):
			from, to = i, i+1
		default:
			continue
		}
		loads, progress := s.loads(from, to, 1)
		progress = progress || s.returnsProgress(last(st.scope))
		if s.loadsIfAny(st.tokens) {
			loads, progress = true, s.usesProgressOf(i)
		} else if s.mentionsValue(st.tokens, "latest_step") || s.mentionsValue(st.tokens, "latest_checkpoint") && !s.mentionsValue(st.tokens, "train") {
			progress = false // the number of the checkpoint is no progress if the training does not begin there
		}
		if loads && (progress || s.startsLoop(from, to)) && s.callsFreely(st) && !s.afterTraining(i) {
			tested := s.statements[i : i+1]
			if st.tokens[0].s == "except" {
				tested = s.statements[from:i]
			}
			for k := range tested {
				names = s.fileNames(names, tested[k].tokens, 2)
			}
			return s.found("yes", st.line), names
		}
	}
	return Finding{}, nil
}

var (
	braces   = regexp.MustCompile(`\{[^{}]*\}|%[-+0-9.]*[a-z]`)
	fileName = regexp.MustCompile(`^[^\s{}/\\[\]]+\.[A-Za-z]\w{0,9}$`)
)

// loadsIfAny reports whether a statement loads the last checkpoint of a framework, or nothing if none was saved.
func (s *script) loadsIfAny(t []token) bool {
	for k := 1; k+2 < len(t); k++ {
		switch {
		case t[k-1].s != "." || t[k+1].s != "(" || t[0].s == "if":
		case t[k].s == "load_checkpoint" && s.names["deepspeed"] > 0, t[k].s == "restore" && mentionsName(t[k:], "latest_checkpoint"), t[k].s == "restore_or_initialize":
			return true
		}
	}
	return false
}

// mentionsValue reports whether tokens, or the values of the variables in them, mention a name.
func (s *script) mentionsValue(t []token, wanted string) bool {
	return slices.ContainsFunc(t, func(one token) bool {
		return one.kind == name && (one.s == wanted || len(s.value(one.s)) <= maxExpression && mentionsName(s.value(one.s), wanted))
	})
}

// startsLoop reports whether a loop begins at what statements[from:to] assign or restore: by the first of several arguments of a
// range, or the condition of a while. The variables of a function are not those of another one, except for the attributes of self.
func (s *script) startsLoop(from, to int) bool {
	var set []token
	for _, st := range s.statements[from:to] {
		t := st.tokens
		if at := slices.IndexFunc(t, func(one token) bool { return one.s == "=" || one.s == "(" }); at > 0 && !(t[at].s == "=" && len(t) == at+2 && t[at+1].kind == number) {
			set = append(set, t[:at]...)
		}
	}
	for range 2 { // the checkpoint of a manager, the variables of a checkpoint
		for _, one := range set {
			if v := s.value(one.s); one.kind == name && len(v) <= maxExpression && mentionsName(v, "Checkpoint") || mentionsName(v, "CheckpointManager") {
				set = append(set, v...)
			}
		}
	}
	own := func(t []token, j int) bool { return j > 1 && t[j-1].s == "." && t[j-2].s == "self" }
	for _, st := range s.statements[to:] {
		head := st.tokens
		switch at := slices.IndexFunc(head, func(one token) bool { return one.kind == name && one.s == "range" }); {
		case head[0].s == "for" && at > 0 && at+1 < len(head) && head[at+1].s == "(":
			args := arguments(head, brackets(head), at+1)
			if len(args) < 2 {
				continue
			}
			head = args[0].tokens
		case head[0].s != "while":
			continue
		}
		outer := to > from && s.statements[from].scope != "" && s.statements[from].scope != st.scope
		for j, one := range set {
			switch {
			case one.kind != name || keywords[one.s] || one.s == "self":
			case own(set, j): // an attribute, also in another method
				for k := range head {
					if head[k].s == one.s && own(head, k) {
						return true
					}
				}
			case !outer && s.mentionsValue(head, one.s):
				return true
			}
		}
	}
	return false
}

// callsFreely reports whether the function of a statement is called without an argument that is unset by default. A function of
// another file or within another function must be called; a method of the script may be called by its framework.
func (s *script) callsFreely(st *statement) bool {
	called, body := false, s.defined(last(st.scope))
	saves := body >= 0 && s.returnsProgress(last(st.scope)) && slices.ContainsFunc(s.statements[body:s.blockEnd(body)], func(st statement) bool {
		return slices.ContainsFunc(st.tokens, func(t token) bool { return t.kind == name && saveCalls[t.s] || t.s == "save" })
	})
	for _, c := range s.calls {
		if last(c.callee) != last(st.scope) || c.scope == st.scope {
			continue
		}
		called = true
		at := s.statementAt(c.line)
		t := s.statements[at].tokens
		unset := saves && !(len(t) > 1 && t[1].s == "=") // a call that saves
		if k := slices.IndexFunc(t, func(one token) bool { return one.s == "if" }); k > 0 {
			unset = unset || slices.ContainsFunc(t[k:], func(one token) bool { return one.kind == name && s.unsetOption(one.s) })
		}
		for _, a := range c.args {
			for _, t := range a.tokens[:min(len(a.tokens), maxExpression)] {
				unset = unset || t.kind == name && (stateWord.MatchString(t.s) || restoreWord.MatchString(t.s)) && (s.unsetOption(t.s) || s.holdsUnset(t.s))
			}
		}
		if !unset && !s.tiedToArgument(s.statements[at].parent) {
			return true
		}
	}
	outer := st.scope[:max(0, strings.LastIndexByte(st.scope, '.'))]
	return st.scope == "" || !called && !s.elsewhere(st.line) && s.defined(last(outer)) < 0
}

// fileNames appends the base names of the files that tokens mention, in strings or by variables to the given depth, as
// patterns. Files that are opened for writing are left out.
func (s *script) fileNames(names []string, tokens []token, depth int) []string {
	if len(tokens) > maxExpression || opensToWrite(tokens) {
		return names
	}
	for _, t := range tokens {
		switch {
		case t.kind == text || t.kind == fstring:
			if n := filepath.Base(braces.ReplaceAllString(t.s, "*")); fileName.MatchString(n) && !slices.Contains(names, n) {
				names = append(names, n)
			}
		case t.kind == name && depth > 0 && !keywords[t.s]:
			names = s.fileNames(names, s.value(t.s), depth-1)
		}
	}
	return names
}

// testsExistence reports whether a condition checks that a file exists, or that a search found files, or negated that it
// does not.
func (s *script) testsExistence(t []token) (tests, negated bool) {
	if len(t) > maxExpression {
		return false, false
	}
	for i, one := range t {
		switch {
		case one.kind == text:
		case one.s == "and" || one.s == "or":
			if tests {
				return tests, negated
			}
			negated = false
		case one.s == "else":
			return tests, negated
		case one.s == "not" || one.s == "is" || one.s == "==" && i+1 < len(t) && t[i+1].s == "0":
			negated = !negated
		case one.kind == name && !keywords[one.s]:
			v := s.value(one.s)
			tests = tests || one.s == "latest_checkpoint" && i > 0 && t[i-1].s == "." || s.searches(t[i:min(i+2, len(t))]) || len(v) <= maxExpression && s.searches(v)
		}
	}
	return tests, negated
}

// searches reports whether tokens call what looks for files, itself or as a function of the script.
func (s *script) searches(t []token) bool {
	for k := 0; k+1 < len(t); k++ {
		at, n := s.defined(t[k].s), t[k].s
		if t[k].kind == name && t[k+1].s == "(" && (fileCalls[n] || at >= 0 && !loadCalls[n] && !readCalls[n] && slices.ContainsFunc(s.statements[at+1:s.blockEnd(at)], func(st statement) bool {
			return slices.ContainsFunc(st.tokens, func(one token) bool { return one.kind == name && fileCalls[one.s] })
		})) {
			return true
		}
	}
	return false
}

// branch returns the range of the statements that run if the condition of statement i holds or, negated, does not: those of
// its else, or those after a block that returns.
func (s *script) branch(i int, negated bool) (from, to int) {
	end := s.blockEnd(i)
	switch {
	case !negated:
		return i + 1, end
	case end < len(s.statements) && s.statements[end].tokens[0].s == "else":
		return end + 1, s.blockEnd(end)
	case s.statements[end-1].tokens[0].s != "return":
		return end, end
	}
	for to = end; to < len(s.statements) && s.statements[to].scope == s.statements[i].scope; to++ {
	}
	return end, to
}

// afterTraining reports whether statement i follows the loops of its scope that save: what it loads is tested, not trained.
func (s *script) afterTraining(i int) (after bool) {
	for _, c := range s.calls {
		if at := s.statementAt(c.line); c.scope == s.statements[i].scope && s.statements[at].looped && (saveCalls[last(c.callee)] || dumpCalls[last(c.callee)]) {
			after = at < i && !s.statements[i].looped
		}
	}
	return after
}

// tiedToArgument reports whether statement i or an enclosing condition depends on an option for resuming or on one
// that is unset by default.
func (s *script) tiedToArgument(i int) bool {
	for k := i; k >= 0; k = s.statements[k].parent {
		st := &s.statements[k]
		if f := st.tokens[0].s; f != "if" && f != "elif" && k != i {
			continue
		}
		for j, t := range st.tokens {
			if inArgv(st.tokens, j) {
				return true
			}
			if t.kind == name && !keywords[t.s] && (j == 0 || st.tokens[j-1].s != "." || s.optionTarget(st.tokens, j)) && (s.unsetOption(t.s) || s.holdsUnset(t.s)) {
				return true
			}
		}
	}
	return false
}

// holdsUnset reports whether a variable holds the value of an option that is unset by default, without a fallback.
func (s *script) holdsUnset(variable string) bool {
	v := s.value(variable)
	if n := len(v); n > 2 && n <= maxExpression && v[n-2].s == "else" && v[n-1].s == "None" { // load(…) if args.resume else None
		v = v[slices.IndexFunc(v, func(one token) bool { return one.s == "if" })+1:]
	}
	if len(v) > maxExpression || !loadsNothing(v) || mentionsName(v, "or") || mentionsName(v, "if") || mentionsName(v, "not") {
		return false
	}
	for j, t := range v {
		if inArgv(v, j) || t.kind == name && j > 1 && v[j-1].s == "." && s.optionTarget(v, j) && s.unsetOption(t.s) {
			return true
		}
	}
	return false
}

// settingsName matches the names of objects that hold options, also when they are imported: FLAGS, cfg.
var settingsName = regexp.MustCompile(`(?i)(^|_)(args?|opts?|options?|flags?|cfgs?|conf|configs?|hparams|params?|settings)$`)

// optionTarget reports whether token j is the last part of an attribute such as args.resume, not of one of a module:
// torch.cuda.amp.
func (s *script) optionTarget(t []token, j int) bool {
	if j < 2 || t[j-2].kind != name {
		return false
	}
	first := j - 2
	for first > 1 && t[first-1].s == "." && t[first-2].kind == name {
		first -= 2
	}
	_, module := s.aliases[t[first].s]
	return !module || settingsName.MatchString(t[j-2].s)
}

var againWord = regexp.MustCompile(`(?i)resume|restore|continue|load`)

// unsetOption reports whether n is a toggle, or an option without a default or with an empty one, or to resume with 0.
func (s *script) unsetOption(n string) bool {
	for _, o := range s.options {
		if !slices.Contains(o.names, n) || len(o.flags) == 0 {
			continue
		}
		if s.unset(&o) || len(o.value) == 1 && o.value[0].s == "0" && againWord.MatchString(n) {
			return true
		}
	}
	return false
}

// blockEnd returns the index after the last statement of the block that statement i opens.
func (s *script) blockEnd(i int) int {
	depth := s.statements[i].indent
	k := i + 1
	for k < len(s.statements) && k-i < maxBlockLines && (s.statements[k].indent > depth || s.statements[k].line == s.statements[i].line) {
		k++
	}
	return k
}

// tryOf returns the index of the first statement in the try block of the except statement i; -1 without one.
func (s *script) tryOf(i int) int {
	depth := s.statements[i].indent
	for k := i - 1; k >= 0 && i-k < maxBlockLines; k-- {
		if d := s.statements[k].indent; d == depth && s.statements[k].tokens[0].s == "try" {
			return k + 1
		} else if d < depth {
			break
		}
	}
	return -1
}

// loads reports whether statements[from:to] load state, and whether they restore progress; functions of the script are
// followed to the given depth.
func (s *script) loads(from, to, depth int) (loads, progress bool) {
	for k := from; k < to; k++ {
		st := &s.statements[k]
		before := loads
		for j, t := range st.tokens {
			progress = progress || (t.kind == text || t.kind == name) && isProgress(t.s) || t.kind == name && s.holdsProgress(t.s)
			if t.kind != name || j+1 >= len(st.tokens) || st.tokens[j+1].s != "(" {
				continue
			}
			full := s.resolve(t.s)
			if j > 1 && st.tokens[j-1].s == "." {
				full = s.resolve(st.tokens[j-2].s + "." + t.s)
			}
			loads = loads || loadCalls[t.s] || loadCalls[full] || readCalls[t.s]
			if depth > 0 && restoreWord.MatchString(t.s) {
				if at := s.defined(t.s); at >= 0 {
					if l, p := s.loads(at+1, s.blockEnd(at), depth-1); l && p {
						return true, true
					}
				}
			}
		}
		progress = progress || loads && !before && s.usesProgressOf(k)
	}
	return loads, progress
}

// isProgress reports whether a name is that of a position in the training, not of its length.
func isProgress(name string) bool {
	return progressWord.MatchString(name) && !lengthWord.MatchString(name) && !otherWord.MatchString(name)
}

// returnsProgress reports whether the script reads progress from what a function of it returns.
func (s *script) returnsProgress(function string) bool {
	return function != "" && slices.ContainsFunc(s.calls, func(c call) bool { return last(c.callee) == function && s.usesProgressOf(s.statementAt(c.line)) })
}

// holdsProgress reports whether a variable is a dictionary with progress, into which a checkpoint may be loaded.
func (s *script) holdsProgress(variable string) bool {
	v := s.value(variable)
	return len(v) > 0 && v[0].s == "{" && slices.ContainsFunc(v, func(t token) bool { return t.kind == text && isProgress(t.s) && !strings.HasPrefix(t.s, "optim") })
}

// defined returns the index of the statement that defines a function; -1 without one.
func (s *script) defined(function string) int {
	if k, ok := s.functions[function]; ok {
		return k
	}
	return -1
}

// handlesInterrupt finds an orderly end of the training loop on Ctrl-C: a handler of SIGINT, or a KeyboardInterrupt
// caught around a loop or the training call whose handler saves or does not exit immediately.
func (s *script) handlesInterrupt() Finding {
	for i := range s.calls {
		c := &s.calls[i]
		if c.full == "signal.signal" && len(c.args) == 2 && mentionsName(c.args[0].tokens, "SIGINT") && !mentionsName(c.args[1].tokens, "SIG_IGN") && !mentionsName(c.args[1].tokens, "SIG_DFL") {
			return s.found("yes", c.line)
		}
	}
	for i := range s.statements {
		st := &s.statements[i]
		if st.tokens[0].s != "except" || !mentionsName(st.tokens, "KeyboardInterrupt") || evalWord.MatchString(st.scope) {
			continue
		}
		from := s.tryOf(i)
		if end := s.blockEnd(i); from >= 0 && s.trainsIn(from, i) && (!s.leaves(i+1, end) || s.savesIn(i+1, end)) {
			return s.found("yes", st.line)
		}
	}
	return Finding{}
}

func (s *script) trainsIn(from, to int) bool {
	for _, st := range s.statements[from:to] {
		if st.tokens[0].s == "for" || st.tokens[0].s == "while" {
			return true
		}
		for j, t := range st.tokens {
			if t.kind == name && j+1 < len(st.tokens) && st.tokens[j+1].s == "(" && trainName.MatchString(t.s) {
				return true
			}
		}
	}
	return false
}

// savesIn reports whether statements[from:to] call a function that saves.
func (s *script) savesIn(from, to int) bool {
	return slices.ContainsFunc(s.statements[from:to], func(st statement) bool {
		for j, t := range st.tokens {
			if t.kind == name && j+1 < len(st.tokens) && st.tokens[j+1].s == "(" && (saveCalls[t.s] || dumpCalls[t.s] || strings.HasPrefix(strings.ToLower(t.s), "save")) {
				return true
			}
		}
		return false
	})
}

func (s *script) leaves(from, to int) bool {
	for _, st := range s.statements[from:to] {
		for _, t := range st.tokens {
			if t.kind == name && (t.s == "exit" || t.s == "_exit" || t.s == "raise" || t.s == "quit" || t.s == "abort") {
				return true
			}
		}
	}
	return false
}

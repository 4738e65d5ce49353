package inspect

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// searches matches the calls that train an estimator several times, tuning the methods of a model or its trainer that do so, of
// transformers and CatBoost, and handing those that call a function several times.
var (
	searches = regexp.MustCompile(`(^|\.)(cross_val_score|cross_validate|cross_val_predict|\w+SearchCV|tune\.Tuner|tune\.run)$`)
	tuning   = regexp.MustCompile(`\.(hyperparameter_search|grid_search|randomized_search)$`)
	handing  = regexp.MustCompile(`(^|\.)(optimize|fmin|agent|Tuner|with_parameters|with_resources|tune\.run|map|starmap|delayed|\w+_minimize)$`)
)

// making matches the calls that make a trainer, calling those of functions elsewhere that may train, settling those that only
// set its length, such as TrainingArguments.
var (
	making   = regexp.MustCompile(`(^|\.)\w*Trainer$`)
	calling  = regexp.MustCompile(`(?i)train|fit|learn|run|main|experiment`)
	settling = regexp.MustCompile(`(^|\.)(\w*TrainingArguments|\w+Config|Namespace)$`)
)

// Repeats reports whether the job makes several trainings and its settings describe one of them: the commands of a shell
// script or of GNU parallel, folds, seeds, the trials of a search. Their number, and with it the length of the job, is unknown.
func (c *Command) Repeats() bool {
	return c.Several() || c.inner != nil && c.inner.Repeats() || c.source != nil && c.trained() == several
}

// Several reports whether the job starts several trainings as commands of their own: those of a shell script or of GNU parallel,
// and the combinations of settings of hydra.
func (c *Command) Several() bool {
	return c.many || c.line.program == "parallel" || c.line.program == "xargs" || c.multirun() || c.inner != nil && c.inner.Several()
}

// Nested reports whether a loop over epochs trains within one over updates or rounds, or one over folds or files
// within one over epochs: the length of neither is that of the job in epochs or optimizer steps.
func (c *Command) Nested() bool {
	return c.inner != nil && c.inner.Nested() || c.source != nil && c.trained() == partly
}

// repetition is how often a statement is executed.
type repetition int

const (
	once    repetition = iota
	partly             // in a loop over epochs or steps: a part of a training
	several            // in another loop
)

// learnsIn reports whether the loop that begins with statement i trains.
func (s *script) learnsIn(i int) bool {
	return slices.ContainsFunc(s.statements[i+1:s.blockEnd(i)], func(st statement) bool {
		return slices.ContainsFunc(st.tokens, func(t token) bool { return t.kind == name && (t.s == "backward" || trainName.MatchString(t.s)) })
	})
}

// multirun reports whether hydra starts the training once for each combination of settings.
func (c *Command) multirun() bool {
	return c.calls("hydra.main") && slices.ContainsFunc(c.words, func(w word) bool { return w.key == "-m" || w.key == "--multirun" })
}

// oftenCalled stands for a statement that is executed several times.
const oftenCalled = -1

// repetitions finds how often the statements of a script are executed.
type repetitions struct {
	*script
	given     map[*option]string    // options on the command line
	calls     map[string][]int      // callee → the statements that call it
	handed    map[string]bool       // functions that a call executes several times
	functions map[string]repetition // results, by scope
	classes   map[string]map[string]bool
}

// innerEpochs matches the numbers of epochs within an update or a round: update_epochs, K_epochs, local_ep.
var innerEpochs = regexp.MustCompile(`(^|_)ep(ochs)?$`)

// trained returns several if all trainings of the script, its loops over epochs and its calls with a length, are executed
// several times, or two of them follow each other; in a script without any, these are its calls with settings, or else those of
// imported functions that receive a length. It returns partly if a loop over epochs trains within one over updates or rounds.
func (c *Command) trained() repetition {
	s := c.source
	r := repetitions{s, map[*option]string{}, map[string][]int{}, map[string]bool{}, map[string]repetition{}, s.classNames()}
	for _, w := range c.words {
		if o := s.optionNamed(w.key); o != nil && w.form != positional {
			if d, _ := s.literal(o.value); w.form == bare {
				w.value = strconv.FormatBool(d != "True")
			}
			r.given[o] = w.value
		}
	}
	var loops, trainings, fits, settings, elsewhere []int
	folded, boosted, search := false, false, slices.ContainsFunc(s.calls, func(c call) bool { return searches.MatchString(c.full) })
	for i := range s.statements {
		args, over := rangeOf(s.statements[i].tokens), r.overEpochs(i)
		inner := len(args) > 0 && innerEpochs.MatchString(referred(args[len(args)-1].tokens))
		learns := (over || inner) && s.learnsIn(i)
		if learns {
			loops = append(loops, i)
		}
		if over {
			trainings = append(trainings, i)
		}
		if over && learns {
			fits = append(fits, i)
			for j := i + 1; j < s.blockEnd(i) && !folded; j++ {
				folded = foldLoop(s.statements[j]) || s.partLoop(j)
			}
		}
	}
	for i := range s.calls {
		c := &s.calls[i]
		at, booster, hands := s.statementAt(c.line), boosters.MatchString(c.full), handing.MatchString(c.full)
		module, _, _ := strings.Cut(c.callee, ".")
		other := s.aliases[module] != "" && calling.MatchString(last(c.full)) && !notTrainers.MatchString(c.full)
		given := other && s.passesAll(at)
		if c.listed {
			at = oftenCalled
		}
		r.calls[c.callee] = append(r.calls[c.callee], at)
		if tuning.MatchString(c.callee) && !r.skipped(at) {
			return several
		}
		if making.MatchString(c.full) && r.classes[c.callee] == nil {
			trainings = append(trainings, at)
		}
		for _, a := range c.args {
			length := unitOf(strings.ToLower(a.key), "") != ""
			if length && last(c.callee) == "search" { // KerasTuner
				return several
			}
			switch set := length && trainers.MatchString(c.full); {
			case set && settling.MatchString(c.full):
				settings = append(settings, at)
			case set || booster && (length || a.key == "n_estimators" || a.key == "iterations"):
				trainings = append(trainings, at)
				fits = append(fits, at)
				boosted = boosted || booster
			}
			given = given || length || unitOf(referred(a.tokens), "") != ""
			for k := 0; hands && k < len(a.tokens); k++ {
				r.handed[a.tokens[k].s] = true
			}
		}
		if other && given {
			elsewhere = append(elsewhere, at)
		}
	}
	if len(trainings) == 0 {
		trainings = settings
	}
	if r.follow(fits) || boosted && search { // the search fits such estimators too
		return several
	}
	inner := once
	if folded || slices.ContainsFunc(loops, func(at int) bool { return r.of(at) == partly }) {
		inner = partly
	}
	often := once
	for _, at := range trainings {
		o := r.of(at)
		if o == once {
			return inner
		}
		often = max(often, o)
	}
	if often == several || search ||
		len(trainings) == 0 && slices.ContainsFunc(elsewhere, func(at int) bool { return r.of(at) == several }) {
		return several
	}
	return inner
}

// foldName matches the names of folds: fold, n_folds, KFold.
var foldName = regexp.MustCompile(`(?i)(^|_|k)folds?(_|$)`)

// foldLoop reports whether a statement is the head of a loop over folds.
func foldLoop(st statement) bool {
	return st.tokens[0].s == "for" && slices.ContainsFunc(st.tokens, func(t token) bool { return t.kind == name && foldName.MatchString(t.s) })
}

// partLoop reports whether statement i is the head of a loop over parts of the data, such as its files: it makes a loader
// before the loop over the batches of each.
func (s *script) partLoop(i int) bool {
	made := false
	for j := i + 1; s.statements[i].tokens[0].s == "for" && j < s.blockEnd(i); j++ {
		t := s.statements[j].tokens
		if made && t[0].s == "for" && s.learnsIn(j) {
			return true
		}
		for k := 0; k+1 < len(t); k++ {
			made = made || t[k].kind == name && t[k+1].s == "(" && makesLoader.MatchString(t[k].s)
		}
	}
	return false
}

// makesLoader matches the functions that make loaders: DataLoader, create_dataloaders, get_loader.
var makesLoader = regexp.MustCompile(`(?i)loaders?(_v\d+)?$`)

// overEpochs reports whether statement i is the head of a loop over epochs.
func (s *script) overEpochs(i int) bool {
	t := s.statements[i].tokens
	if t[0].s == "while" {
		return slices.ContainsFunc(t, func(t token) bool { return t.kind == name && unitOf(strings.ToLower(t.s), "") == unitEpoch })
	}
	if t[0].s != "for" || loopUnit(t) != "" {
		return loopUnit(t) == unitEpoch
	}
	args := rangeOf(t)
	return len(args) > 0 && unitOf(referred(args[len(args)-1].tokens), "") == unitEpoch
}

// maxBases is the number of classes that a class is taken to extend, directly or not.
const maxBases = 8

// classNames returns for each class the names by which its methods are called: the class, those that extend it, and
// variables that hold an instance.
func (s *script) classNames() map[string]map[string]bool {
	names, extends := map[string]map[string]bool{}, map[string][]string{}
	for _, d := range s.definitions {
		if !d.class {
			continue
		}
		of := []string{d.name}
		for _, t := range d.bases {
			of = append(of, extends[t.s]...)
		}
		extends[d.name] = of[:min(len(of), maxBases)]
		names[d.name] = map[string]bool{}
		for _, class := range extends[d.name] {
			names[class][d.name] = true
		}
	}
	for _, a := range s.assignments {
		if made, n := dotted(a.value, 0); a.how == assigned && n < len(a.value) && a.value[n].s == "(" {
			for _, class := range extends[last(made)] {
				names[class][a.target] = true
			}
		}
	}
	return names
}

// of returns how often a statement is executed.
func (r *repetitions) of(at int) repetition {
	if at == oftenCalled {
		return several
	}
	often, scope := once, r.statements[at].scope
	for p := r.statements[at].parent; p >= 0; p = r.statements[p].parent {
		t := r.statements[p].tokens
		if t[0].s != "for" {
			continue
		}
		args := rangeOf(t)
		if loopUnit(t) != "" || len(args) > 0 && unitOf(referred(args[len(args)-1].tokens), "") != "" {
			return partly
		}
		if n, _, _, ok := r.rangeUnits(args); !ok || n != "1" {
			often = several
		}
	}
	if o, known := r.functions[scope]; known || scope == "" {
		return max(often, o)
	}
	r.functions[scope] = once // to itself
	in := once
	calls, constructions := r.callsOf(scope)
	for _, at := range append(constructions, calls...) {
		if !r.skipped(at) {
			in = max(in, r.of(at))
		}
	}
	if in == once && r.follow(calls) {
		in = several
	}
	r.functions[scope] = in
	return max(often, in)
}

// follow reports whether two statements of the same function are executed in every case, one after the other.
func (r *repetitions) follow(statements []int) bool {
	seen := map[string]int{}
	for _, at := range statements {
		if at == oftenCalled || r.statements[at].branched || r.statements[at].looped {
			continue
		}
		scope := r.statements[at].scope
		if before, again := seen[scope]; again && before != at {
			return true
		}
		seen[scope] = at
	}
	return false
}

// skipped reports whether a statement is in a branch that the options of the command line do not select.
func (r *repetitions) skipped(at int) bool {
	for ; at >= 0; at = r.statements[at].parent {
		if r.decided(at, false) || r.decided(r.statements[at].head, true) {
			return true
		}
	}
	return false
}

// decided reports whether the condition of an if statement is that of one option, such as "not args.sweep", and known to be on.
func (r *repetitions) decided(at int, on bool) bool {
	if at < 0 || len(r.statements[at].tokens) < 5 || !isBranch(r.statements[at].tokens) {
		return false
	}
	t := r.statements[at].tokens[1 : len(r.statements[at].tokens)-1]
	if t[0].s == "not" {
		t, on = t[1:], !on
	}
	path, n := dotted(t, 0)
	o := r.optionNamed(last(path))
	if o == nil || n < len(t) || last(path) == path {
		return false
	}
	v, ok := r.given[o]
	if !ok {
		v, ok = r.literal(o.value)
	}
	return (ok || len(o.value) == 0) && slices.Contains([]string{"", "0", "None", "False", "false"}, v) != on
}

// callsOf returns the statements that call a function or method, and those that construct the class of a method.
func (r *repetitions) callsOf(scope string) (at, constructions []int) {
	function := last(scope)
	names := r.classes[last(outer(scope))]
	hands := r.handed[function]
	for n := range names {
		constructions = append(constructions, r.calls[n]...)
		at = append(at, r.calls[n+"."+function]...)
		hands = hands || r.handed[n]
	}
	called := function
	if names != nil {
		called = "self." + function
	}
	for _, from := range r.calls[called] {
		if names == nil || from == oftenCalled || names[last(outer(r.statements[from].scope))] {
			at = append(at, from)
		}
	}
	if hands {
		at = append(at, oftenCalled)
	}
	return at, constructions
}

// outer returns the scope that contains a scope.
func outer(scope string) string { return scope[:max(0, strings.LastIndexByte(scope, '.'))] }

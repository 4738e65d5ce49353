package inspect

import (
	"regexp"
	"slices"
	"strings"
)

// searches matches the calls that train an estimator several times, handing those that call a function several times.
var (
	searches = regexp.MustCompile(`(^|\.)(cross_val_score|cross_validate|cross_val_predict|\w+SearchCV)$`)
	handing  = regexp.MustCompile(`(^|\.)(optimize|fmin|agent|Tuner|with_parameters|with_resources|tune\.run|\w+_minimize)$`)
)

// Repeats reports whether the job makes several trainings and its settings describe one of them: the commands of a shell
// script, folds, seeds, the trials of a search. Their number, and with it the length of the job, is unknown.
func (c *Command) Repeats() bool {
	return c.many || c.inner != nil && c.inner.Repeats() || c.source != nil && c.source.repeats()
}

// repetition is how often a statement is executed.
type repetition int

const (
	once    repetition = iota
	partly             // in a loop over epochs or steps: a part of a training
	several            // in another loop
)

// repetitions finds how often the statements of a script are executed.
type repetitions struct {
	*script
	calls     map[string][]int      // function → the statements that call it
	handed    map[string]bool       // functions that a call executes several times
	functions map[string]repetition // results, by scope
}

// repeats reports whether all trainings of the script, its loops over epochs and its calls with a length, are executed
// several times.
func (s *script) repeats() bool {
	r := repetitions{s, map[string][]int{}, map[string]bool{}, map[string]repetition{}}
	var trainings []int
	for i := range s.statements {
		if loopUnit(s.statements[i].tokens) == unitEpoch {
			trainings = append(trainings, i)
		}
	}
	for i := range s.calls {
		c := &s.calls[i]
		at, booster, hands := s.statementAt(c.line), boosters.MatchString(c.full), handing.MatchString(c.full)
		r.calls[c.callee] = append(r.calls[c.callee], at)
		for _, a := range c.args {
			if (booster || trainers.MatchString(c.full)) && (unitOf(strings.ToLower(a.key), "") != "" || booster && (a.key == "n_estimators" || a.key == "iterations")) {
				trainings = append(trainings, at)
			}
			for k := 0; hands && k < len(a.tokens); k++ {
				r.handed[a.tokens[k].s] = true
			}
		}
	}
	often := partly
	for _, at := range trainings {
		if o := r.of(at); o == once {
			return false
		} else if o == several {
			often = several
		}
	}
	return often == several || slices.ContainsFunc(s.calls, func(c call) bool { return searches.MatchString(c.full) })
}

// of returns how often a statement is executed.
func (r *repetitions) of(at int) repetition {
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
		if n, ok := r.rangeUnits(args); !ok || n != "1" {
			often = several
		}
	}
	if o, known := r.functions[scope]; known || scope == "" {
		return max(often, o)
	}
	r.functions[scope] = once // to itself
	in := once
	if r.handed[last(scope)] {
		in = several
	}
	for _, at := range r.calls[last(scope)] {
		in = max(in, r.of(at))
	}
	r.functions[scope] = in
	return max(often, in)
}

package inspect

import (
	"regexp"
	"slices"
	"strings"
)

var (
	batchName = regexp.MustCompile(`^(?i)(global_|total_|train_|training_|per_device_train_|per_gpu_|mini_?|local_)?(batch_?size|bsz|bs|batch)(_train|_per_gpu|_per_device)?$`)
	epochName = regexp.MustCompile(`^(?i)(epochs|((num|n|nb|no_of|number_of|max|total|train|training)_?)+n?epochs?|epochs?_num(ber)?)$`)
	evalWord  = regexp.MustCompile(`(?i)(test|val|valid|eval|infer|predict)`)
)

// Weights of clues.
const (
	byOption   = 10.0 // the default of a command-line option
	byAssign   = 8.0
	byKeyword  = 7.0 // an argument of the framework's training call
	byEntry    = 6.0 // a dictionary entry
	byDefault  = 4.0 // the default of a parameter
	byLoop     = 5.0 // for epoch in range(N)
	byEvalCall = 1.0 // an argument of a test or validation loader
)

// batchSize finds the default of the batch size. The default of the environment variable OPTIMIZER_BATCH_SIZE
// (int(os.environ.get("OPTIMIZER_BATCH_SIZE", 10))) counts nearly as much as an assignment. Options, assignments,
// parameters, dictionary entries and keywords are clues; those of an evaluation have the least weight.
func (s *script) batchSize() Finding {
	var clues []clue
	add := func(tokens []token, weight float64, line int) {
		if len(tokens) > maxExpression {
			return
		}
		if v, ok := wholeNumber(tokens); ok && isPlainNumber(tokens) {
			clues = append(clues, clue{v, weight, line})
		}
	}
	for _, o := range s.options {
		if slices.ContainsFunc(o.names, batchName.MatchString) {
			add(o.value, byOption, o.line)
		}
	}
	for i := range s.assignments {
		a := &s.assignments[i]
		if !batchName.MatchString(last(a.target)) && !batchName.MatchString(subscript(a.target)) {
			continue
		}
		weight := byAssign
		switch a.how {
		case entry:
			weight = byEntry
		case defaulted:
			weight = byDefault
		}
		if evalWord.MatchString(a.scope) {
			weight = byEvalCall
		}
		add(a.value, weight, a.line)
	}
	for i := range s.calls {
		c := &s.calls[i]
		if last(c.callee) == "add_argument" {
			continue
		}
		for _, a := range c.args {
			if a.key != "" && batchName.MatchString(a.key) {
				weight := byKeyword
				if s.forEvaluation(c) {
					weight = byEvalCall
				}
				add(a.tokens, weight, c.line)
			}
			if v, ok := onlyString(a.tokens); ok && v == "OPTIMIZER_BATCH_SIZE" {
				add(c.after(v), byAssign-1, c.line)
			}
		}
	}
	return s.heaviest(clues)
}

// subscript returns k of a["k"].
func subscript(target string) string {
	_, k, ok := strings.Cut(target, "[")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(k, "]")
}

// after returns the argument after the one that contains the variable's name.
func (c *call) after(variable string) []token {
	for i, a := range c.args {
		if v, ok := onlyString(a.tokens); ok && v == variable && i+1 < len(c.args) {
			return c.args[i+1].tokens
		}
	}
	return nil
}

// forEvaluation reports whether a call prepares or runs an evaluation, whose batch size is not that of the training.
func (s *script) forEvaluation(c *call) bool {
	if evalWord.MatchString(c.callee) || evalWord.MatchString(last(c.scope)) {
		return true
	}
	left, _, ok := strings.Cut(s.line(c.line), "=")
	if ok && evalWord.MatchString(left) && !strings.Contains(left, "(") {
		return true
	}
	if first, ok := c.positional(0); ok && len(first) <= 3 {
		for _, t := range first {
			if t.kind == name && evalWord.MatchString(t.s) {
				return true
			}
		}
	}
	return false
}

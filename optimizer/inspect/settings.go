package inspect

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	batchName = regexp.MustCompile(`^(?i)(global_|total_|train_|training_|per_device_train_|per_gpu_|mini_?|local_)?(batch_?size|bsz|bs|batch)(_train|_per_gpu|_per_device)?$`)
	epochName = regexp.MustCompile(`^(?i)(epochs|(num_?|n_?|max_?|total_?|train_?|num_train_|nb_?|no_of_)epochs?)$`)
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

// setting finds the default of a number such as the batch size. The default of the given environment variable
// (int(os.environ.get("OPTIMIZER_EPOCHS", 10))) counts nearly as much as an assignment. Options, assignments,
// parameters, dictionary entries, keywords and, for epochs, loops are clues; those of an evaluation have the least
// weight.
func (s *script) setting(wanted *regexp.Regexp, variable string) Finding {
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
		for _, n := range o.names {
			if wanted.MatchString(n) {
				add(o.value, byOption, o.line)
				break
			}
		}
	}
	for i := range s.assignments {
		a := &s.assignments[i]
		if !wanted.MatchString(last(a.target)) && !wanted.MatchString(subscript(a.target)) {
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
			if a.key != "" && wanted.MatchString(a.key) {
				weight := byKeyword
				if s.forEvaluation(c) {
					weight = byEvalCall
				}
				add(a.tokens, weight, c.line)
			}
			if mentions(a.tokens, variable) {
				add(c.after(variable), byAssign-1, c.line)
			}
		}
	}
	if wanted == epochName {
		clues = append(clues, s.epochLoops()...)
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

func mentions(tokens []token, s string) bool {
	if len(tokens) > maxExpression {
		return false
	}
	for _, t := range tokens {
		if t.kind == text && t.s == s {
			return true
		}
	}
	return false
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

// epochLoops finds for epoch in range(10): and for epoch in tqdm(range(1, 11)):.
func (s *script) epochLoops() []clue {
	var clues []clue
	for i := range s.statements {
		t := s.statements[i].tokens
		if len(t) < 6 || t[0].s != "for" || t[1].kind != name {
			continue
		}
		if n := strings.Trim(strings.ToLower(t[1].s), "_"); !strings.HasPrefix(n, "ep") {
			continue
		}
		for k := 2; k+2 < len(t); k++ {
			if t[k].s != "range" || t[k+1].s != "(" {
				continue
			}
			if n := rangeLength(arguments(t, brackets(t), k+1)); n > 0 {
				clues = append(clues, clue{strconv.Itoa(n), byLoop, int(t[0].line)})
			}
			break
		}
	}
	return clues
}

// rangeLength returns N of range(N) and b-a of range(a, b) with plain numbers, otherwise 0.
func rangeLength(args []argument) int {
	ends := []int{}
	for _, a := range args {
		if len(a.tokens) != 1 || a.tokens[0].kind != number {
			return 0
		}
		n, err := strconv.Atoi(a.tokens[0].s)
		if err != nil {
			return 0
		}
		ends = append(ends, n)
	}
	switch len(ends) {
	case 1:
		return ends[0]
	case 2:
		return ends[1] - ends[0]
	}
	return 0
}

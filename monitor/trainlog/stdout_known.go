package trainlog

import (
	"bytes"
	"math"
	"regexp"
	"strings"
)

// Lines of libraries with their own progress notation.

// libraryLine parses a line in one of these notations and reports whether it has one.
func (p *progressParser) libraryLine(text []byte, r *Row) bool {
	return len(p.toks) > 0 && (p.boosting(text, r) || p.ultralyticsRow(r) || p.lightningEnd(text, r) || p.rlTable(text, r) || scikitLearn(text, r) || p.summary(text, r))
}

// tasks matches joblib's count of the tasks done, such as trees: "[Parallel(n_jobs=2)]: Done  49 tasks | elapsed: 1.2s", "…:
// Done 10 out of 20 | …". Their number is that of one of several calls, so that it is no total. trees matches an iteration of
// scikit-learn's gradient boosting on histograms: "[1/100] 1 tree, 31 leaves, max depth = 8, in 0.01s".
var (
	tasks = regexp.MustCompile(`^\[Parallel\(.*\)\]: Done +(\d{1,9})\b`)
	trees = regexp.MustCompile(`^\[(\d{1,9})/(\d{1,9})\] \d+ trees?, `)
)

// scikitLearn parses a line that matches tasks or trees.
func scikitLearn(text []byte, r *Row) bool {
	if text[0] != '[' {
		return false
	}
	m := tasks.FindSubmatch(text)
	if m == nil {
		m = trees.FindSubmatch(text)
	}
	for i, column := range []Column{Step, TotalSteps} {
		if 1+i < len(m) {
			setPositive(r, column, float64(digitsOf(m[1+i])))
		}
	}
	return m != nil
}

// chain matches an iteration of one of several Markov chains: "Chain 1 Iteration:  100 / 2000 [  5%]  (Warmup)" of Stan, without
// "Chain 1" for one alone. A training may name its phase too: "Iteration 10/1000, loss 0.5 (warmup)".
var chain = regexp.MustCompile(`(?i)\bchain *\[?\d+\]?:? +iteration|\d%\] +\((warmup|sampling)\)\s*$`)

// ofChain reports whether a line counts the iterations of a Markov chain, which are none of a training.
func ofChain(text []byte) bool { return hasWord(text, "teration") && chain.Match(text) }

// argumentList reports whether a line prints the settings of a program: "Namespace(epochs=12, …)", "{'device': 'cpu',
// …}", "amp=True, epochs=4, …". Unlike settings, progress has results and few words as values.
func argumentList(toks []token, line lineText) bool {
	if line.call {
		return true
	}
	if line.settled < 2 {
		return false
	}
	pairs := line.settled
	for i := range toks {
		if i > 0 && !math.IsNaN(toks[i].number) && !toks[i].labeled && wordRole(toks[i-1].word, "") == roleEpoch { // "12:30:15 : INFO : EPOCH 3: …"
			return false
		}
		if toks[i].labeled && !math.IsNaN(toks[i].number) {
			pairs++
			if i > 0 && (wordRole(toks[i-1].word, "") == roleLoss || wordRole(toks[i-1].word, "") == roleAccuracy) {
				return false
			}
		}
	}
	return pairs >= 4
}

// boosting parses a round of XGBoost ("[148]\ttrain-logloss:0.1"), LightGBM ("[10]\tvalid_0's l2: 0.1") or CatBoost
// ("10:\tlearn: 0.1\ttest: 0.2"). XGBoost, except in R, and CatBoost count from 0, LightGBM from 1; a metric name without a
// space identifies XGBoost.
func (p *progressParser) boosting(text []byte, r *Row) bool {
	text = bytes.TrimLeft(text, " ")
	round, rest, ok := bytes.Cut(text, []byte{'\t'})
	if !ok || len(round) < 2 {
		return false
	}
	if at := bytes.LastIndex(round, []byte("] [")); at > 0 { // "[12:30:15] [148]" of XGBoost's own program
		round = round[at+2:]
	}
	brackets := round[0] == '[' && round[len(round)-1] == ']'
	if brackets {
		round = round[1 : len(round)-1]
	} else if round[len(round)-1] == ':' {
		round = round[:len(round)-1]
	} else {
		return false
	}
	n := digitsOf(round)
	if n < 0 || len(round) == 0 || len(round) > 9 {
		return false
	}
	metrics := bytes.Split(rest, []byte{'\t'})
	zero := !brackets
	for _, m := range metrics {
		name, value, ok := cutLast(m, ':')
		if !ok {
			continue
		}
		v, how := parseNumber(value, false)
		if how != readNumber {
			continue
		}
		spaced := bytes.Contains(name, []byte{' '})
		if !spaced && (p.zero == nil || n == 0) { // "train-logloss" of XGBoost, not "valid_0's l2" of LightGBM
			first := n != 1
			p.zero = &first
		}
		zero = zero || !spaced && *p.zero
		p.metric(strings.ToLower(string(name)), v, r)
	}
	if !r.known() {
		return false
	}
	if zero {
		n++
	}
	setPositive(r, Step, float64(n))
	return true
}

// cutLast splits b at the last c and trims the first part.
func cutLast(b []byte, c byte) (before, after []byte, ok bool) {
	i := bytes.LastIndexByte(b, c)
	if i < 0 {
		return nil, nil, false
	}
	return bytes.TrimSpace(b[:i]), b[i+1:], true
}

// losses are suffixes of the names of metrics that are losses.
var losses = []string{"loss", "rmse", "mae", "mape", "l1", "l2", "deviance", "learn", "test", "error"}

// metric stores a boosting metric: the first loss of the training part and of the validation part.
func (p *progressParser) metric(name string, v float64, r *Row) {
	column := TrainLoss
	if heldOut(name) || heldOut(strings.TrimSuffix(name, "'s")) || strings.HasPrefix(name, "validation") || strings.HasPrefix(name, "valid") {
		column = TestLoss
	}
	for _, l := range losses {
		if strings.HasSuffix(name, l) {
			if _, has := r.Value(column); !has {
				r.Set(column, v)
			}
			return
		}
	}
}

// ultralyticsRow parses rows of Ultralytics' table: below a header "Epoch GPU_mem box_loss …", "1/4 0G 1.1 0.9 … 64: 50% ━━
// 2/4". YOLOv5 counts from 0 to the number of the last epoch: "0/3" is the first of four.
func (p *progressParser) ultralyticsRow(r *Row) bool {
	first, last := &p.toks[0], token{of: math.NaN()}
	if len(p.header) < 2 || p.header[1] != "gpu_mem" || !(first.of >= 0) || first.bracket || first.bar || first.number < 0 || len(p.toks) < 4 {
		return false
	}
	for i := range p.toks[1:] {
		if t := &p.toks[1+i]; t.of > 0 && t.bar {
			last = *t
		}
	}
	if math.IsNaN(last.of) {
		return false
	}
	if zero := first.number == 0 || p.zero != nil && *p.zero && p.total == first.of+1; zero {
		p.epoch, p.total, p.zero = first.number+1, first.of+1, &zero
	} else {
		p.epoch, p.total = first.number, first.of
	}
	setPositive(r, TotalEpochs, p.total)
	setPositive(r, Epoch, p.epoch-1+math.Min(1, last.number/last.of))
	return true
}

// wide separates the columns of a table that is aligned by blanks.
var wide = regexp.MustCompile(`\s{2,}|\t`)

// duration matches a time with its unit.
var duration = regexp.MustCompile(`^[\d.]+[smh]$`)

// tableRow parses a table that is aligned by blanks, with a header that begins with the count of its rows: "epoch" of
// skorch and fastai; "Iter" of scikit-learn; "E  #" of spaCy, the numbers of complete epochs and of steps. It reports
// whether a line is such a header, or a row: a number in every column, or a time, "00:12" or "1.20s".
func (p *progressParser) tableRow(text []byte, r *Row) bool {
	for len(text) > 0 && text[0] == 0x1b {
		text = text[skipEscape(text, 0):]
	}
	text = bytes.TrimSpace(text)
	first := text[:max(0, bytes.IndexAny(text, " \t"))]
	at := digitsOf(first)
	if len(first) == 0 || len(first) > 9 || at < 0 && first[0]|0x20 != 'e' && first[0]|0x20 != 'i' || at >= 0 && len(p.header) == 0 {
		return false
	}
	columns := wide.Split(strings.ToLower(string(text)), -1)
	if len(columns) > 1 && !isDigit(columns[1][0]) && (columns[0] == "epoch" || columns[0] == "iter" || columns[0] == "e" && columns[1] == "#") {
		p.header = columns
		return true
	}
	if len(columns) != len(p.header) || at < 0 {
		return false
	}
	f := linePosition{epoch: float64(at), epochs: math.NaN(), step: math.NaN(), steps: math.NaN(), result: true}
	found := Row{Line: r.Line}
	for i, c := range columns[1:] {
		v, how := parseNumber([]byte(c), false)
		if how == readText && !strings.Contains(c, ":") && !duration.MatchString(c) {
			return false
		}
		name := strings.ReplaceAll(p.header[1+i], " ", "_") // "train loss"
		p.result(wordRole(name, ""), name, "", &token{number: v, of: math.NaN()}, &f, &found)
		if p.header[1+i] == "#" {
			setPositive(&found, Step, v)
			setPositive(&found, Epoch, f.epoch)
			f.epoch = math.NaN()
		}
	}
	if p.header[0] == "iter" {
		f.epoch, f.step = math.NaN(), f.epoch
	}
	p.position(&f, lineText{}, &found)
	*r = found
	return true
}

// summary parses a line of clu's log writer, which trainings with JAX use: "… logging_writer.py:48] [100] loss=2.3".
func (p *progressParser) summary(text []byte, r *Row) bool {
	_, rest, _ := bytes.Cut(text, []byte("logging_writer.py:"))
	_, rest, _ = bytes.Cut(rest, []byte("] ["))
	step, rest, ok := bytes.Cut(rest, []byte("] "))
	if n := digitsOf(step); ok && n >= 0 && len(step) > 0 && len(step) <= 9 {
		var line lineText
		if p.toks, line = tokenize(rest, p.toks[:0], &p.words); !argumentList(p.toks, line) {
			p.fill(rest, line, r)
			setPositive(r, Step, float64(n))
		}
		return true
	}
	return false
}

// lightningEnd parses Lightning's last line: "`Trainer.fit` stopped: `max_epochs=4` reached."
func (p *progressParser) lightningEnd(text []byte, r *Row) bool {
	if !hasWord(text, "stopped") || !hasWord(text, "reached") {
		return false
	}
	for i := 1; i < len(p.toks); i++ {
		if v := p.toks[i].number; v > 0 && p.toks[i].labeled {
			switch p.toks[i-1].word {
			case "max_epochs":
				r.Set(Epoch, v)
				r.Set(TotalEpochs, v)
				return true
			case "max_steps":
				r.Set(Step, v)
				r.Set(TotalSteps, v)
				return true
			}
		}
	}
	return false
}

// rlTable parses a line of the tables of Stable-Baselines3, of OpenAI's baselines and of Spinning Up, which are printed after
// an iteration, "|    total_timesteps | 128 |", and reports whether it is one.
func (p *progressParser) rlTable(text []byte, r *Row) bool {
	if len(p.toks) != 2 || !p.toks[1].bar || math.IsNaN(p.toks[1].number) || !bytes.HasPrefix(text, []byte("|")) {
		return false
	}
	switch v := p.toks[1].number; p.toks[0].word {
	case "total_timesteps", "misc/total_timesteps", "totalenvinteracts":
		setPositive(r, Step, v)
	case "epoch":
		p.position(&linePosition{epoch: v, epochs: math.NaN(), step: math.NaN(), steps: math.NaN(), result: true}, lineText{}, r)
	case "loss":
		r.Set(TrainLoss, v)
	}
	return true
}

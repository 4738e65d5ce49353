package hdeeprm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// AppendLogs appends a run to the log files in a directory, named as in HDeepRM: rewards.log, losses.log (omitted
// without training) and makespans.log with one number per run, actions.log with one line of actions per run, and
// probs.json with the first distribution of each run.
func (run AgentRun) AppendLogs(dir string) error {
	actions := make([]string, len(run.Actions))
	for i, a := range run.Actions {
		actions[i] = strconv.Itoa(a)
	}
	lines := []struct{ name, line string }{
		{"rewards.log", number(run.Reward)}, {"makespans.log", number(run.Makespan)}, {"actions.log", strings.Join(actions, " ")},
	}
	if run.Loss == run.Loss {
		lines = append(lines, struct{ name, line string }{"losses.log", number(run.Loss)})
	}
	for _, l := range lines {
		if err := appendLine(filepath.Join(dir, l.name), l.line); err != nil {
			return err
		}
	}
	return appendDistribution(filepath.Join(dir, "probs.json"), run.First)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// appendDistribution adds an element to the list in a JSON file by replacing its end, so that the cost does not depend
// on the number of elements.
func appendDistribution(path string, first []float64) error {
	if first == nil {
		first = []float64{}
	}
	element, err := json.Marshal(first)
	if err != nil {
		return fmt.Errorf("add to %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	at, before, err := endOfList(f)
	if err == nil {
		_, err = f.WriteAt([]byte(before+string(element)+"]\n"), at)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("add to %s: %w", path, err)
	}
	return nil
}

// endOfList returns the offset at which the next element of a list of lists is written, and the text before it. An empty
// file is an empty list.
func endOfList(f *os.File) (at int64, before string, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, "[", err
	}
	from := max(0, info.Size()-64)
	end := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(end, from); err != nil {
		return 0, "", err
	}
	end = bytes.TrimRight(end, " \t\r\n")
	list, isList := bytes.CutSuffix(end, []byte("]"))
	list = bytes.TrimRight(list, " \t\r\n")
	switch {
	case isList && bytes.HasSuffix(list, []byte("]")):
		before = ","
	case !isList || from > 0 || string(list) != "[":
		return 0, "", errors.New("it does not end like a list of lists")
	}
	return from + int64(len(list)), before, nil
}

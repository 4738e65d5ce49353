package hdeeprm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// AppendLogs appends a run to the log files in a directory, named as in HDeepRM: rewards.log, losses.log (omitted
// without training) and makespans.log with one number per run, actions.log with one line of actions per run, and
// probs.json with the first distribution of each run.
func AppendLogs(dir string, run AgentRun) error {
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

func appendDistribution(path string, first []float64) error {
	all := [][]float64{}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &all)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("add to %s: %w", path, err)
	}
	if first == nil {
		first = []float64{}
	}
	if b, err = json.Marshal(append(all, first)); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

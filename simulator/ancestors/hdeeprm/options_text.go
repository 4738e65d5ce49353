package hdeeprm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"trainopt/internal/wording"
)

// keysOf lists the valid keys of an options file, by the path of their object.
var keysOf = map[string][]string{
	"":                     {"seed", "nb_resources", "nb_jobs", "workload_file_path", "platform_file_path", "pybatsim"},
	"pybatsim":             {"seed", "log_level", "env", "agent"},
	"pybatsim.env":         {"objective", "actions", "observation", "queue_sensitivity"},
	"pybatsim.env.actions": {"selection", "void"},
	"pybatsim.agent": {"type", "run", "hidden", "lr", "gamma", "policy_pair", "file", "input_model", "output_model",
		"method", "baseline"},
}

// section is an object of an options file.
type section struct {
	path     string
	values   map[string]any
	problems *[]error
}

func (s *section) problem(key, format string, args ...any) {
	*s.problems = append(*s.problems, fmt.Errorf("%s: %s", join(s.path, key), fmt.Sprintf(format, args...)))
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// unknown reports the keys that are not valid in this object.
func (s *section) unknown() {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if slices.Contains(keysOf[s.path], key) {
			continue
		}
		elsewhere := ""
		for _, path := range slices.Sorted(maps.Keys(keysOf)) {
			if slices.Contains(keysOf[path], key) {
				elsewhere = path
			}
		}
		switch {
		case elsewhere != "":
			s.problem(key, "not here: it belongs in %s", elsewhere)
		case slices.Contains(keysOf[""], key):
			s.problem(key, "not here: it belongs at the top")
		default:
			s.problem(key, "unknown key; the nearest is %s", wording.Nearest(key, keysOf[s.path], 1)[0])
		}
	}
}

// inside returns a nested object; its values are nil if it is absent.
func (s *section) inside(key string) *section {
	in := &section{path: join(s.path, key), problems: s.problems}
	switch v := s.values[key].(type) {
	case nil:
	case map[string]any:
		in.values = v
	default:
		s.problem(key, "%s, want an object", show(v))
	}
	in.unknown()
	return in
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil || len(text) > 60 {
		return fmt.Sprintf("%.57v...", v)
	}
	return string(text)
}

func (s *section) text(key string) string {
	v, there := s.values[key]
	text, ok := v.(string)
	if there && !ok {
		s.problem(key, "%s, want a text", show(v))
	}
	return text
}

func (s *section) flag(key string) bool {
	v, there := s.values[key]
	flag, ok := v.(bool)
	if there && !ok {
		s.problem(key, "%s, want true or false", show(v))
	}
	return flag
}

// number returns a number from 0 to high, 0 if it is absent or invalid.
func (s *section) number(key string, high float64) float64 {
	v, there := s.values[key]
	if !there {
		return 0
	}
	n, ok := v.(json.Number)
	f, err := n.Float64()
	if !ok || err != nil || f < 0 || f > high {
		s.problem(key, "%s, want a number from 0 to %v", show(v), high)
		return 0
	}
	return f
}

func (s *section) integer(key string, high float64) int64 {
	f := s.number(key, high)
	if f != math.Trunc(f) {
		s.problem(key, "%v, want a whole number", f)
		return 0
	}
	return int64(f)
}

// override sets "path.to.key=value" in a document and returns the key. The value is parsed as JSON, or else used as a
// string.
func override(document map[string]any, set string) (string, error) {
	key, text, found := strings.Cut(set, "=")
	if !found || key == "" {
		return "", fmt.Errorf("%q: want key=value, as pybatsim.agent.hidden=64", set)
	}
	parts := strings.Split(key, ".")
	in := document
	for _, part := range parts[:len(parts)-1] {
		next, ok := in[part].(map[string]any)
		if !ok {
			if in[part] != nil {
				return key, fmt.Errorf("%s: %s is no object", key, part)
			}
			next = map[string]any{}
			in[part] = next
		}
		in = next
	}
	in[parts[len(parts)-1]] = value(text)
	return key, nil
}

func value(text string) any {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil || d.InputOffset() != int64(len(text)) {
		return text
	}
	return v
}

// place adds the line number to a JSON syntax error.
func place(data []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line := 1 + bytes.Count(data[:min(max(syntax.Offset-1, 0), int64(len(data)))], []byte("\n"))
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

package slurm

import (
	"fmt"
	"strconv"
	"strings"
)

// mostHosts bounds the nodes of one list.
const mostHosts = 1 << 17

// expandHosts returns the nodes of a list such as "n[0-3,07],m1,r[1-2]n[1-4]", with their leading zeros; nil for an
// empty list.
func expandHosts(list string) ([]string, error) {
	var out []string
	for rest := list; rest != ""; {
		end, err := hostEnd(rest)
		if err != nil {
			return nil, fmt.Errorf("node list %q: %w", list, err)
		}
		names, err := expandHost(rest[:end], mostHosts-len(out))
		if err != nil {
			return nil, fmt.Errorf("node list %q: %w", list, err)
		}
		out = append(out, names...)
		rest = strings.TrimPrefix(rest[end:], ",")
		if rest == "" && end < len(list) && strings.HasSuffix(list, ",") {
			return nil, fmt.Errorf("node list %q: a name is missing", list)
		}
	}
	return out, nil
}

// hostEnd returns the end of the first item of a list: a comma outside brackets.
func hostEnd(list string) (int, error) {
	inside := false
	for i := range len(list) {
		switch c := list[i]; {
		case c == '[' && inside, c == ']' && !inside:
			return 0, fmt.Errorf("%q is out of place", c)
		case c == '[' || c == ']':
			inside = !inside
		case c == ',' && !inside:
			return i, nil
		}
	}
	if inside {
		return 0, fmt.Errorf("%q is missing", ']')
	}
	return len(list), nil
}

// expandHost expands the first brackets of an item, and then the rest of it.
func expandHost(item string, most int) ([]string, error) {
	prefix, rest, ok := strings.Cut(item, "[")
	if !ok {
		if item == "" {
			return nil, fmt.Errorf("a name is missing")
		}
		if most < 1 {
			return nil, fmt.Errorf("more than %d nodes", mostHosts)
		}
		return []string{item}, nil
	}
	inner, suffix, _ := strings.Cut(rest, "]")
	tails := []string{""}
	if suffix != "" {
		var err error
		if tails, err = expandHost(suffix, most); err != nil {
			return nil, err
		}
	}
	var out []string
	for _, part := range strings.Split(inner, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		to, err2 := strconv.ParseUint(last, 10, 32)
		if err != nil || err2 != nil || to < from {
			return nil, fmt.Errorf("%q is no range of numbers", part)
		}
		if n := to - from + 1; n > uint64(most) || int(n)*len(tails) > most-len(out) {
			return nil, fmt.Errorf("more than %d nodes", mostHosts)
		}
		for k := from; k <= to; k++ {
			for _, tail := range tails {
				out = append(out, fmt.Sprintf("%s%0*d%s", prefix, len(first), k, tail))
			}
		}
	}
	return out, nil
}
